"""The suites by name, by entry point (group `roep_gym.suites`) and by place in Python (`module:attribute`).

`find_suite` finds one, `suite_names` lists those that have a name, `find_tasks` finds the tasks that a text in a plan
names, `find_task` one task of a suite, and `split_task` parts the text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from roep_gym.error import DependencyNotInstalledError, InvalidInputError, unknown_name
from roep_gym.registry import Registry, build_part
from roep_gym.suites.base import Suite, SuiteTask
from roep_gym.typing import JSON

__all__ = [
    "SUITES",
    "NamedTask",
    "find_suite",
    "find_task",
    "find_tasks",
    "foreign_suite",
    "split_task",
    "suite_names",
]

SUITES = Registry(
    "suite",
    "roep_gym.suites",
    {
        "gym": "roep_gym.suites.gymnasium_suite:GymnasiumFamily",
        "libero": "roep_gym.suites.libero:LiberoFamily",
        "robosuite": "roep_gym.suites.robosuite_suite:RobosuiteSuite",
        "tabletop": "roep_gym.suites.tabletop:TabletopSuite",
    },
)
"""A part is a class or function that gives a `Suite`, called with the plan's arguments for it; or the class of a
`SuiteFamily`; or a `Suite` itself."""

_UNNAMED = "libero"
"""The family in which a task without a suite is looked for."""
_LIST_COMMAND = "`roep-gym tasks` lists suites and tasks."
_REMEDY = f"A suite of your own is named 'module:attribute'. {_LIST_COMMAND}"


class NamedTask(NamedTuple):
    """A task that a plan names: its suite, how the plan refers to the suite, and the task."""

    suite: Suite
    source: str
    task: SuiteTask


def find_suite(source: str, arguments: Mapping[str, JSON] | None = None) -> Suite:
    """Return a suite; the same one for the same arguments.

    Args:
        source: Its name, or `module:attribute`.
        arguments: Its arguments, as a plan has them under `suites`.

    Raises:
        UnknownNameError: No suite has the name; the message offers the closest.
        InvalidInputError: Nothing is at the place, what is there is no suite, or it does not take the arguments.
    """
    return _built(source, json.dumps(arguments or {}, sort_keys=True))


@cache
def _built(source: str, arguments: str) -> Suite:
    key, given = _key(source), json.loads(arguments)
    if key is None:
        raise unknown_name("suite", source, _known_names(), _REMEDY)
    part = SUITES.find(key)
    if given and not callable(part):
        raise InvalidInputError(
            f"Expected no arguments for the suite {source!r}, which is an object that takes none, got {sorted(given)}; "
            "leave them out of the plan."
        )
    if _is_family(part):
        part = build_part(
            "suite", source, build_part("suite", key, part, {}).suite, {"name": source, **given}
        )
    elif callable(part):
        part = build_part("suite", key, part, given)
    if not isinstance(part, Suite):
        lacking = [name for name in _MEMBERS if not hasattr(part, name)]
        raise InvalidInputError(
            f"Expected {key!r} to give a suite, but its result lacks {', '.join(lacking)}."
        )
    if ":" not in source and part.name != source:
        raise InvalidInputError(
            f"Expected the suite that is registered as {source!r} to have this name, got {part.name!r}; "
            "register it under its own name."
        )
    return part


def suite_names() -> tuple[str, ...]:
    """Return the names of all suites, those of families and of installed packages included.

    Raises:
        RoepError: A part cannot be loaded, or what it needs is not installed.
    """
    names: list[str] = []
    for key in SUITES.names():
        names.extend(_part(key).names() if _is_family(SUITES.find(key)) else [key])
    return tuple(names)


def find_tasks(text: str, suites: Mapping[str, Mapping[str, JSON]] | None = None) -> list[NamedTask]:
    """Return the tasks that a text names: those of a suite, or one task.

    Args:
        text: A suite, "suite/task", or a task of LIBERO. A suite is a name or `module:attribute`; a task is one of its
            names or its instruction (case, spacing and a final full stop do not matter).
        suites: Arguments of suites, by how texts refer to them.

    Raises:
        UnknownNameError: No suite or task has the name; the message offers the closest.
        InvalidInputError: Several tasks have the name, or the suite cannot be used.
    """
    source, name = split_task(text)
    arguments = suites or {}
    if not name:
        if _is_suite(source):
            suite = find_suite(source, arguments.get(source))
            return [NamedTask(suite, source, task) for task in suite.tasks()]
        source, name = _part(_UNNAMED).find_task(None, text)
    else:
        key = _key(source)
        if key is not None and _is_family(SUITES.find(key)):
            source, name = _part(key).find_task(source, name)
    suite = find_suite(source, arguments.get(source))
    return [NamedTask(suite, source, find_task(suite, name))]


def split_task(text: str) -> tuple[str, str]:
    """Return the suite and the task of a text; where it has no slash, all of it and nothing."""
    prefix = _open_family(text)
    if prefix is not None:
        parts: tuple[str, str] = _part(prefix).split(text)
        return parts
    source, _, name = text.partition("/")
    return source, name


def foreign_suite(text: str) -> str | None:
    """Return the suite outside this package whose code runs when the tasks that a text names are looked up."""
    source, _ = split_task(text)
    key, prefix = _key(source), _open_family(source)
    if prefix is not None:  # a module may follow, which registers what is named after it
        return source if ":" in source.removeprefix(f"{prefix}:") else None
    return key if key is not None and SUITES.is_foreign(key) else None


def _open_family(text: str) -> str | None:
    """Return the family of this package, if any, whose suites are named after a colon."""
    prefix, colon, _ = text.partition(":")
    known = bool(colon) and prefix in SUITES.names() and not SUITES.is_foreign(prefix)
    return prefix if known and hasattr(SUITES.find(prefix), "split") else None


_MEMBERS = sorted({*Suite.__annotations__, *(name for name in vars(Suite) if not name.startswith("_"))})


def _key(source: str) -> str | None:
    """Return what the registry knows a suite as: its place, its name, or its family's; None: the registry does not."""
    prefix = _open_family(source)
    if prefix is not None:
        return prefix
    if ":" in source or source in SUITES.names():
        return source
    families = [name for name in SUITES.names() if source.startswith(f"{name}_")]
    return max(families, key=len, default=None)


def _part(key: str) -> Any:
    part = SUITES.find(key)
    return build_part("suite", key, part, {}) if callable(part) else part


def _known_names() -> list[str]:
    """Return names for a message, without loading what other packages offer."""
    names = [name for name in SUITES.names() if name != _UNNAMED]
    try:
        return [*names, *_part(_UNNAMED).names()]
    except DependencyNotInstalledError:
        return names


def _is_family(part: Any) -> bool:
    return callable(getattr(part, "suite", None)) and callable(getattr(part, "names", None))


def _is_suite(text: str) -> bool:
    """Tell whether a text without a slash names a suite, and not a task."""
    key = _key(text)
    if key is None:
        return False
    if not _is_family(SUITES.find(key)):
        return text == key
    return text != key if _open_family(text) else text in _part(key).names()


def find_task(suite: Suite, text: str) -> SuiteTask:
    """Return the task of a suite that has a text among its names, or as its instruction.

    Raises:
        UnknownNameError: None has; the message offers the closest.
        InvalidInputError: Several have.
    """
    tasks = suite.tasks()
    wanted = _normalise(text)
    found = [task for task in tasks if text in (task.name, *task.other_names)] or [
        task for task in tasks if _normalise(task.instruction) == wanted
    ]
    if not found:
        known = {known for task in tasks for known in (task.name, *task.other_names, task.instruction)}
        raise unknown_name(f"task of {suite.name}", text, known, _LIST_COMMAND)
    if len(found) > 1:
        names = ", ".join(task.name for task in found)
        raise InvalidInputError(f"{text!r} names {len(found)} tasks of {suite.name} ({names}); give a name.")
    return found[0]


def _normalise(instruction: str) -> str:
    return " ".join(instruction.casefold().split()).removesuffix(".")
