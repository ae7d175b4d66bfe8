"""Bootstrap episodes and their step labels (protocol section 6, labels).

`BootstrapEpisode` is what training reads, `LABEL_SOURCES` are unsafe attempts and the timeout-tail fallback,
`classify` tells safe from risk episodes and `label_steps` labels each step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from roep_gym.arguments import check_names
from roep_gym.episode_record import REASONS, EpisodeRecord
from roep_gym.error import InvalidInputError
from roep_gym.shields.config import ShieldConfig
from roep_gym.typing import Array, BoolArray

__all__ = [
    "LABEL_SOURCES",
    "RISK",
    "SAFE",
    "UNLABELLED",
    "BootstrapEpisode",
    "EpisodeClass",
    "LabelSource",
    "classify",
    "label_steps",
]

SAFE, RISK, UNLABELLED = 0, 1, -1
LabelSource = Literal["unsafe_attempt", "timeout_tail"]
LABEL_SOURCES: tuple[LabelSource, ...] = get_args(LabelSource)
"""Sources of risk labels; a later one is used where an earlier one does not give every part its minimum support."""
EpisodeClass = Literal["safe", "risk", "unused"]


@dataclass(frozen=True, eq=False)
class BootstrapEpisode:
    """One unshielded episode of the bootstrap conditions.

    Attributes:
        identifier: Names the episode, stable over runs of the plan.
        reason: Termination reason (protocol section 3); an aborted episode is not an outcome and is refused.
        fields: Names of the columns of `low`.
        low: Low-dimensional observation that each step acted on, shape (steps, fields).
        actions: Proposed actions, shape (steps, action size).
        unsafe: Whether a step was an unsafe attempt in any active channel, shape (steps,).
        scene: Names the scene; the episodes of one scene belong to one part of the split. Empty: the identifier.
        control_mode: Control mode of the actions, "relative" or "absolute".

    Raises:
        InvalidInputError: Shapes disagree, the reason is unknown, or a value is not finite (only an episode that
            ended as `invalid_execution` may hold such values).
    """

    identifier: str
    reason: str
    fields: tuple[str, ...]
    low: Array
    actions: Array
    unsafe: Array
    scene: str = ""
    control_mode: str = "relative"

    def __post_init__(self) -> None:
        if not isinstance(self.identifier, str) or not self.identifier:
            raise InvalidInputError(
                f"Expected a bootstrap episode with a non-empty identifier, got {self.identifier!r}."
            )
        where = f"bootstrap episode {self.identifier!r}"
        check_names(f"termination reason of {where}", [self.reason], REASONS)
        low, actions = np.asarray(self.low, dtype=np.float32), np.asarray(self.actions, dtype=np.float32)
        unsafe, fields = np.asarray(self.unsafe), tuple(self.fields)
        if unsafe.dtype != np.bool_:
            raise InvalidInputError(f"Expected {where} with boolean unsafe flags, got dtype {unsafe.dtype}.")
        steps = len(unsafe) if unsafe.ndim == 1 else -1
        if low.shape != (steps, len(fields)) or actions.ndim != 2 or len(actions) != steps:
            raise InvalidInputError(
                f"Expected {where} with low (steps, {len(fields)}), actions (steps, action size) and unsafe (steps,), "
                f"got {low.shape}, {actions.shape} and {unsafe.shape}."
            )
        if not self.scene:
            object.__setattr__(self, "scene", self.identifier)
        for name, value in (("fields", fields), ("low", low), ("actions", actions), ("unsafe", unsafe)):
            object.__setattr__(self, name, value)
        if self.reason != "invalid_execution" and not self.finite.all():
            step = int(np.flatnonzero(~self.finite)[0])
            raise InvalidInputError(
                f"Expected {where} with finite values, got a non-finite one at step {step}."
            )

    @classmethod
    def from_record(cls, record: EpisodeRecord, control_mode: str | None = None) -> BootstrapEpisode:
        """Return the episode of a record, identified by run id, seed group and episode.

        Its scene is scene seed and initial state, which a clean and a perturbed episode share.

        Args:
            record: The record.
            control_mode: Control mode of the environment; None takes what an evaluation observed, else "relative".
        """
        episode = record.attributes.episode
        return cls(
            identifier="/".join(map(str, episode.key)),
            reason=record.summary.reason,
            fields=record.attributes.proprio,
            low=record.steps["proprio"],
            actions=record.steps["proposed_action"],
            unsafe=(record.steps["unsafe"] == 1).any(axis=1),
            scene=f"{episode.scene_seed}/{episode.init_state}",
            control_mode=control_mode or str(record.attributes.observed.get("control_mode") or "relative"),
        )

    @property
    def finite(self) -> BoolArray:
        """Whether every value of a step is finite, shape (steps,)."""
        return np.asarray(np.isfinite(self.low).all(axis=1) & np.isfinite(self.actions).all(axis=1))

    @property
    def attempted_unsafe(self) -> bool:
        """Whether the episode has at least one unsafe attempt, or ended by one."""
        return self.reason == "unsafe_attempt" or bool(self.unsafe.any())


def classify(episode: BootstrapEpisode, source: LabelSource) -> EpisodeClass:
    """Return whether an episode supports safety, risk, or neither.

    An unsafe attempt makes a risk episode whatever the source and the outcome: it is never safe support. Timeouts
    are risk under the fallback and are otherwise not used.
    """
    if episode.attempted_unsafe:
        return "risk"
    if episode.reason == "success":
        return "safe"
    return "risk" if episode.reason == "timeout" and source == "timeout_tail" else "unused"


def label_steps(episode: BootstrapEpisode, source: LabelSource, config: ShieldConfig) -> NDArray[np.int8]:
    """Return `SAFE`, `RISK` or `UNLABELLED` for each step, shape (steps,).

    The last `tail_horizon` steps of a risk episode are risk. Where it succeeded in spite of an unsafe attempt,
    its end is no risk, so the tail there ends with the last attempt. Of the other steps `prefix_support` says
    how many, from the start, are weak safe support; calibration never sees them, since it takes steps of
    safe episodes alone.
    """
    steps, kind = len(episode.unsafe), classify(episode, source)
    if kind == "unused":
        return np.full(steps, UNLABELLED, dtype=np.int8)
    labels = np.full(steps, SAFE, dtype=np.int8)
    if kind == "risk":
        end = int(np.flatnonzero(episode.unsafe)[-1]) + 1 if episode.reason == "success" else steps
        tail = np.zeros(steps, dtype=np.bool_)
        tail[max(0, end - config.tail_horizon) : end] = True
        if config.prefix_support != "all":
            rest = np.flatnonzero(~tail)
            kept = 0 if config.prefix_support == "none" else int(config.prefix_support)
            labels[rest[kept:]] = UNLABELLED
        labels[tail] = RISK
    labels[~episode.finite] = UNLABELLED
    return labels
