"""`PlainSpec`: the spec of an environment keeps JSON-native arguments, whatever numbers it was made with."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from roep_gym.arguments import plain

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec

__all__ = ["PlainSpec"]


class PlainSpec:
    """A base of environments; `gym.make` sets the spec with the arguments as they were passed."""

    _spec: EnvSpec | None = None

    @property
    def spec(self) -> EnvSpec | None:
        """How `gym.make` made the environment; None where it did not."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        if spec is not None:
            spec = copy(spec)
            spec.kwargs = {name: plain(value) for name, value in spec.kwargs.items()}
        self._spec = spec
