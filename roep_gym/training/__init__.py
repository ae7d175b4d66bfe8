"""The wrappers in training, with Stable-Baselines3 or any learner that takes Gymnasium's vector environments.

`EnvironmentConfig` says what is trained on; `make_env` builds one such environment, `make_sb3_vec_env` and
`make_gymnasium_vec_env` several. `InterventionCallback` logs what shield and perturbation do, `EpisodeCollector` keeps
episodes to train a shield from. Names are loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roep_gym.training.environment import EnvironmentConfig, make_env
    from roep_gym.training.episode_collector import EpisodeCollector
    from roep_gym.training.intervention_callback import InterventionCallback
    from roep_gym.training.vector import make_gymnasium_vec_env, make_sb3_vec_env

__all__ = [
    "EnvironmentConfig",
    "EpisodeCollector",
    "InterventionCallback",
    "make_env",
    "make_gymnasium_vec_env",
    "make_sb3_vec_env",
]

_MODULES = {
    "EnvironmentConfig": "environment",
    "EpisodeCollector": "episode_collector",
    "InterventionCallback": "intervention_callback",
    "make_env": "environment",
    "make_gymnasium_vec_env": "vector",
    "make_sb3_vec_env": "vector",
}


def __getattr__(name: str) -> Any:
    """Import a name on first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
