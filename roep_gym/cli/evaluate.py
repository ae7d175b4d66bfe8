"""`roep-gym evaluate`: run a plan, from a YAML file or from flags, and print what it shows."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from roep_gym.cli import gate
from roep_gym.cli.arguments import Flag, Repeated, given, key_values
from roep_gym.cli.foreign_code import announce, policy_code, suite_code, training_code
from roep_gym.cli.terminal import make_console, print_tables, say
from roep_gym.documents import read_yaml
from roep_gym.error import InfrastructureError, InvalidInputError, shown, unknown_name
from roep_gym.escape import file_name
from roep_gym.evaluate.plan import (
    EvaluationPlan,
    ResolvedPlan,
    check_bootstrap_scenes,
    plan_from_mapping,
    resolve,
)
from roep_gym.evaluate.report.cells import ROW_COLUMNS, words
from roep_gym.evaluate.report.records import open_run
from roep_gym.evaluate.report.table import Column, Table, count, text
from roep_gym.evaluate.report.tables import make_tables
from roep_gym.evaluate.run.inference_server import InferenceSettings
from roep_gym.evaluate.run.work import Executor
from roep_gym.evaluate.store.journal import recorded_times
from roep_gym.evaluate.store.run_directory import RunDirectory
from roep_gym.policies.batching import BatchLimits
from roep_gym.policies.registry import POLICIES
from roep_gym.suites.registry import split_task

__all__ = ["Arguments", "run"]

_BACKENDS = ("egl", "osmesa", "glfw", "glx", "cgl", "wgl")
_NOT_CHECKED = (
    "Dry run: nothing was loaded or built. Not checked: that the policies can be built with their arguments "
    "and files, that the environments can be built as they ask, that both fit each other and the shields, and that "
    "rendering works. The run itself checks this before its first episode."
)


@dataclass(frozen=True)
class Arguments:
    """Evaluate policies on LIBERO under the ROEP protocol; start the same command again to continue a run."""

    plan: Annotated[str, tyro.conf.Positional] = ""
    """YAML file of the plan; flags replace single fields of it. Without one, --policy and --task make the plan."""
    out: str = ""
    """Folder of the run; default: runs/NAME. A folder that holds a part of the same plan is continued."""
    name: str = ""
    """Name of the evaluation; part of every run id."""
    policy: str = ""
    """Policy: random, expert, sb3, openpi or module:attribute."""
    argument: Repeated = ()
    """Argument of the policy as key=value, the value read as YAML; give the flag once for each."""
    model: str = ""
    """Label of the policy in the tables; default: its name."""
    task: Repeated = ()
    """Task: suite/task, a suite, or LIBERO's name, instruction or paper's id; give the flag once for each."""
    suite_argument: Repeated = ()
    """Argument of the suites of --task as key=value, the value read as YAML; give the flag once for each."""
    condition: Repeated = ()
    """Condition, or one of the sets quick, main, all; give the flag once for each."""
    seed_groups: int | None = None
    """Seed groups of each condition."""
    episodes: int | None = None
    """Episodes of each seed group."""
    step_budget: int | None = None
    """Control steps an episode may take."""
    camera: Repeated = ()
    """Camera that is drawn at every decision; give the flag once for each; default: those the policy asks for."""
    frames: str = ""
    """Frames to keep: none, looked (clean and given frames of every decision) or all."""
    workers: int = 0
    """Worker processes; default: one a core."""
    stall_timeout: float = 180.0
    """Seconds without a control step after which a worker counts as hung and is replaced."""
    executor: str = "local"
    """Where the workers run: local, which is this machine, or ray, which is a Ray cluster (extra "ray")."""
    ray_address: str = ""
    """Address of an existing Ray cluster, or auto on one of its machines; default: Ray is started on this machine."""
    worker_cpus: float | None = None
    """CPUs that Ray keeps for a worker; default: 1."""
    worker_gpus: float | None = None
    """GPUs, or the share of one, that Ray keeps for a worker, which draws its frames there; default: 0."""
    inference: str = "per-worker"
    """Where the policies run: per-worker, or shared, which is one process that asks them for all workers at once."""
    max_batch: int | None = None
    """Decisions that the shared process asks in one call at most; default: 16."""
    max_wait: float | None = None
    """Seconds that a decision waits for those of other workers in the shared process; default: 0.01."""
    inference_threads: int | None = None
    """Threads of torch and BLAS in the shared process; default: 1."""
    quick: Flag = False
    """Only the plain success rate: the condition baseline."""
    report: Flag = False
    """Write all tables, figures and the HTML page when the run ends, as `roep-gym report` does."""
    tensorboard: Flag = False
    """Write TensorBoard's event files when the run ends, as `roep-gym tensorboard` does."""
    dry_run: Flag = False
    """Print which episodes would run and for about how long; build no policy and load none of its files."""


def run(arguments: Arguments) -> int:
    """Run, continue or print an evaluation.

    Returns:
        0 when every planned episode has an outcome or is unavailable for lack of a shield, else 1.
    """
    if arguments.quick and arguments.condition:
        raise InvalidInputError(
            f"Expected --quick, which is the condition baseline, or --condition, got both: {arguments.condition}."
        )
    if arguments.workers < 0:
        raise InvalidInputError(f"Expected at least 1 worker, got {arguments.workers}.")
    make_executor = _executor(arguments)
    wanted = _plan(arguments)
    suites = suite_code(task for tasks in (wanted.tasks, *(m.tasks for m in wanted.models)) for task in tasks)
    if not arguments.dry_run:
        of_suites = [*suites, *training_code(wanted.suites)]
        announce([*of_suites, *(code for m in wanted.models for code in policy_code(m.policy, m.arguments))])
        # A policy of one's own, "module:attribute", is found in the working directory, as with `python -m`.
        sys.path.insert(0, os.getcwd())
    elif suites:
        raise InvalidInputError(
            f"Expected suites of this package with --dry-run, which runs no code from outside, got {shown(suites)}; "
            "leave their tasks out, or run without --dry-run."
        )
    plan = resolve(wanted)
    out = Path(arguments.out or f"runs/{file_name(plan.plan.name)}")
    workers = arguments.workers or len(os.sched_getaffinity(0))
    _print_plan(plan, out, workers)
    if arguments.dry_run:
        RunDirectory(out).check_plan(plan)
        check_bootstrap_scenes(plan)
        for model in plan.plan.models:
            if ":" not in model.policy and model.policy not in POLICIES.names():
                raise unknown_name("policy", model.policy, POLICIES.names())
        say(_NOT_CHECKED)
        return 0
    status = _run(plan, out, make_executor, rendering_here=not arguments.ray_address)
    if arguments.report:
        from roep_gym.cli import report

        report.run(report.Arguments(out))
    if arguments.tensorboard:
        from roep_gym.cli import tensorboard

        tensorboard.run(tensorboard.Arguments(out))
    return status


def _run(
    plan: ResolvedPlan,
    out: Path,
    make_executor: Callable[[ResolvedPlan], Executor],
    *,
    rendering_here: bool,
) -> int:
    from roep_gym.envs.rendering import check_rendering
    from roep_gym.evaluate.run.determinism_stage import mismatches
    from roep_gym.evaluate.run.driver import evaluate
    from roep_gym.evaluate.run.progress import ProgressObserver

    # Asked to end, as by a batch system: the same as Ctrl-C, so that the Dataset is written.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if rendering_here and any(row.find_suite().needs_renderer for row in plan.rows):
        rendering = check_rendering()
        if rendering.backend not in _BACKENDS:
            raise unknown_name("rendering backend in MUJOCO_GL", rendering.backend, _BACKENDS)
        if rendering.problem:
            raise InfrastructureError(
                f"Expected off-screen rendering to work, got: {rendering.problem}; {rendering.remedy}."
            )
    with ProgressObserver(plan, make_console()) as observer:
        try:
            summary = evaluate(plan, out, make_executor, observer)
        except KeyboardInterrupt:
            say(f"Interrupted. What is recorded lies in {out}; the same command continues.")
            raise
    if len(plan.conditions) > 1:
        gate.print_claims(out)
    else:
        print_tables(make_tables(open_run(out), ["success"]), "table")
    for sentence in mismatches(RunDirectory(out)):
        say(sentence)
    say(
        f"{summary.recorded} episodes recorded, {summary.unavailable} unavailable for lack of a shield, "
        f"{len(summary.incomplete)} incomplete, {len(summary.aborts)} aborted attempts."
    )
    judged = "" if len(plan.conditions) == 1 else ", claims.csv, verdicts.json"
    say(f"Files in {out}: episodes.nc (Dataset), steps/, episodes.csv, rows.csv{judged}")
    if judged:
        say(f"Judge again, with other thresholds if you like: roep-gym gate {out}")
    return 1 if summary.incomplete else 0


def _executor(arguments: Arguments) -> Callable[[ResolvedPlan], Executor]:
    """Return what makes the executor that the flags choose."""
    inference, workers, timeout = _inference(arguments), arguments.workers, arguments.stall_timeout
    needs = given(arguments, "worker_cpus", "worker_gpus")
    if arguments.executor not in ("local", "ray"):
        raise unknown_name("executor", arguments.executor, ("local", "ray"))
    if arguments.executor == "local":
        if arguments.ray_address or needs:
            raise InvalidInputError(
                "Expected --ray-address, --worker-cpus and --worker-gpus only with --executor ray, got them without."
            )
        from roep_gym.evaluate.run.local_executor import LocalExecutor

        count = workers or len(os.sched_getaffinity(0))
        return lambda plan: LocalExecutor(plan, count, stall_timeout=timeout, inference=inference)
    if inference is not None:
        raise InvalidInputError(
            "Expected --inference per-worker with --executor ray, whose workers are on several machines, got shared; "
            "put the policy behind `roep-gym serve` instead."
        )
    if not workers:
        raise InvalidInputError(
            "Expected --workers with --executor ray, since a cluster may grow; got none. Name the number of workers."
        )
    from roep_gym.evaluate.run.ray_executor import RayExecutor, RaySettings

    settings = RaySettings(
        arguments.ray_address, **{name.removeprefix("worker_"): value for name, value in needs.items()}
    )
    return lambda plan: RayExecutor(plan, workers, settings, stall_timeout=timeout)


def _inference(arguments: Arguments) -> InferenceSettings | None:
    """Return how the shared inference process works; None: each worker has its own policies."""
    if arguments.inference not in ("per-worker", "shared"):
        raise unknown_name("choice of inference", arguments.inference, ("per-worker", "shared"))
    limits, threads = given(arguments, "max_batch", "max_wait"), given(arguments, "inference_threads")
    if arguments.inference == "shared":
        return InferenceSettings(BatchLimits(**limits), threads.get("inference_threads", 1))
    for name in (*limits, *threads):
        raise InvalidInputError(
            f"Expected --{name.replace('_', '-')} only with --inference shared, got it without."
        )
    return None


def _plan(arguments: Arguments) -> EvaluationPlan:
    """Return the plan of the file, of the run's folder or of the flags, with the flags' replacements."""
    source: dict[str, Any] = {}
    if arguments.plan:
        source = read_yaml(Path(arguments.plan), "a plan")
        if not isinstance(source, dict):
            raise InvalidInputError(
                f"Expected a mapping of plan fields in {arguments.plan}, got {shown(source)}."
            )
        source.setdefault("name", Path(arguments.plan).stem)
    elif not arguments.policy:
        folder = RunDirectory(Path(arguments.out)) if arguments.out else None
        if folder and (folder.plan.exists() or folder.dataset.exists()):
            return folder.stored_plan()
        raise InvalidInputError(
            "Expected a plan file, or --policy and --task; for example: "
            "roep-gym evaluate --policy random --task goal_stove --quick"
        )
    if arguments.policy:
        label = arguments.model or arguments.policy.rpartition(":")[2]
        source["models"] = [
            {"name": label, "policy": arguments.policy, "arguments": key_values(arguments.argument)}
        ]
        source.setdefault("name", label)
    if arguments.suite_argument:
        if not arguments.task:
            raise InvalidInputError("Expected --task with --suite-argument, got none; name the tasks.")
        described = key_values(arguments.suite_argument, "--suite-argument")
        source["suites"] = {split_task(task)[0]: described for task in arguments.task}
    replacements: dict[str, Any] = {
        "name": arguments.name,
        "tasks": list(arguments.task),
        "conditions": ["quick"] if arguments.quick else list(arguments.condition),
        "seed_groups": arguments.seed_groups,
        "episodes": arguments.episodes,
        "step_budget": arguments.step_budget,
        "frames": arguments.frames,
    }
    source.update({name: value for name, value in replacements.items() if value not in ("", [], None)})
    plan = plan_from_mapping(source)
    if arguments.camera:
        plan = replace(plan, environment=replace(plan.environment, cameras=arguments.camera))
    return plan


def _print_plan(plan: ResolvedPlan, out: Path, workers: int) -> None:
    from roep_gym.evaluate.run.estimate import estimate

    columns = (*ROW_COLUMNS, *words(instruction="Instruction"), Column("step_budget", "Step budget"))
    rows = tuple(
        (*map(text, (row.model.name, row.suite, row.task, row.instruction)), count(row.step_budget))
        for row in plan.rows
    )
    print_tables([Table("plan", plan.plan.name, columns, rows)], "table")
    planned = len(plan.rows) * plan.plan.seed_groups * plan.plan.episodes
    say(
        f"Rows x conditions x seed groups x episodes: {len(plan.rows)} x {len(plan.conditions)} x "
        f"{plan.plan.seed_groups} x {plan.plan.episodes} = {planned * len(plan.conditions)} episodes"
    )
    recorded = Counter(p.condition for p in recorded_times(RunDirectory(out).journal, plan.digest))
    rows = tuple((text(c.name), count(planned), count(recorded[c.name])) for c in plan.conditions)
    columns = (*words(condition="Condition"), Column("episodes", "Episodes"), Column("recorded", "Recorded"))
    print_tables([Table("episodes", "episodes", columns, rows)], "table")
    say(
        f"Each row and condition: seed groups 0 to {plan.plan.seed_groups - 1}, "
        f"episodes 0 to {plan.plan.episodes - 1}."
    )
    say(f"Run folder: {out}; plan digest {plan.digest}")
    say(estimate(plan, RunDirectory(out), workers))
