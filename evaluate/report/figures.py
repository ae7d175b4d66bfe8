"""Every figure by name, and drawing all of a run's.

`FIGURES` lists them with title and caption, `draw_figures` draws those that the records allow and says why the others
are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from roep_gym.error import unknown_name
from roep_gym.evaluate.report.episodes import TRACED
from roep_gym.evaluate.report.frame_figures import operators, rollouts
from roep_gym.evaluate.report.outcome_figures import (
    effect_forest,
    severity_sweep,
    success_and_effect,
    timeouts,
)
from roep_gym.evaluate.report.records import DamagedFileError, Run
from roep_gym.evaluate.report.shield_figures import shield_episode, shield_reliability
from roep_gym.evaluate.report.style import NotDrawableError, drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "Drawn", "FigureKind", "draw_figures"]


@dataclass(frozen=True)
class FigureKind:
    """One figure.

    Attributes:
        title: What it shows, in one line.
        caption: How to read it.
        draw: Draws it from a run; raises `NotDrawableError` where the records do not hold it.
    """

    title: str
    caption: str
    draw: Callable[[Run], Figure]


@dataclass(frozen=True)
class Drawn:
    """A figure of a run, or why there is none.

    Attributes:
        name: Its name in `FIGURES`.
        kind: What it is.
        figure: The figure; None where it cannot be drawn.
        reason: Why it cannot.
    """

    name: str
    kind: FigureKind
    figure: Figure | None
    reason: str = ""


_TRACE = (
    "r / tau on a logarithmic axis with the threshold at 1, interventions, the peak, ticks of events, and a summary. "
    "The frame is the stored one nearest the peak. Interventions are activity, not benefit."
)

_KINDS = tuple(TRACED)

FIGURES: Mapping[str, FigureKind] = {
    "2": FigureKind(
        "Representative rollouts",
        "Frames as the policy was given them, evenly spread from the first to the last stored frame of each episode.",
        rollouts,
    ),
    "3": FigureKind(
        "Success rates, and the effect of the perturbation against the noise floor",
        "Bars are means over tasks (Table 4), white marks single tasks (Table 3). An effect that does not exceed the "
        "floor is within repeat-run variability.",
        success_and_effect,
    ),
    "4": FigureKind(
        "Timeouts, and the drop and noise floor of every task",
        "Bars are means over tasks (Table 4), marks and cells single tasks (Table 3); shades show sizes.",
        timeouts,
    ),
    "A1": FigureKind(
        "Perturbation operators and the area they affect",
        "One stored frame: clean, under each operator, and under both, with dropped depth in colour. Shares are means "
        "over every recorded step; that of both together is of the frame shown.",
        operators,
    ),
    "A2": FigureKind("Shield trace of a success", _TRACE, partial(shield_episode, kind=_KINDS[0])),
    "A3": FigureKind("Shield trace of a failure", _TRACE, partial(shield_episode, kind=_KINDS[1])),
    "A4": FigureKind("Shield trace of a clean episode", _TRACE, partial(shield_episode, kind=_KINDS[2])),
    "effects": FigureKind(
        "Effect of the medium perturbation in every row, with its interval",
        "Filled marks exceed the noise floor, hollow ones do not, crosses have none (table effects). "
        "Intervals inform and do not gate.",
        effect_forest,
    ),
    "severity": FigureKind(
        "The severity sweep of every row",
        "Filled marks are the run, hollow ones its clone: their distance is what re-running alone changes (table "
        "severity).",
        severity_sweep,
    ),
    "reliability": FigureKind(
        "The shield's risk over time, of successes and of failures",
        "Median and quartiles of r / tau over the episodes of recovery and full that are still running. Where the two "
        "curves do not part, the risk score does not tell failures from successes. The shield acted in these episodes, "
        "so the curves show an association, not a prediction.",
        shield_reliability,
    ),
}


def draw_figures(run: Run, names: Sequence[str] = ()) -> list[Drawn]:
    """Draw figures by name, in the order of `FIGURES`; no name is all of them.

    Raises:
        UnknownNameError: A name is not a figure's.
    """
    for name in names:
        if name not in FIGURES:
            raise unknown_name("figure", name, FIGURES)
    drawn = []
    for name, kind in FIGURES.items():
        if names and name not in names:
            continue
        try:
            with drawing():
                drawn.append(Drawn(name, kind, kind.draw(run)))
        except (NotDrawableError, DamagedFileError) as missing:
            drawn.append(Drawn(name, kind, None, str(missing)))
    return drawn
