"""The claim table in its forms."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from judging_data import drop, evaluation, failures

from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.judging import verdict_document
from roep_gym.evaluate.judging.checks import CHECKS
from roep_gym.evaluate.judging.gate import judge
from roep_gym.evaluate.report.claim_tables import claims
from roep_gym.evaluate.report.records import Run
from roep_gym.evaluate.report.render import FORMS, csv_text, latex_text, markdown_text
from roep_gym.evaluate.store.storage import read_run

REPLAY = Path(__file__).parent / "data" / "replay"


def judged(data, config=None):
    return Run(Path("nowhere"), data, judge(data, config))


def csv_row(run):
    return next(csv.DictReader(io.StringIO(csv_text(claims(run)))))


def shown_row(run):
    table = claims(run).for_reader("people")
    return {column.heading: cell.text for column, cell in zip(table.columns, table.rows[0], strict=True)}


def test_columns_of_the_csv():
    header = csv_text(claims(judged(evaluation()))).splitlines()[0].split(",")
    assert header[:6] == ["model", "suite", "task", "trace_label", "claim_status", "limiting_factor"]
    assert header[6:26] == [f"{check.name}_{part}" for check in CHECKS for part in ("value", "verdict")]
    assert header[26:] == ["admission_failed", "effect", "notes", "thresholds"]


def test_values_and_verdicts_of_the_csv():
    row = csv_row(judged(evaluation({"recovery": failures(5), "full": failures(2)})))
    assert row["limiting_factor"] == "Clean recovery-vs-baseline harm"
    assert (row["clean_recovery_harm_value"], row["clean_recovery_harm_verdict"]) == ("0.1", "fail")
    assert (row["full_vs_perturb_effect_value"], row["full_vs_perturb_effect_verdict"]) == ("0.04", "pass")


def test_the_csv_says_which_thresholds_are_not_the_papers():
    assert csv_row(judged(evaluation()))["thresholds"] == "paper"
    relaxed = GateConfig(max_clean_harm=0.5, min_paired_support=3)
    assert set(csv_row(judged(evaluation(), relaxed))["thresholds"].split("; ")) == {
        "max_clean_harm=0.5",
        "min_paired_support=3",
    }


def test_checks_that_cannot_be_computed_say_so():
    rows = {"shield_status": "failed", "shield_reason": "no risk-positive support"}
    row = csv_row(judged(evaluation(rows=rows)))
    assert row["recovery_activity_value"] == "N/A"
    assert row["recovery_activity_verdict"] == "not computable: no shield (failed: no risk-positive support)"


def test_downstream_of_a_row_that_is_not_admitted_is_not_applicable():
    data = evaluation()
    drop(data, "baseline", 0)
    run = judged(data)
    row = csv_row(run)
    assert row["admission_failed"] == "C_log"
    assert (row["clean_admission_value"], row["clean_admission_verdict"]) == ("0", "fail")
    for check in CHECKS[1:]:
        assert row[f"{check.name}_value"] == "N/A"
        assert row[f"{check.name}_verdict"] == "N/A: clean prerequisite not met (C_log)"
    shown = shown_row(run)
    assert [shown[name] for name in ("Medium SR", "Delta SR, floor")] == ["N/A"] * 2
    assert shown["Clean SR"] == "1.00 (49/49)"
    assert shown["Checks behind it"] == "1 (C_log: 1 of 50 planned baseline episodes absent)"
    # The raw rates stay in the document.
    document = verdict_document.verdict_document(run.judgement)["rows"][0]
    assert document["downstream"] == "N/A: clean prerequisite not met (C_log)"
    assert document["rates"]["perturb"]["success"]["count"] == 50
    assert document["checks"][8]["verdict"] == "pass"


def test_table_shows_the_limiting_factor_and_the_checks_behind_it():
    perturb = failures(18)
    full = failures(30)
    data = evaluation(
        {"perturb": perturb, "perturb_clone": failures(19), "recovery": failures(5), "full": full}
    )
    shown = shown_row(judged(data))
    assert list(shown)[:3] == ["Model", "Suite", "Task"]
    assert shown["Medium SR"] == "0.64 (32/50)"
    assert shown["Delta SR, floor"] == "+0.36 above 0.02"
    assert shown["Claim status"] == "Recovery-facing claim withheld"
    assert shown["Limiting factor"] == "Clean recovery-vs-baseline harm"
    assert shown["Checks behind it"] == "6 (0.1 exceeds 0.08), 9"


def test_document_is_json_with_the_configuration():
    config = GateConfig(max_clean_harm=0.5)
    run = judged(evaluation(conditions=["baseline", "perturb"]), config)
    document = json.loads(verdict_document.verdicts_json(run.judgement))
    assert document == json.loads(json.dumps(verdict_document.verdict_document(run.judgement)))
    assert GateConfig(**document["config"]) == config
    assert document["departures_from_the_paper"] == {"max_clean_harm": 0.5}
    assert document["records"] == "flat"
    (row,) = document["rows"]
    assert [check["number"] for check in row["checks"]] == list(range(1, 11))
    assert row["checks"][5]["rule"] == "HR_total(recovery given baseline) <= 0.5"
    assert row["checks"][5]["value"] is None
    assert row["rates"].keys() == {"baseline", "perturb"}
    assert row["harm"].keys() == {"perturb given baseline"}
    assert row["noise_floor"]["success"]["floor"] is None


@pytest.fixture(scope="module")
def replay():
    return judged(read_run(REPLAY))


def test_markdown_has_one_line_a_row(replay):
    lines = markdown_text(claims(replay)).splitlines()
    assert [line.count("|") for line in lines[2:28]] == [10] * 26
    assert lines[29].startswith("- 24 rows: 16 supported, 7 withheld, 1 insufficient, 0 not admitted.")


def test_latex_escapes_names(replay):
    text = latex_text(claims(replay))
    assert r"libero\_goal" in text
    assert not re.search(r"(?<!\\)_", text)
    assert len(re.findall(r"^OpenVLA|^X-VLA|^VLA-Adapter", text, re.MULTILINE)) == 24


@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_what_stands_beside_the_verdicts(form):
    rows = {"contract_status": "unknown", "contract_note": "the authors were asked"}
    written = " ".join(FORMS[form].write(claims(judged(evaluation(rows=rows)))).split())
    assert "contract unknown, accepted: the authors were asked" in written
    assert written.count("repeats every record") == 1


@pytest.mark.parametrize("form", ["json", *FORMS])
def test_no_output_words_a_status_as_a_recommendation(replay, form):
    if form == "json":
        text = verdict_document.verdicts_json(replay.judgement).lower()
    else:
        text = FORMS[form].write(claims(replay)).lower()
    for word in ("deploy", "certif", "recommend", "is safe", "recovery success"):
        assert word not in text
