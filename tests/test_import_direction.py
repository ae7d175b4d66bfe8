"""Imports point one way: cli -> evaluate -> wrappers -> shields -> environments, policies and what all share."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# A module may import from its own layer and from the layers below it. The first name that fits decides.
LAYERS = (
    ("roep_gym.cli", 5),
    ("roep_gym.__main__", 5),
    ("roep_gym.evaluate", 4),
    ("roep_gym.training", 3),
    ("roep_gym.wrappers", 2),
    ("roep_gym.shields", 1),
    ("roep_gym", 0),
)


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


def _layer(module: str) -> int:
    return next(layer for name, layer in LAYERS if module == name or module.startswith(f"{name}."))


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


def _upward(path: Path, module: str) -> list[str]:
    return [
        f"{module}:{line} imports {name}"
        for line, name in _imports(path, module)
        if _layer(name) > _layer(module)
    ]


@pytest.mark.parametrize("module", sorted(_module_names()))
def test_no_module_imports_upwards(module):
    assert _upward(_module_names()[module], module) == []


@pytest.mark.parametrize(
    ("module", "source", "refused"),
    [
        ("roep_gym.shields.model", "from roep_gym.wrappers import ShieldAction", True),
        ("roep_gym.shields.model", "from roep_gym import wrappers", True),
        ("roep_gym.shields.model", "import roep_gym.evaluate.schema as s", True),
        ("roep_gym.shields.model", "def f():\n    from ..evaluate import plan", True),
        ("roep_gym.shields.model", "import importlib\nimportlib.import_module('roep_gym.cli.main')", True),
        ("roep_gym.envs.libero_env", "from roep_gym.shields import Shield", True),
        ("roep_gym.training.environment", "from roep_gym.evaluate.rollout import rollout", True),
        ("roep_gym.wrappers.operators", "from roep_gym.training import make_env", True),
        ("roep_gym.evaluate.rollout", "from roep_gym.wrappers import StepBudget", False),
        ("roep_gym.shields.model", "from . import features\nfrom roep_gym.error import RoepError", False),
        ("roep_gym.cli.evaluate", "from roep_gym.evaluate import runner", False),
    ],
)
def test_the_rule_itself(tmp_path, module, source, refused):
    path = tmp_path / "module.py"
    path.write_text(source)
    assert bool(_upward(path, module)) == refused
