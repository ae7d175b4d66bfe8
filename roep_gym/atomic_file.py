"""Writing a file so that it is complete or not there at all.

`replacing` gives a temporary path whose file takes the place of another, `write_atomically` writes bytes that way.
`temporary_path` names what is not complete yet, and `sweep` removes what a writer that was killed left of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from roep_gym.error import RoepError

__all__ = ["replacing", "sweep", "temporary_path", "write_atomically"]

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
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield temporary
            _sync(temporary)
            os.replace(temporary, path)
            _sync(path.parent)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise RoepError(
            f"Expected to write {path}, but that failed: {error}; make room or choose another folder."
        ) from error


def temporary_path(path: Path) -> Path:
    """Return the name, beside `path`, of what will take its place; no other program gives such names."""
    return path.with_name(f".{path.name}.{os.getpid()}{_SUFFIX}")


def sweep(folder: Path) -> None:
    """Remove the temporary files of writers that were killed from a folder, its subfolders excepted."""
    for leftover in folder.glob(f".*{_SUFFIX}"):
        leftover.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
