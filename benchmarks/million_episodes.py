"""The journal, the Dataset and the gate at a million synthetic episodes.

    python benchmarks/million_episodes.py [--rows 100] [--batch 32] [--folder FOLDER]

A run of `rows` rows x 8 conditions x 50 episodes is written to a journal, with records as LIBERO leaves them (their
steps come from a small pool; no simulator runs), consolidated into the files of a run, and judged by `roep-gym gate`.
Each phase is a process of its own, so that its peak of resident memory is its own. Step files are written for the first
rows only. 2,500 rows are a million episodes; they need 25 GB of disk and half an hour.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from roep_gym import contracts, seeding
from roep_gym.atomic_file import write_atomically
from roep_gym.episode import EpisodeIdentity
from roep_gym.episode_record import EpisodeRecord
from roep_gym.evaluate.plan import (
    CONDITION_SETS,
    EvaluationPlan,
    ModelSpec,
    PlannedEpisode,
    ResolvedPlan,
    Row,
)
from roep_gym.evaluate.schema import CONDITIONS
from roep_gym.evaluate.store.dataset import build_dataset, build_steps
from roep_gym.evaluate.store.flat_tables import write_tables
from roep_gym.evaluate.store.journal import Journal
from roep_gym.evaluate.store.packed_record import PackedRecord, pack_record
from roep_gym.evaluate.store.run_directory import RunDirectory
from roep_gym.evaluate.store.storage import save_dataset
from roep_gym.wrappers.episode_trace import EpisodeTrace, TraceLayout
from roep_gym.wrappers.profiles import Profile

STEP_BUDGET = 280
STEP_ROWS = 10
POOL = 24
SUCCESS_RATES = {"clean": 0.9, "medium": 0.7}
LAYOUT = TraceLayout(
    action_low=-np.ones(7),
    action_high=np.ones(7),
    proprio_key="proprio",
    proprio_size=25,
    image_keys=("agentview_image",),
    depth_keys=("agentview_depth",),
    unsafe_channels=("action_bounds", "workspace"),
)
CONTRACT = contracts.RuntimeContract.applicable()
FINGERPRINT = dict.fromkeys(
    ("blas", "mujoco", "numpy", "processor", "renderer", "torch"), "of a synthetic run"
)


def synthetic_plan(rows: int) -> ResolvedPlan:
    """Return a plan of the paper's conditions and 5 x 10 episodes with that many rows."""
    model = ModelSpec("synthetic", "random")
    tasks = tuple(f"task_{index:05d}" for index in range(rows))
    plan = EvaluationPlan(name="synthetic", models=(model,), tasks=tasks, conditions=("main",))
    conditions = tuple(CONDITIONS[name] for name in CONDITION_SETS["main"])
    return ResolvedPlan(
        plan,
        tuple(
            Row(i, model, "synthetic", task, f"do {task}", STEP_BUDGET, "synthetic")
            for i, task in enumerate(tasks)
        ),
        conditions,
        {c.profile: Profile.from_spec(c.profile).to_spec() for c in conditions},
    )


def pool() -> dict[tuple[bool, bool, bool], list[EpisodeRecord]]:
    """Return records by (perturbed, shielded, success)."""
    return {
        (perturbed, shielded, success): [
            _trace(perturbed, shielded, success, number) for number in range(POOL)
        ]
        for perturbed in (False, True)
        for shielded in (False, True)
        for success in (False, True)
    }


def _trace(perturbed: bool, shielded: bool, success: bool, number: int) -> EpisodeRecord:
    random = seeding.generator("synthetic", int(perturbed), int(shielded), int(success), number)
    steps = int(random.integers(60, 120)) if success else STEP_BUDGET
    proprio = random.normal(0, 0.01, (steps + 1, LAYOUT.proprio_size)).cumsum(axis=0)
    actions = np.clip(random.normal(0, 0.02, (steps, 7)).cumsum(axis=0), -1, 1).astype(np.float32)
    patch = {"operator": "rgb_occlusion", "row": 10, "column": 20, "side": 38}
    dropout = {"operator": "depth_dropout", "probability": 0.1, "fraction": 0.1}
    metadata = {"agentview_image": [patch], "agentview_depth": [dropout]} if perturbed else {}
    trace = EpisodeTrace(
        LAYOUT,
        "none",
        EpisodeIdentity("pool", 0, number),
        {"instruction": "do something"},
        proprio=tuple(f"entry_{k}" for k in range(LAYOUT.proprio_size)),
        profile={"name": "medium" if perturbed else "clean", "operators": []},
    )
    for step in range(steps + 1):
        seen = {"perturbation": {"metadata": metadata, "changed": {}}, "frames_rendered": step % 8 == 0}
        trace.observe({"proprio": proprio[step]}, seen, looked=step % 8 == 0)
        if step == steps:
            break
        done: dict[str, Any] = {
            "unsafe": {"action_bounds": False, "workspace": bool(random.random() < 0.001)}
        }
        if shielded:
            intervened = bool(random.random() < 0.05)
            done["shield"] = {
                "risk": random.uniform(0.5, 1) if intervened else random.uniform(0, 0.5),
                "threshold": 0.5,
                "intervened": intervened,
                "reason": "threshold_reached" if intervened else "below_threshold",
                "projection": "projected" if intervened else "none",
                "refused": False,
            }
            done["executed_action"] = actions[step] * (0.5 if intervened else 1)
        trace.act(actions[step], 0.0, done)
    record = trace.finish("success" if success else "timeout")
    attributes = replace(
        record.attributes,
        longest_chunk=8,
        declared=CONTRACT.to_dict(),
        observed={"control_mode": "relative", "chunk_length": 8},
        fingerprint=FINGERPRINT,
    )
    return replace(record, attributes=attributes)


def recorded(plan: ResolvedPlan) -> Iterator[tuple[PlannedEpisode, PackedRecord]]:
    """Yield every planned episode with a record; its scene is that of its partners in the other conditions."""
    records = pool()
    for row in plan.rows:
        random = seeding.generator("outcomes", row.index)
        # Some rows are not admitted or lack support; partners mostly have the same outcome, as with real policies.
        quality = random.choice([0.2, 0.7, 0.9, 1.0, 1.1])
        hardness = random.random((plan.plan.seed_groups, plan.plan.episodes))
        for condition in plan.conditions:
            rate = quality * SUCCESS_RATES[condition.profile]
            for group in range(plan.plan.seed_groups):
                for episode in range(plan.plan.episodes):
                    planned = PlannedEpisode(row.index, condition.name, group, episode)
                    success = bool(hardness[group, episode] + random.normal(0, 0.01) < rate)
                    kind = (condition.profile != "clean", condition.shielded, success)
                    record = records[kind][int(random.integers(POOL))]
                    yield (
                        planned,
                        pack_record(
                            replace(
                                record,
                                summary=replace(
                                    record.summary,
                                    decisions=12,
                                    scene_hash=1000 * row.index + 10 * group + episode,
                                    settle_displacement=1e-5,
                                    fingerprint=1,
                                    policy_latency=0.01,
                                    wall_time=3.0,
                                ),
                                attributes=replace(record.attributes, episode=plan.identity(planned)),
                            )
                        ),
                    )


class Phase(NamedTuple):
    """What a phase took."""

    seconds: float
    peak_gib: float
    note: str


def write_journal(folder: Path, rows: int, batch: int) -> str:
    """Write the journal as the driver does when `batch` workers answer at a time, and return the rates."""
    plan, run = synthetic_plan(rows), RunDirectory(folder)
    with run.open(plan), closing(Journal(run.journal, plan.digest)) as journal:
        for row in plan.rows:
            shield = {"status": "trained", "reason": "", "file": "none.npz", "digest": f"{row.index}", "tau": 0.5,
                      "metadata": {"risk_positive_episodes": 9, "label_source": "timeout_tail"}}  # fmt: skip
            write_atomically(run.shields / f"{row.index}.json", json.dumps(shield).encode())
        window, in_window, spent, count, slowest = 0.0, 0, 0.0, 0, float("inf")
        waiting: list[tuple[PlannedEpisode, PackedRecord]] = []

        def flush() -> float:
            started = time.perf_counter()
            journal.add_all(waiting)
            waiting.clear()
            return time.perf_counter() - started

        for entry in recorded(plan):
            waiting.append(entry)
            if len(waiting) == batch:
                in_window += batch
                window += flush()
                if window >= 5:
                    slowest = min(slowest, in_window / window)
                    spent, count, window, in_window = spent + window, count + in_window, 0.0, 0
        count, spent = count + in_window + len(waiting), spent + window + flush()
        slowest = min(slowest, count / spent)
    size = run.journal.stat().st_size
    return f"{count / spent:.0f} episodes/s, slowest 5 s {slowest:.0f} episodes/s, {size / count / 1000:.1f} kB each"


def write_dataset(folder: Path, rows: int) -> str:
    """Write the episode Dataset and the tables from the journal, as the driver does when a run ends."""
    plan, run = synthetic_plan(rows), RunDirectory(folder)
    with closing(Journal(run.journal, plan.digest)) as journal:
        data = build_dataset(run, plan, journal)
    save_dataset(data, run.dataset)
    write_tables(data, run.root)
    return f"{run.dataset.stat().st_size / 1e6:.0f} MB"


def write_steps(folder: Path, rows: int) -> str:
    """Write the step Datasets of the first rows, as the driver does afterwards."""
    plan, run = synthetic_plan(rows), RunDirectory(folder)
    with closing(Journal(run.journal, plan.digest)) as journal:
        for row in plan.rows[:STEP_ROWS]:
            for condition in plan.conditions:
                steps = build_steps(list(journal.records(row.index, condition.name)))
                save_dataset(steps, run.steps / f"{row.index:04d}-{condition.name}.nc")
    return f"the first {len(list(run.steps.iterdir()))} of {rows * len(plan.conditions)} files"


def gate(folder: Path) -> str:
    """Judge the run from its files, as the command does."""
    from roep_gym.cli.main import main

    with redirect_stdout(StringIO()) as printed:
        main(["gate", str(folder)])
    return next(line for line in printed.getvalue().splitlines() if "rows:" in line)


def measured(function: Callable[..., str], *arguments: Any) -> Phase:
    """Run a phase in a fresh process."""
    ours, theirs = multiprocessing.get_context("spawn").Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(
        target=_measure, args=(theirs, function, arguments)
    )
    process.start()
    theirs.close()
    phase: Phase = ours.recv()
    process.join()
    return phase


def _measure(connection: Any, function: Callable[..., str], arguments: tuple[Any, ...]) -> None:
    started = time.perf_counter()
    note = function(*arguments)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    connection.send(Phase(seconds, peak, note))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--batch", type=int, default=32, help="results that arrive at a time")
    parser.add_argument("--folder", type=Path, help="where the run is kept; default: a temporary folder")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp())
    print(f"{400 * arguments.rows:,} episodes: {8 * arguments.rows} rows x conditions x 50\n")
    print("| phase | time | peak memory | |\n|---|---|---|---|")
    try:
        for name, function, values in (
            ("journal", write_journal, (folder, arguments.rows, arguments.batch)),
            ("Dataset and tables", write_dataset, (folder, arguments.rows)),
            ("steps", write_steps, (folder, arguments.rows)),
            ("gate", gate, (folder,)),
        ):
            phase = measured(function, *values)
            print(f"| {name} | {phase.seconds:.1f} s | {phase.peak_gib:.2f} GiB | {phase.note} |", flush=True)
    finally:
        if arguments.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
