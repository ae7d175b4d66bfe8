"""`roep-gym statistics`, `power`, `sensitivity` and `compare`."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from roep_gym.cli.main import dispatch, main
from roep_gym.evaluate.statistics.intervals import paired_difference_interval

REPLAY = Path(__file__).parent / "data" / "replay"


def tables(text):
    """Return the CSV tables of an output, each as a list of lines."""
    return [list(csv.DictReader(io.StringIO(part))) for part in text.split("\n\n")]


def test_statistics(capsys):
    assert dispatch(["statistics", str(REPLAY), "--resamples", "200", "--format", "csv"]) == 0
    pairs, means = tables(capsys.readouterr().out)
    assert len(pairs) == 24
    assert (pairs[0]["lost"], pairs[0]["gained"], float(pairs[0]["difference"])) == ("20", "7", 0.26)
    low, high = paired_difference_interval(12, 20, 7, 11)
    assert (float(pairs[0]["difference_low"]), float(pairs[0]["difference_high"])) == pytest.approx(
        (low, high)
    )
    assert pairs[9]["bootstrap"] == "N/A: every initial state shows the same difference"
    assert len(means) == 6 * 5


def test_statistics_of_another_pair_for_people(capsys):
    assert dispatch(["statistics", str(REPLAY), "--pair", "full given perturb", "--resamples", "50"]) == 0
    out = capsys.readouterr().out
    assert "Paired differences of SR, full given perturb" in out
    assert "They inform and never gate." in out


def test_power_for_planning(capsys):
    assert dispatch(["power", "--drops", "0.1", "--base-rates", "0.6", "0.9", "--format", "csv"]) == 0
    best, independent, unpaired = tables(capsys.readouterr().out)
    assert [row["drop_0.1"] for row in best] == ["78", "78"]
    assert [row["drop_0.1"] for row in unpaired] == ["408", "219"]
    assert [row["drop_0.1"] for row in independent] == ["408", "215"]


def test_power_of_a_run(capsys):
    assert dispatch(["power", str(REPLAY), "--format", "csv"]) == 0
    (rows,) = tables(capsys.readouterr().out)
    assert float(rows[2]["perturb_given_baseline"]) == pytest.approx(0.15, abs=0.01)
    assert rows[5]["perturb_given_baseline"] == "N/A: not even the loss of every success would show"


def test_sensitivity(capsys):
    assert dispatch(["sensitivity", str(REPLAY), "--subsets", "5", "--sizes", "20", "--format", "csv"]) == 0
    breaks, floors, subsamples = tables(capsys.readouterr().out)
    (harm,) = [r for r in breaks if r["threshold"] == "max_clean_harm" and float(r["margin"]) < -0.06]
    assert (harm["task"], float(harm["break_at"])) == ("object_tomato_sauce", pytest.approx(7 / 47))
    assert (harm["strict_label"], harm["lenient_label"]) == ("recovery_blocked_with_cause", "recovery_ready")
    assert len(floors) == len(subsamples) == 24
    assert {row["floor_0.2"] for row in floors} == {row["trace_label"] for row in subsamples}


def test_sensitivity_around_other_thresholds(capsys):
    arguments = [str(REPLAY), "--subsets", "1", "--sizes", "10", "--max-clean-harm", "0.2", "--format", "csv"]
    assert dispatch(["sensitivity", *arguments]) == 0
    breaks = tables(capsys.readouterr().out)[0]
    assert {r["configured"] for r in breaks if r["threshold"] == "max_clean_harm"} == {"0.2"}


def test_compare_two_models(capsys):
    arguments = [
        str(REPLAY),
        "--model",
        "OpenVLA",
        "--other-model",
        "X-VLA",
        "--resamples",
        "50",
        "--format",
        "csv",
    ]
    assert dispatch(["compare", *arguments]) == 0
    *conditions, means, premises = tables(capsys.readouterr().out)
    assert len(conditions) == len(means) == 6
    assert (conditions[0][0]["first_sr"], conditions[0][0]["second_sr"]) == ("0.64", "1")
    assert {row["verdict"] for row in premises} == {"not recorded"}


def test_compare_two_runs_that_are_the_same(tmp_path, capsys):
    other = shutil.copytree(REPLAY, tmp_path / "other")
    assert dispatch(["compare", str(REPLAY), str(other), "--model", "X-VLA", "--format", "csv"]) == 0
    rows = tables(capsys.readouterr().out)[0]
    assert rows[0]["mcnemar_p"].startswith("N/A: identical replicates")


def test_compare_with_the_paper(capsys):
    assert dispatch(["compare", str(REPLAY), "--reference", "paper", "--format", "csv"]) == 0
    (rows,) = tables(capsys.readouterr().out)
    assert len(rows) == 24
    assert all(row["clean_sr"] == row["published_clean_sr"] for row in rows)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", str(REPLAY)], "one model of the first run, which holds OpenVLA, X-VLA, VLA-Adapter"),
        (["compare", str(REPLAY), "--reference", "paper", "--model", "X-VLA"], "Expected --reference alone"),
        (["compare", str(REPLAY), "--model", "XVLA"], "Did you mean 'X-VLA'"),
        (["power", "--drops", "0"], "Expected a drop above 0, got 0"),
        (["sensitivity", str(REPLAY), "--subsets", "0"], "at least 1"),
        (["statistics", "nowhere"], "Expected the folder of a run at nowhere"),
        (["statistics", str(REPLAY), "--confidence", "2"], "Expected confidence between 0 and 1, got 2"),
    ],
)
def test_what_the_user_can_put_right_is_one_sentence(arguments, message, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_they_need_neither_simulator_nor_wrappers():
    script = f"""
import sys
from roep_gym.cli import compare, power, statistics
from roep_gym.cli.main import dispatch
status = dispatch(["sensitivity", {str(REPLAY)!r}, "--subsets", "1", "--sizes", "10"])
unwanted = ("gymnasium", "torch", "mujoco", "matplotlib", "scipy.stats", "roep_gym.wrappers", "roep_gym.policies")
loaded = [n for n in unwanted if any(m == n or m.startswith(n + ".") for m in sys.modules)]
sys.exit(f"loaded: {{loaded}}" if loaded else status)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
