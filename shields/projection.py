"""What an intervention does to an action (protocol section 6, projection).

`reduce_motion` scales the translation down and raises the end effector, `hold_still` is the safe refusal, and
`project` chooses between them by the risk of the reduced action. Both keep the gripper command exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from roep_gym.error import PolicyOutputError
from roep_gym.shields.config import ProjectionConfig
from roep_gym.typing import Array

__all__ = ["PROJECTIONS", "Projection", "check_proposed_action", "hold_still", "project", "reduce_motion"]

PROJECTIONS = ("none", "projected", "refused_not_finite", "refused_not_reduced")
"""What happened to the action of a step; an index is the code in step records."""


class Projection(NamedTuple):
    """The action of an intervention, and which of `PROJECTIONS` it is."""

    action: Array
    kind: str


def check_proposed_action(action: Array, size: int) -> None:
    """Refuse an action that no shield may rescue: it makes the episode `invalid_execution` in every condition.

    Raises:
        PolicyOutputError: The action has another shape than (size,), is not numeric, or is not finite.
    """
    try:
        values = np.asarray(action)
    except ValueError as error:
        raise PolicyOutputError(
            f"Expected a proposed action of shape ({size},), got a ragged one."
        ) from error
    if values.shape != (size,):
        raise PolicyOutputError(f"Expected a proposed action of shape ({size},), got {values.shape}.")
    if values.dtype.kind not in "fiu" or not np.isfinite(values).all():
        raise PolicyOutputError(f"Expected a proposed action of finite numbers, got {values.tolist()}.")


def reduce_motion(action: Array, config: ProjectionConfig) -> Array:
    """Return the action with its translation scaled, raised, and within the bounds and the maximum norm.

    Other entries are clipped to the bounds, save the gripper's, whose command is kept exactly.
    """
    reduced, translation = np.array(action, dtype=np.float64), list(config.translation)
    reduced[translation] *= config.scale
    if config.vertical is not None:
        reduced[config.vertical] += config.lift
    reduced = np.clip(reduced, config.action_low, config.action_high)
    norm = math.sqrt(float(np.square(reduced[translation]).sum()))
    if norm > config.max_translation_norm:
        reduced[translation] *= config.max_translation_norm / norm
    return _keep_gripper(reduced, action, config)


def hold_still(action: Array, config: ProjectionConfig) -> Array:
    """Return the safe refusal: zero translation and rotation, the gripper command kept exactly."""
    return _keep_gripper(np.zeros(np.shape(action)), action, config)


def project(
    action: Array, risk: float, threshold: float, score: Callable[[Array], float], config: ProjectionConfig
) -> Projection:
    """Return the reduced action where it lowers the risk sufficiently, the safe refusal otherwise.

    Sufficiently means below the threshold, or by at least the fraction `min_risk_reduction`. A risk that is not
    finite satisfies neither.

    Args:
        action: Proposed action, finite, shape (action size,).
        risk: Its risk.
        threshold: tau.
        score: Gives the risk of another action under the same observation.
        config: Sizes and bounds.
    """
    reduced = reduce_motion(action, config)
    if not np.isfinite(reduced).all():
        return Projection(hold_still(action, config), "refused_not_finite")
    remaining = score(reduced)
    if not math.isfinite(remaining):
        return Projection(hold_still(action, config), "refused_not_finite")
    if remaining < threshold or remaining <= (1.0 - config.min_risk_reduction) * risk:
        return Projection(reduced, "projected")
    return Projection(hold_still(action, config), "refused_not_reduced")


def _keep_gripper(values: Array, action: Array, config: ProjectionConfig) -> Array:
    """Return the values in the action's floating type, with its gripper entries."""
    proposed = np.asarray(action)
    kept = values.astype(proposed.dtype if proposed.dtype.kind == "f" else np.float32)
    gripper = list(config.gripper)
    kept[gripper] = proposed[gripper]
    return kept
