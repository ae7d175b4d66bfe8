"""The console grammar that the LIBERO scripts of OpenVLA, OpenVLA-OFT and openpi share.

An episode begins with `Task: INSTRUCTION` and `Starting episode N...`, N counted from 1 within its task, may report
an exception, and ends with `Success: True` or `Success: False`, the number of episodes so far and the number of
successes so far. `read_console_log` reads it and holds those two counters against what it read, so that a log with
lines missing, or two runs in one file, is refused.

All three scripts leave their loop on success, at an exception or when the suite's step budget is used up: a failure
without an exception is a timeout. They count an exception as a failure; here such an episode is aborted (protocol
section 3). Its `Success:` line is no evidence: openpi and OpenVLA may print the outcome of the episode before.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from roep_gym.evaluate.importers.episode_log import (
    ABORTED,
    EpisodeLog,
    LoggedEpisode,
    aborted_note,
    one_suite,
    refuse,
)

__all__ = ["LIBERO_STEP_BUDGETS", "ConsoleFormat", "read_console_log"]

LIBERO_STEP_BUDGETS: Mapping[str, int] = {
    "libero_spatial": 220,
    "libero_object": 280,
    "libero_goal": 300,
    "libero_10": 520,
    "libero_90": 400,
}
"""Step budgets in the three scripts, settling steps excluded."""

_COUNTED = re.compile(r"# episodes completed so far: (\d+)")
_SUCCESSES = re.compile(r"# successes: (\d+) \(")
_STARTING = re.compile(r"Starting episode (\d+)\.\.\.")
_OUTCOME = re.compile(r"Success: (True|False)")
_WHOLE_LOG = "give the whole log of one evaluation"


@dataclass(frozen=True)
class ConsoleFormat:
    """How one tool writes the grammar.

    Attributes:
        tool: Name of the tool, for messages.
        crash: Beginnings of the line that reports an exception.
        begins: How the first line of an episode looks in the file, for messages.
        remedy: What to do when the file holds no episode.
    """

    tool: str
    crash: tuple[str, ...]
    begins: str
    remedy: str


@dataclass
class _Reading:
    """What was read so far.

    Attributes:
        suite: Named suite.
        instruction: Instruction of the coming episode.
        task: Name of the current task; a suite may give two tasks the same instruction.
        tasks: Tasks that each instruction has named so far.
        open: The episode that has begun and not ended.
        crashed_successes: Aborted episodes whose `Success:` line says True.
        own_states: Whether initial states came from a file of the user.
    """

    path: Path
    suite: str = ""
    instruction: str = ""
    task: str = ""
    tasks: Counter[str] = field(default_factory=Counter)
    open: LoggedEpisode | None = None
    episodes: list[LoggedEpisode] = field(default_factory=list)
    successes: int = 0
    crashed_successes: int = 0
    own_states: bool = False
    skipped: int = 0

    def begin(self, number: int, stated_suite: str) -> None:
        """Begin the episode `number` of the named task."""
        if self.open is not None:
            raise refuse(
                self.path,
                f"the outcome of episode {self.open.episode + 1} of {self.open.instruction!r}",
                f"the start of episode {number}",
                _WHOLE_LOG,
            )
        suite = one_suite(self.path, self.suite, stated_suite)
        last = self.episodes[-1] if self.episodes else None
        goes_on = last is not None and last.task == self.task and last.instruction == self.instruction
        if not (goes_on and last is not None and number == last.episode + 2):
            if number != 1:
                raise refuse(
                    self.path, f"episode 1 of {self.instruction!r} first", f"episode {number}", _WHOLE_LOG
                )
            self.tasks[self.instruction] += 1
            count = self.tasks[self.instruction]
            self.task = self.instruction if count == 1 else f"{self.instruction} ({count})"
        self.open = LoggedEpisode(
            suite=suite,
            task=self.task,
            episode=number - 1,
            reason="timeout",
            instruction=self.instruction,
            init_state=None if self.own_states else number - 1,
        )

    def crash(self, message: str) -> None:
        """Note the exception of the current episode."""
        if self.open is not None:
            self.open = replace(self.open, reason=ABORTED, detail=message)

    def end(self, success: bool) -> None:
        """End the current episode."""
        if self.open is None:
            raise refuse(self.path, "the start of an episode before its outcome", "none", _WHOLE_LOG)
        if self.open.reason == ABORTED:
            self.crashed_successes += success
        elif success:
            self.open = replace(self.open, reason="success")
            self.successes += 1
        self.episodes.append(self.open)
        self.open = None

    def check(self, what: str, logged: int, read: int) -> None:
        """Hold a counter of the log against what was read."""
        if logged != read:
            raise refuse(self.path, f"{read} {what} at this place", f"{logged} in the log", _WHOLE_LOG)


def read_console_log(
    path: Path, messages: Iterable[str], layout: ConsoleFormat, stated_suite: str
) -> EpisodeLog:
    """Read the messages of a console log, without their logging prefix.

    Args:
        path: The file, for messages.
        messages: Its messages, in order.
        layout: How the tool writes them.
        stated_suite: Suite that the user names; empty where the log must name it.

    Raises:
        InvalidInputError: The log holds no episode, lines are missing, or it holds several evaluations.
    """
    reading = _Reading(path)
    for message in messages:
        _read_message(reading, message, layout, stated_suite)
    if reading.open is not None:
        # The process was killed or is still running.
        cut = "the log ends before its outcome"
        reading.episodes.append(replace(reading.open, reason=ABORTED, detail=reading.open.detail or cut))
    if not reading.episodes:
        raise refuse(
            path,
            f"a log of {layout.tool} with lines such as {layout.begins!r}",
            "no such line",
            layout.remedy,
        )
    suite = reading.episodes[0].suite
    budget = {suite: LIBERO_STEP_BUDGETS[suite]} if suite in LIBERO_STEP_BUDGETS else {}
    return EpisodeLog(path, tuple(reading.episodes), step_budgets=budget, notes=_notes(reading, layout))


def _read_message(reading: _Reading, message: str, layout: ConsoleFormat, stated_suite: str) -> None:
    """Let one message change what was read."""
    if message.startswith("Task suite: "):
        if reading.suite:
            raise refuse(
                reading.path, "one evaluation", "a second 'Task suite:' line", "split the file there"
            )
        reading.suite = message.removeprefix("Task suite: ").strip()
    elif message.startswith("Task: "):
        reading.instruction = message.removeprefix("Task: ").strip()
    elif message.startswith("Using initial states from "):
        reading.own_states = True
    elif message.startswith("Skipping task "):
        reading.skipped += 1
    elif message.startswith(layout.crash):
        reading.crash(message.strip())
    elif found := _STARTING.match(message):
        reading.begin(int(found[1]), stated_suite)
    elif found := _OUTCOME.match(message):
        reading.end(found[1] == "True")
    elif found := _COUNTED.match(message):
        reading.check("episodes", int(found[1]), len(reading.episodes))
    elif found := _SUCCESSES.match(message):
        reading.check("successes", int(found[1]), reading.successes)


def _notes(reading: _Reading, layout: ConsoleFormat) -> tuple[str, ...]:
    """Return what the log counts in another way than the protocol."""
    cause = f"ended in an exception, which {layout.tool} counts as a failure, or with the log"
    notes = list(aborted_note(reading.episodes, cause))
    if reading.crashed_successes:
        notes.append(
            "Aborted episodes printed as successes, which is the stale outcome of the episode before: "
            f"{reading.crashed_successes}."
        )
    if reading.skipped:
        notes.append(
            f"Episodes that the script skipped, as the demonstration of their initial state failed: {reading.skipped}."
        )
    return tuple(notes)
