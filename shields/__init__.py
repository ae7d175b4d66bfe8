"""Learned shields (protocol section 6).

`train_shield` turns bootstrap episodes into a `Shield` or into a failed status with its reason; `Shield.assess`
is the runtime; `save_shield` and `load_shield` store it. The runtime needs NumPy alone, only training needs torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roep_gym.lazy import lazy_names

if TYPE_CHECKING:
    from roep_gym.shields.bootstrap import TrainingOutcome, train_shield
    from roep_gym.shields.config import ProjectionConfig, ShieldConfig
    from roep_gym.shields.labels import BootstrapEpisode
    from roep_gym.shields.projection import PROJECTIONS
    from roep_gym.shields.shield import SHIELD_REASONS, Assessment, RuntimeShield, Shield
    from roep_gym.shields.storage import load_shield, save_shield
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "bootstrap": ["TrainingOutcome", "train_shield"],
            "config": ["ProjectionConfig", "ShieldConfig"],
            "labels": ["BootstrapEpisode"],
            "projection": ["PROJECTIONS"],
            "shield": ["SHIELD_REASONS", "Assessment", "RuntimeShield", "Shield"],
            "storage": ["load_shield", "save_shield"],
        },
    )

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
