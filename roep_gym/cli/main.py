"""The command `roep-gym`: finds the subcommand and turns errors into one sentence.

`COMMANDS` maps a subcommand to its module, which is imported only when it is asked for, so that help and judging
start quickly. Each module has `run(argv) -> int` and parses its own arguments. Exit status: what `run` returns, 2 for
anything that the user can put right, 130 after Ctrl-C.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import roep_gym
from roep_gym.cli.terminal import say
from roep_gym.error import RoepError, bounded, unknown_name

__all__ = ["COMMANDS", "Command", "main"]

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130


class Command(NamedTuple):
    """A subcommand: the module with its `run` function and one line of help."""

    module: str
    summary: str


COMMANDS: Mapping[str, Command] = {
    "evaluate": Command("roep_gym.cli.evaluate", "run a policy on LIBERO under the protocol"),
    "serve": Command("roep_gym.cli.serve", "put a policy behind openpi's websocket protocol"),
    "train": Command("roep_gym.cli.train", "train a model with Stable-Baselines3 inside the wrappers"),
    "gate": Command("roep_gym.cli.gate", "judge a stored run and print the claim table"),
    "tables": Command("roep_gym.cli.tables", "print tables of a run by name"),
    "report": Command("roep_gym.cli.report", "turn a run into all tables, figures and an HTML page"),
    "tensorboard": Command("roep_gym.cli.tensorboard", "show a run in TensorBoard"),
    "export": Command("roep_gym.cli.export", "turn a run into a Minari or LeRobot dataset to train on"),
    "merge": Command("roep_gym.cli.merge", "make one run of several finished ones"),
    "publish": Command(
        "roep_gym.cli.publish", "write of a run what its report needs, small enough to publish"
    ),
    "import": Command("roep_gym.cli.import_outcomes", "make a run of another tool's tables or logs"),
    "statistics": Command(
        "roep_gym.cli.statistics", "print paired differences of a run with intervals and tests"
    ),
    "sensitivity": Command(
        "roep_gym.cli.sensitivity", "show which threshold or episode count a status depends on"
    ),
    "compare": Command("roep_gym.cli.compare", "compare two runs, two models, or a run with the paper"),
    "power": Command("roep_gym.cli.power", "show how many episodes a drop of the success rate needs"),
    "train-visuomotor": Command(
        "roep_gym.cli.train_visuomotor", "train the built-in policy that sees, from scenes that it collects"
    ),
    "capacity": Command("roep_gym.cli.capacity", "show how many episodes an hour more workers would give"),
    "tasks": Command("roep_gym.cli.tasks", "list the suites and their tasks"),
    "doctor": Command("roep_gym.cli.doctor", "check rendering, assets and versions, and say what to do"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return the exit status.

    Args:
        argv: Arguments without the program's name; None takes those of the process.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        status = _dispatch(arguments)
        sys.stdout.flush()
    except RoepError as error:
        say(f"roep-gym: {bounded(str(error))}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        say("roep-gym: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has seen enough. Python flushes once more at exit, into nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def _dispatch(arguments: Sequence[str]) -> int:
    """Answer help and version here, anything else in the subcommand's module."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        say(_help())
        return 0 if arguments else EXIT_BAD_INPUT
    if arguments[0] == "--version":
        say(f"roep-gym {roep_gym.__version__}")
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        raise unknown_name("command", name, COMMANDS, "`roep-gym --help` explains them.")
    status: int = importlib.import_module(COMMANDS[name].module).run(rest)
    return status


def _help() -> str:
    """Return the text of `roep-gym --help`."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: roep-gym COMMAND [OPTIONS]",
            "",
            "Evaluate robot-manipulation policies on LIBERO under the ROEP protocol.",
            "",
            "commands:",
            *lines,
            "",
            "`roep-gym COMMAND --help` explains a command; `roep-gym --version` prints the version.",
        ]
    )
