"""`roep-gym tasks`: list the suites and their tasks.

Of LIBERO's suites only those are listed whose every task has its task file, initial states and models.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from roep_gym.cli.arguments import Flag
from roep_gym.cli.terminal import say
from roep_gym.suites.base import Suite, SuiteTask
from roep_gym.suites.registry import find_suite, suite_names
from roep_gym.typing import JSON

__all__ = ["Arguments", "run"]


@dataclass(frozen=True)
class Arguments:
    """List the suites and their tasks."""

    suite: str = ""
    """Suite to list: a name, module:attribute or gym:ENV_ID; default: every suite that has a name."""
    json: Flag = False
    """Print JSON."""


def run(arguments: Arguments) -> None:
    """Print the tasks."""
    # A suite of one's own, "module:attribute", is found in the working directory, as with `python -m`.
    sys.path.insert(0, os.getcwd())
    suites = [find_suite(name) for name in ([arguments.suite] if arguments.suite else suite_names())]
    listed = [(suite, task) for suite in suites for task in suite.tasks()]
    if arguments.json:
        say(json.dumps([_as_json(suite, task) for suite, task in listed], indent=2))
    else:
        _print_table(listed)


def _as_json(suite: Suite, task: SuiteTask) -> dict[str, JSON]:
    """Return what a task is called, and what its suite says of it."""
    return {
        "suite": suite.name,
        "name": task.name,
        "other_names": list(task.other_names),
        "instruction": task.instruction,
        "init_states": task.init_states,
        **task.details,
    }


def _print_table(listed: Sequence[tuple[Suite, SuiteTask]]) -> None:
    """Print one line per task, never folded or cut: names are there to be copied and searched."""
    header = ("suite", "name", "other names", "instruction", "init states")
    rows = [
        (suite.name, task.name, ", ".join(task.other_names), task.instruction, str(task.init_states))
        for suite, task in listed
    ]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    say(f"\n{len(listed)} tasks, {len({suite.name for suite, _ in listed})} suite(s)")
