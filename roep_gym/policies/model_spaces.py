"""What a model of Stable-Baselines3 was trained on, compared with what it is given.

`same_observation` and `same_bounds` compare spaces, `check_statistics` refuses the `VecNormalize` of another
training, and `check_not_forgotten` a model that was trained with one and is loaded without.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecNormalize

from roep_gym.error import InvalidInputError

__all__ = ["check_not_forgotten", "check_statistics", "is_normalized", "same_bounds", "same_observation"]


def check_statistics(normalization: VecNormalize, space: spaces.Space[Any]) -> None:
    """Refuse statistics of another observation space, which would broadcast to other numbers."""
    if not normalization.norm_obs:
        return
    own, given = _boxes(space), _boxes(normalization.observation_space)
    rms = normalization.obs_rms
    shapes = {name: part.mean.shape for name, part in (rms if isinstance(rms, dict) else {"": rms}).items()}
    fits = set(own) == set(given) and all(
        same_observation(own[name], given[name]) and (name not in shapes or shapes[name] == own[name].shape)
        for name in own
    )
    if not fits:
        raise InvalidInputError(
            f"Expected the statistics of the observations that the model was trained on, {space}, got those of "
            f"{normalization.observation_space}; name the VecNormalize file of the same training."
        )


def check_not_forgotten(model: Any, file: Path) -> None:
    """Refuse a model without statistics whose archive, or folder, shows that training normalised."""
    beside = sorted(
        path.name for path in file.parent.glob("*.pkl") if "normaliz" in path.name.replace("_", "").lower()
    )
    normalized = getattr(model, "_last_original_obs", None) is not None
    if not beside and not normalized:
        return
    place = f"{', '.join(beside)} lies beside it" if beside else "its archive shows a VecNormalize"
    raise InvalidInputError(
        f"Expected the normalization that {str(file)!r} was trained with, since {place}, got none; name the file that "
        "VecNormalize.save wrote, or write normalization='none' where observations were not normalised."
    )


def _boxes(space: spaces.Space[Any]) -> Mapping[str, Any]:
    return space.spaces if isinstance(space, spaces.Dict) else {"": space}


def is_normalized(normalization: VecNormalize, name: str) -> bool:
    """Return whether statistics are applied to an observation."""
    rms = normalization.obs_rms if normalization.norm_obs else {}
    return name in rms if isinstance(rms, dict) else True


def same_bounds(first: spaces.Box, second: spaces.Box) -> bool:
    """Return whether two spaces have equal shapes and, but for rounding, equal bounds."""
    return first.shape == second.shape and bool(
        np.allclose(first.low, second.low) and np.allclose(first.high, second.high)
    )


def same_observation(trained: spaces.Box, given: spaces.Box, bounds: bool = True) -> bool:
    """Return whether a model was trained on an observation; channels may come first or last."""
    if (trained.dtype == np.uint8) != (given.dtype == np.uint8):
        return False
    if trained.dtype == np.uint8 and trained.shape != given.shape and len(given.shape) == 3:
        height_last = (*given.shape[2:], *given.shape[:2]), (*given.shape[1:], given.shape[0])
        return trained.shape in height_last
    return trained.shape == given.shape and (not bounds or same_bounds(trained, given))
