"""The environments: `LiberoEnv` on LIBERO, `TabletopEnv` on NumPy alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roep_gym.lazy import lazy_names

if TYPE_CHECKING:
    from roep_gym.envs.libero_env import LiberoEnv
    from roep_gym.envs.tabletop_env import TabletopEnv
    from roep_gym.envs.tabletop_policies import sighted_policy
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "LiberoEnv",
    "TabletopEnv",
    "sighted_policy",
]
