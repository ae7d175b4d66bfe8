"""The journal of a run: every finished episode, written once, durable before it counts.

One SQLite file with one writer, the driver. The episode key is unique; writing the same record again changes
nothing, writing another one is a conflict. Aborted attempts are kept beside the episodes, they are not outcomes.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import sqlite3
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from roep_gym.error import InvalidInputError, RecordConflictError, RoepError
from roep_gym.evaluate.plan import PlannedEpisode
from roep_gym.record import EpisodeRecord
from roep_gym.typing import Array

__all__ = ["Abort", "Journal", "record_digest"]

_TIMES = ("wall_time", "policy_latency")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS plan (digest TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS episodes (
    row INTEGER, condition TEXT, seed_group INTEGER, episode INTEGER,
    digest TEXT NOT NULL, summary TEXT NOT NULL, attributes TEXT NOT NULL, steps BLOB NOT NULL,
    PRIMARY KEY (row, condition, seed_group, episode)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS aborts (
    row INTEGER, condition TEXT, seed_group INTEGER, episode INTEGER, cause TEXT NOT NULL, detail TEXT NOT NULL
);
"""


class Abort(NamedTuple):
    """One attempt that an infrastructure failure ended."""

    planned: PlannedEpisode
    cause: str
    detail: str


class Journal:
    """The durable record of a run.

    Args:
        path: The SQLite file; made when missing.
        plan_digest: Digest of the plan; a journal belongs to one plan.

    Raises:
        InvalidInputError: The file is no journal, or belongs to another plan.
    """

    def __init__(self, path: Path, plan_digest: str) -> None:
        self._path = path
        try:
            self._connection = sqlite3.connect(path, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.executescript(_SCHEMA)
            row = self._connection.execute("SELECT digest FROM plan").fetchone()
        except sqlite3.Error as error:
            raise InvalidInputError(
                f"Expected a journal that can be written at {path}, got: {error}. Restore it or make it writable, or "
                "take another output folder."
            ) from error
        if row is None:
            self._write("INSERT INTO plan VALUES (?)", (plan_digest,))
        elif row[0] != plan_digest:
            raise InvalidInputError(
                f"Expected the journal of this plan at {path}, got that of another plan; restore the plan that the run "
                "was begun with, or take another output folder."
            )

    def add(self, planned: PlannedEpisode, record: EpisodeRecord) -> None:
        """Store the record of a finished episode without its frames; when this returns it is on disk.

        Raises:
            RecordConflictError: The episode has a different record already.
            RoepError: The disk is full or the file cannot be written; nothing recorded before is lost.
        """
        attributes = {**record.attributes, "frames": _arrays_digest(record.frames) if record.frames else ""}
        digest = record_digest(record.summary, attributes, record.steps)
        known = self._connection.execute(
            "SELECT digest FROM episodes WHERE row=? AND condition=? AND seed_group=? AND episode=?", planned
        ).fetchone()
        if known is not None:
            if known[0] != digest:
                raise RecordConflictError(
                    f"Expected one record of {planned}, got two that differ; the episode is not reproducible here."
                )
            return
        values = (
            *planned,
            digest,
            json.dumps(record.summary, sort_keys=True),
            json.dumps(attributes, sort_keys=True),
            _pack(record.steps),
        )
        self._write("INSERT INTO episodes VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)

    def add_abort(self, planned: PlannedEpisode, cause: str, detail: str) -> None:
        """Store an aborted attempt."""
        texts = [text.encode(errors="backslashreplace").decode() for text in (cause, detail)]
        self._write("INSERT INTO aborts VALUES (?, ?, ?, ?, ?, ?)", (*planned, *texts))

    def recorded(self) -> set[PlannedEpisode]:
        """Return the episodes that have a record."""
        return {
            PlannedEpisode(*row)
            for row in self._read("SELECT row, condition, seed_group, episode FROM episodes")
        }

    def with_frames(self) -> set[PlannedEpisode]:
        """Return the episodes that stored frames."""
        where = "json_extract(attributes, '$.frames') != ''"
        query = f"SELECT row, condition, seed_group, episode FROM episodes WHERE {where}"
        return {PlannedEpisode(*row) for row in self._read(query)}

    def records(
        self, row: int | None = None, condition: str | None = None
    ) -> Iterator[tuple[PlannedEpisode, EpisodeRecord]]:
        """Yield episodes with their records in the order of row, condition, seed group, episode.

        Args:
            row: Only this row.
            condition: Only this condition.

        Raises:
            InvalidInputError: The file is damaged, or a record is not what was written.
        """
        query = "SELECT row, condition, seed_group, episode, digest, summary, attributes, steps FROM episodes"
        where = [
            name for name, value in (("row = ?", row), ("condition = ?", condition)) if value is not None
        ]
        if where:
            query += " WHERE " + " AND ".join(where)
        query += " ORDER BY row, condition, seed_group, episode"
        for *key, digest, summary, attributes, steps in self._read(
            query, [value for value in (row, condition) if value is not None]
        ):
            planned = PlannedEpisode(*key)
            try:
                record = EpisodeRecord(json.loads(summary), _unpack(steps), attributes=json.loads(attributes))
                sound = record_digest(record.summary, record.attributes, record.steps) == digest
            except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
                raise InvalidInputError(self._damaged(planned)) from error
            if not sound:
                raise InvalidInputError(self._damaged(planned))
            yield planned, record

    def aborts(self) -> list[Abort]:
        """Return all aborted attempts in the order of their writing."""
        query = "SELECT row, condition, seed_group, episode, cause, detail FROM aborts ORDER BY rowid"
        return [Abort(PlannedEpisode(*row[:4]), row[4], row[5]) for row in self._read(query)]

    def close(self) -> None:
        """Close the file; may be called twice."""
        self._connection.close()

    def _damaged(self, planned: PlannedEpisode) -> str:
        return (
            f"Expected the record of {planned} in {self._path} as it was written, but it was changed or damaged since; "
            "restore the journal from a copy, or run into another output folder."
        )

    def _read(self, query: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        try:
            yield from self._connection.execute(query, values)
        except sqlite3.Error as error:
            raise InvalidInputError(
                f"Expected a readable journal at {self._path}, got: {error}. Restore it from a copy, or run into "
                "another output folder."
            ) from error

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        try:
            self._connection.execute(statement, values)
        except sqlite3.Error as error:
            raise RoepError(
                f"Expected to write to {self._path}, got {error}. What was recorded before is safe; "
                "make room and start the same command again."
            ) from error


def record_digest(
    summary: Mapping[str, Any], attributes: Mapping[str, Any], steps: Mapping[str, Array]
) -> str:
    """Return the digest of what two identical episodes share; times are left out."""
    compared = {k: _canonical(v) for k, v in summary.items() if k not in _TIMES}
    text = json.dumps([compared, attributes], sort_keys=True) + _arrays_digest(steps)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _arrays_digest(arrays: Mapping[str, Array]) -> str:
    state = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        state.update(f"{name}\0{array.dtype.str}\0{array.shape}\0".encode() + array.tobytes())
    return state.hexdigest()


def _canonical(value: Any) -> Any:
    return "nan" if isinstance(value, float) and math.isnan(value) else value


def _pack(arrays: Mapping[str, Array]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{name: arrays[name] for name in sorted(arrays)})  # type: ignore[arg-type]
    return buffer.getvalue()


def _unpack(blob: bytes) -> dict[str, Array]:
    with np.load(io.BytesIO(blob), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
