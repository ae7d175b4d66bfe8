"""The examples of all docstrings run, none is passed over, and every module imports without optional packages."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
import types
from importlib.util import find_spec
from typing import Any

import pytest

import roep_gym

OPTIONAL = ("minari", "openpi_client", "openpi_server", "pyarrow", "ray")
"""What the extras of `setup.cfg` install for users."""
MODULES = ["roep_gym", *(found.name for found in pkgutil.walk_packages(roep_gym.__path__, "roep_gym."))]
PROMPT = re.compile(r'^ *(?:r?""")?>>> ', re.MULTILINE)


def source_of(name: str) -> str:
    spec: Any = find_spec(name)
    return str(spec.loader.get_source(name))


def with_examples() -> list[Any]:
    """Return the names of the modules with examples, marked where an example needs LIBERO."""
    sources = {name: source for name in MODULES if PROMPT.search(source := source_of(name))}
    return [
        pytest.param(name, marks=pytest.mark.libero if re.search("(>>>|[.]{3}) .*Libero-v0", source) else ())
        for name, source in sources.items()
    ]


def run_examples(module: types.ModuleType, source: str) -> str | None:
    """Run a module's examples; return None, or what is wrong with them."""
    runner, report = doctest.DocTestRunner(), list[str]()
    for test in doctest.DocTestFinder().find(module):
        runner.run(test, out=report.append)
    if runner.failures:
        return "".join(report)
    # An example that is skipped, or in a string into which doctest does not look, would grow stale unseen.
    if runner.tries != (shown := len(PROMPT.findall(source))):
        return f"Expected {shown} examples to run, {runner.tries} did."
    return None


@pytest.mark.parametrize("name", with_examples())
def test_every_example_of_a_module_runs(name: str) -> None:
    assert run_examples(importlib.import_module(name), source_of(name)) is None


@pytest.mark.parametrize(
    ("example", "complaint"),
    [
        (">>> 1 + 1\n2", None),
        (">>> 1 + 1\n3", "Expected:\n    3\nGot:\n    2"),
        (">>> from roep_gym import make_polcy", "ImportError"),
        (">>> 1 + 1  # doctest: +SKIP\n2", "Expected 1 examples to run, 0 did."),
    ],
)
def test_a_stale_or_skipped_example_is_found(example: str, complaint: str | None) -> None:
    found = run_examples(types.ModuleType("planted", example), example)
    assert found == complaint or str(complaint) in str(found)


def test_an_example_where_doctest_does_not_look_is_found() -> None:
    module = types.ModuleType("planted", ">>> 1 + 1\n2")
    source = '""">>> 1 + 1\n2"""\nX = 1\n""">>> X\n2"""'  # the second is that of a constant
    assert run_examples(module, source) == "Expected 2 examples to run, 1 did."


def test_every_module_imports_without_the_optional_packages() -> None:
    # `__main__` runs the command line when it is imported.
    modules = [name for name in MODULES if not name.endswith(".__main__")]
    code = f"""
import importlib, sys
sys.modules.update(dict.fromkeys({OPTIONAL!r}))
for name in {modules!r}:
    importlib.import_module(name)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
