"""The seams have one shape: built in, registered, offered by an installed package, or at a place in Python."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from doc_blocks import ROOT, read_blocks, run_blocks

from roep_gym.error import InvalidInputError, UnknownNameError
from roep_gym.policies import POLICIES, make_policy
from roep_gym.registry import Registry
from roep_gym.shields import SHIELDS
from roep_gym.shields.registry import find_shield
from roep_gym.suites import SUITES, find_suite
from roep_gym.wrappers import OPERATORS
from roep_gym.wrappers.operators.registry import find_operator

SEAMS = {
    "policies": (POLICIES, make_policy),
    "operators": (OPERATORS, find_operator),
    "shields": (SHIELDS, find_shield),
    "suites": (SUITES, find_suite),
}
MODULE = """
import numpy as np
from roep_gym.shields import Assessment
from roep_gym.suites.tabletop import TabletopSuite
from roep_gym.wrappers import ObservationOperator


def policies(observation):
    return np.zeros(7)


class operators(ObservationOperator):
    modality, severity = "image", "level"

    def describe(self, shape, severity, key):
        return {"operator": self.name, "level": self.check(severity)}

    def rebuild(self, clean, metadata, key):
        return (clean * (1 - metadata["level"])).astype(clean.dtype)


class shields:
    fields, action_size, action_bounds, control_mode = ("eef_pos_x",), 7, (-1.0, 1.0), "relative"

    def assess(self, low, action):
        return Assessment(0.1, 0.5, False, "below_threshold", "none", action, False)


class suites(TabletopSuite):
    name = "elsewhere"
"""
IN_A_WORKER = """
import gymnasium as gym, roep_gym
from roep_gym import make_policy
from roep_gym.suites import find_suite
from roep_gym.wrappers import PerturbObservation, ShieldAction
profile = {{"name": "x", "operators": [{{"operator": {operators!r}, "level": 0.5}}]}}
env = PerturbObservation(gym.make("roep_gym/Tabletop-v0", image_size=16), profile=profile)
env = ShieldAction(env, {shields!r})
observation, info = env.reset(seed=0)
(metadata,) = info["perturbation"]["metadata"]["agentview_image"]
assert metadata == {{"operator": {operators!r}, "level": 0.5}}, metadata
assert make_policy({policies!r}).contract.runtime_bridge == "n/a"
*_, info = env.step(env.action_space.sample())
assert info["shield"]["risk"] == 0.1
assert find_suite({suites!r}).tasks()
"""


def install(folder: Path, distribution: str, module: str) -> None:
    """Make a folder hold what an installed package with an entry point for each seam is."""
    (folder / f"{module}.py").write_text(MODULE)
    metadata = folder / f"{distribution}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    points = [f"[roep_gym.{seam}]\nelsewhere = {module}:{seam}\n" for seam in SEAMS]
    (metadata / "entry_points.txt").write_text("\n".join(points))


@pytest.mark.parametrize("seam", SEAMS)
def test_an_unknown_name_offers_the_closest_and_the_remedy(
    seam: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, find = SEAMS[seam]
    monkeypatch.setattr(registry, "_parts", {"flashlight": object()})
    message = (
        f"Unknown {registry.kind} 'flash_light'. Did you mean 'flashlight'? A {registry.kind} of your own is"
    )
    with pytest.raises(UnknownNameError, match=re.escape(message)):
        find("flash_light")


@pytest.mark.parametrize("seam", SEAMS)
def test_the_name_is_that_of_the_seam(seam: str) -> None:
    assert SEAMS[seam][0].group == f"roep_gym.{seam}"


@pytest.mark.parametrize("seam", SEAMS)
def test_every_built_in_part_is_where_it_is_said_to_be(seam: str) -> None:
    registry, _ = SEAMS[seam]
    assert all(callable(registry.find(name)) for name in registry.names())


@pytest.mark.parametrize("seam", SEAMS)
def test_a_module_that_cannot_be_imported_is_one_sentence(
    seam: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    registry, find = SEAMS[seam]
    for name, code, message in (
        ("leaves", "raise SystemExit(3)", "SystemExit: 3"),
        ("divides", "1 / 0", "ZeroDivisionError: division by zero"),
        ("unfinished", "def f(", "SyntaxError"),
        ("empty", "", "AttributeError: module 'roep_seam_empty' has no attribute 'part'"),
    ):
        (tmp_path / f"roep_seam_{name}.py").write_text(code)
        expected = f"Expected a {registry.kind} at 'roep_seam_{name}:part', got {message}"
        with pytest.raises(InvalidInputError, match=re.escape(expected)):
            find(f"roep_seam_{name}:part")
    with pytest.raises(InvalidInputError, match="ModuleNotFoundError: No module named 'roep_seam_absent'"):
        find("roep_seam_absent:part")


@pytest.mark.parametrize("named", ["elsewhere", "roep_seam_third:{seam}"])
def test_a_worker_process_sees_entry_points_and_places(named: str, tmp_path: Path) -> None:
    install(tmp_path, "third", "roep_seam_third")
    code = IN_A_WORKER.format(**{seam: named.format(seam=seam) for seam in SEAMS})
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    result = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("seam", SEAMS)
def test_two_packages_that_offer_one_name_are_told_apart_by_the_user(
    seam: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for distribution in ("first", "second"):
        install(tmp_path, distribution, f"roep_seam_{distribution}")
    registry, find = SEAMS[seam]
    assert "elsewhere" in registry.names()
    with pytest.raises(
        InvalidInputError, match="the packages first, second each offer one; uninstall all but one"
    ):
        find("elsewhere")
    assert find(f"roep_seam_first:{seam}") is not None


def test_a_name_is_taken_once() -> None:
    registry: Registry = Registry("lamp", "roep_gym.lamps", {"red": "builtins:object"})
    registry.register("green", int)
    registry.register("green", int)
    for name, part, message in (
        ("red", int, "'red' is registered already"),
        ("green", str, "'green' is registered already"),
        ("", int, "without a colon, got ''"),
        ("a:b", int, "without a colon, got 'a:b'"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            registry.register(name, part)
    parts: dict[str, Any] = {name: registry.find(name) for name in registry.names()}
    assert parts == {"green": int, "red": object}


def test_what_the_page_writes_keeps_its_contract(tmp_path: Path) -> None:
    written = run_blocks(read_blocks(ROOT / "docs" / "extending.md"), "quick", tmp_path)
    suites = [kind for name, kind in written.items() if name.startswith("Test")]
    assert len(suites) >= len(SEAMS)
    for suite in suites:
        for name in dir(suite):
            if name.startswith("test_"):
                getattr(suite(), name)()
