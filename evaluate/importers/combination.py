"""Logs of other tools as one run: `IMPORTERS` reads them, `combine` validates them as lines of flat tables.

The k-th log of a condition that holds a task is its seed group k, and an episode's index is its position in the log;
files that hold shards of one run are one log. What no log holds stays empty; nothing is filled in for it. `notes` says
what a reader of the outcomes must know.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import xarray as xr

from roep_gym.error import InvalidInputError, unknown_name
from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.importers.episode_log import ABORTED, EpisodeLog, LoggedEpisode, Shard, refuse
from roep_gym.evaluate.schema import CONDITIONS
from roep_gym.evaluate.store.csv_columns import Line
from roep_gym.evaluate.store.flat_tables import tables_of_lines
from roep_gym.evaluate.store.given_files import file_labels
from roep_gym.registry import Registry

__all__ = ["IMPORTERS", "ConditionLog", "combine", "notes"]

IMPORTERS = Registry(
    "log format",
    "roep_gym.importers",
    {
        "inspect": "roep_gym.evaluate.importers.inspect_robots:read_inspect_log",
        "lerobot": "roep_gym.evaluate.importers.lerobot:read_eval_info",
        "openpi": "roep_gym.evaluate.importers.console_log:read_openpi_log",
        "openvla-oft": "roep_gym.evaluate.importers.console_log:read_openvla_oft_log",
        "vla-eval": "roep_gym.evaluate.importers.vla_eval:read_vla_eval_result",
    },
)
"""Importers by the name of their tool, each a function of path and stated suite (or "") to an `EpisodeLog`."""

_PROTOCOL_STEP_BUDGET = 280
"""Protocol section 1."""
_NEVER_LOGGED = ("env_seed", "max_abs_action", "intervention_steps", "unsafe_attempts", "refusals")


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
        if self.condition not in CONDITIONS:
            raise unknown_name("condition", self.condition, CONDITIONS)
        if CONDITIONS[self.condition].shielded:
            raise InvalidInputError(
                f"{self.log.path}: Expected a condition without a shield, got {self.condition!r}, whose shield "
                "no log records; bring its outcomes as tables, with the shield in rows.csv."
            )

    @cached_property
    def digest(self) -> str:
        """Hash of the file's content."""
        return hashlib.sha256(self.log.path.read_bytes()).hexdigest()


@dataclass(frozen=True)
class _Place:
    """An episode with its place in the run, and how messages name its file."""

    source: ConditionLog
    file: str
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
        InvalidInputError: A file is given twice, an episode lies outside the plan or appears twice, or no model is
            named.
    """
    if not model.strip():
        raise InvalidInputError(
            "Expected the name of the model, got none; logs do not hold it, name it with --model."
        )
    _refuse_same_files(logs)
    labels = file_labels([item.log.path for item in logs])
    places = _places(logs, labels)
    config = _plan(logs, places, seed_groups, episodes_per_group)
    run_ids = _run_ids(logs, tool)
    rows = {(p.episode.suite, p.episode.task): p for p in reversed(places)}
    data = tables_of_lines(
        [Line(_name(p), _episode_values(p, model, run_ids)) for p in places],
        [Line(_name(p), _row_values(model, p.episode)) for p in reversed(rows.values())],
        f"logs of {tool}",
        config=config,
    )
    data.attrs["provenance"] = json.dumps(
        {
            "imported_from": tool,
            "logs": [
                {
                    "file": label,
                    "sha256": item.digest,
                    "condition": item.condition,
                    "notes": list(item.log.notes),
                }
                for item, label in zip(logs, labels, strict=True)
            ],
        },
        sort_keys=True,
    )
    return data


def notes(logs: Sequence[ConditionLog]) -> Iterator[str]:
    """Yield a sentence on everything that a reader of the imported outcomes must know."""
    labels = file_labels([item.log.path for item in logs])
    for item, label in zip(logs, labels, strict=True):
        for note in item.log.notes:
            yield f"{label}: {note}"
    first: dict[str, str] = {}
    for item, label in zip(logs, labels, strict=True):
        if (other := first.setdefault(item.digest, label)) != label:
            yield f"{label} has the content of {other}; that both are recordings is your statement."
    given: dict[Hashable, list[Shard]] = {}
    for source, item in zip(_sources(logs), logs, strict=True):
        if item.log.shard is not None:
            given.setdefault(source, []).append(item.log.shard)
    for shards in given.values():
        total = shards[0].total
        if absent := sorted({*range(total)} - {shard.number for shard in shards}):
            yield f"Shards of a run of {total} that were not given: {', '.join(map(str, absent))}."
    budgets = {budget for item in logs for budget in item.log.step_budgets.items()}
    for suite, steps in sorted(budgets):
        if steps != _PROTOCOL_STEP_BUDGET:
            yield (
                f"The step budget of {suite} was {steps}, the protocol's is {_PROTOCOL_STEP_BUDGET}: its success and "
                "timeout rates are not comparable with those of the other budget."
            )
    stated = sorted({item.condition for item in logs})
    yield f"The logs do not name a condition; that they recorded {', '.join(stated)} is your statement."


def _sources(logs: Sequence[ConditionLog]) -> list[Hashable]:
    """Return what each log is, or is a shard of; a shard that is given again belongs to the next run alike."""
    given: Counter[tuple[str, Shard]] = Counter()
    sources: list[Hashable] = []
    for number, item in enumerate(logs):
        shard = item.log.shard
        if shard is None:
            sources.append(number)
        else:
            sources.append((item.condition, shard.run, given[item.condition, shard]))
            given[item.condition, shard] += 1
    return sources


def _refuse_same_files(logs: Sequence[ConditionLog]) -> None:
    """Refuse one file in two roles: a clone is a run of its own, and so is a seed group."""
    first: dict[Path, ConditionLog] = {}
    for item in logs:
        if (other := first.setdefault(item.log.path.resolve(), item)) is not item:
            raise refuse(
                item.log.path,
                f"another recording for {item.condition!r}",
                f"the file already given for {other.condition!r}",
                "a condition, a clone and a seed group are runs of their own",
            )


def _run_ids(logs: Sequence[ConditionLog], tool: str) -> dict[str, str]:
    """Name the execution of each condition after the condition and the content of its logs, which may be equal."""
    contents: dict[str, str] = {}
    for item in logs:
        contents[item.condition] = contents.get(item.condition, f"{item.condition} ") + item.digest
    return {
        name: f"{tool}-{hashlib.sha256(text.encode()).hexdigest()[:12]}" for name, text in contents.items()
    }


def _places(logs: Sequence[ConditionLog], labels: Sequence[str]) -> list[_Place]:
    """Give every episode its seed group."""
    groups: dict[tuple[str, str, str], list[Hashable]] = {}
    seen: set[tuple[Hashable, str, str, int]] = set()
    places = []
    for item, label, source in zip(logs, labels, _sources(logs), strict=True):
        for episode in item.log.episodes:
            key = (source, episode.suite, episode.task, episode.episode)
            if key in seen:
                raise refuse(
                    item.log.path,
                    f"episode {episode.episode} of {episode.task!r} once",
                    "it twice",
                    "give the log of one evaluation",
                )
            seen.add(key)
            earlier = groups.setdefault((item.condition, episode.suite, episode.task), [])
            if source not in earlier:
                earlier.append(source)
            places.append(_Place(item, label, earlier.index(source), episode))
    return places


def _name(place: _Place) -> str:
    """Return how messages name an episode of a log."""
    return f"{place.file}, episode {place.episode.episode} of {place.episode.task!r}"


def _plan(
    logs: Sequence[ConditionLog],
    places: Sequence[_Place],
    seed_groups: int | None,
    episodes_per_group: int | None,
) -> GateConfig:
    """Return the plan: what the user states, or what the logs hold and at least the support budget."""
    default = GateConfig()
    held = max(p.seed_group for p in places) + 1
    config = replace(default, seed_groups=held if seed_groups is None else seed_groups)
    if episodes_per_group is None:
        longest = max(max(p.episode.episode + 1 for p in places), max(item.log.planned for item in logs))
        budget = default.seed_groups * default.episodes_per_group
        episodes_per_group = max(longest, math.ceil(budget / config.seed_groups))
    config = replace(config, episodes_per_group=episodes_per_group)
    for place in places:
        if place.seed_group >= config.seed_groups or place.episode.episode >= episodes_per_group:
            raise refuse(
                place.source.log.path,
                f"at most {config.seed_groups} logs of {place.source.condition!r} with {episodes_per_group} episodes a "
                "task",
                f"log {place.seed_group + 1}, episode {place.episode.episode + 1} of {place.episode.task!r}",
                "state the plan with --seed-groups and --episodes-per-group",
            )
    return config


def _episode_values(place: _Place, model: str, run_ids: Mapping[str, str]) -> dict[str, object]:
    """Return a line of `episodes.csv`; what no log holds is None."""
    episode, condition = place.episode, place.source.condition
    aborted = episode.reason == ABORTED
    return {
        "model": model,
        "suite": episode.suite,
        "task": episode.task,
        "condition": condition,
        "run_id": run_ids[condition],
        "seed_group": place.seed_group,
        "episode": episode.episode,
        "init_state": episode.init_state,
        "success": None if aborted else int(episode.reason == "success"),
        "reason": episode.reason,
        "steps": None if aborted else episode.steps,
        "log": place.file,
        "log_detail": episode.detail,
        **dict.fromkeys(_NEVER_LOGGED),
    }


def _row_values(model: str, episode: LoggedEpisode) -> dict[str, object]:
    """Return a line of `rows.csv`."""
    return {
        "model": model,
        "suite": episode.suite,
        "task": episode.task,
        "instruction": episode.instruction,
        "shield_status": "none",
        "shield_reason": "logs hold no shield",
        "contract_status": "unknown",
        **dict.fromkeys(("shield_tau", "risk_positive_episodes", "risk_label_source", "contract_note")),
    }
