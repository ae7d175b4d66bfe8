"""The tables of the page of results, made of the records that lie beside it in `docs/results`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np

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
            float(np.median(run.data["steps"].values[episodes[run.data["reason"].values[episodes] == _SUCCESS]]))
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
    """Return clean and medium success of the policy, and of the control without an image, here and displaced."""
    places = {"stored": ("visuomotor", "blind"), "shifted": ("shifted", "shifted")}
    columns, cells = [_TASK], {}
    for place, runs in places.items():
        for model, name in zip(("visuomotor", "blind"), runs, strict=True):
            table = TABLES["3"](result(name)).where(lambda line, model=model: line["model"] == model)
            for rate in ("clean_sr", "perturb_sr"):
                level = {"clean_sr": "clean", "perturb_sr": "medium"}[rate]
                columns.append(Column(f"{model}_{place}_{level}", f"{model}, {place}, {level}"))
                for task, cell in zip(table.values("task"), table.column(rate), strict=True):
                    cells.setdefault(str(task), []).append(cell)
    rows = tuple((text(task), *line) for task, line in cells.items())
    return markdown_text(Table("controls", "Success with and without an image", tuple(columns), rows, ()))


RESULT_TABLES: Mapping[str, Callable[[], str]] = {
    "results: outcomes": _shown("visuomotor", "3", "suite", "trace_label"),
    "results: severity": _shown("visuomotor", "severity", "model", "suite"),
    "results: shields": _shown("visuomotor", "A5", "model", "suite", "unsafe_ends"),
    "results: harm": _shown("visuomotor", "A4"),
    "results: effects without erasing": _shown("without_erasing", "effects", "suite"),
    "results: outcomes without erasing": _shown("without_erasing", "3", "suite", "trace_label"),
    "results: looks": _looks,
    "results: controls": _controls,
}
"""The tables by name."""
