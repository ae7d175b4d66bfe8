"""The records of a run as episodes to train on.

`RunExport` selects episodes, checks that the run has what is asked of it, and yields one `ExportEpisode` after another;
`ExportLayout` says what their arrays hold. Nothing is filled in: what the records lack is refused with its remedy.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path

import numpy as np
import xarray as xr

import roep_gym
from roep_gym.episode import SAMPLED, EpisodeIdentity
from roep_gym.error import InvalidInputError, unknown_name
from roep_gym.evaluate.export.settings import ExportSettings
from roep_gym.evaluate.plan import PlannedEpisode
from roep_gym.evaluate.schema import CONDITIONS, NOT_RUN, REASONS
from roep_gym.evaluate.store.run_directory import RunDirectory, frames_path
from roep_gym.evaluate.store.storage import load_dataset, read_run
from roep_gym.suites.registry import find_suite, split_task
from roep_gym.typing import JSON, Array, BoolArray, FloatArray, IntArray

__all__ = ["CONTROL_RATE", "ExportEpisode", "ExportLayout", "RunExport"]

CONTROL_RATE = 20.0
"""Control steps per second of the built-in suites, in Hz."""

_TERMINAL = ("success", "unsafe_attempt", "safe_refusal")
_ACTION_ENTRIES = ("x", "y", "z", "rotation_x", "rotation_y", "rotation_z", "gripper")
_TEXTS = ("model", "suite", "task", "instruction", "action_mode")
_INTEGERS = ("steps", "intervention_steps", "unsafe_attempts", "clipped_actions", "scene_hash", "fingerprint")


@dataclass(frozen=True)
class ExportLayout:
    """What the arrays of every exported episode hold.

    Attributes:
        proprio: Names of the entries of the low-dimensional observation.
        action: Names of the entries of an action.
        action_mode: "relative" or "absolute".
        frames: Shape and dtype of each kind of frame, by observation key.
        chunk: Largest number of actions of a row; None where a row is a control step.
    """

    proprio: tuple[str, ...]
    action: tuple[str, ...]
    action_mode: str
    frames: Mapping[str, tuple[tuple[int, ...], np.dtype[np.generic]]]
    chunk: int | None


@dataclass(frozen=True)
class ExportEpisode:
    """One exported episode of n rows.

    Attributes:
        metadata: What is known of the episode: model, suite, task, instruction, condition, profile, seeds, outcome.
        identity: What `reset` needs to begin it again.
        step: Control step of each row, shape (n,); then the number of control steps that the rows span.
        proprio: Low-dimensional observation acted on, float32 (n, entries).
        frames: Frames acted on, (n, height, width, channels), by observation key.
        action: Actions, float32 (n, entries); (n, chunk, entries) at the decision rate, where a shorter chunk repeats
            its last action.
        reward: Reward of each row, float32 (n,), summed over its control steps.
        terminal: Whether the task or a rule ended the episode, not its budget or an action that could not be executed.
    """

    metadata: Mapping[str, JSON]
    identity: EpisodeIdentity
    step: IntArray
    proprio: FloatArray
    frames: Mapping[str, Array]
    action: FloatArray
    reward: FloatArray
    terminal: bool

    def __len__(self) -> int:
        return len(self.reward)


class RunExport:
    """The selected episodes of a run.

    Args:
        folder: Folder of a native run.
        settings: What to take.

    Attributes:
        settings: What is taken.
        layout: What the episodes hold.
        metadata: Where the data come from: plan, versions, fingerprints, settings of the export.

    Raises:
        InvalidInputError: The folder holds no native run, no episode is selected, the selected episodes differ in
            what they hold, or the run kept fewer frames than are asked for.
        UnknownNameError: The run has no such model, task or condition.
    """

    def __init__(self, folder: Path, settings: ExportSettings | None = None) -> None:
        self.settings = ExportSettings() if settings is None else settings
        self._run, self._data = RunDirectory(folder), read_run(folder)
        if self._data.attrs["records"] != "native":
            raise InvalidInputError(
                f"Expected a run of `roep-gym evaluate`, but {folder} holds imported outcomes, which have no steps."
            )
        provenance: Mapping[str, JSON] = json.loads(self._data.attrs["provenance"])
        if provenance.get("published"):
            raise InvalidInputError(
                f"Expected a run with all its steps, but {folder} was published with what a report needs; export from "
                "the run itself."
            )
        self._kept: str = provenance["plan"]["frames"]
        self._profiles: Mapping[str, JSON] = provenance.get("profiles") or {}
        self._conditions = [str(name) for name in self._data["condition"].values]
        self._positions = self._select()
        self.layout = self._check_records()
        self.metadata: Mapping[str, JSON] = {
            "source": "roep-gym",
            "roep_gym_version": roep_gym.__version__,
            "export": asdict(self.settings),
            "control_rate": CONTROL_RATE,
            "proprio": list(self.layout.proprio),
            "action": list(self.layout.action),
            **provenance,
        }

    @property
    def name(self) -> str:
        """Name of the evaluation."""
        return str(self.metadata["plan"]["name"])

    @property
    def robot_type(self) -> str | None:
        """The robot of the selected episodes; None where there is none, or not the same in all."""
        plan = self.metadata["plan"]
        texts = [*plan["tasks"], *(task for model in plan["models"] for task in model["tasks"])]
        given = plan.get("suites", {})
        places = {place for place, _ in map(split_task, texts) if ":" in place}
        sources = {find_suite(place, given.get(place)).name: place for place in places}
        rows = np.unique(self._data["row_index"].values[self._positions])
        names = {str(name) for name in self._data["suite"].values[rows]}
        suites = [
            find_suite(place, given.get(place)) for place in (sources.get(name, name) for name in names)
        ]
        robots = {suite.robot_type for suite in suites}
        return robots.pop() if len(robots) == 1 else None

    def __len__(self) -> int:
        return len(self._positions)

    def episodes(self) -> Iterator[ExportEpisode]:
        """Yield the selected episodes in the order of the records; those without a row are left out."""
        for position, planned, steps in self._steps():
            if self._rows(steps).size:
                yield self._read(position, planned, steps)

    def _select(self) -> list[int]:
        """Return the positions of the selected episodes in the episode Dataset."""
        settings, data = self.settings, self._data
        models, suites, tasks, instructions = (
            [str(v) for v in data[name].values] for name in ("model", "suite", "task", "instruction")
        )
        full_names = [f"{s}/{t}" for s, t in zip(suites, tasks, strict=True)]
        in_model = _chosen("model", settings.models, [{name} for name in models], models)
        names = [set(of_task) for of_task in zip(full_names, tasks, instructions, strict=True)]
        in_task = _chosen("task", settings.tasks, names, full_names)
        in_condition = _chosen(
            "condition", settings.conditions, [{name} for name in self._conditions], self._conditions
        )
        wanted = (in_model & in_task)[data["row_index"].values] & in_condition[data["condition_index"].values]
        success = data["success"].values
        recorded = wanted & (success != NOT_RUN)
        chosen = recorded & (success == 1) if settings.success_only else recorded
        if not chosen.any():
            found = f"{int(recorded.sum())} recorded episodes of which none succeeded"
            raise InvalidInputError(
                "Expected at least one episode to export, but the selection holds "
                f"{found if recorded.any() else 'no recorded episode'}; select more."
            )
        return list(map(int, np.flatnonzero(chosen)))

    def _planned(self, position: int) -> PlannedEpisode:
        row, condition, group, episode = (
            self._integer(name, position)
            for name in ("row_index", "condition_index", "seed_group", "episode_index")
        )
        return PlannedEpisode(row, self._conditions[condition], group, episode)

    def _integer(self, name: str, position: int) -> int:
        """Return a variable of the episode Dataset at an episode."""
        return int(self._data[name].values[position])

    def _steps(self) -> Iterator[tuple[int, PlannedEpisode, xr.Dataset]]:
        """Yield position, place in the plan and steps of each selected episode, each file read once."""
        episodes = ((position, self._planned(position)) for position in self._positions)
        for (row, condition), of_file in groupby(episodes, lambda episode: episode[1][:2]):
            stored = load_dataset(self._run.steps / f"{row:04d}-{condition}.nc")
            place = _places(stored)
            for position, planned in of_file:
                key = (planned.seed_group, planned.episode)
                if key not in place:
                    raise InvalidInputError(
                        f"Expected the steps of {_label(planned)} in {self._run.steps}, but they are missing; start "
                        "the run's command again, which writes them from the journal."
                    )
                yield position, planned, stored.isel(step=place[key])

    def _check_records(self) -> ExportLayout:
        """Check that every selected episode has what the settings ask for, and return what they share.

        Only names and sizes are read of the frames, so that a refusal comes before anything is written.
        """
        layouts: list[ExportLayout] = []
        longest = 1
        for _, planned, steps in self._steps():
            rows = self._rows(steps)
            longest = max(longest, *np.diff([*rows, _executable(steps)])) if rows.size else longest
            layout = ExportLayout(
                proprio=tuple(map(str, steps["proprio_entry"].values)),
                action=_action_names(steps.sizes["action_entry"]),
                action_mode=str(self._data["action_mode"].values[planned.row]),
                frames=self._frame_kinds(planned, steps, rows),
                chunk=None,
            )
            layouts.append(layout)
            if layout != layouts[0]:
                raise InvalidInputError(
                    "Expected episodes with equal observations and actions, but those of "
                    f"{_label(planned)} differ from those before; select one model or suite, or no frames."
                )
        return replace(layouts[0], chunk=int(longest) if self.settings.rate == "decisions" else None)

    def _rows(self, steps: xr.Dataset) -> IntArray:
        """Return the control steps that become rows."""
        executable = _executable(steps)
        if self.settings.rate == "steps":
            return np.arange(executable)
        return np.flatnonzero(steps["looked"].values[:executable] == 1)

    def _frame_kinds(
        self, planned: PlannedEpisode, steps: xr.Dataset, rows: IntArray
    ) -> dict[str, tuple[tuple[int, ...], np.dtype[np.generic]]]:
        """Return shape and dtype of the frames by observation key, after checking that every row has its frames."""
        keys = self._keys(steps)
        if not keys:
            return {}
        path = frames_path(self._run, planned)
        if not path.exists():
            raise InvalidInputError(
                f"Expected stored frames of {_label(planned)}, but the run kept none (frames: {self._kept}); export "
                "without frames (frames none), or run the plan with `frames: all`."
            )
        try:
            with np.load(path) as stored:
                held = stored["step"]
            kinds = {key: _frame_kind(path, f"{self.settings.frames}_{key}") for key in keys}
        except (ValueError, KeyError, zipfile.BadZipFile) as error:
            raise InvalidInputError(
                f"Expected the frames of {_label(planned)} at {path}, but reading them failed: {error}; restore the "
                "file, or export without frames (frames none)."
            ) from error
        if not np.isin(rows, held).all():
            raise InvalidInputError(
                f"Expected a frame at every step of {_label(planned)}, but the run kept frames only at decisions "
                f"(frames: {self._kept}); export at the decision rate (rate decisions) or without frames "
                "(frames none), or run the plan with `frames: all`."
            )
        return kinds

    def _keys(self, steps: xr.Dataset) -> list[str]:
        """Return the observation keys of the exported frames."""
        if self.settings.frames == "none":
            return []
        images = [str(key) for key in steps["image"].values]
        if not images:
            raise InvalidInputError(
                "Expected frames to export, but the environment drew no camera; export without frames (frames none)."
            )
        depths = [str(key) for key in steps["depth"].values] if self.settings.depth else []
        if self.settings.depth and not depths:
            raise InvalidInputError(
                "Expected depth to export, but the environment drew none; leave depth out, or run the plan with depth."
            )
        return images + depths

    def _read(self, position: int, planned: PlannedEpisode, steps: xr.Dataset) -> ExportEpisode:
        """Return an episode that has a row."""
        rows, end = self._rows(steps), _executable(steps)
        action, reward = steps[f"{self.settings.action}_action"].values, steps["reward"].values[:end]
        if self.layout.chunk is None:
            action = action[rows]
        else:
            within = np.arange(self.layout.chunk)
            last = np.append(rows[1:], end) - 1
            action = action[np.minimum(rows[:, np.newaxis] + within, last[:, np.newaxis])]
            reward = np.add.reduceat(reward, rows)
        frames: dict[str, Array] = {}
        if self.layout.frames:
            with np.load(frames_path(self._run, planned)) as stored:
                at = np.searchsorted(stored["step"], rows)
                frames = {key: stored[f"{self.settings.frames}_{key}"][at] for key in self.layout.frames}
        metadata = self._describe(position, planned)
        init_state = metadata["init_state"]
        return ExportEpisode(
            metadata=metadata,
            identity=EpisodeIdentity(
                run_id=metadata["run_id"],
                seed_group=planned.seed_group,
                episode=planned.episode,
                init_state=SAMPLED if init_state == NOT_RUN else init_state,
                scene_seed=metadata["env_seed"],
                profile=metadata["profile"],
            ),
            step=np.append(rows, end),
            proprio=steps["proprio"].values[rows],
            frames=frames,
            action=action,
            reward=reward,
            terminal=metadata["reason"] in _TERMINAL,
        )

    def _describe(self, position: int, planned: PlannedEpisode) -> dict[str, JSON]:
        condition = CONDITIONS[planned.condition]
        run_ids = self._data["run_id"].values[planned.row]
        return {
            **{name: str(self._data[name].values[planned.row]) for name in _TEXTS},
            "condition": planned.condition,
            "profile": self._profiles.get(condition.profile, {}).get("name", condition.profile),
            "shielded": condition.shielded,
            "run_id": str(run_ids[self._conditions.index(planned.condition)]),
            "seed_group": planned.seed_group,
            "episode": planned.episode,
            "init_state": self._integer("init_state", position),
            "env_seed": self._integer("env_seed", position),
            "success": self._integer("success", position) == 1,
            "reason": REASONS[self._integer("reason", position)],
            **{name: self._integer(name, position) for name in _INTEGERS},
        }


def _executable(steps: xr.Dataset) -> int:
    """Return how many of an episode's actions were executed; one that is not finite ends an episode and is the last."""
    finite = np.isfinite(steps["executed_action"].values).all(axis=1)
    return len(finite) if finite.all() else int(np.argmin(finite))


def _frame_kind(path: Path, name: str) -> tuple[tuple[int, ...], np.dtype[np.generic]]:
    """Return shape and dtype of one stored frame, without reading the frames."""
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    return shape[1:], dtype


def _places(stored: xr.Dataset) -> dict[tuple[int, int], slice]:
    """Return where the steps of each episode lie, by seed group and episode."""
    sizes = stored["row_size"].values
    keys = zip(stored["seed_group"].values.tolist(), stored["episode_index"].values.tolist(), strict=True)
    ends = np.cumsum(sizes).tolist()
    return {key: slice(end - size, end) for key, size, end in zip(keys, sizes.tolist(), ends, strict=True)}


def _action_names(size: int) -> tuple[str, ...]:
    return _ACTION_ENTRIES if size == len(_ACTION_ENTRIES) else tuple(f"action_{i}" for i in range(size))


def _label(planned: PlannedEpisode) -> str:
    return (
        f"row {planned.row}, {planned.condition}, seed group {planned.seed_group}, episode {planned.episode}"
    )


def _chosen(kind: str, given: Sequence[str], names: Sequence[set[str]], shown: Sequence[str]) -> BoolArray:
    """Return which parts have one of the given names, all where none is given; an unknown name is refused."""
    for name in given:
        if not any(name in of_part for of_part in names):
            raise unknown_name(f"{kind} of the run", name, set(shown))
    return np.array([not given or not of_part.isdisjoint(given) for of_part in names], dtype=bool)
