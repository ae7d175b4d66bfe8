"""What an intervention does to an action (protocol section 6, projection).

`reduce_motion` scales the translation down and raises the end effector, `hold_still` is the safe refusal, and
`project` chooses between them by the risk of the reduced action. Both keep the gripper command exactly. In absolute
control they start from the `measured_pose`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from roep_gym.error import PolicyOutputError
from roep_gym.shields.config import ProjectionConfig
from roep_gym.typing import Array

__all__ = [
    "PROJECTIONS",
    "Pose",
    "Projection",
    "check_proposed_action",
    "hold_still",
    "measured_pose",
    "project",
    "reduce_motion",
]

PROJECTIONS = ("none", "projected", "refused_not_finite", "refused_not_reduced")
"""What happened to the action of a step; an index is the code in step records."""


class Projection(NamedTuple):
    """The action of an intervention, and which of `PROJECTIONS` it is."""

    action: Array
    kind: str


class Pose(NamedTuple):
    """A pose of the end effector, as actions of absolute control command it."""

    position: Array
    """Metres, float64 (3,)."""
    rotation: Array
    """Axis-angle in radians, float64 (3,)."""


def check_proposed_action(action: Array, size: int) -> None:
    """Refuse an action that no shield may rescue: it makes the episode `invalid_execution` in every condition."""
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


def measured_pose(position: Array, quaternion: Array, config: ProjectionConfig) -> Pose:
    """Return a pose, measured as metres (3,) and quaternion (x, y, z, w), as actions of absolute control command it."""
    x1, y1, z1, w1 = (float(entry) for entry in quaternion)
    x2, y2, z2, w2 = config.quaternion_offset
    vector = np.array(
        [
            w1 * x2 + x1 * w2 + y1 * z2 - z1 * y2,
            w1 * y2 - x1 * z2 + y1 * w2 + z1 * x2,
            w1 * z2 + x1 * y2 - y1 * x2 + z1 * w2,
        ]
    )
    scalar = w1 * w2 - x1 * x2 - y1 * y2 - z1 * z2
    sine = math.sqrt(float(np.square(vector).sum()))
    # The shorter of the two rotations that a quaternion stands for.
    angle = 2.0 * math.atan2(sine, abs(scalar)) * (1.0 if scalar >= 0 else -1.0)
    rotation = vector * (angle / sine) if sine > 1e-12 else np.zeros(3)
    return Pose(np.asarray(position, dtype=np.float64), rotation)


def reduce_motion(action: Array, config: ProjectionConfig, pose: Pose | None = None) -> Array:
    """Return the action with its translation scaled, raised, and within the bounds and the maximum norm.

    The gripper's command is kept exactly. In relative control other entries are clipped to the bounds. In absolute
    control, where a pose is given, the translation is the way from the measured position, and the commanded orientation
    is kept.
    """
    reduced, translation = np.array(action, dtype=np.float64), list(config.translation)
    if pose is not None:
        reduced[translation] = (reduced[translation] - pose.position) / config.metres_per_unit
    reduced[translation] *= config.scale
    if config.vertical is not None:
        reduced[config.vertical] += config.lift
    bounded = translation if pose is not None else slice(None)
    reduced[bounded] = np.clip(reduced[bounded], config.action_low, config.action_high)
    norm = math.sqrt(float(np.square(reduced[translation]).sum()))
    if norm > config.max_translation_norm:
        reduced[translation] *= config.max_translation_norm / norm
    if pose is not None:
        reduced[translation] = pose.position + reduced[translation] * config.metres_per_unit
    return _keep_gripper(reduced, action, config)


def hold_still(action: Array, config: ProjectionConfig, pose: Pose | None = None) -> Array:
    """Return the safe refusal: zero motion, or in absolute control the measured pose; the gripper command is kept."""
    still = np.zeros(np.shape(action))
    if pose is not None:
        still[list(config.translation)], still[list(config.rotation)] = pose
    return _keep_gripper(still, action, config)


def project(
    action: Array,
    risk: float,
    threshold: float,
    score: Callable[[Array], float],
    config: ProjectionConfig,
    pose: Pose | None = None,
) -> Projection:
    """Return the reduced action where it lowers the risk sufficiently, the safe refusal otherwise.

    Sufficiently means below the threshold, or by at least the fraction `min_risk_reduction`. A risk that is not
    finite satisfies neither. `score` gives the risk of another action under the same observation; a pose is given in
    absolute control.
    """
    reduced = reduce_motion(action, config, pose)
    remaining = score(reduced) if np.isfinite(reduced).all() else math.nan
    if not math.isfinite(remaining):
        return Projection(hold_still(action, config, pose), "refused_not_finite")
    if remaining < threshold or remaining <= (1.0 - config.min_risk_reduction) * risk:
        return Projection(reduced, "projected")
    return Projection(hold_still(action, config, pose), "refused_not_reduced")


def _keep_gripper(values: Array, action: Array, config: ProjectionConfig) -> Array:
    """Return the values in the action's floating type, with its gripper entries."""
    proposed = np.asarray(action)
    kept = values.astype(proposed.dtype if proposed.dtype.kind == "f" else np.float32)
    gripper = list(config.gripper)
    kept[gripper] = proposed[gripper]
    return kept
