"""What the pairs of a run show, beside the verdicts: differences with intervals, tests, and what n could show at all.

`paired_evidence` is about each row, `group_evidence` about the tasks of a model and suite; `paired_statistics` works on
any `PairedOutcomes`. `StatisticsConfig` holds the levels. All of it informs and nothing of it gates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from roep_gym.error import InvalidInputError
from roep_gym.evaluate.judging.metrics import ratio
from roep_gym.evaluate.judging.pairing import GATE_PAIRS, Pair, identical_replicates, paired
from roep_gym.evaluate.judging.tables import ROW, row_groups, table
from roep_gym.evaluate.statistics.bootstrap import BootstrapInterval, cluster_bootstrap
from roep_gym.evaluate.statistics.intervals import holm_adjust, mcnemar_exact, paired_difference_interval
from roep_gym.evaluate.statistics.power import minimum_detectable_drop
from roep_gym.seeding import generator
from roep_gym.typing import BoolArray, IntArray

__all__ = [
    "IDENTICAL",
    "PairedOutcomes",
    "StatisticsConfig",
    "group_evidence",
    "paired_evidence",
    "paired_statistics",
]

IDENTICAL = "identical replicates: one observation, not two that agree"


@dataclass(frozen=True)
class StatisticsConfig:
    """Levels of the statistics that stand beside the protocol.

    Raises:
        InvalidInputError: A level is not between 0 and 1, or there are no resamples.
    """

    confidence: float = 0.95
    """Level of the intervals; 1 - confidence is the level of the tests behind the detectable drop."""
    power: float = 0.8
    """Chance of reporting a drop that counts as detectable."""
    resamples: int = 2000
    """Resamples of a bootstrap."""

    def __post_init__(self) -> None:
        for name in ("confidence", "power"):
            if not 0 < getattr(self, name) < 1:
                raise InvalidInputError(f"Expected {name} between 0 and 1, got {getattr(self, name)!r}.")
        if self.resamples < 1:
            raise InvalidInputError(f"Expected at least 1 resample, got {self.resamples}.")


@dataclass(frozen=True)
class PairedOutcomes:
    """The outcomes of all pairs of a comparison, each array (pair,).

    Attributes:
        base: Success of the base episode, bool.
        comparison: Success of its partner, bool.
        row: Row of the pair.
        init_state: Index of its initial state within the task.
    """

    base: BoolArray
    comparison: BoolArray
    row: IntArray
    init_state: IntArray

    @property
    def difference(self) -> IntArray:
        """Base minus comparison: 1 is lost, -1 gained, as in Delta SR."""
        return self.base.astype(np.int64) - self.comparison

    def where(self, mask: BoolArray) -> PairedOutcomes:
        """Return the pairs that `mask` (pair,) holds."""
        return PairedOutcomes(self.base[mask], self.comparison[mask], self.row[mask], self.init_state[mask])


def _paired_outcomes(aligned: xr.Dataset, pair: Pair) -> PairedOutcomes:
    """Return the outcomes of every key whose partners both ran in the same scene."""
    key = aligned.isel(key=paired(aligned, pair))
    base, comparison = (key["success"].sel(condition=name).values == 1 for name in pair)
    return PairedOutcomes(base, comparison, key["row_index"].values, key["init_state"].values)


def paired_evidence(aligned: xr.Dataset, config: StatisticsConfig | None = None) -> xr.Dataset:
    """Return the statistics of the five pairs of the gate, per row.

    The generator of a bootstrap is keyed by row and pair: the same records give the same interval, whatever else the
    run holds.

    Args:
        aligned: The table of `roep_gym.evaluate.judging.pairing.align`.
        config: Levels; None takes the defaults.

    Returns:
        The Dataset of `paired_statistics` along (`row`, `pair`), and `identical`: 1 where a clone repeats every record
        of its base, so that there is neither interval nor test; 0 where it does not; -1 where the pair has no clone.
    """
    names = ["/".join(map(str, row)) for row in zip(*(aligned[name].values for name in ROW), strict=True)]
    parts = []
    for pair in GATE_PAIRS:
        identical = _identical(aligned, pair)
        part = paired_statistics(
            _paired_outcomes(aligned, pair),
            names=names,
            key=pair.name,
            no_evidence=[IDENTICAL if found == 1 else "" for found in identical],
            config=config or StatisticsConfig(),
        )
        part["identical"] = ("row", identical, {"long_name": "the clone repeats every record of its base"})
        parts.append(part)
    result = xr.concat(parts, dim="pair", combine_attrs="override").transpose("row", "pair")
    return result.assign_coords(table({}, aligned, pair=[pair.name for pair in GATE_PAIRS]).coords)


def paired_statistics(
    outcomes: PairedOutcomes,
    *,
    names: Sequence[str],
    key: str,
    no_evidence: Sequence[str],
    config: StatisticsConfig,
) -> xr.Dataset:
    """Return the statistics of one comparison, along `row`.

    Args:
        outcomes: The outcomes of its pairs.
        names: Name of each row; with `key` it keys the row's bootstrap.
        key: Name of the comparison.
        no_evidence: Why the pairs of a row are no evidence of a difference; empty where they are.
        config: Levels.

    Returns:
        A Dataset along `row`: `support` pairs, `lost` and `gained` (discordant either way), `difference` (lost minus
        gained, as a share) with `score_low` and `score_high` (Newcombe's interval of paired rates, for pairs that do
        not depend on each other) and `bootstrap_low` and `bootstrap_high` (over initial states, NaN where
        `bootstrap_reason` says why), `init_states` (clusters), `mcnemar_p`, `holm_p` (adjusted for all rows) and
        `detectable_drop`: the smallest drop that this n shows at the observed gained share, NaN where n shows none.
    """
    difference = outcomes.difference

    def count(mask: BoolArray) -> IntArray:
        return np.bincount(outcomes.row[mask], minlength=len(names))

    lost, gained = count(difference == 1), count(difference == -1)
    both, neither = count(outcomes.base & outcomes.comparison), count(~outcomes.base & ~outcomes.comparison)
    support = lost + gained + both + neither
    evidence = (support > 0) & (np.asarray(no_evidence, dtype=object) == "")
    p_value = np.where(evidence, mcnemar_exact(lost, gained), np.nan)
    intervals = [
        _interval(
            outcomes.where(outcomes.row == row), ("paired difference", name, key), no_evidence[row], config
        )
        for row, name in enumerate(names)
    ]
    detectable = np.full(len(names), np.nan)
    for row in np.flatnonzero(evidence):
        n = int(support[row])
        base_rate, gained_share = float((both + lost)[row] / n), float(gained[row] / n)
        detectable[row] = minimum_detectable_drop(
            n, base_rate, gained_share, power=config.power, alpha=1 - config.confidence
        )
    score = paired_difference_interval(both, lost, gained, neither, config.confidence)
    score_low, score_high = (np.where(evidence, bound, np.nan) for bound in score)
    columns = {
        "support": (support, "pairs of episodes"),
        "lost": (lost, "pairs whose base succeeded and whose comparison failed"),
        "gained": (gained, "pairs whose base failed and whose comparison succeeded"),
        "difference": (
            ratio(lost - gained, support),
            "success rate of the base minus that of the comparison",
        ),
        "score_low": (score_low, "lower bound of the paired score interval"),
        "score_high": (score_high, "upper bound of the paired score interval"),
        "bootstrap_low": ([i.low for i in intervals], "lower bound of the bootstrap interval"),
        "bootstrap_high": ([i.high for i in intervals], "upper bound of the bootstrap interval"),
        "bootstrap_reason": ([i.reason for i in intervals], "why there is no bootstrap"),
        "init_states": ([i.init_states for i in intervals], "initial states with a pair"),
        "mcnemar_p": (p_value, "exact McNemar p-value"),
        "holm_p": (holm_adjust(p_value), "McNemar p-value, adjusted for all rows (Holm)"),
        "detectable_drop": (detectable, "smallest drop that this number of pairs shows"),
    }
    return table({name: ("row", *column) for name, column in columns.items()}).assign_attrs(
        confidence=config.confidence, power=config.power, resamples=config.resamples
    )


def group_evidence(aligned: xr.Dataset, config: StatisticsConfig | None = None) -> xr.Dataset:
    """Return the mean difference over the tasks of a model and suite, bootstrapped over tasks and initial states.

    Rows whose clone repeats every record are left out of that pair.

    Args:
        aligned: The table of `roep_gym.evaluate.judging.pairing.align`.
        config: Levels; None takes the defaults.

    Returns:
        A Dataset along (`group`, `pair`): `tasks` and `init_states` with a pair, `difference`, `bootstrap_low`,
        `bootstrap_high` and `bootstrap_reason`. Coordinates of `group`: `model` and `suite`.
    """
    config = config or StatisticsConfig()
    groups, code = row_groups(aligned, ("model", "suite"))
    names = list(zip(*(values for _, values in groups.values()), strict=True))
    cells: list[list[BootstrapInterval]] = [[] for _ in names]
    for pair in GATE_PAIRS:
        outcomes, no_evidence = _paired_outcomes(aligned, pair), _identical(aligned, pair) == 1
        for group, name in enumerate(names):
            members = outcomes.where((code[outcomes.row] == group) & ~no_evidence[outcomes.row])
            reason = IDENTICAL if no_evidence[code == group].all() else ""
            key = ("mean paired difference", *map(str, name), pair.name)
            cells[group].append(_interval(members, key, reason, config))
    columns = {
        "tasks": ("tasks", "tasks with a pair"),
        "init_states": ("init_states", "initial states with a pair"),
        "difference": ("estimate", "mean over tasks of base minus comparison"),
        "bootstrap_low": ("low", "lower bound of the bootstrap over tasks and initial states"),
        "bootstrap_high": ("high", "upper bound of the bootstrap over tasks and initial states"),
        "bootstrap_reason": ("reason", "why there is no interval"),
    }
    evidence = table(
        {
            name: (("group", "pair"), [[getattr(cell, field) for cell in row] for row in cells], text)
            for name, (field, text) in columns.items()
        },
        pair=[pair.name for pair in GATE_PAIRS],
    ).assign_coords(groups)
    return evidence.assign_attrs(confidence=config.confidence, resamples=config.resamples)


def _identical(aligned: xr.Dataset, pair: Pair) -> IntArray:
    """Return (row,) 1 where the pair is a clone pair that repeats every record, 0 where it does not, else -1."""
    replicates = identical_replicates(aligned)
    if pair.name not in replicates["pair"].values:
        return np.full(aligned.sizes["row"], -1, dtype=np.int8)
    return np.asarray(replicates["identical"].sel(pair=pair.name).values)


def _interval(
    outcomes: PairedOutcomes, key: tuple[str, ...], no_evidence: str, config: StatisticsConfig
) -> BootstrapInterval:
    """Return the bootstrap interval of some pairs, or why they are no evidence."""
    if no_evidence:
        return BootstrapInterval(np.nan, np.nan, np.nan, 0, 0, no_evidence)
    return cluster_bootstrap(
        outcomes.difference,
        init_state=outcomes.init_state,
        task=outcomes.row,
        rng=generator(*key),
        resamples=config.resamples,
        confidence=config.confidence,
    )
