"""What a run of outcomes lacks for the protocol: what cannot hold without it, and what to record next time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray as xr

from roep_gym.evaluate.schema import NOT_RUN
from roep_gym.typing import BoolArray

__all__ = ["Gap", "find_gaps"]


class Gap(NamedTuple):
    """Something that was not recorded.

    Attributes:
        missing: What is missing, and where.
        bars: The requirements or checks that cannot hold without it.
        record: What to record next time.
    """

    missing: str
    bars: str
    record: str

    def sentence(self) -> str:
        """Return the gap as one sentence."""
        return f"{self.missing}: {self.bars} cannot hold; next time, {self.record}."


def find_gaps(data: xr.Dataset) -> tuple[Gap, ...]:
    """Return what a run lacks, in the order of the checks that cannot hold.

    Args:
        data: A Dataset of `roep_gym.evaluate.schema`.
    """
    return tuple(
        gap for find in (_clean_gaps, _contract_gaps, _pairing_gaps, _shield_gaps) for gap in find(data)
    )


def _in(data: xr.Dataset, *conditions: str) -> BoolArray:
    """Return the planned episodes of these conditions."""
    labels = data["condition"].values.tolist()
    codes = [labels.index(name) for name in conditions if name in labels]
    return np.isin(data["condition_index"].values, codes)


def _ran(data: xr.Dataset) -> BoolArray:
    return np.asarray(data["success"].values != NOT_RUN, dtype=bool)


def _clean_gaps(data: xr.Dataset) -> list[Gap]:
    """C_src, C_log and C_act."""
    clean, ran = _in(data, "baseline"), _ran(data)
    if not (clean & ran).any():
        return [
            Gap("no clean episode", "C_src", "run the policy unperturbed and give that log as baseline=FILE")
        ]
    gaps = []
    aborted = clean & ~ran & (data["aborts"].values > 0)
    if aborted.any():
        gaps.append(
            Gap(
                f"aborted clean episodes: {aborted.sum()}",
                "C_log",
                "run an episode that an exception ended again, and log what came of it",
            )
        )
    absent = clean & ~ran & ~aborted
    if absent.any():
        gaps.append(
            Gap(
                f"absent clean episodes: {absent.sum()} of {clean.sum()} planned",
                "C_log",
                "run the whole support budget, or state the plan with --seed-groups and --episodes-per-group",
            )
        )
    ended = clean & ran
    columns: list[tuple[str, BoolArray, str, str]] = [
        (
            "step counts",
            data["steps"].values == NOT_RUN,
            "C_log",
            "log the control steps of every episode, without settling steps",
        ),
        (
            "actions",
            ~np.isfinite(data["max_abs_action"].values),
            "C_act",
            "log every proposed action, or its largest absolute entry in each episode (max_abs_action)",
        ),
    ]
    for name, lacks, bars, record in columns:
        if (ended & lacks).any():
            gaps.append(
                Gap(f"no {name} in {(ended & lacks).sum()} of {ended.sum()} clean episodes", bars, record)
            )
    return gaps


def _contract_gaps(data: xr.Dataset) -> list[Gap]:
    """C_fid."""
    if not (data["contract_unresolved"].values > 0).any():
        return []
    return [
        Gap(
            "no runtime contract",
            "C_fid",
            "write down checkpoint, image preprocessing, control mode, action convention, chunk length and library "
            "versions, and hold them against what the checkpoint was trained with",
        )
    ]


def _pairing_gaps(data: xr.Dataset) -> list[Gap]:
    """Check 2 (pairing integrity)."""
    gaps, ran = [], _ran(data)
    names = {"init_state": "initial states", "env_seed": "scene seeds"}
    lacking = {text: ran & (data[name].values == NOT_RUN) for name, text in names.items()}
    lacks = np.logical_or.reduce(list(lacking.values()))
    if lacks.any():
        named = " and ".join(text for text, mask in lacking.items() if mask.any())
        gaps.append(
            Gap(
                f"no {named} in {lacks.sum()} of {ran.sum()} episodes",
                "check 2 (pairing)",
                "seed the simulator immediately before each reset from task and episode alone, set the initial state "
                "by the episode's index, and log both (init_state, env_seed)",
            )
        )
    absent = [
        name for name in ("perturb", "baseline_clone", "perturb_clone") if not (_in(data, name) & ran).any()
    ]
    if absent:
        gaps.append(
            Gap(
                f"no episode of {', '.join(absent)}",
                "check 2 (pairing)",
                "run the same episodes under medium perturbation, and both conditions a second time",
            )
        )
    return gaps


def _shield_gaps(data: xr.Dataset) -> list[Gap]:
    """Check 4 (shield support), and the checks that need observed unsafe attempts."""
    gaps, ran = [], _ran(data)
    if (data["shield_status"].values != "trained").any():
        gaps.append(
            Gap(
                "no shield",
                "check 4 (shield support)",
                "train one and run recovery and full with it, if that is the claim",
            )
        )
    if (ran & (data["unsafe_attempts"].values == NOT_RUN)).any():
        gaps.append(
            Gap(
                "unsafe attempts were not observed",
                "checks 7, 8 and 10",
                "log the steps with an action outside its bounds, a workspace exit or excessive contact "
                "(unsafe_attempts)",
            )
        )
    return gaps
