"""Gymnasium wrappers of the ROEP protocol, from the environment outward.

`PerturbObservation` perturbs images and depth, `ShieldAction` replaces risky actions, `StepBudget` ends an episode
after a number of steps, `RecordEpisode` records it. Each is loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roep_gym.wrappers.perturb_observation import PerturbObservation
    from roep_gym.wrappers.record_episode import RecordEpisode
    from roep_gym.wrappers.shield_action import ShieldAction
    from roep_gym.wrappers.step_budget import StepBudget

__all__ = ["PerturbObservation", "RecordEpisode", "ShieldAction", "StepBudget"]

_MODULES = {
    "PerturbObservation": "perturb_observation",
    "RecordEpisode": "record_episode",
    "ShieldAction": "shield_action",
    "StepBudget": "step_budget",
}


def __getattr__(name: str) -> Any:
    """Import a wrapper on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
