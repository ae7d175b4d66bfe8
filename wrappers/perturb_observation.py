"""`PerturbObservation`: the perturbation of what a policy sees and does (protocol section 2)."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from roep_gym.arguments import check_names, plain
from roep_gym.episode import EpisodeTracker
from roep_gym.error import InvalidInputError
from roep_gym.typing import JSON, Array, Info
from roep_gym.wrappers.action_channel import ActionChannel, check_actions
from roep_gym.wrappers.frame_history import FrameHistory
from roep_gym.wrappers.frame_keys import (
    boxes_of,
    check_nothing_left,
    find_frame_keys,
    find_vector_keys,
    split_observation,
)
from roep_gym.wrappers.operators.base import Metadata, Modality, modalities_of
from roep_gym.wrappers.operators.registry import find_operator
from roep_gym.wrappers.profiles import Profile
from roep_gym.wrappers.severity import Severity
from roep_gym.wrappers.stack_order import check_order, find_attribute

__all__ = ["PerturbObservation"]

_IMAGE: Modality = "image"
_DEPTH: Modality = "depth"
_VECTOR: Modality = "vector"


class PerturbObservation(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Perturb every observation, the first included, the actions and the instruction by a profile.

    Around any environment with a Dict or Box observation. Images are uint8 of 1, 3 or 4 channels, last or first;
    depth is float metres under keys that end in `_depth`; vectors are `proprio`, and what a profile's targets name;
    everything else passes through. The environment's arrays are
    never modified, and what is returned is a private copy. At severity zero the values are the same bit for bit. A
    profile that would find nothing to perturb is refused, unless both lists of keys are given and empty. So is one that
    would perturb only a part of what looks like frames, or frames that may be stacked, until the keys are given.

    The draws are a pure function of (run id, seed group, episode, step index, observation key, operator), so that they
    depend neither on earlier episodes nor on the environment's generator, which is left alone. Without an episode's
    identity in the reset options, they depend on the last seed and the number of episodes since.

    `severity` scales the profile, by episode where it is drawn or follows a schedule; 0 is the identity.

    `info["perturbation"]` has the `profile`, its `severity` in this episode, `metadata` by observation key, and
    `changed` by key for frames that were rendered. A frame that was not rendered stays zero; its metadata comes from
    the key all the same. A frame that is given later is asked for although nobody looks at it.

    Actions are perturbed as they come, after a shield around this wrapper; `info["actuated_action"]` is what went down,
    and `metadata` and `changed` have an entry "action". The instruction in the `info` of a reset is the one that is
    given; its entry is "instruction", with the environment's own under `info["clean_instruction"]`.

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
        step_budget: int | None = None,
    ) -> None:
        """Work out which arrays are perturbed, and how.

        Args:
            env: The environment.
            profile: A built-in profile's name, or a mapping as `Profile.from_spec` reads it.
            keep_clean: Whether `info["clean_frames"]` holds the clean arrays of rendered frames.
            image_keys: Images to perturb; None: all.
            depth_keys: Depth arrays to perturb; None: all. Two empty lists say that nothing is to be perturbed.
            severity: Factor on the profile's severities, a number or a mapping as `Severity.from_spec` reads it.
            step_budget: Steps of an episode, for an onset or a duration that is a fraction of them.

        Raises:
            UnknownNameError: An unknown profile, operator, parameter or observation key.
            InvalidInputError: A severity is out of its range, a key is not an image or depth array, the profile finds
                nothing to perturb, or only a part of the frames while no keys are given, or the stack below has a
                `RecordEpisode` or another `PerturbObservation`.
        """
        profile, severity = plain(profile), plain(severity)
        resolved = Profile.from_spec(profile)
        in_steps = resolved.resolved(step_budget)
        factor = _fitting(severity, resolved)
        keys = find_frame_keys(env.observation_space, image_keys, depth_keys)
        vectors = [key for key in find_vector_keys(env.observation_space) if resolved.is_for(_VECTOR, key)]
        modalities: dict[str, Modality] = {
            **dict.fromkeys(keys.images, _IMAGE),
            **dict.fromkeys(keys.depths, _DEPTH),
            **dict.fromkeys(vectors, _VECTOR),
        }
        fields = {key: tuple(names) for key, names in find_attribute(env, "observation_fields", {}).items()}
        check_order(env, PerturbObservation)
        check_actions(resolved, env.action_space, find_attribute(env, "control_mode", "relative"))
        if not (image_keys == [] and depth_keys == []):
            _check_effect(resolved, env.observation_space, modalities)
            open_kinds = {
                kind for kind, given in ((_IMAGE, image_keys), (_DEPTH, depth_keys)) if given is None
            }
            check_nothing_left(env, keys, _untargeted(resolved) & open_kinds)
        _check_targets(resolved, modalities, fields)
        gym.utils.RecordConstructorArgs.__init__(
            self,
            profile=profile,
            keep_clean=keep_clean,
            image_keys=image_keys,
            depth_keys=depth_keys,
            severity=severity,
            step_budget=step_budget,
        )
        gym.Wrapper.__init__(self, env)
        self.observation_space = _widened(env.observation_space, modalities, resolved)
        self.profile, self.acting_profile, self.frame_keys = resolved, in_steps, keys
        self.keep_clean = keep_clean
        self._in_steps, self._modalities, self._fields = in_steps, modalities, fields
        self._severity, self._factor = factor, 1.0
        self._tracker = EpisodeTracker()
        self._stream = ("", 0, 0)
        self._step_index = 0
        self._history = FrameHistory(modalities, fields)
        self._actions = ActionChannel(in_steps, env.action_space, self._stream)
        self._acts = resolved.acts_on("action")
        self._request = find_attribute(env, "request_frames")
        self._frames_wanted = True
        self._gives_earlier = any(resolved.max_age(kind, key) for key, kind in modalities.items())
        if self._gives_earlier and self._request is not None:  # otherwise requests pass this wrapper by
            self.request_frames = self._request_frames

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
        self.acting_profile = self._in_steps.scaled(self._factor)
        self._history.begin(self.acting_profile, self._stream)
        self._actions = ActionChannel(self.acting_profile, self.action_space, self._stream)
        self._ask_for_frames(0)
        observation, info = self.env.reset(seed=seed, options=options)
        observation, info = self._perturb(observation, info)
        return observation, self._rewrite(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        """Perturb the action, make a step with it, and perturb its observation."""
        self._ask_for_frames(self._step_index + 1)
        actuated = self._actions.act(action, self._step_index) if self._acts else None
        sent = action if actuated is None else actuated.action
        observation, reward, terminated, truncated, info = self.env.step(sent)
        self._step_index += 1
        observation, info = self._perturb(observation, info)
        if actuated is not None:
            changed = not np.array_equal(actuated.action, action)
            info = {**info, "actuated_action": actuated.action}
            info["perturbation"]["metadata"]["action"] = actuated.metadata
            info["perturbation"]["changed"]["action"] = changed
        return observation, reward, terminated, truncated, info

    def _request_frames(self, wanted: bool) -> None:
        """Ask for the frames that somebody will look at, beside those that are given later."""
        self._frames_wanted = bool(wanted)
        self._ask_for_frames(self._step_index + 1)

    def _ask_for_frames(self, step: int) -> None:
        """Ask for the frames of a step where they are looked at, or given later."""
        if self._gives_earlier and self._request is not None:
            self._request(self._frames_wanted or self._history.needs_frames(step))

    def _perturb(self, observation: Any, info: Info) -> tuple[Any, Info]:
        rendered = bool(info.get("frames_rendered", True))
        step, profile = self._step_index, self.acting_profile
        result: dict[str, Any] = {}
        metadata: dict[str, list[Metadata]] = {}
        changed: dict[str, bool] = {}
        clean_frames: dict[str, Array] = {}
        for key, clean in split_observation(observation).items():
            modality = self._modalities.get(key)
            if modality is None:
                result[key] = deepcopy(clean)
            elif rendered or modality == _VECTOR:
                self._history.keep(key, clean, step)
                shown = self._history.recall(key, clean, step)
                result[key], done = profile.perturb(
                    shown, modality, self._stream, step, key, self._fields.get(key, ())
                )
                metadata[key] = self._history.describe(key, step) + done
                changed[key] = not np.array_equal(result[key], clean)
                if self.keep_clean:
                    clean_frames[key] = clean.copy()
            else:
                result[key] = clean.copy()
                metadata[key] = self._history.describe(key, step) + profile.describe(
                    clean.shape, modality, self._stream, step, key
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

    def _rewrite(self, info: Info) -> Info:
        """Give other words for the instruction of a reset, where the profile acts on it.

        Raises:
            InvalidInputError: The environment gives no instruction.
        """
        if not self.acting_profile.acts_on("instruction"):
            return info
        if "instruction" not in info:
            raise InvalidInputError(
                f"Expected info['instruction'] from reset(), which the profile {self.profile.name!r} acts on, got none."
            )
        clean = info["instruction"]
        given, metadata = self.acting_profile.rewrite(clean, self._stream)
        info["perturbation"]["metadata"]["instruction"] = metadata
        info["perturbation"]["changed"]["instruction"] = given != clean
        return {**info, "instruction": given, "clean_instruction": clean}


def _untargeted(profile: Profile) -> frozenset[Modality]:
    """Return the kinds of arrays that a profile acts on wherever it finds them."""
    return Profile(profile.name, tuple(s for s in profile.settings if not s.targets)).modalities()


def _check_targets(
    profile: Profile, modalities: Mapping[str, Modality], fields: Mapping[str, tuple[str, ...]]
) -> None:
    """Refuse a target that is no array of the observation on which its operator acts, or no entry of one."""
    for setting in profile.settings:
        acted_on = modalities_of(find_operator(setting.operator))
        known = [key for key, modality in modalities.items() if modality in acted_on]
        for target in setting.targets:
            check_names(f"target of {setting.operator!r}", [target.partition(".")[0]], known)
        for key in known:
            setting.entries(key, fields.get(key, ()))


def _fitting(spec: float | dict[str, JSON], profile: Profile) -> Severity:
    """Return the severity of a description, after trying the largest factor on the profile."""
    severity = Severity.from_spec(spec)
    profile.scaled(severity.largest)
    return severity


def _check_effect(profile: Profile, space: spaces.Space[Any], modalities: Mapping[str, Modality]) -> None:
    """Refuse a profile that acts, but on nothing in the space."""
    acts_elsewhere = profile.acts_on("action") or profile.acts_on("instruction")
    if profile.is_identity or acts_elsewhere or profile.modalities() & set(modalities.values()):
        return
    chosen = set(modalities)
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


def _widened(
    space: spaces.Space[Any], modalities: Mapping[str, Modality], profile: Profile
) -> spaces.Space[Any]:
    """Return the space with the values that the profile may give; the same space where they are in it already.

    These are 0 for frames, and any number for what an operator may take out of the range of the clean array.
    """
    boxes = boxes_of(space)
    for key, modality in modalities.items():
        box = boxes[key]
        assert isinstance(box, spaces.Box)
        low, high = np.minimum(box.low, 0), np.maximum(box.high, 0)
        if not profile.keeps_range(modality, key):
            low = np.full_like(low, -np.inf) if modality == _VECTOR else low
            high = np.full_like(high, np.inf)
        if (low < box.low).any() or (high > box.high).any():
            boxes[key] = spaces.Box(low, high, box.shape, box.dtype.type)
    if all(boxes[key] is original for key, original in boxes_of(space).items()):
        return space
    return spaces.Dict(boxes) if isinstance(space, spaces.Dict) else next(iter(boxes.values()))
