"""Policies that fail on Tabletop, each in its own way: functions from an observation to an action."""

from __future__ import annotations

import numpy as np

from roep_gym.typing import FloatArray, Observation


def blind_policy(observation: Observation) -> FloatArray:
    """Hold still, whatever is seen, with a slowly closing gripper."""
    return np.array([0.0] * 6 + [1.0], dtype=np.float32)


def reckless_policy(observation: Observation) -> FloatArray:
    """Push out of the workspace with an action beyond the bounds."""
    return np.array([2.0] + [0.0] * 5 + [1.0], dtype=np.float32)


def nonfinite_policy(observation: Observation) -> FloatArray:
    """Return NaN."""
    return np.full(7, np.nan, dtype=np.float32)
