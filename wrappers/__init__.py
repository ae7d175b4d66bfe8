"""Gymnasium wrappers of the ROEP protocol.

From the environment outward: `PerturbObservation` perturbs what is seen and done by a `Profile`, `ShieldAction`
replaces risky actions, `StepBudget` ends an episode after a number of steps, and `RecordEpisode` records it.
`PenalizeIntervention`, `SelectObservation` and `TrainingEpisode` are for training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roep_gym.lazy import lazy_names

if TYPE_CHECKING:
    from roep_gym.wrappers.operator_setting import OperatorSetting
    from roep_gym.wrappers.operators.base import (
        ActionOperator,
        HistoryOperator,
        InstructionOperator,
        ObservationOperator,
        Operator,
    )
    from roep_gym.wrappers.operators.contract_suite import OperatorContractTests
    from roep_gym.wrappers.operators.registry import OPERATORS, rebuild, register_operator
    from roep_gym.wrappers.penalize_intervention import PenalizeIntervention
    from roep_gym.wrappers.perturb_observation import PerturbObservation
    from roep_gym.wrappers.profiles import PROFILES, Profile, perturbation_key
    from roep_gym.wrappers.record_episode import RecordEpisode
    from roep_gym.wrappers.select_observation import SelectObservation
    from roep_gym.wrappers.shield_action import ShieldAction
    from roep_gym.wrappers.step_budget import StepBudget
    from roep_gym.wrappers.training_episode import TrainingEpisode
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "OPERATORS",
    "PROFILES",
    "ActionOperator",
    "HistoryOperator",
    "InstructionOperator",
    "ObservationOperator",
    "Operator",
    "OperatorContractTests",
    "OperatorSetting",
    "PenalizeIntervention",
    "PerturbObservation",
    "Profile",
    "RecordEpisode",
    "SelectObservation",
    "ShieldAction",
    "StepBudget",
    "TrainingEpisode",
    "perturbation_key",
    "rebuild",
    "register_operator",
]
