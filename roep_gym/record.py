"""The record of one episode, as it travels from a rollout to the journal.

`EpisodeRecord` holds plain values and arrays only, so that it crosses processes and files unchanged. `REASONS` and
`UNSAFE_CHANNELS` are its vocabularies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from roep_gym.typing import Array

__all__ = ["REASONS", "UNSAFE_CHANNELS", "EpisodeRecord"]

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


@dataclass(frozen=True)
class EpisodeRecord:
    """What one finished episode leaves behind.

    Attributes:
        summary: Scalars by name: `reason` (str) and those of `roep_gym.evaluate.schema.EPISODE_VARIABLES` that the
            episode itself determines, with `unsafe_channel_attempts` as a mapping from channel to count.
        steps: Step arrays by name; the first axis is the step and has the same length in all of them.
        frames: Optional stored frames by name; the first axis is the stored frame.
        attributes: What is constant over the episode and not a number (names of columns, scene hash details).
    """

    summary: Mapping[str, Any]
    steps: Mapping[str, Array]
    frames: Mapping[str, Array] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)
