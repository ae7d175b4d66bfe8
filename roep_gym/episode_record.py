"""The record of one episode, as it travels from a rollout to the journal.

`EpisodeRecord` holds plain values and arrays only, so that it crosses processes and files unchanged: `EpisodeSummary`
are its numbers, `EpisodeAttributes` what else is constant over the episode. A number that is added to the summary is
a variable of the Dataset by its `Variable`. `REASONS` and `UNSAFE_CHANNELS` are the vocabularies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from roep_gym.episode import EpisodeIdentity
from roep_gym.typing import JSON, Array

__all__ = [
    "NOT_RUN",
    "REASONS",
    "UNSAFE_CHANNELS",
    "EpisodeAttributes",
    "EpisodeRecord",
    "EpisodeSummary",
    "Variable",
]

REASONS: tuple[str, ...] = ("success", "timeout", "unsafe_attempt", "invalid_execution", "safe_refusal")
"""Termination reasons that are outcomes, in the order of their codes; an aborted episode has no outcome."""

UNSAFE_CHANNELS: tuple[str, ...] = (
    "action_bounds",
    "workspace",
    "contact_force",
    "joint_limit",
    "object_dropped",
)
"""Channels of unsafe attempts, in the order of their columns."""

NOT_RUN = -1
"""The value of an integer that was not recorded: the episode was not run, or nothing measured it."""


@dataclass(frozen=True)
class Variable:
    """A variable of the Dataset.

    Attributes:
        dtype: NumPy's name of the type, or "str".
        fill: The value where nothing was recorded.
        long_name: What it is.
        units: Units as in the CF conventions.
        timing: Whether it differs between identical runs.
    """

    dtype: str
    fill: Any
    long_name: str
    units: str = "1"
    timing: bool = False


def _count(long_name: str, dtype: str = "int32") -> Mapping[str, Variable]:
    return {"variable": Variable(dtype, NOT_RUN, long_name)}


def _measure(long_name: str, units: str = "1", *, timing: bool = False) -> Mapping[str, Variable]:
    return {"variable": Variable("float64", math.nan, long_name, units, timing)}


@dataclass(frozen=True, kw_only=True)
class EpisodeSummary:
    """The numbers of an episode; each says in its metadata which `Variable` of the Dataset it becomes.

    `reason` is one of `REASONS` (stored as its code), or "unknown" where nothing tells; `unsafe_channel_attempts` maps
    each of `UNSAFE_CHANNELS` to a count, -1 where it was not active. What the recorder cannot know has a default.
    """

    success: int = field(metadata=_count("success: 1, failure: 0, not run: -1", "int8"))
    reason: str = field(metadata=_count("termination reason; not run: -1", "int8"))
    steps: int = field(metadata=_count("control steps, settling steps excluded"))
    recorded_steps: int = field(metadata=_count("step records that exist; -1 where no steps are kept"))
    max_abs_action: float = field(metadata=_measure("largest absolute entry of the proposed actions"))
    nonfinite_actions: int = field(metadata=_count("proposed actions that are not finite or wrongly shaped"))
    intervention_steps: int = field(metadata=_count("steps with an applied shield action, refusals included"))
    refusals: int = field(metadata=_count("steps with a safe refusal"))
    risk_steps: int = field(metadata=_count("steps with a shield risk score"))
    interventions: int = field(metadata=_count("steps at which the shield intervened"))
    crossings: int = field(metadata=_count("steps whose risk reached the threshold"))
    unsafe_attempts: int = field(metadata=_count("steps with an unsafe attempt in any active channel"))
    unsafe_channel_attempts: Mapping[str, int]
    repeated_actions: int = field(metadata=_count("proposed actions equal to the one before"))
    clipped_actions: int = field(metadata=_count("proposed actions outside the action bounds"))
    unique_actions: int = field(metadata=_count("distinct proposed actions"))
    frames_perturbed: int = field(
        metadata=_count("frames given to the policy that differ from the clean frame")
    )
    frames_given: int = field(metadata=_count("frames given to the policy"))
    scene_hash: int = field(
        metadata=_count("hash of the nominal scene, 63 bits; -1 where not recorded", "int64")
    )
    settle_displacement: float = field(
        metadata=_measure(
            "farthest that an object moved sideways while settling; NaN where not recorded", "m"
        )
    )
    decisions: int = field(default=NOT_RUN, metadata=_count("policy decisions"))
    fingerprint: int = field(
        default=NOT_RUN,
        metadata=_count("hash of the numeric fingerprint, 63 bits; -1 where not recorded", "int64"),
    )
    wall_time: float = field(default=math.nan, metadata=_measure("wall time", "s", timing=True))
    policy_latency: float = field(
        default=math.nan, metadata=_measure("mean time of a policy decision", "s", timing=True)
    )


@dataclass(frozen=True, kw_only=True)
class EpisodeAttributes:
    """What is constant over an episode and not a number.

    Attributes:
        episode: The episode, with what the environment drew where its identity left it open.
        instruction: The instruction, word for word.
        profile: The perturbation profile that acted, with its parameters; None without perturbation.
        proprio: Names of the entries of `steps["proprio"]`.
        image_keys: Observation keys of the images, the second axis of `steps["patch"]`.
        depth_keys: Observation keys of the depth arrays, the second axis of `steps["dropped_fraction"]`.
        unsafe_channels: Names of the columns of `steps["unsafe"]`.
        shield_reasons: Names of the codes of `steps["shield_reason"]`.
        projections: Names of the codes of `steps["projection"]`.
        cause: Why the episode ended, where its reason does not say it.
        longest_chunk: Actions of the longest chunk that came back; 0 where nobody counted.
        fingerprint: Numeric fingerprint of the process.
        declared: The policy's runtime contract.
        observed: What ran, by field of the runtime contract.
        frames_digest: Digest of the stored frames; empty: none are stored.
    """

    episode: EpisodeIdentity
    instruction: str
    profile: Mapping[str, JSON] | None
    proprio: tuple[str, ...]
    image_keys: tuple[str, ...]
    depth_keys: tuple[str, ...]
    unsafe_channels: tuple[str, ...]
    shield_reasons: tuple[str, ...]
    projections: tuple[str, ...]
    cause: str = ""
    longest_chunk: int = 0
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    declared: Mapping[str, JSON] = field(default_factory=dict)
    observed: Mapping[str, JSON] = field(default_factory=dict)
    frames_digest: str = ""

    def to_json(self) -> dict[str, JSON]:
        """Return the attributes as a JSON-native mapping."""
        return {**vars(self), "episode": vars(self.episode)}

    @classmethod
    def from_json(cls, stored: Mapping[str, JSON]) -> EpisodeAttributes:
        """Return what `to_json` gave.

        Raises:
            TypeError: A field is missing or unknown.
        """
        read: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()
        }
        return cls(**{**read, "episode": EpisodeIdentity(**stored.get("episode", {}))})


@dataclass(frozen=True)
class EpisodeRecord:
    """What one finished episode leaves behind.

    Attributes:
        summary: Its numbers.
        attributes: What else is constant over the episode.
        steps: Step arrays by name; the first axis is the step and has the same length in all of them.
        frames: Optional stored frames by name; the first axis is the stored frame.
    """

    summary: EpisodeSummary
    attributes: EpisodeAttributes
    steps: Mapping[str, Array]
    frames: Mapping[str, Array] = field(default_factory=dict)
