"""`roep-gym doctor` and the rendering check: what they find and what they say to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from roep_gym.cli import doctor
from roep_gym.cli.main import main
from roep_gym.envs import rendering
from roep_gym.envs.task_catalog import SuiteScan
from roep_gym.error import DependencyNotInstalledError

SCRIPT = Path(rendering.__file__)


def _check(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the rendering check as a script, isolated from installed packages of this project."""
    return subprocess.run(
        [sys.executable, "-I", "-S", str(SCRIPT), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.libero
def test_doctor_finds_nothing_wrong_here(capsys):
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "PROBLEM" not in text
    assert f"{len(doctor.CHECKS)} checks, 0 problem(s)" in text


@pytest.mark.libero
def test_doctor_answers_in_json(capsys):
    assert main(["doctor", "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)
    assert len(findings) == len(doctor.CHECKS)
    assert {tuple(finding) for finding in findings} == {("check", "status", "found", "remedy")}


def test_a_problem_is_status_1_with_its_remedy(capsys, monkeypatch):
    monkeypatch.setattr(
        doctor,
        "CHECKS",
        (lambda: doctor.Finding("Disk", "problem", "full", "free some"), doctor.check_python),
    )
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "PROBLEM  Disk             full\n         -> free some\n" in text
    assert "2 checks, 1 problem(s), 0 warning(s)" in text


def test_a_refusal_becomes_a_problem_and_the_checks_go_on(capsys, monkeypatch):
    def check_libero():
        raise DependencyNotInstalledError("LIBERO is not installed in this environment; run pip install x")

    monkeypatch.setattr(doctor, "CHECKS", (check_libero, doctor.check_python))
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "libero           LIBERO is not installed" in text
    assert "ok       Python" in text


@pytest.mark.parametrize(
    ("version", "expected", "unexpected"),
    [
        ("3.3.1", "not compared", "darker"),
        ("3.3.3", "darker", "tips over"),
        (
            "3.4.0",
            "darker than published evaluations saw them and one libero_spatial scene tips over",
            "not compared",
        ),
        ("3.17.0", "tips over", "not compared"),
    ],
)
def test_another_mujoco_is_a_warning_that_says_why(monkeypatch, version, expected, unexpected):
    monkeypatch.setattr(doctor, "_version", lambda distribution: version)
    finding = doctor.check_mujoco()
    assert finding.status == "warning"
    assert f"{version} instead of 3.3.2" in finding.found
    assert expected in finding.found
    assert unexpected not in finding.found
    assert "pip install mujoco==3.3.2" in finding.remedy


def test_the_pinned_mujoco_is_fine(monkeypatch):
    monkeypatch.setattr(doctor, "_version", lambda distribution: "3.3.2")
    assert doctor.check_mujoco() == doctor.Finding("MuJoCo", "ok", "3.3.2")


@pytest.mark.parametrize("version", [None, "1.5.2"])
def test_another_robosuite_is_a_problem(monkeypatch, version):
    monkeypatch.setattr(doctor, "_version", lambda distribution: version)
    finding = doctor.check_robosuite()
    assert finding.status == "problem"
    assert finding.remedy == "run pip install robosuite==1.4.0"


def test_numba_that_does_not_fit_numpy_is_a_problem(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    assert doctor.check_numerics().status == "problem"


def test_missing_models_are_a_problem_that_names_the_first(monkeypatch):
    monkeypatch.setattr(
        doctor,
        "scan_suite",
        lambda suite: SuiteScan((), ("a/b.xml (model)",) if "goal" in suite else (), ()),
    )
    finding = doctor.check_suites()
    assert finding.status == "problem"
    assert finding.found == "libero_goal lacks 1, first a/b.xml (model)"


def test_a_model_that_refers_to_a_missing_file_is_a_problem(monkeypatch, tmp_path):
    model = tmp_path / "bowl.xml"
    model.write_text(
        "<mujoco><!-- file='old.stl' --><mesh file='bowl.stl'/><texture file=\"bowl.png\"/></mujoco>"
    )
    (tmp_path / "bowl.png").touch()
    monkeypatch.setattr(doctor, "scan_suite", lambda suite: SuiteScan((), (), (model,)))
    finding = doctor.check_assets()
    assert finding.status == "problem"
    assert finding.found == f"1 files are missing, first {tmp_path / 'bowl.stl'}"


def test_little_disk_space_is_a_warning(monkeypatch):
    monkeypatch.setattr(doctor, "_FREE_GIGABYTES_WANTED", 1e9)
    assert doctor.check_disk().status == "warning"


@pytest.mark.libero
def test_the_rendering_check_needs_no_package_and_names_the_renderer():
    done = _check(MUJOCO_GL="egl")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("rendering: egl, ")


@pytest.mark.libero
def test_a_device_that_does_not_exist_is_named():
    done = _check(MUJOCO_GL="egl", MUJOCO_EGL_DEVICE_ID="99")
    assert done.returncode == 1
    assert "MUJOCO_EGL_DEVICE_ID is '99'" in done.stderr
    assert "check the number in MUJOCO_EGL_DEVICE_ID" in done.stderr


@pytest.mark.libero
def test_a_missing_driver_is_named_with_its_packages(tmp_path):
    done = _check(MUJOCO_GL="egl", __EGL_VENDOR_LIBRARY_DIRS=str(tmp_path))
    assert done.returncode == 1
    assert "apt-get install libegl1 libgl1 libgl1-mesa-dri libglib2.0-0" in done.stderr


def test_a_missing_library_is_named_with_its_package(monkeypatch):
    def missing(name):
        raise OSError(name)

    monkeypatch.setattr(rendering.ctypes, "CDLL", missing)
    assert rendering._create_context() == {
        "problem": "the library libEGL.so.1 is missing (Debian package libegl1)"
    }


def test_a_driver_that_crashes_is_a_problem_not_a_crash(monkeypatch, tmp_path):
    crash = tmp_path / "crash.py"
    crash.write_text("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)\n")
    monkeypatch.setattr(rendering, "__file__", str(crash))
    monkeypatch.setenv("MUJOCO_GL", "egl")
    assert rendering.check_rendering().problem == "the process that tried it failed (exit status -11)"


def test_another_backend_is_respected_and_not_called_checked(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "osmesa")
    assert rendering.check_rendering() == rendering.RenderingCheck("osmesa", checked=False)


def test_software_renderers_are_told_from_gpus():
    assert rendering.RenderingCheck("egl", renderer="llvmpipe (LLVM 15.0.6, 256 bits)").software
    assert not rendering.RenderingCheck("egl", renderer="NVIDIA A100-SXM4-40GB/PCIe/SSE2").software
