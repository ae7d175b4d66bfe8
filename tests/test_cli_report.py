"""The commands `report`, `tables` and `tensorboard`."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from report_runs import REPLAY, tabletop_run

from roep_gym.cli.main import main
from roep_gym.evaluate.report.figures import FIGURES
from roep_gym.evaluate.report.tables import TABLES


@pytest.fixture(scope="module")
def native(tmp_path_factory):
    return tabletop_run(tmp_path_factory)


def test_one_command_makes_everything(native, tmp_path, capsys):
    assert main(["report", str(native), "--out", str(tmp_path)]) == 0
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    tables = {f"tables/{name}.{suffix}" for name in TABLES for suffix in ("csv", "md", "tex", "txt")}
    figures = {f"figures/{name}.{suffix}" for name in FIGURES for suffix in ("svg", "pdf", "png")}
    assert names == {"report.html", *tables, *figures}
    assert f"open {tmp_path}/report.html" in capsys.readouterr().out


def test_only_some_formats(tmp_path, capsys):
    assert main(["report", str(REPLAY), "--out", str(tmp_path), "--format", "csv", "--format", "png"]) == 0
    assert {path.suffix for path in tmp_path.rglob("*.*")} == {".csv", ".png"}
    assert "Figure A2: N/A, no episode" in capsys.readouterr().out


def test_videos_need_frames(native, tmp_path, capsys):
    assert main(["report", str(REPLAY), "--out", str(tmp_path / "a"), "--format", "csv", "--video"]) == 0
    assert "Videos: N/A, no frames are stored" in capsys.readouterr().out
    assert main(["report", str(native), "--out", str(tmp_path / "b"), "--format", "csv", "--video"]) == 0
    assert len(list((tmp_path / "b" / "videos").glob("*.gif"))) == 8


def test_the_report_lies_in_the_run_by_default(native, capsys):
    assert main(["report", str(native), "--format", "csv"]) == 0
    assert (native / "report" / "tables" / "3.csv").exists()


def test_tables_by_name_form_and_task(capsys):
    assert main(["tables", str(REPLAY), "A4", "--task", "object_cream_cheese", "--format", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[1].startswith("OpenVLA,libero_object,object_cream_cheese,0.3,15,50,")
    assert main(["tables", str(REPLAY)]) == 0
    printed = capsys.readouterr().out
    assert printed.index("Table 3. Outcome matrix") < printed.index("Table 4. Model-suite aggregates")
    assert main(["tables", str(REPLAY), "A6", "--format", "markdown"]) == 0
    assert capsys.readouterr().out.count("**Table A6") == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["A7"], "Unknown table 'A7'. Did you mean 'A"),
        (["--task", "goal_stoves"], "Unknown task 'goal_stoves'. Did you mean 'goal_stove'"),
    ],
)
def test_unknown_names_get_the_closest_match(arguments, message, capsys):
    assert main(["tables", str(REPLAY), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_gate_settings_come_from_a_file(tmp_path, capsys):
    settings = tmp_path / "gate.json"
    settings.write_text(json.dumps({"max_clean_harm": 0.5}))
    assert main(["tables", str(REPLAY), "A1", "--config", str(settings)]) == 0
    assert "max_clean_harm = 0.5" in capsys.readouterr().out
    assert main(["tables", str(REPLAY), "A1", "--config", str(tmp_path / "none.json")]) == 2
    assert re.search(r"Expected gate settings at .*none\.json", capsys.readouterr().err)


def test_tensorboard(native, tmp_path, capsys):
    assert main(["tensorboard", str(native), "--out", str(tmp_path)]) == 0
    assert "3 event files" in capsys.readouterr().out


def test_reporting_loads_no_simulator(tmp_path):
    script = f"""
import sys
from roep_gym.cli.main import main
status = main(["report", {str(REPLAY)!r}, "--out", {str(tmp_path)!r}])
wrong = ("gymnasium", "torch", "mujoco", "robosuite", "libero", "matplotlib.pyplot", "roep_gym.wrappers",
         "roep_gym.shields", "roep_gym.policies")
loaded = [name for name in wrong if any(m == name or m.startswith(name + ".") for m in sys.modules)]
sys.exit(f"loaded: {{loaded}}" if loaded else status)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "report.html" in done.stdout
