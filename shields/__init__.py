"""Learned shields (protocol section 6).

`train_shield` turns bootstrap episodes into a `Shield` or into a failed status with its reason; `Shield.assess`
is the runtime; `save_shield` and `load_shield` store it. The runtime needs NumPy alone, only training needs torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roep_gym.lazy import lazy_names

if TYPE_CHECKING:
    from roep_gym.shields.base import SHIELD_REASONS, Assessment, RuntimeShield
    from roep_gym.shields.bootstrap import TrainingOutcome, train_shield
    from roep_gym.shields.config import ProjectionConfig, ShieldConfig
    from roep_gym.shields.contract_suite import ShieldContractTests
    from roep_gym.shields.labels import BootstrapEpisode
    from roep_gym.shields.projection import PROJECTIONS
    from roep_gym.shields.registry import SHIELDS
    from roep_gym.shields.shield import Shield
    from roep_gym.shields.storage import load_shield, save_shield
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "PROJECTIONS",
    "SHIELDS",
    "SHIELD_REASONS",
    "Assessment",
    "BootstrapEpisode",
    "ProjectionConfig",
    "RuntimeShield",
    "Shield",
    "ShieldConfig",
    "ShieldContractTests",
    "TrainingOutcome",
    "load_shield",
    "save_shield",
    "train_shield",
]
