"""A run as a Minari dataset: `write_minari`.

Minari: https://minari.farama.org. Images are stored raw, since Minari's default, JPEG, changes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from roep_gym.atomic_file import new_folder
from roep_gym.error import DependencyNotInstalledError, InvalidInputError
from roep_gym.evaluate.export.run_export import ExportEpisode, ExportLayout, RunExport
from roep_gym.typing import JSON, Array

__all__ = ["MinariExport", "minari_name", "write_minari"]


class MinariExport(NamedTuple):
    """What was written: the dataset's id, its folder, and its size."""

    dataset_id: str
    folder: Path
    episodes: int
    rows: int


def minari_name(export: RunExport) -> str:
    """Return the default id of a run's dataset: the evaluation's name, with what Minari refuses replaced."""
    return re.sub(r"[^\w-]+", "-", export.name).strip("-") + "-v0"


def write_minari(export: RunExport, root: Path, dataset_id: str = "") -> MinariExport:
    """Write a run's episodes below a folder of Minari datasets.

    A Minari episode has one observation more than actions, and the observation after the last action is not in the
    records. An episode that ended for good (success, unsafe attempt, refusal) therefore repeats its last observation,
    which no bootstrapped target may use; any other one ends one row earlier, at the last observation that is recorded,
    and is truncated there.

    Args:
        export: The episodes.
        root: Folder of Minari datasets, which `MINARI_DATASETS_PATH` names when the dataset is loaded.
        dataset_id: Id of the dataset; empty: `minari_name`.

    Raises:
        DependencyNotInstalledError: Minari is not installed.
        InvalidInputError: The id is malformed or taken, or no episode has a transition.
    """
    try:
        import minari
        from minari.dataset.minari_dataset import parse_dataset_id
        from minari.dataset.minari_storage import MinariStorage
    except ImportError as error:
        raise DependencyNotInstalledError(
            'Expected the package minari, but it is not installed; run pip install "roep-gym[minari]".'
        ) from error
    dataset_id = dataset_id or minari_name(export)
    try:
        parse_dataset_id(dataset_id)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(
            f"Expected a Minari dataset id such as 'stove/expert-v0', got {dataset_id!r}."
        ) from error
    # Minari looks for its files relative to themselves when their path is relative.
    with new_folder(root.resolve() / dataset_id) as folder:
        storage = MinariStorage.new(
            folder / "data",
            observation_space=_observation_space(export.layout),
            action_space=_action_space(export.layout),
            jpeg_encoding=False,
        )
        described: list[dict[str, JSON]] = []
        storage.update_episodes(_buffers(export, described))
        if not described:
            raise InvalidInputError(
                "Expected at least one episode with a transition to export, got none; select others."
            )
        storage.update_episode_metadata(described)
        storage.update_metadata(
            {
                "dataset_id": dataset_id,
                "minari_version": minari.__version__,
                "algorithm_name": ", ".join(sorted({str(episode["model"]) for episode in described})),
                "description": f"Episodes of the roep-gym evaluation {export.name!r}.",
                "roep_gym": dict(export.metadata),
            }
        )
        rows = storage.total_steps
    return MinariExport(dataset_id, root / dataset_id, len(described), rows)


def _buffers(export: RunExport, described: list[dict[str, JSON]]) -> Iterator[Any]:
    """Yield the episodes as Minari takes them, and note the metadata of each."""
    from minari.data_collector import EpisodeBuffer

    for episode in export.episodes():
        rows = len(episode) if episode.terminal else len(episode) - 1
        if rows == 0:
            continue
        described.append(dict(episode.metadata))
        ended = np.arange(rows) == rows - 1
        yield EpisodeBuffer(
            seed=episode.identity.scene_seed,
            options=episode.identity.to_options(),
            observations=_observations(episode, rows),
            actions=episode.action[:rows],
            rewards=episode.reward[:rows],
            terminations=ended & episode.terminal,
            truncations=ended & (not episode.terminal),
            infos={"step": episode.step[: rows + 1]},
        )


def _observations(episode: ExportEpisode, rows: int) -> dict[str, Array]:
    """Return `rows + 1` observations; the last one is repeated where the records hold no further one."""
    at = np.minimum(np.arange(rows + 1), len(episode) - 1)
    return {"proprio": episode.proprio[at], **{key: frames[at] for key, frames in episode.frames.items()}}


def _observation_space(layout: ExportLayout) -> spaces.Dict:
    boxes: dict[str, spaces.Space[Any]] = {
        "proprio": spaces.Box(-np.inf, np.inf, (len(layout.proprio),), np.float32)
    }
    for key, (shape, dtype) in layout.frames.items():
        image = dtype == np.uint8
        boxes[key] = spaces.Box(0, 255 if image else np.inf, shape, np.uint8 if image else np.float32)
    return spaces.Dict(boxes)


def _action_space(layout: ExportLayout) -> spaces.Box:
    size = (len(layout.action),)
    bound = (
        1.0 if layout.action_mode == "relative" else np.inf
    )  # of absolute actions the records hold no bounds
    return spaces.Box(-bound, bound, size if layout.chunk is None else (layout.chunk, *size), np.float32)
