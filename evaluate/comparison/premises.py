"""What must be equal on both sides before their episodes may stand beside each other.

`row_premises` validates two sides of a row against each other, on the pairs that `pair_keys` makes of their
`planned_episodes`; `setting_premises` validates what the provenance of two runs says alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import xarray as xr

from roep_gym.evaluate.judging.pairing import COMPARED
from roep_gym.evaluate.schema import CONDITIONS, NOT_RUN, PAIRING_KEY
from roep_gym.typing import JSON

__all__ = [
    "DIFFERS",
    "EQUAL",
    "FINGERPRINTS",
    "FULL_KEYS",
    "NOT_RECORDED",
    "STEP_BUDGETS",
    "Premise",
    "pair_keys",
    "planned_episodes",
    "provenance_of",
    "row_premises",
    "setting_premises",
]

EQUAL, DIFFERS, NOT_RECORDED = "equal", "differs", "not recorded"
FULL_KEYS, FINGERPRINTS, STEP_BUDGETS = "full keys", "numeric fingerprints", "step budgets"
"""Names of the premises that not everybody needs."""

_VALUES = ("success", "fingerprint", *(name for name in COMPARED if name != "success"))


@dataclass(frozen=True)
class Premise:
    """Something that must be equal on both sides of a row, or a comparison means nothing.

    Attributes:
        suite: Suite of the row.
        task: Task of the row.
        name: What is compared.
        verdict: `EQUAL`, `DIFFERS` or `NOT_RECORDED`; only the second refuses the row.
        detail: What differs, or who did not record it; empty where it is equal.
    """

    suite: str
    task: str
    name: str
    verdict: str
    detail: str = ""


def provenance_of(data: xr.Dataset) -> Mapping[str, JSON]:
    """Return the provenance of a run; empty where it has none."""
    provenance: Mapping[str, JSON] = json.loads(data.attrs.get("provenance", "{}"))
    return provenance


def planned_episodes(data: xr.Dataset, model: str) -> pd.DataFrame:
    """Return the planned episodes of a model, one line an episode: row, condition, pairing key and outcome."""
    row = data["row_index"].values
    frame = pd.DataFrame({name: data[name].values[row] for name in ("suite", "task")})
    frame["condition"] = data["condition"].values[data["condition_index"].values]
    for name in (*PAIRING_KEY, *_VALUES):
        frame[name] = data[name].values
    frame["instruction"] = data["instruction"].values[row]
    return frame[data["model"].values[row] == model]


def pair_keys(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """Return one line a key that either side planned.

    Columns of the sides end in `_first` and `_second`; `present` says "both", "left_only" or "right_only".
    """
    keys = ["suite", "task", "condition", *PAIRING_KEY]
    return first.merge(second, on=keys, how="outer", suffixes=("_first", "_second"), indicator="present")


def row_premises(
    suite: str, task: str, keys: pd.DataFrame, first: xr.Dataset, second: xr.Dataset
) -> Iterator[Premise]:
    """Validate two sides of a row against each other.

    Args:
        suite: Suite of the row.
        task: Task of the row.
        keys: What `pair_keys` made of the two sides of the row.
        first: Dataset of the first side.
        second: Dataset of the second side.
    """
    only_first, only_second = ((keys["present"] == name).sum() for name in ("left_only", "right_only"))
    detail = f"keys differ: {only_first} planned on the first side only, {only_second} on the second"
    yield _premise(suite, task, "keys", not only_first and not only_second, detail)
    # The scene seed alone places everything in the scenes of the bootstrap.
    sampled = keys["condition"].map(lambda name: CONDITIONS[name].role == "bootstrap") & (
        keys["env_seed"] != NOT_RUN
    )
    partial = int(((keys[list(PAIRING_KEY)] == NOT_RUN).any(axis=1) & ~sampled).sum())
    detail = (
        f"{partial} keys lack initial state or scene seed, so nothing says that they are the same episode"
    )
    yield _premise(suite, task, FULL_KEYS, not partial, detail)
    both = keys[keys["present"] == "both"]
    for column, name in {"scene_hash": "scenes", "fingerprint": FINGERPRINTS}.items():
        sides = [both[f"{column}_{side}"] for side in ("first", "second")]
        ran = (both["success_first"] != NOT_RUN) & (both["success_second"] != NOT_RUN)
        known = ran & (sides[0] != NOT_RUN) & (sides[1] != NOT_RUN)
        differing = int((known & (sides[0] != sides[1])).sum())
        detail = f"{name} differ in {differing} of {int(known.sum())} pairs"
        yield _premise(suite, task, name, not differing if known.any() else None, detail)
    yield from setting_premises(suite, task, list(keys["condition"].unique()), first, second)
    said = [{text for text in both[f"instruction_{side}"] if text} for side in ("first", "second")]
    detail = f"instructions differ: {sorted(said[0])} and {sorted(said[1])}"
    yield _premise(suite, task, "instructions", said[0] == said[1] if all(said) else None, detail)


def setting_premises(
    suite: str, task: str, conditions: Sequence[str], first: xr.Dataset, second: xr.Dataset
) -> Iterator[Premise]:
    """Validate against each other what the provenance of two runs says about a suite and some conditions."""
    settings = [_settings(data, suite, conditions) for data in (first, second)]
    for name in settings[0]:
        values = [of_side[name] for of_side in settings]
        detail = f"{name} differ: {json.dumps(values[0])} and {json.dumps(values[1])}"
        yield _premise(suite, task, name, None if None in values else values[0] == values[1], detail)


def _premise(suite: str, task: str, name: str, equal: bool | None, detail: str) -> Premise:
    if equal is None:
        return Premise(suite, task, name, NOT_RECORDED, f"{name} {NOT_RECORDED} on both sides")
    return Premise(suite, task, name, EQUAL if equal else DIFFERS, "" if equal else detail)


def _settings(data: xr.Dataset, suite: str, conditions: Sequence[str]) -> dict[str, JSON]:
    """Return what the provenance says about how a suite and some conditions were run; None: it does not say it."""
    plan, profiles = (provenance_of(data).get(name) or {} for name in ("plan", "profiles"))
    acting = {CONDITIONS[name].profile for name in conditions}
    return {
        STEP_BUDGETS: plan.get("suite_step_budgets", {}).get(suite, plan.get("step_budget")),
        "environments": plan.get("environment"),
        "profiles": {name: profiles[name] for name in sorted(acting)} if acting <= set(profiles) else None,
    }
