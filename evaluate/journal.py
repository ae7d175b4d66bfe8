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
from collections.abc import Iterator, Mapping
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
                f"Expected a journal at {path}, got {error}; take another output folder."
            ) from error
        if row is None:
            self._write("INSERT INTO plan VALUES (?)", (plan_digest,))
        elif row[0] != plan_digest:
            raise InvalidInputError(
                f"Expected the journal of this plan at {path}, got that of another plan; take another output folder."
            )

    def add(self, planned: PlannedEpisode, record: EpisodeRecord) -> None:
        """Store the record of a finished episode without its frames; when this returns it is on disk.

        Raises:
            RecordConflictError: The episode has a different record already.
            RoepError: The disk is full or the file cannot be written; nothing recorded before is lost.
        """
        digest = record_digest(record)
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
            json.dumps(record.attributes, sort_keys=True),
            _pack(record.steps),
        )
        self._write("INSERT INTO episodes VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)

    def add_abort(self, planned: PlannedEpisode, cause: str, detail: str) -> None:
        """Store an aborted attempt."""
        self._write("INSERT INTO aborts VALUES (?, ?, ?, ?, ?, ?)", (*planned, cause, detail))

    def recorded(self) -> set[PlannedEpisode]:
        """Return the episodes that have a record."""
        query = "SELECT row, condition, seed_group, episode FROM episodes"
        return {PlannedEpisode(*row) for row in self._connection.execute(query)}

    def records(
        self, row: int | None = None, condition: str | None = None
    ) -> Iterator[tuple[PlannedEpisode, EpisodeRecord]]:
        """Yield episodes with their records in the order of row, condition, seed group, episode.

        Args:
            row: Only this row.
            condition: Only this condition.
        """
        query = "SELECT row, condition, seed_group, episode, summary, attributes, steps FROM episodes"
        where = [
            name for name, value in (("row = ?", row), ("condition = ?", condition)) if value is not None
        ]
        if where:
            query += " WHERE " + " AND ".join(where)
        query += " ORDER BY row, condition, seed_group, episode"
        for *key, summary, attributes, steps in self._connection.execute(
            query, [value for value in (row, condition) if value is not None]
        ):
            yield (
                PlannedEpisode(*key),
                EpisodeRecord(
                    summary=json.loads(summary),
                    steps=_unpack(steps),
                    attributes=json.loads(attributes),
                ),
            )

    def aborts(self) -> list[Abort]:
        """Return all aborted attempts in the order of their writing."""
        query = "SELECT row, condition, seed_group, episode, cause, detail FROM aborts ORDER BY rowid"
        return [Abort(PlannedEpisode(*row[:4]), row[4], row[5]) for row in self._connection.execute(query)]

    def close(self) -> None:
        """Close the file; may be called twice."""
        self._connection.close()

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        try:
            self._connection.execute(statement, values)
        except sqlite3.Error as error:
            raise RoepError(
                f"Expected to write to {self._path}, got {error}. What was recorded before is safe; "
                "make room and start the same command again."
            ) from error


def record_digest(record: EpisodeRecord) -> str:
    """Return the digest of everything in a record that two identical episodes share; times are left out."""
    state = hashlib.blake2b(digest_size=16)
    summary = {k: _canonical(v) for k, v in record.summary.items() if k not in _TIMES}
    state.update(json.dumps([summary, record.attributes], sort_keys=True).encode())
    for part in (record.steps, record.frames):
        for name in sorted(part):
            array = np.ascontiguousarray(part[name])
            state.update(f"{name}{array.dtype.str}{array.shape}".encode() + array.tobytes())
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
