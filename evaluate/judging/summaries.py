"""Summaries over the tasks of a model and suite: arithmetic means of task-level values, never pooled episodes.

`model_suite_summary` holds the columns of the paper's Table 4 and of the clone columns of Table A6, `model_summary`
the same over all tasks of a model, `status_counts` those of Table A3, `harm_support` those of Table A4.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from roep_gym.evaluate.judging.gate import LABELS, Judgement
from roep_gym.evaluate.judging.tables import row_groups, table
from roep_gym.typing import Array

__all__ = ["harm_support", "model_suite_summary", "model_summary", "status_counts"]

_FULL = "full given perturb"


def model_suite_summary(judgement: Judgement) -> xr.Dataset:
    """Return means over the tasks of each model and suite.

    Returns:
        A Dataset along `group` (coordinates `model`, `suite`), in the order of the rows: `tasks`, and the means
        `clean_sr`, `perturb_sr`, `signed_delta_sr`, `abs_effect_sr`, `noise_floor_sr`, `perturb_timeout_rate`,
        `hr_timeout` and `hr_unsafe` (full given perturb, seed-macro), `mild_sr`, `strong_sr`, `strong_timeout_rate`,
        `mild_clone_difference`, `strong_clone_difference`; each over the tasks where it is defined, whose number is
        `<name>_n`. `rows_effect_above_floor` counts `|Delta SR| > F_SR`, strictly. Only
        `clean_sr` counts rows that are not admitted: their downstream values are not applicable.
    """
    return _summary(judgement, ("model", "suite"))


def model_summary(judgement: Judgement) -> xr.Dataset:
    """Return what `model_suite_summary` does, over all tasks of each model; `group` has the coordinate `model`."""
    return _summary(judgement, ("model",))


def _summary(judgement: Judgement, by: tuple[str, ...]) -> xr.Dataset:
    rate = judgement.rates["rate"]
    floor = judgement.floor.sel(outcome="success")
    harm = judgement.harm.sel(pair=_FULL, aggregation="seed_macro")
    values = {
        "clean_sr": rate.sel(condition="baseline", outcome="success"),
        "perturb_sr": rate.sel(condition="perturb", outcome="success"),
        "signed_delta_sr": floor["signed_effect"],
        "abs_effect_sr": floor["effect"],
        "noise_floor_sr": floor["floor"],
        "perturb_timeout_rate": rate.sel(condition="perturb", outcome="timeout"),
        "hr_timeout": harm["hr_by_reason"].sel(reason="timeout"),
        "hr_unsafe": harm["hr_unsafe"],
        "mild_sr": rate.sel(condition="mild", outcome="success"),
        "strong_sr": rate.sel(condition="strong", outcome="success"),
        "strong_timeout_rate": rate.sel(condition="strong", outcome="timeout"),
        "mild_clone_difference": floor["mild_difference"],
        "strong_clone_difference": floor["strong_difference"],
    }
    admitted = judgement.admission["admitted"].values
    groups, code = row_groups(judgement.verdicts, by)
    columns: dict[str, tuple[str, Array, str]] = {"tasks": ("group", np.bincount(code), "tasks")}
    for name, variable in values.items():
        applicable = variable.values if name == "clean_sr" else np.where(admitted, variable.values, np.nan)
        task_level = pd.Series(applicable).groupby(code)
        columns[name] = ("group", task_level.mean().to_numpy(), f"mean {name} over tasks")
        columns[f"{name}_n"] = ("group", task_level.count().to_numpy(), "tasks where it is defined")
    above = pd.Series(admitted & (floor["above_floor"].values == 1)).groupby(code).sum().to_numpy()
    columns["rows_effect_above_floor"] = ("group", above, "tasks with effect above floor")
    return table(columns).assign_coords(groups)


def status_counts(judgement: Judgement) -> xr.Dataset:
    """Return how many rows of each model and suite have each trace label, along (`group`, `trace_label`)."""
    groups, code = row_groups(judgement.verdicts, ("model", "suite"))
    counts = pd.crosstab(code, judgement.verdicts["trace_label"].values).reindex(columns=LABELS, fill_value=0)
    columns = {"rows": (("group", "trace_label"), counts.to_numpy(), "rows")}
    return table(columns, trace_label=LABELS).assign_coords(groups)


def harm_support(judgement: Judgement) -> xr.Dataset:
    """Return the harm decomposition of every row, full given perturb (Table A4).

    Returns:
        A Dataset along `row`: `clean_sr`, `perturb_sr`, `perturb_timeout_rate`, `paired_support` (base successes with
        a partner), `low_support` (fewer than 10 of them), `nominal_clone_difference`, `perturbed_clone_difference`;
        along (`row`, `aggregation`): `hr_total`, `hr_timeout`, `hr_unsafe`.
    """
    rate = judgement.rates["rate"]
    floor = judgement.floor.sel(outcome="success")
    harm = judgement.harm.sel(pair=_FULL)
    columns = {
        "clean_sr": rate.sel(condition="baseline", outcome="success"),
        "perturb_sr": rate.sel(condition="perturb", outcome="success"),
        "perturb_timeout_rate": rate.sel(condition="perturb", outcome="timeout"),
        "paired_support": harm["denominator"],
        "low_support": harm["denominator"] < 10,
        "hr_total": harm["hr_total"],
        "hr_timeout": harm["hr_by_reason"].sel(reason="timeout"),
        "hr_unsafe": harm["hr_unsafe"],
        "nominal_clone_difference": floor["nominal_difference"],
        "perturbed_clone_difference": floor["perturbed_difference"],
    }
    # Each comes from one condition, outcome or pair: that label is in the name, and would clash as a coordinate.
    selected = ["condition", "outcome", "pair", "reason"]
    return xr.Dataset(
        {name: values.drop_vars(selected, errors="ignore") for name, values in columns.items()},
        attrs={"direction": _FULL},
    )
