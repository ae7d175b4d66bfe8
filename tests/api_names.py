"""The facades, their names, and the first line of what each name says of itself."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from pathlib import Path

FACADES = (
    "roep_gym",
    "roep_gym.envs",
    "roep_gym.wrappers",
    "roep_gym.policies",
    "roep_gym.policies.conversions",
    "roep_gym.suites",
    "roep_gym.shields",
    "roep_gym.training",
    "roep_gym.evaluate",
    "roep_gym.evaluate.importers",
    "roep_gym.evaluate.export",
    "roep_gym.evaluate.statistics",
)


def public_names(package: str) -> list[str]:
    """Return the names that a facade offers."""
    return list(importlib.import_module(package).__all__)


def first_line(package: str, name: str) -> str:
    """Return the first sentence of a name's docstring; a constant's is the string after its assignment.

    Raises:
        LookupError: It has none.
    """
    module = _module_of(package, name)
    for node, after in zip(module.body, [*module.body[1:], None], strict=True):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                return _first(str(after.value.value))
            raise LookupError(f"Expected a string after the assignment of {package}.{name}, got none.")
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            text = ast.get_docstring(node)
            if text:
                return _first(text)
    raise LookupError(f"Expected a docstring of {package}.{name}, got none.")


def _first(text: str) -> str:
    return " ".join(inspect.cleandoc(text).split("\n\n")[0].split())


def _module_of(package: str, name: str) -> ast.Module:
    """Return the syntax tree of the module that defines a name of a facade."""
    source = ast.parse(Path(str(sys.modules[importlib.import_module(package).__name__].__file__)).read_text())
    for node in ast.walk(source):
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            path = importlib.import_module(str(node.module)).__file__
            return ast.parse(Path(str(path)).read_text(encoding="utf-8"))
    raise LookupError(f"Expected {package} to import {name} for type checkers, but it does not.")
