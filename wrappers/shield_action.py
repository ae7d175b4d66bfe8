"""A wrapper that lets a shield act between a policy and the environment.

- ``ShieldAction``: replaces actions whose risk reaches the shield's threshold.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils import RecordConstructorArgs

from roep_gym.error import InvalidInputError, unknown_name
from roep_gym.shields.features import field_indices
from roep_gym.shields.projection import check_proposed_action
from roep_gym.shields.shield import RuntimeShield
from roep_gym.shields.storage import load_shield
from roep_gym.typing import Array, Info
from roep_gym.wrappers.stack_order import check_order

__all__ = ["ShieldAction"]


class ShieldAction(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Replaces a proposed action whose risk reaches the shield's threshold (ROEP protocol, section 6).

    Below the threshold the action goes down as the very object it was. From the threshold on, or when the risk
    is not finite, the shield's projection or its safe refusal goes down instead. After each step `info["shield"]`
    holds risk, threshold, intervened, reason, projection and refused, and `info["executed_action"]` the action
    that was sent down. A proposed action that is not finite or wrongly shaped is never rescued: `step` raises
    `PolicyOutputError`, whatever the shield.

    Example:
        >>> import gymnasium as gym
        >>> from roep_gym.wrappers.shield_action import ShieldAction
        >>> env = gym.make("roep_gym/Tabletop-v0")  # doctest: +SKIP
        >>> env = ShieldAction(env, "runs/example/shields/5f1c.npz")  # doctest: +SKIP
        >>> _, _ = env.reset(seed=0)  # doctest: +SKIP
        >>> _, _, _, _, info = env.step(env.action_space.sample())  # doctest: +SKIP
        >>> info["shield"]["intervened"]  # doctest: +SKIP
        False

    Change logs:
        * v0.1.0 - Initially added.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        shield: str,
        observation_key: str = "proprio",
        field_names: list[str] | None = None,
        terminate_on_refusal: bool = False,
        frames_on_intervention: bool = False,
    ) -> None:
        """Wrap an environment with a Box action and a Dict or Box observation.

        Args:
            env: The environment.
            shield: File of a stored shield, or `module:name` of a function without arguments that returns a
                `RuntimeShield`.
            observation_key: Entry of a Dict observation that holds the shield's fields; a Box observation is taken
                whole.
            field_names: Names of that observation's entries; None takes them from the environment's
                `observation_fields`, or else `<observation_key>_0`, `<observation_key>_1` and so on.
            terminate_on_refusal: Whether a safe refusal ends the episode, after its action was executed, with
                `info["termination"] = "safe_refusal"`.
            frames_on_intervention: Whether the camera frames after an intervention are drawn although nobody asked
                for them, for policies that decide again then (`replan_after_intervention`).

        Raises:
            InvalidInputError: The shield cannot be read, it does not fit the environment's spaces or control mode, or
                the stack below has a `RecordEpisode` or another `ShieldAction`.
        """
        if not isinstance(shield, str) or not shield:
            raise InvalidInputError(f"Expected `shield` to be a file or `module:name`, got {shield!r}.")
        flags = {
            "terminate_on_refusal": terminate_on_refusal,
            "frames_on_intervention": frames_on_intervention,
        }
        for name, flag in flags.items():
            if not isinstance(flag, bool):
                raise InvalidInputError(f"Expected `{name}` to be True or False, got {flag!r}.")
        if field_names is not None and not all(isinstance(name, str) for name in field_names):
            raise InvalidInputError(
                f"Expected `field_names` to be None or a list of names, got {field_names!r}."
            )
        check_order(env, ShieldAction)
        RecordConstructorArgs.__init__(
            self,
            shield=shield,
            observation_key=observation_key,
            field_names=field_names,
            terminate_on_refusal=terminate_on_refusal,
            frames_on_intervention=frames_on_intervention,
        )
        gym.Wrapper.__init__(self, env)

        self.shield = _load(shield)
        self.terminate_on_refusal = terminate_on_refusal
        self.frames_on_intervention = frames_on_intervention
        self._draws_frames = env.has_wrapper_attr("request_frames")
        self._key = observation_key if isinstance(env.observation_space, spaces.Dict) else None
        self._action_size = _check_actions(env, self.shield)
        self._columns = field_indices(self.shield.fields, _names_of(env, observation_key, field_names))
        self._low: Array | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        """Reset the environment; the first observation is what the first action will be assessed under."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._low = self._select(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        """Assess the action, execute what the shield returns.

        Raises:
            PolicyOutputError: The proposed action is not finite or wrongly shaped.
            gymnasium.error.ResetNeeded: `reset` was not called.
        """
        if self._low is None:
            raise ResetNeeded(
                "Expected `reset` before the first `step`, since a shield needs the observation acted on."
            )
        check_proposed_action(action, self._action_size)
        assessment = self.shield.assess(self._low, action)
        looks_again = assessment.intervene and self.frames_on_intervention and self._draws_frames
        if looks_again:
            self.env.get_wrapper_attr("request_frames")(True)
        # Copied before the step: an environment may write into the action it is given.
        with np.errstate(over="ignore"):
            executed = np.array(assessment.action, dtype=np.float32)
        observation, reward, terminated, truncated, inner = self.env.step(assessment.action)
        self._low = self._select(observation)
        shield_info = {
            "risk": float(assessment.risk),
            "threshold": float(assessment.threshold),
            "intervened": bool(assessment.intervene),
            "reason": assessment.reason,
            "projection": assessment.projection,
            "refused": bool(assessment.refused),
        }
        info = {**inner, "shield": shield_info, "executed_action": executed}
        if looks_again:
            info["frames_requested"] = True
        if assessment.refused and self.terminate_on_refusal and not (terminated or truncated):
            terminated, info["termination"] = True, "safe_refusal"
        return observation, reward, terminated, truncated, info

    def _select(self, observation: Any) -> Array:
        """Return a copy of the entries that the shield takes."""
        low = observation if self._key is None else observation[self._key]
        return np.asarray(low)[self._columns]


def _load(shield: str) -> RuntimeShield:
    module, separator, name = shield.partition(":")
    if not separator or Path(shield).exists():
        return load_shield(shield)
    try:
        made = getattr(importlib.import_module(module), name)()
    except (ImportError, AttributeError, TypeError) as error:
        raise InvalidInputError(
            f"Expected {shield!r} to name a function without arguments that returns a shield, but: {error}."
        ) from error
    if not isinstance(made, RuntimeShield):
        raise InvalidInputError(f"Expected {shield!r} to return a RuntimeShield, got {type(made).__name__}.")
    return made


def _check_actions(env: gym.Env[Any, Any], shield: RuntimeShield) -> int:
    """Return the action size, after holding the shield against the action space and the control mode."""
    expected = shield.control_mode
    mode = env.get_wrapper_attr("control_mode") if env.has_wrapper_attr("control_mode") else expected
    if mode != expected:
        raise InvalidInputError(
            f"Expected the control mode {expected!r} for this shield, got an environment in {mode!r} mode; "
            f"make the environment with control_mode={expected!r} or leave the shield out."
        )
    space = env.action_space
    if not isinstance(space, spaces.Box) or space.shape != (shield.action_size,):
        raise InvalidInputError(
            f"Expected a Box action space of shape ({shield.action_size},) for this shield, got {space}."
        )
    low, high = shield.action_bounds
    if not ((space.low == np.float32(low)).all() and (space.high == np.float32(high)).all()):
        raise InvalidInputError(
            f"Expected the action bounds [{low}, {high}] of this shield, got the action space {space}."
        )
    return shield.action_size


def _names_of(env: gym.Env[Any, Any], key: str, given: list[str] | None) -> list[str]:
    """Return the names of the entries of the low-dimensional observation."""
    space = env.observation_space
    if isinstance(space, spaces.Dict):
        if key not in space.spaces:
            raise unknown_name("observation key", key, space.spaces)
        space = space.spaces[key]
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        raise InvalidInputError(f"Expected the observation of a shield to be a Box of one axis, got {space}.")
    size, names = space.shape[0], given
    if names is None and env.has_wrapper_attr("observation_fields"):
        declared: Mapping[str, tuple[str, ...]] = env.get_wrapper_attr("observation_fields")
        names = list(declared[key]) if key in declared else None
    names = [f"{key}_{i}" for i in range(size)] if names is None else names
    if len(names) != size:
        raise InvalidInputError(f"Expected {size} field names for the observation {key!r}, got {len(names)}.")
    return names
