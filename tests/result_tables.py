"""The tables of the page of results, made of the records that lie beside it in `docs/results`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np

from roep_gym.evaluate.report.cells import success_cell
from roep_gym.evaluate.report.records import Run, open_run
from roep_gym.evaluate.report.render import markdown_text
from roep_gym.evaluate.report.table import Column, Table, number, text
from roep_gym.evaluate.report.tables import TABLES
from roep_gym.evaluate.schema import CONDITIONS, REASONS

__all__ = ["RESULTS", "RESULT_TABLES"]

RESULTS = Path(__file__).parents[1] / "docs" / "results"
_SUCCESS = REASONS.index("success")
_TASK = Column("task", "Task", "left")


@lru_cache
def result(name: str) -> Run:
    """Return a published run."""
    return open_run(RESULTS / name)


def _shown(name: str, table: str, *hidden: str) -> Callable[[], str]:
    return lambda: markdown_text(TABLES[table](result(name)).without(*hidden))


def _looks() -> str:
    """Return how often the policy looked, and how long its successes took."""
    run = result("visuomotor")
    conditions = ("baseline", "mild", "perturb", "strong")
    rows = []
    for row in range(run.rows):
        at = {name: run.at(row, name) for name in conditions}
        looks = [float(run.data["decisions"].values[episodes].mean()) for episodes in at.values()]
        steps = [
            float(
                np.median(run.data["steps"].values[episodes[run.data["reason"].values[episodes] == _SUCCESS]])
            )
            for episodes in at.values()
        ]
        cells = [number(value, ".1f", "") for value in looks] + [number(value, ".0f", "") for value in steps]
        rows.append((text(run.label(row)[2]), *cells))
    profiles = [CONDITIONS[name].profile for name in conditions]
    columns = (
        _TASK,
        *(Column(f"looks_{name}", f"Looks, {name}") for name in profiles),
        *(Column(f"steps_{name}", f"Steps, {name}") for name in profiles),
    )
    notes = ("Looks: mean of all 50 episodes. Steps: median of the successes.",)
    return markdown_text(Table("looks", "Looks an episode", columns, tuple(rows), notes))


def _controls() -> str:
    """Return the clean success of the policy and of the control without an image, on stored and displaced scenes."""
    columns, cells = [_TASK], {}
    for name, model, heading in (
        ("visuomotor", "visuomotor", "visuomotor, stored states"),
        ("blind", "blind", "blind, stored states"),
        ("shifted", "visuomotor", "visuomotor, 3 cm off"),
        ("shifted", "blind", "blind, 3 cm off"),
    ):
        run = result(name)
        columns.append(Column(f"{model}_{name}", heading))
        for row in range(run.rows):
            row_model, _, task = run.label(row)
            if row_model == model:
                cells.setdefault(task, []).append(success_cell(run, row, "baseline"))
    rows = tuple((text(task), *line) for task, line in cells.items())
    return markdown_text(
        Table("controls", "Clean success with and without an image", tuple(columns), rows, ())
    )


def _versions() -> str:
    """Return what the published run ran on."""
    (fingerprint,) = dict(result("visuomotor").provenance["fingerprints"]).values()
    lines = [f"| {name} | {version} |\n" for name, version in sorted(fingerprint.items())]
    return "".join(["| what | version |\n", "| --- | --- |\n", *lines])


RESULT_TABLES: Mapping[str, Callable[[], str]] = {
    "results: outcomes": _shown("visuomotor", "3", "model", "suite", "perturb_timeout_rate", "trace_label"),
    "results: severity": _shown("visuomotor", "severity", "model", "suite", "clean_sr", "timeout_rate"),
    "results: shields": _shown("visuomotor", "A5", "model", "suite", "episodes_unsafe", "val_samples"),
    "results: harm": _shown(
        "visuomotor", "A4", "model", "suite", "clean_sr", "perturb_sr", "perturb_timeout_rate"
    ),
    "results: looks": _looks,
    "results: versions": _versions,
    "results: controls": _controls,
}
"""The tables by name."""
