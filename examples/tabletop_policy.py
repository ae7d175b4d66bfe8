"""A complete policy, for the task `tabletop/carry`: it looks at one frame and answers with a chunk of actions.

PYTHONPATH=examples roep-gym evaluate --policy tabletop_policy:SightedPolicy --task tabletop/carry --quick
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from roep_gym import RuntimeContract
from roep_gym.envs import sighted_policy
from roep_gym.policies import ObservationRequest, PolicyEpisode, PolicyInput


class SightedPolicy:
    """Carries the disc to the square, as far as the frame shows both.

    Args:
        patience: Looks after which an episode is given up.
    """

    def __init__(self, patience: int = 1000) -> None:
        self.observations = ObservationRequest(cameras=("agentview",), image_size=64)
        self.contract = RuntimeContract.applicable(
            cameras=["agentview"],
            resolution=64,
            control_mode="relative",
            chunk_length=1,
            executed_steps=1,
            replan_after_intervention=False,
            settle_steps=10,
            suite="tabletop",
        )
        self._patience = patience
        self._looks: dict[str, int] = {}

    def observed(self) -> Mapping[str, Any]:
        """Return what only the policy can measure; this one has no weights, and the evaluation sees the rest."""
        return {}

    def begin(self, episode: PolicyEpisode) -> None:
        """Open an episode; whatever is remembered, is remembered under its key."""
        self._looks[episode.key] = 0

    def act(self, inputs: Sequence[PolicyInput]) -> Sequence[np.ndarray]:
        """Return a chunk (1, 7) for each decision that is due."""
        return [self._decide(given) for given in inputs]

    def end(self, episode: str) -> None:
        """Forget an episode."""
        self._looks.pop(episode, None)

    def close(self) -> None:
        """Nothing to release."""

    def _decide(self, given: PolicyInput) -> np.ndarray:
        self._looks[given.episode] += 1
        if self._looks[given.episode] > self._patience:
            return np.zeros((1, 7), dtype=np.float32)
        return sighted_policy(given.observation)[np.newaxis]
