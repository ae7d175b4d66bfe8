"""`PerturbObservation`: the perturbation of images and depth (protocol section 2)."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from roep_gym.arguments import plain
from roep_gym.episode import EpisodeTracker
from roep_gym.error import InvalidInputError
from roep_gym.typing import JSON, Array, Info
from roep_gym.wrappers.frame_keys import (
    FrameKeys,
    boxes_of,
    check_nothing_left,
    find_frame_keys,
    split_observation,
)
from roep_gym.wrappers.operators.base import Metadata, Modality
from roep_gym.wrappers.profiles import Profile
from roep_gym.wrappers.severity import Severity
from roep_gym.wrappers.stack_order import check_order

__all__ = ["PerturbObservation"]

_IMAGE: Modality = "image"
_DEPTH: Modality = "depth"


class PerturbObservation(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Perturb the images and the depth of every observation, the first included, by a profile.

    Around any environment with a Dict or Box observation. Images are uint8 of 1, 3 or 4 channels, last or first;
    depth is float metres under keys that end in `_depth`; everything else passes through. The environment's arrays are
    never modified, and what is returned is a private copy. At severity zero the values are the same bit for bit. A
    profile that would find nothing to perturb is refused, unless both lists of keys are given and empty. So is one that
    would perturb only a part of what looks like frames, or frames that may be stacked, until the keys are given.

    The draws are a pure function of (run id, seed group, episode, step index, observation key, operator), so that they
    depend neither on earlier episodes nor on the environment's generator, which is left alone. Without an episode's
    identity in the reset options, they depend on the last seed and the number of episodes since.

    `severity` scales the profile, by episode where it is drawn or follows a schedule; 0 is the identity.

    `info["perturbation"]` has the `profile`, its `severity` in this episode, `metadata` by observation key, and
    `changed` by key for frames that were rendered. A frame that was not rendered stays zero; its metadata comes from
    the key all the same.

    Attributes:
        profile: The profile, before its severity is scaled.
        acting_profile: The profile as it acts in the present episode.
        frame_keys: Keys of the arrays that are perturbed.
        keep_clean: Whether `info["clean_frames"]` is given.

    Example:
        >>> import gymnasium as gym
        >>> import roep_gym
        >>> from roep_gym.wrappers import PerturbObservation
        >>> env = PerturbObservation(gym.make("roep_gym/Tabletop-v0", image_size=32), profile="medium")
        >>> observation, info = env.reset(seed=0)
        >>> info["perturbation"]["metadata"]["agentview_image"][0]["side"]
        10
        >>> int((observation["agentview_image"].max(axis=-1) == 0).sum())
        100
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        profile: str | dict[str, JSON] = "medium",
        keep_clean: bool = False,
        image_keys: list[str] | None = None,
        depth_keys: list[str] | None = None,
        severity: float | dict[str, JSON] = 1.0,
    ) -> None:
        """Work out which arrays are perturbed, and how.

        Args:
            env: The environment.
            profile: A built-in profile's name, or a mapping as `Profile.from_spec` reads it.
            keep_clean: Whether `info["clean_frames"]` holds the clean arrays of rendered frames.
            image_keys: Images to perturb; None: all.
            depth_keys: Depth arrays to perturb; None: all. Two empty lists say that nothing is to be perturbed.
            severity: Factor on the profile's severities, a number or a mapping as `Severity.from_spec` reads it.

        Raises:
            UnknownNameError: An unknown profile, operator, parameter or observation key.
            InvalidInputError: A severity is out of its range, a key is not an image or depth array, the profile finds
                nothing to perturb, or only a part of the frames while no keys are given, or the stack below has a
                `RecordEpisode` or another `PerturbObservation`.
        """
        profile, severity = plain(profile), plain(severity)
        resolved = Profile.from_spec(profile)
        factor = _fitting(severity, resolved)
        keys = find_frame_keys(env.observation_space, image_keys, depth_keys)
        check_order(env, PerturbObservation)
        if not (image_keys == [] and depth_keys == []):
            _check_effect(resolved, env.observation_space, keys)
            open_kinds = {
                kind for kind, given in ((_IMAGE, image_keys), (_DEPTH, depth_keys)) if given is None
            }
            check_nothing_left(env, keys, resolved.modalities() & open_kinds)
        gym.utils.RecordConstructorArgs.__init__(
            self,
            profile=profile,
            keep_clean=keep_clean,
            image_keys=image_keys,
            depth_keys=depth_keys,
            severity=severity,
        )
        gym.Wrapper.__init__(self, env)
        self.observation_space = _with_zero(env.observation_space, keys)
        self.profile, self.acting_profile, self.frame_keys = resolved, resolved, keys
        self.keep_clean = keep_clean
        self._modalities: dict[str, Modality] = {
            **dict.fromkeys(keys.images, _IMAGE),
            **dict.fromkeys(keys.depths, _DEPTH),
        }
        self._severity, self._factor = factor, 1.0
        self._tracker = EpisodeTracker()
        self._stream = ("", 0, 0)
        self._step_index = 0

    def set_severity(self, severity: float | dict[str, JSON]) -> None:
        """Replace the severity from the next episode on, for a curriculum that goes by what was learned.

        Raises:
            InvalidInputError: It is malformed, or takes the profile out of its range.
        """
        self._severity = _fitting(plain(severity), self.profile)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Info]:
        """Begin an episode and perturb its first observation.

        Raises:
            InvalidInputError: The episode's identity names another profile than this wrapper's.
        """
        identity = self._tracker.begin(seed, options, self.unwrapped.np_random_seed)
        named = ((options or {}).get("episode") or {}).get("profile", self.profile.name)
        if named != self.profile.name:
            raise InvalidInputError(
                f"Expected an episode of the profile {self.profile.name!r}, which this wrapper applies, got "
                f"{named!r}; build the environment of each condition with its own profile."
            )
        self._stream, self._step_index = identity.key, 0
        self._factor = self._severity.at(identity.key)
        self.acting_profile = self.profile.scaled(self._factor)
        observation, info = self.env.reset(seed=seed, options=options)
        return self._perturb(observation, info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        """Make a step and perturb its observation."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._step_index += 1
        observation, info = self._perturb(observation, info)
        return observation, reward, terminated, truncated, info

    def _perturb(self, observation: Any, info: Info) -> tuple[Any, Info]:
        rendered = bool(info.get("frames_rendered", True))
        result: dict[str, Any] = {}
        metadata: dict[str, list[Metadata]] = {}
        changed: dict[str, bool] = {}
        clean_frames: dict[str, Array] = {}
        for key, clean in split_observation(observation).items():
            modality = self._modalities.get(key)
            if modality is None:
                result[key] = deepcopy(clean)
            elif rendered:
                result[key], metadata[key] = self.acting_profile.perturb(
                    clean, modality, self._stream, self._step_index, key
                )
                changed[key] = not np.array_equal(result[key], clean)
                if self.keep_clean:
                    clean_frames[key] = clean.copy()
            else:
                result[key] = clean.copy()
                metadata[key] = self.acting_profile.describe(
                    clean.shape, modality, self._stream, self._step_index, key
                )
        report: Info = {
            "profile": self.profile.name,
            "severity": self._factor,
            "metadata": metadata,
            "changed": changed,
        }
        info = {**info, "perturbation": report}
        if self.keep_clean:
            info["clean_frames"] = clean_frames
        return (result if isinstance(observation, dict) else next(iter(result.values()))), info


def _fitting(spec: float | dict[str, JSON], profile: Profile) -> Severity:
    """Return the severity of a description, after trying the largest factor on the profile."""
    severity = Severity.from_spec(spec)
    profile.scaled(severity.largest)
    return severity


def _check_effect(profile: Profile, space: spaces.Space[Any], keys: FrameKeys) -> None:
    """Refuse a profile that acts, but on nothing in the space."""
    reached = {_IMAGE: keys.images, _DEPTH: keys.depths}
    if profile.is_identity or any(reached[modality] for modality in profile.modalities()):
        return
    chosen = {*keys.images, *keys.depths}
    skipped = [
        f"{key!r} ({box.dtype} {box.shape})"
        for key, box in boxes_of(space).items()
        if key not in chosen and isinstance(box, spaces.Box) and len(box.shape) > 1
    ]
    if skipped:
        found = f"only {', '.join(skipped)}, skipped as neither"
    elif chosen:
        found = f"only {', '.join(map(repr, sorted(chosen)))}, on which none of its operators acts"
    else:
        found = "none; vector observations pass through unchanged; nothing would be perturbed"
    raise InvalidInputError(
        f"Expected arrays that the profile {profile.name!r} perturbs (images: uint8 of 3 axes with 1, 3 or 4 channels, "
        "first or last; depth: float of one channel, under a key that ends in '_depth' or is in depth_keys), got "
        f"{found}."
    )


def _with_zero(space: spaces.Space[Any], keys: FrameKeys) -> spaces.Space[Any]:
    """Return the space with 0 among the values of the frames; the same space where it is already."""
    boxes = boxes_of(space)
    for key in (*keys.images, *keys.depths):
        box = boxes[key]
        assert isinstance(box, spaces.Box)
        if (box.low > 0).any():
            boxes[key] = spaces.Box(
                np.minimum(box.low, 0), np.maximum(box.high, 0), box.shape, box.dtype.type
            )
    if all(boxes[key] is original for key, original in boxes_of(space).items()):
        return space
    return spaces.Dict(boxes) if isinstance(space, spaces.Dict) else next(iter(boxes.values()))
