"""A run as a dataset in LeRobot's format v3: `write_lerobot`.

The format (`codebase_version` v3.0; checked against lerobot 0.4.4): parquet files in `data/` with one line per row, in
`meta/` the description `info.json`, statistics `stats.json`, tasks `tasks.parquet` and, in `meta/episodes/`, one line
per episode with where its rows lie. Images are PNG inside the data files, so that they keep every pixel.

Statistics of a feature are `min`, `max`, `mean`, `std` (of the population), the quantiles `q01`, `q10`, `q50`, `q90`,
`q99`, and `count`, the number of rows: exact, also over all episodes (`vector_statistics`, `image_statistics`).
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from roep_gym.atomic_file import new_folder
from roep_gym.error import DependencyNotInstalledError, InvalidInputError
from roep_gym.evaluate.export.run_export import CONTROL_RATE, ExportEpisode, ExportLayout, RunExport
from roep_gym.typing import JSON, Array, IntArray

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["LeRobotExport", "image_counts", "image_statistics", "vector_statistics", "write_lerobot"]

_FORMAT = "v3.0"
_FILES_PER_CHUNK, _FILE_MEGABYTES, _VIDEO_MEGABYTES = 1000, 100, 200
_PLACE = "chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"

Statistics = Mapping[str, Array]

_QUANTILES: Mapping[str, float] = {"q01": 0.01, "q10": 0.10, "q50": 0.50, "q90": 0.90, "q99": 0.99}
_LEVELS = np.arange(256)


class LeRobotExport(NamedTuple):
    """What was written: the dataset's folder and its size."""

    folder: Path
    episodes: int
    rows: int


def write_lerobot(export: RunExport, folder: Path) -> LeRobotExport:
    """Write a run's episodes as a LeRobot dataset.

    Args:
        export: The episodes.
        folder: Folder of the dataset; it must be new or empty.

    Raises:
        DependencyNotInstalledError: pyarrow is not installed.
        InvalidInputError: Depth is asked for, which the format does not hold, the folder holds something, or no
            episode has a row.
    """
    if export.settings.depth:
        raise InvalidInputError(
            "Expected images alone for LeRobot, whose format v3 holds no depth arrays, got depth; leave it out or "
            "export to Minari."
        )
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise DependencyNotInstalledError(
            'Expected the package pyarrow, but it is not installed; run pip install "roep-gym[lerobot]".'
        ) from error
    with new_folder(folder) as temporary, closing(_Writer(temporary, export.layout)) as writer:
        for episode in export.episodes():
            writer.add(episode)
        if not writer.lines:
            raise InvalidInputError(
                "Expected at least one episode with a step to export, got none; select others."
            )
        writer.finish(export.robot_type, export.metadata)
    return LeRobotExport(folder, len(writer.lines), writer.rows)


class _Writer:
    """Writes data files as episodes come, and what describes them at the end."""

    def __init__(self, folder: Path, layout: ExportLayout) -> None:
        self._folder, self._features = folder, _features(layout)
        self._frames_per_second = CONTROL_RATE / (layout.chunk or 1)
        self._schema = _schema(self._features)
        self._tasks: dict[str, int] = {}
        self._vectors: dict[str, list[Array]] = {}
        self._counts: dict[str, Array] = {}
        self._file: Any = None
        self._path, self._file_number = folder, -1
        self.lines: list[dict[str, Any]] = []
        self.rows = 0

    def add(self, episode: ExportEpisode) -> None:
        """Write the rows of one episode."""
        import pyarrow as pa

        rows, instruction = len(episode), str(episode.metadata["instruction"])
        task = self._tasks.setdefault(instruction, len(self._tasks))
        done = np.arange(rows) == rows - 1
        numbers: dict[str, Array] = {
            "observation.state": episode.proprio,
            "action": episode.action.reshape(rows, -1),
            "next.reward": episode.reward,
            "next.done": done,
            "next.success": done & bool(episode.metadata["success"]),
            "step": episode.step[:-1],
            "step_count": np.diff(episode.step),
            "timestamp": np.arange(rows) / self._frames_per_second,
            "frame_index": np.arange(rows),
            "episode_index": np.full(rows, len(self.lines)),
            "index": np.arange(self.rows, self.rows + rows),
            "task_index": np.full(rows, task),
        }
        images = {_image_column(key): frames for key, frames in episode.frames.items()}
        statistics: dict[str, Statistics] = {}
        for name, values in numbers.items():
            vector = values.reshape(rows, -1)
            self._vectors.setdefault(name, []).append(vector)
            statistics[name] = vector_statistics(vector)
        for name, frames in images.items():
            counts = image_counts(frames)
            self._counts[name] = self._counts.get(name, 0) + counts
            statistics[name] = image_statistics(counts, rows)
        arrays = {
            **{name: _numbers(values, self._schema.field(name).type) for name, values in numbers.items()},
            **{name: _pictures(frames, self._schema.field(name).type) for name, frames in images.items()},
        }
        file = self._open()
        file.write_table(pa.table([arrays[name] for name in self._schema.names], schema=self._schema))
        self.lines.append(
            {
                "episode_index": len(self.lines),
                "tasks": [instruction],
                "length": rows,
                **_place("data", self._file_number),
                "dataset_from_index": self.rows,
                "dataset_to_index": self.rows + rows,
                **_place("meta/episodes", 0),
                **{
                    f"stats/{name}/{kind}": value.tolist()
                    for name, kinds in statistics.items()
                    for kind, value in kinds.items()
                },
                # Under a prefix of our own: LeRobot has a column `episode_index` too.
                **{f"roep/{name}": value for name, value in episode.metadata.items()},
            }
        )
        self.rows += rows

    def finish(self, robot_type: str | None, metadata: Mapping[str, JSON]) -> None:
        """Close the data files and write `meta/`."""
        import pandas as pd
        import pyarrow as pa
        import pyarrow.parquet as pq

        self.close()
        meta, rate = self._folder / "meta", self._frames_per_second
        episodes = meta / "episodes" / _PLACE.format(chunk_index=0, file_index=0)
        episodes.parent.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(self.lines), episodes)
        numbers = list(self._tasks.values())
        tasks = pd.DataFrame({"task_index": numbers}, index=pd.Index(list(self._tasks), name="task"))
        tasks.to_parquet(meta / "tasks.parquet")
        statistics = {name: vector_statistics(np.concatenate(parts)) for name, parts in self._vectors.items()}
        statistics |= {name: image_statistics(counts, self.rows) for name, counts in self._counts.items()}
        _write_json(
            meta / "stats.json",
            {n: {kind: value.tolist() for kind, value in kinds.items()} for n, kinds in statistics.items()},
        )
        _write_json(
            meta / "info.json",
            {
                "codebase_version": _FORMAT,
                "robot_type": robot_type,
                "total_episodes": len(self.lines),
                "total_frames": self.rows,
                "total_tasks": len(self._tasks),
                "chunks_size": _FILES_PER_CHUNK,
                "data_files_size_in_mb": _FILE_MEGABYTES,
                "video_files_size_in_mb": _VIDEO_MEGABYTES,
                "fps": int(rate) if rate.is_integer() else rate,
                "splits": {"train": f"0:{len(self.lines)}"},
                "data_path": f"data/{_PLACE}",
                "video_path": None,
                "features": self._features,
            },
        )
        _write_json(meta / "roep_gym.json", metadata)

    def _open(self) -> Any:
        """Return the data file for the next episode, a new one where the last is full."""
        import pyarrow.parquet as pq

        if self._file is not None and self._path.stat().st_size >= _FILE_MEGABYTES * 1024**2:
            self.close()
        if self._file is None:
            self._file_number += 1
            chunk, number = divmod(self._file_number, _FILES_PER_CHUNK)
            self._path = self._folder / "data" / _PLACE.format(chunk_index=chunk, file_index=number)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = pq.ParquetWriter(self._path, self._schema)
        return self._file

    def close(self) -> None:
        """Close the data file that is open."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _features(layout: ExportLayout) -> dict[str, dict[str, JSON]]:
    """Return LeRobot's description of the columns, in their order."""
    chunk = layout.chunk
    action = (
        list(layout.action) if chunk is None else [f"{n}_{i}" for i in range(chunk) for n in layout.action]
    )
    axes = ["height", "width", "channels"]
    return {
        "observation.state": _feature("float32", [len(layout.proprio)], list(layout.proprio)),
        **{
            _image_column(key): _feature("image", list(shape), axes)
            for key, (shape, _) in layout.frames.items()
        },
        "action": _feature("float32", [len(action)], action),
        "next.reward": _feature("float32"),
        "next.done": _feature("bool"),
        "next.success": _feature("bool"),
        "step": _feature("int64"),
        "step_count": _feature("int64"),
        "timestamp": _feature("float32"),
        **{name: _feature("int64") for name in ("frame_index", "episode_index", "index", "task_index")},
    }


def _feature(dtype: str, shape: Sequence[int] = (1,), names: Sequence[str] | None = None) -> dict[str, JSON]:
    return {"dtype": dtype, "shape": list(shape), "names": names}


def _image_column(key: str) -> str:
    return f"observation.images.{key.removesuffix('_image')}"


def _schema(features: Mapping[str, Mapping[str, JSON]]) -> pa.Schema:
    import pyarrow as pa

    kinds = {"float32": pa.float32(), "int64": pa.int64(), "bool": pa.bool_()}
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])

    def kind(feature: Mapping[str, JSON]) -> pa.DataType:
        if feature["dtype"] == "image":
            return image
        value = kinds[feature["dtype"]]
        return value if feature["shape"] == [1] else pa.list_(value, feature["shape"][0])

    return pa.schema([(name, kind(feature)) for name, feature in features.items()])


def _numbers(values: Array, kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_fixed_size_list(kind):
        flat = pa.array(np.ascontiguousarray(values).ravel(), type=kind.value_type)
        return pa.FixedSizeListArray.from_arrays(flat, kind.list_size)
    return pa.array(values.ravel(), type=kind)


def _pictures(frames: Array, kind: pa.DataType) -> pa.Array:
    """Return images as PNG."""
    import pyarrow as pa
    from PIL import Image

    stored = []
    for frame in frames:
        buffer = io.BytesIO()
        Image.fromarray(frame).save(buffer, format="PNG")
        stored.append({"bytes": buffer.getvalue(), "path": None})
    return pa.array(stored, type=kind)


def _place(what: str, file_number: int) -> dict[str, int]:
    chunk, number = divmod(file_number, _FILES_PER_CHUNK)
    return {f"{what}/chunk_index": chunk, f"{what}/file_index": number}


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def vector_statistics(values: Array) -> Statistics:
    """Return the statistics of each entry of a vector.

    Args:
        values: Shape (rows, entries), at least one row.
    """
    values = values.astype(np.float64)
    quantiles = np.quantile(values, list(_QUANTILES.values()), axis=0)
    return {
        "min": values.min(axis=0),
        "max": values.max(axis=0),
        "mean": values.mean(axis=0),
        "std": values.std(axis=0),
        "count": np.array([len(values)]),
        **dict(zip(_QUANTILES, quantiles, strict=True)),
    }


def image_counts(images: Array) -> IntArray:
    """Return how often each level occurs in each channel, shape (channels, 256); counts of several batches add up.

    Args:
        images: uint8 (rows, height, width, channels).
    """
    return np.stack([np.bincount(images[..., c].ravel(), minlength=256) for c in range(images.shape[-1])])


def image_statistics(counts: IntArray, rows: int) -> Statistics:
    """Return the statistics of each channel, shape (channels, 1, 1), with levels 0 to 255 as 0 to 1.

    Args:
        counts: What `image_counts` gives, shape (channels, 256).
        rows: Number of images.
    """
    total = counts.sum(axis=1)
    mean = counts @ _LEVELS / total
    std = np.sqrt(counts @ _LEVELS**2 / total - mean**2)
    cumulated = np.cumsum(counts, axis=1)
    values = {
        "min": np.argmax(counts > 0, axis=1),
        "max": 255 - np.argmax(counts[:, ::-1] > 0, axis=1),
        "mean": mean,
        "std": std,
        # The lowest level that at least this share of the pixels does not exceed.
        **{n: np.argmax(cumulated >= q * total[:, np.newaxis], axis=1) for n, q in _QUANTILES.items()},
    }
    return {
        **{name: (value / 255.0).reshape(-1, 1, 1) for name, value in values.items()},
        "count": np.array([rows]),
    }
