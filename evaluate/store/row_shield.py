"""What the bootstrap of a row gave, as the run stores it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from roep_gym.error import InvalidInputError
from roep_gym.evaluate.plan import Row
from roep_gym.evaluate.store.run_directory import RunDirectory

__all__ = ["RowShield", "load_row_shield"]


@dataclass(frozen=True)
class RowShield:
    """What the bootstrap of a row gave.

    Attributes:
        status: "trained" or "failed".
        reason: Why it failed.
        file: Name of the shield's file in the folder of shields; empty when failed.
        digest: Content hash of the shield.
        tau: Its risk threshold; None when failed.
        metadata: What the training recorded.
    """

    status: str
    reason: str
    file: str
    digest: str
    tau: float | None
    metadata: Mapping[str, Any] = field(default_factory=dict)


def load_row_shield(run: RunDirectory, row: Row) -> RowShield | None:
    """Return the stored outcome of a row's bootstrap, None when it was not trained yet.

    Raises:
        InvalidInputError: The file is broken.
    """
    path = run.shields / f"{row.index}.json"
    if not path.exists():
        return None
    try:
        return RowShield(**json.loads(path.read_text()))
    except (json.JSONDecodeError, TypeError) as error:
        raise InvalidInputError(
            f"Expected the outcome of a shield's training in {path}, got {error}; delete the file, and the same "
            "command trains the same shield again."
        ) from error
