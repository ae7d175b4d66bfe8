"""Learned shields (protocol section 6).

`train_shield` turns bootstrap episodes into a `Shield` or into a failed status with its reason; `Shield.assess`
is the runtime; `save_shield` and `load_shield` store it. Names are imported on first use: the runtime needs
NumPy alone, only training needs torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roep_gym.shields.bootstrap import TrainingOutcome, train_shield
    from roep_gym.shields.config import ProjectionConfig, ShieldConfig
    from roep_gym.shields.labels import BootstrapEpisode
    from roep_gym.shields.projection import PROJECTIONS
    from roep_gym.shields.shield import SHIELD_REASONS, Assessment, RuntimeShield, Shield
    from roep_gym.shields.storage import load_shield, save_shield

__all__ = [
    "PROJECTIONS",
    "SHIELD_REASONS",
    "Assessment",
    "BootstrapEpisode",
    "ProjectionConfig",
    "RuntimeShield",
    "Shield",
    "ShieldConfig",
    "TrainingOutcome",
    "load_shield",
    "save_shield",
    "train_shield",
]

_MODULES = {
    "PROJECTIONS": "projection",
    "SHIELD_REASONS": "shield",
    "Assessment": "shield",
    "BootstrapEpisode": "labels",
    "ProjectionConfig": "config",
    "RuntimeShield": "shield",
    "Shield": "shield",
    "ShieldConfig": "config",
    "TrainingOutcome": "bootstrap",
    "load_shield": "storage",
    "save_shield": "storage",
    "train_shield": "bootstrap",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
