"""The shield of a row: trained once, in the driver, from its bootstrap episodes, and stored before it is used."""

from __future__ import annotations

from roep_gym.evaluate.plan import ResolvedPlan, Row
from roep_gym.evaluate.schema import CONDITIONS
from roep_gym.evaluate.store.journal import Journal
from roep_gym.evaluate.store.row_shield import RowShield, save_row_shield
from roep_gym.evaluate.store.run_directory import RunDirectory
from roep_gym.shields.labels import BootstrapEpisode

__all__ = ["train_row_shield"]


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
    save_row_shield(run, row, result)
    return result


def _bootstrap_episodes(plan: ResolvedPlan, row: Row, journal: Journal) -> list[BootstrapEpisode]:
    return [
        BootstrapEpisode.from_record(record)
        for condition in plan.conditions
        if CONDITIONS[condition.name].role == "bootstrap"
        for _, record in journal.records(row.index, condition.name)
    ]
