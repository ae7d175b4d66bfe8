"""Damage of what a run stores is an error, or it changes nothing."""

from __future__ import annotations

from pathlib import Path

import h5py
import pytest
import xarray as xr
from judging_data import evaluation

from roep_gym.atomic_file import new_folder, sweep, temporary_path
from roep_gym.error import InvalidInputError
from roep_gym.evaluate.plan import EvaluationPlan, ModelSpec, resolve
from roep_gym.evaluate.store.row_shield import RowShield, load_row_shield, save_row_shield
from roep_gym.evaluate.store.run_directory import RunDirectory
from roep_gym.evaluate.store.storage import load_dataset, save_dataset

TASKS = ("tabletop/carry", "tabletop/reach")
PLAN = resolve(EvaluationPlan(models=(ModelSpec("m", "random"),), tasks=TASKS, conditions=("quick",)))
SHIELD = RowShield(
    "trained", "", "abc.npz", "abc", 0.25, {"counts": {"risk": 3}, "tau": 0.25, "names": ["a"]}
)


def flipped(content: bytes, position: int, bit: int) -> bytes:
    damaged = bytearray(content)
    damaged[position] ^= 1 << bit
    return bytes(damaged)


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_in_the_outcome_of_a_shield_changes_nothing_or_is_refused(
    tmp_path: Path, bit: int
) -> None:
    run, row = RunDirectory(tmp_path), PLAN.rows[0]
    save_row_shield(run, row, SHIELD)
    file, refused = run.shields / "0.json", 0
    content = file.read_bytes()
    for position in range(len(content)):
        file.write_bytes(flipped(content, position, bit))
        try:
            assert load_row_shield(run, row) == SHIELD
        except InvalidInputError as error:
            refused += "the same command trains the same shield again" in str(error)
    # White space between values may become other white space.
    assert refused > 0.9 * len(content)


def test_the_outcome_of_another_row_is_refused(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    save_row_shield(run, PLAN.rows[0], SHIELD)
    (run.shields / "0.json").rename(run.shields / "1.json")
    with pytest.raises(InvalidInputError, match="changed or damaged since"):
        load_row_shield(run, PLAN.rows[1])


def test_a_flipped_bit_in_a_dataset_changes_nothing_or_is_refused(tmp_path: Path) -> None:
    data, file, refused = evaluation(records="native"), tmp_path / "episodes.nc", 0
    save_dataset(data, file)
    content = file.read_bytes()
    positions = range(0, len(content), len(content) // 60)
    for position in positions:
        file.write_bytes(flipped(content, position, position % 8))
        try:
            back = load_dataset(file)
        except InvalidInputError:
            refused += 1
            continue
        xr.testing.assert_equal(back, data)
        assert {name: back.attrs.get(name) for name in data.attrs} == data.attrs
    assert refused > 6


@pytest.mark.parametrize("variable", [None, "success", "seed_group"])
def test_a_changed_attribute_of_a_dataset_is_refused(tmp_path: Path, variable: str | None) -> None:
    file = tmp_path / "episodes.nc"
    save_dataset(evaluation(records="native"), file)
    assert load_dataset(file).attrs["records"] == "native"
    with h5py.File(file, "r+") as stored:
        (stored if variable is None else stored[variable]).attrs["long_name"] = "another"
    with pytest.raises(InvalidInputError, match="its content was changed or damaged since"):
        load_dataset(file)


def test_only_temporary_files_of_our_own_are_swept(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    foreign = [
        tmp_path / ".editor.tmp",
        tmp_path / "mine" / ".data.7.tmp",
        temporary_path(tmp_path / "mine" / "x"),
    ]
    own = [
        temporary_path(run.plan),
        temporary_path(run.shields / "0.json"),
        temporary_path(run.frames / "a.npz"),
    ]
    for path in (*foreign, *own):
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    with run.open(PLAN):
        assert [path.exists() for path in own] == [False] * 3
    assert [path.exists() for path in foreign] == [True] * 3
    (temporary_path(tmp_path / "a")).write_text("")
    sweep(tmp_path)
    assert not temporary_path(tmp_path / "a").exists()


def test_a_sweep_removes_the_folder_of_a_killed_export(tmp_path):
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "dataset"):
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())
    left = temporary_path(tmp_path / "dataset")
    left.mkdir()
    (left / "part").write_text("")
    sweep(tmp_path)
    assert not left.exists()
