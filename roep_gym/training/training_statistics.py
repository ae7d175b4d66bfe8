"""What happens in training, accumulated from the `info` of every step.

`TrainingStatistics.observe` takes the steps of all environments, `drain` gives the scalars since the last call, so that
every event is in exactly one of its answers. Nothing here needs Stable-Baselines3.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from roep_gym.arguments import read_number
from roep_gym.episode_record import REASONS
from roep_gym.typing import Info
from roep_gym.wrappers.episode_trace import termination_reason

__all__ = ["TrainingStatistics"]

_EPISODES, _ATTEMPTS = "outcome/episodes", "unsafe/attempts"
_INTERVENTIONS, _REFUSALS, _NOT_FINITE = "shield/interventions", "shield/refusals", "shield/risk_not_finite"


class TrainingStatistics:
    """Counts, rates and quantiles by tag.

    Counts (of what happened since the last `drain`; `total/<tag>` since the beginning): `outcome/episodes` and
    `outcome/<reason>` of episodes by termination reason; `unsafe/attempts` of steps with an unsafe attempt and
    `unsafe/<channel>`; `shield/interventions` and `shield/refusals` of steps, `shield/risk_not_finite`.

    Rates over the episodes that ended, left out where none did: `outcome/success_rate`, `outcome/timeout_rate`,
    `shield/intervention_rate` (share of episodes with an intervention), `shield/intervention_steps` (mean number of
    steps with one), `perturbation/severity_mean`, `_min` and `_max`. Over the steps: `shield/risk_q50` and so on,
    `shield/risk_max`. An episode belongs, with all its intervention steps, to the answer after its end.

    Shield, unsafe channels and perturbation appear once an `info` has told of them.

    Args:
        quantiles: Quantiles of the risk, in [0, 1].

    Raises:
        InvalidInputError: A quantile is out of its range.
    """

    def __init__(self, quantiles: Sequence[float] = (0.5, 0.9, 0.99)) -> None:
        self._quantiles = [read_number("a quantile", quantile, 0, 1) for quantile in quantiles]
        self._counts, self._totals = Counter[str](), Counter[str]()
        self._known = {_EPISODES, *(f"outcome/{reason}" for reason in REASONS)}
        self._running: defaultdict[int, int] = defaultdict(int)
        self._steps = 0
        self._forget_window()

    @property
    def pending_steps(self) -> int:
        """Number of steps since the last `drain`."""
        return self._steps

    def observe(self, index: int, info: Info, *, done: bool) -> None:
        """Take the `info` of a step in the environment of an index, and whether the episode ended with it."""
        self._steps += 1
        unsafe = info.get("unsafe")
        if unsafe:
            self._count(_ATTEMPTS, any(unsafe.values()))
            for channel, attempted in unsafe.items():
                self._count(f"unsafe/{channel}", bool(attempted))
        if "shield" in info:
            self._observe_shield(index, info)
        if done:
            self._observe_end(index, info)

    def abandon_episodes(self) -> None:
        """Forget the episodes that have not ended: all environments are reset."""
        self._running.clear()

    def drain(self) -> dict[str, float]:
        """Return the scalars by tag, and begin anew but for the totals."""
        scalars: dict[str, float] = {name: self._counts[name] for name in self._known}
        scalars |= {f"total/{name}": self._totals[name] for name in self._known}
        episodes = self._counts[_EPISODES]
        if episodes:
            for reason in ("success", "timeout"):
                scalars[f"outcome/{reason}_rate"] = self._counts[f"outcome/{reason}"] / episodes
        if self._intervention_steps:
            steps = np.array(self._intervention_steps)
            scalars["shield/intervention_rate"] = float((steps > 0).mean())
            scalars["shield/intervention_steps"] = float(steps.mean())
        if self._risks:
            risks = np.array(self._risks)
            for quantile in self._quantiles:
                scalars[f"shield/risk_q{100 * quantile:g}"] = float(np.quantile(risks, quantile))
            scalars["shield/risk_max"] = float(risks.max())
        if self._severities:
            severities = np.array(self._severities)
            for name in ("mean", "min", "max"):
                scalars[f"perturbation/severity_{name}"] = float(getattr(severities, name)())
        self._forget_window()
        return scalars

    def _forget_window(self) -> None:
        self._steps = 0
        self._counts.clear()
        self._risks, self._severities, self._intervention_steps = array("d"), array("d"), array("q")

    def _count(self, name: str, happened: bool) -> None:
        self._known.add(name)
        self._counts[name] += happened
        self._totals[name] += happened

    def _observe_shield(self, index: int, info: Info) -> None:
        shield = info["shield"]
        self._count(_INTERVENTIONS, bool(shield["intervened"]))
        self._count(_REFUSALS, bool(shield["refused"]))
        finite = math.isfinite(shield["risk"])
        self._count(_NOT_FINITE, not finite)
        if finite:
            self._risks.append(shield["risk"])
        self._running[index] += bool(shield["intervened"])

    def _observe_end(self, index: int, info: Info) -> None:
        truncated = bool(info.get("TimeLimit.truncated", False))
        self._count(_EPISODES, True)
        self._count(f"outcome/{termination_reason(info, truncated=truncated)}", True)
        if _INTERVENTIONS in self._known:
            self._intervention_steps.append(self._running.pop(index, 0))
        if "perturbation" in info:
            self._severities.append(info["perturbation"]["severity"])
