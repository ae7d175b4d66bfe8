"""roep-gym: evaluate robot-manipulation policies under the ROEP protocol.

Importing the package loads nothing heavy and registers the environments `roep_gym/Libero-v0` and
`roep_gym/Tabletop-v0` with Gymnasium. What is public is here and in these packages, each of which `help` explains:

    roep_gym.envs       the environments
    roep_gym.wrappers   perturbation, shield, step budget, recorder: Gymnasium wrappers
    roep_gym.policies   the built-in policies, and what a policy of your own needs
    roep_gym.suites     tasks and how to make their environments, and what a suite of your own needs
    roep_gym.shields    learning, storing and asking a shield
    roep_gym.training   the wrappers in training, with Stable-Baselines3 or any vectorised learner
    roep_gym.evaluate   plans, runs, records, verdicts, comparisons, tables and reports

Every other module is internal and may change at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roep_gym.envs.registration import register_with_gymnasium
from roep_gym.lazy import lazy_names

if TYPE_CHECKING:
    from roep_gym.contracts import RuntimeContract
    from roep_gym.episode import EpisodeIdentity
    from roep_gym.episode_record import EpisodeRecord
    from roep_gym.error import (
        DependencyNotInstalledError,
        InfrastructureError,
        InvalidInputError,
        PolicyOutputError,
        RecordConflictError,
        RoepError,
        ServerGoneError,
        ShieldError,
        SimulationUnstableError,
        UnknownNameError,
    )
    from roep_gym.policies.base import Policy
    from roep_gym.policies.registry import make_policy
    from roep_gym.seeding import generator
    from roep_gym.version import __version__
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "DependencyNotInstalledError",
    "EpisodeIdentity",
    "EpisodeRecord",
    "InfrastructureError",
    "InvalidInputError",
    "Policy",
    "PolicyOutputError",
    "RecordConflictError",
    "RoepError",
    "RuntimeContract",
    "ServerGoneError",
    "ShieldError",
    "SimulationUnstableError",
    "UnknownNameError",
    "__version__",
    "generator",
    "make_policy",
]

register_with_gymnasium()
