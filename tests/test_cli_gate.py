"""`roep-gym gate` and `roep-gym import`."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

from roep_gym.cli.main import dispatch
from roep_gym.error import InvalidInputError

REPLAY = Path(__file__).parent / "data" / "replay"


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "out"
    assert (
        dispatch(["import", str(REPLAY / "episodes.csv"), str(REPLAY / "rows.csv"), "--out", str(out)]) == 0
    )
    return out


@pytest.fixture
def run(imported, tmp_path):
    return shutil.copytree(imported, tmp_path / "run")


def claims(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_table_of_flat_tables_stores_nothing(tmp_path, capsys):
    folder = shutil.copytree(REPLAY, tmp_path / "flat")
    before = sorted(p.name for p in folder.iterdir())
    assert dispatch(["gate", str(folder)]) == 0
    out = capsys.readouterr().out
    assert out.count("Recovery-facing claim withheld") == 7
    assert "Formal gate/recovery-full support" in out
    assert "24 rows: 16 supported, 7 withheld, 1 insufficient, 0 not admitted." in out
    assert sorted(p.name for p in folder.iterdir()) == before


def test_imported_run_is_judged_and_stored(run, capsys):
    assert dispatch(["gate", str(run), "--format", "csv"]) == 0
    printed = capsys.readouterr()
    assert (run / "claims.csv").read_text() == printed.out
    assert "verdicts.json" in printed.err
    expected = claims((REPLAY / "expected.csv").read_text())
    for name in ("model", "task", "trace_label", "limiting_factor"):
        assert [row[name] for row in claims(printed.out)] == [row[name] for row in expected]
    stored = json.loads((run / "verdicts.json").read_text())
    assert stored["config"]["max_clean_harm"] == 0.08
    assert len(stored["rows"]) == 24


def test_imported_run_holds_the_tables(imported):
    assert {p.name for p in imported.iterdir()} >= {"episodes.nc", "episodes.csv", "rows.csv", "manifest.csv"}


@pytest.mark.parametrize(
    ("form", "start"), [("json", "{"), ("markdown", "**Table claims."), ("latex", "% Table claims.")]
)
def test_other_formats(form, start, capsys):
    assert dispatch(["gate", str(REPLAY), "--format", form]) == 0
    assert capsys.readouterr().out.startswith(start)


@pytest.mark.parametrize(
    ("label", "status"),
    [
        ("recovery_ready", 1),
        ("recovery_blocked_with_cause", 1),
        ("inconclusive_low_support", 0),
        ("clean_not_admitted", 0),
    ],
)
def test_required_label_sets_the_exit_status(label, status, capsys):
    assert dispatch(["gate", str(REPLAY), "--require", label, "--format", "csv"]) == status
    assert ("fall short of" in capsys.readouterr().err) == bool(status)


def test_flags_override_the_settings_file_which_overrides_the_paper(run, tmp_path, capsys):
    settings = tmp_path / "gate.json"
    settings.write_text('{"max_clean_harm": 0.5, "min_intervention_steps": 0.0}')
    assert (
        dispatch(
            [
                "gate",
                str(run),
                "--config",
                str(settings),
                "--min-intervention-steps",
                "0.05",
                "--format",
                "csv",
            ]
        )
        == 0
    )
    config = json.loads((run / "verdicts.json").read_text())["config"]
    assert (config["max_clean_harm"], config["min_intervention_steps"], config["max_success_drop"]) == (
        0.5,
        0.05,
        0.1,
    )
    factors = [row["limiting_factor"] for row in claims(capsys.readouterr().out)]
    assert factors.count("Clean recovery-vs-baseline harm") == 0
    assert factors.count("Recovery/full support") == 2


def test_table_says_which_thresholds_are_not_the_papers(capsys):
    dispatch(["gate", str(REPLAY), "--max-clean-harm", "0.5"])
    assert "Thresholds: max_clean_harm=0.5." in capsys.readouterr().out


@pytest.mark.parametrize("form", ["csv", "json"])
def test_formats_for_programs_leave_the_summary_to_stderr(form, capsys):
    dispatch(["gate", str(REPLAY), "--max-clean-harm", "0.5", "--format", form])
    printed = capsys.readouterr()
    assert "24 rows: " in printed.err
    assert "Thresholds: max_clean_harm=0.5." in printed.err
    assert "24 rows: " not in printed.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/nowhere"], "Expected the folder of a run at /nowhere, but there is none"),
        ([str(REPLAY), "--config", "/nowhere.json"], "Expected gate settings at /nowhere.json"),
        (
            [str(REPLAY), "--seed-groups", "4"],
            "episodes.csv, line .*: seed group 4, episode 0 lies outside the plan",
        ),
    ],
)
def test_bad_input_is_one_sentence(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        dispatch(["gate", *arguments])


@pytest.mark.parametrize(
    "arguments", [[], [str(REPLAY), "--format", "xml"], [str(REPLAY), "--require", "ready"]]
)
def test_bad_arguments_exit_with_status_2(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        dispatch(["gate", *arguments])
    assert caught.value.code == 2
    capsys.readouterr()


def test_larger_budget_leaves_the_clean_run_incomplete(capsys):
    dispatch(["gate", str(REPLAY), "--seed-groups", "6", "--format", "csv"])
    rows = claims(capsys.readouterr().out)
    assert {row["trace_label"] for row in rows} == {"clean_not_admitted"}
    assert {row["admission_failed"] for row in rows} == {"C_log"}


def test_import_never_overwrites_a_run(run):
    with pytest.raises(InvalidInputError, match=r"holds episodes\.nc; choose another"):
        dispatch(["import", str(REPLAY / "episodes.csv"), str(REPLAY / "rows.csv"), "--out", str(run)])


def test_import_with_a_manifest(imported, tmp_path, capsys):
    files = [str(imported / name) for name in ("episodes.csv", "rows.csv", "manifest.csv")]
    assert dispatch(["import", *files, "--out", str(tmp_path / "again")]) == 0
    assert "24 rows, 7100 of 7100 planned episodes recorded" in capsys.readouterr().out
    for name in ("episodes.csv", "rows.csv", "manifest.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (imported / name).read_bytes()
