"""Results of the vla-evaluation-harness: an aggregate, a collector's result, a shard, or a merged file.

Looked at: vla-eval 0.8.0 and merged files of 0.0.4. All hold `benchmark`, `mode`, `harness_version`, `config` and
`tasks`, a task `task` (the instruction) and `episodes` with `episode_id`, `steps` and `metrics.success` (0.0.4:
`success`, and an id `TASK_epN`), and, after an infrastructure error, `failure_reason`. The harness may count such an
episode as a failure; here it is aborted (protocol section 3). A file with `shard` holds part of a run. Only the
harness's LIBERO benchmark is read: it sets the stored initial state of the episode's index and ends with success or at
the step budget.

Not in the file: proposed actions (the steps that the harness records beside it hold executed ones) and scene seeds:
the simulator is seeded once per task, so the scene of an episode depends on the resets before it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from roep_gym.evaluate.importers.episode_log import (
    ABORTED,
    LIBERO_STEP_BUDGETS,
    EpisodeLog,
    LoggedEpisode,
    Shard,
    aborted_note,
    one_suite,
    refuse,
    stored_state,
)
from roep_gym.evaluate.importers.json_file import Field, read_json

__all__ = ["read_vla_eval_result"]

_VERSION, _MERGED_VERSION = "0.8.", "0.0.4"
_BENCHMARK = "vla_eval.benchmarks.libero.benchmark:LIBEROBenchmark"


def read_vla_eval_result(path: Path, suite: str = "") -> EpisodeLog:
    """Read a result of the vla-evaluation-harness.

    Args:
        path: The file.
        suite: Suite, where the file does not name it.

    Raises:
        InvalidInputError: It has another shape, is of another benchmark, contradicts itself, or an episode ended in an
            unknown way.
    """
    content = read_json(path, "vla-eval")
    version = content["harness_version"].text()
    config = content["config"]
    if config["benchmark"].text() != _BENCHMARK:
        remedy = "how episodes of other benchmarks end is not known; bring the outcomes as tables"
        raise config["benchmark"].wrong(repr(_BENCHMARK), remedy)
    named = one_suite(path, next((f.text() for f in config["params"].find("suite")), ""), suite)
    budget = _budget(config, named)
    wraps = any(flag.flag() for flag in config.find("throughput_mode"))
    episodes: list[LoggedEpisode] = []
    for task in content["tasks"].list():
        held = [_episode(task["task"].text(), row, named, budget, wraps) for row in task["episodes"].list()]
        _check_totals(task, held, "num_episodes")
        episodes += held
    if not episodes:
        raise refuse(path, "episodes", "none", "give the result of an evaluation that ran")
    _check_totals(content, episodes, "num_episodes_total")
    for merged in content.find("merge_info"):
        _check_totals(merged, episodes, "total_episodes")
    return EpisodeLog(
        path,
        tuple(episodes),
        step_budgets={named: budget},
        planned=config["episodes_per_task"].integer(1),
        notes=_notes(episodes, version, content),
        shard=_shard(content),
    )


def _budget(config: Field, suite: str) -> int:
    """Return the step budget that the file states, or the benchmark's."""
    for holder in (config, config["params"]):
        for stated in holder.find("max_steps"):
            return stated.integer(1)
    if suite not in LIBERO_STEP_BUDGETS:
        raise refuse(config.path, "a step budget ('max_steps' of config)", "none", "add it to the file")
    return LIBERO_STEP_BUDGETS[suite]


def _episode(task: str, row: Field, suite: str, budget: int, wraps: bool) -> LoggedEpisode:
    number = _number(task, row["episode_id"])
    # In throughput mode the harness wraps the index, and only the aggregate says to which value.
    stated = next((f.integer() for f in row.find("episode_idx")), None if wraps else number)
    state = None if stated is None else stored_state(stated)
    for failure in row.find("failure_reason"):
        return LoggedEpisode(suite, task, number, ABORTED, task, init_state=state, detail=failure.text())
    success = (row if "metrics" not in row and "success" in row else row["metrics"])["success"].flag()
    steps = row["steps"].steps(budget)
    if not success and steps != budget:
        raise refuse(
            row.path,
            f"a failure of {row.place} at the step budget {budget}",
            f"{steps} steps",
            "the file does not say what ended it; bring the outcomes as tables with a reason",
        )
    return LoggedEpisode(
        suite, task, number, "success" if success else "timeout", task, steps=steps, init_state=state
    )


def _number(task: str, identifier: Field) -> int:
    """Return the index of an episode: the id itself, or what follows the task's name in it."""
    tail = identifier.value.removeprefix(f"{task}_ep") if isinstance(identifier.value, str) else ""
    if tail.isascii() and tail.isdigit() and len(tail) < 10 and tail != identifier.value:
        return int(tail)
    return identifier.integer()


def _check_totals(holder: Field, episodes: Sequence[LoggedEpisode], count: str) -> None:
    """Validate numbers and rates of a task or of the file; rates may count aborted episodes or leave them out."""
    aborted = sum(e.reason == ABORTED for e in episodes)
    successes = sum(e.reason == "success" for e in episodes)
    rates = [successes / n if n else 0.0 for n in (len(episodes), len(episodes) - aborted)]
    holder.check_totals(count, read=[len(episodes)])
    holder.check_totals("num_errors", read=[aborted])
    holder.check_totals("mean_success", "success_rate", "overall_success_rate", read=rates, tolerance=6e-5)


def _shard(content: Field) -> Shard | None:
    """Return which part of a run the file holds."""
    for shard in content.find("shard"):
        total = shard["total"].integer(1)
        number = shard["id"].integer()
        if number >= total:
            raise refuse(content.path, f"shard.id below shard.total {total}", str(number), "restore the file")
        run = {name: content.value.get(name) for name in ("benchmark", "mode", "config", "eval_id")}
        return Shard(json.dumps([run, total], sort_keys=True), number, total)
    return None


def _notes(episodes: Sequence[LoggedEpisode], version: str, content: Field) -> tuple[str, ...]:
    """Return what the file counts in another way than the protocol, and what is peculiar to it."""
    notes = list(aborted_note(episodes, "have a failure_reason, and vla-eval counts them as failures"))
    if content.value.get("partial"):
        notes.append("The file says that the evaluation was not completed.")
    for merged in content.find("merge_info"):
        for missing in merged.find("shards_missing"):
            if numbers := [item.integer() for item in missing.list()]:
                notes.append(f"Shards that were not merged: {', '.join(map(str, numbers))}.")
    if content.value.get("mode") != "sync":
        notes.append(f"It ran in the mode {content['mode'].shown()}, in which the environment does not wait.")
    if not version.startswith((_VERSION, _MERGED_VERSION)):
        notes.append(f"It was written by vla-eval {version}; this importer was checked against {_VERSION}0.")
    return tuple(notes)
