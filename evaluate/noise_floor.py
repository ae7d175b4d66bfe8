"""The noise floor: what re-running alone changes (protocol section 5, Eq. 3).

`noise_floor` sets the effect of the perturbation beside it, for each outcome that `condition_rates` counts.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from roep_gym.typing import FloatArray

__all__ = ["DISTINGUISHABLE", "WITHIN_VARIABILITY", "noise_floor"]

DISTINGUISHABLE = "distinguishable from the floor"
WITHIN_VARIABILITY = "within repeat-run variability"


def noise_floor(rates: xr.Dataset, *, tolerance: float = 1e-9) -> xr.Dataset:
    r"""Return the noise floor and the effect of every rate.

    .. math:: F_M = \max(|M(baseline) - M(baseline\_clone)|, |M(perturb) - M(perturb\_clone)|)

    Args:
        rates: The Dataset of `roep_gym.evaluate.metrics.condition_rates`.
        tolerance: By how much the effect must exceed the floor to count as above it.

    Returns:
        A Dataset along (`row`, `outcome`): `nominal_difference`, `perturbed_difference`, their maximum `floor`, the
        `effect`, `|M(baseline) - M(perturb)|`, the `signed_effect` M(baseline) - M(perturb) (Eq. 5), `above_floor`
        (1, 0, or -1 where undefined) and its `label`. Also `mild_difference` and `strong_difference` of the severity
        sweep's clones. NaN where a condition did not run. Nothing of this gates.
    """
    rate = rates["rate"]

    def difference(first: str, second: str) -> FloatArray:
        return np.asarray(rate.sel(condition=first).values - rate.sel(condition=second).values)

    nominal = np.abs(difference("baseline", "baseline_clone"))
    perturbed = np.abs(difference("perturb", "perturb_clone"))
    floor = np.maximum(nominal, perturbed)
    signed = difference("baseline", "perturb")
    effect = np.abs(signed)
    defined = ~np.isnan(effect - floor)
    above = np.where(defined, effect - floor > tolerance, -1).astype(np.int8)
    label = np.select([above == 1, above == 0], [DISTINGUISHABLE, WITHIN_VARIABILITY], "undefined").astype(
        object
    )
    named = {
        "nominal_difference": (nominal, "|baseline - baseline_clone|"),
        "perturbed_difference": (perturbed, "|perturb - perturb_clone|"),
        "floor": (floor, "noise floor"),
        "effect": (effect, "|baseline - perturb|"),
        "signed_effect": (signed, "baseline - perturb"),
        "above_floor": (above, "effect above the floor: 1, not above: 0, undefined: -1"),
        "label": (label, "the effect against the floor"),
        "mild_difference": (np.abs(difference("mild", "mild_clone")), "|mild - mild_clone|"),
        "strong_difference": (np.abs(difference("strong", "strong_clone")), "|strong - strong_clone|"),
    }
    coords = {name: rates[name] for name in ("outcome", "model", "suite", "task")}
    return xr.Dataset(
        {name: (("row", "outcome"), values, {"long_name": text}) for name, (values, text) in named.items()},
        coords=coords,
    )
