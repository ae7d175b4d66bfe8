"""The paper's published numbers, and a run beside them.

`published_table` reads a table of the package's folder `reference`, `beside_published` lays a judged run beside
Table 3. A published number has no episode records: there is nothing to pair, and a difference says nothing about its
cause.
"""

from __future__ import annotations

from importlib.resources import files

import pandas as pd

from roep_gym.error import unknown_name
from roep_gym.evaluate.judging.gate import Judgement
from roep_gym.evaluate.statistics.intervals import newcombe_interval

__all__ = ["PUBLISHED_TABLES", "beside_published", "published_table"]

PUBLISHED_TABLES: tuple[str, ...] = (
    "table1_tasks",
    "table3_outcomes",
    "table4_aggregates",
    "tableA3_status_counts",
    "tableA4_harm_support",
    "tableA5_shield_bootstrap",
    "tableA6a_severity_by_model",
    "tableA6b_severity_by_suite",
)


def published_table(name: str) -> pd.DataFrame:
    """Return a table of the paper; empty cells are empty text.

    Raises:
        UnknownNameError: There is no such table.
    """
    if name not in PUBLISHED_TABLES:
        raise unknown_name("published table", name, PUBLISHED_TABLES)
    with (files("roep_gym.evaluate.comparison") / "reference" / f"{name}.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file, keep_default_na=False)


def beside_published(judgement: Judgement) -> pd.DataFrame:
    """Return a run's outcomes beside those of Table 3.

    A row of a model that the paper has stands beside that model; a row of any other model beside each of the paper's.

    Returns:
        One line a row and published model: `model`, `published_model`, `suite`, `task`; for SR `clean_sr`, `perturb_sr`
        and `delta_sr` with their `published_` partners; `clean_difference` and `perturb_difference` (run minus
        published) with the bounds `_low` and `_high` of Newcombe's interval; `timeout_rate` and
        `published_timeout_rate`; `claim_status`, `published_claim_status`, `limiting_factor`,
        `published_limiting_factor`. Published values are NaN or empty, and `published_model` is empty, for a task that
        the paper does not have.
    """
    table = _run_table(judgement)
    published = published_table("table3_outcomes").add_prefix("published_").rename(columns=_SHARED)
    known = {_plain(name): name for name in published["published_model"].unique()}
    table["published_model"] = [known.get(_plain(name)) for name in table["model"]]
    is_known = table["published_model"].notna()
    same = table[is_known].merge(published, on=["task", "published_model"], how="left")
    other = table[~is_known].drop(columns="published_model").merge(published, on="task", how="left")
    beside = pd.concat([same, other], ignore_index=True).sort_values("row", kind="stable", ignore_index=True)
    absent = beside["published_episodes"].isna()
    texts = ["published_model", "published_claim_status", "published_limiting_factor"]
    beside.loc[absent, texts] = ""
    for name in ("clean", "perturb"):
        counts = (f"{name}_successes", f"{name}_n", f"published_{name}_successes", "published_episodes")
        low, high = newcombe_interval(*(beside[count].fillna(0).to_numpy(dtype=float) for count in counts))
        beside[f"{name}_difference"] = beside[f"{name}_sr"] - beside[f"published_{name}_sr"]
        beside[f"{name}_difference_low"], beside[f"{name}_difference_high"] = low, high
    return beside[list(_COLUMNS)]


_SHARED = {"published_task": "task", "published_perturb_timeout_rate": "published_timeout_rate"}
_COLUMNS = (
    "model", "published_model", "suite", "task",
    "clean_sr", "published_clean_sr", "clean_difference", "clean_difference_low", "clean_difference_high",
    "perturb_sr", "published_perturb_sr", "perturb_difference", "perturb_difference_low", "perturb_difference_high",
    "delta_sr", "published_delta_sr", "timeout_rate", "published_timeout_rate",
    "claim_status", "published_claim_status", "limiting_factor", "published_limiting_factor",
)  # fmt: skip


def _run_table(judgement: Judgement) -> pd.DataFrame:
    verdicts, rates = judgement.verdicts, judgement.rates
    names = ("model", "suite", "task", "claim_status", "limiting_factor")
    table = pd.DataFrame({name: verdicts[name].values for name in names})
    for name, condition in {"clean": "baseline", "perturb": "perturb"}.items():
        success = rates.sel(condition=condition, outcome="success")
        table[f"{name}_successes"], table[f"{name}_n"] = success["count"].values, success["n"].values
        table[f"{name}_sr"] = success["rate"].values
    table["delta_sr"] = table["clean_sr"] - table["perturb_sr"]
    table["timeout_rate"] = rates["rate"].sel(condition="perturb", outcome="timeout").values
    table["row"] = range(len(table))
    return table


def _plain(name: str) -> str:
    """Return a model's name without case and punctuation."""
    return "".join(character for character in name.lower() if character.isalnum())
