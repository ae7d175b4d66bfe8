"""A run opened for reporting: its Dataset, its judgement, and the step and frame files beside them.

`open_run` reads a folder, `Run` answers what a table or figure asks, and says why something is absent.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.judging import claim_table
from roep_gym.evaluate.judging.gate import Judgement, judge
from roep_gym.evaluate.schema import CONDITIONS, NOT_RUN, REASONS
from roep_gym.evaluate.store.storage import load_dataset, read_run
from roep_gym.typing import JSON, Array, IntArray

__all__ = ["EpisodeKey", "Run", "open_run"]


class EpisodeKey(NamedTuple):
    """One recorded episode."""

    row: int
    condition: str
    seed_group: int
    episode: int


@dataclass(frozen=True)
class Run:
    """A run and its judgement.

    Attributes:
        folder: The run's folder.
        data: Its Dataset.
        judgement: What judging it gives.
    """

    folder: Path
    data: xr.Dataset
    judgement: Judgement

    @property
    def native(self) -> bool:
        """Whether the records are our own, not flat tables."""
        return bool(self.data.attrs["records"] == "native")

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.data.sizes["row"])

    @property
    def conditions(self) -> list[str]:
        """Planned conditions, in order."""
        return [str(name) for name in self.data["condition"].values]

    @cached_property
    def provenance(self) -> Mapping[str, JSON]:
        """What the records say about where they come from; empty for flat tables."""
        provenance: Mapping[str, JSON] = json.loads(self.data.attrs.get("provenance", "{}"))
        return provenance

    @property
    def name(self) -> str:
        """Name of the evaluation, or of the folder where the records hold none."""
        return str(self.provenance.get("plan", {}).get("name", self.folder.resolve().name))

    def label(self, row: int) -> tuple[str, str, str]:
        """Return model, suite and task of a row."""
        model, suite, task = (str(self.data[name].values[row]) for name in ("model", "suite", "task"))
        return model, suite, task

    def short(self, row: int) -> str:
        """Return a row's label in one string, without the suite where the task's name is unique."""
        model, suite, task = self.label(row)
        suites = set(self.data["suite"].values[self.data["task"].values == task])
        return f"{model}, {task}" if len(suites) == 1 else f"{model}, {suite}/{task}"

    def not_admitted(self, row: int) -> str:
        """Return why the downstream values of a row are not applicable; empty where the row is admitted."""
        return claim_table.not_applicable(self.judgement, row).removeprefix("N/A: ")

    def at(self, row: int, condition: str) -> IntArray:
        """Return the positions of a row's planned episodes in a condition, in the order of their keys."""
        if condition not in self.conditions:
            return np.empty(0, dtype=np.int64)
        chosen = (self.data["row_index"].values == row) & (
            self.data["condition_index"].values == self.conditions.index(condition)
        )
        return np.flatnonzero(chosen)

    def absent(self, row: int, condition: str) -> str:
        """Return why a condition of a row has no value; empty where an episode was recorded."""
        at = self.at(row, condition)
        if at.size and (self.data["success"].values[at] != NOT_RUN).any():
            return ""
        status = str(self.data["shield_status"].values[row])
        if CONDITIONS[condition].shielded and status != "trained":
            why = str(self.data["shield_reason"].values[row])
            return f"no shield ({status}{': ' if why else ''}{why})"
        return f"{condition!r} " + ("has no recorded episode" if at.size else "is not planned")

    def outcomes(self, row: int, condition: str) -> pd.DataFrame:
        """Return the recorded episodes of a condition: seed_group, episode, reason, steps, intervention_steps."""
        at = self.at(row, condition)
        at = at[self.data["success"].values[at] != NOT_RUN]
        names = {"seed_group": "seed_group", "episode": "episode_index", "steps": "steps",
                 "intervention_steps": "intervention_steps", "refusals": "refusals", "success": "success"}  # fmt: skip
        table = pd.DataFrame({name: self.data[variable].values[at] for name, variable in names.items()})
        table["reason"] = [REASONS[code] for code in self.data["reason"].values[at]]
        return table

    def reason(self, key: EpisodeKey) -> str:
        """Return how a recorded episode ended."""
        table = self.outcomes(key.row, key.condition).set_index(["seed_group", "episode"])
        return str(table["reason"].loc[(key.seed_group, key.episode)])

    def steps_path(self, row: int, condition: str) -> Path:
        """Return where the steps of a condition lie when they are stored."""
        return self.folder / "steps" / f"{row:04d}-{condition}.nc"

    def steps(self, row: int, condition: str) -> Iterator[tuple[EpisodeKey, xr.Dataset]]:
        """Yield the steps of each recorded episode of a condition; nothing where there is no step file."""
        path = self.steps_path(row, condition)
        if not path.exists():
            return
        stored = load_dataset(path)
        ends = np.cumsum(stored["row_size"].values)
        for i, end in enumerate(ends):
            group, episode = (int(stored[name].values[i]) for name in ("seed_group", "episode_index"))
            part = stored.isel(step=slice(int(end - stored["row_size"].values[i]), int(end)), episode=i)
            yield EpisodeKey(row, condition, group, episode), part

    def episode_steps(self, key: EpisodeKey) -> xr.Dataset | None:
        """Return the steps of one episode, None where they are not stored."""
        return next((part for found, part in self.steps(key.row, key.condition) if found == key), None)

    def frames_path(self, key: EpisodeKey) -> Path:
        """Return where the frames of an episode lie when they are stored."""
        name = f"{key.row:04d}-{key.condition}-{key.seed_group}-{key.episode}.npz"
        return self.folder / "frames" / name

    def frames(self, key: EpisodeKey) -> Mapping[str, Array]:
        """Return the stored frames of an episode by name, empty where none are stored."""
        path = self.frames_path(key)
        if not path.exists():
            return {}
        with np.load(path) as stored:
            return {name: stored[name] for name in stored.files}


def open_run(folder: Path, config: GateConfig | None = None) -> Run:
    """Read and judge a run, or a folder of flat tables.

    Raises:
        InvalidInputError: The folder holds no run, or a file is broken.
    """
    data = read_run(folder, config)
    return Run(folder, data, judge(data, config))
