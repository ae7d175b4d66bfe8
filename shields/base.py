"""The boundary between `ShieldAction` and a shield.

`RuntimeShield` is the protocol that every shield satisfies, `Assessment` its answer to one step. `reset_shield` begins
an episode, and `check_assessment` refuses an answer that cannot be executed or recorded.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from roep_gym.error import ShieldError, unknown_name
from roep_gym.shields.projection import PROJECTIONS
from roep_gym.typing import Array

__all__ = ["SHIELD_REASONS", "Assessment", "RuntimeShield", "check_assessment", "reset_shield"]

SHIELD_REASONS = ("below_threshold", "threshold_reached", "risk_not_finite")
"""Why a shield did or did not intervene; an index is the code in step records."""


class Assessment(NamedTuple):
    """The shield tuple of one step (r_t, tau, I_t, reason_t, proj_t), with what it sends down.

    Attributes:
        risk: r_t, NaN when it could not be computed.
        threshold: tau.
        intervene: I_t, whether the risk reached the threshold or is not finite.
        reason: One of `SHIELD_REASONS`.
        projection: One of `roep_gym.shields.projection.PROJECTIONS`.
        action: The action to execute: the very object that was proposed when the shield does not intervene.
        refused: Whether it is the safe refusal.
    """

    risk: float
    threshold: float
    intervene: bool
    reason: str
    projection: str
    action: Array
    refused: bool


@runtime_checkable
class RuntimeShield(Protocol):
    """A shield that `ShieldAction` can apply.

    A shield that remembers something has a method `reset()` as well, which is called when an episode begins; without
    one, an answer may depend on nothing but the observation and the action. Whatever a shield raises, and an answer
    that `check_assessment` refuses, is an infrastructure failure and never the policy's.
    """

    @property
    def fields(self) -> tuple[str, ...]:
        """Entries of the low-dimensional observation that `assess` takes, in this order."""

    @property
    def action_size(self) -> int:
        """Number of entries of an action."""

    @property
    def action_bounds(self) -> tuple[float, float]:
        """Lower and upper bound of every action entry that the shield respects; of no meaning in absolute control."""

    @property
    def control_mode(self) -> str:
        """The control mode that the shield's actions are meant for, "relative" or "absolute"."""

    def assess(self, low: Array, action: Array) -> Assessment:
        """Return the shield tuple of a proposed action, shape (action size,), under `low`, shape (fields,)."""


def reset_shield(shield: RuntimeShield) -> None:
    """Tell a shield that remembers something that an episode begins."""
    reset = getattr(shield, "reset", None)
    if reset is not None:
        reset()


def check_assessment(answer: Any, proposed: Array, name: str) -> Assessment:
    """Return the answer of a shield, if it can be executed and recorded; `proposed` was copied before it was asked.

    Raises:
        ShieldError: The answer is no `Assessment`, its action is not a finite array of the proposed one's shape, it
            differs from the proposed one without an intervention, its threshold is not finite, its risk is not finite
            without an intervention, or its reason or projection is unknown.
    """
    if not isinstance(answer, Assessment):
        raise _wrong(name, "an Assessment", answer)
    values: dict[str, Any] = (
        answer._asdict()
    )  # whatever the types promise, a foreign shield may put anything there
    for label in ("risk", "threshold"):
        if not isinstance(values[label], Real):
            raise _wrong(name, f"a number as its {label}", values[label])
    for label in ("intervene", "refused"):
        if not isinstance(values[label], bool | np.bool_):
            raise _wrong(name, f"True or False as {label}", values[label])
    if not math.isfinite(answer.threshold):
        raise _wrong(name, "a finite threshold", answer.threshold)
    if not math.isfinite(answer.risk) and not answer.intervene:
        raise _wrong(name, "an intervention, since its risk is not finite", answer)
    for label, known in (("reason", SHIELD_REASONS), ("projection", PROJECTIONS)):
        if values[label] not in known:
            raise ShieldError(f"The shield {name} answered: {unknown_name(label, str(values[label]), known)}")
    _check_action(answer, proposed, name)
    return answer


def _check_action(answer: Assessment, proposed: Array, name: str) -> None:
    try:
        action = np.asarray(answer.action)
    except ValueError as error:  # ragged
        raise _wrong(name, f"an action of shape {proposed.shape}", answer.action) from error
    if action.shape != proposed.shape or action.dtype.kind not in "fiu":
        raise _wrong(name, f"an action of {len(proposed)} numbers", answer.action)
    if not answer.intervene:
        if not np.array_equal(action, proposed):
            raise _wrong(
                name, f"the proposed action {proposed.tolist()}, since it does not intervene", action
            )
        return
    with np.errstate(over="ignore"):  # environments take float32, in which too large a number is infinite
        if not np.isfinite(action.astype(np.float32)).all():
            raise _wrong(name, "an action of finite numbers", action)


def _wrong(name: str, expected: str, got: Any) -> ShieldError:
    return ShieldError(
        f"Expected the shield {name} to answer with {expected}, got {got!r}; nothing was executed, correct the shield."
    )
