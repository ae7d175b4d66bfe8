"""The published folder of a run: its report is that of the run, and its size is bounded."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from report_runs import run_of, tabletop_run

from roep_gym.cli.main import main
from roep_gym.error import InvalidInputError
from roep_gym.evaluate import csv_text, evaluate, make_tables, open_run, publish_run
from roep_gym.evaluate.export.run_export import RunExport
from roep_gym.evaluate.report.figures import draw_figures
from roep_gym.evaluate.report.html import report_page
from roep_gym.evaluate.report.records import DamagedFileError
from roep_gym.evaluate.report.style import encoded
from roep_gym.evaluate.report.write import write_report
from roep_gym.evaluate.store.storage import load_dataset


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    return open_run(tabletop_run(tmp_path_factory))


@pytest.fixture(scope="module")
def published(native, tmp_path_factory):
    return publish_run(native, tmp_path_factory.mktemp("published") / "run")


def test_the_report_has_the_same_figures_and_tables(native, published):
    again = open_run(published.folder)
    figures = [draw_figures(run) for run in (native, again)]
    drawn = {one.name for one in figures[0] if one.figure is not None}
    assert drawn >= {"2", "A1", "A3", "A4", "reliability"}  # or not every kind of file would be tried
    for one, other in zip(*figures, strict=True):
        assert (one.figure is None) == (other.figure is None), one.name
        if one.figure is not None and other.figure is not None:
            assert encoded(one.figure, "png") == encoded(other.figure, "png"), one.name
    tables = [make_tables(run) for run in (native, again)]
    assert [csv_text(table) for table in tables[0]] == [csv_text(table) for table in tables[1]]
    pages = [
        report_page(run, made, pictures, run.folder)
        for run, made, pictures in zip((native, again), tables, figures, strict=True)
    ]
    sheets = [re.findall(r'<img src="(data:image/png[^"]*)" alt="frames', page) for page in pages]
    assert len(sheets[0]) > 4
    assert sheets[0] == sheets[1]


def test_records_are_those_of_the_run(native, published):
    data = load_dataset(published.folder / "episodes.nc")
    xr.testing.assert_identical(data.drop_attrs(deep=False), native.data.drop_attrs(deep=False))
    assert (published.folder / "rows.csv").read_bytes() == (native.folder / "rows.csv").read_bytes()


def test_nothing_is_stored_that_the_report_does_not_read(native, published):
    for part in ("steps", "frames"):
        kept, stored = (list((folder / part).iterdir()) for folder in (published.folder, native.folder))
        assert 0 < len(kept) < len(stored)
    assert not (published.folder / "journal.sqlite").exists()
    assert "proprio" not in load_dataset(published.folder / "steps" / "0001-full.nc")
    (clean,) = list((published.folder / "frames").glob("0000-baseline-*.npz"))[:1]
    with np.load(clean) as frames:
        assert sorted(frames.files) == ["given_agentview_image", "step"]
    assert published.megabytes == pytest.approx(
        sum(path.stat().st_size for path in published.folder.rglob("*") if path.is_file()) / 1e6
    )


def test_what_is_left_out_is_said(native, published, tmp_path, capsys):
    stored = len(list((native.folder / "frames").iterdir()))
    (sentence,) = [text for text in published.left_out if "frames" in text]
    assert re.search(rf"^\d+ of {stored} files of frames", sentence)
    assert main(["publish", str(native.folder), "--out", str(tmp_path / "run")]) == 0
    assert sentence in capsys.readouterr().out
    write_report(open_run(published.folder), tmp_path, ["html"])
    assert sentence in (tmp_path / "report.html").read_text()
    data = load_dataset(published.folder / "episodes.nc")
    assert sentence in json.loads(data.attrs["provenance"])["published"]


def test_a_folder_over_the_limit_is_refused(native, tmp_path, capsys):
    arguments = ["publish", str(native.folder), "--out", str(tmp_path / "run"), "--max-megabytes", "0.1"]
    assert main(arguments) == 2
    assert re.search(
        r"at most 0\.1 MB, .* takes [\d.]+ MB \(steps [\d.]+, frames [\d.]+\)", capsys.readouterr().err
    )
    assert list(tmp_path.iterdir()) == []


def test_what_a_published_run_lacks_is_refused(native, published, tmp_path):
    with pytest.raises(InvalidInputError, match="was published with what a report needs"):
        RunExport(published.folder)
    plan = json.loads(native.data.attrs["provenance"])["plan"]
    with pytest.raises(InvalidInputError, match="records without a plan and a journal"):
        evaluate(plan, published.folder)
    written = write_report(open_run(published.folder), tmp_path, ["html"], videos=True)
    assert "lacks what the figures do not show" in written.missing["videos"]
    with pytest.raises(InvalidInputError, match="Expected a new folder"):
        publish_run(native, published.folder)


def test_a_damaged_file_is_not_published(native, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(native.folder, folder)
    for path in (folder / "frames").glob("*-baseline-*.npz"):
        path.write_bytes(b"damaged")
    with pytest.raises(DamagedFileError, match="is damaged"):
        publish_run(open_run(folder), tmp_path / "published")
    assert not (tmp_path / "published").exists()


def test_a_published_run_is_published_again(published, tmp_path):
    again = publish_run(open_run(published.folder), tmp_path / "again")
    for path in Path(published.folder).rglob("*.npz"):
        assert (again.folder / path.relative_to(published.folder)).read_bytes() == path.read_bytes()


def test_records_alone_are_published(native, tmp_path):
    published = publish_run(run_of(native.data, tmp_path), tmp_path / "published")
    assert published.left_out == ()
    assert sorted(path.name for path in published.folder.iterdir()) == [
        "episodes.csv",
        "episodes.nc",
        "manifest.csv",
        "rows.csv",
    ]
