"""What figures draw is what the tables and records say, and what they cannot draw has a reason."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import warnings

import matplotlib
import numpy as np
import pytest
import xarray as xr
from judging_data import evaluation, failures
from matplotlib.colors import to_rgb
from report_runs import REPLAY, SWEEP, native, replay, run_of, tabletop_run  # noqa: F401

from roep_gym.error import UnknownNameError
from roep_gym.evaluate.report.episodes import representative_episodes, shield_trace, traced_episode
from roep_gym.evaluate.report.figures import FIGURES, draw_figures
from roep_gym.evaluate.report.frame_figures import affected_area, contact_sheet
from roep_gym.evaluate.report.records import EpisodeKey, open_run
from roep_gym.evaluate.report.shield_figures import risk_profile
from roep_gym.evaluate.report.style import FORMATS, PALETTE, encoded
from roep_gym.evaluate.report.tables import TABLES
from roep_gym.evaluate.report.write import write_report
from roep_gym.evaluate.store.storage import save_dataset

PIXELS = 32 * 32
FAILED = "medium with shield, failure"


def draw(run, name):
    (drawn,) = draw_figures(run, [name])
    assert drawn.figure is not None, drawn.reason
    return drawn.figure


def labelled(axes, label):
    return [artist for artist in (*axes.get_children(), *axes.containers) if artist.get_label() == label]


def bars(axes, label):
    return [container.patches[0] for container in labelled(axes, label)]


def heights(axes, label):
    return [bar.get_height() for bar in bars(axes, label)]


def title(axes):
    return axes.get_title(loc="left")


def test_figure_3_draws_tables_3_and_4(replay):
    upper, lower = draw(replay, "3").axes
    table = TABLES["4"](replay).where(lambda values: values["suite"] != "all")
    for axes, series in (
        (upper, {"clean": "mean_clean_sr", "medium": "mean_perturb_sr"}),
        (lower, {"effect": "mean_signed_delta_sr", "floor": "mean_noise_floor_sr"}),
    ):
        for name, column in series.items():
            assert heights(axes, f"_{name}") == table.values(column)
    tasks = TABLES["3"](replay)
    for axes, series in (
        (upper, {"clean": "clean_sr", "medium": "perturb_sr"}),
        (lower, {"effect": "delta_sr", "floor": "noise_floor_sr"}),
    ):
        for name, column in series.items():
            marks = [line.get_ydata().tolist() for line in labelled(axes, f"_tasks {name}")]
            assert list(itertools.chain(*marks)) == tasks.values(column)
    ticks = [label.get_text() for label in lower.get_xticklabels()]
    assert ticks == [f"{m}\n{s}" for m, s in zip(table.values("model"), table.values("suite"), strict=True)]


def test_figure_4_draws_tables_3_and_4(replay):
    upper, *grids = draw(replay, "4").axes
    table = TABLES["4"](replay).where(lambda values: values["suite"] != "all")
    assert heights(upper, "_timeout") == table.values("mean_perturb_timeout_rate")
    tasks = TABLES["3"](replay)
    for grid, column, sign in zip(
        grids, ("perturb_timeout_rate", "delta_sr", "noise_floor_sr"), ("", "+", ""), strict=True
    ):
        # The rows of Table 3: three models, each with the same eight tasks.
        expected = np.array(tasks.values(column)).reshape(3, 8).T
        np.testing.assert_array_equal(np.asarray(grid.images[0].get_array()), np.abs(expected))
        assert [text.get_text() for text in grid.texts] == [
            f"{value:{sign}.2f}" for value in expected.ravel()
        ]


def test_the_forest_draws_differences_intervals_and_floors(replay):
    (axes,) = draw(replay, "effects").axes
    table = TABLES["effects"](replay)
    differences = [line.get_xdata()[0] for line in labelled(axes, "_difference")]
    assert differences == table.values("paired_delta_sr")
    intervals = [tuple(line.get_xdata()) for line in labelled(axes, "_interval")]
    assert intervals == list(zip(table.values("low"), table.values("high"), strict=True))
    assert [bar.get_width() / 2 for bar in bars(axes, "_floor")] == table.values("noise_floor_sr")
    filled = [line.get_markerfacecolor() != "white" for line in labelled(axes, "_difference")]
    assert filled == [effect.startswith("distinguishable") for effect in table.values("effect")]
    assert all(axes.get_xlim()[0] <= x <= axes.get_xlim()[1] for pair in intervals for x in pair)


def test_a_row_without_pairs_is_na_in_the_forest(native):
    data = evaluation(conditions=["baseline", "perturb"])
    figure = draw(run_of(data), "effects")
    (mark,) = labelled(figure.axes[0], "_difference")
    assert (bars(figure.axes[0], "_floor"), mark.get_marker()) == ([], "x")
    (missing,) = draw_figures(run_of(evaluation(conditions=["baseline"])), ["effects"])
    assert (missing.figure, missing.reason) == (
        None,
        "no admitted row has pairs of a clean and a medium episode",
    )


def test_figure_2_shows_the_stored_frames_of_four_episodes(native):
    figure = draw(native, "2")
    chosen = representative_episodes(native)
    assert [key.condition for key, _ in chosen] == ["baseline", "perturb", "perturb", "full"]
    for part, (key, _) in zip(figure.subfigs, chosen, strict=True):
        stored = native.frames(key)
        drawn = [axes for axes in part.axes if axes.images]
        assert len(drawn) == 6
        for axes in drawn:
            step = int(title(axes).removeprefix("step "))
            at = int(np.flatnonzero(stored["step"] == step)[0])
            np.testing.assert_array_equal(
                np.asarray(axes.images[0].get_array()), stored["given_agentview_image"][at]
            )
        outcome = native.outcomes(key.row, key.condition).set_index(["seed_group", "episode"]).loc[key[2:]]
        assert f", {outcome['reason']}: " in part.get_suptitle()
    assert ", timeout: " in figure.subfigs[2].get_suptitle()


def test_figure_a1_shows_the_measured_area(native):
    figure = draw(native, "A1")
    assert [part.get_suptitle().split(":")[0] for part in figure.subfigs] == ["mild", "medium", "strong"]
    # round(alpha * 32) pixels a side, for alpha 0.1, 0.3 and 0.5.
    for part, condition, side, dropped in zip(
        figure.subfigs, ("mild", "perturb", "strong"), (3, 10, 16), (0.1, 0.2, 0.3), strict=True
    ):
        area = affected_area(native, 0, condition, PIXELS)
        assert area.occluded == pytest.approx(side**2 / PIXELS)
        assert area.dropped == pytest.approx(dropped, abs=0.01)
        titles = [title(axes) for axes in part.axes]
        assert titles[1] == f"RGB occlusion\n{area.occluded:.1%} occluded"
        assert titles[3] == f"depth dropout\n{area.dropped:.1%} dropped"
        assert [titles[0], titles[2]] == ["clean image", "clean depth"]
        # The mean share of both together is near that of two independent operators on this frame.
        share = float(titles[4].removeprefix("combined\n").removesuffix("% affected")) / 100
        assert share == pytest.approx(1 - (1 - area.occluded) * (1 - dropped), abs=0.06)


def test_a_trace_draws_the_recorded_risk_and_events(native):
    key = traced_episode(native, FAILED)
    trace = shield_trace(native, key)
    steps = native.episode_steps(key)
    tau = float(native.data["shield_tau"].values[key.row])
    np.testing.assert_array_equal(trace.relative_risk, steps["risk"].values / tau)
    figure = draw(native, "A3")
    risk = next(axes for axes in figure.axes if axes.get_ylabel() == "r / tau")
    curve, threshold, marks, peak = risk.lines
    np.testing.assert_allclose(curve.get_ydata(), np.maximum(trace.relative_risk, 1e-12))
    assert set(threshold.get_ydata()) == {1}
    np.testing.assert_array_equal(marks.get_xdata(), np.flatnonzero(steps["intervened"].values == 1))
    assert peak.get_xdata() == [np.nanargmax(trace.relative_risk)]
    events = next(axes for axes in figure.axes if axes.get_xlabel() == "control step")
    counts = [len(collection.get_positions()) for collection in events.collections]
    outcome = native.outcomes(key.row, key.condition).set_index(["seed_group", "episode"]).loc[key[2:]]
    assert counts == [trace.intervened.sum(), outcome["intervention_steps"], outcome["refusals"]]
    assert trace.summary()["interventions"] == str(counts[0])
    assert trace.summary()["outcome"] == "timeout"


def test_reliability_draws_the_profile(native):
    figure = draw(native, "reliability")
    profile = risk_profile(native)
    for axes, alignment in zip(figure.axes, ("start", "end"), strict=True):
        for outcome in ("success", "failure"):
            part = profile.sel(outcome=outcome, alignment=alignment)
            ran = part["episodes"].values > 0
            (line,) = labelled(axes, f"{outcome} (n = {int(part['total'])})")
            drawn = np.asarray(line.get_ydata(), dtype=float)
            median = np.maximum(part["median"].values[ran], 1e-12)
            np.testing.assert_allclose(drawn, np.where(np.isinf(median), np.nan, median))
    recorded = sum(len(native.outcomes(1, condition)) for condition in ("recovery", "full"))
    assert int(profile["total"].sum()) == recorded == 12


def test_risk_profile_by_hand(tmp_path):
    data = evaluation({"full": ["success", "timeout", "timeout"], "recovery": [""] * 3}, records="native")
    risk = [0.1, 0.2, 0.5, 1.0, np.nan, 0.25, 0.75]  # tau is 0.5; lengths 2, 3 and 2
    save_dataset(
        xr.Dataset(
            {"row_size": ("episode", [2, 3, 2]), "risk": ("step", risk)},
            coords={"seed_group": ("episode", [0, 0, 0]), "episode_index": ("episode", [0, 1, 2])},
        ),
        tmp_path / "steps" / "0000-full.nc",
    )
    profile = risk_profile(run_of(data, tmp_path))
    assert profile["total"].values.tolist() == [1, 2]
    success, failure = (profile.sel(outcome=name, alignment="start") for name in ("success", "failure"))
    assert success["median"].values.tolist()[:2] == [0.2, 0.4]
    assert np.isnan(success["median"].values[2])
    assert failure["episodes"].values.tolist() == [2, 2, 1]
    assert failure["low"].values.tolist() == [0.5, 1.5, np.inf]
    backwards = profile.sel(outcome="failure", alignment="end")
    assert backwards["low"].values.tolist() == [1.5, 0.5, 1.0]


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_has_every_format_without_a_date(native, name):
    figure = draw(native, name)
    for suffix, magic in zip(FORMATS, (b"<?xml", b"%PDF", b"\x89PNG"), strict=True):
        content = encoded(figure, suffix)
        assert content.startswith(magic)
        assert b"CreationDate" not in content
        assert b"dc:date" not in content


def test_what_flat_tables_cannot_show_has_a_reason(replay):
    reasons = {drawn.name: drawn.reason for drawn in draw_figures(replay) if drawn.figure is None}
    assert "mild or strong" in reasons.pop("severity")
    assert reasons.keys() == {"2", "A1", "A2", "A3", "A4", "reliability"}
    assert all("flat tables hold no" in reason for reason in reasons.values())
    with pytest.raises(UnknownNameError, match="Did you mean 'effects'"):
        draw_figures(replay, ["effect"])


def test_a_contact_sheet_holds_six_frames():
    images = np.arange(10, dtype=np.uint8)[:, None, None, None] * np.ones((1, 32, 48, 3), dtype=np.uint8)
    sheet = contact_sheet({"given_camera_image": images, "step": np.arange(10)}, height=64)
    assert sheet.shape == (64, 6 * 96 + 5 * 3, 3)
    assert sheet[0, ::99, 0].tolist() == [0, 2, 4, 5, 7, 9]
    assert contact_sheet({"given_camera_depth": images, "step": np.arange(10)}) is None


def lightness(color):
    """Return CIE L* of a colour: what is left of it on grey paper."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    luminance = np.dot(linear, (0.2126, 0.7152, 0.0722))
    return 116 * luminance ** (1 / 3) - 16


@pytest.mark.parametrize(
    ("first", "second"), [("clean", "medium"), ("effect", "floor"), ("success", "failure")]
)
def test_what_meets_in_a_figure_differs_on_grey_paper(first, second):
    one, other = PALETTE[first], PALETTE[second]
    assert abs(lightness(one.color) - lightness(other.color)) >= 25
    assert one.hatch != other.hatch
    assert one.marker != other.marker


def test_drawing_leaves_matplotlib_as_it_was(replay):
    before = dict(matplotlib.rcParams)
    draw(replay, "3")
    assert dict(matplotlib.rcParams) == before


def test_importing_the_figures_loads_no_matplotlib():
    code = "import sys, roep_gym.evaluate.report.write, roep_gym.evaluate.report.tensorboard; print([n for n in \
('matplotlib', 'torch', 'tensorboard', 'gymnasium', 'roep_gym.wrappers', 'roep_gym.shields') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_steps_of_an_episode_that_is_not_stored(native):
    assert native.episode_steps(EpisodeKey(0, "full", 0, 0)) is None
    assert native.frames(EpisodeKey(0, "full", 0, 0)) == {}


def test_the_sweep_draws_every_run_beside_its_clone():
    ends = {"strong": failures(40), "strong_clone": failures(30)}
    (axes,) = draw(run_of(evaluation(ends, conditions=SWEEP)), "severity").axes
    runs = [list(line.get_xdata()) for line in axes.lines if line.get_label() == "_re-run"]
    np.testing.assert_allclose(runs, [[1.0, 1.0], [1.0, 1.0], [0.2, 0.4]])
    (missing,) = draw_figures(run_of(evaluation(conditions=["baseline"])), ["severity"])
    assert missing.reason == "no admitted row has a recorded mild or strong success rate"


@pytest.mark.parametrize("name", ["3", "4", "effects"])
def test_missing_values_leave_the_layout_whole(name):
    data = evaluation(conditions=["baseline", "perturb"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = draw(run_of(data), name)
        encoded(figure, "png")
    assert all(axes.get_position().height > 0.1 for axes in figure.axes)


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04", b"no archive", "cut", "flipped"])
def test_a_damaged_frame_file_makes_its_figures_and_sheets_na_and_stops_nothing(native, tmp_path, damage):
    folder = shutil.copytree(native.folder, tmp_path / "run")
    run = open_run(folder)
    key = representative_episodes(run)[0].key
    path = run.frames_path(key)
    content = bytearray(path.read_bytes())
    if damage == "flipped":
        content[len(content) // 2] ^= 0xFF
    path.write_bytes({"cut": content[: len(content) // 2], "flipped": content}.get(damage, damage))
    written = write_report(run, tmp_path / "out", ["html"], videos=True)
    why = f"{path.name} is damaged; re-run the same command to make it again"
    assert written.missing == {"figure 2": why, f"video {path.stem}": why}
    assert f"N/A, {why}" in written.page.read_text()
    assert len([file for file in written.files if file.suffix == ".gif"]) == 7


def test_a_damaged_step_file_makes_its_figures_na(native, tmp_path):
    folder = shutil.copytree(native.folder, tmp_path / "run")
    (folder / "steps" / "0001-full.nc").write_bytes(b"\x89HDF")
    missing = {drawn.name: drawn.reason for drawn in draw_figures(open_run(folder)) if drawn.figure is None}
    assert set(missing) == {"A2", "A3", "reliability"}
    assert set(missing.values()) == {"0001-full.nc is damaged; re-run the same command to make it again"}
