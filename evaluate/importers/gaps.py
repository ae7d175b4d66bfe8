"""What a run of outcomes lacks for the protocol: what cannot hold without it, and what to record next time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import xarray as xr

from roep_gym.evaluate.judging.tables import planned_in
from roep_gym.evaluate.schema import NOT_RUN

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
    clean, ran = planned_in(data, "baseline"), data["success"].values != NOT_RUN
    ended = clean & ran
    aborted = clean & ~ran & (data["aborts"].values > 0)
    absent = clean & ~ran & ~aborted
    uncounted = ended & (data["steps"].values == NOT_RUN)
    unseen = ended & ~np.isfinite(data["max_abs_action"].values)
    keys = {"initial states": data["init_state"].values, "scene seeds": data["env_seed"].values}
    unnamed = [what for what, values in keys.items() if (values[ran] == NOT_RUN).any()]
    unpaired = ran & np.any([values == NOT_RUN for values in keys.values()], axis=0)
    partners = ("perturb", "baseline_clone", "perturb_clone")
    alone = [name for name in partners if not (planned_in(data, name) & ran).any()]
    gaps = [
        (
            not ended.any(),
            "no clean episode",
            "C_src",
            "run the policy unperturbed and give that log as baseline=FILE",
        ),
        (
            ended.any() and aborted.any(),
            f"aborted clean episodes: {aborted.sum()}",
            "C_log",
            "run an episode that an exception ended again, and log what came of it",
        ),
        (
            ended.any() and absent.any(),
            f"absent clean episodes: {absent.sum()} of {clean.sum()} planned",
            "C_log",
            "run the whole support budget, or state the plan with --seed-groups and --episodes-per-group",
        ),
        (
            uncounted.any(),
            f"no step counts in {uncounted.sum()} of {ended.sum()} clean episodes",
            "C_log",
            "log the control steps of every episode, without settling steps",
        ),
        (
            unseen.any(),
            f"no actions in {unseen.sum()} of {ended.sum()} clean episodes",
            "C_act",
            "log every proposed action, or its largest absolute entry in each episode (max_abs_action)",
        ),
        (
            (data["contract_unresolved"].values > 0).any(),
            "no runtime contract",
            "C_fid",
            "write down checkpoint, image preprocessing, control mode, action convention, chunk length and "
            "library versions, and hold them against what the checkpoint was trained with",
        ),
        (
            unpaired.any(),
            f"no {' and '.join(unnamed)} in {unpaired.sum()} of {ran.sum()} episodes",
            "check 2 (pairing)",
            "seed the simulator immediately before each reset from task and episode alone, set the initial state "
            "by the episode's index, and log both (init_state, env_seed)",
        ),
        (
            bool(alone),
            f"no episode of {', '.join(alone)}",
            "check 2 (pairing)",
            "run the same episodes under medium perturbation, and both conditions a second time",
        ),
        (
            (data["shield_status"].values != "trained").any(),
            "no shield",
            "check 4 (shield support)",
            "train one and run recovery and full with it, if that is the claim",
        ),
        (
            (data["unsafe_attempts"].values[ran] == NOT_RUN).any(),
            "unsafe attempts were not observed",
            "checks 7, 8 and 10",
            "log the steps with an action outside its bounds, a workspace exit or excessive contact "
            "(unsafe_attempts)",
        ),
    ]
    return tuple(Gap(*texts) for lacks, *texts in gaps if lacks)
