"""LeRobot's `eval_info.json`, written by `lerobot-eval`.

Looked at: lerobot 0.4.4 and 0.6.1. The file holds `per_task` (`task_group`, `task_id` and `metrics` with the lists
`sum_rewards`, `max_rewards`, `successes`, one entry per episode), `per_group` and `overall`; a single key around them
is looked through. In its LIBERO environment an episode ends with success or at the step budget, so a failure is a
timeout; of other environments this is not known, and they are refused. An exception ends `lerobot-eval` before the
file is written.

Not in the file: steps, actions, the task's name, the seed (`lerobot-eval` drops its own `per_episode` list), and the
initial state, which depends on the batch size.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from roep_gym.evaluate.importers.episode_log import (
    LIBERO_STEP_BUDGETS,
    EpisodeLog,
    LoggedEpisode,
    check_total,
    one_suite,
    refuse,
)
from roep_gym.evaluate.importers.json_file import Field, read_json

__all__ = ["read_eval_info"]

_STEP_BUDGETS = {**LIBERO_STEP_BUDGETS, "libero_spatial": 280}


def read_eval_info(path: Path, suite: str = "") -> EpisodeLog:
    """Read an `eval_info.json`.

    Args:
        path: The file.
        suite: Suite that the file must be of; empty for any.

    Raises:
        InvalidInputError: It has another shape, contradicts itself, or is not of LIBERO.
    """
    content = _unwrapped(read_json(path, "lerobot-eval"))
    if "per_task" not in content and "per_episode" in content:
        raise refuse(
            path,
            "the list 'per_task' that lerobot-eval writes",
            "'per_episode' of a single environment",
            "evaluate with lerobot >= 0.4.4, or bring the outcomes as tables",
        )
    tasks = [_task(task, suite) for task in content["per_task"].list()]
    episodes = tuple(episode for task in tasks for episode in task)
    overall = content["overall"]
    planned = overall["n_episodes"].integer()
    if planned != len(episodes) or not episodes:
        raise refuse(
            path, f"the {planned} episodes of 'overall'", f"{len(episodes)} in 'per_task'", "restore the file"
        )
    _check_score(overall, episodes)
    for group in content["per_group"].object() if "per_group" in content else ():
        _check_score(content["per_group"][group], [e for e in episodes if e.suite == group])
    budgets = {e.suite: _STEP_BUDGETS[e.suite] for e in episodes if e.suite in _STEP_BUDGETS}
    return EpisodeLog(path, episodes, step_budgets=budgets, planned=max(map(len, tasks)))


def _unwrapped(content: Field) -> Field:
    """Return the object that holds the tasks: the file's own, or that of the only key whose value has them."""
    if "per_task" in content or "per_episode" in content:
        return content
    holders = [name for name in content.object() if "per_task" in content[name]]
    if len(holders) > 1:
        raise refuse(
            content.path,
            "one evaluation",
            f"several: {', '.join(map(repr, holders))}",
            "split the file by these keys",
        )
    return content[holders[0]] if holders else content


def _task(task: Field, stated: str) -> list[LoggedEpisode]:
    """Return the episodes of one entry of `per_task`."""
    group = task["task_group"].text()
    if not group.startswith("libero_"):
        raise task["task_group"].wrong(
            "a LIBERO suite",
            "the file does not say how an episode ended, and only LIBERO's rule is known; bring the outcomes as tables",
        )
    number = task["task_id"].integer()
    successes = task["metrics"]["successes"].list()
    for other in task["metrics"].find("sum_rewards", "max_rewards"):
        check_total(task.path, f"number of entries of {other.place}", len(other.list()), [len(successes)])
    return [
        LoggedEpisode(
            suite=one_suite(task.path, group, stated),
            task=f"task {number}",
            episode=k,
            reason="success" if success.flag() else "timeout",
        )
        for k, success in enumerate(successes)
    ]


def _check_score(holder: Field, episodes: Sequence[LoggedEpisode]) -> None:
    """Validate number and score of a group against its episodes."""
    percent = 100.0 * sum(e.reason == "success" for e in episodes) / max(len(episodes), 1)
    holder.check_totals("n_episodes", read=[len(episodes)])
    holder.check_totals("pc_success", read=[percent], tolerance=0.06)
