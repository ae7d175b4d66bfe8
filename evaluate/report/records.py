"""A run opened for reporting: its Dataset, its judgement, and the step and frame files beside them.

`open_run` reads a folder, `Run` answers what a table or figure asks, and says why something is absent.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
import pandas as pd
import xarray as xr

from roep_gym.error import InvalidInputError, RoepError
from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.judging.gate import Judgement, judge
from roep_gym.evaluate.judging.verdict_document import not_applicable
from roep_gym.evaluate.schema import CONDITIONS, NOT_RUN, REASONS
from roep_gym.evaluate.store.storage import load_dataset, read_run
from roep_gym.typing import JSON, Array, IntArray

__all__ = ["Channels", "DamagedFileError", "EpisodeKey", "Run", "Steps", "open_run"]


class EpisodeKey(NamedTuple):
    """One recorded episode."""

    row: int
    condition: str
    seed_group: int
    episode: int


_UNREADABLE = (OSError, ValueError, EOFError, KeyError, NotImplementedError, BadZipFile, zlib.error)
"""What NumPy raises for a damaged file."""
Steps = Mapping[Hashable, xr.DataArray]
"""The steps of one episode: variables along `step` by name."""


class DamagedFileError(RoepError):
    """A file of steps or frames cannot be read; what is made of it is left out."""


class Channels(NamedTuple):
    """Where unsafe attempts were looked for.

    Attributes:
        names: The active channels; empty where none was recorded by its name.
        sentence: The same in words.
    """

    names: str
    sentence: str


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
        return not_applicable(self.judgement, row)

    def at(self, row: int, condition: str) -> IntArray:
        """Return the positions of a row's planned episodes in a condition, in the order of their keys."""
        return self._planned.get((row, condition), np.empty(0, dtype=np.int64))

    @cached_property
    def _planned(self) -> Mapping[tuple[int, str], IntArray]:
        keys = ["row_index", "condition_index"]
        places = pd.DataFrame({name: self.data[name].values for name in keys}).groupby(keys).indices
        return {
            (int(row), self.conditions[k]): np.asarray(at, dtype=np.int64) for (row, k), at in places.items()
        }

    def recorded(self, row: int, condition: str) -> IntArray:
        """Return the positions of a row's recorded episodes in a condition, in the order of their keys."""
        at = self.at(row, condition)
        ran: IntArray = at[self.data["success"].values[at] != NOT_RUN]
        return ran

    def unavailable(self, row: int, condition: str) -> bool:
        """Return whether a condition needs a shield that the row does not have."""
        return CONDITIONS[condition].shielded and str(self.data["shield_status"].values[row]) != "trained"

    def no_shield(self, row: int) -> str:
        """Return why a row has no shield, for a row that has none."""
        status, why = (str(self.data[name].values[row]) for name in ("shield_status", "shield_reason"))
        return f"no shield ({status}{': ' if why else ''}{why})"

    def absent(self, row: int, condition: str) -> str:
        """Return why a condition of a row has no value; empty where an episode was recorded."""
        if self.recorded(row, condition).size:
            return ""
        if self.unavailable(row, condition):
            return self.no_shield(row)
        planned = self.at(row, condition).size
        return f"{condition!r} " + ("has no recorded episode" if planned else "is not planned")

    def first_absent(self, row: int, conditions: Sequence[str]) -> str:
        """Return why the first of some conditions that has no value has none; empty where all have one."""
        return next(filter(None, (self.absent(row, condition) for condition in conditions)), "")

    def channels(self, at: IntArray | None = None) -> Channels:
        """Return the channels on which unsafe attempts were observed, in all episodes or at some positions."""
        chosen = slice(None) if at is None else at
        attempts = self.data["unsafe_channel_attempts"].values[chosen]
        names = ", ".join(map(str, self.data["unsafe_channel"].values[(attempts >= 0).any(axis=0)]))
        if names:
            sentence = f"{names}; nothing was observed under the others, which is not the same as safe."
        elif (self.data["unsafe_attempts"].values[chosen] >= 0).any():
            sentence = "not recorded one by one; attempts are counted."
        else:
            sentence = "none: unsafe attempts were not observed."
        return Channels(names, sentence)

    def outcomes(self, row: int, condition: str) -> pd.DataFrame:
        """Return the recorded episodes of a condition: seed_group, episode, reason, steps, intervention_steps."""
        at = self.recorded(row, condition)
        names = ("seed_group", "episode_index", "steps", "intervention_steps", "refusals", "success")
        table = pd.DataFrame({name: self.data[name].values[at] for name in names})
        table["reason"] = [REASONS[code] for code in self.data["reason"].values[at]]
        return table.rename(columns={"episode_index": "episode"})

    def reason(self, key: EpisodeKey) -> str:
        """Return how a recorded episode ended."""
        table = self.outcomes(key.row, key.condition).set_index(["seed_group", "episode"])
        return str(table["reason"].loc[(key.seed_group, key.episode)])

    def steps_path(self, row: int, condition: str) -> Path:
        """Return where the steps of a condition lie when they are stored."""
        return self.folder / "steps" / f"{row:04d}-{condition}.nc"

    def steps(self, row: int, condition: str) -> Iterator[tuple[EpisodeKey, Steps]]:
        """Yield the steps of each recorded episode of a condition; nothing where there is no step file.

        Raises:
            DamagedFileError: The file cannot be read.
        """
        path = self.steps_path(row, condition)
        if not path.exists():
            return
        try:
            stored = load_dataset(path)
        except InvalidInputError as error:
            raise _damaged(path) from error
        ends = np.cumsum(stored["row_size"].values)
        for i, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
            group, episode = (int(stored[name].values[i]) for name in ("seed_group", "episode_index"))
            part = stored.isel(step=slice(int(start), int(end)), episode=i)
            yield EpisodeKey(row, condition, group, episode), part

    def episode_steps(self, key: EpisodeKey) -> Steps | None:
        """Return the steps of one episode, None where they are not stored."""
        return next((part for found, part in self.steps(key.row, key.condition) if found == key), None)

    def frames_path(self, key: EpisodeKey) -> Path:
        """Return where the frames of an episode lie when they are stored."""
        name = f"{key.row:04d}-{key.condition}-{key.seed_group}-{key.episode}.npz"
        return self.folder / "frames" / name

    def frames(self, key: EpisodeKey) -> Mapping[str, Array]:
        """Return the stored frames of an episode by name, empty where none are stored.

        Raises:
            DamagedFileError: The file cannot be read.
        """
        path = self.frames_path(key)
        if not path.exists():
            return {}
        try:
            with np.load(path) as stored:
                frames: dict[str, Array] = {name: stored[name] for name in stored.files}
        except _UNREADABLE as error:
            raise _damaged(path) from error
        if any(len(frames.get("step", ())) != len(values) for values in frames.values()):
            raise _damaged(path)
        return frames


def _damaged(path: Path) -> DamagedFileError:
    return DamagedFileError(f"{path.name} is damaged; re-run the same command to make it again")


def open_run(folder: Path, config: GateConfig | None = None) -> Run:
    """Read and judge a run, or a folder of flat tables.

    Raises:
        InvalidInputError: The folder holds no run, or a file is broken.
    """
    data = read_run(folder, config)
    return Run(folder, data, judge(data, config))
