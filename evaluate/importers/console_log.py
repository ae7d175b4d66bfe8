"""The console grammar that the LIBERO scripts of OpenVLA, OpenVLA-OFT and openpi share.

Looked at: openpi's `examples/libero/main.py` at commit 04a8d0c9 and its console output in public notes;
`run_libero_eval.py` of openvla/openvla (commit 7ea27426) and of OpenVLA-OFT in a public copy (commit 69ca45a4). openpi
writes no file: its log is what it prints on standard error, each message behind `INFO:root:` or `ERROR:root:` of
`logging.basicConfig`. The other two write `EVAL-SUITE-FAMILY-DATE.txt` with bare lines, and the same on the console
behind `DATE [INFO] `.

An episode begins with `Task: INSTRUCTION` and `Starting episode N...`, N counted from 1 within its task, may report
an exception, and ends with `Success: True` or `Success: False`, the number of episodes so far and the number of
successes so far. Every counter and total is validated against what was read, so that a log with lines missing, or two
runs in one file, is refused. `Starting episode N...` sets the stored initial state N - 1, unless a line says otherwise.

All three scripts leave their loop on success, at an exception or when the suite's step budget is used up: a failure
without an exception is a timeout. They count an exception as a failure; here such an episode is aborted (protocol
section 3). Its `Success:` line is no evidence: openpi and OpenVLA may print the outcome of the episode before.

Not in the log: steps, actions, the seed. The simulator is seeded once per task, so the scene of an episode depends on
the resets before it: no scene seed.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from roep_gym.error import InvalidInputError
from roep_gym.evaluate.importers.episode_log import (
    ABORTED,
    LIBERO_STEP_BUDGETS,
    EpisodeLog,
    LoggedEpisode,
    aborted_note,
    check_total,
    one_suite,
    refuse,
    stored_state,
)
from roep_gym.evaluate.importers.terminal_text import Message, read_messages
from roep_gym.evaluate.store.given_files import read_text

__all__ = ["read_openpi_log", "read_openvla_oft_log"]

_ANCHORS = re.compile(r"(?<!\w)(?:Starting episode \d+\.\.\.|# (?:episodes completed so far|successes): \d+)")
_HEADS = re.compile(
    _ANCHORS.pattern
    + r"|(?<!\w)(?:Task suite: |Task: |Success: (?:True|False)|Episode error: |Caught exception: |Skipping task "
    r"|(?:Current (?:task|total)|Total|Overall) success rate: |Total (?:episodes|successes): |Final results: ?"
    r"|Using default initial states$)"
)
_STARTING = re.compile(r"Starting episode (\d{1,9})\.\.\.")
_OUTCOME = re.compile(r"Success: (True|False)\b")
_SUCCESSES = re.compile(r"# successes: (\d+) \((\d+(?:\.\d+)?)%")
_FINAL = re.compile(r"Final results: (\d+)/(\d+)")
_TOTAL_RATES = ("Current total success rate", "Total success rate", "Overall success rate")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_SUITE = re.compile(r"""["']?(\w[\w.-]*?)["']?(?:[^\w.'"-].*|[.,;:]*)?""")
_LABEL = r"""["']?(?:[A-Za-z]\w*[ _]?){1,3}["']?"""
_REMARK = re.compile(
    rf"\s*(?:\|.*|(?:[,;([{{<]|-+>?|=>)+\s*{_LABEL}[:=].*"
    r"|(?<=\s)(?i:prompt|instruction|language|seed|task_id)\s*[:=].*|[([]?\s*\d+\s*/\s*\d+\s*[)\]]?)$"
)
"""What a script may append to an instruction: `| Prompt: ...`, `(task_id=3)`, `[3/10]`."""
_DEFAULT_STATES = re.compile(r"Using default initial states|initial_states_path\W+DEFAULT\b")
_STATES = re.compile(r"(?<![a-z])init(?:ial|ialization)?[ _-]?state", re.IGNORECASE)
_SAFETY = re.compile(
    r"^[^:=/]*(?:safe|violat|collision|collided|hazard|\bcosts?\b)[^:=/]*[:=]", re.IGNORECASE
)


@dataclass(frozen=True)
class _Format:
    """How one tool writes the grammar.

    Attributes:
        tool: Name of the tool, for messages.
        crash: Beginnings of the line that reports an exception.
        begins: How the first line of an episode looks in the file, for messages.
        remedy: What to do when the file holds no episode.
        logged: Whether it writes its messages with `logging`; otherwise another logger may have carried them.
        foreign: Beginnings of messages that only another tool writes.
    """

    tool: str
    crash: tuple[str, ...]
    begins: str
    remedy: str
    logged: bool
    foreign: tuple[str, ...]

    def writes(self, message: Message) -> bool:
        """Tell whether the tool may have written a message."""
        if message.text.startswith(self.foreign):
            return False
        if not self.logged:
            return not message.has_logger
        return message.has_level or _STARTING.match(message.text) is None


_OPENPI = _Format(
    tool="openpi",
    crash=("Caught exception: ",),
    begins="INFO:root:Starting episode 1...",
    remedy="record standard error of examples/libero/main.py (2> FILE), or check --from",
    logged=True,
    foreign=("Episode error: ", "Using default initial states", "Final results:", "Overall success rate: "),
)
_OPENVLA_OFT = _Format(
    tool="OpenVLA-OFT",
    crash=("Episode error: ", "Caught exception: "),
    begins="Starting episode 1...",
    remedy="give the file EVAL-*.txt of run_libero_eval.py, or check --from",
    logged=False,
    foreign=(),
)


def read_openpi_log(path: Path, suite: str = "") -> EpisodeLog:
    """Read a console log of openpi's LIBERO script.

    Args:
        path: The log.
        suite: Suite, where the log does not name it.

    Raises:
        InvalidInputError: It is not such a log, or lines are missing.
    """
    return _read_console_log(path, _OPENPI, suite)


def read_openvla_oft_log(path: Path, suite: str = "") -> EpisodeLog:
    """Read a text log of `run_libero_eval.py`, or its console, as `read_openpi_log` does openpi's."""
    return _read_console_log(path, _OPENVLA_OFT, suite)


@dataclass
class _Reading:
    """What was read so far.

    Attributes:
        suite: Suite that the log names, with what its line says beyond the name.
        instruction: Instruction of the coming episode.
        remark: What the line of the instruction says beyond it.
        task: Name of the current task; a suite may give two tasks the same instruction.
        tasks: Tasks that each instruction has named so far.
        open: The episode that has begun and not ended.
        crashed_successes: Aborted episodes whose `Success:` line says True.
        own_states: The line that speaks of other initial states.
        remarks: What lines say beyond the name that they give, by name.
        restarted: Tasks whose numbering began anew under another remark.
        skipped: Episodes that the script skipped.
        safety: Lines that speak of safety.
        rates: Rates of a task that differ from what was read.
    """

    path: Path
    stated_suite: str
    suite: str = ""
    instruction: str = ""
    remark: str = ""
    task: str = ""
    tasks: Counter[str] = field(default_factory=Counter)
    open: LoggedEpisode | None = None
    episodes: list[LoggedEpisode] = field(default_factory=list)
    successes: int = 0
    crashed_successes: int = 0
    own_states: str = ""
    remarks: dict[str, str] = field(default_factory=dict)
    restarted: set[str] = field(default_factory=set)
    skipped: int = 0
    safety: list[str] = field(default_factory=list)
    rates: list[str] = field(default_factory=list)
    last_remark: str = ""
    last_number: int = 0

    def name_suite(self, text: str) -> None:
        """Take the suite's name from its line; with text beyond it, the user's word comes first."""
        if self.suite:
            raise refuse(self.path, "one evaluation", "a second 'Task suite:' line", "split the file there")
        found = _SUITE.fullmatch(text)
        name = found[1] if found else ""
        several = sum(suite in text for suite in LIBERO_STEP_BUDGETS) > 1
        more = name != text.strip("\"'")
        if more and (several or name not in LIBERO_STEP_BUDGETS or self.stated_suite):
            if not self.stated_suite:
                raise refuse(self.path, "the name of a task suite", repr(text), "name it with --suite")
            self.remarks[f"suite {self.stated_suite!r} (--suite)"] = text
            self.suite = self.stated_suite
            return
        self.suite = one_suite(self.path, name, self.stated_suite)
        if more:
            self.remarks[f"suite {name!r}"] = text

    def name_task(self, text: str) -> None:
        """Take the instruction of the coming episodes from its line."""
        name = " ".join(_REMARK.sub("", text).split())
        self.remark = text.strip() if name != " ".join(text.split()) else ""
        if self.remark:
            self.remarks.setdefault(f"task {name!r}", self.remark)
        self.instruction = name

    def begin(self, number: int) -> None:
        """Begin the episode `number` of the named task."""
        if self.open is not None:
            outcome = f"the outcome of episode {self.open.episode + 1} of {self.open.instruction!r}"
            raise self.incomplete(outcome, f"the start of episode {number}")
        if not self.instruction:
            raise self.incomplete("the line 'Task: ...' before the first episode", f"episode {number}")
        suite = self.suite or one_suite(self.path, "", self.stated_suite)
        goes_on = bool(self.episodes) and self.episodes[-1].instruction == self.instruction
        if goes_on and number == 1 and self.remark != self.last_remark:
            # The same task under another prompt, say: what the log fixes is its position alone.
            self.restarted.add(self.instruction)
        elif not (goes_on and number == self.last_number + 1):
            if number != 1:
                raise self.incomplete(f"episode 1 of {self.instruction!r} first", f"episode {number}")
            self.tasks[self.instruction] += 1
            count = self.tasks[self.instruction]
            self.task = self.instruction if count == 1 else f"{self.instruction} ({count})"
        again = self.instruction in self.restarted
        self.last_remark, self.last_number = self.remark, number
        self.open = LoggedEpisode(
            suite=suite,
            task=self.task,
            episode=self.episodes[-1].episode + 1 if again else number - 1,
            reason="timeout",
            instruction=self.instruction,
            init_state=None if again else stored_state(number - 1),
            detail=self.remark,
        )

    def crash(self, message: str) -> None:
        """Note the exception of the current episode."""
        if self.open is not None:
            self.open = replace(self.open, reason=ABORTED, detail=message)

    def end(self, success: bool) -> None:
        """End the current episode."""
        if self.open is None:
            raise self.incomplete("the start of an episode before its outcome", "none")
        if self.open.reason == ABORTED:
            self.crashed_successes += success
        elif success:
            self.open = replace(self.open, reason="success")
            self.successes += 1
        self.episodes.append(self.open)
        self.open = None

    def check(self, what: str, logged: int, read: int) -> None:
        """Validate a counter of the log against what was read."""
        if logged != read:
            raise self.incomplete(f"{read} {what} at this place", f"{logged} in the log")

    def incomplete(self, expected: str, got: str) -> InvalidInputError:
        """Return the error for a log with lines missing."""
        return refuse(self.path, expected, got, "give the whole log of one evaluation")

    def rate_task(self, stated: float) -> None:
        """Note a rate of the last task that its episodes contradict; forks print other rates here."""
        held = [e for e in self.episodes if e.task == self.task]
        read = sum(e.reason == "success" for e in held) / max(len(held), 1)
        if abs(read - stated) > 0.006:
            self.rates.append(f"{stated:.6g} where {read:.6g} was read of {self.task!r}")


def _read_console_log(path: Path, layout: _Format, stated_suite: str) -> EpisodeLog:
    reading = _Reading(path, stated_suite)
    text = read_text(path, f"a text log of {layout.tool}", "check the path and --from")
    for message in read_messages(text, _HEADS, _ANCHORS):
        if message.headed and not layout.writes(message):
            reading.episodes.clear()
            reading.open = None
            break
        _read_message(reading, message.text, layout)
    if reading.open is not None:
        # The process was killed or is still running.
        cut = "the log ends before its outcome"
        detail = reading.open.detail if reading.open.reason == ABORTED else cut
        reading.episodes.append(replace(reading.open, reason=ABORTED, detail=detail))
    if not reading.episodes:
        raise refuse(
            path,
            f"a log of {layout.tool} with lines such as {layout.begins!r}",
            "no such line",
            layout.remedy,
        )
    episodes = reading.episodes
    if reading.own_states:
        episodes = [replace(episode, init_state=None) for episode in episodes]
    suite = episodes[0].suite
    budget = {suite: LIBERO_STEP_BUDGETS[suite]} if suite in LIBERO_STEP_BUDGETS else {}
    return EpisodeLog(path, tuple(episodes), step_budgets=budget, notes=_notes(reading, layout))


def _read_message(reading: _Reading, message: str, layout: _Format) -> None:
    if message.startswith("Task suite: "):
        reading.name_suite(message.removeprefix("Task suite: ").strip())
    elif message.startswith("Task: "):
        reading.name_task(message.removeprefix("Task: "))
    elif message.startswith("Skipping task "):
        reading.skipped += 1
    elif message.startswith(layout.crash):
        reading.crash(message)
    elif found := _STARTING.match(message):
        reading.begin(int(found[1]))
    elif found := _OUTCOME.match(message):
        reading.end(found[1] == "True")
    elif found := _SUCCESSES.match(message):
        reading.check("successes", int(found[1]), reading.successes)
        percent = 100.0 * reading.successes / max(len(reading.episodes), 1)
        check_total(reading.path, f"{message!r}", float(found[2]), [percent], tolerance=0.06)
    elif found := _FINAL.match(message):
        reading.check("successes", int(found[1]), reading.successes)
        reading.check("episodes", int(found[2]), len(reading.episodes))
    elif _STATES.search(message) and not _DEFAULT_STATES.search(message):
        reading.own_states = reading.own_states or message
    elif _SAFETY.match(message):
        reading.safety.append(message)
    else:
        _check_total(reading, message)


def _check_total(reading: _Reading, message: str) -> None:
    head, _, value = message.partition(": ")
    found = _NUMBER.match(value)
    if found is None:
        return
    stated, episodes = float(found[0]), len(reading.episodes)
    if head == "Current task success rate":
        reading.rate_task(stated)
    elif head in ("# episodes completed so far", "Total episodes"):
        reading.check("episodes", int(stated), episodes)
    elif head == "Total successes":
        reading.check("successes", int(stated), reading.successes)
    elif head in _TOTAL_RATES and episodes:
        check_total(reading.path, f"'{head}'", stated, [reading.successes / episodes], tolerance=0.006)


def _notes(reading: _Reading, layout: _Format) -> tuple[str, ...]:
    """Return what the log counts in another way than the protocol, and what it says that was not read."""
    cause = f"ended in an exception, which {layout.tool} counts as a failure, or with the log"
    notes = list(aborted_note(reading.episodes, cause))
    if reading.crashed_successes:
        notes.append(
            "Aborted episodes printed as successes, which is the stale outcome of the episode before: "
            f"{reading.crashed_successes}."
        )
    suite = reading.episodes[0].suite
    if suite not in LIBERO_STEP_BUDGETS:
        notes.append(f"{suite!r} is none of the suites of these scripts; its step budget is not known.")
    notes += [
        f"The line of the {name} says more, which was not read: {text!r}."
        for name, text in reading.remarks.items()
    ]
    notes += [
        f"The numbering of {task!r} begins again under another text; its episodes are counted on, and their initial "
        "states are left empty from there."
        for task in sorted(reading.restarted)
    ]
    if reading.own_states:
        notes.append(
            f"Initial states are left empty, since a line speaks of them: {reading.own_states[:120]!r}."
        )
    elif any(e.init_state is None for e in reading.episodes) and not reading.restarted:
        notes.append("Initial states are left empty beyond the 50 that LIBERO stores for each task.")
    if reading.safety:
        notes.append(
            f"Lines on safety: {len(reading.safety)}, the first is {reading.safety[0][:120]!r}; they were not read, "
            "and unsafe attempts stay unknown."
        )
    if reading.rates:
        notes.append(
            f"Rates of a task that its episodes contradict: {len(reading.rates)}, the first is {reading.rates[0]}."
        )
    if reading.skipped:
        notes.append(
            f"Episodes that the script skipped, as the demonstration of their initial state failed: {reading.skipped}."
        )
    return tuple(notes)
