"""Importing LIBERO leaves nothing behind and needs nothing that another user of the machine may own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.libero


def python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )


def test_robosuite_opens_no_log_file(tmp_path: Path) -> None:
    code = """
import logging
class FileHandler(logging.Handler):
    def __init__(self, path, *arguments, **settings):
        raise PermissionError(13, "Permission denied", path)
logging.FileHandler = FileHandler
from roep_gym.envs.robosuite_import import import_robosuite
robosuite = import_robosuite()
import robosuite.utils.log_utils
assert robosuite.macros.FILE_LOGGING_LEVEL is None
assert robosuite.macros is __import__("sys").modules["robosuite.macros"]
assert import_robosuite() is robosuite
"""
    done = python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""


def test_processes_that_are_killed_share_one_folder(tmp_path: Path) -> None:
    code = "import os; from roep_gym.envs.libero_install import isolate_libero; isolate_libero(); os._exit(9)"
    for _ in range(2):
        done = python(code, tmp_path)
        assert done.returncode == 9, done.stderr
    (folder,) = tmp_path.glob("roep-gym-libero-*")
    assert [path.name for path in folder.iterdir()] == ["config.yaml"]
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_can_write_to_is_refused(tmp_path: Path) -> None:
    code = "from roep_gym.envs.libero_install import isolate_libero; isolate_libero()"
    assert python(code, tmp_path).returncode == 0
    (folder,) = tmp_path.glob("roep-gym-libero-*")
    folder.chmod(0o777)
    assert "others can write to it; remove it or set TMPDIR" in python(code, tmp_path).stderr
