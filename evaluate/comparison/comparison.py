"""Two runs, or two models, over the same episodes.

`compare` pairs the episodes of two Datasets by their keys and returns a `Comparison`: differences with intervals and
tests for every row whose premises hold, and for every other row the premise that does not. Nothing is compared that was
run under other conditions than it says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr

from roep_gym.error import InvalidInputError, unknown_name
from roep_gym.evaluate.comparison.premises import DIFFERS, Premise, pair_keys, planned_episodes, row_premises
from roep_gym.evaluate.judging.metrics import ratio
from roep_gym.evaluate.judging.paired_evidence import (
    IDENTICAL,
    PairedOutcomes,
    StatisticsConfig,
    paired_statistics,
)
from roep_gym.evaluate.judging.pairing import COMPARED
from roep_gym.evaluate.schema import CONDITIONS, check_dataset
from roep_gym.evaluate.statistics.bootstrap import BootstrapInterval, cluster_bootstrap
from roep_gym.evaluate.store.labelled import stored_form
from roep_gym.seeding import generator

__all__ = ["Comparison", "compare"]

_ROW = ("suite", "task")


@dataclass(frozen=True)
class Comparison:
    """Paired differences of two sides.

    Attributes:
        first: Model of the first side.
        second: Model of the second side.
        premises: What was compared before, per row.
        statistics: Along (`row`, `condition`): the variables of `paired_statistics` with the first side as base, so
            that a positive difference says that the first side succeeded more often; `first_rate` and `second_rate`
            among the pairs; `unpaired` keys, of which a side did not run. Along `row`: `refusal`, empty where compared.
        means: Mean difference over the compared tasks, a condition, with its bootstrap over tasks and initial states.
    """

    first: str
    second: str
    premises: tuple[Premise, ...]
    statistics: xr.Dataset
    means: Mapping[str, BootstrapInterval]


def compare(
    first: xr.Dataset,
    second: xr.Dataset,
    *,
    first_model: str | None = None,
    second_model: str | None = None,
    config: StatisticsConfig | None = None,
) -> Comparison:
    """Compare a model of one Dataset with a model of another one, or of the same.

    Args:
        first: A Dataset of `load_run`, or in the form of `roep_gym.evaluate.schema`.
        second: The other one; the same object compares two models of a run.
        first_model: Model of the first side; None takes its only one.
        second_model: Model of the second side; None takes its only one, or else the first side's.
        config: Levels of the statistics; None takes the defaults.

    Raises:
        InvalidInputError: A model must be named, the two sides are the same, they share no task and condition, or no
            row's premises hold (the message says why).
        UnknownNameError: A side has no such model.
    """
    config, same = config or StatisticsConfig(), first is second
    first, second = stored_form(first), stored_form(second)
    check_dataset(first)
    check_dataset(second)
    model = _chosen_model(first, first_model, "first", None)
    other = _chosen_model(second, second_model, "second", model)
    if same and model == other:
        raise InvalidInputError(
            f"Expected two runs or two models, got {model!r} of one run twice; name another model."
        )
    pairs = _joined(planned_episodes(first, model), planned_episodes(second, other))
    premises: list[Premise] = []
    refusals: dict[tuple[str, str], str] = {}
    for (suite, task), keys in pairs.groupby(list(_ROW), sort=False):
        found = list(row_premises(suite, task, keys, first, second))
        premises += found
        refusals[suite, task] = "; ".join(p.detail for p in found if p.verdict == DIFFERS)
    if all(refusals.values()):
        (suite, task), why = next(iter(refusals.items()))
        raise InvalidInputError(
            f"Expected a row that both sides ran alike, but none is: {suite}/{task}: {why}; run the same plan for both."
        )
    return Comparison(
        model, other, tuple(premises), *_compared(pairs, refusals, f"{model} and {other}", config)
    )


def _chosen_model(data: xr.Dataset, name: str | None, side: str, default: str | None) -> str:
    models = list(dict.fromkeys(map(str, data["model"].values)))
    if name is not None:
        if name not in models:
            raise unknown_name("model", name, models, f"The {side} run holds no other.")
        return name
    if len(models) == 1:
        return models[0]
    if default in models:
        return str(default)
    raise InvalidInputError(
        f"Expected the name of one model of the {side} run, which holds {', '.join(models)}; name it."
    )


def _joined(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Return the paired keys of the rows and conditions that both sides planned, in the order of the protocol."""
    shared = pd.merge(
        *(side[[*_ROW, "condition"]].drop_duplicates() for side in (first, second)), how="inner"
    )
    if shared.empty:
        raise InvalidInputError(
            "Expected a task and condition that both sides planned, but they share none; run the same tasks."
        )
    joined = pair_keys(*(shared.merge(side, on=[*_ROW, "condition"], how="left") for side in (first, second)))
    order = {name: position for position, name in enumerate(CONDITIONS)}
    joined = joined.sort_values("condition", key=lambda names: names.map(order), kind="stable")
    return first[list(_ROW)].drop_duplicates().merge(joined, on=list(_ROW), how="inner")


def _compared(
    pairs: pd.DataFrame, refusals: Mapping[tuple[str, str], str], key: str, config: StatisticsConfig
) -> tuple[xr.Dataset, dict[str, BootstrapInterval]]:
    """Return the statistics and the means over tasks, of the rows that are not refused."""
    names = ["/".join(row) for row in refusals]
    pairs = pairs.assign(row=pairs.groupby(list(_ROW), sort=False).ngroup())
    compared = pairs[np.array([not why for why in refusals.values()])[pairs["row"]]]
    parts, means = [], {}
    for condition in pairs["condition"].unique():
        here = compared[compared["condition"] == condition]
        ran = (here["success_first"] >= 0) & (here["success_second"] >= 0)
        both = here[ran]
        outcomes = PairedOutcomes(
            base=both["success_first"].to_numpy() == 1,
            comparison=both["success_second"].to_numpy() == 1,
            row=both["row"].to_numpy(),
            init_state=both["init_state"].to_numpy(),
        )
        reasons = [why or _identical(both[both["row"] == row]) for row, why in enumerate(refusals.values())]
        part = paired_statistics(
            outcomes, names=names, key=f"{key}: {condition}", no_evidence=reasons, config=config
        )
        for side, won in (("first", outcomes.base), ("second", outcomes.comparison)):
            wins = np.bincount(outcomes.row[won], minlength=len(names))
            part[f"{side}_rate"] = ("row", ratio(wins, part["support"].values))
        part["unpaired"] = ("row", np.bincount(here["row"][~ran], minlength=len(names)))
        parts.append(part)
        evidence = outcomes.where(np.array([not why for why in reasons])[outcomes.row])
        means[condition] = cluster_bootstrap(
            evidence.difference,
            init_state=evidence.init_state,
            task=evidence.row,
            rng=generator("mean paired difference", key, condition),
            resamples=config.resamples,
            confidence=config.confidence,
        )
    statistics = xr.concat(parts, dim="condition", combine_attrs="override").transpose("row", "condition")
    statistics["refusal"] = ("row", np.array(list(refusals.values()), dtype=object))
    suites, tasks = (np.array(labels, dtype=object) for labels in zip(*refusals, strict=True))
    conditions = np.array(list(means), dtype=object)
    return statistics.assign_coords(suite=("row", suites), task=("row", tasks), condition=conditions), means


def _identical(both: pd.DataFrame) -> str:
    """Return why pairs that repeat every record are no evidence; empty where some record differs."""
    first, second = (
        both[[f"{name}_{side}" for name in COMPARED]].set_axis(list(COMPARED), axis=1)
        for side in ("first", "second")
    )
    return IDENTICAL if len(both) and first.equals(second) else ""
