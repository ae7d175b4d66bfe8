"""The journal of a run: every finished episode, written once, durable before it counts.

One SQLite file with one writer, the driver. The episode key is unique; writing the same record again changes
nothing, writing another one is a conflict. Records that arrive together are written in one transaction, since each
costs a wait for the disk. Aborted attempts are kept beside the episodes, they are not outcomes.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from roep_gym.episode_record import EpisodeRecord
from roep_gym.error import InvalidInputError, RecordConflictError, RoepError, bounded
from roep_gym.evaluate.plan import PlannedEpisode
from roep_gym.evaluate.store.packed_record import PackedRecord, unpack_record

__all__ = ["Abort", "Journal", "recorded_times"]

_FORMAT = 3
# The episodes lie in the order of their writing; their key is an index, which `recorded` reads without them.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS plan (digest TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS episodes (
    row INTEGER, condition TEXT, seed_group INTEGER, episode INTEGER,
    digest TEXT NOT NULL, summary TEXT NOT NULL, attributes TEXT NOT NULL, steps BLOB NOT NULL,
    checksum TEXT NOT NULL,
    PRIMARY KEY (row, condition, seed_group, episode)
);
CREATE TABLE IF NOT EXISTS aborts (
    row INTEGER, condition TEXT, seed_group INTEGER, episode INTEGER, cause TEXT NOT NULL, detail TEXT NOT NULL,
    checksum TEXT NOT NULL
);
"""
_KEYS = "SELECT row, condition, seed_group, episode FROM episodes"


class Abort(NamedTuple):
    """One attempt that an infrastructure failure ended."""

    planned: PlannedEpisode
    cause: str
    detail: str


class Journal:
    """The durable record of one plan, by its digest, in a SQLite file that is made when missing.

    Raises:
        InvalidInputError: The file is no journal, has another format, or belongs to another plan.
    """

    def __init__(self, path: Path, plan_digest: str) -> None:
        self._path = path
        try:
            self._connection = sqlite3.connect(path, isolation_level=None)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")
            self._connection.executescript(_SCHEMA)
            row = self._connection.execute("SELECT digest FROM plan").fetchone()
            (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        except sqlite3.Error as error:
            raise InvalidInputError(
                f"Expected a journal that can be written at {path}, got: {error}. Restore it or make it writable, or "
                "take another output folder."
            ) from error
        if row is None:
            with self._writing() as connection:
                connection.execute("INSERT INTO plan VALUES (?)", (plan_digest,))
                connection.execute(f"PRAGMA user_version = {_FORMAT}")
        elif version != _FORMAT:
            raise InvalidInputError(
                f"Expected a journal of format {_FORMAT} at {path}, got {version}, which another version of roep-gym "
                "wrote: its Dataset can still be judged, but the run can only go on with that version; take another "
                "output folder."
            )
        elif row[0] != plan_digest:
            raise InvalidInputError(
                f"Expected the journal of this plan at {path}, got that of another plan; restore the plan that the run "
                "was begun with, or take another output folder."
            )

    def add_all(self, finished: Iterable[tuple[PlannedEpisode, PackedRecord]]) -> None:
        """Store the records of finished episodes without their frames; when this returns they are on disk.

        Raises:
            RecordConflictError: An episode has a different record already; the others are stored.
            RoepError: The disk is full or the file cannot be written; nothing recorded before is lost.
        """
        conflict: PlannedEpisode | None = None
        with self._writing() as connection:
            for planned, record in finished:
                known = connection.execute(
                    "SELECT digest FROM episodes WHERE row=? AND condition=? AND seed_group=? AND episode=?",
                    planned,
                ).fetchone()
                if known is None:
                    connection.execute(
                        "INSERT INTO episodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                        _signed(*planned, record.digest, record.summary, record.attributes, record.steps),
                    )
                elif known[0] != record.digest:
                    conflict = conflict or planned
        if conflict is not None:
            raise RecordConflictError(
                f"Expected one record of {conflict}, got two that differ; the episode is not reproducible here."
            )

    def add_abort(self, planned: PlannedEpisode, cause: str, detail: str) -> None:
        """Store an aborted attempt."""
        texts = [bounded(text).encode(errors="backslashreplace").decode() for text in (cause, detail)]
        with self._writing() as connection:
            connection.execute("INSERT INTO aborts VALUES (?, ?, ?, ?, ?, ?, ?)", _signed(*planned, *texts))

    def recorded(self) -> set[PlannedEpisode]:
        """Return the episodes that have a record."""
        return {PlannedEpisode(*key) for key in self._read(_KEYS)}

    def with_frames(self) -> set[PlannedEpisode]:
        """Return the episodes that stored frames."""
        with_digest = f"{_KEYS} WHERE json_extract(attributes, '$.frames_digest') != ''"
        return {PlannedEpisode(*key) for key in self._read(with_digest)}

    def records(
        self, row: int | None = None, condition: str | None = None
    ) -> Iterator[tuple[PlannedEpisode, EpisodeRecord]]:
        """Yield episodes, or those of a row and condition, with their records in the order of their keys.

        Raises:
            InvalidInputError: The file is damaged, or a record is not what was written.
        """
        values: tuple[Any, ...] = () if row is None else (row, condition)
        where = "WHERE row = ? AND condition = ?" if values else ""
        query = f"SELECT * FROM episodes {where} ORDER BY row, condition, seed_group, episode"
        for entry in self._read(query, values):
            self._check(entry)
            yield PlannedEpisode(*entry[:4]), unpack_record(*entry[5:8])

    def aborts(self) -> list[Abort]:
        """Return all aborted attempts in the order of their writing."""
        entries = list(self._read("SELECT * FROM aborts ORDER BY rowid"))
        for entry in entries:
            self._check(entry)
        return [Abort(PlannedEpisode(*entry[:4]), *entry[4:6]) for entry in entries]

    def close(self) -> None:
        """Close the file; may be called twice."""
        self._connection.close()

    def _read(self, query: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        try:
            yield from self._connection.execute(query, values)
        except sqlite3.Error as error:
            raise InvalidInputError(
                f"Expected a readable journal at {self._path}, got: {error}. Restore it from a copy, or run into "
                "another output folder."
            ) from error

    def _check(self, entry: tuple[Any, ...]) -> None:
        """Refuse an entry that is not what was written under its key."""
        if _signed(*entry[:-1]) != entry:
            raise InvalidInputError(
                f"Expected the entry of {entry[:4]} in {self._path} as it was written, but it was changed or damaged "
                "since; restore the journal from a copy, or run into another output folder."
            )

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Write everything that the body writes, or nothing where it is interrupted."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.rollback()
                raise
            self._connection.commit()
        except sqlite3.Error as error:
            raise RoepError(
                f"Expected to write to {self._path}, got {error}. What was recorded before is safe; "
                "make room and start the same command again."
            ) from error


def _signed(*entry: Any) -> tuple[Any, ...]:
    """Return an entry, its key included, with its checksum."""
    state = hashlib.blake2b(digest_size=16)
    for part in entry:
        body = part if isinstance(part, bytes) else str(part).encode()
        state.update(f"{type(part).__name__} {len(body)} ".encode() + body)
    return (*entry, state.hexdigest())


def recorded_times(path: Path, plan_digest: str) -> dict[PlannedEpisode, float]:
    """Return the wall time of each episode that a journal holds of a plan; the file is only read."""
    if not path.exists():
        return {}
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            own = connection.execute("SELECT digest FROM plan").fetchall() == [(plan_digest,)]
            # Not by SQLite's JSON, which knows no NaN.
            query = "SELECT row, condition, seed_group, episode, summary FROM episodes"
            entries = connection.execute(query) if own else ()
            return {PlannedEpisode(*key): float(json.loads(text)["wall_time"]) for *key, text in entries}
    except (sqlite3.Error, ValueError, LookupError, TypeError) as error:
        raise RoepError(
            f"Expected a journal at {path}, got {error}; choose another output folder."
        ) from error
