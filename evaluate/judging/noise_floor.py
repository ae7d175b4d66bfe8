"""The noise floor: what re-running alone changes (protocol section 5, Eq. 3).

`noise_floor` sets the effect of the perturbation beside it, for each outcome that `condition_rates` counts;
`severity_effects` does so for each severity of the sweep.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr

from roep_gym.evaluate.judging.tables import table
from roep_gym.typing import FloatArray

__all__ = ["DISTINGUISHABLE", "SEVERITIES", "WITHIN_VARIABILITY", "noise_floor", "severity_effects"]

DISTINGUISHABLE = "distinguishable from the floor"
WITHIN_VARIABILITY = "within repeat-run variability"
SEVERITIES: Mapping[str, str] = {"mild": "mild", "medium": "perturb", "strong": "strong"}
"""The condition of each severity of the sweep; its clone is the condition with `_clone` behind its name."""


def noise_floor(rates: xr.Dataset, *, tolerance: float = 1e-9) -> xr.Dataset:
    r"""Return the noise floor and the effect of every rate.

    .. math:: F_M = \max(|M(baseline) - M(baseline\_clone)|, |M(perturb) - M(perturb\_clone)|)

    Args:
        rates: The Dataset of `roep_gym.evaluate.judging.metrics.condition_rates`.
        tolerance: By how much the effect must exceed the floor to count as above it.

    Returns:
        A Dataset along (`row`, `outcome`): `nominal_difference`, `perturbed_difference`, their maximum `floor`, the
        `effect`, `|M(baseline) - M(perturb)|`, the `signed_effect` M(baseline) - M(perturb) (Eq. 5), `above_floor`
        (1, 0, or -1 where undefined) and its `label`. Also `mild_difference` and `strong_difference` of the severity
        sweep's clones. NaN where a condition did not run. Nothing of this gates.
    """
    floor = _against_floor(rates, "perturb", tolerance)
    for name in ("mild", "strong"):
        difference = np.abs(_difference(rates, name, f"{name}_clone"))
        floor[f"{name}_difference"] = (("row", "outcome"), difference, {"long_name": f"|{name} - its clone|"})
    return floor


def severity_effects(rates: xr.Dataset, *, tolerance: float = 1e-9) -> xr.Dataset:
    """Return the effect of every severity of the sweep against a noise floor of its own clones.

    Eq. 3 with the condition of the severity in the place of `perturb`.

    Args:
        rates: The Dataset of `roep_gym.evaluate.judging.metrics.condition_rates`.
        tolerance: By how much the effect must exceed the floor to count as above it.

    Returns:
        The variables of `noise_floor` but for the clones' of the sweep, along (`severity`, `row`, `outcome`).
    """
    return xr.concat(
        [_against_floor(rates, condition, tolerance) for condition in SEVERITIES.values()],
        xr.DataArray(np.asarray(list(SEVERITIES), dtype=object), dims="severity", name="severity"),
    )


def _difference(rates: xr.Dataset, first: str, second: str) -> FloatArray:
    rate = rates["rate"]
    return np.asarray(rate.sel(condition=first).values - rate.sel(condition=second).values)


def _against_floor(rates: xr.Dataset, condition: str, tolerance: float) -> xr.Dataset:
    nominal = np.abs(_difference(rates, "baseline", "baseline_clone"))
    perturbed = np.abs(_difference(rates, condition, f"{condition}_clone"))
    floor = np.maximum(nominal, perturbed)
    signed = _difference(rates, "baseline", condition)
    effect = np.abs(signed)
    defined = ~np.isnan(effect - floor)
    above = np.where(defined, effect - floor > tolerance, -1).astype(np.int8)
    label = np.select([above == 1, above == 0], [DISTINGUISHABLE, WITHIN_VARIABILITY], "undefined")
    dims = ("row", "outcome")
    return table(
        {
            "nominal_difference": (dims, nominal, "|baseline - baseline_clone|"),
            "perturbed_difference": (dims, perturbed, f"|{condition} - {condition}_clone|"),
            "floor": (dims, floor, "noise floor"),
            "effect": (dims, effect, f"|baseline - {condition}|"),
            "signed_effect": (dims, signed, f"baseline - {condition}"),
            "above_floor": (dims, above, "effect above the floor: 1, not above: 0, undefined: -1"),
            "label": (dims, label, "the effect against the floor"),
        },
        rates,
        outcome=rates["outcome"],
    )
