"""Names that other people's files may hold, through every form in which they are shown or stored."""

from __future__ import annotations

import ast
import csv
import html
import io
import re
from functools import cache
from pathlib import Path

import pytest
from judging_data import evaluation
from report_runs import run_of
from rich.console import Console

from roep_gym import escape
from roep_gym.cli.terminal import say
from roep_gym.evaluate.plan import PlannedEpisode, plan_from_mapping, resolve
from roep_gym.evaluate.report.figures import draw_figures
from roep_gym.evaluate.report.render import FORMS, csv_text, html_text, print_table
from roep_gym.evaluate.report.style import encoded
from roep_gym.evaluate.report.tables import TABLES
from roep_gym.evaluate.report.tensorboard import write_events
from roep_gym.evaluate.report.write import write_report
from roep_gym.evaluate.run.progress import ProgressObserver
from roep_gym.evaluate.store.flat_tables import read_tables, write_tables

ROOT = Path(__file__).parents[1]
NAMES = (
    "pi0[v2]", "o[/b]", "$x_$", r"\input{/etc/passwd}", "=cmd()", "../../x", "a|b", "<script>alert(1)</script>",
    "\x1b[31mred", "[click](http://evil)", "two\nlines", "@SUM(1)", "-1", "'=1", "\u202ereversed", "..",
)  # fmt: skip
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\ud800-\udfff]")


@pytest.fixture(params=NAMES, ids=range(len(NAMES)))
def name(request):
    return request.param


@cache
def run_named(name, folder=Path("nowhere")):
    rows = {"model": name, "suite": name, "task": name, "shield_reason": name, "contract_note": name}
    return run_of(evaluation(rows=rows), folder)


@pytest.mark.parametrize("form", FORMS)
def test_no_form_lets_a_control_character_through(name, form):
    written = FORMS[form].write(TABLES["claims"](run_named(name)))
    assert not CONTROL.search(written)
    written.encode()


def test_a_terminal_shows_every_character_of_a_name(name):
    stream = io.StringIO()
    print_table(
        TABLES["claims"](run_named(name)),
        Console(file=stream, width=400, force_terminal=True, color_system=None),
    )
    assert escape.visible(name) in stream.getvalue()
    assert not CONTROL.search(stream.getvalue())


def test_half_a_character_reaches_no_stream():
    assert escape.terminal("half\ud800") == "half\\ud800"


def test_say_and_the_progress_print_names_as_they_are(name, capsys):
    say(f"Model {name}.")
    assert capsys.readouterr().out == f"Model {escape.terminal(name)}.\n"
    mapping = {"name": "n", "models": [{"name": "m", "policy": "random"}], "tasks": ["tabletop/reach"]}
    plan = resolve(plan_from_mapping(mapping))
    stream = io.StringIO()
    with ProgressObserver(plan, Console(file=stream)) as observer:
        observer.aborted(PlannedEpisode(0, "baseline", 0, 0), name, True)
    assert escape.terminal(name) in stream.getvalue()


def test_latex_has_no_command_and_no_unbalanced_brace(name):
    written = FORMS["latex"].write(TABLES["claims"](run_named(name)))
    assert r"\input{" not in written
    assert written.count("{") == written.count("}")
    assert len(re.findall(r"(?<!\\)\$", written)) % 2 == 0
    assert len(re.findall(r"(?<!\\)&", written.partition("midrule")[2].splitlines()[1])) == 8


def test_markdown_has_one_cell_a_column_and_neither_tag_nor_link(name):
    lines = FORMS["markdown"].write(TABLES["claims"](run_named(name))).splitlines()
    cells = {len(re.findall(r"(?<!\\)\|", line)) for line in lines if line.startswith("|")}
    assert cells == {10}
    assert not re.search(r"<[a-z/]|(?<!\\)\]\(", "\n".join(lines))


def test_html_has_no_other_tag_than_its_own(name):
    written = html_text(TABLES["claims"](run_named(name)))
    assert "<script" not in written
    assert html.escape(escape.visible(name)) in written


def test_csv_begins_no_formula_and_numbers_stay_numbers(name):
    table = TABLES["effects"](run_named(name))
    (line,) = csv.DictReader(io.StringIO(csv_text(table)))
    assert re.fullmatch(r"-?[\d.]+", line["model"]) or line["model"][0] not in "=+-@\t\r"
    assert escape.uncsv(line["model"]) == escape.visible(name)
    assert float(line["paired_delta_sr"]) == table.values("paired_delta_sr")[0]
    assert escape.csv("-0.5") == "-0.5"


@pytest.mark.parametrize(
    "text", ["=cmd()", "+x", "@a", "'=a", "''-b", "-1", "-1e5", "'-1", "plain", "'", "a=b"]
)
def test_flat_tables_with_formulas_are_read_back_as_they_were(text, tmp_path):
    data = evaluation(rows={"model": text, "shield_reason": text})
    data["episode_extra_0"] = ("episode", [text] * data.sizes["episode"], {"column": text})
    write_tables(data, tmp_path)
    for file in ("episodes.csv", "rows.csv", "manifest.csv"):
        for line in csv.reader(io.StringIO((tmp_path / file).read_text())):
            assert not [cell for cell in line if re.match(r"[=+@]|-(?!\d)", cell)]
    again = read_tables(tmp_path / "episodes.csv", tmp_path / "rows.csv", tmp_path / "manifest.csv")
    assert again["model"].values.tolist() == [text]
    assert again["shield_reason"].values.tolist() == [text]
    assert again["episode_extra_0"].attrs["column"] == text
    assert set(again["episode_extra_0"].values) == {text}


@pytest.mark.parametrize("figure", ["3", "4", "effects"])
def test_figures_draw_every_name(name, figure):
    (drawn,) = draw_figures(run_named(name), [figure])
    assert encoded(drawn.figure, "svg").startswith(b"<?xml")
    shown = [text.get_text().replace(r"\$", "$") for axes in drawn.figure.axes for text in
             (*axes.get_xticklabels(), *axes.get_yticklabels())]  # fmt: skip
    assert any(escape.visible(name) in text for text in shown)


def test_nothing_is_written_outside_the_folder_of_a_report(tmp_path):
    for k, name in enumerate(NAMES):
        folder = tmp_path / str(k) / "deep" / "report"
        write_report(run_named(name), folder, ["csv"])
        written = write_events(run_named(name), folder)
        assert all(path.resolve().is_relative_to(folder) for path in written)
        assert {p.name for p in (tmp_path / str(k)).iterdir()} == {"deep"}
        assert {p.name for p in (tmp_path / str(k) / "deep").iterdir()} == {"report"}


def test_two_names_never_share_a_file_name():
    names = [*NAMES, "a/b", "a_b", "a%2Fb", "", "x" * 500, "x" * 501, "é" * 200, "."]
    made = [escape.file_name(text) for text in names]
    assert len(set(made)) == len(names)
    assert all(not set(text) & set('/\\:*?"<>|') and text not in ("", ".", "..") for text in made)
    assert max(len(text.encode()) for text in made) <= 255


def _printing_calls(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            target = node.func
            if isinstance(target, ast.Name) and target.id == "print":
                yield node.lineno
            if isinstance(target, ast.Attribute) and target.attr == "print":
                yield node.lineno


def test_everything_is_printed_through_the_functions_that_escape():
    allowed = {"terminal.py", "render.py", "progress.py"}
    files = [*(ROOT / "roep_gym" / "cli").glob("*.py"), *(ROOT / "evaluate").rglob("*.py")]
    found = [f"{p.name}:{line}" for p in files if p.name not in allowed for line in _printing_calls(p)]
    assert found == []
