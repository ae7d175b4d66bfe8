"""What is read off a MuJoCo scene that robosuite wraps, the same for LIBERO's problems and for robosuite's own.

`metric_depth` turns a depth buffer into metres, `nominal_scene_hash` names a scene, and `check_stable` refuses one that
diverged since `warning_counts` was taken.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from roep_gym.error import SimulationUnstableError
from roep_gym.typing import Array

__all__ = ["check_stable", "metric_depth", "nominal_scene_hash", "warning_counts"]

_DIVERGENCE_WARNINGS = ("mjWARN_BADQPOS", "mjWARN_BADQVEL", "mjWARN_BADQACC", "mjWARN_BADCTRL")


def metric_depth(model: Any, buffer: Array) -> Array:
    """Return a depth buffer, whose rows are bottom-up, as float32 (height, width, 1) in metres, upright."""
    extent = model.stat.extent
    near, far = model.vis.map.znear * extent, model.vis.map.zfar * extent
    depth: Array = near / (1.0 - buffer[::-1] * (1.0 - near / far))
    return depth.astype(np.float32)[..., np.newaxis]


def nominal_scene_hash(model: Any, data: Any) -> int:
    """Return a 63-bit hash of fixture placements and state, equal for equal scenes within a numeric fingerprint."""
    state = hashlib.blake2b(digest_size=8)
    for part in (model.body_pos, model.body_quat, data.qpos, data.qvel):
        state.update(np.ascontiguousarray(part).tobytes())
    return int.from_bytes(state.digest(), "big") >> 1


def warning_counts(data: Any) -> Array:
    """Return how often MuJoCo has warned of each kind of divergence."""
    import mujoco

    warnings = data._data.warning
    return np.array([warnings[getattr(mujoco.mjtWarning, name)].number for name in _DIVERGENCE_WARNINGS])


def check_stable(data: Any, before: Array) -> None:
    """Refuse a scene that diverged, which MuJoCo resets silently.

    Raises:
        SimulationUnstableError: A count has grown.
    """
    grown = warning_counts(data) > before
    if grown.any():
        names = [name for name, more in zip(_DIVERGENCE_WARNINGS, grown, strict=True) if more]
        raise SimulationUnstableError(
            f"Expected a stable simulation, but MuJoCo reported {', '.join(names)} and reset the scene."
        )
