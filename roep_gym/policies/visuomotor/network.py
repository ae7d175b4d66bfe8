"""The network that finds the object and the receptacle of an instruction in a camera image.

`Localizer` is a small convolutional network whose features are modulated by the instruction (FiLM) and read out as
the mean positions of attention maps (spatial soft-argmax). `save` and `load` keep it with its vocabulary and its
model card in one safetensors file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from roep_gym.error import InvalidInputError

__all__ = ["CAMERA", "IMAGE_SIZE", "Localizer", "Trained", "cell_centres", "load", "read_words", "save"]

CAMERA, IMAGE_SIZE = "agentview", 128
"""What it looks at: frames of this camera, of so many pixels in height and width."""

_EMBEDDING = 32
_CHANNELS = (16, 32, 32)
_KEYPOINTS = 16


class Localizer(nn.Module):
    """Image and instruction to the places of what the instruction names.

    Args:
        vocabulary: The words that it knows.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, vocabulary: Sequence[str]) -> None:
        super().__init__()
        self.vocabulary = tuple(vocabulary)
        first, second, third = _CHANNELS
        self.embedding = nn.Linear(len(self.vocabulary), _EMBEDDING)
        self.stem = nn.Sequential(
            nn.Conv2d(3, first, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(first, second, 3, stride=2, padding=1),
            nn.BatchNorm2d(second),
            nn.ReLU(),
        )
        self.blocks = nn.ModuleList(_Block(third) for _ in range(3))
        self.films = nn.ModuleList(nn.Linear(_EMBEDDING, 2 * third) for _ in self.blocks)
        self.attention = nn.Conv2d(third, _KEYPOINTS, 1)
        self.head = nn.Sequential(
            nn.Linear(2 * _KEYPOINTS + _EMBEDDING, 128),
            nn.ReLU(),
            nn.Linear(128, 128),
            nn.ReLU(),
            nn.Linear(128, 4),
        )
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("scale", torch.ones(4))

    def forward(self, images: Tensor, words: Tensor) -> Tensor:
        """Return the places, float32 (n, 4): x and y of the object, x and y of the receptacle, in metres.

        Args:
            images: uint8 (n, size, size, 3), upright.
            words: float32 (n, vocabulary), from `read_words`.
        """
        pixels = images.permute(0, 3, 1, 2).float() / 255.0
        return self.places(self.features(pixels, words), words)

    def features(self, pixels: Tensor, words: Tensor) -> Tensor:
        """Return attention maps (n, keypoints, rows, columns) of float32 pixels (n, 3, size, size) in [0, 1].

        The first map is the object's, the second the receptacle's; of the others training makes what helps.
        """
        instruction = self.embedding(words)
        features = self.stem(pixels - 0.5)
        for block, film in zip(self.blocks, self.films, strict=True):
            gain, offset = film(instruction)[:, :, None, None].chunk(2, dim=1)
            features = block(features, gain, offset)
        maps: Tensor = self.attention(features)
        return maps

    def places(self, maps: Tensor, words: Tensor) -> Tensor:
        """Return the places, float32 (n, 4), in metres, from attention maps."""
        weights = maps.flatten(2).softmax(dim=2).view_as(maps)
        rows, columns = (cell_centres(size) for size in maps.shape[2:])
        points = torch.cat([(weights.sum(3) * rows).sum(2), (weights.sum(2) * columns).sum(2)], dim=1)
        normalised: Tensor = self.head(torch.cat([points, self.embedding(words)], dim=1))
        return normalised * self.scale + self.mean


class _Block(nn.Module):
    """A residual block whose features the instruction scales and shifts."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(channels, channels, 3, padding=1)
        self.normalisation = nn.BatchNorm2d(channels)

    def forward(self, features: Tensor, gain: Tensor, offset: Tensor) -> Tensor:
        normalised = self.normalisation(self.convolution(features))
        return features + torch.relu(normalised * (1.0 + gain) + offset)


class Trained(NamedTuple):
    """A network and what is written about it."""

    network: Localizer
    card: Mapping[str, Any]


def cell_centres(size: int) -> Tensor:
    """Return the centres of the cells of a map along one side, from -1 to 1, float32 (size,)."""
    return (2.0 * torch.arange(size) + 1.0) / size - 1.0


def read_words(instruction: str, vocabulary: Sequence[str]) -> Tensor:
    """Return the share of each word of the vocabulary in an instruction, float32 (vocabulary,).

    Raises:
        InvalidInputError: A word is unknown.
    """
    words = instruction.lower().split()
    unknown = [word for word in words if word not in vocabulary]
    if unknown or not words:
        raise InvalidInputError(
            f"Expected an instruction of the words {sorted(vocabulary)}, got {instruction!r}; the network was "
            "trained on no others."
        )
    return torch.tensor([words.count(word) / len(words) for word in vocabulary])


def save(path: Path, trained: Trained) -> None:
    """Write weights, vocabulary and model card to a safetensors file."""
    metadata = {
        "vocabulary": json.dumps(trained.network.vocabulary),
        "card": json.dumps(trained.card, sort_keys=True),
    }
    save_file(
        {name: tensor.contiguous() for name, tensor in trained.network.state_dict().items()}, path, metadata
    )


def load(path: Path) -> Trained:
    """Read what `save` wrote; the network is in evaluation mode.

    Raises:
        InvalidInputError: The file is missing, broken or not one of `save`.
    """
    try:
        with safe_open(path, framework="pt") as archive:
            metadata = archive.metadata() or {}
            weights = {name: archive.get_tensor(name) for name in archive.keys()}  # noqa: SIM118 (not a mapping)
        network = Localizer(json.loads(metadata["vocabulary"]))
        network.load_state_dict(weights)
        card = json.loads(metadata["card"])
    except (OSError, SafetensorError, KeyError, RuntimeError, json.JSONDecodeError) as error:
        raise InvalidInputError(
            f"Expected the weights of a visuomotor policy at {path}, got {type(error).__name__}: {error}. "
            "`roep-gym train-visuomotor` makes them anew."
        ) from error
    return Trained(network.eval(), card)
