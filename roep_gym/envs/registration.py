"""Registration of the environments with Gymnasium, without importing Gymnasium.

`ENVIRONMENTS` maps ids to entry points, `register_environments` registers them, `make_registered` makes one, and
`register_with_gymnasium` registers now or, when Gymnasium is not loaded, during its import. Judging a stored run
imports `roep_gym` but must not import Gymnasium; whoever does import it, before or after, finds the ids.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import gymnasium as gym

__all__ = ["ENVIRONMENTS", "make_registered", "register_environments", "register_with_gymnasium"]

ENVIRONMENTS: Mapping[str, str] = {
    "roep_gym/Gymnasium-v0": "roep_gym.envs.gymnasium_env:GymnasiumEnv",
    "roep_gym/Libero-v0": "roep_gym.envs.libero_env:LiberoEnv",
    "roep_gym/Robosuite-v0": "roep_gym.envs.robosuite_env:RobosuiteEnv",
    "roep_gym/Tabletop-v0": "roep_gym.envs.tabletop_env:TabletopEnv",
}
"""Entry point of each environment id."""


def register_environments() -> None:
    """Register the environments with Gymnasium; ids that are registered already are left alone."""
    import gymnasium

    for name, entry_point in ENVIRONMENTS.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point=entry_point)


def make_registered(env_id: str, /, **arguments: Any) -> gym.Env[Any, Any]:
    """Make one of `ENVIRONMENTS` without Gymnasium's checker, so that its observations come through as they are."""
    import gymnasium

    register_environments()
    return gymnasium.make(env_id, disable_env_checker=True, **arguments)


def register_with_gymnasium() -> None:
    """Register at once when Gymnasium is loaded, otherwise while it gets imported."""
    if "gymnasium" in sys.modules:
        register_environments()
    elif not any(isinstance(finder, _GymnasiumFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _GymnasiumFinder())


class _GymnasiumFinder:
    """Registers when Gymnasium, whose registry is there by then, imports its other folders; it finds nothing itself."""

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        """Leave the module to the other finders."""
        if not fullname.startswith("gymnasium.") or not hasattr(sys.modules["gymnasium"], "register"):
            return None
        sys.meta_path.remove(self)
        register_environments()
        return importlib.util.find_spec(fullname)
