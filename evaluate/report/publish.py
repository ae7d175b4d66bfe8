"""A run small enough to publish: its records, and of steps and frames what the report reads.

`publish_run` makes the report once and notes which arrays of which files it reads, so that a new figure needs no line
here. The report of the published folder has the same figures and tables.
"""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
import xarray as xr

from roep_gym.atomic_file import new_folder, write_atomically
from roep_gym.error import InvalidInputError
from roep_gym.evaluate.report.figures import draw_figures
from roep_gym.evaluate.report.html import report_page
from roep_gym.evaluate.report.records import EpisodeKey, Run, Steps
from roep_gym.evaluate.report.tables import make_tables
from roep_gym.evaluate.store.storage import load_dataset, save_dataset, write_records
from roep_gym.typing import Array

__all__ = ["MAX_MEGABYTES", "Published", "publish_run"]

MAX_MEGABYTES = 20.0
_PARTS = ("steps", "frames")
_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class Published:
    """What `publish_run` wrote.

    Attributes:
        folder: The new folder.
        megabytes: Its size in units of 10^6 bytes.
        left_out: What of the run it lacks, a sentence for each kind of file.
    """

    folder: Path
    megabytes: float
    left_out: tuple[str, ...]


def publish_run(run: Run, out: Path | str, *, max_megabytes: float = MAX_MEGABYTES) -> Published:
    """Write a folder with the records of a run and what its report reads of steps and frames.

    The folder can be judged, compared and reported, not continued or exported.

    Args:
        run: The run; flat tables have neither steps nor frames.
        out: The new folder, which must not exist.
        max_megabytes: Largest size of the folder, in units of 10^6 bytes.

    Raises:
        InvalidInputError: `out` exists, or the folder would be larger.
        DamagedFileError: A file that the report reads cannot be read.
        RoepError: The folder cannot be written.
    """
    noting = _NotingRun(run.folder, run.data, run.judgement)
    report_page(noting, make_tables(noting), draw_figures(noting), run.folder)
    left_out = _left_out(noting)
    provenance = {**run.provenance, "published": [*run.provenance.get("published", ()), *left_out]}
    out = Path(out)
    with new_folder(out) as temporary:
        write_records(run.data.assign_attrs(provenance=json.dumps(provenance, sort_keys=True)), temporary)
        for (row, condition), names in noting.steps_read.items():
            path = run.steps_path(row, condition)
            # By "row_size" steps are divided into episodes; below, frames belong to a "step".
            kept = load_dataset(path)[["row_size", *sorted(names - {"row_size"})]]
            save_dataset(kept, temporary / "steps" / path.name, compress=True)
        for key, names in noting.frames_read.items():
            buffer, frames = io.BytesIO(), run.frames(key)
            np.savez_compressed(buffer, **{n: frames[n] for n in sorted({"step", *names})})  # type: ignore[arg-type]
            write_atomically(temporary / "frames" / run.frames_path(key).name, buffer.getvalue())
        megabytes = _megabytes(temporary)
        if megabytes > max_megabytes:
            sizes = ", ".join(f"{name} {_megabytes(temporary / name):.1f}" for name in _PARTS)
            raise InvalidInputError(
                f"Expected at most {max_megabytes:g} MB, but what the report of {run.folder} reads takes "
                f"{megabytes:.1f} MB ({sizes}); allow more megabytes, or publish a run of fewer rows."
            )
    return Published(out, megabytes, tuple(left_out))


class _Noting(Mapping[_Key, _Value]):
    """A mapping that notes which of its entries are asked for."""

    def __init__(self, content: Mapping[_Key, _Value], noted: set[str]) -> None:
        self._content, self._noted = content, noted

    def __getitem__(self, name: _Key) -> _Value:
        value = self._content[name]
        self._noted.add(str(name))
        return value

    def __iter__(self) -> Iterator[_Key]:
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)


@dataclass(frozen=True)
class _NotingRun(Run):
    """A run that notes the names of the arrays that are read of its steps and frames, by file."""

    steps_read: dict[tuple[int, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    frames_read: dict[EpisodeKey, set[str]] = field(default_factory=lambda: defaultdict(set))

    def steps(self, row: int, condition: str) -> Iterator[tuple[EpisodeKey, Steps]]:
        if not self.steps_path(row, condition).exists():
            return
        noted = self.steps_read[row, condition]  # a damaged file is noted too, and refused later
        for key, part in super().steps(row, condition):
            yield key, _Noting[Hashable, xr.DataArray](part, noted)

    def frames(self, key: EpisodeKey) -> Mapping[str, Array]:
        if not self.frames_path(key).exists():
            return {}
        noted = self.frames_read[key]
        return _Noting(super().frames(key), noted)


def _left_out(run: _NotingRun) -> list[str]:
    """Return what is not published, a sentence for each kind of file that the run has."""
    sentences = []
    for part, kept in zip(_PARTS, (len(run.steps_read), len(run.frames_read)), strict=True):
        stored = len(list((run.folder / part).glob("*")))
        if stored:
            sentences.append(
                f"{kept} of {stored} files of {part}, with the arrays that the report reads "
                f"(all of them take {_megabytes(run.folder / part):.1f} MB)"
            )
    return sentences


def _megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
