"""Figures of outcomes: Figure 3 (success and effect), Figure 4 (timeouts, task detail), the forest plot, the sweep.

Each draws the numbers of a table (4, 3, "effects" and "severity") and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from roep_gym import escape
from roep_gym.evaluate.judging.noise_floor import DISTINGUISHABLE, SEVERITIES, WITHIN_VARIABILITY
from roep_gym.evaluate.report.claim_tables import ALL_SUITES
from roep_gym.evaluate.report.records import Run
from roep_gym.evaluate.report.style import PALETTE, NotDrawableError, new_figure
from roep_gym.evaluate.report.table import Value
from roep_gym.evaluate.report.tables import TABLES
from roep_gym.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["effect_forest", "severity_sweep", "success_and_effect", "timeouts"]

_Line: TypeAlias = Mapping[str, Value | None]
"""The values of a line of a table by column name."""


class _Series(NamedTuple):
    """One bar for each group, with a dot for each task: a name in `PALETTE`, a legend, a column of Tables 4 and 3."""

    name: str
    legend: str
    mean: str
    value: str


def success_and_effect(run: Run) -> Figure:
    """Figure 3: clean and medium success rate, and Delta SR against the noise floor, by model and suite."""
    groups, tasks = _groups(run), TABLES["3"](run).lines()
    if all(group["mean_clean_sr"] is None for group in groups):
        raise NotDrawableError("no task has a recorded clean success rate")
    figure = new_figure(max(7.2, 1.1 * len(groups) + 2), 5.6)
    upper, lower = figure.subplots(2, 1, sharex=True)
    clean = _Series("clean", "clean", "mean_clean_sr", "clean_sr")
    medium = _Series("medium", "medium", "mean_perturb_sr", "perturb_sr")
    _bars(upper, groups, tasks, clean, medium)
    upper.set(ylabel="success rate", ylim=(0, 1.08))
    upper.set_title("a  Success rate: mean over tasks, with each task")
    effect = _Series("effect", "Delta SR = clean - medium", "mean_signed_delta_sr", "delta_sr")
    floor = _Series("floor", "noise floor F_SR", "mean_noise_floor_sr", "noise_floor_sr")
    _bars(lower, groups, tasks, effect, floor)
    lower.axhline(0, color="black", linewidth=0.8)
    lower.set(ylabel="difference of rates")
    lower.set_title("b  Effect of the medium perturbation against the noise floor")
    _name_groups(lower, groups)
    upper.tick_params(axis="x", length=0)
    for axes in (upper, lower):
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2)
    return figure


_TASK_GRIDS = {
    "perturb_timeout_rate": "b  Timeout rate, medium",
    "delta_sr": "Drop: Delta SR",
    "noise_floor_sr": "Floor F_SR",
}


def timeouts(run: Run) -> Figure:
    """Figure 4: timeout rates by model and suite; timeout rate, drop and noise floor of every task."""
    groups, tasks = _groups(run), TABLES["3"](run).lines()
    if all(task["perturb_timeout_rate"] is None for task in tasks):
        raise NotDrawableError("no admitted row has a recorded medium timeout rate")
    labels = list(dict.fromkeys((task["suite"], task["task"]) for task in tasks))
    models = list(dict.fromkeys(task["model"] for task in tasks))
    width = max(8.4, 1.1 * len(groups) + 2, 3 + 0.55 * len(_TASK_GRIDS) * len(models))
    figure = new_figure(width, 3.6 + 0.34 * len(labels))
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=(2.4, 0.9 + 0.34 * len(labels)))[:, 0]
    upper = above.subplots()
    _bars(
        upper,
        groups,
        tasks,
        _Series("timeout", "medium", "mean_perturb_timeout_rate", "perturb_timeout_rate"),
    )
    upper.set(ylabel="timeout rate", ylim=(0, 1.08))
    upper.set_title("a  Timeout rate under the medium perturbation: mean over tasks, with each task")
    _name_groups(upper, groups)
    grids = below.subplots(1, len(_TASK_GRIDS), sharey=True)
    for axes, (column, heading) in zip(grids, _TASK_GRIDS.items(), strict=True):
        grid = np.full((len(labels), len(models)), np.nan)
        for task in tasks:
            place = labels.index((task["suite"], task["task"])), models.index(task["model"])
            grid[place] = _float(task[column])
        _shade(axes, grid, "+" if column == "delta_sr" else "")
        names = [escape.figure(str(model)) for model in models]
        axes.set_xticks(range(len(models)), names, rotation=30 if len(models) > 1 else 0, fontsize=8)
        axes.set_title(heading)
    grids[0].set_yticks(range(len(labels)), [escape.figure(str(task)) for _, task in labels])
    return figure


def effect_forest(run: Run) -> Figure:
    """Draw the paired Delta SR of every row with its interval, on the band of its noise floor."""
    lines = TABLES["effects"](run).lines()
    if all(line["paired_delta_sr"] is None for line in lines):
        raise NotDrawableError("no admitted row has pairs of a clean and a medium episode")
    figure = new_figure(7.2, 1.3 + 0.27 * run.rows)
    axes = _axes_of_rows(figure, run, "paired Delta SR = SR(clean) - SR(medium)")
    look, floor = PALETTE["effect"], PALETTE["floor"]
    for position, line in enumerate(lines):
        half = _float(line["noise_floor_sr"])
        if math.isfinite(half):
            axes.barh(position, 2 * half, left=-half, height=0.72, color=floor.color, edgecolor="#8C8C8C",
                      linewidth=0.5, hatch=floor.hatch, label="_floor")  # fmt: skip
        middle, *ends = (_float(line[name]) for name in ("paired_delta_sr", "low", "high"))
        if math.isnan(middle):
            axes.annotate("N/A", (0, position), va="center", ha="center", fontsize=8)
            continue
        axes.plot(ends, [position, position], color=look.color, linewidth=1.6, label="_interval")
        axes.plot([middle], [position], label="_difference", **_mark(line["effect"]))
    axes.axvline(0, color="black", linewidth=0.8)
    axes.margins(x=0.04)
    axes.use_sticky_edges = False
    shown = [line["effect"] for line in lines if line["paired_delta_sr"] is not None]
    handles = _forest_handles(shown, run.judgement.config.confidence)
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), fontsize=8)
    return figure


def severity_sweep(run: Run) -> Figure:
    """Draw the success rate of every row under each severity, with that of its clone."""
    lines = TABLES["severity"](run).lines()
    if all(line["sr"] is None for line in lines if line["severity"] != "medium"):
        raise NotDrawableError("no admitted row has a recorded mild or strong success rate")
    figure = new_figure(7.2, 1.3 + 0.42 * run.rows)
    axes = _axes_of_rows(figure, run, "success rate")
    axes.set(xlim=(-0.03, 1.03))
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
    for name in ("clean", *SEVERITIES):
        axes.plot([], [], PALETTE[name].marker, color=PALETTE[name].color, label=name)
    figure.legend(loc="outside upper center", ncols=1 + len(SEVERITIES), fontsize=8)
    return figure


def _groups(run: Run) -> list[_Line]:
    """Return the model-suite lines of Table 4."""
    return [line for line in TABLES["4"](run).lines() if line["suite"] != ALL_SUITES]


def _float(value: Value | None) -> float:
    """Return a value as a number, NaN where it is missing."""
    return math.nan if value is None else float(value)


def _axes_of_rows(figure: Figure, run: Run, xlabel: str) -> Axes:
    """Return axes with the rows of a run one below the other."""
    axes = figure.subplots()
    axes.set_yticks(range(run.rows), [escape.figure(run.short(row)) for row in range(run.rows)])
    axes.set(ylim=(run.rows - 0.4, -0.6), xlabel=xlabel)
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    return axes


def _bars(axes: Axes, groups: Sequence[_Line], tasks: Sequence[_Line], *series: _Series) -> None:
    """Draw one bar a group and series, "N/A" where the value is missing, and each task's value over it."""
    width = 0.74 / len(series)
    for i, one in enumerate(series):
        look = PALETTE[one.name]
        for k, group in enumerate(groups):
            where, height = k + (i - (len(series) - 1) / 2) * (width + 0.04), _float(group[one.mean])
            if math.isfinite(height):
                axes.bar(where, height, width, color=look.color, hatch=look.hatch,
                         edgecolor="#3C3C3C", linewidth=0.6, label=f"_{one.name}")  # fmt: skip
            else:
                axes.annotate("N/A", (where, 0), ha="center", va="bottom", fontsize=8)
            members = [
                float(value) for task in tasks if (value := task[one.value]) is not None
                and (task["model"], task["suite"]) == (group["model"], group["suite"])
            ]  # fmt: skip
            if members:  # An empty line outside the clip would break the layout.
                spread = np.linspace(-0.3, 0.3, len(members)) if len(members) > 1 else np.zeros(1)
                axes.plot(where + spread * width, members, look.marker, markersize=3.6, markerfacecolor="white",
                          markeredgecolor="black", markeredgewidth=0.8, label=f"_tasks {one.name}",
                          clip_on=False)  # fmt: skip
        axes.bar(0, 0, 0, color=look.color, hatch=look.hatch, edgecolor="#3C3C3C", label=one.legend)
    axes.grid(axis="y")


def _name_groups(axes: Axes, groups: Sequence[_Line]) -> None:
    axes.set_xticks(
        range(len(groups)),
        ["\n".join(escape.figure(str(group[name])) for name in ("model", "suite")) for group in groups],
    )
    axes.set_xlim(-0.6, max(len(groups) - 0.4, 1.4))
    axes.tick_params(axis="x", length=0)


def _shade(axes: Axes, grid: FloatArray, sign: str) -> None:
    """Draw values as shades of their size, with their numbers."""
    axes.imshow(np.abs(grid), vmin=0, vmax=1, cmap="Blues", aspect="auto")
    for (i, j), value in np.ndenumerate(grid):
        shown = "N/A" if math.isnan(value) else f"{value:{sign}.2f}"
        color = "white" if abs(value) > 0.6 else "black"
        axes.annotate(shown, (j, i), ha="center", va="center", color=color, fontsize=8)
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
    marks = [Line2D([], [], label=text, **_mark(one)) for one, text in meaning.items() if one in effects]
    color, floor = PALETTE["effect"].color, PALETTE["floor"]
    interval = Line2D([], [], color=color, linewidth=1.6, label=f"{100 * confidence:g} % interval")
    band = Patch(facecolor=floor.color, edgecolor="#8C8C8C", hatch=floor.hatch, label="noise floor")
    return [*marks, interval, band]
