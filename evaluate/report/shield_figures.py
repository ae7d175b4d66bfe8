"""Figures of the shield: traces of single episodes (A2 to A4) and its reliability (risk over time by outcome).

`shield_episode` draws a trace, `risk_profile` computes what `shield_reliability` draws.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from roep_gym import escape
from roep_gym.evaluate.report.episodes import ShieldTrace, episode_label, shield_trace, traced_episode
from roep_gym.evaluate.report.frame_figures import given_image, show_frame
from roep_gym.evaluate.report.records import EpisodeKey, Run
from roep_gym.evaluate.report.style import PALETTE, NotDrawableError, new_figure
from roep_gym.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["risk_profile", "shield_episode", "shield_reliability"]

_LOWEST = 1e-12
"""Where a risk of 0 is drawn on the logarithmic axis."""


def shield_episode(run: Run, kind: str) -> Figure:
    """Figures A2 to A4, by a kind of `TRACED`: frame, r_t / tau, interventions and peak, event ticks and summary."""
    key = traced_episode(run, kind)
    if key is None:
        raise NotDrawableError(
            f"no episode ({kind}) has both interventions and stored steps: {_no_steps(run)}"
        )
    trace = shield_trace(run, key)
    if trace is None:
        raise NotDrawableError(f"the steps of {episode_label(run, key)} hold no risk score")
    figure = new_figure(8.0, 3.5)
    grid = figure.add_gridspec(2, 3, width_ratios=(1.25, 3.2, 1.25), height_ratios=(3.2, 1))
    _frame(figure.add_subplot(grid[:, 0]), run, key, trace)
    risk = figure.add_subplot(grid[0, 1])
    _risk(risk, trace)
    _events(figure.add_subplot(grid[1, 1], sharex=risk), trace)
    _summary(figure.add_subplot(grid[:, 2]), trace)
    figure.suptitle(
        f"{kind.capitalize()}: {escape.figure(episode_label(run, key))}", fontsize=9, x=0.01, ha="left"
    )
    return figure


def risk_profile(run: Run) -> xr.Dataset:
    """Return the shield's relative risk r_t / tau over time, of successes and of failures.

    Over the episodes of `recovery` and `full` in all rows with a shield; each row's risk is in units of its own
    threshold. A risk that is not finite counts as infinite, since it intervenes.

    Returns:
        A Dataset along (`outcome`, `alignment`, `step`): `median`, `low` and `high` (quartiles) and `episodes`, how
        many are still running; alignment "start" counts steps from the first, "end" back from the last. `step` is the
        distance. NaN where no episode is. `total` along `outcome` counts the episodes.
    """
    series: dict[str, list[FloatArray]] = {"success": [], "failure": []}
    for row in range(run.rows):
        tau = float(run.data["shield_tau"].values[row])
        if not np.isfinite(tau):
            continue
        for condition in ("recovery", "full"):
            outcomes = run.outcomes(row, condition).set_index(["seed_group", "episode"])["success"]
            for key, steps in run.steps(row, condition):
                risk = np.nan_to_num(steps["risk"].values / tau, nan=np.inf)
                won = outcomes.loc[(key.seed_group, key.episode)] == 1
                if risk.size:
                    series["success" if won else "failure"].append(risk)
    longest = max((len(risk) for group in series.values() for risk in group), default=0)
    quantiles = np.full((2, 2, longest, 3), np.nan)
    episodes = np.zeros((2, 2, longest), dtype=np.int64)
    for i, group in enumerate(series.values()):
        for j, step in enumerate((1, -1)):
            for t in range(longest):
                values = [risk[::step][t] for risk in group if len(risk) > t]
                episodes[i, j, t] = len(values)
                if values:
                    # "lower" never interpolates between two values, of which one may be infinite.
                    quantiles[i, j, t] = np.quantile(values, (0.25, 0.5, 0.75), method="lower")
    dims = ("outcome", "alignment", "step")
    return xr.Dataset(
        {
            **{name: (dims, quantiles[..., k]) for k, name in enumerate(("low", "median", "high"))},
            "episodes": (dims, episodes),
            "total": ("outcome", np.array([len(group) for group in series.values()])),
        },
        coords={
            "outcome": ("outcome", np.array(list(series), dtype=object)),
            "alignment": ("alignment", np.array(["start", "end"], dtype=object)),
            "step": ("step", np.arange(longest)),
        },
    )


def shield_reliability(run: Run) -> Figure:
    """Draw the median relative risk over time with its quartiles, of successes and of failures."""
    profile = risk_profile(run)
    if not profile.sizes["step"]:
        raise NotDrawableError(_no_steps(run))
    figure = new_figure(7.6, 3.6)
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, alignment, sign in ((left, "start", 1), (right, "end", -1)):
        for outcome in ("success", "failure"):
            part = profile.sel(outcome=outcome, alignment=alignment)
            ran = part["episodes"].values > 0
            look, where = PALETTE[outcome], sign * part["step"].values[ran]
            low, median, high = (_drawable(part[name].values[ran]) for name in ("low", "median", "high"))
            axes.fill_between(where, low, high, color=look.color, alpha=0.25, hatch=look.hatch, linewidth=0)
            axes.plot(where, median, look.line, color=look.color, linewidth=1.8,
                      label=f"{outcome} (n = {int(part['total'])})")  # fmt: skip
        axes.axhline(1, color="black", linewidth=0.9, linestyle=":", label="threshold")
        axes.grid(axis="y")
    left.set(yscale="log", ylabel="relative risk r / tau", xlabel="step from the start")
    right.set(xlabel="step before the end")
    left.set_title("a  Aligned at the start")
    right.set_title("b  Aligned at the end")
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


def _no_steps(run: Run) -> str:
    if not run.native:
        return "flat tables hold no steps"
    trained = int((run.data["shield_status"].values == "trained").sum())
    return f"{trained} of {run.rows} rows have a shield, whose steps would lie in {run.folder.name}/steps"


def _drawable(risk: FloatArray) -> FloatArray:
    """Return risks as a logarithmic axis can show them: 0 at its bottom, infinity left out."""
    return np.where(np.isinf(risk), np.nan, np.maximum(risk, _LOWEST))


def _frame(axes: Axes, run: Run, key: EpisodeKey, trace: ShieldTrace) -> None:
    frames = run.frames(key)
    image = given_image(frames)
    if image is None:
        axes.set_axis_off()
        axes.text(0.5, 0.5, "frames of this\nepisode are\nnot stored", ha="center", va="center", fontsize=8)
        return
    steps = frames["step"]
    nearest = int(np.abs(steps - trace.peak).argmin())
    show_frame(axes, image[nearest], f"step {int(steps[nearest])}")


def _risk(axes: Axes, trace: ShieldTrace) -> None:
    steps = np.arange(len(trace.relative_risk))
    drawn = _drawable(trace.relative_risk)
    look, mark = PALETTE["clean"], PALETTE["medium"]
    axes.plot(steps, drawn, color=look.color, linewidth=1.2, label="r / tau")
    axes.axhline(1, color="black", linewidth=0.9, linestyle=":", label="threshold")
    axes.plot(steps[trace.intervened], drawn[trace.intervened], mark.marker, color=mark.color, markersize=3.2,
              markeredgecolor="black", markeredgewidth=0.3, linestyle="none", label="intervention")  # fmt: skip
    axes.plot([trace.peak], [drawn[trace.peak]], "*", color=PALETTE["effect"].color, markersize=10,
              markeredgecolor="black", markeredgewidth=0.5, linestyle="none", label="peak")  # fmt: skip
    axes.set(yscale="log", ylabel="r / tau")
    axes.grid(axis="y")
    axes.tick_params(labelbottom=False)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4, fontsize=7.5, handletextpad=0.4,
                columnspacing=1.0)  # fmt: skip


def _events(axes: Axes, trace: ShieldTrace) -> None:
    events = [np.flatnonzero(mask) for mask in (trace.intervened, trace.applied, trace.refused)]
    axes.eventplot(events, lineoffsets=range(3), linelengths=0.7, linewidths=0.8, colors=["#3C3C3C"] * 3)
    axes.set_yticks(range(3), ["intervened", "applied", "refused"], fontsize=8)
    axes.set(ylim=(2.5, -0.5), xlabel="control step", xlim=(-1, len(trace.relative_risk)))


def _summary(axes: Axes, trace: ShieldTrace) -> None:
    axes.set_axis_off()
    lines = [f"{name}\n  {value}" for name, value in trace.summary().items()]
    axes.text(0, 0.98, "\n".join(lines), va="top", fontsize=8, linespacing=1.35, transform=axes.transAxes)
