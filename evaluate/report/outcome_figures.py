"""Figures of outcomes: Figure 3 (success and effect), Figure 4 (timeouts, task detail), the forest plot, the sweep.

Each draws the numbers of a table (4, 3, "effects" and "severity") and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from roep_gym import escape
from roep_gym.evaluate.judging.noise_floor import DISTINGUISHABLE, SEVERITIES, WITHIN_VARIABILITY
from roep_gym.evaluate.report.claim_tables import ALL_SUITES
from roep_gym.evaluate.report.records import Run
from roep_gym.evaluate.report.style import PALETTE, NotDrawableError, new_figure
from roep_gym.evaluate.report.table import Table, Value
from roep_gym.evaluate.report.tables import TABLES

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["effect_forest", "severity_sweep", "success_and_effect", "timeouts"]


def success_and_effect(run: Run) -> Figure:
    """Figure 3: clean and medium success rate, and Delta SR against the noise floor, by model and suite.

    Raises:
        NotDrawableError: No task has a clean success rate.
    """
    groups, tasks = _groups(TABLES["4"](run)), TABLES["3"](run)
    if all(group["mean_clean_sr"] is None for group in groups):
        raise NotDrawableError("no task has a recorded clean success rate")
    figure = new_figure(max(7.2, 1.1 * len(groups) + 2), 5.6)
    upper, lower = figure.subplots(2, 1, sharex=True)
    series = {"clean": "mean_clean_sr", "medium": "mean_perturb_sr"}
    _bars(upper, groups, series, {"clean": "clean", "medium": "medium"})
    _dots(upper, groups, tasks, {"clean": "clean_sr", "medium": "perturb_sr"})
    upper.set(ylabel="success rate", ylim=(0, 1.08))
    upper.set_title("a  Success rate: mean over tasks, with each task")
    _bars(
        lower,
        groups,
        {"effect": "mean_signed_delta_sr", "floor": "mean_noise_floor_sr"},
        {"effect": "Delta SR = clean - medium", "floor": "noise floor F_SR"},
    )
    _dots(lower, groups, tasks, {"effect": "delta_sr", "floor": "noise_floor_sr"})
    lower.axhline(0, color="black", linewidth=0.8)
    lower.set(ylabel="difference of rates")
    lower.set_title("b  Effect of the medium perturbation against the noise floor")
    _name_groups(lower, groups)
    upper.tick_params(axis="x", length=0)
    for axes in (upper, lower):
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2)
    return figure


def timeouts(run: Run) -> Figure:
    """Figure 4: timeout rates by model and suite; timeout rate, drop and noise floor of every task.

    Raises:
        NotDrawableError: No task has a medium timeout rate.
    """
    groups, tasks = _groups(TABLES["4"](run)), TABLES["3"](run)
    if all(value is None for value in tasks.values("perturb_timeout_rate")):
        raise NotDrawableError("no admitted row has a recorded medium timeout rate")
    labels = list(dict.fromkeys(zip(tasks.values("suite"), tasks.values("task"), strict=True)))
    models = list(dict.fromkeys(tasks.values("model")))
    width = max(8.4, 1.1 * len(groups) + 2, 3 + 0.55 * len(_TASK_GRIDS) * len(models))
    figure = new_figure(width, 3.6 + 0.34 * len(labels))
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=(2.4, 0.9 + 0.34 * len(labels)))[:, 0]
    upper = above.subplots()
    _bars(upper, groups, {"timeout": "mean_perturb_timeout_rate"}, {"timeout": "medium"})
    _dots(upper, groups, tasks, {"timeout": "perturb_timeout_rate"})
    upper.set(ylabel="timeout rate", ylim=(0, 1.08))
    upper.set_title("a  Timeout rate under the medium perturbation: mean over tasks, with each task")
    _name_groups(upper, groups)
    grids = below.subplots(1, len(_TASK_GRIDS), sharey=True)
    for axes, (column, heading) in zip(grids, _TASK_GRIDS.items(), strict=True):
        _task_grid(axes, tasks, column, labels, models)
        axes.set_title(heading)
    grids[0].set_yticks(range(len(labels)), [escape.figure(str(task)) for _, task in labels])
    return figure


_TASK_GRIDS = {
    "perturb_timeout_rate": "b  Timeout rate, medium",
    "delta_sr": "Drop: Delta SR",
    "noise_floor_sr": "Floor F_SR",
}


def effect_forest(run: Run) -> Figure:
    """Draw the paired Delta SR of every row with its interval, on the band of its noise floor.

    Raises:
        NotDrawableError: No admitted row has pairs of a clean and a medium episode.
    """
    table = TABLES["effects"](run)
    lines = [_values(table, k) for k in range(len(table.rows))]
    if all(line["paired_delta_sr"] is None for line in lines):
        raise NotDrawableError("no admitted row has pairs of a clean and a medium episode")
    figure = new_figure(7.2, 1.3 + 0.27 * len(lines))
    axes = figure.subplots()
    floor = PALETTE["floor"]
    for position, line in enumerate(lines):
        half = _float(line["noise_floor_sr"])
        if math.isfinite(half):
            axes.barh(position, 2 * half, left=-half, height=0.72, color=floor.color, edgecolor="#8C8C8C",
                      linewidth=0.5, hatch=floor.hatch, label="_floor")  # fmt: skip
        middle, low, high = (_float(line[name]) for name in ("paired_delta_sr", "low", "high"))
        if math.isnan(middle):
            axes.annotate("N/A", (0, position), va="center", ha="center", fontsize=8)
            continue
        axes.plot(
            [low, high], [position, position], color=PALETTE["effect"].color, linewidth=1.6, label="_interval"
        )
        axes.plot([middle], [position], label="_difference", **_mark(line["effect"]))
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(lines)), [escape.figure(run.short(row)) for row in range(run.rows)])
    axes.set(ylim=(len(lines) - 0.4, -0.6), xlabel="paired Delta SR = SR(clean) - SR(medium)")
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.04)
    axes.use_sticky_edges = False
    shown = [line["effect"] for line in lines if line["paired_delta_sr"] is not None]
    handles = _forest_handles(shown, run.judgement.config.confidence)
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=8)
    return figure


def severity_sweep(run: Run) -> Figure:
    """Draw the success rate of every row under each severity, with that of its clone.

    Raises:
        NotDrawableError: No admitted row has a mild or strong condition.
    """
    table = TABLES["severity"](run)
    lines = [_values(table, k) for k in range(len(table.rows))]
    if all(line["sr"] is None for line in lines if line["severity"] != "medium"):
        raise NotDrawableError("no admitted row has a recorded mild or strong success rate")
    figure = new_figure(7.2, 1.3 + 0.42 * run.rows)
    axes = figure.subplots()
    shown = ("clean", *SEVERITIES)
    for k, line in enumerate(lines):
        row, place = divmod(k, len(SEVERITIES))
        look = PALETTE[str(line["severity"])]
        height = row + 0.2 * (place + 1) - 0.3
        if place == 0:
            clean = PALETTE["clean"]
            axes.plot([_float(line["clean_sr"])], [row - 0.3], clean.marker, color=clean.color, markersize=6)
        pair = [_float(line[name]) for name in ("sr", "clone_sr")]
        axes.plot(pair, [height, height], color=look.color, linewidth=1.2, label="_re-run")
        axes.plot(pair[:1], [height], look.marker, color=look.color, markersize=6, label="_run")
        axes.plot(
            pair[1:], [height], look.marker, markerfacecolor="white", markeredgecolor=look.color, markersize=6
        )
    for name in shown:
        axes.plot([], [], PALETTE[name].marker, color=PALETTE[name].color, label=name)
    axes.set_yticks(range(run.rows), [escape.figure(run.short(row)) for row in range(run.rows)])
    axes.set(ylim=(run.rows - 0.4, -0.6), xlim=(-0.03, 1.03), xlabel="success rate")
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    figure.legend(loc="outside upper center", ncols=len(shown), fontsize=8)
    return figure


def _groups(table: Table) -> list[dict[str, Value | None]]:
    """Return the model-suite lines of Table 4 by column name."""
    lines = [_values(table, k) for k in range(len(table.rows))]
    return [line for line in lines if line["suite"] != ALL_SUITES]


def _values(table: Table, k: int) -> dict[str, Value | None]:
    return {column.name: cell.value for column, cell in zip(table.columns, table.rows[k], strict=True)}


def _float(value: Value | None) -> float:
    """Return a value as a number, NaN where it is missing."""
    return math.nan if value is None else float(value)


def _bars(
    axes: Axes,
    groups: Sequence[Mapping[str, Value | None]],
    columns: Mapping[str, str],
    labels: Mapping[str, str],
) -> None:
    """Draw one bar a group and series, "N/A" where the value is missing."""
    for i, (name, column) in enumerate(columns.items()):
        look = PALETTE[name]
        for k, group in enumerate(groups):
            where = k + _offset(i, len(columns))
            height = _float(group[column])
            if math.isfinite(height):
                axes.bar(where, height, _width(len(columns)), color=look.color, hatch=look.hatch,
                         edgecolor="#3C3C3C", linewidth=0.6, label=f"_{name}")  # fmt: skip
            else:
                axes.annotate("N/A", (where, 0), ha="center", va="bottom", fontsize=8)
        axes.bar(0, 0, 0, color=look.color, hatch=look.hatch, edgecolor="#3C3C3C", label=labels[name])
    axes.grid(axis="y")


def _dots(
    axes: Axes, groups: Sequence[Mapping[str, Value | None]], tasks: Table, columns: Mapping[str, str]
) -> None:
    """Draw each task's value over the bar of its group."""
    models, suites = tasks.values("model"), tasks.values("suite")
    for i, (name, column) in enumerate(columns.items()):
        values = tasks.values(column)
        for k, group in enumerate(groups):
            members = [
                float(value) for value, model, suite in zip(values, models, suites, strict=True)
                if (model, suite) == (group["model"], group["suite"]) and value is not None
            ]  # fmt: skip
            if not members:  # An empty line outside the clip would break the layout.
                continue
            spread = np.linspace(-0.3, 0.3, len(members)) if len(members) > 1 else np.zeros(1)
            where = k + _offset(i, len(columns)) + spread * _width(len(columns))
            axes.plot(where, members, PALETTE[name].marker, markersize=3.6, markerfacecolor="white",
                      markeredgecolor="black", markeredgewidth=0.8, label=f"_tasks {name}", clip_on=False)  # fmt: skip


def _offset(i: int, n: int) -> float:
    return (i - (n - 1) / 2) * (_width(n) + 0.04)


def _width(n: int) -> float:
    return 0.74 / n


def _name_groups(axes: Axes, groups: Sequence[Mapping[str, Value | None]]) -> None:
    axes.set_xticks(
        range(len(groups)),
        ["\n".join(escape.figure(str(group[name])) for name in ("model", "suite")) for group in groups],
    )
    axes.set_xlim(-0.6, max(len(groups) - 0.4, 1.4))
    axes.tick_params(axis="x", length=0)


def _task_grid(
    axes: Axes,
    tasks: Table,
    column: str,
    labels: Sequence[tuple[Value | None, Value | None]],
    models: Sequence[Value | None],
) -> None:
    """Draw one value of every task and model as a shade of its size, with its number."""
    grid = np.full((len(labels), len(models)), np.nan)
    for line in (_values(tasks, k) for k in range(len(tasks.rows))):
        grid[labels.index((line["suite"], line["task"])), models.index(line["model"])] = _float(line[column])
    sign = "+" if column == "delta_sr" else ""
    axes.imshow(np.abs(grid), vmin=0, vmax=1, cmap="Blues", aspect="auto")
    for (i, j), value in np.ndenumerate(grid):
        shown = "N/A" if math.isnan(value) else f"{value:{sign}.2f}"
        dark = abs(value) > 0.6
        axes.annotate(shown, (j, i), ha="center", va="center", color="white" if dark else "black", fontsize=8)
    names = [escape.figure(str(model)) for model in models]
    axes.set_xticks(range(len(models)), names, rotation=30 if len(models) > 1 else 0, fontsize=8)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _mark(effect: Value | None) -> dict[str, Any]:
    """Return how a difference is marked: filled above the floor, hollow within it, a cross where no floor is known."""
    look = PALETTE["effect"]
    mark: dict[str, Any] = {"color": look.color, "marker": look.marker, "markersize": 5.5, "linewidth": 1.6}
    if effect is None:
        mark |= {"marker": "x", "markeredgewidth": 1.8}
    elif effect == WITHIN_VARIABILITY:
        mark |= {"markerfacecolor": "white"}
    return mark


def _forest_handles(effects: Sequence[Value | None], confidence: float) -> list[Artist]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    meaning = {
        DISTINGUISHABLE: "above the floor",
        WITHIN_VARIABILITY: "within repeat-run variability",
        None: "without a floor",
    }
    marks = [
        Line2D([], [], label=text, **_mark(effect)) for effect, text in meaning.items() if effect in effects
    ]
    interval = Line2D(
        [], [], color=PALETTE["effect"].color, linewidth=1.6, label=f"{100 * confidence:g} % interval"
    )
    floor = PALETTE["floor"]
    band = Patch(facecolor=floor.color, edgecolor="#8C8C8C", hatch=floor.hatch, label="noise floor")
    return [*marks, interval, band]
