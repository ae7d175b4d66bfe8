"""The wrappers in training, with Stable-Baselines3 or any learner that takes Gymnasium's vector environments.

`EnvironmentConfig` says what is trained on; `make_env` builds one such environment, `make_sb3_vec_env` and
`make_gymnasium_vec_env` several. `InterventionCallback` logs what shield and perturbation do, `EpisodeCollector` keeps
episodes to train a shield from, `collect_demonstrations` records what a policy shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roep_gym.lazy import lazy_names

if TYPE_CHECKING:
    from roep_gym.training.callbacks import EpisodeCollector, InterventionCallback
    from roep_gym.training.config import TrainingConfig
    from roep_gym.training.demonstrations import (
        DemonstrationReplayBuffer,
        Demonstrations,
        collect_demonstrations,
    )
    from roep_gym.training.environment import EnvironmentConfig, make_env
    from roep_gym.training.evaluation_plan import write_evaluation_plan
    from roep_gym.training.networks import NormalizedReLU, SelectEntries, relevant_entries
    from roep_gym.training.run import TrainedModel, train
    from roep_gym.training.vector import make_gymnasium_vec_env, make_sb3_vec_env
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "DemonstrationReplayBuffer",
    "Demonstrations",
    "EnvironmentConfig",
    "EpisodeCollector",
    "InterventionCallback",
    "NormalizedReLU",
    "SelectEntries",
    "TrainedModel",
    "TrainingConfig",
    "collect_demonstrations",
    "make_env",
    "make_gymnasium_vec_env",
    "make_sb3_vec_env",
    "relevant_entries",
    "train",
    "write_evaluation_plan",
]
