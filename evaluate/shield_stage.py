"""The shield of a row: trained once, in the driver, from its bootstrap episodes, and stored before it is used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from roep_gym.error import InvalidInputError
from roep_gym.evaluate.atomic_file import write_atomically
from roep_gym.evaluate.journal import Journal
from roep_gym.evaluate.plan import ResolvedPlan, Row
from roep_gym.evaluate.run_directory import RunDirectory
from roep_gym.evaluate.schema import CONDITIONS
from roep_gym.shields.labels import BootstrapEpisode

__all__ = ["RowShield", "load_row_shield", "train_row_shield"]


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


def train_row_shield(run: RunDirectory, plan: ResolvedPlan, row: Row, journal: Journal) -> RowShield:
    """Train a row's shield on its recorded bootstrap episodes and store the outcome."""
    from roep_gym.shields.bootstrap import train_shield
    from roep_gym.shields.storage import save_shield

    outcome = train_shield(_bootstrap_episodes(plan, row, journal), plan.plan.shield)
    if outcome.shield is None:
        result = RowShield("failed", outcome.reason, "", "", None, outcome.metadata)
    else:
        path = save_shield(outcome.shield, run.shields / f"{outcome.shield.digest}.npz")
        result = RowShield(
            "trained", "", path.name, outcome.shield.digest, outcome.shield.threshold, outcome.metadata
        )
    text = json.dumps(result.__dict__, sort_keys=True, indent=1)
    write_atomically(run.shields / f"{row.index}.json", text.encode())
    return result


def _bootstrap_episodes(plan: ResolvedPlan, row: Row, journal: Journal) -> list[BootstrapEpisode]:
    return [
        BootstrapEpisode.from_record(record)
        for condition in plan.conditions
        if CONDITIONS[condition.name].role == "bootstrap"
        for _, record in journal.records(row.index, condition.name)
    ]
