"""What the bootstrap of a row gave, as the run stores it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from roep_gym import seeding
from roep_gym.atomic_file import write_atomically
from roep_gym.documents import read_json
from roep_gym.error import InvalidInputError, shown
from roep_gym.evaluate.plan import Row
from roep_gym.evaluate.store.run_directory import RunDirectory
from roep_gym.mapping_reader import read_mapping
from roep_gym.typing import JSON

__all__ = ["RowShield", "load_row_shield", "save_row_shield"]


@dataclass(frozen=True)
class RowShield:
    """What the bootstrap of a row gave: the status "trained" or "failed", and what the training recorded.

    A failure has a reason; a trained shield has the name of its file in the folder of shields, its content hash and its
    risk threshold.
    """

    status: str
    reason: str = ""
    file: str = ""
    digest: str = ""
    tau: float | None = None
    metadata: Mapping[str, JSON] = field(default_factory=dict)


def save_row_shield(run: RunDirectory, row: Row, outcome: RowShield) -> None:
    """Store the outcome of a row's bootstrap."""
    stored = {"outcome": vars(outcome), "digest": _digest(row, vars(outcome))}
    write_atomically(_path(run, row), json.dumps(stored, sort_keys=True, indent=1).encode())


def load_row_shield(run: RunDirectory, row: Row) -> RowShield | None:
    """Return the stored outcome of a row's bootstrap, None when it was not trained yet."""
    path = _path(run, row)
    if not path.exists():
        return None
    try:
        stored = read_json(path, "the outcome of a shield's training")
        if not isinstance(stored, dict) or stored.keys() != {"outcome", "digest"}:
            raise InvalidInputError(f"Expected an outcome with its digest, got {shown(stored)}.")
        if stored["digest"] != _digest(row, stored["outcome"]):
            raise InvalidInputError(
                "Expected the outcome that was written, but it was changed or damaged since."
            )
        return read_mapping(RowShield, stored["outcome"], "outcome")
    except InvalidInputError as error:
        raise InvalidInputError(
            f"Expected the outcome of a shield's training in {path}, got: {error} Delete the file, and the same "
            "command trains the same shield again."
        ) from error


def _path(run: RunDirectory, row: Row) -> Path:
    return run.shields / f"{row.index}.json"


def _digest(row: Row, outcome: JSON) -> str:
    return seeding.digest(row.label, json.dumps(outcome, sort_keys=True)).hex()
