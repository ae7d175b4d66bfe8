"""Which episodes stand for a run, and the shield's trace of one episode.

`representative_episodes` picks the four of Figure 2, `traced_episode` that of Figure A2, A3 or A4, `example_episodes`
some of every row, `first_with_frames` one of a condition, and `shield_trace` reads what a shield did in an episode. The
choice is a rule on the records, so it is the same every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice, product
from typing import NamedTuple

import numpy as np
import pandas as pd

from roep_gym.evaluate.report.records import EpisodeKey, Run
from roep_gym.typing import BoolArray, FloatArray

__all__ = [
    "TRACED",
    "ChosenEpisode",
    "ShieldTrace",
    "episode_label",
    "example_episodes",
    "first_with_frames",
    "representative_episodes",
    "shield_trace",
    "traced_episode",
]


class ChosenEpisode(NamedTuple):
    """An episode and why it was chosen."""

    key: EpisodeKey
    why: str


@dataclass(frozen=True)
class ShieldTrace:
    """What the shield did in one episode.

    Attributes:
        relative_risk: r_t / tau at each step.
        intervened: Steps at which it intervened.
        applied: Steps whose executed action differs from the proposed one.
        refused: Steps with a safe refusal.
        reason: How the episode ended.
    """

    relative_risk: FloatArray
    intervened: BoolArray
    applied: BoolArray
    refused: BoolArray
    reason: str

    @property
    def peak(self) -> int:
        """Step of the largest finite risk; 0 where none is finite."""
        risk = np.where(np.isfinite(self.relative_risk), self.relative_risk, -np.inf)
        return int(risk.argmax())

    def summary(self) -> dict[str, str]:
        """Return outcome, length, interventions, first intervention, step of the largest risk and refusals."""
        first = f"step {int(self.intervened.argmax())}" if self.intervened.any() else "none"
        return {
            "outcome": self.reason.replace("_", " "),
            "length": f"{len(self.relative_risk)} steps",
            "interventions": str(int(self.intervened.sum())),
            "first intervention": first,
            "largest risk": f"step {self.peak} ({self.relative_risk[self.peak]:.3g} tau)",
            "refusals": str(int(self.refused.sum())),
        }


_NO_REFUSAL = ("none", "projected")
"""Projections of step records that leave the policy's motion, or a smaller one; every other one is a safe refusal."""


def shield_trace(run: Run, key: EpisodeKey) -> ShieldTrace | None:
    """Return the shield's trace of an episode, None where its steps or its shield are not stored."""
    steps, tau = run.episode_steps(key), float(run.data["shield_tau"].values[key.row])
    if steps is None or not np.isfinite(tau) or (steps["intervened"].values < 0).all():
        return None
    names = str(steps["projection"].attrs["flag_meanings"]).split()
    refusals = [code for code, name in enumerate(names) if name not in _NO_REFUSAL]
    refused = np.isin(steps["projection"].values, refusals)
    shielded = steps["shielded_action" if "shielded_action" in steps else "executed_action"]
    moved = (steps["proposed_action"].values != shielded.values).any(axis=1)
    return ShieldTrace(
        relative_risk=steps["risk"].values / tau,
        intervened=steps["intervened"].values == 1,
        applied=moved | refused,
        refused=refused,
        reason=run.reason(key),
    )


@dataclass(frozen=True)
class _Kind:
    condition: str
    why: str
    success: int | None = None
    most_active: bool = False


_REPRESENTATIVE = (
    _Kind("baseline", "clean", success=1),
    _Kind("perturb", "medium", success=1),
    _Kind("perturb", "medium", success=0),
    _Kind("full", "medium with shield, most interventions", most_active=True),
)
TRACED: Mapping[str, _Kind] = {
    kind.why: kind
    for kind in (
        _Kind("full", "medium with shield, success", success=1, most_active=True),
        _Kind("full", "medium with shield, failure", success=0, most_active=True),
        _Kind("recovery", "clean with shield", most_active=True),
    )
}
"""Kinds of episodes whose shield is traced, in the order of Figures A2 to A4."""


def representative_episodes(run: Run) -> list[ChosenEpisode]:
    """Return up to four episodes with stored frames: a clean success, a medium success, a medium failure, the shield.

    Of each kind the first in the order of rows and keys; of the shielded ones the one with most intervention steps.
    """
    found = [(_first(run, kind, _has_frames), kind) for kind in _REPRESENTATIVE]
    return [ChosenEpisode(key, kind.why) for key, kind in found if key is not None]


def first_with_frames(run: Run, condition: str) -> EpisodeKey | None:
    """Return the first episode of a condition with stored frames, in the order of rows and keys."""
    return _first(run, _Kind(condition, ""), _has_frames)


def traced_episode(run: Run, kind: str) -> EpisodeKey | None:
    """Return the episode of a kind of `TRACED` with most intervention steps whose steps are stored, if there is one."""
    return _first(run, TRACED[kind], lambda run, key: run.steps_path(key.row, key.condition).exists())


def example_episodes(run: Run, most: int = 24) -> list[EpisodeKey]:
    """Return the first success and failure with stored frames of each row, clean, medium, shielded; at most `most`."""
    found = (
        _first(run, _Kind(condition, "", success), _has_frames, [row])
        for row, condition, success in product(range(run.rows), ("baseline", "perturb", "full"), (1, 0))
    )
    return list(islice((key for key in found if key is not None), most))


def episode_label(run: Run, key: EpisodeKey) -> str:
    """Return an episode's row, condition and place in the seed groups in one string."""
    return f"{run.short(key.row)}; {key.condition}, seed group {key.seed_group}, episode {key.episode}"


def _has_frames(run: Run, key: EpisodeKey) -> bool:
    return run.frames_path(key).exists()


def _first(
    run: Run, kind: _Kind, stored: Callable[[Run, EpisodeKey], bool], rows: Iterable[int] | None = None
) -> EpisodeKey | None:
    """Return the first episode of a kind, in some rows or in all, whose files are stored."""
    chosen = range(run.rows) if rows is None else rows
    table = pd.concat(
        [run.outcomes(row, kind.condition).assign(row=row) for row in chosen], ignore_index=True
    )
    if kind.success is not None:
        table = table[table["success"] == kind.success]
    if kind.most_active:
        table = table[table["intervention_steps"] > 0]
        table = table.sort_values("intervention_steps", ascending=False, kind="stable")
    keys = (
        EpisodeKey(int(line.row), kind.condition, int(line.seed_group), int(line.episode))
        for line in table.itertuples()
    )
    return next((key for key in keys if stored(run, key)), None)
