"""The Datasets of a run as files."""

from __future__ import annotations

import re

import numpy as np
import pytest
import xarray as xr
from judging_data import evaluation

from roep_gym.atomic_file import replacing, write_atomically
from roep_gym.error import InvalidInputError, RoepError
from roep_gym.evaluate.judging.gate import judge
from roep_gym.evaluate.store.flat_tables import write_tables
from roep_gym.evaluate.store.storage import load_dataset, read_run, save_dataset


def test_dataset_survives_the_file(tmp_path):
    data = evaluation(
        records="native", rows={"instruction": "put the bowl on the plate", "shield_reason": "ü"}
    )
    data["scene_hash"].values[0] = 2**63 - 1
    save_dataset(data, tmp_path / "episodes.nc")
    back = read_run(tmp_path)
    xr.testing.assert_identical(back, data)
    for name in data.variables:
        assert back[name].dtype == data[name].dtype, name
        assert back[name].dtype != object or all(type(v) is str for v in back[name].values.ravel())
    xr.testing.assert_identical(judge(back).verdicts, judge(data).verdicts)


def test_folder_of_flat_tables_is_a_run(tmp_path):
    data = evaluation()
    write_tables(data, tmp_path)
    xr.testing.assert_identical(read_run(tmp_path), data)


def test_dataset_goes_before_the_tables_beside_it(tmp_path):
    data = evaluation(records="native")
    write_tables(data, tmp_path)
    save_dataset(data, tmp_path / "episodes.nc")
    assert read_run(tmp_path).attrs["records"] == "native"


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match=r"Expected the folder of a run at .*none, but there is none"):
        read_run(tmp_path / "none")
    with pytest.raises(
        InvalidInputError, match=re.escape("Expected episodes.nc, or episodes.csv and rows.csv, in")
    ):
        read_run(tmp_path)
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(
        InvalidInputError, match="start the run's command again, which writes it from the journal"
    ):
        read_run(tmp_path)


@pytest.mark.parametrize("size", [0, 10, 5000])
def test_broken_file_is_refused_in_one_sentence(tmp_path, size):
    path = tmp_path / "episodes.nc"
    save_dataset(evaluation(), path)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(
        InvalidInputError, match=r"Expected a netCDF file at .*, but reading it failed"
    ) as caught:
        load_dataset(path)
    assert "\n" not in str(caught.value)


def test_other_schema_version_is_refused(tmp_path):
    save_dataset(evaluation().assign_attrs(schema_version=99), tmp_path / "episodes.nc")
    with pytest.raises(InvalidInputError, match="Expected a run of schema version 1, got 99"):
        read_run(tmp_path)


def test_file_is_complete_or_not_there(tmp_path):
    path = tmp_path / "deep" / "file"
    write_atomically(path, b"old")

    def interrupted():
        with replacing(path) as temporary:
            temporary.write_bytes(b"ne")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        interrupted()
    assert path.read_bytes() == b"old"
    assert [p.name for p in path.parent.iterdir()] == ["file"]


def test_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RoepError, match=r"Expected to write .*, but that failed"):
        write_atomically(tmp_path / "file" / "below", b"")


def test_values_that_mean_not_run_are_no_missing_values(tmp_path):
    save_dataset(evaluation({"full": [""] * 50}), tmp_path / "episodes.nc")
    back = read_run(tmp_path)
    assert back["success"].dtype == np.int8
    assert int((back["success"] == -1).sum()) == 50


def test_text_without_an_entry_is_the_text_that_was_written(tmp_path):
    """A run without depth has no depth keys, and xarray gives them back as numbers."""
    none = xr.DataArray(np.array([], dtype=object), dims="depth")
    data = xr.Dataset(
        {"dropped_fraction": (("step", "depth"), np.zeros((3, 0), np.float32))}, {"depth": none}
    )
    save_dataset(data, tmp_path / "steps.nc")
    assert load_dataset(tmp_path / "steps.nc").sizes == {"step": 3, "depth": 0}
