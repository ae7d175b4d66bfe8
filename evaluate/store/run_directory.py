"""The folder of a run: its files, and the lock that keeps a second writer out.

`RunDirectory.open` makes the folder or continues in it, `manifest_text` is the plan as a table, `write_frames` stores
the frames of an episode before the journal counts it.
"""

from __future__ import annotations

import csv
import fcntl
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from roep_gym.atomic_file import sweep, write_atomically, writing
from roep_gym.documents import read_json
from roep_gym.episode import SAMPLED
from roep_gym.error import InvalidInputError, RoepError
from roep_gym.evaluate.plan import (
    OBJECT_MARK,
    EvaluationPlan,
    PlannedEpisode,
    ResolvedPlan,
    plan_from_mapping,
)
from roep_gym.evaluate.store.flat_tables import EPISODES
from roep_gym.typing import JSON, Array

__all__ = ["RunDirectory", "frames_path", "manifest_text", "write_frames"]

_MANIFEST = (
    "model",
    "suite",
    "task",
    "condition",
    "run_id",
    "seed_group",
    "episode",
    "init_state",
    "env_seed",
)


class RunDirectory:
    """Paths of a run."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.plan = root / "plan.json"
        self.manifest = root / "manifest.csv"
        self.journal = root / "journal.sqlite"
        self.dataset = root / "episodes.nc"
        self.steps = root / "steps"
        self.frames = root / "frames"
        self.shields = root / "shields"
        self.log = root / "run_log.json"
        self.determinism = root / "determinism.json"
        self._held: dict[Path, int] = {}

    @contextmanager
    def open(self, plan: ResolvedPlan) -> Iterator[None]:
        """Hold the folder for writing; plan and manifest are stored before anything runs.

        Raises:
            InvalidInputError: The folder holds another plan, or records without one.
            RoepError: Another process is writing to it, or it cannot be written.
        """
        self._check_continuable()
        with writing(self.root):
            self.root.mkdir(parents=True, exist_ok=True)
            lock = (self.root / ".lock").open("w")
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise RoepError(
                    f"Expected to be the only writer of {self.root}, but another run is writing there; wait for it."
                ) from error
            self.hold(Path(lock.name))
            for folder in (self.root, self.steps, self.frames, self.shields):
                sweep(folder)
            self.check_plan(plan)
            if not self.plan.exists():
                write_atomically(self.manifest, manifest_text(plan).encode())
            # Also where it is there: reasons of acceptance may have been added.
            write_atomically(self.plan, plan.plan.to_json().encode())
            yield

    def hold(self, path: Path) -> None:
        """Remember a file that has to stay where it is while the run goes on."""
        self._held[path] = path.stat().st_ino

    def check_in_place(self) -> None:
        """Refuse a held file that was moved, deleted or replaced: what is written now would not be found."""
        for path, inode in self._held.items():
            try:
                present = path.stat().st_ino == inode
            except OSError:
                present = False
            if not present:
                raise RoepError(
                    f"Expected {path} to stay where it is while its run goes on, but it was moved, deleted or "
                    "replaced; move it back, or start the same command again."
                )

    def stored_plan(self) -> EvaluationPlan:
        """Return the plan that the folder holds; one with a policy that was a Python object is refused."""
        self._check_continuable()
        plan = plan_from_mapping(read_json(self.plan, "a plan"))
        for model in plan.models:
            if model.policy.startswith(OBJECT_MARK):
                raise InvalidInputError(
                    f"Expected a run that can be continued at {self.root}, but its policy {model.name!r} was a "
                    f"{model.policy}, which no file holds; choose another output folder."
                )
        return plan

    def measured_determinism(self) -> dict[str, dict[str, JSON]]:
        """Return what environments were seen to repeat, by task and settings; empty: none was measured."""
        if not self.determinism.exists():
            return {}
        stored: dict[str, dict[str, JSON]] = read_json(self.determinism, "what was measured of environments")
        return stored

    def _check_continuable(self) -> None:
        """Refuse a folder of records alone; running into it would overwrite them."""
        if not self.plan.exists() and (self.dataset.exists() or (self.root / EPISODES).exists()):
            raise InvalidInputError(
                f"Expected a new folder or a run that can be continued, but {self.root} holds records without a plan "
                "and a journal, as of a merged, published or imported run; choose another output folder."
            )

    def check_plan(self, plan: ResolvedPlan) -> None:
        """Refuse another plan than the one that the folder holds, if any."""
        self._check_continuable()
        if not self.plan.exists():
            return
        stored = self.stored_plan().content()
        wanted = plan.plan.content()
        names = {*stored, *wanted}
        differing = sorted(name for name in names if stored.get(name) != wanted.get(name))
        if differing:
            raise InvalidInputError(
                f"Expected the plan that {self.root} was begun with, got one that differs in {', '.join(differing)}; "
                "continue with the stored plan or choose another output folder."
            )


def manifest_text(plan: ResolvedPlan) -> str:
    """Return the planned episodes with their pairing keys as CSV."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(_MANIFEST)
    for planned in plan.episodes():
        row, identity = plan.rows[planned.row], plan.identity(planned)
        place = "" if identity.init_state == SAMPLED else identity.init_state
        names = (row.model.name, row.suite, row.task, planned.condition)
        writer.writerow([*names, *identity.key, place, identity.scene_seed])
    return buffer.getvalue()


def frames_path(run: RunDirectory, planned: PlannedEpisode) -> Path:
    """Return where the frames of an episode lie: `given_<key>` and `clean_<key>` by `step`."""
    name = f"{planned.row:04d}-{planned.condition}-{planned.seed_group}-{planned.episode}.npz"
    return run.frames / name


def write_frames(run: RunDirectory, planned: PlannedEpisode, frames: Mapping[str, Array]) -> None:
    """Store the frames of an episode, if it kept any."""
    if frames:
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **frames)  # type: ignore[arg-type]
        write_atomically(frames_path(run, planned), buffer.getvalue())
