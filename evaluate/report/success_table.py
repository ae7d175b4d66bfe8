"""The plain success rates of a run: what people want first, and no claim."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.table import Table

from roep_gym.evaluate.schema import NOT_RUN, REASONS
from roep_gym.evaluate.statistics.intervals import wilson_interval
from roep_gym.evaluate.store.storage import load_dataset

__all__ = ["success_table"]


def success_table(path: Path) -> Table:
    """Return successes, rate, 95 % Wilson interval and failures by reason for every row and condition.

    Args:
        path: The run's Dataset.
    """
    data = load_dataset(path)
    names = data["condition"].values
    table = Table("model", "suite", "task", "condition", "successes", "rate", "95 % interval", "failures", "mean steps",
                  title="Success rates (no claim: one condition shows nothing about recovery)")  # fmt: skip
    for row in range(data.sizes["row"]):
        for code, condition in enumerate(names):
            chosen = (data["row_index"].values == row) & (data["condition_index"].values == code)
            success, reason = data["success"].values[chosen], data["reason"].values[chosen]
            ran = success != NOT_RUN
            count, total = int((success == 1).sum()), int(ran.sum())
            interval = wilson_interval(np.array([count]), np.array([total]))
            failures = ", ".join(
                f"{(reason == i).sum()} {name}" for i, name in enumerate(REASONS) if i and (reason == i).any()
            )
            missing = "" if ran.all() else f" ({(~ran).sum()} not run)"
            table.add_row(
                *(str(data[name].values[row]) for name in ("model", "suite", "task")),
                str(condition),
                f"{count}/{total}{missing}",
                f"{count / total:.3f}" if total else "N/A: no episode ran",
                f"{interval.low[0]:.3f} to {interval.high[0]:.3f}" if total else "N/A",
                failures or "none",
                f"{data['steps'].values[chosen][ran].mean():.0f}" if total else "N/A",
            )
    return table
