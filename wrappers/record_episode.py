"""`RecordEpisode`: the record of every episode (protocol sections 3 and 8)."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import asdict
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from roep_gym.arguments import check_names
from roep_gym.episode import EpisodeIdentity, EpisodeTracker
from roep_gym.episode_record import EpisodeRecord
from roep_gym.error import InvalidInputError, PolicyOutputError
from roep_gym.typing import Array, Info
from roep_gym.wrappers.episode_trace import (
    FRAME_CHOICES,
    EpisodeTrace,
    FrameChoice,
    TraceLayout,
    termination_reason,
)
from roep_gym.wrappers.frame_keys import BOX_KEY, FrameKeys, boxes_of, find_frame_keys, split_observation
from roep_gym.wrappers.perturb_observation import PerturbObservation
from roep_gym.wrappers.stack_order import check_order, find_attribute, find_wrapper

__all__ = ["RecordEpisode"]


class RecordEpisode(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Record every episode; the last step's `info["episode_record"]` is its `EpisodeRecord`.

    The outermost wrapper. An action that is not finite or has another shape ends the episode for the reason
    `invalid_execution` (terminated, reward 0, the last observation again), whether this wrapper or one below finds it;
    it is recorded and counted, but never executed. The reason of an episode is `info["termination"]`; where nobody set
    it, `success` if `info["is_success"]`, `timeout` if truncated, else `unknown` with success -1. An episode that a
    reset cuts short leaves no record; the reset's `info["abandoned_episode"]` tells its identity and steps.

    Frames, by `given_<key>` and `clean_<key>` with the step indices under `step`, are stored for the observations that
    the policy looked at, or for all.

    Example:
        >>> import gymnasium as gym
        >>> import numpy as np
        >>> import roep_gym
        >>> from roep_gym.wrappers import RecordEpisode
        >>> env = RecordEpisode(gym.make("roep_gym/Tabletop-v0"))
        >>> observation, info = env.reset(seed=0)
        >>> observation, reward, terminated, truncated, info = env.step(np.full(7, np.nan))
        >>> terminated, info["episode_record"].summary.reason
        (True, 'invalid_execution')
    """

    def __init__(self, env: gym.Env[Any, Any], frames: FrameChoice = "none") -> None:
        """Work out the columns of the record.

        Args:
            env: The environment; its actions are a Box or Discrete, its observations a Dict or a Box. The
                low-dimensional observation is the Dict's entry `proprio`, or the Box itself when it is a vector.
            frames: Which frames are stored: "none", "looked" (at by the policy) or "all" (every frame is rendered).

        Raises:
            InvalidInputError: The spaces are of another kind, `frames` is unknown, the stack has a recorder already, or
                frames are to be stored and the `PerturbObservation` below does not keep the clean ones.
        """
        check_names("choice of frames", [frames], FRAME_CHOICES)
        check_order(env, RecordEpisode)
        perturbation = find_wrapper(env, PerturbObservation)
        if frames != "none" and perturbation is not None and not perturbation.keep_clean:
            raise InvalidInputError(
                f"Expected PerturbObservation(keep_clean=True) below RecordEpisode(frames={frames!r}), "
                "got keep_clean=False; stored frames come with their clean ones."
            )
        layout = _layout(env, perturbation)
        gym.utils.RecordConstructorArgs.__init__(self, frames=frames)
        gym.Wrapper.__init__(self, env)
        self._layout, self._frames, self._perturbation = layout, frames, perturbation
        self._tracker = EpisodeTracker()
        self._trace: EpisodeTrace | None = None
        self._looked = True
        self._observation: Any = None
        self._last_info: Info = {}

    def request_frames(self, wanted: bool) -> None:
        """Say whether the policy will look at the frames of the observations from now on; recorded as `looked`.

        The environment is asked for all frames where all are stored.
        """
        self._looked = bool(wanted)
        request = find_attribute(self.env, "request_frames")
        if request is not None:
            request(self._looked or self._frames == "all")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        """Begin an episode."""
        abandoned, self._trace = self._trace, None
        identity = self._tracker.begin(seed, options, self.unwrapped.np_random_seed)
        observation, info = self.env.reset(seed=seed, options=options)
        # The environment may have filled in what the identity left open.
        told = EpisodeIdentity.from_options({"episode": info.get("episode_identity")})
        fields = find_attribute(self.env, "observation_fields", {})
        profile = None if self._perturbation is None else self._perturbation.acting_profile.to_spec()
        proprio = tuple(fields.get("proprio", map(str, range(self._layout.proprio_size))))
        self._trace = EpisodeTrace(
            self._layout, self._frames, told or identity, info, proprio=proprio, profile=profile
        )
        self._observe(self._trace, observation, info)
        if abandoned is not None and abandoned.steps:
            info = {**info, "abandoned_episode": {**asdict(abandoned.episode), "steps": abandoned.steps}}
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        """Make a step and record it.

        Raises:
            InvalidInputError: The episode has ended or was never begun.
        """
        trace = self._trace
        if trace is None:
            raise InvalidInputError("Expected an episode in progress, but none is; call reset before step.")
        proposed = _as_array(action)
        try:
            self._check(proposed)
            sent = proposed.astype(self.action_space.dtype)[()]  # a Discrete action is a number
            observation, reward, terminated, truncated, info = self.env.step(sent)
        except PolicyOutputError as error:
            return self._end_invalid(trace, proposed, error)
        trace.act(proposed.ravel(), float(reward), info)
        self._observe(trace, observation, info)
        if terminated or truncated:
            reason = termination_reason(info, truncated=truncated)
            info = {**info, "episode_record": self._finish(trace, reason)}
        return observation, reward, terminated, truncated, info

    def end_episode(self, reason: str, cause: str) -> EpisodeRecord:
        """End the episode from outside, for a reason that no wrapper can see, and return its record.

        Args:
            reason: Termination reason.
            cause: One sentence, kept in the record's attributes.

        Raises:
            InvalidInputError: No episode is in progress.
        """
        if self._trace is None:
            raise InvalidInputError(
                "Expected an episode in progress, but none is; call reset before end_episode."
            )
        return self._finish(self._trace, reason, cause)

    def _observe(self, trace: EpisodeTrace, observation: Any, info: Info) -> None:
        looked = self._looked or bool(info.get("frames_requested"))
        trace.observe(split_observation(observation), info, looked=looked)
        self._observation, self._last_info = observation, info

    def _check(self, proposed: Array) -> None:
        shape = self.action_space.shape or ()
        if proposed.shape != shape:
            raise PolicyOutputError(f"Expected an action of shape {shape}, got {proposed.shape}.")
        if not np.isfinite(proposed).all():
            raise PolicyOutputError(f"Expected an action of finite numbers, got {proposed.tolist()}.")
        if isinstance(self.action_space, spaces.Discrete):
            first, last = self.action_space.start, self.action_space.start + self.action_space.n - 1
            if not float(proposed).is_integer() or not first <= proposed <= last:
                raise PolicyOutputError(
                    f"Expected one of the actions {first} to {last}, got {float(proposed):g}."
                )

    def _end_invalid(
        self, trace: EpisodeTrace, proposed: Array, error: PolicyOutputError
    ) -> tuple[Any, float, bool, bool, Info]:
        trace.refuse(proposed.ravel() if proposed.shape == (self.action_space.shape or ()) else None)
        carried: Info = {
            key: self._last_info[key] for key in ("instruction", "frames_rendered") if key in self._last_info
        }
        info: Info = {
            **carried,
            "is_success": False,
            "termination": "invalid_execution",
            "TimeLimit.truncated": False,
            "episode_record": self._finish(trace, "invalid_execution", str(error)),
        }
        return deepcopy(self._observation), 0.0, True, False, info

    def _finish(self, trace: EpisodeTrace, reason: str, cause: str = "") -> EpisodeRecord:
        self._trace = None
        return trace.finish(reason, cause)


def _as_array(action: Any) -> Array:
    """Return an action as float32; what is not numeric becomes a NaN, and too large a number infinite."""
    try:
        with np.errstate(over="ignore"):
            return np.array(action, dtype=np.float32)
    except (TypeError, ValueError):
        return np.array(np.nan, dtype=np.float32)


def _layout(env: gym.Env[Any, Any], perturbation: PerturbObservation | None) -> TraceLayout:
    keys = find_frame_keys(env.observation_space)
    if perturbation is not None:
        forced = perturbation.frame_keys
        keys = FrameKeys(
            tuple(dict.fromkeys(keys.images + forced.images)),
            tuple(dict.fromkeys(keys.depths + forced.depths)),
        )
    actions = env.action_space
    if isinstance(actions, spaces.Box):
        low, high = actions.low.ravel(), actions.high.ravel()
    elif isinstance(actions, spaces.Discrete):
        low, high = np.array([actions.start]), np.array([actions.start + actions.n - 1])
    else:
        raise InvalidInputError(f"Expected a Box or Discrete action space, got {actions}.")
    boxes = boxes_of(env.observation_space)
    key = "proprio" if "proprio" in boxes else BOX_KEY
    vector = key in boxes and len(boxes[key].shape or ()) == 1
    size = int(np.prod(boxes[key].shape or ())) if vector else 0
    channels = tuple(find_attribute(env, "unsafe_channels", ()))
    perturbed = perturbation is not None and perturbation.profile.acts_on("action")
    return TraceLayout(
        low, high, key if vector else None, size, keys.images, keys.depths, channels, perturbed
    )
