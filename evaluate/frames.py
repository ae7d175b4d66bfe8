"""Stored frames: one file an episode, written before the journal counts the episode."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from roep_gym.evaluate.atomic_file import write_atomically
from roep_gym.evaluate.plan import PlannedEpisode
from roep_gym.evaluate.run_directory import RunDirectory
from roep_gym.typing import Array

__all__ = ["frames_path", "write_frames"]


def frames_path(run: RunDirectory, planned: PlannedEpisode) -> Path:
    """Return where the frames of an episode lie: `given_<key>` and `clean_<key>` by `step`."""
    name = f"{planned.row:04d}-{planned.condition}-{planned.seed_group}-{planned.episode}.npz"
    return run.frames / name


def write_frames(run: RunDirectory, planned: PlannedEpisode, frames: Mapping[str, Array]) -> None:
    """Store the frames of an episode, if it kept any."""
    if frames:
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **frames)  # type: ignore[arg-type]
        write_atomically(frames_path(run, planned), buffer.getvalue())
