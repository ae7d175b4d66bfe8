"""The command `roep-gym`: finds the subcommand, parses its arguments and turns errors into one sentence.

`COMMANDS` maps a subcommand to its module, which is imported only when it is asked for, so that help and judging
start quickly. A module has a dataclass `Arguments`, `run(arguments)` and, where the defaults depend on the arguments,
`defaults(argv) -> Arguments`. Exit status: what `run` returns, 0 where that is nothing, 2 for anything that the user
can put right, 130 after Ctrl-C.
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

__all__ = ["COMMANDS", "Command", "dispatch", "main"]

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130


_HELP = """usage: roep-gym COMMAND [OPTIONS]

Evaluate robot-manipulation policies on LIBERO under the ROEP protocol.

commands:
{commands}

`roep-gym COMMAND --help` explains a command; `roep-gym --version` prints the version."""


class Command(NamedTuple):
    """A subcommand: its module in `roep_gym.cli` and one line of help."""

    module: str
    summary: str


COMMANDS: Mapping[str, Command] = {
    "evaluate": Command("evaluate", "run a policy on LIBERO under the protocol"),
    "serve": Command("serve", "put a policy behind openpi's websocket protocol"),
    "train": Command("train", "train a model with Stable-Baselines3 inside the wrappers"),
    "gate": Command("gate", "judge a stored run and print the claim table"),
    "tables": Command("tables", "print tables of a run by name"),
    "report": Command("report", "turn a run into all tables, figures and an HTML page"),
    "tensorboard": Command("tensorboard", "show a run in TensorBoard"),
    "export": Command("export", "turn a run into a Minari or LeRobot dataset to train on"),
    "merge": Command("merge", "make one run of several finished ones"),
    "publish": Command("publish", "write of a run what its report needs, small enough to publish"),
    "import": Command("import_outcomes", "make a run of another tool's tables or logs"),
    "statistics": Command("statistics", "print paired differences of a run with intervals and tests"),
    "sensitivity": Command("sensitivity", "show which threshold or episode count a status depends on"),
    "compare": Command("compare", "compare two runs, two models, or a run with the paper"),
    "power": Command("power", "show how many episodes a drop of the success rate needs"),
    "train-visuomotor": Command(
        "train_visuomotor", "train the built-in policy that sees, from scenes that it collects"
    ),
    "capacity": Command("capacity", "show how many episodes an hour more workers would give"),
    "tasks": Command("tasks", "list the suites and their tasks"),
    "doctor": Command("doctor", "check rendering, assets and versions, and say what to do"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return the exit status; `argv` of None takes the arguments of the process."""
    try:
        status = dispatch(sys.argv[1:] if argv is None else argv)
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


def dispatch(argv: Sequence[str]) -> int:
    """Run one subcommand and return its exit status; its errors pass. Help and version are answered here."""
    if not argv or argv[0] in ("-h", "--help", "help"):
        width = max(map(len, COMMANDS))
        lines = "\n".join(f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items())
        say(_HELP.format(commands=lines))
        return 0 if argv else EXIT_BAD_INPUT
    name, *rest = argv
    if name == "--version":
        say(f"roep-gym {roep_gym.__version__}")
        return 0
    if name not in COMMANDS:
        raise unknown_name("command", name, COMMANDS, "`roep-gym --help` explains them.")
    import tyro

    module = importlib.import_module(f"roep_gym.cli.{COMMANDS[name].module}")
    default = module.defaults(rest) if hasattr(module, "defaults") else tyro.MISSING_NONPROP
    parsed = tyro.cli(module.Arguments, args=rest, prog=f"roep-gym {name}", default=default)
    status: int | None = module.run(parsed)
    return status or 0
