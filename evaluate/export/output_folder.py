"""A folder that is complete or not there at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from roep_gym.atomic_file import temporary_path
from roep_gym.error import InvalidInputError, RoepError

__all__ = ["new_folder"]


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give a temporary folder beside `path`, and put it in its place when the body ends without an error.

    Raises:
        InvalidInputError: There is something at `path` already.
        RoepError: The folder cannot be written.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InvalidInputError(
            f"Expected a new folder for the dataset, but {path} holds something; choose another."
        )
    temporary = temporary_path(path)
    try:
        temporary.mkdir(parents=True)
        try:
            yield temporary
            os.replace(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise RoepError(
            f"Expected to write {path}, but that failed: {error}; make room or choose another folder."
        ) from error
