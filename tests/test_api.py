"""The public names: facade, `__all__`, help and the page of the API say the same, and documents use nothing else."""

from __future__ import annotations

import ast
import importlib
import json
import pkgutil
import pydoc
import subprocess
import sys
from pathlib import Path

import pytest
from api_names import FACADES, first_line, public_names
from doc_blocks import read_blocks

ROOT = Path(__file__).parents[1]


def _source(package: str) -> ast.Module:
    path = importlib.import_module(package).__file__
    assert path is not None
    return ast.parse(Path(path).read_text(encoding="utf-8"))


@pytest.mark.parametrize("package", FACADES)
def test_all_the_lazy_names_and_the_imports_for_type_checkers_are_the_same(package):
    module = importlib.import_module(package)
    (branch,) = [node for node in _source(package).body if isinstance(node, ast.If)]
    imported = [alias.name for node in branch.body for alias in node.names]
    assert [ast.unparse(node) for node in branch.orelse] == ["__getattr__, __dir__ = lazy_names(__name__)"]
    assert dir(module) == sorted(module.__all__) == sorted(imported)
    assert all(node.module.startswith(f"{package}.") for node in branch.body)


@pytest.mark.parametrize("package", FACADES)
def test_no_name_is_that_of_a_submodule(package):
    # Importing the submodule would replace the name in the facade.
    module = importlib.import_module(package)
    submodules = {found.name for found in pkgutil.iter_modules(module.__path__)}
    assert submodules.isdisjoint(module.__all__)


@pytest.mark.parametrize(
    ("package", "name"), [(package, name) for package in FACADES for name in public_names(package)]
)
def test_every_name_resolves_and_says_what_it_is(package, name):
    assert getattr(importlib.import_module(package), name) is not None
    assert first_line(package, name).endswith(".")


@pytest.mark.parametrize("package", FACADES)
def test_help_lists_the_names_and_no_others(package):
    text = pydoc.plain(pydoc.render_doc(importlib.import_module(package)))
    sections = dict(_sections(text))
    shown = {
        line.strip().split("(")[0].split(" = ")[0].removeprefix("class ").split(": ")[0]
        for name in ("CLASSES", "FUNCTIONS", "DATA")
        for line in sections.get(name, "").splitlines()
        if line.startswith("    ")
        and line[4:5].strip()
        and (name != "CLASSES" or line.startswith("    class "))
    }
    assert shown == set(public_names(package)) - {"__version__"}


def _sections(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line and line.isupper() and line[0].isalpha():
            found.append((line, []))
        elif found:
            found[-1][1].append(line)
    return [(name, "\n".join(lines)) for name, lines in found]


def _documents() -> list[tuple[str, str]]:
    """Return name and Python source of everything that shows users how to import."""
    found = [
        (f"{path.relative_to(ROOT)}:{block.line}", block.code)
        for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
        for block in read_blocks(path)
        if block.language == "python"
    ]
    for path in (
        *(ROOT / "docs").rglob("*.ipynb"),
        *(ROOT / "examples").rglob("*.py"),
        *(ROOT / "docs").rglob("*.py"),
    ):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".ipynb":
            cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
            text = "\n".join("".join(cell["source"]) for cell in cells)
        found.append((str(path.relative_to(ROOT)), text))
    return found


def _internal_imports(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.split(".")[0] == "roep_gym"]
            found.extend(name for name in names if name not in FACADES)
        elif isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "roep_gym":
            known = public_names(str(node.module)) if node.module in FACADES else []
            found.extend(f"{node.module}.{alias.name}" for alias in node.names if alias.name not in known)
    return found


def test_pages_notebooks_and_examples_use_the_public_names_alone():
    documents = _documents()
    assert len(documents) > 30
    assert {where: found for where, source in documents if (found := _internal_imports(source))} == {}


@pytest.mark.parametrize(
    ("source", "internal"),
    [
        ("from roep_gym.evaluate.plan import resolve", ["roep_gym.evaluate.plan.resolve"]),
        ("def f():\n    import roep_gym.seeding", ["roep_gym.seeding"]),
        ("from roep_gym.evaluate import plan", ["roep_gym.evaluate.plan"]),
        ("import roep_gym\nfrom roep_gym.evaluate import resolve", []),
    ],
)
def test_an_internal_import_is_found(source, internal):
    assert _internal_imports(source) == internal


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'roep_gym\.wrappers' has no attribute 'RecordEpisod'"):
        importlib.import_module("roep_gym.wrappers").RecordEpisod  # noqa: B018


def test_importing_every_facade_loads_nothing_behind_it():
    code = (
        f"import sys; {'; '.join(f'import {package}' for package in FACADES)}; "
        "print(sorted(m for m in sys.modules if m.startswith('roep_gym.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ast.literal_eval(done.stdout))
    assert loaded == {*FACADES, "roep_gym.lazy", "roep_gym.envs.registration"} - {"roep_gym"}
