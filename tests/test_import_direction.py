"""Imports point one way: from the command line down to what all share, room by room.

The tree is read once. `run` and `judging` are on one level, so neither may import the other.
"""

from __future__ import annotations

import ast
import os
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# A module may import from its own room and from rooms on lower levels. The first name that fits decides.
ROOMS = (
    ("roep_gym.__main__", 13),
    ("roep_gym.cli", 12),
    ("roep_gym.evaluate.report", 10),
    ("roep_gym.evaluate.importers", 9),
    ("roep_gym.evaluate.export", 9),
    ("roep_gym.evaluate.comparison", 9),
    ("roep_gym.evaluate.judging", 8),
    ("roep_gym.evaluate.run", 8),
    ("roep_gym.evaluate.store", 7),
    ("roep_gym.evaluate.statistics", 6),
    ("roep_gym.evaluate.plan", 6),
    ("roep_gym.evaluate.schema", 6),
    ("roep_gym.evaluate.gate_config", 6),
    ("roep_gym.evaluate", 11),
    ("roep_gym.training", 5),
    ("roep_gym.wrappers", 4),
    ("roep_gym.shields", 3),
    ("roep_gym.policies", 2),
    ("roep_gym.suites", 2),
    ("roep_gym.envs", 1),
    ("roep_gym", 0),
)
# The front door of the package loads its names from every room.
FACADE = "roep_gym"


@cache
def _module_names() -> dict[str, Path]:
    """Return every module of the package by its import name, links not followed."""
    found = {}
    for top in ("roep_gym", "wrappers", "shields", "evaluate"):
        for folder, _, files in os.walk(ROOT / top):
            for file in files:
                if file.endswith(".py"):
                    path = Path(folder, file)
                    parts = path.relative_to(ROOT).with_suffix("").parts
                    prefix = () if top == "roep_gym" else ("roep_gym",)
                    found[".".join((*prefix, *parts)).removesuffix(".__init__")] = path
    return found


def _room(module: str) -> tuple[str, int]:
    return next((name, level) for name, level in ROOMS if module == name or module.startswith(f"{name}."))


def _imports(path: Path, module: str) -> list[tuple[int, str]]:
    """Return (line, imported module) of every import of our own package, imports inside functions included."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.extend((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [base])])
            found.extend((node.lineno, f"{base}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and _is_import_call(node):
            found.extend(
                (node.lineno, argument.value)
                for argument in node.args[:1]
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
            )
    return [(line, name) for line, name in found if name.split(".")[0] == "roep_gym"]


def _is_import_call(node: ast.Call) -> bool:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in ("import_module", "__import__")


def _refused(path: Path, module: str) -> list[str]:
    """Return the imports of a module from a higher level, or from another room on its own level."""
    if module == FACADE:
        return []
    room, level = _room(module)
    found = []
    for line, name in _imports(path, module):
        target, target_level = _room(name)
        ground = room.startswith("roep_gym.evaluate.") and room in _GROUND and target in _GROUND
        if target_level > level or (target_level == level and target != room and not ground):
            found.append(f"{module}:{line} imports {name}")
    return found


_GROUND = ("roep_gym.evaluate.plan", "roep_gym.evaluate.schema", "roep_gym.evaluate.gate_config")


def test_no_module_imports_upwards():
    assert [line for module, path in sorted(_module_names().items()) for line in _refused(path, module)] == []


@pytest.mark.parametrize(
    ("module", "source", "refused"),
    [
        ("roep_gym.shields.model", "from roep_gym.wrappers import ShieldAction", True),
        ("roep_gym.shields.model", "from roep_gym import wrappers", True),
        ("roep_gym.shields.model", "import roep_gym.evaluate.schema as s", True),
        ("roep_gym.shields.model", "def f():\n    from ..evaluate import plan", True),
        ("roep_gym.shields.model", "import importlib\nimportlib.import_module('roep_gym.cli.main')", True),
        ("roep_gym.envs.libero_env", "from roep_gym.shields import Shield", True),
        ("roep_gym.training.environment", "from roep_gym.evaluate.run.rollout import rollout", True),
        ("roep_gym.wrappers.operators", "from roep_gym.training import make_env", True),
        ("roep_gym.evaluate.run.driver", "from roep_gym.evaluate.judging.gate import judge", True),
        ("roep_gym.evaluate.judging.gate", "from roep_gym.evaluate.run.driver import evaluate", True),
        ("roep_gym.evaluate.judging.gate", "from roep_gym.evaluate import judge", True),
        ("roep_gym.evaluate.store.dataset", "from roep_gym.evaluate.report.tables import TABLES", True),
        ("roep_gym.evaluate.plan", "from roep_gym.evaluate.schema import CONDITIONS", False),
        ("roep_gym.evaluate.run.rollout", "from roep_gym.wrappers import StepBudget", False),
        ("roep_gym.shields.model", "from . import features\nfrom roep_gym.error import RoepError", False),
        ("roep_gym.cli.evaluate", "from roep_gym.evaluate import runner", False),
    ],
)
def test_the_rule_itself(tmp_path, module, source, refused):
    path = tmp_path / "module.py"
    path.write_text(source)
    assert bool(_refused(path, module)) == refused
