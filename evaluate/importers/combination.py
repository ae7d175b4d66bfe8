"""Several logs as one run: `combine` lays them out as flat tables and reads those.

The k-th log of a condition that holds a task is its seed group k, and an episode's index is its position in the log.
What no log holds stays empty in the tables; nothing is filled in for it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import xarray as xr

from roep_gym.error import InvalidInputError, unknown_name
from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.importers.episode_log import ABORTED, EpisodeLog, LoggedEpisode, refuse
from roep_gym.evaluate.schema import CONDITIONS
from roep_gym.evaluate.store.flat_tables import EPISODES, ROWS, read_tables

__all__ = ["ConditionLog", "combine"]


@dataclass(frozen=True)
class ConditionLog:
    """A log and the condition that its user says it recorded; no log names one.

    Raises:
        UnknownNameError: There is no such condition.
        InvalidInputError: The condition needs a shield, of which logs hold no record.
    """

    condition: str
    log: EpisodeLog

    def __post_init__(self) -> None:
        """Check the condition."""
        if self.condition not in CONDITIONS:
            raise unknown_name("condition", self.condition, CONDITIONS)
        if CONDITIONS[self.condition].shielded:
            raise InvalidInputError(
                f"{self.log.path.name}: Expected a condition without a shield, got {self.condition!r}, whose shield "
                "no log records; bring its outcomes as tables, with the shield in rows.csv."
            )

    @cached_property
    def digest(self) -> str:
        """Hash of the file's content."""
        return hashlib.sha256(self.log.path.read_bytes()).hexdigest()


@dataclass(frozen=True)
class _Line:
    """An episode with its place in the run."""

    source: ConditionLog
    seed_group: int
    episode: LoggedEpisode


def combine(
    logs: Sequence[ConditionLog],
    *,
    tool: str,
    model: str,
    seed_groups: int | None = None,
    episodes_per_group: int | None = None,
) -> xr.Dataset:
    """Make one run of the logs of one model.

    Args:
        logs: Logs with their conditions; several of one condition are its seed groups, in their order.
        tool: Name of the tool that wrote them, part of the run ids.
        model: Name of the model.
        seed_groups: Planned seed groups; None plans those that the logs hold.
        episodes_per_group: Planned episodes of a seed group; None plans what the logs hold or say was planned, and at
            least the configured support budget.

    Returns:
        A Dataset of `roep_gym.evaluate.schema` with flat records.

    Raises:
        InvalidInputError: A file is given twice, an episode lies outside the plan or stands twice, or no model is
            named.
    """
    if not model.strip():
        raise InvalidInputError(
            "Expected the name of the model, got none; logs do not hold it, name it with --model."
        )
    _refuse_copies(logs)
    lines = _lines(logs)
    config = _plan(logs, lines, seed_groups, episodes_per_group)
    run_ids = _run_ids(logs, tool)
    rows = {(line.episode.suite, line.episode.task): line.episode.instruction for line in lines}
    with TemporaryDirectory() as folder:
        episodes_csv, rows_csv = Path(folder, EPISODES), Path(folder, ROWS)
        pd.DataFrame([_episode_line(line, model, run_ids) for line in lines]).to_csv(
            episodes_csv, index=False
        )
        pd.DataFrame([_row_line(model, *row, text) for row, text in rows.items()]).to_csv(
            rows_csv, index=False
        )
        data = read_tables(episodes_csv, rows_csv, config=config)
    data.attrs["provenance"] = json.dumps(
        {
            "imported_from": tool,
            "logs": [
                {
                    "file": i.log.path.name,
                    "sha256": i.digest,
                    "condition": i.condition,
                    "notes": list(i.log.notes),
                }
                for i in logs
            ],
        },
        sort_keys=True,
    )
    return data


def _refuse_copies(logs: Sequence[ConditionLog]) -> None:
    """Refuse one log in two roles: a clone is a run of its own, and so is a seed group."""
    first: dict[str, ConditionLog] = {}
    for item in logs:
        if (other := first.setdefault(item.digest, item)) is not item:
            raise refuse(
                item.log.path,
                f"another recording for {item.condition!r}",
                f"the content of {other.log.path.name}, already given for {other.condition!r}",
                "a condition, a clone and a seed group are runs of their own",
            )


def _run_ids(logs: Sequence[ConditionLog], tool: str) -> dict[str, str]:
    """Name the execution of each condition after the content of its logs."""
    contents: dict[str, str] = {}
    for item in logs:
        contents[item.condition] = contents.get(item.condition, "") + item.digest
    return {
        name: f"{tool}-{hashlib.sha256(text.encode()).hexdigest()[:12]}" for name, text in contents.items()
    }


def _lines(logs: Sequence[ConditionLog]) -> list[_Line]:
    """Give every episode its seed group."""
    earlier: Counter[tuple[str, str, str]] = Counter()
    lines = []
    for item in logs:
        seen: set[tuple[str, str, int]] = set()
        tasks = {(item.condition, e.suite, e.task) for e in item.log.episodes}
        for episode in item.log.episodes:
            key = (episode.suite, episode.task, episode.episode)
            if key in seen:
                raise refuse(
                    item.log.path,
                    f"episode {episode.episode} of {episode.task!r} once",
                    "it twice",
                    "give the log of one evaluation",
                )
            seen.add(key)
            group = earlier[(item.condition, episode.suite, episode.task)]
            lines.append(_Line(item, group, episode))
        earlier.update(tasks)
    return lines


def _plan(
    logs: Sequence[ConditionLog],
    lines: Sequence[_Line],
    seed_groups: int | None,
    episodes_per_group: int | None,
) -> GateConfig:
    """Return the plan: what the user states, or what the logs hold and at least the support budget."""
    default = GateConfig()
    held = max(line.seed_group for line in lines) + 1
    config = replace(default, seed_groups=held if seed_groups is None else seed_groups)
    if episodes_per_group is None:
        longest = max(max(line.episode.episode + 1 for line in lines), max(item.log.planned for item in logs))
        budget = default.seed_groups * default.episodes_per_group
        episodes_per_group = max(longest, math.ceil(budget / config.seed_groups))
    config = replace(config, episodes_per_group=episodes_per_group)
    for line in lines:
        if line.seed_group >= config.seed_groups or line.episode.episode >= episodes_per_group:
            raise refuse(
                line.source.log.path,
                f"at most {config.seed_groups} logs of {line.source.condition!r} with {episodes_per_group} episodes a "
                "task",
                f"log {line.seed_group + 1}, episode {line.episode.episode + 1} of {line.episode.task!r}",
                "state the plan with --seed-groups and --episodes-per-group",
            )
    return config


def _episode_line(line: _Line, model: str, run_ids: Mapping[str, str]) -> dict[str, object]:
    """Return a line of `episodes.csv`; what no log holds is an empty cell."""
    episode = line.episode
    aborted = episode.reason == ABORTED
    return {
        "model": model,
        "suite": episode.suite,
        "task": episode.task,
        "condition": line.source.condition,
        "run_id": run_ids[line.source.condition],
        "seed_group": line.seed_group,
        "episode": episode.episode,
        "init_state": _text(episode.init_state),
        "env_seed": "",
        "success": "" if aborted else int(episode.reason == "success"),
        "reason": episode.reason,
        "steps": "" if aborted else _text(episode.steps),
        "max_abs_action": "",
        "intervention_steps": "",
        "unsafe_attempts": "",
        "refusals": "",
        "log": line.source.log.path.name,
        "log_detail": episode.detail,
    }


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


def _row_line(model: str, suite: str, task: str, instruction: str) -> dict[str, object]:
    return {
        "model": model,
        "suite": suite,
        "task": task,
        "instruction": instruction,
        "shield_status": "none",
        "shield_tau": "",
        "risk_positive_episodes": "",
        "risk_label_source": "",
        "shield_reason": "logs hold no shield",
        "contract_status": "unknown",
        "contract_note": "",
    }
