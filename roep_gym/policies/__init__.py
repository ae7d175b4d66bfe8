"""Policies: the built-in ones, and what a policy of your own needs.

`Policy` is the protocol, `PolicyContractTests` tests any policy against it, `make_policy` builds one by its name or of
an object, and `adapt_policy` makes one of a function, a model or an object with `infer`. `find_preset` gives a
published model as data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roep_gym.lazy import lazy_names

if TYPE_CHECKING:
    from roep_gym.policies.base import ObservationRequest, Policy, PolicyEpisode, PolicyInput
    from roep_gym.policies.contract_suite import PolicyContractTests
    from roep_gym.policies.expert import ExpertPolicy
    from roep_gym.policies.function import FunctionPolicy, InferPolicy
    from roep_gym.policies.openpi.policy import OpenPIPolicy
    from roep_gym.policies.presets.preset import ModelPreset, find_preset, preset_names
    from roep_gym.policies.random import RandomPolicy
    from roep_gym.policies.registry import POLICIES, adapt_policy, make_policy
    from roep_gym.policies.sb3 import ModelPolicy, SB3Policy
    from roep_gym.policies.visuomotor.policy import BlindPolicy, VisuomotorPolicy
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "POLICIES",
    "BlindPolicy",
    "ExpertPolicy",
    "FunctionPolicy",
    "InferPolicy",
    "ModelPolicy",
    "ModelPreset",
    "ObservationRequest",
    "OpenPIPolicy",
    "Policy",
    "PolicyContractTests",
    "PolicyEpisode",
    "PolicyInput",
    "RandomPolicy",
    "SB3Policy",
    "VisuomotorPolicy",
    "adapt_policy",
    "find_preset",
    "make_policy",
    "preset_names",
]
