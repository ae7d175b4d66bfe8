"""The Dataset that `load_run` gives: the obvious questions have the right answers, and judging takes it as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from roep_gym import InvalidInputError
from roep_gym.evaluate import GateConfig, compare, judge, load_run
from roep_gym.evaluate.schema import NOT_RUN, REASONS
from roep_gym.evaluate.store.labelled import labelled, stored_form
from roep_gym.evaluate.store.storage import read_run

ROOT = Path(__file__).parents[1]
RUNS = {
    "flat": ROOT / "tests/data/replay",
    **{name: ROOT / "docs/results" / name for name in ("visuomotor", "blind", "shifted")},
}


@pytest.fixture(scope="module")
def data() -> xr.Dataset:
    return load_run(RUNS["visuomotor"])


@pytest.mark.parametrize("folder", RUNS.values(), ids=RUNS)
def test_the_stored_form_comes_back_to_the_bit(folder):
    stored = read_run(folder)
    back = stored_form(labelled(stored))
    # Descriptions are those of this version, not those that the file was written with.
    xr.testing.assert_equal(back, stored)
    assert back.attrs == stored.attrs
    assert {n: v.dtype for n, v in back.variables.items()} == {
        n: v.dtype for n, v in stored.variables.items()
    }


def test_a_condition_has_the_rate_of_its_own_episodes(data):
    stored = read_run(RUNS["visuomotor"])
    ran = stored["success"].values != NOT_RUN  # rows without a shield have no shielded episodes
    success = {
        str(name): stored["success"].values[ran & (stored["condition_index"].values == code)].mean()
        for code, name in enumerate(stored["condition"].values)
    }
    assert {n: data.sel(condition=n).success.mean().item() for n in success} == pytest.approx(success)
    assert len(set(success.values())) > 5, "the test needs conditions that differ"
    assert data.success.groupby("condition").mean().to_series().to_dict() == pytest.approx(success)
    masked = data.success.where(data.condition == "full").mean().item()
    assert masked == pytest.approx(success["full"])


def test_every_label_selects_episodes(data):
    task = str(data.task.values[-1])
    chosen = data.sel(task=task).sel(condition="full")
    assert set(chosen.task.values) == {task}
    assert set(chosen.condition.values) == {"full"}
    assert chosen.sizes["episode"] == 50


@pytest.mark.parametrize(
    "labels", [{"condition": "ful"}, {"row": 0}, {"condition": "full", "task": "goal_stove"}]
)
def test_what_cannot_be_selected_is_refused(data, labels):
    with pytest.raises((KeyError, ValueError)):
        data.sel(labels)


def test_no_dimension_is_left_that_an_outcome_does_not_have(data):
    assert set(data.sizes) == {"episode", "unsafe_channel", "action_entry"}
    assert all(variable.dims[:1] == ("episode",) for name, variable in data.data_vars.items())


def test_what_did_not_run_counts_in_no_mean():
    stored = read_run(RUNS["blind"])
    for name, code in (("success", NOT_RUN), ("reason", NOT_RUN), ("steps", NOT_RUN)):
        stored[name].values[:100] = code
    data = labelled(stored)
    ran = stored["success"].values[100:]
    assert data.success.mean().item() == ran.mean()
    assert np.isnan(data.steps.values[:100]).all()
    assert data.reason.values[0] == ""
    assert set(data.reason.values[100:]) <= set(REASONS)


def test_unsafe_channels_that_were_not_active_are_no_counts():
    channels = load_run(RUNS["blind"]).unsafe_channel_attempts
    stored = read_run(RUNS["blind"])["unsafe_channel_attempts"]
    assert (np.isnan(channels.values) == (stored.values == NOT_RUN)).all()


def test_judging_says_the_same_of_either_form_and_takes_a_selection():
    stored, data = read_run(RUNS["flat"]), load_run(RUNS["flat"])
    xr.testing.assert_identical(judge(data).verdicts, judge(stored).verdicts)
    task = str(data.task.values[0])
    whole, part = judge(data).verdicts, judge(data.sel(task=task)).verdicts
    expected = whole.isel(row=np.flatnonzero(whole["task"].values == task))
    assert part["claim_status"].values.tolist() == expected["claim_status"].values.tolist()


def test_comparing_says_the_same_of_either_form():
    stored, data = read_run(RUNS["shifted"]), load_run(RUNS["shifted"])
    models = {"first_model": "visuomotor", "second_model": "blind"}
    xr.testing.assert_identical(
        compare(data, data, **models).statistics, compare(stored, stored, **models).statistics
    )
    with pytest.raises(InvalidInputError, match="one run twice"):
        compare(data, data, first_model="blind", second_model="blind")


def test_a_row_without_planned_episodes_is_refused(tmp_path):
    for name in ("episodes.csv", "rows.csv"):
        shutil.copy(RUNS["flat"] / name, tmp_path)
    rows = pd.read_csv(tmp_path / "rows.csv", dtype=str, keep_default_na=False)
    episodes = pd.read_csv(tmp_path / "episodes.csv", dtype=str, keep_default_na=False)
    keys = ["model", "suite", "task", "condition", "seed_group", "episode", "init_state", "env_seed"]
    episodes[keys].to_csv(tmp_path / "manifest.csv", index=False)
    extra = rows.iloc[:1].assign(task="goal_none")
    pd.concat([rows, extra]).to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(
        InvalidInputError, match=r"'goal_none' of .* has none; plan some or leave the row out"
    ):
        load_run(tmp_path, GateConfig())


def test_a_labelled_dataset_goes_through_a_file(data, tmp_path):
    data.to_netcdf(tmp_path / "mine.nc", engine="h5netcdf")
    back = xr.open_dataset(tmp_path / "mine.nc", engine="h5netcdf")
    assert back.success.groupby("condition").mean().equals(data.success.groupby("condition").mean())
