"""The command `roep-gym`: dispatch, help, exit statuses and how errors read."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
import types
from dataclasses import dataclass

import pytest

import roep_gym
from roep_gym.cli import main as cli
from roep_gym.envs.task_catalog import find_task, suites
from roep_gym.error import InvalidInputError
from roep_gym.suites.registry import find_suite, suite_names


@dataclass
class Probe:
    flag: str = ""


@pytest.fixture
def command(monkeypatch):
    """Return a function that makes the subcommand `probe` do something with its arguments."""

    def install(run):
        module = types.ModuleType("roep_gym.cli.probe")
        module.run, module.Arguments = run, Probe
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(cli, "COMMANDS", {"probe": cli.Command("probe", "probe")})

    return install


def _raise(error):
    raise error


def test_arguments_and_exit_status_pass_through(command):
    seen = []
    command(lambda arguments: seen.append(arguments) or 7)
    assert cli.main(["probe", "--flag", "x"]) == 7
    assert seen == [Probe("x")]


def test_roep_error_is_one_sentence_and_status_2(command, capsys):
    command(lambda arguments: _raise(InvalidInputError("Expected a, got b; do c.")))
    assert cli.main(["probe"]) == 2
    assert capsys.readouterr() == ("", "roep-gym: Expected a, got b; do c.\n")


def test_interrupt_is_one_line_and_status_130(command, capsys):
    command(lambda arguments: _raise(KeyboardInterrupt()))
    assert cli.main(["probe"]) == 130
    assert capsys.readouterr() == ("", "roep-gym: interrupted\n")


def test_programming_errors_are_not_hidden(command):
    command(lambda arguments: _raise(ZeroDivisionError("a bug")))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        cli.main(["probe"])


def test_unknown_command_gets_the_closest(capsys):
    assert cli.main(["evalute"]) == 2
    assert "Unknown command 'evalute'. Did you mean 'evaluate'" in capsys.readouterr().err


def test_help_names_every_command(capsys):
    assert cli.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name} " in text and command.summary in text for name, command in cli.COMMANDS.items())


def test_no_command_prints_the_help_and_fails(capsys):
    assert cli.main([]) == 2
    assert capsys.readouterr().out.startswith("usage: roep-gym COMMAND")


def test_version_is_the_distributions(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"roep-gym {roep_gym.__version__}\n"
    assert importlib.metadata.version("roep-gym") == roep_gym.__version__


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_its_module_and_help(name, capsys):
    with pytest.raises(SystemExit) as exit_status:
        cli.main([name, "--help"])
    assert exit_status.value.code == 0
    assert f"roep-gym {name}" in capsys.readouterr().out


def test_module_runs_as_the_command_and_loads_nothing_heavy():
    command = [sys.executable, "-X", "importtime", "-m", "roep_gym", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("usage: roep-gym COMMAND")
    loaded = {line.rpartition("|")[2].strip().split(".")[0] for line in done.stderr.splitlines()}
    assert "roep_gym" in loaded
    assert loaded.isdisjoint({"numpy", "gymnasium", "torch", "xarray", "mujoco", "matplotlib", "scipy"})


def test_closed_pipe_is_quiet():
    reader = f"{sys.executable} -m roep_gym tasks | head -n 1"
    done = subprocess.run(reader, shell=True, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("suite")
    assert done.stderr == ""


def test_bad_option_is_status_2_without_a_traceback(capsys):
    with pytest.raises(SystemExit) as exit_status:
        cli.main(["tasks", "--no-such-option"])
    assert exit_status.value.code == 2
    output = capsys.readouterr()
    assert "no-such-option" in output.out + output.err
    assert "Traceback" not in output.out + output.err


def test_tasks_lists_a_suite(capsys):
    assert cli.main(["tasks", "--suite", "libero_goal"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["suite", "name", "other", "names", "instruction", "init", "states"]
    assert len(lines) == 13
    stove = next(line for line in lines if "goal_stove" in line)
    assert stove.split() == [
        "libero_goal",
        "goal_stove",
        "turn_on_the_stove",
        "turn",
        "on",
        "the",
        "stove",
        "50",
    ]


def test_tasks_lists_every_suite_as_json(capsys):
    assert cli.main(["tasks", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert len(listed) == sum(len(find_suite(name).tasks()) for name in suite_names())
    assert {entry["suite"] for entry in listed} == {*suites(), "robosuite", "tabletop"}
    stove = find_task(None, "goal_stove")
    assert next(entry for entry in listed if entry["name"] == "goal_stove") == {
        "suite": "libero_goal",
        "name": "goal_stove",
        "other_names": ["turn_on_the_stove"],
        "instruction": "turn on the stove",
        "init_states": 50,
        "bddl_file": str(stove.bddl_file),
        "init_states_file": str(stove.init_states_file),
    }


def test_tasks_of_an_unknown_suite_name_the_closest(capsys):
    assert cli.main(["tasks", "--suite", "libero_gaol"]) == 2
    assert "'libero_goal'" in capsys.readouterr().err


@pytest.mark.parametrize("module", ["roep_gym.cli.main", "roep_gym.cli.terminal", "roep_gym.cli.gate"])
def test_ctrl_c_while_modules_are_imported_prints_one_line(module: str) -> None:
    code = f"""
import runpy, sys
class Interrupts:
    def find_spec(self, name, *rest):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupts())
sys.argv = ["roep-gym", "gate", "nowhere"]
runpy.run_module("roep_gym", run_name="__main__")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "roep-gym: interrupted\n")
