"""A function from an observation to an action, as a policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from roep_gym.contracts import RuntimeContract
from roep_gym.policies.base import ObservationRequest, PolicyEpisode, PolicyInput
from roep_gym.typing import Array, Observation

__all__ = ["FunctionPolicy"]


class FunctionPolicy:
    """Asks a function of the observation for one action a step; it remembers nothing.

    Args:
        function: Maps an observation to an action, shape (action dimension,), or to a chunk (steps, action dimension).
        observations: What the function looks at.
        contract: The runtime it was made for.
    """

    def __init__(
        self,
        function: Callable[[Observation], Array],
        observations: ObservationRequest,
        contract: RuntimeContract,
    ) -> None:
        self._function, self.observations, self.contract = function, observations, contract
        self._longest = 0

    def observed(self) -> Mapping[str, Any]:
        """Return how the function was reached and the longest chunk that it gave."""
        return {"runtime_bridge": "in-process", "chunk_length": self._longest}

    def begin(self, episode: PolicyEpisode) -> None:
        """Nothing to prepare."""

    def act(self, inputs: Sequence[PolicyInput]) -> list[Array]:
        """Return one chunk for each input."""
        answers = [np.asarray(self._function(given.observation)) for given in inputs]
        chunks = [answer[np.newaxis] if answer.ndim == 1 else answer for answer in answers]
        self._longest = max([self._longest, *(len(chunk) for chunk in chunks)])
        return chunks

    def end(self, episode: str) -> None:
        """Nothing to forget."""

    def close(self) -> None:
        """Nothing to release."""
