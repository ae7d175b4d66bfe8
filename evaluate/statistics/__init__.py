"""Intervals, resampling and power; they inform and never gate, and need NumPy alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roep_gym.lazy import lazy_names

if TYPE_CHECKING:
    from roep_gym.evaluate.statistics.bootstrap import BootstrapInterval, cluster_bootstrap
    from roep_gym.evaluate.statistics.intervals import (
        Interval,
        holm_adjust,
        mcnemar_exact,
        newcombe_interval,
        paired_difference_interval,
        wilson_interval,
    )
    from roep_gym.evaluate.statistics.power import (
        mcnemar_power,
        minimum_detectable_drop,
        paired_episodes,
        unpaired_episodes,
    )
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "BootstrapInterval",
    "Interval",
    "cluster_bootstrap",
    "holm_adjust",
    "mcnemar_exact",
    "mcnemar_power",
    "minimum_detectable_drop",
    "newcombe_interval",
    "paired_difference_interval",
    "paired_episodes",
    "unpaired_episodes",
    "wilson_interval",
]
