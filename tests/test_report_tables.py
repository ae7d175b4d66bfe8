"""Every table: its forms, the published numbers it must give, hand-made rows, and reasons for what is missing."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from judging_data import drop, evaluation, failures
from report_runs import FORBIDDEN_WORDS, PAPER, REPLAY, SWEEP, native, replay, run_of, tabletop_run  # noqa: F401
from rich.console import Console

from roep_gym import escape
from roep_gym.error import InvalidInputError, UnknownNameError
from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.judging.gate import judge
from roep_gym.evaluate.judging.noise_floor import DISTINGUISHABLE, SEVERITIES, WITHIN_VARIABILITY
from roep_gym.evaluate.report.records import Run
from roep_gym.evaluate.report.render import FORMS, csv_text, html_text, latex_text, markdown_text, print_table
from roep_gym.evaluate.report.table import Cell, Column, Table, count, missing, number, rate, text
from roep_gym.evaluate.report.tables import TABLES, make_tables

lines = Table.lines
TOLERANCE = 0.0005 + 1e-9
"""Published means are rounded in no one way."""


def published(name):
    with (PAPER / f"{name}.csv").open() as stream:
        return list(csv.DictReader(stream))


def csv_lines(table):
    return list(csv.DictReader(io.StringIO(csv_text(table))))


# The model and its forms

ESCAPED = {
    "table": lambda text: "".join(escape.visible(text).split()),
    "markdown": escape.markdown,
    "latex": escape.latex,
    "html": lambda text: text,
}
"""How a text appears in a form; the terminal's columns are aligned by spaces, and HTML is read back by a parser."""
READ = {
    "csv": lambda written: list(csv.reader(io.StringIO(written))),
    "table": lambda written: terminal_rows(written),
    "markdown": lambda written: [
        line[2:-2].split(" | ")
        for line in written.splitlines()
        if line.startswith("| ") and ":--" not in line
    ],
    "latex": lambda written: [
        line.removesuffix(r" \\").split(" & ")
        for line in written.splitlines()
        if line.endswith(r"\\") and not line.startswith(r"\multicolumn")
    ],
    "html": lambda written: [
        ["".join(cell.itertext()) for cell in row] for row in ElementTree.fromstring(written).iter("tr")
    ],
}
"""The headings and rows of a table as each form shows them."""


def terminal_rows(written):
    """Return the rows between the title and the notes, each as one text without spaces."""
    rows = itertools.takewhile(str.strip, written.splitlines()[2:])
    return [["".join(line.split())] for line in rows if "──" not in line]


def for_people(table, escaped):
    """Return headings and rows as people read them, a missing value with the number of its reason."""
    table, marks = table.for_reader("people"), {}

    def shown(cell):
        if cell.value is not None or not cell.reason:
            return escaped(cell.text)
        return escaped(f"{cell.text} [{marks.setdefault(cell.reason, len(marks) + 1)}]")

    return [escaped(c.heading) for c in table.columns], [[shown(cell) for cell in row] for row in table.rows]


def exact(table):
    """Return the header and the rows of a CSV file."""
    table = table.for_reader("programs")
    header = [name for c in table.columns for name in (c.name, *(f"{c.name}_{part}" for part in c.parts))]
    rows = []
    for row in table.rows:
        values = []
        for column, cell in zip(table.columns, row, strict=True):
            values.append(f"N/A: {cell.reason}" if cell.value is None else cell.value)
            values += [cell.parts.get(part, "N/A") for part in column.parts]
        rows.append([f"{v:.10g}" if isinstance(v, float) else escape.csv(str(v)) for v in values])
    return header, rows


def small():
    columns = (Column("name", "Name|", "left"), Column("sr", "SR", parts=("count", "n")))
    rows = (
        (text("a_b & <c>"), rate(0.5, 5, 10, (0.2366, 0.7634), "")),
        (text(""), missing("not run")),
        (text("x"), missing("not planned")),
        (text("y"), missing("not run")),
    )
    return Table("T1", "A title", columns, rows, ("a note",))


def test_a_row_has_one_cell_a_column():
    with pytest.raises(InvalidInputError, match=re.escape("Expected 1 cells in each row of table T, got 2.")):
        Table("T", "", (Column("a", "A"),), ((text("1"), text("2")),))


def test_undefined_numbers_and_unrecorded_counts_are_missing_with_their_reason():
    assert number(float("nan"), ".2f", "no pairs") == Cell(None, "N/A", "no pairs")
    assert count(-1) == Cell(None, "N/A", "not recorded")
    assert count(0).value == 0


def test_csv_has_parts_in_columns_and_the_reason_in_the_cell():
    assert csv_text(small()).splitlines() == [
        "name,sr,sr_count,sr_n",
        "a_b & <c>,0.5,5,10",
        ",N/A: not run,N/A,N/A",
        "x,N/A: not planned,N/A,N/A",
        "y,N/A: not run,N/A,N/A",
    ]


def test_markdown_marks_what_is_missing_and_explains_it_once():
    assert markdown_text(small()).splitlines() == [
        "**Table T1. A title**",
        "",
        r"| Name\| | SR |",
        "| :-- | --: |",
        "| a_b & &lt;c> | 0.50 (5/10) [0.24, 0.76] |",
        "| - | N/A [1] |",
        "| x | N/A [2] |",
        "| y | N/A [1] |",
        "",
        "- [1] not run",
        "- [2] not planned",
        "- a note",
    ]


def test_latex_escapes_text():
    written = latex_text(small())
    assert r"a\_b \& $<$c$>$ & 0.50 (5/10) {[}0.24, 0.76{]} \\" in written
    assert written.count("{") == written.count("}")
    assert r"\multicolumn{2}{p{0.95\linewidth}}{\footnotesize {[}1{]} not run} \\" in written


def test_html_escapes_text_and_sorts_what_is_missing_last():
    written = html_text(small())
    assert "a_b &amp; &lt;c&gt;" in written
    assert '<td class="right" data-value="0.5">' in written
    assert '<td class="right" data-value="">N/A [1]</td>' in written


@pytest.mark.parametrize("width", [90, 120])
@pytest.mark.parametrize("name", ["3", "A4", "checks"])
def test_a_terminal_gets_blocks_of_columns_that_fit_and_break_no_word(replay, name, width):
    table, stream = TABLES[name](replay), io.StringIO()
    print_table(table, Console(file=stream, width=width, force_terminal=True, color_system=None))
    shown = stream.getvalue()
    body = shown.partition("\n[1]")[0].splitlines()[1 : -len(table.notes)]
    assert max(map(len, body)) <= width
    words = set(shown.split())
    for cell in itertools.chain(*table.rows):
        assert set(cell.text.split()) <= words
    # Model and suite are a line above their rows.
    for column in table.columns[2:]:
        assert set(column.heading.split()) <= words
    assert "OpenVLA  libero_goal" in shown


def test_a_pipe_gets_the_full_width():
    assert [line.rstrip() for line in FORMS["table"].write(small()).splitlines() if line.strip()][:3] == [
        "Table T1. A title",
        " Name|                             SR",
        " ────────────────────────────────────",
    ]
    assert max(map(len, FORMS["table"].write(small()).splitlines())) < 40


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", TABLES)
def test_every_form_shows_every_cell_and_words_no_status_as_a_recommendation(replay, native, name, form):
    for run in (replay, native):
        table = TABLES[name](run)
        written = FORMS[form].write(table)
        shown, *cells = READ[form](written)
        if form == "csv":
            assert (shown, cells) == exact(table)
        else:
            headings, rows = for_people(table, ESCAPED[form])
            if form == "table":
                headings, rows = ["".join(headings)], [["".join(row)] for row in rows]
            assert (shown, cells) == (headings, rows)
        assert not [word for word in FORBIDDEN_WORDS if word in written.lower()]


@pytest.mark.parametrize("name", TABLES)
def test_every_missing_cell_has_a_reason(replay, native, name):
    for run in (replay, native):
        table = TABLES[name](run)
        bare = [cell for row in table.rows for cell in row if cell.value is None and not cell.reason]
        assert bare == []


# The published numbers


def test_table_3_is_the_published_one(replay):
    for got, want in zip(csv_lines(TABLES["3"](replay)), published("table3_outcomes"), strict=True):
        for name in ("model", "task", "claim_status", "trace_label", "limiting_factor"):
            assert got[name] == want[name]
        assert got["suite"] == f"libero_{want['suite'].lower()}"
        assert (got["clean_sr_count"], got["perturb_sr_count"]) == (
            want["clean_successes"],
            want["perturb_successes"],
        )
        assert got["clean_sr_n"] == got["perturb_sr_n"] == want["episodes"]
        for name in ("clean_sr", "perturb_sr", "delta_sr", "perturb_timeout_rate"):
            assert float(got[name]) == pytest.approx(float(want[name]), abs=1e-9)


def test_table_4_agrees_with_every_published_mean(replay):
    got = [line for line in lines(TABLES["4"](replay)) if line["suite"] != "all"]
    harm = {"mean_hr_timeout", "mean_hr_unsafe"}  # Table 3's counts do not determine them.
    for line, want in zip(got, published("table4_aggregates"), strict=True):
        assert (line["model"], line["suite"]) == (want["model"], f"libero_{want['suite'].lower()}")
        for name in want.keys() - harm - {"model", "suite", "rows_effect_above_floor"}:
            assert abs(line[name] - float(want[name])) <= TOLERANCE, name
        assert f"{line['rows_effect_above_floor']}/4" == want["rows_effect_above_floor"]


def test_table_4_agrees_with_the_published_means_of_each_model(replay):
    got = {line["model"]: line for line in lines(TABLES["4"](replay)) if line["suite"] == "all"}
    want = {
        "OpenVLA": (0.708, 0.473, 0.527),
        "X-VLA": (0.992, 0.963, 0.037),
        "VLA-Adapter": (0.933, 0.542, 0.458),
    }
    for model, values in want.items():
        names = ("mean_clean_sr", "mean_perturb_sr", "mean_perturb_timeout_rate")
        for name, value in zip(names, values, strict=True):
            assert abs(got[model][name] - value) <= TOLERANCE, (model, name)


def test_table_a3_is_the_published_one(replay):
    *groups, total = lines(TABLES["A3"](replay))
    for got, want in zip(groups, published("tableA3_status_counts"), strict=True):
        assert got["suite"] == f"libero_{want['suite'].lower()}"
        assert {k: str(v) for k, v in got.items() if k != "suite"} == {
            k: v for k, v in want.items() if k != "suite"
        }
    assert list(total.values())[2:] == [16, 7, 1, 0]


def test_table_a4_has_the_published_rows_under_one_aggregation_or_the_other(replay):
    table = TABLES["A4"](replay).where(lambda values: values["task"] == "object_cream_cheese")
    for got, want in zip(lines(table), published("tableA4_harm_support"), strict=True):
        assert got["model"] == want["model"]
        assert got["paired_support"] == int(want["paired_support"])
        for ours, theirs in {
            "clean_sr": "clean_sr", "perturb_sr": "perturb_sr", "perturb_timeout_rate": "perturb_timeout_rate",
            "nominal_clone_difference": "nominal_clone_sr_delta",
            "perturbed_clone_difference": "perturb_clone_sr_delta",
        }.items():  # fmt: skip
            assert abs(got[ours] - float(want[theirs])) <= TOLERANCE
        total = float(want["hr_full_vs_perturb_seed_macro"])
        assert min(abs(got[f"hr_total_{how}"] - total) for how in ("pooled", "seed_macro")) <= TOLERANCE
        assert got["hr_unsafe_pooled"] == float(want["hr_unsafe"])
    shown = {
        row[0].text: cell.text for row, cell in zip(table.rows, table.column("paired_support"), strict=True)
    }
    assert shown == {"OpenVLA": "5*", "X-VLA": "47", "VLA-Adapter": "4*"}


def test_table_a5_has_the_published_intervention_means_of_vla_adapter(replay):
    got = [line for line in lines(TABLES["A5"](replay)) if line["model"] == "VLA-Adapter"]
    means = [25.72, 18.92, 24.70, None, 165.80, 175.80, 144.00, 187.60]
    assert [line["full_mean_intervention_steps"] for line in got] == [
        value if value is None else pytest.approx(value, abs=0.005) for value in means
    ]
    assert [line["bootstrap_status"] for line in got].count("failed") == 1
    assert got[3]["main_limitation"] == "no risk-positive support"
    assert TABLES["A5"](replay).column("train_samples")[0].reason == "the records hold no training metadata"


# Hand-made rows


def test_a_row_that_is_not_admitted_shows_no_downstream_value():
    data = evaluation()
    drop(data, "baseline", 0)
    (line,) = TABLES["3"](run_of(data)).rows
    shown = dict(zip([c.name for c in TABLES["3"](run_of(data)).columns], line, strict=True))
    assert shown["clean_sr"].parts["count"] == 49
    for name in ("perturb_sr", "delta_sr", "noise_floor_sr", "perturb_timeout_rate"):
        assert shown[name] == Cell(None, "N/A", "clean prerequisite not met (C_log)")


def test_downstream_values_of_a_row_that_is_not_admitted_enter_no_table():
    data = evaluation()
    drop(data, "baseline", 0)
    run, barred = run_of(data), "clean prerequisite not met (C_log)"
    (means, _) = lines(TABLES["4"](run))
    assert means["mean_clean_sr"] == 1
    assert means["mean_perturb_sr"] is means["mean_noise_floor_sr"] is means["mean_hr_unsafe"] is None
    for name, columns in {
        "A4": ("perturb_sr", "paired_support", "hr_total_pooled", "nominal_clone_difference"),
        "A5": ("full_mean_intervention_steps",),
        "A6a": ("mild_sr",),
        "effects": ("pairs", "paired_delta_sr", "noise_floor_sr"),
    }.items():
        for column in columns:
            assert TABLES[name](run).column(column)[0].reason == barred, (name, column)


def test_a_condition_that_was_not_planned_is_named():
    run = run_of(evaluation(conditions=["baseline", "perturb"]))
    (line,) = TABLES["3"](run).rows
    assert line[6].reason == "'baseline_clone' is not planned"
    assert line[3].value == 1
    (line,) = TABLES["A4"](run).rows
    assert line[6].reason == "'full' is not planned"


def test_a_missing_shield_is_the_reason_for_missing_harm():
    rows = {"shield_status": "failed", "shield_reason": "no risk-positive support"}
    data = evaluation(rows=rows)
    drop(data, "recovery")
    drop(data, "full")
    table = TABLES["A4"](run_of(data))
    assert {table.column(f"hr_total_{how}")[0].reason for how in ("pooled", "seed_macro")} == {
        "no shield (failed: no risk-positive support)"
    }


def test_unsafe_harm_names_the_channels_that_were_active(native, replay):
    channels = TABLES["A4"](native).column("unsafe_channels")
    assert channels[0].reason == native.absent(0, "full")
    attempts = native.data["unsafe_channel_attempts"].values[native.at(1, "full")]
    active = native.data["unsafe_channel"].values[(attempts >= 0).any(axis=0)]
    assert active.size
    assert channels[1].value == ", ".join(active)
    assert (
        TABLES["A4"](replay).column("unsafe_channels")[0].reason
        == "not recorded one by one; attempts are counted."
    )
    for name in ("4", "A4"):
        assert TABLES[name](native).notes[-1] == (
            f"Unsafe channels: {native.channels().sentence} A value of 0 means not observed under them, never safe."
        )
    silent = evaluation()
    silent["unsafe_attempts"].values[:] = -1
    assert "none: unsafe attempts were not observed." in TABLES["A4"](run_of(silent)).notes[-1]


def test_success_shows_rates_failures_and_what_did_not_run():
    reasons = ["success"] * 40 + ["timeout"] * 7 + ["unsafe_attempt"] * 3
    data = evaluation({"baseline": reasons})
    drop(data, "baseline", 0)
    line = lines(TABLES["success"](run_of(data)))[0]
    assert (line["condition"], line["failures"], line["not_run"]) == (
        "baseline", "7 timeout, 3 unsafe_attempt", 1
    )  # fmt: skip
    assert line["success_rate"] == pytest.approx(39 / 49)


def test_severity_is_the_mean_over_tasks_with_its_clones():
    data = evaluation(
        {
            "mild": failures(5), "mild_clone": failures(8),
            "strong": failures(40), "strong_clone": failures(50),
        },
        conditions=SWEEP,
    )  # fmt: skip
    run = run_of(data)
    (by_model,), (by_suite,) = lines(TABLES["A6a"](run)), lines(TABLES["A6b"](run))
    for line in (by_model, by_suite):
        values = [line[name] for name in ("mild_sr", "strong_sr", "strong_timeout_rate")]
        np.testing.assert_allclose(values, [0.9, 0.2, 0.8])
        clones = [line[f"{name}_clone_difference"] for name in ("mild", "strong")]
        np.testing.assert_allclose(clones, [0.06, 0.2])
        assert (line["mild_clone_pairs"], line["strong_clone_pairs"]) == (50, 50)
    assert by_suite["suite"] == "suite"


def test_the_severity_of_a_row_is_set_against_the_floor_of_its_own_clones():
    data = evaluation(
        {
            "perturb": failures(4), "perturb_clone": failures(4),
            "mild": failures(5), "mild_clone": failures(0),
            "strong": failures(40), "strong_clone": failures(30),
        },
        conditions=SWEEP,
    )  # fmt: skip
    found = {line["severity"]: line for line in lines(TABLES["severity"](run_of(data)))}
    np.testing.assert_allclose([found[name]["delta_sr"] for name in SEVERITIES], [0.1, 0.08, 0.8])
    np.testing.assert_allclose([found[name]["noise_floor_sr"] for name in SEVERITIES], [0.1, 0.0, 0.2])
    assert [found[name]["effect"] for name in SEVERITIES] == [
        WITHIN_VARIABILITY, DISTINGUISHABLE, DISTINGUISHABLE
    ]  # fmt: skip
    assert found["strong"]["timeout_rate"] == 0.8


def test_a_severity_without_a_clone_has_no_floor():
    conditions = [name for name in SWEEP if name != "strong_clone"]
    table = TABLES["severity"](run_of(evaluation({"strong": failures(9)}, conditions=conditions)))
    strong = table.column("severity")[2], table.column("effect")[2], table.column("delta_sr")[2]
    assert strong[0].value == "strong"
    assert strong[1].reason == "'strong_clone' is not planned"
    assert strong[2].value == pytest.approx(0.18)


def test_severity_names_the_condition_that_is_missing():
    table = TABLES["A6a"](run_of(evaluation()))
    assert table.column("mild_sr")[0].reason == "'mild' is not planned"
    assert table.column("strong_clone_difference")[0].reason == "'strong' is not planned"


def test_effects_are_paired_differences_with_a_published_interval():
    # Newcombe (1998), Table II: 36, 12, 2 and 0 of 50 pairs.
    reasons = ["success"] * 48 + ["timeout"] * 2
    partner = ["success"] * 36 + ["timeout"] * 12 + ["success"] * 2
    (line,) = lines(TABLES["effects"](run_of(evaluation({"baseline": reasons, "perturb": partner}))))
    assert (line["pairs"], line["lost"], line["gained"]) == (50, 12, 2)
    assert line["paired_delta_sr"] == pytest.approx(0.2)
    assert (round(line["low"], 4), round(line["high"], 4)) == (0.0569, 0.3404)


def test_failures_are_counted_by_reason():
    reasons = failures(3)
    reasons[3:5] = ["unsafe_attempt", "invalid_execution"]
    table = TABLES["failures"](run_of(evaluation({"baseline": reasons})))
    line = lines(table)[0]
    assert (line["condition"], line["planned"], line["not_run"]) == ("baseline", 50, 0)
    assert [line[r] for r in ("success", "timeout", "unsafe_attempt", "invalid_execution")] == [45, 3, 1, 1]
    assert line["success_rate"] == pytest.approx(0.9)


def test_gate_rules_show_departures_from_the_paper():
    data = evaluation()
    run = run_of(data)
    assert TABLES["A1"](run).notes[1] == "All settings are the paper's."
    assert TABLES["A1"](run).values("threshold") == [1, 0, 5, 1, 0.1, 0.08, 0.03, 0, 0.1, 0.3]
    changed = Run(run.folder, data, judge(data, GateConfig(max_clean_harm=0.5)))
    assert TABLES["A1"](changed).values("threshold")[5] == 0.5
    assert TABLES["A1"](changed).notes[1] == "Departs from the paper's settings: max_clean_harm = 0.5."


def test_provenance_of_a_contract_field_by_field():
    fields = [
        {
            "name": "mujoco",
            "declared": "3.3.2",
            "observed": "3.3.3",
            "verdict": "mismatch",
            "resolution": "seen",
        },
        {
            "name": "precision",
            "declared": "float32",
            "observed": None,
            "verdict": "unknown",
            "resolution": "",
        },
        {"name": "cameras", "declared": "any", "observed": ["a", "b"], "verdict": "match", "resolution": ""},
        {"name": "resolution", "declared": 256, "observed": 256, "verdict": "match", "resolution": ""},
        {
            "name": "action_scale",
            "declared": "none",
            "observed": None,
            "verdict": "unknown",
            "resolution": "x",
        },
    ]
    rows = {"contract": json.dumps(fields), "contract_status": "mismatch", "contract_unresolved": 1}
    run = run_of(evaluation(rows=rows))
    (line,) = lines(TABLES["A2"](run))
    assert [line[name] for name in ("match", "mismatch", "unknown", "unresolved")] == [2, 1, 2, 1]
    assert (line["mujoco"], line["precision"], line["cameras"]) == ("3.3.3", "float32 (declared)", "a, b")
    assert TABLES["A2"](run).column("robosuite")[0].reason.startswith("the records hold no runtime contract")
    shown = TABLES["A2"](run).for_reader("people").column("image_preprocessing")[0].text
    assert shown == "resolution 256; rotation N/A; crop N/A; resize N/A; encoding N/A"
    assert line["resolution"] == "256"
    shown = TABLES["A2"](run).for_reader("people").column("action_convention")[0].text
    assert shown.startswith("scale none (declared); clip N/A; un-normalisation key N/A")
    assert [line["verdict"] for line in lines(TABLES["contract"](run))] == [
        "mismatch", "unknown", "match", "match", "unknown"
    ]  # fmt: skip


def test_bootstrap_samples_of_a_trained_shield(native):
    exact, noisy = lines(TABLES["A5"](native))
    assert (exact["bootstrap_status"], noisy["bootstrap_status"]) == ("failed", "trained")
    assert exact["tau"] is None
    counts = json.loads(str(native.data["shield_metadata"].values[1]))["counts"]
    assert noisy["train_samples"] == sum(counts["train"][f"{k}_steps"] for k in ("safe", "risk", "weak_safe"))
    assert noisy["calib_samples"] == counts["calibration"]["safe_steps"]
    assert noisy["episodes_success"] + noisy["episodes_timeout"] == 12


def test_checks_hold_every_value_threshold_and_verdict(replay):
    table = TABLES["checks"](replay)
    verdicts = replay.judgement.verdicts
    assert len(table.rows) == 240
    for k, line in enumerate(lines(table)):
        row, check = divmod(k, 10)
        value = float(verdicts["value"].values[row, check])
        assert line["value"] is None if np.isnan(value) else line["value"] == value
        assert line["verdict"] == verdicts["verdict"].values[row, check]
        assert line["threshold"] == verdicts["threshold"].values[row, check]


def test_tables_are_found_by_name(replay):
    assert [table.name for table in make_tables(replay, ("A6", "3"))] == ["3", "A6a", "A6b"]
    assert [table.name for table in make_tables(replay)] == list(TABLES)
    with pytest.raises(UnknownNameError, match=re.escape("Did you mean 'failures'?")):
        make_tables(replay, ("failure",))
