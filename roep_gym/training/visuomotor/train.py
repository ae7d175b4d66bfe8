"""Training of the localiser on collected scenes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from roep_gym import seeding
from roep_gym.arguments import read_number
from roep_gym.policies.visuomotor.network import Localizer, cell_centres, read_words
from roep_gym.training.visuomotor.collect import Scenes
from roep_gym.typing import FloatArray

__all__ = ["FitConfig", "Outcome", "localisation_errors", "train"]


@dataclass(frozen=True)
class FitConfig:
    """How the localiser is trained.

    Attributes:
        epochs: Passes over the frames.
        batch_size: Frames in a batch.
        learning_rate: Peak of the one-cycle schedule of AdamW.
        weight_decay: Weight decay of AdamW.
        erasing: Share of the frames in which a rectangle is erased.
        held_out: Share of each task's rollouts that is kept aside to measure localisation.
        seed: Seed of the initial weights, the batches and the augmentation.
    """

    epochs: int = 30
    batch_size: int = 64
    learning_rate: float = 3e-3
    weight_decay: float = 1e-3
    erasing: float = 0.5
    held_out: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        read_number("erasing", self.erasing, 0, 1)


class Outcome(NamedTuple):
    """What training gave.

    Attributes:
        network: The trained network, in evaluation mode.
        errors: Distances between estimated and true place on the frames held out, by instruction: float64 (n, 2),
            object and receptacle, in metres.
        frames: Frames that were trained on.
        seconds: Wall-clock time.
    """

    network: Localizer
    errors: Mapping[str, FloatArray]
    frames: int
    seconds: float


class _Frames(NamedTuple):
    """Frames with their places, whether the object is held, and the index of each frame's instruction."""

    images: Tensor
    places: Tensor
    points: Tensor
    held: Tensor
    instruction: Tensor


def train(scenes: Mapping[str, Scenes], config: FitConfig) -> Outcome:
    """Train a localiser on scenes by instruction."""
    started = time.monotonic()
    instructions = sorted(scenes)
    vocabulary = sorted({word for instruction in instructions for word in instruction.lower().split()})
    seen, kept = _split(scenes, instructions, config.held_out)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seeding.seed("visuomotor", "train", config.seed))
        network = Localizer(vocabulary)
        _fit(network, seen, torch.stack([read_words(text, vocabulary) for text in instructions]), config)
    network.eval()
    errors = {
        text: localisation_errors(network, text, kept.images[chosen], kept.places[chosen])
        for i, text in enumerate(instructions)
        for chosen in [(kept.instruction == i) & ~kept.held]
    }
    return Outcome(network, errors, len(seen.images), time.monotonic() - started)


def localisation_errors(network: Localizer, instruction: str, images: Tensor, places: Tensor) -> FloatArray:
    """Return the distances between estimated and true place, float64 (n, 2), object and receptacle, in metres.

    The frames, images uint8 (n, size, size, 3) and places float32 (n, 4) in metres, share one instruction.
    """
    words = read_words(instruction, network.vocabulary)
    with torch.inference_mode():
        found = torch.cat([network(part, words.expand(len(part), -1)) for part in torch.split(images, 64)])
    distances: FloatArray = (found - places).view(-1, 2, 2).norm(dim=2).double().numpy()
    return distances


def _split(scenes: Mapping[str, Scenes], instructions: list[str], held_out: float) -> tuple[_Frames, _Frames]:
    """Return the frames to train on and those of the last rollouts of each task, which are held out."""
    parts: tuple[list[_Frames], list[_Frames]] = ([], [])
    for i, text in enumerate(instructions):
        images, places, points, held, rollouts = scenes[text]
        first_held_out = round((1.0 - held_out) * (int(rollouts.max()) + 1))
        for part, chosen in zip(parts, (rollouts < first_held_out, rollouts >= first_held_out), strict=True):
            part.append(
                _Frames(
                    torch.from_numpy(images[chosen]),
                    torch.from_numpy(places[chosen]),
                    torch.from_numpy(points[chosen]),
                    torch.from_numpy(held[chosen]),
                    torch.full((int(chosen.sum()),), i),
                )
            )
    seen, kept = (_Frames(*(torch.cat(tensors) for tensors in zip(*part, strict=True))) for part in parts)
    return seen, kept


def _fit(network: Localizer, frames: _Frames, words: Tensor, config: FitConfig) -> None:
    network.mean.copy_(frames.places.mean(0))
    network.scale.copy_(frames.places.std(0))
    network.train()
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # PyTorch's stub lacks it
    steps = config.epochs * (len(frames.images) // config.batch_size)
    optimiser = torch.optim.AdamW(
        network.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, config.learning_rate, total_steps=steps, pct_start=0.1
    )
    centimetres = 100.0
    loss_of = nn.SmoothL1Loss(reduction="none")
    for batch in _batches(frames, config):
        pixels = _augment(batch.images.permute(0, 3, 1, 2).float() / 255.0, config.erasing)
        with torch.autocast("cpu", torch.bfloat16):
            maps = network.features(pixels, words[batch.instruction])
        found = network.places(maps.float(), words[batch.instruction])
        asked = torch.ones(len(batch.held), 2)
        asked[batch.held, 0] = 0.0
        misplaced = loss_of(centimetres * found, centimetres * batch.places).view(-1, 2, 2).mean(2)
        loss = (asked * (misplaced + _attention_loss(maps.float(), batch.points))).mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        schedule.step()


def _batches(frames: _Frames, config: FitConfig) -> Iterator[_Frames]:
    count = len(frames.images) // config.batch_size
    for _ in range(config.epochs):
        order = torch.randperm(len(frames.images))
        for batch in torch.split(order[: count * config.batch_size], config.batch_size):
            yield _Frames(*(tensor[batch] for tensor in frames))


def _attention_loss(maps: Tensor, points: Tensor) -> Tensor:
    """Return the cross-entropy (n, 2) between the maps of object and receptacle and a bell of one cell's width.

    Without it a map takes long to find a thing of a few pixels.
    """
    rows, columns = (cell_centres(size) for size in maps.shape[2:])
    width = 2.0 / maps.shape[2]
    aim_rows = torch.softmax(-(((rows - points[:, :, :1]) / width) ** 2) / 2.0, dim=2)
    aim_columns = torch.softmax(-(((columns - points[:, :, 1:]) / width) ** 2) / 2.0, dim=2)
    aim = aim_rows[:, :, :, None] * aim_columns[:, :, None, :]
    return -(aim.flatten(2) * maps[:, :2].flatten(2).log_softmax(dim=2)).sum(dim=2)


def _augment(pixels: Tensor, erasing: float) -> Tensor:
    """Return pixels under other light, with a little sensor noise, and a share of them with a rectangle erased.

    The erased rectangle is that of random erasing (Zhong et al. 2020, arXiv:1708.04896) with its published ranges.
    """
    n = len(pixels)
    gain = 1.0 + 0.15 * torch.randn(n, 1, 1, 1) + 0.05 * torch.randn(n, 3, 1, 1)
    offset = 0.05 * torch.randn(n, 1, 1, 1)
    noise = 0.02 * torch.rand(n, 1, 1, 1) * torch.randn_like(pixels)
    return _erase((gain * pixels + offset + noise).clamp(0.0, 1.0), erasing)


def _erase(pixels: Tensor, share: float) -> Tensor:
    n, _, height, width = pixels.shape
    area = torch.empty(n).uniform_(0.02, 0.4)
    aspect = torch.empty(n).uniform_(math.log(0.3), math.log(1.0 / 0.3)).exp()
    rows = (height * (area * aspect).sqrt()).clamp(max=height)
    columns = (width * (area / aspect).sqrt()).clamp(max=width)
    top, left = torch.rand(n) * (height - rows), torch.rand(n) * (width - columns)
    row, column = torch.arange(height)[None], torch.arange(width)[None]
    in_rows = (row >= top[:, None]) & (row < (top + rows)[:, None])
    in_columns = (column >= left[:, None]) & (column < (left + columns)[:, None])
    erased = in_rows[:, :, None] & in_columns[:, None, :] & (torch.rand(n) < share)[:, None, None]
    return torch.where(erased[:, None], torch.rand(n, 3, 1, 1), pixels)
