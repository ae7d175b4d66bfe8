"""Registration of the environments with Gymnasium, without importing Gymnasium.

`ENVIRONMENTS` maps ids to entry points, `register_environments` registers them, and `register_with_gymnasium`
does so now or, when Gymnasium is not loaded, right after its import. Judging a stored run imports `roep_gym` but
must not import Gymnasium; whoever does import it, before or after, finds the ids.
"""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from types import ModuleType

__all__ = ["ENVIRONMENTS", "register_environments", "register_with_gymnasium"]

ENVIRONMENTS: Mapping[str, str] = {
    "roep_gym/Libero-v0": "roep_gym.envs.libero_env:LiberoEnv",
    "roep_gym/Tabletop-v0": "roep_gym.envs.tabletop_env:TabletopEnv",
}
"""Entry point of each environment id."""


def register_environments() -> None:
    """Register the environments with Gymnasium; ids that are registered already are left alone."""
    import gymnasium

    for name, entry_point in ENVIRONMENTS.items():
        if name not in gymnasium.registry:
            gymnasium.register(name, entry_point=entry_point)


def register_with_gymnasium() -> None:
    """Register at once when Gymnasium is loaded, otherwise right after it gets imported."""
    if "gymnasium" in sys.modules:
        register_environments()
    elif not any(isinstance(finder, _GymnasiumFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _GymnasiumFinder())


class _GymnasiumFinder(MetaPathFinder):
    """Finds Gymnasium as the other finders do and adds the registration to its execution.

    The import system asks the finders of `sys.meta_path` in turn. This one answers for the name `gymnasium` alone,
    with the answer of the finders after it, and leaves the list when Gymnasium is executed.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of `gymnasium` with a loader that registers the environments, None for other names."""
        if fullname != "gymnasium":
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _RegisteringLoader(spec.loader, self)
                return spec
        return None


class _RegisteringLoader(Loader):
    """Executes a module with its own loader, gives the module that loader back, and registers the environments."""

    def __init__(self, loader: Loader, finder: _GymnasiumFinder) -> None:
        self._loader = loader
        self._finder = finder

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Create the module as its own loader does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Execute the module, then register the environments."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        register_environments()
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)
