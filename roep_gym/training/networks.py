"""Network parts for learning LIBERO's tasks from few steps of low-dimensional observations.

`NormalizedReLU` steadies a critic, `SelectEntries` shows the networks only what bears on the task, and
`relevant_entries` says which entries those are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn

from roep_gym.error import InvalidInputError, unknown_name

__all__ = ["NormalizedReLU", "SelectEntries", "relevant_entries"]


class NormalizedReLU(nn.Module):
    """Layer normalisation without weights, then ReLU; for `policy_kwargs={"activation_fn": NormalizedReLU}`.

    It keeps a critic from extrapolating to actions that it has not seen, which off-policy learning beside
    demonstrations needs (Ball et al. 2023, "Efficient online reinforcement learning with offline data", section 4.2).
    """

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Normalise over the last dimension and cut off what is negative."""
        return torch.relu(nn.functional.layer_norm(inputs, inputs.shape[-1:]))


class SelectEntries(BaseFeaturesExtractor):
    """Chosen entries of vector observations, one vector; the features extractor of a `MultiInputPolicy`.

    What does not bear on the task, such as the places of other objects, tells the episodes of a small replay buffer
    apart, and a critic learns them by heart. The choice is stored with the model, which takes the whole observation.

    Args:
        observation_space: A Dict of vectors.
        entries: Indices by observation key, in the order of the result.

    Raises:
        InvalidInputError: An observation is missing or is no vector, or an index is out of its range.
    """

    def __init__(self, observation_space: spaces.Dict, entries: Mapping[str, Sequence[int]]) -> None:
        for key, indices in entries.items():
            space = observation_space.spaces.get(key)
            if space is None or space.shape is None or len(space.shape) != 1:
                raise InvalidInputError(
                    f"Expected a vector observation {key!r} to select from, got {observation_space}."
                )
            if not all(0 <= index < space.shape[0] for index in indices):
                raise InvalidInputError(
                    f"Expected indices in 0..{space.shape[0] - 1} of the observation {key!r}, got {list(indices)}."
                )
        super().__init__(observation_space, sum(len(indices) for indices in entries.values()))
        self._entries = {key: list(indices) for key, indices in entries.items()}

    def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        """Return the chosen entries (batch, entries)."""
        return torch.cat([observations[key][:, indices] for key, indices in self._entries.items()], dim=1)


def relevant_entries(fields: Mapping[str, Sequence[str]], objects: Sequence[str]) -> dict[str, list[int]]:
    """Return the entries of `proprio` and `object_state` that bear on a task with these objects.

    Of the proprioception all but the hand's quaternion, whose sign jumps where the hand points down (the joints tell
    the same); of the objects their positions.

    Args:
        fields: Names of the entries by observation, the environment's `observation_fields`.
        objects: Objects, fixtures and regions by LIBERO's names.

    Raises:
        UnknownNameError: The scene has no such object.
    """
    places = {name: index for index, name in enumerate(fields["object_state"])}
    for name in objects:
        if f"{name}_pos_x" not in places:
            known = [field.removesuffix("_pos_x") for field in places if field.endswith("_pos_x")]
            raise unknown_name("object of the scene", name, known)
    return {
        "proprio": [i for i, name in enumerate(fields["proprio"]) if not name.startswith("eef_quat")],
        "object_state": [places[f"{name}_pos_{axis}"] for name in objects for axis in "xyz"],
    }
