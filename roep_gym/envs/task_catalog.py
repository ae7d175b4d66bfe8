"""The tasks of the installed LIBERO: what there is, how a task is named, and where its files lie.

`suites` lists the suites whose resources are complete, `tasks` the tasks of one, `find_task` resolves what people
write (an instruction, LIBERO's name, or the paper's identifier), `initial_states` reads a task's initial states, and
`scan_suite` says what a suite needs and lacks. Nothing here imports LIBERO, robosuite, MuJoCo or torch; where LIBERO is
not installed, all raise `DependencyNotInstalledError`.

The five `LIBERO_SUITES` have 130 tasks but only 112 instructions. Further suites (LIBERO-PRO) are variants that reuse
their names and instructions, so they are searched only when the suite is named.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from roep_gym.arguments import check_names
from roep_gym.envs import initial_state_files
from roep_gym.envs.libero_install import find_libero
from roep_gym.error import InvalidInputError, bounded, unknown_name
from roep_gym.typing import FloatArray

__all__ = [
    "LIBERO_SUITES",
    "PAPER_TASKS",
    "WORKSPACES",
    "SuiteScan",
    "Task",
    "find_task",
    "initial_states",
    "scan_suite",
    "suites",
    "tasks",
]

LIBERO_SUITES = ("libero_spatial", "libero_object", "libero_goal", "libero_90", "libero_10")

PAPER_TASKS: Mapping[tuple[str, str], str] = {
    ("libero_goal", "put_the_cream_cheese_in_the_bowl"): "goal_cream_cheese",
    ("libero_goal", "put_the_bowl_on_top_of_the_cabinet"): "goal_bowl_top",
    ("libero_goal", "turn_on_the_stove"): "goal_stove",
    ("libero_goal", "put_the_bowl_on_the_plate"): "goal_bowl_plate",
    ("libero_object", "pick_up_the_bbq_sauce_and_place_it_in_the_basket"): "object_bbq_sauce",
    ("libero_object", "pick_up_the_cream_cheese_and_place_it_in_the_basket"): "object_cream_cheese",
    ("libero_object", "pick_up_the_salad_dressing_and_place_it_in_the_basket"): "object_salad_dressing",
    ("libero_object", "pick_up_the_tomato_sauce_and_place_it_in_the_basket"): "object_tomato_sauce",
}
"""The paper's identifier (Table 1) of each of its eight tasks, by suite and LIBERO's name."""

_LIST_COMMAND = "`roep-gym tasks` lists them."
# Categories that LIBERO-PRO loads from `custom_objects`; `red_sticker` has unused models of that name elsewhere.
_CUSTOM_OBJECTS = frozenset(
    {"blue_red_sticker", "libero_mug_green", "libero_mug_yellow", "red_box", "red_sticker"}
)
WORKSPACES = frozenset(
    {"coffee_table", "floor", "kitchen_table", "living_room_table", "study_table", "table"}
)
"""Fixtures that are part of the scene and have no model of their own."""


@dataclass(frozen=True)
class Task:
    """One task of one suite.

    Attributes:
        suite: LIBERO's name of the suite.
        name: LIBERO's name of the task, unique in its suite.
        instruction: What the policy is told. In the five `LIBERO_SUITES` the sentence that the name spells, which is
            the benchmark's `task.language` and the prompt of the published evaluations; the task file's `:language`
            differs from it on 25 of the 40 tasks of the short suites. In the further suites the `:language`.
        file_language: The `:language` of the task file, as LIBERO's parser reads it (lower case).
        paper_id: The paper's identifier; empty for tasks that it does not use.
        bddl_file: The task file.
        init_states_file: The file of the initial states.
        init_state_count: Number of initial states.
    """

    suite: str
    name: str
    instruction: str
    file_language: str
    paper_id: str
    bddl_file: Path
    init_states_file: Path
    init_state_count: int


def suites() -> tuple[str, ...]:
    """Return the suites whose every task has its resources, the five of LIBERO first, then alphabetically."""
    complete = {suite for suite, names in _task_map().items() if names and not scan_suite(suite).missing}
    standard = [suite for suite in LIBERO_SUITES if suite in complete]
    return (*standard, *sorted(complete.difference(standard)))


def tasks(suite: str) -> tuple[Task, ...]:
    """Return the tasks of a suite in LIBERO's default order.

    Raises:
        UnknownNameError: LIBERO has no such suite.
        InvalidInputError: The suite lacks a task file, initial states or an asset; the message names the first.
    """
    scan = scan_suite(suite)
    if not scan.tasks or scan.missing:
        lack = f"lacks {scan.missing[0]}" if scan.missing else "lists no task"
        more = f" and {len(scan.missing) - 1} more" if len(scan.missing) > 1 else ""
        raise InvalidInputError(
            f"Suite {suite!r} of the installed LIBERO is incomplete: it {lack}{more}; "
            "reinstall LIBERO with its assets or choose a suite that `roep-gym tasks` lists."
        )
    return scan.tasks


def find_task(suite: str | None, text: str) -> Task:
    """Return the task that a text names.

    Args:
        suite: The suite to look in; None looks in the five `LIBERO_SUITES`.
        text: The paper's identifier, LIBERO's name, the instruction or, where no instruction is the same, the
            `:language` of the task file. Case and spacing and a final full stop do not matter.

    Raises:
        UnknownNameError: No task, or no suite, has this name; the message offers the closest.
        InvalidInputError: Several tasks have this instruction (the message names them), or the suite is incomplete.
    """
    searched = [task for name in (LIBERO_SUITES if suite is None else (suite,)) for task in tasks(name)]
    wanted = _normalise(text)
    found = (
        [task for task in searched if text in (task.name, task.paper_id)]
        or [task for task in searched if _normalise(task.instruction) == wanted]
        or [task for task in searched if _normalise(task.file_language) == wanted]
    )
    if not found:
        where = "" if suite is None else f" of suite {suite}"
        names = {name for task in searched for name in (task.instruction, task.name, task.paper_id) if name}
        raise unknown_name(f"task{where}", text, names, _LIST_COMMAND)
    if len(found) > 1:
        candidates = bounded(", ".join(f"{task.suite}/{task.name}" for task in found), 1000)
        raise InvalidInputError(
            f"{text!r} names {len(found)} tasks ({candidates}); give the suite, or the task's LIBERO name."
        )
    return found[0]


def initial_states(task: Task) -> FloatArray:
    """Return the initial states of a task.

    Returns:
        float64, shape (number of states, d): flattened MuJoCo states, time first, then qpos and qvel.

    Raises:
        InvalidInputError: The file is missing or is not what LIBERO ships.
    """
    return np.array(initial_state_files.load(task.init_states_file), dtype=np.float64)


@dataclass(frozen=True)
class SuiteScan:
    """What one look at a suite's files found.

    Attributes:
        tasks: The tasks that have a task file, in LIBERO's default order.
        missing: Task files, initial-state files that are absent or empty, and model files that the suite lacks.
        models: The model files of the tasks' objects and fixtures.
    """

    tasks: tuple[Task, ...]
    missing: tuple[str, ...]
    models: tuple[Path, ...]


@functools.cache
def scan_suite(suite: str) -> SuiteScan:
    """Read a suite's task files and look for everything that they need.

    Raises:
        UnknownNameError: LIBERO has no such suite.
    """
    paths = find_libero()
    task_map = _task_map()
    check_names("suite", [suite], task_map, _LIST_COMMAND)
    found: list[Task] = []
    missing: list[str] = []
    models: set[Path] = set()
    available = _models(paths.assets)
    for name in task_map[suite]:
        bddl_file = paths.bddl_files / suite / f"{name}.bddl"
        states_file = initial_state_files.locate(paths.init_states / suite, name)
        count = initial_state_files.count(states_file)
        if count == 0:
            missing.append(f"{states_file} (initial states)")
        if not bddl_file.is_file():
            missing.append(f"{bddl_file} (task file)")
            continue
        language, categories = _read_bddl(bddl_file)
        instruction = _spell(name) if suite in LIBERO_SUITES else language
        categories -= WORKSPACES
        models.update(path for category, path in available.items() if category in categories)
        missing.extend(
            f"{paths.assets}/**/{category}.xml (model)" for category in categories - available.keys()
        )
        paper_id = PAPER_TASKS.get((suite, name), "")
        found.append(Task(suite, name, instruction, language, paper_id, bddl_file, states_file, count))
    return SuiteScan(tuple(found), tuple(dict.fromkeys(missing)), tuple(sorted(models)))


@functools.cache
def _task_map() -> Mapping[str, list[str]]:
    """Return LIBERO's task names by suite, from the one file that holds nothing but this list."""
    spec = importlib.util.spec_from_file_location("roep_gym_libero_task_map", find_libero().task_map)
    if spec is None or spec.loader is None:
        raise InvalidInputError(f"Expected LIBERO's task list in {find_libero().task_map}; reinstall LIBERO.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast("Mapping[str, list[str]]", module.libero_task_map)


@functools.cache
def _models(assets: Path) -> Mapping[str, Path]:
    """Return the model file of every object category that has one."""
    plain = [
        path
        for folder in ("stable_hope_objects", "stable_scanned_objects", "turbosquid_objects")
        for path in (assets / folder).glob("*/*.xml")
    ]
    plain.extend((assets / "articulated_objects").glob("*.xml"))
    custom = (assets / "custom_objects").glob("*/*.xml")
    return {
        **{path.stem: path for path in plain if path.stem not in _CUSTOM_OBJECTS},
        **{path.stem: path for path in custom if path.stem in _CUSTOM_OBJECTS},
    }


def _read_bddl(path: Path) -> tuple[str, frozenset[str]]:
    """Return the `:language` of a task file and the categories of its objects and fixtures."""
    text = re.sub(r";.*", "", path.read_text(encoding="utf-8")).lower()
    language = re.search(r"\(:language\s([^()]*)\)", text)
    if language is None:
        raise InvalidInputError(f"Expected one :language entry in the task file {path}, got none.")
    declared = " ".join(re.findall(r"\(:(?:objects|fixtures)\s([^()]*)\)", text))
    return " ".join(language[1].split()), frozenset(re.findall(r"\s-\s+(\S+)", declared))


def _spell(name: str) -> str:
    """Return the sentence that a task's name spells, without its scene."""
    return re.sub(r"^[A-Z_]+SCENE\d*_", "", name).replace("_", " ")


def _normalise(instruction: str) -> str:
    """Return an instruction without the differences that carry no meaning."""
    return " ".join(instruction.casefold().split()).removesuffix(".")
