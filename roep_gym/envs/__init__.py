"""The environments: `LiberoEnv` on LIBERO, `TabletopEnv` on NumPy alone; each is loaded on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from roep_gym.envs.registration import register_environments

if TYPE_CHECKING:
    from roep_gym.envs.libero_env import LiberoEnv
    from roep_gym.envs.tabletop_env import TabletopEnv

__all__ = ["LiberoEnv", "TabletopEnv", "register_environments"]

_MODULES = {"LiberoEnv": "libero_env", "TabletopEnv": "tabletop_env"}


def __getattr__(name: str) -> Any:
    """Import an environment class on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
