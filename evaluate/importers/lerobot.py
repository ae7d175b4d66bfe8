"""LeRobot's `eval_info.json`, written by `lerobot-eval`.

Looked at: lerobot 0.4.4 and 0.6.1. The file holds `per_task` (`task_group`, `task_id` and `metrics` with the lists
`sum_rewards`, `max_rewards`, `successes`, one entry an episode), `per_group` and `overall`. In its LIBERO environment
an episode ends with success or at the step budget, so a failure is a timeout; of other environments this is not
known, and they are refused. An exception ends `lerobot-eval` before the file is written.

Not in the file: steps, actions, the task's name, the seed (`lerobot-eval` drops its own `per_episode` list), and the
initial state, which depends on the batch size.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roep_gym.evaluate.importers.episode_log import (
    EpisodeLog,
    LoggedEpisode,
    entry,
    objects,
    one_suite,
    read_object,
    refuse,
)

__all__ = ["read_eval_info"]

_STEP_BUDGETS = {
    "libero_spatial": 280,
    "libero_object": 280,
    "libero_goal": 300,
    "libero_10": 520,
    "libero_90": 400,
}


def read_eval_info(path: Path, suite: str = "") -> EpisodeLog:
    """Read an `eval_info.json`.

    Args:
        path: The file.
        suite: Suite that the file must be of; empty for any.

    Raises:
        InvalidInputError: It has another shape, contradicts itself, or is not of LIBERO.
    """
    content = read_object(path, "lerobot-eval")
    if "per_task" not in content and "per_episode" in content:
        raise refuse(
            path,
            "the list 'per_task' that lerobot-eval writes",
            "'per_episode' of a single environment",
            "evaluate with lerobot >= 0.4.4, or bring the outcomes as tables",
        )
    tasks = [
        _task(path, task, suite, f"per_task[{k}]")
        for k, task in enumerate(objects(path, content, "per_task", "the file"))
    ]
    episodes = tuple(episode for task in tasks for episode in task)
    overall = entry(path, content, "overall", dict, "the file")
    planned = entry(path, overall, "n_episodes", int, "overall")
    if planned != len(episodes) or not episodes:
        raise refuse(
            path, f"the {planned} episodes of 'overall'", f"{len(episodes)} in 'per_task'", "restore the file"
        )
    budgets = {e.suite: _STEP_BUDGETS[e.suite] for e in episodes if e.suite in _STEP_BUDGETS}
    return EpisodeLog(path, episodes, step_budgets=budgets, planned=max(map(len, tasks)))


def _task(path: Path, task: Mapping[str, Any], stated: str, where: str) -> list[LoggedEpisode]:
    """Return the episodes of one entry of `per_task`."""
    group = entry(path, task, "task_group", str, where)
    if not group.startswith("libero_"):
        raise refuse(
            path,
            f"a LIBERO suite as 'task_group' of {where}",
            repr(group),
            "the file does not say how an episode ended, and only LIBERO's rule is known; bring the outcomes as tables",
        )
    number = entry(path, task, "task_id", int, where)
    metrics = entry(path, task, "metrics", dict, where)
    successes = entry(path, metrics, "successes", list, f"{where}.metrics")
    if not all(isinstance(success, bool) for success in successes):
        raise refuse(path, f"true or false in 'successes' of {where}", "something else", "restore the file")
    return [
        LoggedEpisode(
            suite=one_suite(path, group, stated),
            task=f"task {number}",
            episode=k,
            reason="success" if success else "timeout",
        )
        for k, success in enumerate(successes)
    ]
