"""What an importer hands over: `EpisodeLog`, the episodes of one log, and the ways of reading and refusing a file.

A log that does not hold a value leaves it None. `refuse` builds the one sentence that every refusal consists of,
`read_text`, `read_object`, `entry` and `objects` read a file of a known shape.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from roep_gym.error import InvalidInputError

__all__ = [
    "ABORTED",
    "EpisodeLog",
    "LoggedEpisode",
    "aborted_note",
    "entry",
    "objects",
    "one_suite",
    "read_object",
    "read_text",
    "refuse",
]

ABORTED = "aborted"
_T = TypeVar("_T")
_KINDS = {bool: "true or false", int: "an integer", str: "text", list: "a list", dict: "an object"}


@dataclass(frozen=True)
class LoggedEpisode:
    """One episode of a log.

    Attributes:
        suite: Task suite.
        task: Name of the task within its suite.
        episode: Position among the episodes of its task, from 0.
        reason: Termination reason of the protocol, or "aborted".
        instruction: Instruction, empty where the log does not hold it.
        steps: Control steps, settling steps excluded; None where they were not logged.
        init_state: Index of the stored initial state; None where neither the log nor its tool fixes it.
        detail: What the log says about the episode, for people.
    """

    suite: str
    task: str
    episode: int
    reason: str
    instruction: str = ""
    steps: int | None = None
    init_state: int | None = None
    detail: str = ""


@dataclass(frozen=True)
class EpisodeLog:
    """The episodes of one log.

    Attributes:
        path: The file.
        episodes: Its episodes, in the order of the log.
        step_budgets: Step budget of each suite, where the tool fixes it.
        planned: Episodes a task that the log says were planned; 0 where it does not say.
        notes: Sentences on what the tool counts or does in another way than the protocol.
    """

    path: Path
    episodes: tuple[LoggedEpisode, ...]
    step_budgets: Mapping[str, int] = field(default_factory=dict)
    planned: int = 0
    notes: tuple[str, ...] = ()


def aborted_note(episodes: Sequence[LoggedEpisode], cause: str) -> tuple[str, ...]:
    """Return the note on aborted episodes, if there are any.

    Args:
        episodes: All episodes of a log.
        cause: What came to them and how their tool counts them, after "They".
    """
    aborted = sum(episode.reason == ABORTED for episode in episodes)
    if not aborted:
        return ()
    return (f"Aborted episodes: {aborted} of {len(episodes)}. They {cause}; here they enter no rate.",)


def refuse(path: Path, expected: str, got: str, remedy: str) -> InvalidInputError:
    """Return the error for a file of another shape."""
    return InvalidInputError(f"{path.name}: Expected {expected}, got {got}; {remedy}.")


def read_text(path: Path, tool: str) -> str:
    """Read a text file.

    Raises:
        InvalidInputError: It cannot be read as UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(
            f"{path}: Expected a text log of {tool}, but reading it failed: {error}; check the path and --from."
        ) from error


def read_object(path: Path, tool: str) -> dict[str, Any]:
    """Read a JSON file that holds one object.

    Raises:
        InvalidInputError: It cannot be read, is not JSON, or holds something else.
    """
    try:
        content = json.loads(read_text(path, tool))
    except json.JSONDecodeError as error:
        raise InvalidInputError(
            f"{path.name}: Expected a JSON file of {tool}, but reading it failed: {error}; check the path and --from."
        ) from error
    if not isinstance(content, dict):
        raise refuse(path, f"one JSON object of {tool}", type(content).__name__, "check --from")
    return content


def entry(path: Path, holder: Mapping[str, Any], name: str, kind: type[_T], where: str) -> _T:
    """Return an entry of a JSON object that must be there and of its kind.

    Args:
        path: The file, for the message.
        holder: The object.
        name: Name of the entry.
        kind: bool, int, str, list or dict.
        where: Place of the object in the file, for the message.

    Raises:
        InvalidInputError: The entry is missing or of another kind.
    """
    value = holder.get(name)
    # A bool is an int to Python, and not to the one who wrote the file.
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        got = repr(value) if name in holder else "none"
        raise refuse(
            path,
            f"{_KINDS[kind]} as {name!r} of {where}",
            got if len(got) < 80 else f"{got[:77]}...",
            "this is not the shape that the importer knows, see docs/importing.md; bring the outcomes as tables",
        )
    return value


def objects(path: Path, holder: Mapping[str, Any], name: str, where: str) -> list[dict[str, Any]]:
    """Return an entry of a JSON object that must be a list of objects.

    Raises:
        InvalidInputError: The entry is missing or something else.
    """
    found = entry(path, holder, name, list, where)
    wrong = [k for k, item in enumerate(found) if not isinstance(item, dict)]
    if wrong:
        raise refuse(
            path, f"an object as {name}[{wrong[0]}] of {where}", repr(found[wrong[0]]), "restore the file"
        )
    return found


def one_suite(path: Path, logged: str, stated: str) -> str:
    """Return the suite that the log or the user names.

    Raises:
        InvalidInputError: Neither names one, or they differ.
    """
    if logged and stated and logged != stated:
        raise refuse(
            path, f"episodes of {stated!r} (--suite)", repr(logged), "leave --suite out or correct it"
        )
    if not (logged or stated):
        raise refuse(path, "the name of the task suite", "none in the log", "name it with --suite")
    return logged or stated
