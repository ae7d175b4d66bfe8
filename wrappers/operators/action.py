"""Faults between shield and actuator: `action_noise`, `_bias`, `_gain`, `_latency`, `_hold` and `_drop`.

They see the action that the shield let pass; what they send is clipped to the action bounds. Strengths are ours, in
parts of the largest action of LIBERO, which is 1.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np

from roep_gym.seeding import Key
from roep_gym.typing import JSON, Array
from roep_gym.wrappers.operators.base import ActionOperator, Metadata, PerturbationKey
from roep_gym.wrappers.operators.levels import KEYFRAME, at_level, is_lost, last_delivered, signs

__all__ = ["ActionBias", "ActionDrop", "ActionGain", "ActionHold", "ActionLatency", "ActionNoise"]

_ERRORS = (0.02, 0.05, 0.1, 0.2, 0.3)
_LATENCIES = (1, 2, 3, 5, 8)
_LOSSES = (0.05, 0.1, 0.2, 0.35, 0.5)


class _Operator(ActionOperator):
    """Draws in `draw`, with a level above zero, and changes an action in `change`."""

    @abstractmethod
    def draw(self, size: int, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Return what is done, JSON-native."""

    @abstractmethod
    def change(self, actions: Sequence[Array], done: Metadata) -> Array:
        """Return what is executed, for a level above zero."""

    def describe(self, size: int, severity: float, key: tuple[Key, ...]) -> Metadata:
        """Return the metadata: `severity`, and what `draw` says."""
        level = self.check(severity)
        drawn = self.draw(size, level, PerturbationKey.of(key)) if level else {}
        return {"operator": self.name, "severity": level, **drawn}

    def rebuild(self, actions: Sequence[Array], metadata: Metadata) -> Array:
        """Return the executed action."""
        present = actions[-1]
        if not metadata["severity"]:
            return present.copy()
        return np.array(self.change(actions, metadata), dtype=present.dtype).reshape(present.shape)


class _Added(_Operator):
    """Adds `error`, one number for each entry."""

    def change(self, actions: Sequence[Array], done: Metadata) -> Array:
        """Add the error."""
        return np.asarray(actions[-1] + np.reshape(done["error"], actions[-1].shape))


class ActionNoise(_Added):
    """Adds normal noise with a deviation of 0.02, 0.05, 0.1, 0.2, 0.3, new at each step."""

    def draw(self, size: int, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Draw the error of the step."""
        return {"error": (at_level(_ERRORS, level) * key.generator().standard_normal(size)).tolist()}


class ActionBias(_Added):
    """Adds 0.02, 0.05, 0.1, 0.2, 0.3 with a sign of its own to every entry, the same in the whole episode."""

    def draw(self, size: int, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Draw the error of the episode."""
        return {"error": (at_level(_ERRORS, level) * signs(key.lasting(), size)).tolist()}


class ActionGain(_Operator):
    """Weaker actuators: `gain` 0.9, 0.8, 0.7, 0.55, 0.4 on every entry."""

    def draw(self, size: int, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Return the gain."""
        return {"gain": at_level((0.9, 0.8, 0.7, 0.55, 0.4), level, identity=1)}

    def change(self, actions: Sequence[Array], done: Metadata) -> Array:
        """Weaken the action."""
        return np.asarray(actions[-1] * done["gain"])


class _Earlier(_Operator):
    """Sends the action of `age` steps before, or zeros before the first one; metadata: `age`."""

    def change(self, actions: Sequence[Array], done: Metadata) -> Array:
        """Return the earlier action."""
        age = done["age"]
        return actions[-1 - age] if age < len(actions) else np.zeros_like(actions[-1])


class ActionLatency(_Earlier):
    """Every action arrives 1, 2, 3, 5, 8 steps late; until the first one arrives, the robot is sent zeros."""

    max_age, stops_motion = _LATENCIES[-1], True

    def draw(self, size: int, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Return the age."""
        return {"age": round(at_level(_LATENCIES, level))}


class ActionHold(_Earlier):
    """Each action is lost with the probability 0.05, 0.1, 0.2, 0.35, 0.5; the last one that arrived is sent again.

    The first of every 20 actions always arrives.
    """

    max_age = KEYFRAME - 1

    def draw(self, size: int, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Work out the age."""
        return {"age": key.step - last_delivered(at_level(_LOSSES, level), key)}


class ActionDrop(_Operator):
    """Each action is lost with the probability 0.05, 0.1, 0.2, 0.35, 0.5; zeros are sent instead; metadata: `lost`."""

    stops_motion = True

    def draw(self, size: int, level: float, key: PerturbationKey) -> Mapping[str, JSON]:
        """Draw whether the action is lost."""
        return {"lost": is_lost(at_level(_LOSSES, level), key)}

    def change(self, actions: Sequence[Array], done: Metadata) -> Array:
        """Return zeros where the action is lost."""
        return np.zeros_like(actions[-1]) if done["lost"] else actions[-1]
