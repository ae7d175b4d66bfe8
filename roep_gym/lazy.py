"""The shape of a facade: a package that offers names of its submodules and imports a submodule at the first use.

`lazy_names` gives a package its `__getattr__` and `__dir__`. The facade repeats the names in `__all__` and, for type
checkers, in imports under `TYPE_CHECKING`; `tests/test_api.py` compares the three.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["LazyNames", "lazy_names"]


class LazyNames(NamedTuple):
    """The two functions that a facade assigns to `__getattr__` and `__dir__`."""

    getattr: Callable[[str], Any]
    dir: Callable[[], list[str]]


def lazy_names(package: str, names: Mapping[str, Sequence[str]]) -> LazyNames:
    """Return what makes a package a facade.

    Args:
        package: Name of the package, its `__name__`.
        names: The names that each submodule gives, by submodule; a submodule without names is offered itself.
    """
    places = {name: module for module, given in names.items() for name in given or (module,)}

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(f"{package}.{places[name]}")
        return getattr(module, name) if names[places[name]] else module

    return LazyNames(get, lambda: sorted(places))
