"""TensorBoard files, read back: the rates of the records, once, whatever was written before."""

from __future__ import annotations

import numpy as np
import pytest
from report_runs import REPLAY, native, tabletop_run  # noqa: F401
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from roep_gym.evaluate.report.figures import FIGURES
from roep_gym.evaluate.report.records import open_run
from roep_gym.evaluate.report.tensorboard import write_events


@pytest.fixture(scope="module")
def events(native, tmp_path_factory):
    folder = tmp_path_factory.mktemp("events")
    return folder, write_events(native, folder)


def read(folder):
    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0, "images": 0, "tensors": 0})
    accumulator.Reload()
    return accumulator


def test_the_last_scalar_of_each_row_and_condition_is_its_rate(native, events):
    folder, _ = events
    rates, applied = native.judgement.rates["rate"], native.judgement.interventions["recovery_rate"]
    for row in range(native.rows):
        scalars = read(folder.joinpath(*native.label(row)))
        recorded = [c for c in native.conditions if not native.absent(row, c)]
        expected = {f"{rate}/{c}" for c in recorded for rate in ("success_rate", "timeout_rate")}
        expected |= {f"intervention_rate/{c}" for c in ("recovery", "full") if c in recorded}
        assert set(scalars.Tags()["scalars"]) == expected
        for condition in recorded:
            for outcome in ("success", "timeout"):
                points = scalars.Scalars(f"{outcome}_rate/{condition}")
                assert [point.step for point in points] == [1, 2, 3, 4, 5, 6]
                want = float(rates.sel(condition=condition, outcome=outcome)[row])
                assert points[-1].value == pytest.approx(want, abs=1e-6)
        for condition in {"recovery", "full"} & set(recorded):
            value = scalars.Scalars(f"intervention_rate/{condition}")[-1].value
            assert value == pytest.approx(float(applied.sel(condition=condition)[row]), abs=1e-6)


def test_a_scalar_is_the_rate_over_the_first_episodes(native, events):
    scalars = read(events[0].joinpath(*native.label(1)))
    won = native.outcomes(1, "baseline")["success"].to_numpy()
    values = [point.value for point in scalars.Scalars("success_rate/baseline")]
    np.testing.assert_allclose(values, np.cumsum(won) / np.arange(1, 7), rtol=1e-6)


def test_claims_are_text_and_figures_are_images(events):
    overview = read(events[0])
    texts = {
        tag: overview.Tensors(tag)[0].tensor_proto.string_val[0].decode()
        for tag in overview.Tags()["tensors"]
    }
    claims = next(text for tag, text in texts.items() if tag.startswith("table/claims"))
    assert "| exact | tabletop | carry |" in claims
    assert "no statement about use outside this evaluation" in claims
    images = overview.Tags()["images"]
    assert set(images) == {f"figure/{name}" for name in FIGURES}
    assert overview.Images("figure/3")[0].width > 500


def test_writing_again_replaces_and_leaves_other_files_alone(native, tmp_path):
    first = write_events(native, tmp_path)
    other = tmp_path / "events.out.tfevents.1.host.1.0"
    other.write_bytes(b"")
    stale = tmp_path / "gone" / "events.out.tfevents.1.host.1.0.roep-gym"
    stale.parent.mkdir()
    stale.write_bytes(b"")
    second = write_events(native, tmp_path)
    assert {path.parent for path in first} == {path.parent for path in second}
    left = set(tmp_path.rglob("*tfevents*"))
    assert left == {*second, other}
    points = read(tmp_path.joinpath(*native.label(1))).Scalars("success_rate/baseline")
    assert len(points) == 6
    assert not list(tmp_path.glob(".events-*"))


def test_figures_that_cannot_be_drawn_say_so_as_text(tmp_path):
    write_events(open_run(REPLAY), tmp_path)
    overview = read(tmp_path)
    assert set(overview.Tags()["images"]) == {"figure/3", "figure/4", "figure/effects"}
    tensors = [tag for tag in overview.Tags()["tensors"] if tag.startswith("figure/A1")]
    assert overview.Tensors(tensors[0])[0].tensor_proto.string_val[0] == b"N/A: flat tables hold no frames"
    row = read(tmp_path / "OpenVLA" / "libero_goal" / "goal_stove")
    assert row.Scalars("success_rate/baseline")[-1].value == pytest.approx(0.98)
