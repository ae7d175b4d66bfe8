"""The suites by name, by entry point (group `roep_gym.suites`) and by place in Python (`module:attribute`).

`find_suite` finds one, `suite_names` lists those that have a name, `find_tasks` finds the tasks that a text in a plan
names, and `find_task` one task of a suite.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from roep_gym.error import DependencyNotInstalledError, InvalidInputError, unknown_name
from roep_gym.registry import Registry, build_part
from roep_gym.suites.base import Suite, SuiteTask

__all__ = ["SUITES", "NamedTask", "find_suite", "find_task", "find_tasks", "foreign_suite", "suite_names"]

SUITES = Registry(
    "suite",
    "roep_gym.suites",
    {
        "libero": "roep_gym.suites.libero:LiberoFamily",
        "tabletop": "roep_gym.suites.tabletop:TabletopSuite",
    },
)
"""A part is a class or function that is called without arguments and gives a `Suite` or a `SuiteFamily`, or a `Suite`
itself."""

_UNNAMED = "libero"
"""The family in which a task without a suite is looked for."""
_LIST_COMMAND = "`roep-gym tasks` lists suites and tasks."
_REMEDY = f"A suite of your own is named 'module:attribute'. {_LIST_COMMAND}"


class NamedTask(NamedTuple):
    """A task that a plan names: its suite, how the plan refers to the suite, and the task."""

    suite: Suite
    source: str
    task: SuiteTask


@cache
def find_suite(source: str) -> Suite:
    """Return a suite by its name or its place in Python (`module:attribute`).

    Raises:
        UnknownNameError: No suite has the name; the message offers the closest.
        InvalidInputError: Nothing is at the place, or what is there is no suite.
    """
    key = _key(source)
    if key is None:
        raise unknown_name("suite", source, _known_names(), _REMEDY)
    part = _part(key)
    if _is_family(part):
        part = part.suite(source)
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
        part = _part(key)
        names.extend(part.names() if _is_family(part) else [key])
    return tuple(names)


def find_tasks(text: str) -> list[NamedTask]:
    """Return the tasks that a text names: those of a suite, or one task.

    Args:
        text: A suite, "suite/task", or a task of LIBERO. A suite is a name or `module:attribute`; a task is one of its
            names or its instruction (case, spacing and a final full stop do not matter).

    Raises:
        UnknownNameError: No suite or task has the name; the message offers the closest.
        InvalidInputError: Several tasks have the name, or the suite cannot be used.
    """
    source, slash, name = text.partition("/")
    if not slash:
        if _is_suite(text):
            suite = find_suite(text)
            return [NamedTask(suite, text, task) for task in suite.tasks()]
        source, name = _part(_UNNAMED).find_task(None, text)
    else:
        key = _key(source)
        if key is not None and _is_family(_part(key)):
            source, name = _part(key).find_task(source, name)
    suite = find_suite(source)
    return [NamedTask(suite, source, find_task(suite, name))]


def foreign_suite(text: str) -> str | None:
    """Return the suite outside this package whose code runs when the tasks that a text names are looked up."""
    key = _key(text.partition("/")[0])
    return key if key is not None and SUITES.is_foreign(key) else None


_MEMBERS = sorted({*Suite.__annotations__, *(name for name in vars(Suite) if not name.startswith("_"))})


def _key(source: str) -> str | None:
    """Return what the registry knows a suite as: its place, its name, or its family's; None: the registry does not."""
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
    part = _part(key)
    return text in part.names() if _is_family(part) else text == key


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
