"""The driver of a run: hands out planned episodes, writes the journal, trains the shields, resumes.

`evaluate` is the only writer. Whatever is interrupted, starting it again with the same plan and folder continues.
`RunSummary` is what it returns, an `Observer` is called while it runs.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import xarray as xr

from roep_gym.atomic_file import write_atomically
from roep_gym.error import InvalidInputError, RoepError
from roep_gym.evaluate.plan import (
    EvaluationPlan,
    ModelSpec,
    PlannedEpisode,
    ResolvedPlan,
    Row,
    plan_from_mapping,
    resolve,
)
from roep_gym.evaluate.run.determinism_stage import measure_determinism
from roep_gym.evaluate.run.environment_stack import check_runnable
from roep_gym.evaluate.run.in_process_executor import InProcessExecutor
from roep_gym.evaluate.run.local_executor import LocalExecutor
from roep_gym.evaluate.run.servers import check_servers
from roep_gym.evaluate.run.work import Executor, WorkItem, WorkResult
from roep_gym.evaluate.schema import CONDITIONS
from roep_gym.evaluate.store.dataset import write_run
from roep_gym.evaluate.store.journal import Abort, Journal
from roep_gym.evaluate.store.labelled import load_run
from roep_gym.evaluate.store.packed_record import PackedRecord
from roep_gym.evaluate.store.row_shield import RowShield, load_row_shield, save_row_shield
from roep_gym.evaluate.store.run_directory import RunDirectory, frames_path, write_frames
from roep_gym.shields.bootstrap import train_shield
from roep_gym.shields.labels import BootstrapEpisode
from roep_gym.shields.storage import save_shield

__all__ = ["Observer", "RunSummary", "SilentObserver", "evaluate"]

RETRIES = 2
"""Further attempts at an episode that an infrastructure failure ended; with the same seeds."""

HOPELESS = 3
"""Episodes of a row that fail all attempts in succession before the rest of the row is left for another time."""

_POLL_SECONDS = 0.5


class Observer(Protocol):
    """Is told how a run goes; a progress bar, a log, a test."""

    def started(self, planned: int, recorded: int) -> None:
        """The run begins: episodes that can be run, and how many of them are recorded already."""

    def recorded(self, planned: PlannedEpisode, reason: str, steps: int) -> None:
        """An episode was recorded."""

    def aborted(self, planned: PlannedEpisode, cause: str, retried: bool) -> None:
        """An attempt was aborted."""

    def shield(self, row: Row, shield: RowShield, dropped: int) -> None:
        """A row's bootstrap ended; `dropped` planned episodes are unavailable for lack of a shield."""


class SilentObserver:
    """An observer that says nothing."""

    def started(self, *arguments: Any, **named: Any) -> None:
        """Say nothing."""

    recorded = aborted = shield = started


@dataclass(frozen=True)
class RunSummary:
    """How a run ended.

    Attributes:
        recorded: Episodes with a record.
        incomplete: Episodes that have none after all attempts.
        unavailable: Episodes of shielded conditions whose row has no shield.
        aborts: All aborted attempts.
        path: Folder of the run.
    """

    recorded: int
    incomplete: tuple[PlannedEpisode, ...]
    unavailable: int
    aborts: tuple[Abort, ...]
    path: Path

    @property
    def data(self) -> xr.Dataset:
        """The run's Dataset, as `load_run` gives it."""
        return load_run(self.path)


def evaluate(
    plan: EvaluationPlan | ResolvedPlan | Mapping[str, Any],
    out: Path | str | None = None,
    make_executor: Callable[[ResolvedPlan], Executor] | None = None,
    observer: Observer | None = None,
    *,
    workers: int = 0,
) -> RunSummary:
    """Run what is planned and not recorded yet, and write the run's Dataset.

    Args:
        plan: The plan, or the mapping that a YAML file of it would hold.
        out: Folder of the run; one that holds a part of this plan is continued. None: a new temporary folder.
        make_executor: Makes another executor than `workers` says; it is closed when the run ends, however it ends.
        observer: Is called with what happens.
        workers: Worker processes on this machine; 0: the episodes run in this process, one after another.

    Raises:
        InvalidInputError: The plan has an unknown or wrong entry, a policy or environment cannot be built, the folder
            holds another plan, or a policy that is a Python object would have to leave this process.
        InfrastructureError: The server of a model that has episodes left does not answer, or is another one.
        RecordConflictError: An episode came out differently when it was run again.
        RoepError: The folder cannot be written; what was recorded before is safe.
    """
    if isinstance(plan, Mapping):
        plan = plan_from_mapping(plan)
    if isinstance(plan, EvaluationPlan):
        plan = resolve(plan)
    make_executor = _executor(plan, workers, make_executor)
    built_with = check_runnable(plan)
    run = RunDirectory(Path(tempfile.mkdtemp(prefix=f"roep_gym-{plan.plan.name}-") if out is None else out))
    with run.open(plan):
        if run.dataset.exists() and not run.journal.exists():
            raise InvalidInputError(
                f"Expected the journal {run.journal} beside {run.dataset.name}, but it is missing; restore it from a "
                "copy, or run into another output folder. Going on without it would overwrite what was recorded."
            )
        measure_determinism(run, plan, built_with)
        started = time.time()
        with closing(Journal(run.journal, plan.digest)) as journal:
            run.hold(run.journal)
            try:
                session = _Session(run, plan, journal, observer or SilentObserver())
                check_servers(session.models())
                with closing(make_executor(plan)) as executor:
                    session.work(executor)
            except BaseException as error:
                try:
                    run.check_in_place()
                    write_run(run, plan, journal)  # what is recorded can be judged
                except RoepError as second:
                    error.add_note(f"The Dataset could not be written either. {second}")
                raise
            run.check_in_place()
            write_run(run, plan, journal)
            _log(run, started)
            run.check_in_place()
            return session.summary()


def _executor(
    plan: ResolvedPlan, workers: int, make_executor: Callable[[ResolvedPlan], Executor] | None
) -> Callable[[ResolvedPlan], Executor]:
    """Return what makes the executor that the arguments of `evaluate` choose."""
    if workers and make_executor is not None:
        raise InvalidInputError(
            f"Expected `workers` or `make_executor`, got both ({workers} workers); give one."
        )
    if not workers and make_executor is None:
        return InProcessExecutor
    for model in plan.plan.models:
        if model.is_object:
            raise InvalidInputError(
                f"Expected a policy by its name where episodes leave this process, but that of {model.name!r} is a "
                "Python object; name it as 'module:attribute', or leave out `workers` and `make_executor`."
            )
    return make_executor or partial(LocalExecutor, workers=workers)


class _Session:
    """One call of `evaluate`: what waits, what is ready, what is left of each row's bootstrap."""

    def __init__(self, run: RunDirectory, plan: ResolvedPlan, journal: Journal, observer: Observer) -> None:
        self._run, self._plan, self._journal, self._observer = run, plan, journal, observer
        self._ready: deque[WorkItem] = deque()
        self._bootstrap: dict[int, set[PlannedEpisode]] = defaultdict(set)
        self._shielded: dict[int, list[PlannedEpisode]] = defaultdict(list)
        self._shields: dict[int, RowShield] = {}
        self._attempts: Counter[PlannedEpisode] = Counter()
        self._unstable: Counter[PlannedEpisode] = Counter()
        self._failed_in_succession: Counter[int] = Counter()
        self._done = journal.recorded()
        if plan.plan.frames != "none":
            # Frames that got lost are made again: the episode is run once more and must come out the same.
            self._done -= {p for p in journal.with_frames() if not frames_path(run, p).exists()}
        self._queue_all()

    def work(self, executor: Executor) -> None:
        """Run until nothing is ready and nothing runs."""
        running = 0
        while True:
            while self._ready and executor.capacity():
                executor.submit(self._ready.popleft())
                running += 1
            if not running:
                return
            results = executor.wait(_POLL_SECONDS)
            running -= len(results)
            self._take(results)

    def models(self) -> list[ModelSpec]:
        """Return the models that have episodes to run, in the order of the plan."""
        rows = {item.planned.row for item in self._ready}
        settled = self._done | self._unavailable()
        rows |= {index for index, planned in self._shielded.items() if not settled.issuperset(planned)}
        used = [self._plan.rows[index].model for index in rows]
        return [model for model in self._plan.plan.models if any(model is other for other in used)]

    def summary(self) -> RunSummary:
        """Return how the run stands."""
        unavailable = self._unavailable()
        missing = [p for p in self._plan.episodes() if p not in self._done and p not in unavailable]
        aborts = tuple(self._journal.aborts())
        return RunSummary(len(self._done), tuple(missing), len(unavailable), aborts, self._run.root)

    def _queue_all(self) -> None:
        rows: dict[int, list[PlannedEpisode]] = defaultdict(list)
        for planned in self._plan.episodes():
            condition = CONDITIONS[planned.condition]
            if condition.shielded:
                self._shielded[planned.row].append(planned)
                continue
            if condition.role == "bootstrap":
                self._bootstrap[planned.row].add(planned)
            if planned not in self._done:
                rows[planned.row].append(planned)
        for row in self._plan.rows:
            # The bootstrap goes first, so that a row's shield is ready when its other conditions are done.
            episodes = sorted(rows[row.index], key=lambda p: CONDITIONS[p.condition].role != "bootstrap")
            self._ready.extend(WorkItem(planned) for planned in episodes)
        for row in self._plan.rows:
            self._bootstrap[row.index] -= self._done
            self._release_shielded(row)
        unavailable = self._unavailable()
        self._observer.started(sum(1 for p in self._plan.episodes() if p not in unavailable), len(self._done))

    def _take(self, results: Sequence[WorkResult]) -> None:
        """Record what arrived together, before any of it counts."""
        self._run.check_in_place()
        finished = [(result.item.planned, result.record) for result in results if result.record is not None]
        for planned, record in finished:
            write_frames(self._run, planned, record.frames)
        if finished:
            self._journal.add_all(finished)
        for planned, record in finished:
            self._count(planned, record)
        for result in results:
            if result.record is None:
                self._try_again(result)

    def _count(self, planned: PlannedEpisode, record: PackedRecord) -> None:
        self._failed_in_succession[planned.row] = 0
        self._done.add(planned)
        self._observer.recorded(planned, record.reason, record.step_count)
        self._bootstrap[planned.row].discard(planned)
        if CONDITIONS[planned.condition].role == "bootstrap":
            self._release_shielded(self._plan.rows[planned.row])

    def _try_again(self, result: WorkResult) -> None:
        """Queue an aborted episode once more, unless it has failed too often or its row is hopeless."""
        planned = result.item.planned
        self._journal.add_abort(planned, result.cause, result.detail)
        self._attempts[planned] += 1
        self._unstable[planned] += result.unstable
        retried = self._attempts[planned] <= RETRIES
        self._observer.aborted(planned, result.cause, retried)
        if retried:
            diverged = self._unstable[planned] > 0
            self._ready.append(WorkItem(planned, self._attempts[planned], result.item.shield, diverged))
            return
        self._failed_in_succession[planned.row] += 1
        if self._failed_in_succession[planned.row] >= HOPELESS:
            # A dead server or a broken checkpoint fails every episode; other rows may still be fine.
            self._ready = deque(item for item in self._ready if item.planned.row != planned.row)

    def _release_shielded(self, row: Row) -> None:
        """Train or load the row's shield when its bootstrap is complete, and queue the shielded episodes."""
        waiting = [planned for planned in self._shielded[row.index] if planned not in self._done]
        if not self._shielded[row.index] or self._bootstrap[row.index] or row.index in self._shields:
            return
        shield = load_row_shield(self._run, row) or self._train_shield(row)
        self._shields[row.index] = shield
        available = shield.status == "trained"
        self._observer.shield(row, shield, 0 if available else len(waiting))
        if available:
            path = str(self._run.shields / shield.file)
            items = [WorkItem(planned, shield=path) for planned in waiting]
            # Before other rows' episodes: the worker still holds this row's scene.
            self._ready.extendleft(reversed(items))

    def _train_shield(self, row: Row) -> RowShield:
        """Train a row's shield on its recorded bootstrap episodes, and store it before it is used."""
        episodes = [
            BootstrapEpisode.from_record(record)
            for condition in self._plan.conditions
            if condition.role == "bootstrap"
            for _, record in self._journal.records(row.index, condition.name)
        ]
        outcome, shield = train_shield(episodes, self._plan.plan.shield), RowShield("failed")
        if outcome.shield is not None:
            path = save_shield(outcome.shield, self._run.shields / f"{outcome.shield.digest}.npz")
            shield = RowShield(
                "trained", file=path.name, digest=outcome.shield.digest, tau=outcome.shield.threshold
            )
        shield = replace(shield, reason=outcome.reason, metadata=outcome.metadata)
        save_row_shield(self._run, row, shield)
        return shield

    def _unavailable(self) -> set[PlannedEpisode]:
        """Return the planned episodes of shielded conditions whose row has no shield."""
        failed = [index for index, shield in self._shields.items() if shield.status != "trained"]
        return {planned for index in failed for planned in self._shielded[index]}


def _log(run: RunDirectory, started: float) -> None:
    """Append when this call ran; times are kept out of the Dataset, which equal runs share bit for bit."""
    try:
        calls: Sequence[object] = json.loads(run.log.read_text())
    except (FileNotFoundError, ValueError):  # a new run, or a damaged log, which nothing depends on
        calls = []
    entry = {"started": started, "ended": time.time()}
    write_atomically(run.log, json.dumps([*calls, entry], indent=1).encode())
