"""Whether a perturbation changes success, with a stated error rate: beside the paper's rule, never in its place.

The paper compares one difference with another (Eq. 3), so that rows without any effect often exceed their floor.
`calibrated_effects` tests instead whether the clean executions of the episodes are exchangeable with the perturbed
ones, clones included. `benchmarks/noise_floor_errors.py` measures both error rates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray as xr

from roep_gym.evaluate.judging.noise_floor import DISTINGUISHABLE, SEVERITIES, WITHIN_VARIABILITY
from roep_gym.evaluate.judging.pairing import Pair, paired
from roep_gym.evaluate.judging.replicates import identical_replicates
from roep_gym.evaluate.schema import clones_of
from roep_gym.evaluate.statistics.stratified import stratified_exact
from roep_gym.typing import BoolArray, IntArray

__all__ = ["ERROR_RATE", "REPLICATED", "calibrated_effects", "clean_replicated"]

ERROR_RATE = 0.05
"""Largest chance that a row without an effect is called distinguishable."""

REPLICATED = "the clean clone repeats every record, so its floor of 0 measures nothing"


def calibrated_effects(aligned: xr.Dataset) -> xr.Dataset:
    """Test every severity of the sweep against the clean condition, with all clones of both.

    A clone that repeats every record of its base is left out: it is the same observation again.

    Args:
        aligned: The table of `roep_gym.evaluate.judging.pairing.align`.

    Returns:
        A Dataset along (`severity`, `row`): the exact two-sided `p_value` (NaN where nothing is paired), its `label`,
        and the numbers of executions of an episode, `clean_executions` and `perturbed_executions`; along `row`, what
        `clean_replicated` returns.
    """
    replicates = identical_replicates(aligned)
    executed = {name: _executions(aligned, replicates, name) for name in ("baseline", *SEVERITIES.values())}
    shape = (len(SEVERITIES), aligned.sizes["row"])
    p_value, clean_count, perturbed_count = np.full(shape, np.nan), np.zeros(shape, int), np.zeros(shape, int)
    clean, perturbed = executed["baseline"], {s: executed[c] for s, c in SEVERITIES.items()}
    row_of = aligned["row_index"].values
    for row in range(aligned.sizes["row"]):
        keys = row_of == row
        for k, other in enumerate(perturbed.values()):
            p_value[k, row] = stratified_exact(
                clean.successes[keys], clean.runs[keys], other.successes[keys], other.runs[keys]
            )
            clean_count[k, row] = clean.runs[keys].max(initial=0)
            perturbed_count[k, row] = other.runs[keys].max(initial=0)
    label = np.select(
        [np.isnan(p_value), p_value <= ERROR_RATE], ["undefined", DISTINGUISHABLE], WITHIN_VARIABILITY
    )
    dims = ("severity", "row")
    return xr.Dataset(
        {
            "p_value": (
                dims,
                p_value,
                {"long_name": "exact p-value that clean and perturbed are exchangeable"},
            ),
            "label": (
                dims,
                label.astype(object),
                {"long_name": f"effect at an error rate of {ERROR_RATE:g}"},
            ),
            "clean_executions": (dims, clean_count, {"long_name": "clean executions of an episode"}),
            "perturbed_executions": (
                dims,
                perturbed_count,
                {"long_name": "perturbed executions of an episode"},
            ),
            "clean_replicated": (
                "row",
                clean_replicated(aligned),
                {"long_name": "whether the clean clone repeats every record; -1 where it did not run"},
            ),
        },
        coords={
            "severity": ("severity", np.asarray(list(SEVERITIES), dtype=object)),
            **{name: aligned[name] for name in ("model", "suite", "task")},
        },
    )


def clean_replicated(aligned: xr.Dataset) -> IntArray:
    """Return (row,) whether the clean clone repeats every record (1, 0, or -1 where no clone ran).

    Then the floor of the clean side is 0 because nothing was measured, not because nothing varies.
    """
    pair = Pair("baseline", clones_of("baseline")[0])
    return np.asarray(identical_replicates(aligned)["identical"].sel(pair=pair.name).values)


class _Executions(NamedTuple):
    """How often each episode was executed, and with success (key,)."""

    runs: IntArray
    successes: IntArray


def _executions(aligned: xr.Dataset, replicates: xr.Dataset, condition: str) -> _Executions:
    """Count the executions of a condition and its clones that are observations of their own."""
    first = aligned.sel(condition=condition)
    identified = aligned["identified"].values
    count = (first["run"].values & identified).astype(np.int64)
    successes = count * (first["success"].values == 1)
    for name in clones_of(condition):
        if name not in aligned["condition"].values:
            continue
        pair = Pair(condition, name)
        repeats = replicates["identical"].sel(pair=pair.name).values == 1
        counts: BoolArray = paired(aligned, pair) & ~repeats[aligned["row_index"].values]
        count = count + counts
        successes = successes + (counts & (aligned["success"].sel(condition=name).values == 1))
    return _Executions(count, successes)
