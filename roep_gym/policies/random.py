"""A policy that acts at random: the floor of every comparison, and a load for tests."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from roep_gym import seeding
from roep_gym.arguments import read_integer
from roep_gym.contracts import RuntimeContract
from roep_gym.policies.base import ObservationRequest, PolicyEpisode, PolicyInput
from roep_gym.policies.revision import source_revision
from roep_gym.typing import Array

__all__ = ["RandomPolicy"]


class RandomPolicy:
    """Draws each action uniformly in [-1, 1], keyed by the episode's seed and the step; it looks at nothing.

    Args:
        chunk: Actions in a chunk, all of them meant to be executed.
        action_dimension: Entries of an action.

    Raises:
        InvalidInputError: An argument is not a positive integer.
    """

    def __init__(self, chunk: int = 1, action_dimension: int = 7) -> None:
        chunk = read_integer("chunk", chunk, 1)
        self._shape = (chunk, read_integer("action_dimension", action_dimension, 1))
        self._revision = source_revision(sys.modules[__name__])
        self._seeds: dict[str, int] = {}
        self.observations = ObservationRequest()
        self.contract = RuntimeContract.applicable(
            checkpoint_revision=self._revision,
            runtime_bridge="any",
            control_mode="relative",
            chunk_length=chunk,
            executed_steps=chunk,
            replan_after_intervention=False,
            settle_steps=10,
            suite="any",
            mujoco="any",
            robosuite="any",
        )

    def observed(self) -> Mapping[str, Any]:
        """Return the hash of the code."""
        return {"checkpoint_revision": self._revision}

    def begin(self, episode: PolicyEpisode) -> None:
        """Open an episode."""
        self._seeds[episode.key] = episode.seed

    def act(self, inputs: Sequence[PolicyInput]) -> list[Array]:
        """Return one chunk (chunk, action dimension) float32 in [-1, 1] for each input."""
        return [self._draw(given) for given in inputs]

    def end(self, episode: str) -> None:
        """Forget an episode."""
        self._seeds.pop(episode, None)

    def close(self) -> None:
        """Forget all episodes."""
        self._seeds.clear()

    def _draw(self, given: PolicyInput) -> Array:
        actions = [
            seeding.generator("random policy", self._seeds[given.episode], given.step + i).uniform(
                -1.0, 1.0, self._shape[1]
            )
            for i in range(self._shape[0])
        ]
        return np.asarray(actions, dtype=np.float32)
