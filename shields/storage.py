"""A shield on disk: one `.npz` file with the arrays and a JSON description, without pickle.

`save_shield` writes it atomically and never over a different shield; `load_shield` checks that the content is
what was written.
"""

from __future__ import annotations

import io
import json
import lzma
import os
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from roep_gym.atomic_file import replacing
from roep_gym.error import InvalidInputError, RecordConflictError, bounded, shown
from roep_gym.mapping_reader import read_mapping
from roep_gym.shields.config import ShieldConfig
from roep_gym.shields.model import RiskModel
from roep_gym.shields.shield import Shield
from roep_gym.typing import Array

__all__ = ["FORMAT_VERSION", "load_shield", "save_shield"]

FORMAT_VERSION = 2
"""Raised when the layout of the file changes."""
_HEADER = "header"
_DAMAGE = (
    # The archive and its members: flipped bits can name another compression, or an encryption.
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, RuntimeError),
    # The header of an array is parsed as Python source.
    *(ValueError, SyntaxError, tokenize.TokenError, TypeError, AttributeError, LookupError),
    *(OverflowError, MemoryError),
)
"""What reading a damaged file can raise."""


def save_shield(shield: Shield, path: str | os.PathLike[str]) -> Path:
    """Write a shield and return the path; the file is written atomically.

    An existing file with the same content is left as it is.

    Raises:
        InvalidInputError: The name does not end in `.npz`.
        RecordConflictError: The path holds another shield.
        RoepError: The file cannot be written.
    """
    target = Path(path)
    if target.suffix != ".npz":
        raise InvalidInputError(f"Expected a shield file name that ends in .npz, got {target.name!r}.")
    if target.exists():
        present = load_shield(target).digest
        if present != shield.digest:
            raise RecordConflictError(
                f"Expected no other shield at {target}, found {present} there instead of {shield.digest}; "
                "choose another path."
            )
        return target
    header = {
        "format": "roep-gym shield",
        "version": FORMAT_VERSION,
        "digest": shield.digest,
        "shield": json.loads(shield.description()),
    }
    content: dict[str, Any] = {
        **shield.model.arrays(),
        _HEADER: np.frombuffer(json.dumps(header).encode(), np.uint8),
    }
    with replacing(target) as temporary, temporary.open("wb") as file:
        np.savez(file, **content)
    return target


def load_shield(path: str | os.PathLike[str]) -> Shield:
    """Return the shield in a file, equal to the bit.

    Raises:
        InvalidInputError: The file is missing, broken, not a shield, of another version, or its content is not
            what was written.
    """
    source = Path(path)
    if not os.path.isfile(source):
        raise InvalidInputError(
            f"Expected a shield file at {source}, found none; train one or correct the path."
        )
    arrays, header = _read(source)
    if not isinstance(header, dict) or header.get("format") != "roep-gym shield":
        raise InvalidInputError(f"Expected a roep-gym shield in {source}, got another kind of .npz file.")
    if header.get("version") != FORMAT_VERSION:
        raise InvalidInputError(
            f"Expected shield format version {FORMAT_VERSION} in {source}, got {shown(header.get('version'))}; "
            "train the shield again or use the version of roep-gym that wrote it."
        )
    try:
        content = header["shield"]
        shield = Shield(
            model=RiskModel.from_arrays(arrays),
            threshold=float(content["threshold"]),
            fields=tuple(content["fields"]),
            action_size=int(content["action_size"]),
            config=read_mapping(ShieldConfig, content["config"], "shield"),
            control_mode=content["control_mode"],
            metadata=content["metadata"],
        )
        digest = shield.digest
    except (KeyError, TypeError, ValueError, IndexError, OverflowError, RecursionError) as error:
        raise InvalidInputError(
            f"Expected a complete shield in {source}, but its content is not valid: {bounded(str(error))}."
        ) from error
    if digest != header.get("digest"):
        raise InvalidInputError(
            f"Expected the shield {shown(header.get('digest'))} in {source}, but its content hashes to {digest}: "
            "the file was altered; train the shield again."
        )
    return shield


def _read(source: Path) -> tuple[dict[str, Array], Any]:
    # Read first, so that an error of the file system is not taken for damage.
    content = io.BytesIO(source.read_bytes())
    try:
        # A damaged archive shows itself anywhere between the directory and the last member.
        with np.load(content, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        return arrays, json.loads(arrays.pop(_HEADER).tobytes())
    except _DAMAGE as error:
        raise InvalidInputError(
            f"Expected a shield in {source}, but the file is truncated, damaged or no shield; train the shield again."
        ) from error
