"""What an importer hands over: `EpisodeLog`, the episodes of one log, and what all importers share in making it.

A log that does not hold a value leaves it None. `refuse` builds the one sentence that every refusal consists of,
`one_suite` decides between log and user, `stored_state` says which initial state LIBERO sets, `check_total` validates
a number of the file against its episodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from roep_gym.error import InvalidInputError

__all__ = [
    "ABORTED",
    "LIBERO_STEP_BUDGETS",
    "EpisodeLog",
    "LoggedEpisode",
    "Shard",
    "aborted_note",
    "check_total",
    "one_suite",
    "refuse",
    "stored_state",
]

ABORTED = "aborted"

LIBERO_STEP_BUDGETS: Mapping[str, int] = {
    "libero_spatial": 220,
    "libero_object": 280,
    "libero_goal": 300,
    "libero_10": 520,
    "libero_90": 400,
}
"""Step budgets in the scripts of OpenVLA, OpenVLA-OFT, openpi and vla-eval, settling steps excluded."""

_STORED_STATES = 50


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


class Shard(NamedTuple):
    """Which part of a run a file holds: the run as the file describes it, the part's number, and their total."""

    run: str
    number: int
    total: int


@dataclass(frozen=True)
class EpisodeLog:
    """The episodes of one log.

    Attributes:
        path: The file.
        episodes: Its episodes, in the order of the log.
        step_budgets: Step budget of each suite, where the tool fixes it.
        planned: Episodes per task that the log says were planned; 0 where it does not say.
        notes: Sentences on what the tool counts or does in another way than the protocol.
        shard: Which part of a run the file holds; None where it holds the whole.
    """

    path: Path
    episodes: tuple[LoggedEpisode, ...]
    step_budgets: Mapping[str, int] = field(default_factory=dict)
    planned: int = 0
    notes: tuple[str, ...] = ()
    shard: Shard | None = None


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
    return InvalidInputError(f"{path}: Expected {expected}, got {got}; {remedy}.")


def check_total(
    path: Path, name: str, stated: float, read: Sequence[float], *, tolerance: float = 0.0
) -> None:
    """Validate a total of the file against its episodes.

    Args:
        path: The file, for the message.
        name: What the file calls the total.
        stated: Its value.
        read: What the episodes give, in each way that the tool may have counted.
        tolerance: How far rounding may have moved the stated value.

    Raises:
        InvalidInputError: The file contradicts itself.
    """
    if not any(abs(stated - value) <= tolerance + 1e-9 for value in read):
        raise refuse(
            path,
            f"{' or '.join(f'{value:.6g}' for value in dict.fromkeys(read))} as {name}, which its episodes give",
            f"{stated:.6g}",
            "the file contradicts itself, restore it",
        )


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


def stored_state(number: int) -> int | None:
    """Return the stored initial state of a task's episode, of which LIBERO has 50; None beyond them."""
    return number if 0 <= number < _STORED_STATES else None
