"""The intervention threshold (protocol section 6, threshold; Eq. 13)."""

from __future__ import annotations

import numpy as np

from roep_gym.error import InvalidInputError
from roep_gym.shields.model import RiskModel
from roep_gym.typing import Array

__all__ = ["calibrate", "threshold"]


def threshold(scores: Array, alpha: float) -> float:
    """Return tau, the empirical (1 - alpha) quantile of risk scores by NumPy's method "higher".

    About a share alpha of the safe steps reaches tau, by construction.

    Args:
        scores: Risk scores of safe calibration steps, shape (steps,), at least one.
        alpha: Share of safe steps that may reach the threshold, in (0, 1).

    Raises:
        InvalidInputError: There is no score, or one is not finite.
    """
    if len(scores) == 0 or not np.isfinite(scores).all():
        raise InvalidInputError(f"Expected at least one risk score, all finite, got {len(scores)} scores.")
    return float(np.quantile(scores, 1.0 - alpha, method="higher"))


def calibrate(model: RiskModel, features: Array, alpha: float) -> float:
    """Return tau from the features of safe calibration steps, shape (steps, features).

    The steps are scored one by one, by the very function that the runtime calls.
    """
    return threshold(np.array([model.risk(row) for row in features]), alpha)
