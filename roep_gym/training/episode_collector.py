"""`EpisodeCollector`: episodes of a training run, to train a shield from."""

from __future__ import annotations

from collections import deque

from stable_baselines3.common.callbacks import BaseCallback

from roep_gym.error import InvalidInputError
from roep_gym.shields.labels import BootstrapEpisode
from roep_gym.training.intervention_callback import steps_of

__all__ = ["EpisodeCollector"]


class EpisodeCollector(BaseCallback):
    """Keep the episodes of a training run as `train_shield` takes them.

    The environments need `EnvironmentConfig(record=True)` and no shield. A policy changes while it learns, and with it
    what is risky; the last episodes are nearest to the policy that comes out.

    Args:
        limit: Number of episodes that are kept, the last ones; None: all.
        verbose: As for every callback of Stable-Baselines3.

    Raises:
        InvalidInputError: The limit is not an integer >= 1.
    """

    def __init__(self, limit: int | None = None, verbose: int = 0) -> None:
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise InvalidInputError(f"Expected a limit of episodes >= 1 or None, got {limit!r}.")
        super().__init__(verbose)
        self._episodes: deque[BootstrapEpisode] = deque(maxlen=limit)

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
