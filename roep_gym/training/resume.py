"""What a training continues from: the model and everything that grows beside it, at one step.

`SaveResumePoint` saves it at every checkpoint and when a training ends early, into `resume/`; `find_resume_point` reads
it and `rewind` takes the logs back to it, so that nothing is in them twice. `check_configuration` refuses to continue
another training.
"""

from __future__ import annotations

import json
import pickle
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import TensorBoardOutputFormat
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from roep_gym.atomic_file import write_atomically
from roep_gym.error import InvalidInputError
from roep_gym.training.callbacks import InterventionCallback, steps_of
from roep_gym.training.config import TrainingConfig

__all__ = [
    "CONFIGURATION",
    "ResumePoint",
    "SaveResumePoint",
    "check_configuration",
    "find_resume_point",
    "rewind",
    "write_configuration",
]

CONFIGURATION = "training.json"
"""File with the configuration of the training in a folder."""
_GROWING = ("monitor", "tensorboard")
"""Folders whose files are only appended to."""
_RENEWED = ("best_model.zip", "best_normalization.pkl", "evaluations.npz")
"""Files that are written anew at an evaluation in training."""


@dataclass(frozen=True)
class ResumePoint:
    """A step of a training from which it continues.

    Attributes:
        timesteps: Steps of all environments until then.
        episodes: Number of the next episode of each environment.
        sizes: Size in bytes of each log file then, by path below the training's folder.
        folder: Folder below `resume/` with `model.zip`, the model with its optimiser, `statistics.pkl`, what
            `InterventionCallback` has counted, and, where the training normalises or saves its replay buffer,
            `normalization.pkl` and `replay_buffer.pkl`.
    """

    timesteps: int
    episodes: tuple[int, ...]
    sizes: dict[str, int]
    folder: Path


class SaveResumePoint(BaseCallback):
    """Saves a `ResumePoint` into the folder of the training every so many calls (0: none), and when it is asked to.

    `counted` counts outcomes and interventions, `replay_buffer` says whether the buffer is saved too, and `episodes`
    are the numbers of the first episode of each environment.
    """

    def __init__(
        self,
        out: Path,
        every: int,
        counted: InterventionCallback,
        *,
        replay_buffer: bool,
        episodes: tuple[int, ...],
    ) -> None:
        super().__init__()
        self._out, self._every, self._counted, self._replay_buffer = out, every, counted, replay_buffer
        self._episodes, self._begun = [number + 1 for number in episodes], 1

    def _on_step(self) -> bool:
        # ARS resets an environment that has just been reset, and so begins two episodes at each end.
        self._begun = 1 if "infos" in self.locals else 2
        for index, _, done in steps_of(self):
            self._episodes[index] += self._begun * done
        if self._every and self.n_calls % self._every == 0:
            self.save()
        return True

    def save(self) -> None:
        """Save the point of this moment, in place of the last one."""
        if not (self._out / "monitor").is_dir():
            return  # the folder was moved away, which the end of the training reports
        model, resume = self.model, self._out / "resume"
        episodes = tuple(number + self._begun - 1 for number in self._episodes)
        resume.mkdir(exist_ok=True)
        # A folder of its own, so that the last point stays complete until the new one is.
        folder = Path(tempfile.mkdtemp(prefix=f"{model.num_timesteps}-", dir=resume))
        model.save(folder / "model.zip")
        normalization = model.get_vec_normalize_env()
        if normalization is not None:
            normalization.save(str(folder / "normalization.pkl"))
        if self._replay_buffer and isinstance(model, OffPolicyAlgorithm):
            model.save_replay_buffer(folder / "replay_buffer.pkl")
        (folder / "statistics.pkl").write_bytes(pickle.dumps(self._counted.statistics))
        for name in _RENEWED:
            if (self._out / name).exists():
                shutil.copy(self._out / name, folder / name)
        for output in self.logger.output_formats:
            if isinstance(output, TensorBoardOutputFormat):
                output.writer.flush()
        state = {
            "folder": folder.name,
            "timesteps": model.num_timesteps,
            "episodes": episodes,
            "sizes": {str(file.relative_to(self._out)): file.stat().st_size for file in _logs(self._out)},
        }
        write_atomically(resume / "state.json", json.dumps(state).encode())
        for other in resume.iterdir():
            if other.is_dir() and other != folder:
                shutil.rmtree(other)


def find_resume_point(out: Path) -> ResumePoint | None:
    """Return what an unfinished training in a folder continues from, None where it has saved nothing yet."""
    file = out / "resume" / "state.json"
    if not file.exists():
        return None
    try:
        state = json.loads(file.read_text())
        timesteps = int(state["timesteps"])
        folder = out / "resume" / Path(state["folder"]).name
        episodes = tuple(int(number) for number in state["episodes"])
        sizes = {str(name): int(size) for name, size in state["sizes"].items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidInputError(
            f"Expected {file} to say what the training continues from, got a damaged file ({type(error).__name__}: "
            f"{error}); begin again in another folder."
        ) from error
    return ResumePoint(timesteps, episodes, sizes, folder)


def rewind(out: Path, point: ResumePoint | None) -> None:
    """Take logs, evaluations and checkpoints back to a point, or to the beginning."""
    sizes = {} if point is None else point.sizes
    for name, size in sizes.items():
        file = out / name
        if not file.exists() or file.stat().st_size < size:
            raise InvalidInputError(
                f"Expected {file} as the training left it, with {size} bytes, got less; begin again in another folder."
            )
    for file in _logs(out):
        name = str(file.relative_to(out))
        if name in sizes:
            with file.open("r+b") as stream:
                stream.truncate(sizes[name])
        else:
            file.unlink()
    if point is None:
        shutil.rmtree(out / "tensorboard", ignore_errors=True)  # its emptied folders would count as runs
    for name in _RENEWED:
        (out / name).unlink(missing_ok=True)
        if point is not None and (point.folder / name).exists():
            shutil.copy(point.folder / name, out / name)
    for file in (out / "checkpoints").glob("*_steps.*"):
        number = re.search(r"_(\d+)_steps\.", file.name)
        if number and int(number[1]) > (0 if point is None else point.timesteps):
            file.unlink()


def write_configuration(config: TrainingConfig, out: Path) -> None:
    """Write what is trained, to recognise it when the training is continued."""
    write_atomically(out / CONFIGURATION, json.dumps(_comparable(config), indent=1).encode())


def check_configuration(config: TrainingConfig, out: Path) -> None:
    """Refuse a configuration other than that of the training in a folder."""
    try:
        before = json.loads((out / CONFIGURATION).read_text())
        differing = [name for name, value in _comparable(config).items() if before.get(name) != value]
    except (ValueError, AttributeError) as error:
        raise InvalidInputError(
            f"Expected the configuration of a training in {out / CONFIGURATION}, got: {error}."
        ) from error
    if differing:
        raise InvalidInputError(
            f"Expected the configuration of the training in {out} to continue it, got other values of "
            f"{', '.join(differing)}; take them back, or choose another folder with --out."
        )


def _comparable(config: TrainingConfig) -> dict[str, Any]:
    comparable: dict[str, Any] = json.loads(json.dumps(asdict(config), default=_named))
    return comparable


def _named(part: Any) -> str:
    return f"{part.__module__}:{part.__qualname__}" if hasattr(part, "__qualname__") else type(part).__name__


def _logs(out: Path) -> Iterator[Path]:
    for folder in _GROWING:
        yield from (file for file in sorted((out / folder).rglob("*")) if file.is_file())
