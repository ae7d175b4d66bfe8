"""How many episodes an hour a number of workers and devices give, from the costs that a run measured.

`measured_cost` reads the costs of an episode from a run, `capacity` is the model.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray as xr

from roep_gym.arguments import read_integer
from roep_gym.error import InvalidInputError
from roep_gym.evaluate.schema import NOT_RUN

__all__ = ["JOURNAL_RATE", "Capacity", "EpisodeCost", "capacity", "measured_cost"]

JOURNAL_RATE = 2000.0
"""Episodes a second that the driver writes at least (`benchmarks/million_episodes.py`)."""


class EpisodeCost(NamedTuple):
    """Mean seconds of an episode.

    Attributes:
        worker: From its reset to its record, decisions included.
        decisions: Those of them in which the policy decided.
    """

    worker: float
    decisions: float


class Capacity(NamedTuple):
    """What can be reached.

    Attributes:
        episodes_per_hour: Episodes an hour.
        bound: What bounds them: "workers", "devices" or "journal".
    """

    episodes_per_hour: float
    bound: str


def capacity(cost: EpisodeCost, workers: int, devices: int = 0) -> Capacity:
    r"""Return the rate that workers and devices bound.

    .. math:: X = \min\left(\frac{N}{t}, \frac{G}{d}, J\right)

    N workers that take t seconds an episode, G devices on which its decisions take d, and the journal's rate J. It is
    an upper bound (the utilisation law): near the point where two terms are equal, waiting costs some of it.

    Args:
        cost: Seconds of an episode with one worker.
        workers: Workers, each with a core of its own.
        devices: Devices that all workers' decisions share; 0: the policy decides inside the workers.

    Raises:
        InvalidInputError: A number is out of range.
    """
    read_integer("workers", workers, 1)
    read_integer("devices", devices, 0)
    if not 0 <= cost.decisions <= cost.worker or not cost.worker > 0:
        raise InvalidInputError(
            f"Expected an episode of more than 0 s whose decisions take a part of it, got {cost.worker} s and "
            f"{cost.decisions} s."
        )
    bounds = {"workers": workers / cost.worker, "journal": JOURNAL_RATE}
    if devices and cost.decisions > 0:
        bounds["devices"] = devices / cost.decisions
    bound = min(bounds, key=lambda name: bounds[name])
    return Capacity(3600 * bounds[bound], bound)


def measured_cost(data: xr.Dataset) -> EpisodeCost:
    """Return the mean cost of the episodes of a run, a Dataset of `roep_gym.evaluate.schema`."""
    wall, latency = data["wall_time"].values, data["policy_latency"].values
    timed = (data["success"].values != NOT_RUN) & np.isfinite(wall) & np.isfinite(latency)
    if not timed.any():
        raise InvalidInputError(
            "Expected a run whose episodes were timed, got none; measure with a run of roep-gym evaluate."
        )
    decisions = data["decisions"].values[timed] * latency[timed]
    return EpisodeCost(float(wall[timed].mean()), float(decisions.mean()))
