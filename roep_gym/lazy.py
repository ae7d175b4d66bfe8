"""The shape of a facade: a package that offers names of its submodules and imports a submodule at the first use.

A facade imports its names under `TYPE_CHECKING`, for type checkers, and `lazy_names` makes the `__getattr__` and
`__dir__` that give these very names at runtime. `tests/test_api.py` compares them with `__all__`.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["LazyNames", "lazy_names"]


class LazyNames(NamedTuple):
    """The two functions that a facade assigns to `__getattr__` and `__dir__`."""

    getattr: Callable[[str], Any]
    dir: Callable[[], list[str]]


def lazy_names(package: str) -> LazyNames:
    """Return what makes a package, by its `__name__`, a facade; the names are read from its source."""
    body = ast.parse(inspect.getsource(sys.modules[package])).body
    for_type_checkers = next(node.body for node in body if isinstance(node, ast.If))
    places = {
        alias.name: str(node.module)
        for node in for_type_checkers
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(places[name]), name)

    return LazyNames(get, lambda: sorted(places))
