"""Runs merged of parts: equal to the run in one piece, or refused with the names of both."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from evaluation_runs import equal, make_plan, without_varying
from judging_data import evaluation

from roep_gym.cli.main import main
from roep_gym.error import InvalidInputError
from roep_gym.evaluate import compare, csv_text, evaluate, make_tables, merge_runs, open_run
from roep_gym.evaluate.comparison.merge import merged_dataset
from roep_gym.evaluate.export.run_export import RunExport
from roep_gym.evaluate.report.figures import draw_figures
from roep_gym.evaluate.report.style import encoded
from roep_gym.evaluate.store.flat_tables import write_tables
from roep_gym.evaluate.store.row_shield import load_row_shield
from roep_gym.evaluate.store.run_directory import RunDirectory
from roep_gym.evaluate.store.storage import load_dataset, read_run, save_dataset

TASKS = ("tabletop/carry", "tabletop/reach")
UNSHIELDED = ("baseline", "baseline_clone", "perturb", "perturb_clone")
SHIELDED = ("bootstrap_clean", "bootstrap_perturb", "recovery", "full")


def plan_of(tasks=TASKS, conditions=("main",), **changes):
    return make_plan(tasks=list(tasks), conditions=list(conditions), frames="looked", **changes)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a run in one piece, and its halves by rows and by conditions."""
    folder = tmp_path_factory.mktemp("runs")
    parts = {
        "whole": plan_of(),
        "carry": plan_of(TASKS[:1]),
        "reach": plan_of(TASKS[1:]),
        "unshielded": plan_of(conditions=UNSHIELDED),
        "shielded": plan_of(conditions=SHIELDED),
    }
    for name, plan in parts.items():
        evaluate(plan, folder / name)
    return {name: folder / name for name in parts}


@pytest.fixture(scope="module", params=[("carry", "reach"), ("unshielded", "shielded")], ids="-".join)
def merged(request, runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return merge_runs([runs[name] for name in request.param], tmp_path_factory.mktemp("merged") / "run")


def test_records_equal_those_of_the_run_in_one_piece(merged, runs):
    assert "trained" in read_run(runs["whole"])["shield_status"].values  # or shields would not be tried
    data, whole = (load_dataset(folder / "episodes.nc") for folder in (merged, runs["whole"]))
    xr.testing.assert_identical(
        without_varying(data.drop_attrs(deep=False)), without_varying(whole.drop_attrs(deep=False))
    )
    assert {k: v for k, v in data.attrs.items() if k != "provenance"} == {
        k: v for k, v in whole.attrs.items() if k != "provenance"
    }
    shutil.copy(merged / "episodes.nc", merged.parent / "kept.nc")
    save_dataset(data.assign_attrs(provenance=whole.attrs["provenance"]), merged / "episodes.nc")
    try:
        equal(merged, runs["whole"])  # steps too
    finally:
        shutil.move(merged.parent / "kept.nc", merged / "episodes.nc")


def test_files_equal_those_of_the_run_in_one_piece(merged, runs):
    for kind in ("frames", "shields"):
        names = sorted(path.name for path in (runs["whole"] / kind).iterdir())
        assert names == sorted(path.name for path in (merged / kind).iterdir())
    for path in (runs["whole"] / "frames").iterdir():
        with np.load(path) as one, np.load(merged / "frames" / path.name) as other:
            assert one.files == other.files
            assert all(np.array_equal(one[name], other[name]) for name in one.files)
    for row in plan_of().rows:  # the file is bound to its row
        shields = [load_row_shield(RunDirectory(folder), row) for folder in (merged, runs["whole"])]
        assert shields[0] == shields[1]
    assert (merged / "rows.csv").read_bytes() == (runs["whole"] / "rows.csv").read_bytes()
    assert (merged / "manifest.csv").read_bytes() == (runs["whole"] / "manifest.csv").read_bytes()


def test_frames_are_linked_where_possible(merged, runs):
    stored = {
        path.stat().st_ino
        for name, run in runs.items()
        if name != "whole"
        for path in (run / "frames").iterdir()
    }
    assert {path.stat().st_ino for path in (merged / "frames").iterdir()} <= stored


def test_claims_tables_and_figures_equal(merged, runs):
    opened = [open_run(folder) for folder in (merged, runs["whole"])]
    xr.testing.assert_identical(opened[0].judgement.verdicts, opened[1].judgement.verdicts)
    tables = [make_tables(run) for run in opened]
    assert [csv_text(table) for table in tables[0]] == [csv_text(table) for table in tables[1]]
    figures = [draw_figures(run) for run in opened]
    assert [drawn.figure is None for drawn in figures[0]] == [drawn.figure is None for drawn in figures[1]]
    for one, other in zip(*figures, strict=True):
        if one.figure is not None and other.figure is not None:
            assert encoded(one.figure, "png") == encoded(other.figure, "png"), one.name


def test_everything_that_reads_provenance_reads_that_of_a_merged_run(merged, runs, tmp_path, capsys):
    provenance = json.loads(load_dataset(merged / "episodes.nc").attrs["provenance"])
    whole = json.loads(load_dataset(runs["whole"] / "episodes.nc").attrs["provenance"])
    digests = [member["plan_digest"] for member in provenance["merged"]]
    assert len(set(digests)) == 2
    assert whole["plan_digest"] not in digests
    for name in ("profiles", "versions", "fingerprints"):
        assert provenance[name] == whole[name]
    for name in ("name", "models", "tasks", "environment", "step_budget", "suite_step_budgets", "frames"):
        assert provenance["plan"][name] == whole["plan"][name]
    comparison = compare(read_run(merged), read_run(runs["whole"]))
    assert {premise.verdict for premise in comparison.premises} == {"equal"}
    assert len(RunExport(merged)) == len(RunExport(runs["whole"]))
    assert main(["report", str(merged), "--out", str(tmp_path), "--format", "html"]) == 0
    page = (tmp_path / "report.html").read_text()
    assert all(digest in page for digest in digests)
    again = merge_runs([merged, _another_model(merged, tmp_path)], tmp_path / "again")
    inside = json.loads(read_run(again).attrs["provenance"])["merged"]
    assert [member["plan_digest"] for member in inside[:2]] == digests


def _another_model(run: Path, folder: Path) -> Path:
    """Return a run of the same records under another model's name."""
    data = load_dataset(run / "episodes.nc")
    (folder / "other").mkdir()
    save_dataset(
        data.assign_coords(model=("row", data["model"].values + "2")), folder / "other" / "episodes.nc"
    )
    return folder / "other"


def test_a_merged_run_is_not_continued(merged, capsys):
    before = sorted(path.name for path in merged.iterdir())
    with pytest.raises(InvalidInputError, match=r"records without a plan and a journal, as of a merged"):
        evaluate(plan_of(), merged)
    assert main(["evaluate", "--out", str(merged)]) == 2
    assert "records without a plan and a journal" in capsys.readouterr().err
    assert sorted(path.name for path in merged.iterdir()) == before


def test_the_command_says_what_it_made(runs, tmp_path, capsys):
    arguments = ["merge", str(runs["carry"]), str(runs["reach"]), "--out", str(tmp_path / "run")]
    assert main(arguments) == 0
    assert "2 runs with 2 rows and 8 conditions" in capsys.readouterr().out
    assert main(arguments) == 2  # it exists
    assert "Expected a new folder" in capsys.readouterr().err


def test_nothing_is_left_of_a_merge_that_fails(runs, tmp_path):
    broken = tmp_path / "reach"
    shutil.copytree(runs["reach"], broken)
    (broken / "steps" / "0000-full.nc").write_bytes(b"damaged")
    with pytest.raises(InvalidInputError):
        merge_runs([runs["carry"], broken], tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["reach"]


def changed(run: Path, folder: Path, change) -> Path:
    """Return a copy of a run's Dataset, changed."""
    data = load_dataset(run / "episodes.nc")
    provenance = json.loads(data.attrs["provenance"])
    change(data, provenance)
    (folder / "changed").mkdir()
    save_dataset(data.assign_attrs(provenance=json.dumps(provenance)), folder / "changed" / "episodes.nc")
    return folder / "changed"


def _set(name, value):
    def change(data, provenance):
        data[name].values[:] = value

    return change


CONTRADICTIONS = {
    "step budgets differ": lambda data, provenance: provenance["plan"].update(step_budget=61),
    "environments differ": lambda data, provenance: provenance["plan"]["environment"].update(image_size=8),
    "profiles differ": lambda data, provenance: provenance["profiles"]["medium"].update(name="other"),
    "seed_groups differ: 3 and 5": lambda data, provenance: provenance["plan"].update(seed_groups=5),
    "episodes differ: 2 and 7": lambda data, provenance: provenance["plan"].update(episodes=7),
    "the policies called noisy differ": lambda data, provenance: provenance["plan"]["models"][0].update(
        policy="x"
    ),
    "keys differ": _set("env_seed", 1),
    "scenes differ": _set("scene_hash", 1),
    "instructions differ": _set("instruction", "another"),
    "schema version 1, got 0": lambda data, provenance: data.attrs.update(schema_version=0),
    "native and flat": lambda data, provenance: data.attrs.update(records="flat"),
}


@pytest.mark.parametrize("message", CONTRADICTIONS)
def test_runs_that_contradict_each_other_are_refused_by_name(runs, tmp_path, message):
    other = changed(runs["shielded"], tmp_path, CONTRADICTIONS[message])
    with pytest.raises(InvalidInputError, match=message) as refused:
        merge_runs([runs["unshielded"], other], tmp_path / "run")
    assert str(other) in str(refused.value)
    assert "schema" in message or str(runs["unshielded"]) in str(refused.value)
    assert not (tmp_path / "run").exists()


def test_a_condition_in_two_runs_is_refused(runs, tmp_path):
    with pytest.raises(
        InvalidInputError, match=r"baseline, .* of noisy/tabletop/carry is in both .*whole and .*carry"
    ):
        merge_runs([runs["whole"], runs["carry"]], tmp_path / "run")


def test_two_shields_of_one_row_are_refused(runs, tmp_path):
    folders = [tmp_path / name for name in ("clean", "perturb")]
    pairs = (("bootstrap_clean", "recovery"), ("bootstrap_perturb", "full"))
    for folder, conditions in zip(folders, pairs, strict=True):
        evaluate(plan_of(TASKS[:1], conditions), folder)
    with pytest.raises(
        InvalidInputError, match=r"Expected one shield_.* of the row noisy/tabletop/carry"
    ) as refused:
        merge_runs(folders, tmp_path / "run")
    assert all(str(folder) in str(refused.value) for folder in folders)


def test_other_fingerprints_are_merged_and_noted(runs, tmp_path):
    def elsewhere(data, provenance):
        data["fingerprint"].values[data["fingerprint"].values != -1] += 1
        provenance["fingerprints"] = {"elsewhere": {}}

    other = changed(runs["shielded"], tmp_path, elsewhere)
    run = open_run(merge_runs([runs["unshielded"], other], tmp_path / "run"))
    assert len(run.provenance["fingerprints"]) == 2
    notes = run.judgement.verdicts["notes"].values
    assert any("pairs across numeric fingerprints" in note for note in notes)


def test_a_contract_that_was_observed_with_two_values_is_judged_anew(runs, tmp_path):
    def elsewhere(data, provenance):
        for row, text in enumerate(data["contract"].values):
            lines = json.loads(text)
            for line in lines:
                if line["name"] == "chunk_length":
                    line["observed"] = 9
            data["contract"].values[row] = json.dumps(lines)

    other = changed(runs["shielded"], tmp_path, elsewhere)
    data = read_run(merge_runs([runs["unshielded"], other], tmp_path / "run"))
    assert set(data["contract_status"].values) == {"mismatch"}
    lines = {line["name"]: line for line in json.loads(data["contract"].values[0])}
    assert lines["chunk_length"]["observed"] == "varied: [1, 9]"
    assert set(data["contract_unresolved"].values) == {1}


def test_contracts_that_differ_are_refused_where_nothing_was_observed():
    def declaring(length, conditions):
        line = {
            "name": "chunk_length",
            "declared": length,
            "observed": None,
            "verdict": "unknown",
            "resolution": "",
        }
        return evaluation(conditions=conditions, rows={"contract": json.dumps([line])})

    halves = {"one": declaring(1, UNSHIELDED), "two": declaring(8, ("recovery", "full"))}
    with pytest.raises(InvalidInputError, match="chunk_length is declared as 1 in one and 8 in two"):
        merged_dataset(halves)


def test_step_budgets_of_other_suites_are_kept(runs):
    def of_suite(name, budget):
        data = evaluation(records="native", rows={"suite": name})
        plan = {"name": name, "models": [], "tasks": [name], "conditions": [], "step_budget": budget}
        provenance = {"plan": {**plan, "suite_step_budgets": {}}, "plan_digest": name, "versions": {}}
        return data.assign_attrs(provenance=json.dumps({**provenance, "fingerprints": {}}))

    data = merged_dataset({"one": of_suite("one", 280), "two": of_suite("two", 400)})
    for suite, budget in (("one", 280), ("two", 400)):
        other = of_suite(suite, budget)
        budgets = [p for p in compare(data, other).premises if p.name == "step budgets"]
        assert [(p.suite, p.verdict) for p in budgets] == [(suite, "equal")]


def test_flat_tables_are_merged_among_themselves(runs, tmp_path):
    folders = {}
    for name in ("whole", "unshielded", "shielded"):
        folders[name] = tmp_path / name
        folders[name].mkdir()
        data = load_dataset(runs[name] / "episodes.nc")
        note = np.array(
            [f"line of {c}" for c in data["condition"].values[data["condition_index"].values]], object
        )
        if name != "shielded":  # a column of one run alone
            note = np.where(
                np.isin(data["condition"].values[data["condition_index"].values], UNSHIELDED), note, ""
            )
            data["episode_extra_0"] = ("episode", note, {"column": "remark"})
        write_tables(data, folders[name])
    merged = merge_runs([folders["unshielded"], folders["shielded"]], tmp_path / "run")
    data, whole = read_run(merged), read_run(folders["whole"])
    assert data.attrs["records"] == "flat"
    xr.testing.assert_identical(
        without_varying(data.drop_attrs(deep=False)), without_varying(whole.drop_attrs(deep=False))
    )
    assert [member["name"] for member in json.loads(data.attrs["provenance"])["merged"]] == [
        "unshielded",
        "shielded",
    ]
    assert main(["report", str(merged), "--format", "html"]) == 0
    with pytest.raises(InvalidInputError, match="flat and native"):
        merge_runs([folders["unshielded"], runs["shielded"]], tmp_path / "mixed")


def test_flat_tables_that_contradict_each_other_are_refused(tmp_path):
    folders = []
    for name, model in (("one", "model"), ("two", "model ")):
        folders.append(tmp_path / name)
        folders[-1].mkdir()
        write_tables(evaluation(rows={"model": model}), folders[-1])
    with pytest.raises(InvalidInputError, match="differ visibly"):
        merge_runs(folders, tmp_path / "run")


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_runs_are_refused(runs, tmp_path, count):
    with pytest.raises(InvalidInputError, match="two runs or more"):
        merge_runs([runs["carry"]] * count, tmp_path / "run")
