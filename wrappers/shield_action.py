"""`ShieldAction`: a shield between the policy and the environment (protocol section 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.utils import RecordConstructorArgs

from roep_gym.arguments import check_names
from roep_gym.error import InvalidInputError, ShieldError
from roep_gym.shields.base import Assessment, RuntimeShield, check_assessment, reset_shield
from roep_gym.shields.features import field_indices
from roep_gym.shields.projection import check_proposed_action
from roep_gym.shields.registry import find_shield
from roep_gym.typing import Array, Info
from roep_gym.wrappers.stack_order import check_order, find_attribute

__all__ = ["ShieldAction"]


class ShieldAction(gym.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Replaces a proposed action whose risk reaches the shield's threshold (ROEP protocol, section 6).

    Below the threshold the action goes down as the very object it was. From the threshold on, or when the risk
    is not finite, the shield's projection or its safe refusal goes down instead. After each step `info["shield"]`
    holds risk, threshold, intervened, reason, projection and refused, and `info["executed_action"]` the action
    that was sent down. A proposed action that is not finite or wrongly shaped is never rescued: `step` raises
    `PolicyOutputError`, whatever the shield. A shield that raises, or whose answer cannot be executed, makes `step`
    raise `ShieldError` before anything is executed.

    Example:
        >>> import gymnasium as gym
        >>> import numpy as np
        >>> import roep_gym
        >>> from roep_gym.shields import Assessment
        >>> from roep_gym.wrappers import ShieldAction
        >>> class HalfSpeed:
        ...     fields, action_size, action_bounds, control_mode = ("eef_pos_x",), 7, (-1.0, 1.0), "relative"
        ...     def assess(self, low, action):
        ...         return Assessment(0.9, 0.5, True, "threshold_reached", "projected", action / 2, False)
        >>> env = ShieldAction(gym.make("roep_gym/Tabletop-v0"), HalfSpeed())
        >>> observation, info = env.reset(seed=0)
        >>> observation, reward, terminated, truncated, info = env.step(np.ones(7, dtype=np.float32))
        >>> info["shield"]["projection"], info["executed_action"].tolist()
        ('projected', [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5])
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        shield: str | RuntimeShield,
        observation_key: str = "proprio",
        field_names: list[str] | None = None,
        terminate_on_refusal: bool = False,
        frames_on_intervention: bool = False,
    ) -> None:
        """Wrap an environment with a Box action and a Dict or Box observation.

        Args:
            env: The environment.
            shield: File of a stored shield, a registered name, `module:attribute` of a `RuntimeShield` or of what makes
                one without arguments, or a `RuntimeShield` itself; `env.spec` then has no JSON form.
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
            _disable_deepcopy=True,  # a shield may hold what cannot be copied
            shield=shield,
            observation_key=observation_key,
            field_names=None if field_names is None else list(field_names),
            **flags,
        )
        gym.Wrapper.__init__(self, env)

        self.shield = find_shield(shield)
        self._name = repr(shield) if isinstance(shield, str) else type(shield).__name__
        self.terminate_on_refusal = terminate_on_refusal
        self.frames_on_intervention = frames_on_intervention
        self._draws_frames = env.has_wrapper_attr("request_frames")
        self._key = observation_key if isinstance(env.observation_space, spaces.Dict) else None
        self._action_size = _check_actions(env, self.shield)
        self._columns = field_indices(self.shield.fields, _names_of(env, observation_key, field_names))
        self._low: Array | None = None

    @property
    def spec(self) -> EnvSpec | None:  # type: ignore[override]
        """The specification that rebuilds the stack; of a shield given as an object, in this process alone."""
        if not isinstance(self._saved_kwargs["shield"], str):
            gym.logger.warn(
                "Expected a shield by file, name or 'module:attribute' in `env.spec`, got an object of "
                f"{self._name}: the specification has no JSON form and rebuilds the stack in this process alone."
            )
        return super().spec

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        """Reset the shield and the environment; the first action will be assessed under the first observation.

        Raises:
            ShieldError: The shield's `reset` raised.
        """
        self._low = None
        try:
            reset_shield(self.shield)
        except Exception as error:
            raise self._failed("be reset", error) from error
        observation, info = self.env.reset(seed=seed, options=options)
        self._low = self._select(observation)
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, Info]:
        """Assess the action, execute what the shield returns.

        Raises:
            PolicyOutputError: The proposed action is not finite or wrongly shaped.
            ShieldError: The shield raised, or `check_assessment` refuses its answer; nothing was executed.
            gymnasium.error.ResetNeeded: `reset` was not called.
        """
        if self._low is None:
            raise ResetNeeded(
                "Expected `reset` before the first `step`, since a shield needs the observation acted on."
            )
        check_proposed_action(action, self._action_size)
        assessment = self._assess(self._low, action)
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

    def _assess(self, low: Array, action: Any) -> Assessment:
        """Return the shield's answer; whatever is wrong with it is the shield's failure."""
        proposed = np.array(action)
        try:
            answer = self.shield.assess(low, action)
        except Exception as error:
            raise self._failed("assess an action", error) from error
        return check_assessment(answer, proposed, self._name)

    def _failed(self, what: str, error: Exception) -> ShieldError:
        return ShieldError(
            f"Expected the shield {self._name} to {what}, but it raised {type(error).__name__}: {error}; nothing was "
            "executed, correct the shield."
        )

    def _select(self, observation: Any) -> Array:
        """Return a copy of the entries that the shield takes."""
        low = observation if self._key is None else observation[self._key]
        return np.asarray(low)[self._columns]


def _check_actions(env: gym.Env[Any, Any], shield: RuntimeShield) -> int:
    """Return the action size, after holding the shield against the action space and the control mode."""
    expected = shield.control_mode
    mode = find_attribute(env, "control_mode", expected)
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
    # In absolute control the bounds are those of a workspace, and the shield goes less far than the policy.
    if mode == "relative" and not (
        (space.low == np.float32(low)).all() and (space.high == np.float32(high)).all()
    ):
        raise InvalidInputError(
            f"Expected the action bounds [{low}, {high}] of this shield, got the action space {space}; set action_low "
            "and action_high in its ProjectionConfig, or wrap the environment so that its actions have these bounds."
        )
    return shield.action_size


def _names_of(env: gym.Env[Any, Any], key: str, given: list[str] | None) -> list[str]:
    """Return the names of the entries of the low-dimensional observation."""
    space = env.observation_space
    if isinstance(space, spaces.Dict):
        check_names("observation key", [key], space.spaces)
        space = space.spaces[key]
    if not isinstance(space, spaces.Box) or len(space.shape) != 1:
        raise InvalidInputError(f"Expected the observation of a shield to be a Box of one axis, got {space}.")
    size, names = space.shape[0], given
    if names is None:
        declared: Mapping[str, Sequence[str]] = find_attribute(env, "observation_fields", {})
        names = list(declared.get(key, [f"{key}_{i}" for i in range(size)]))
    if len(names) != size:
        raise InvalidInputError(f"Expected {size} field names for the observation {key!r}, got {len(names)}.")
    return names
