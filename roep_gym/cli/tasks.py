"""`roep-gym tasks`: list the suites and tasks of the installed LIBERO.

Only suites whose every task has its task file, initial states and models are listed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from roep_gym.cli.terminal import say
from roep_gym.envs.task_catalog import Task, suites, tasks

__all__ = ["TasksArguments", "run"]


@dataclass(frozen=True)
class TasksArguments:
    """List the suites and tasks of the installed LIBERO."""

    suite: Annotated[str, tyro.conf.Positional] = ""
    """Suite to list; every complete suite if none is given."""
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Print JSON."""


def run(argv: Sequence[str]) -> int:
    """Print the tasks and return 0."""
    arguments = tyro.cli(TasksArguments, args=argv, prog="roep-gym tasks", description=TasksArguments.__doc__)
    listed = [task for suite in ([arguments.suite] if arguments.suite else suites()) for task in tasks(suite)]
    if arguments.json:
        say(json.dumps([_as_json(task) for task in listed], indent=2))
    else:
        _print_table(listed)
    return 0


def _as_json(task: Task) -> dict[str, str | int]:
    """Return what a task is called and where its files lie."""
    return {
        "suite": task.suite,
        "name": task.name,
        "paper_id": task.paper_id,
        "instruction": task.instruction,
        "init_states": task.init_state_count,
        "bddl_file": str(task.bddl_file),
        "init_states_file": str(task.init_states_file),
    }


def _print_table(listed: Sequence[Task]) -> None:
    """Print one line a task, never folded or cut: names are there to be copied and searched."""
    header = ("suite", "name", "paper id", "instruction", "init states")
    rows = [(t.suite, t.name, t.paper_id, t.instruction, str(t.init_state_count)) for t in listed]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    say(f"\n{len(listed)} tasks, {len({task.suite for task in listed})} suite(s)")
