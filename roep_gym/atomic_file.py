"""Writing a file or a folder so that it is complete or not there at all.

`new_folder` gives a folder that takes its place when it is whole, `replacing` a temporary path whose file takes the
place of another, and `write_atomically` writes bytes that way. `temporary_path` names what is not complete yet, `sweep`
removes what a writer that was killed left of it, and `writing` says of an error what could not be written.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from roep_gym.error import InvalidInputError, RoepError

__all__ = ["new_folder", "replacing", "sweep", "temporary_path", "write_atomically", "writing"]

_SUFFIX = ".roep-gym.tmp"


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that it is complete or not there at all: temporary name, fsync, rename.

    Raises:
        RoepError: The file cannot be written.
    """
    with replacing(path) as temporary:
        temporary.write_bytes(content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`, and put what the body wrote there in its place."""
    temporary = temporary_path(path)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            _sync(temporary)
            os.replace(temporary, path)
            _sync(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give a temporary folder beside `path`, and put it in its place when the body ends without an error.

    Raises:
        InvalidInputError: There is something at `path` already.
        RoepError: The folder cannot be written.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InvalidInputError(f"Expected a new folder, but {path} holds something; choose another.")
    temporary = temporary_path(path)
    with writing(path):
        temporary.mkdir(parents=True)
        try:
            yield temporary
            os.replace(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Say of an error of the file system what could not be written."""
    try:
        yield
    except OSError as error:
        raise RoepError(
            f"Expected to write {path}, but that failed: {error}; make room or choose another folder."
        ) from error


def temporary_path(path: Path) -> Path:
    """Return the name, beside `path`, of what will take its place; no other program gives such names."""
    return path.with_name(f".{path.name}.{os.getpid()}{_SUFFIX}")


def sweep(folder: Path) -> None:
    """Remove what writers that were killed left in a folder, its subfolders excepted."""
    for leftover in folder.glob(f".*{_SUFFIX}"):
        if leftover.is_dir():
            shutil.rmtree(leftover)
        else:
            leftover.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
