"""Whether a perturbation changes success, with a stated error rate: beside the paper's rule, never in its place.

The paper compares one difference with another (Eq. 3), so that rows without any effect often exceed their floor.
`calibrated_effects` tests instead whether the clean executions of the episodes are exchangeable with the perturbed
ones, clones included. `benchmarks/noise_floor_errors.py` measures both error rates.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from roep_gym.evaluate.judging.noise_floor import DISTINGUISHABLE, SEVERITIES, WITHIN_VARIABILITY
from roep_gym.evaluate.judging.pairing import Pair, identical_replicates, paired
from roep_gym.evaluate.judging.tables import table
from roep_gym.evaluate.schema import clones_of
from roep_gym.evaluate.statistics.intervals import stratified_exact
from roep_gym.typing import IntArray

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
    # Along (runs and successes, key).
    clean = _executions(aligned, replicates, "baseline")
    sweep = [_executions(aligned, replicates, condition) for condition in SEVERITIES.values()]
    shape = (len(SEVERITIES), aligned.sizes["row"])
    p_value, clean_count, perturbed_count = np.full(shape, np.nan), np.zeros(shape, int), np.zeros(shape, int)
    for row in range(aligned.sizes["row"]):
        keys = aligned["row_index"].values == row
        runs, successes = clean[:, keys]
        for k, perturbed in enumerate(sweep):
            other_runs, other_successes = perturbed[:, keys]
            p_value[k, row] = stratified_exact(successes, runs, other_successes, other_runs)
            clean_count[k, row] = runs.max(initial=0)
            perturbed_count[k, row] = other_runs.max(initial=0)
    label = np.select(
        [np.isnan(p_value), p_value <= ERROR_RATE], ["undefined", DISTINGUISHABLE], WITHIN_VARIABILITY
    )
    replicated = "whether the clean clone repeats every record; -1 where it did not run"
    dims = ("severity", "row")
    return table(
        {
            "p_value": (dims, p_value, "exact p-value that clean and perturbed are exchangeable"),
            "label": (dims, label, f"effect at an error rate of {ERROR_RATE:g}"),
            "clean_executions": (dims, clean_count, "clean executions of an episode"),
            "perturbed_executions": (dims, perturbed_count, "perturbed executions of an episode"),
            "clean_replicated": ("row", clean_replicated(aligned), replicated),
        },
        aligned,
        severity=list(SEVERITIES),
    )


def clean_replicated(aligned: xr.Dataset) -> IntArray:
    """Return (row,) whether the clean clone repeats every record (1, 0, or -1 where no clone ran).

    Then the floor of the clean side is 0 because nothing was measured, not because nothing varies.
    """
    pair = Pair("baseline", clones_of("baseline")[0])
    return np.asarray(identical_replicates(aligned)["identical"].sel(pair=pair.name).values)


def _executions(aligned: xr.Dataset, replicates: xr.Dataset, condition: str) -> IntArray:
    """Return (2, key) how often each episode was executed, and with success, in a condition and its clones.

    Clones that are no observations of their own do not count.
    """
    counted = {condition: aligned["run"].sel(condition=condition).values & aligned["identified"].values}
    for name in clones_of(condition):
        if name in aligned["condition"].values:
            pair = Pair(condition, name)
            repeats = replicates["identical"].sel(pair=pair.name).values == 1
            counted[name] = paired(aligned, pair) & ~repeats[aligned["row_index"].values]
    runs = np.stack(list(counted.values()))
    success = aligned["success"].sel(condition=list(counted)).transpose("condition", "key").values == 1
    return np.stack([runs.sum(axis=0), (runs & success).sum(axis=0)])
