"""Content hashes that say which weights or which code a policy really ran."""

from __future__ import annotations

import hashlib
import inspect
from pathlib import Path
from types import ModuleType

__all__ = ["file_revision", "source_revision"]


def file_revision(path: Path) -> str:
    """Return "sha256:" and the first 16 hexadecimal digits of the SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()[:16]}"


def source_revision(*modules: ModuleType) -> str:
    """Return "sha256:" and the first 16 hexadecimal digits of the SHA-256 of the modules' sources."""
    state = hashlib.sha256()
    for module in modules:
        state.update(inspect.getsource(module).encode())
    return f"sha256:{state.hexdigest()[:16]}"
