"""The journal: what is stored comes back, records that arrive together are stored together, damage is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roep_gym.episode import EpisodeIdentity
from roep_gym.episode_record import UNSAFE_CHANNELS, EpisodeAttributes, EpisodeRecord, EpisodeSummary
from roep_gym.error import InvalidInputError, RecordConflictError, RoepError
from roep_gym.evaluate.plan import PlannedEpisode
from roep_gym.evaluate.store.journal import Abort, Journal, recorded_times
from roep_gym.evaluate.store.packed_record import PackedRecord, pack_record


def record(steps: int = 3, **summary: Any) -> EpisodeRecord:
    counts = dict.fromkeys((f.name for f in fields(EpisodeSummary)), 0)
    return EpisodeRecord(
        EpisodeSummary(
            **{
                **counts,
                "reason": "success",
                "steps": steps,
                "max_abs_action": float("nan"),
                "unsafe_channel_attempts": dict.fromkeys(UNSAFE_CHANNELS, -1),
                "wall_time": 1.0,
                **summary,
            }
        ),
        EpisodeAttributes(
            episode=EpisodeIdentity("run", 0, 1, scene_seed=3),
            instruction="do it",
            profile={"name": "clean", "operators": []},
            proprio=("x", "y"),
            image_keys=(),
            depth_keys=(),
            unsafe_channels=UNSAFE_CHANNELS,
            shield_reasons=("above", "below"),
            projections=("none",),
        ),
        {
            "proposed_action": np.arange(steps * 7, dtype=np.float32).reshape(steps, 7),
            "risk": np.full(steps, np.nan),
            "unsafe": np.zeros((steps, 5), dtype=np.int8),
            "patch": np.zeros((steps, 0, 3), dtype=np.int32),
        },
    )


def planned(episode: int) -> PlannedEpisode:
    return PlannedEpisode(0, "baseline", 0, episode)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with closing(Journal(tmp_path / "journal.sqlite", "plan")) as opened:
        yield opened


@pytest.mark.parametrize("steps", [0, 1, 280])
def test_a_record_comes_back_as_it_was(journal: Journal, steps: int) -> None:
    given = record(steps)
    journal.add_all([(planned(0), pack_record(given))])
    ((key, stored),) = journal.records()
    assert key == planned(0)
    assert pack_record(stored).summary == pack_record(given).summary
    assert stored.attributes == given.attributes
    assert stored.steps.keys() == given.steps.keys()
    for name, values in given.steps.items():
        assert stored.steps[name].dtype == values.dtype
        np.testing.assert_array_equal(stored.steps[name], values)


def test_what_is_added_is_visible_to_another_reader_at_once(journal: Journal, tmp_path: Path) -> None:
    journal.add_all([(planned(k), pack_record(record())) for k in range(5)])
    with closing(sqlite3.connect(f"file:{tmp_path / 'journal.sqlite'}?mode=ro", uri=True)) as reader:
        assert reader.execute("SELECT count(*) FROM episodes").fetchone() == (5,)
    assert journal.recorded() == {planned(k) for k in range(5)}


def test_a_conflict_costs_none_of_the_records_beside_it(journal: Journal) -> None:
    journal.add_all([(planned(1), pack_record(record(4)))])
    with pytest.raises(RecordConflictError, match=r"Expected one record of .*episode=1\), got two"):
        journal.add_all([(planned(k), pack_record(record())) for k in range(3)])
    assert [stored.summary.steps for _, stored in journal.records()] == [3, 4, 3]


def test_an_interrupted_batch_leaves_nothing_and_the_journal_goes_on(journal: Journal) -> None:
    def arriving() -> Iterator[tuple[PlannedEpisode, PackedRecord]]:
        yield planned(0), pack_record(record())
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        journal.add_all(arriving())
    assert journal.recorded() == set()
    journal.add_all([(planned(0), pack_record(record()))])
    journal.add_abort(planned(1), "it broke", "here")
    assert journal.recorded() == {planned(0)}
    assert journal.aborts() == [Abort(planned(1), "it broke", "here")]


def test_a_full_disk_is_named_and_costs_nothing_recorded_before(journal: Journal) -> None:
    journal.add_all([(planned(0), pack_record(record()))])
    journal._connection.execute("PRAGMA max_page_count = 20")
    with pytest.raises(RoepError, match=r"disk is full\. What was recorded before is safe"):
        journal.add_all([(planned(k), pack_record(record(280))) for k in range(1, 200)])
    assert journal.recorded() == {planned(0)}


def test_times_make_no_other_record_and_anything_else_does(journal: Journal) -> None:
    journal.add_all([(planned(0), pack_record(record()))])
    journal.add_all([(planned(0), pack_record(record(wall_time=99.0)))])
    for other in (
        record(reason="timeout"),
        replace(record(), attributes=replace(record().attributes, instruction="another")),
    ):
        with pytest.raises(RecordConflictError):
            journal.add_all([(planned(0), pack_record(other))])


@pytest.mark.parametrize(
    "column", ["digest", "summary", "attributes", "steps", "episode", "condition", "checksum"]
)
def test_a_changed_record_is_refused(journal: Journal, column: str) -> None:
    journal.add_all([(planned(0), pack_record(record()))])
    other = vars(pack_record(record(5))) | {"episode": 1, "condition": "full", "checksum": ""}
    other["attributes"] = "{}"
    journal._connection.execute(f"UPDATE episodes SET {column} = ?", (other[column],))
    with pytest.raises(InvalidInputError, match="changed or damaged since"):
        list(journal.records())


def test_records_under_each_others_key_are_refused(journal: Journal) -> None:
    for episode in (0, 1):
        journal.add_all([(planned(episode), pack_record(record(3 + episode)))])
    for before, after in ((0, 9), (1, 0), (9, 1)):
        journal._connection.execute("UPDATE episodes SET episode = ? WHERE episode = ?", (after, before))
    assert journal.recorded() == {planned(0), planned(1)}
    with pytest.raises(InvalidInputError, match="changed or damaged since"):
        list(journal.records())


def test_the_times_of_recorded_episodes_are_read_of_the_own_plan_alone(tmp_path: Path) -> None:
    file = tmp_path / "journal.sqlite"
    assert recorded_times(file, "plan") == {}
    with closing(Journal(file, "plan")) as made:
        for episode in (0, 1):
            made.add_all([(planned(episode), pack_record(record(wall_time=1.5 + episode)))])
        assert recorded_times(file, "plan") == {planned(0): 1.5, planned(1): 2.5}
        assert recorded_times(file, "another") == {}
        made._connection.execute("UPDATE episodes SET summary = '{'")
    with pytest.raises(RoepError, match="Expected a journal at"):
        recorded_times(file, "plan")


def test_a_changed_abort_is_refused_and_a_huge_message_is_cut(journal: Journal) -> None:
    journal.add_abort(planned(0), "cause", "x" * 50_000_000)
    assert len(journal.aborts()[0].detail) < 5000
    journal._connection.execute("UPDATE aborts SET episode = 1")
    with pytest.raises(InvalidInputError, match="changed or damaged since"):
        journal.aborts()


def test_a_flipped_bit_in_the_file_changes_nothing_or_is_refused(tmp_path: Path) -> None:
    file, refused = tmp_path / "journal.sqlite", 0
    with closing(Journal(file, "plan")) as made:
        made.add_all([(planned(k), pack_record(record(40 + k))) for k in range(6)])
        made.add_abort(planned(0), "cause", "detail")
    content = file.read_bytes()
    for position in range(0, len(content), max(len(content) // 300, 1)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        for leftover in tmp_path.iterdir():
            leftover.unlink()
        file.write_bytes(damaged)
        try:
            with closing(Journal(file, "plan")) as back:
                found = {p: pack_record(r) for p, r in back.records()}
                assert all(pack_record(record(40 + p.episode)) == packed for p, packed in found.items())
                assert len(found) == 6
                assert back.aborts() == [Abort(planned(0), "cause", "detail")]
        except RoepError:
            refused += 1
    assert refused > 30


def test_a_journal_of_another_format_is_refused(tmp_path: Path) -> None:
    Journal(tmp_path / "journal.sqlite", "plan").close()
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as other:
        other.execute("PRAGMA user_version = 7")
    with pytest.raises(
        InvalidInputError, match=r"Expected a journal of format 3 at .*, got 7, which another"
    ):
        Journal(tmp_path / "journal.sqlite", "plan")
