"""Callbacks of Stable-Baselines3.

`InterventionCallback` writes what `TrainingStatistics` accumulates into the logs, `EpisodeCollector` keeps the episodes
to train a shield from; `steps_of` gives the steps that a callback is called for, whatever the algorithm.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter

from roep_gym.arguments import read_integer
from roep_gym.error import InvalidInputError
from roep_gym.shields.labels import BootstrapEpisode
from roep_gym.training.training_statistics import TrainingStatistics
from roep_gym.typing import Info

__all__ = ["EpisodeCollector", "InterventionCallback", "steps_of"]


def steps_of(callback: BaseCallback) -> Iterator[tuple[int, Info, bool]]:
    """Yield index, `info` and whether the episode ended, of each environment in the step that a callback is called for.

    ARS does not show its steps to callbacks; those of environments in this process are read from their buffers.
    """
    shown, env = callback.locals, callback.training_env
    names = ("infos", "dones")
    infos, dones = (shown[name] if name in shown else getattr(env, f"buf_{name}") for name in names)
    for index, (info, done) in enumerate(zip(infos, dones, strict=True)):
        yield index, info, bool(done)


class InterventionCallback(BaseCallback):
    """Log outcomes, unsafe attempts, the shield's activity and the perturbation's severity.

    The tags are those of `TrainingStatistics`. Whoever writes the logs, the algorithm at its `log_interval`, an
    `EvalCallback` or the user, gets what happened since they were last written, so that every event is in the event
    files of TensorBoard exactly once; what is left when the training ends is written then.
    """

    def __init__(self, quantiles: Sequence[float] = (0.5, 0.9, 0.99), verbose: int = 0) -> None:
        super().__init__(verbose)
        self._statistics = TrainingStatistics(quantiles)
        self._source = _ScalarSource(self._statistics)

    @property
    def statistics(self) -> TrainingStatistics:
        """What was counted."""
        return self._statistics

    def restore(self, statistics: TrainingStatistics) -> None:
        """Count on from there; the episodes that had not ended are forgotten."""
        statistics.abandon_episodes()
        self._statistics, self._source = statistics, _ScalarSource(statistics)

    def _on_training_start(self) -> None:
        if self.num_timesteps == 0:
            self._statistics.abandon_episodes()
        # First among the outputs, so that all the others find the scalars, and alone: a training that was interrupted
        # leaves its source in a logger that the next training goes on with.
        outputs = self.logger.output_formats
        outputs[:] = [self._source, *(other for other in outputs if not isinstance(other, _ScalarSource))]

    def _on_step(self) -> bool:
        for index, info, done in steps_of(self):
            self._statistics.observe(index, info, done=done)
        return True

    def _on_training_end(self) -> None:
        if self._statistics.pending_steps:
            self.logger.dump(self.num_timesteps)
        if self._source in self.logger.output_formats:
            self.logger.output_formats.remove(self._source)


class _ScalarSource(KVWriter):
    """An output of the logger that writes nothing, but adds the scalars at the moment when logs are written.

    A callback could only record values, and one recorded twice between two writings is lost.
    """

    def __init__(self, statistics: TrainingStatistics) -> None:
        self._statistics = statistics

    def write(
        self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0
    ) -> None:
        """Add the scalars to those that the other outputs write after this one."""
        for name, value in self._statistics.drain().items():
            key_values[name] = value
            key_excluded[name] = ("stdout", "log") if name.startswith("total/") else ()

    def close(self) -> None:
        """Nothing is open."""


class EpisodeCollector(BaseCallback):
    """Keep the episodes of a training run as `train_shield` takes them.

    The environments need `EnvironmentConfig(record=True)` and no shield. A policy changes while it learns, and with it
    what is risky; the last episodes are nearest to the policy that comes out. With a `limit`, an integer >= 1, only so
    many of the last ones are kept.
    """

    def __init__(self, limit: int | None = None, verbose: int = 0) -> None:
        super().__init__(verbose)
        maximum = None if limit is None else read_integer("the limit of episodes", limit, 1)
        self._episodes: deque[BootstrapEpisode] = deque(maxlen=maximum)

    @property
    def episodes(self) -> list[BootstrapEpisode]:
        """The episodes, oldest first."""
        return list(self._episodes)

    def _on_step(self) -> bool:
        for _, info, done in steps_of(self):
            if not done:
                continue
            if "episode_record" not in info:
                raise InvalidInputError(
                    "Expected the record of an episode at its end, got none; build the environments with "
                    "EnvironmentConfig(record=True)."
                )
            if "shield" in info:
                raise InvalidInputError(
                    "Expected unshielded episodes to train a shield from, got shielded ones; leave the shield out."
                )
            self._episodes.append(BootstrapEpisode.from_record(info["episode_record"], self._control_mode()))
        return True

    def _control_mode(self) -> str | None:
        known = self.training_env.has_attr("control_mode")
        return str(self.training_env.get_attr("control_mode")[0]) if known else None
