"""Results of the vla-evaluation-harness: `NAME_aggregate.json` and the collector's result.

Looked at: vla-eval 0.8.0. Both files hold `benchmark`, `mode`, `harness_version`, `config` and `tasks`, a task `task`
(the instruction) and `episodes` with `episode_id`, `metrics.success`, `steps` and, after an infrastructure error,
`failure_reason`. The harness counts such an episode as a failure; here it is aborted (protocol section 3). Only the
harness's LIBERO benchmark is read: it sets the stored initial state of the episode's index and ends with success or
at the step budget.

Not in the file: proposed actions (the steps that the harness records beside it hold executed ones) and scene seeds:
the simulator is seeded once a task, so the scene of an episode depends on the resets before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roep_gym.evaluate.importers.console_log import LIBERO_STEP_BUDGETS
from roep_gym.evaluate.importers.episode_log import (
    ABORTED,
    EpisodeLog,
    LoggedEpisode,
    aborted_note,
    entry,
    objects,
    one_suite,
    read_object,
    refuse,
)

__all__ = ["read_vla_eval_result"]

_VERSION = "0.8."
_BENCHMARK = "vla_eval.benchmarks.libero.benchmark:LIBEROBenchmark"


def read_vla_eval_result(path: Path, suite: str = "") -> EpisodeLog:
    """Read a result of the vla-evaluation-harness.

    Args:
        path: The file.
        suite: Suite, where the file does not name it.

    Raises:
        InvalidInputError: It has another shape, is of another benchmark, or an episode ended in an unknown way.
    """
    content = read_object(path, "vla-eval")
    version = entry(path, content, "harness_version", str, "the file")
    config = entry(path, content, "config", dict, "the file")
    benchmark = entry(path, config, "benchmark", str, "config")
    if benchmark != _BENCHMARK:
        raise refuse(
            path,
            f"the benchmark {_BENCHMARK!r}",
            repr(benchmark),
            "how episodes of other benchmarks end is not known; bring the outcomes as tables",
        )
    params = entry(path, config, "params", dict, "config")
    named = one_suite(path, entry(path, {"suite": "", **params}, "suite", str, "params"), suite)
    budget = config.get("max_steps") or params.get("max_steps") or LIBERO_STEP_BUDGETS.get(named)
    if not isinstance(budget, int):
        raise refuse(path, "a step budget ('max_steps' of config)", "none", "add it to the file")
    episodes = tuple(
        _episode(path, entry(path, task, "task", str, f"tasks[{k}]"), row, config, named, budget)
        for k, task in enumerate(objects(path, content, "tasks", "the file"))
        for row in objects(path, task, "episodes", f"tasks[{k}]")
    )
    if not episodes:
        raise refuse(path, "episodes", "none", "give the result of an evaluation that ran")
    return EpisodeLog(
        path,
        episodes,
        step_budgets={named: budget},
        planned=entry(path, config, "episodes_per_task", int, "config"),
        notes=_notes(episodes, version, content),
    )


def _episode(
    path: Path, name: str, row: Mapping[str, Any], config: Mapping[str, Any], suite: str, budget: int
) -> LoggedEpisode:
    """Return one episode."""
    number = entry(path, row, "episode_id", int, f"an episode of {name!r}")
    where = f"episode {number} of {name!r}"
    # In throughput mode the harness wraps the index, and only the aggregate says to which value.
    state = row.get("episode_idx", None if config.get("throughput_mode") else number)
    failure = row.get("failure_reason")
    if failure:
        return LoggedEpisode(suite, name, number, ABORTED, name, init_state=state, detail=str(failure))
    success = entry(path, entry(path, row, "metrics", dict, where), "success", bool, f"metrics of {where}")
    steps = entry(path, row, "steps", int, where)
    if not success and steps != budget:
        raise refuse(
            path,
            f"a failure of {where} at the step budget {budget}",
            f"{steps} steps",
            "the file does not say what ended it; bring the outcomes as tables with a reason",
        )
    return LoggedEpisode(
        suite, name, number, "success" if success else "timeout", name, steps=steps, init_state=state
    )


def _notes(episodes: tuple[LoggedEpisode, ...], version: str, content: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what the file counts in another way than the protocol, and what is peculiar to it."""
    notes = list(aborted_note(episodes, "have a failure_reason, and vla-eval counts them as failures"))
    if content.get("partial"):
        notes.append("The file says that the evaluation was not completed.")
    if content.get("mode") != "sync":
        notes.append(f"It ran in the mode {content.get('mode')!r}, in which the environment does not wait.")
    if not version.startswith(_VERSION):
        notes.append(f"It was written by vla-eval {version}; this importer was checked against {_VERSION}0.")
    return tuple(notes)
