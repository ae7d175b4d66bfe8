"""The policies by name, any policy by its place in Python, and any object that can be asked for actions.

`POLICIES` is the registry, `make_policy` builds a policy from what a plan can hold, a name and JSON-native arguments,
or from an object, which `adapt_policy` turns into a policy.
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

from roep_gym.error import InvalidInputError
from roep_gym.policies.base import Policy
from roep_gym.policies.function import FunctionPolicy, InferPolicy
from roep_gym.registry import Registry, build_part

__all__ = ["POLICIES", "adapt_policy", "make_policy"]

_PRESETS = (
    "openvla",
    "openvla-oft",
    "pi0",
    "pi0-fast",
    "pi05",
    "vla-adapter",
    "vla-adapter-pro",
    "x-vla",
)
"""Presets of `roep_gym.policies.presets` that a client of this package reaches."""

POLICIES = Registry(
    "policy",
    "roep_gym.policies",
    {
        "random": "roep_gym.policies.random:RandomPolicy",
        "expert": "roep_gym.policies.expert:ExpertPolicy",
        "visuomotor": "roep_gym.policies.visuomotor.policy:VisuomotorPolicy",
        "blind": "roep_gym.policies.visuomotor.policy:BlindPolicy",
        "sb3": "roep_gym.policies.sb3:SB3Policy",
        "act": "roep_gym.policies.remote.act:ActPolicy",
        "openpi": "roep_gym.policies.openpi.policy:OpenPIPolicy",
        "roboeval": "roep_gym.policies.remote.roboeval:RoboEvalPolicy",
        "vla-eval": "roep_gym.policies.remote.vla_eval:VLAEvalPolicy",
        **{name: f"roep_gym.policies.presets.by_name:{name}" for name in _PRESETS},
    },
)
"""A part is a class or function that makes a policy, or anything that `adapt_policy` takes."""


def make_policy(policy: Any, /, **arguments: Any) -> Policy:
    """Build a policy.

    Args:
        policy: A registered name, or "module:attribute", of a class or function that makes a policy; a function whose
            first parameter is called `observation` is itself the policy. Or the class or the object, which no plan can
            hold.
        arguments: Arguments of the policy, JSON-native in a plan; for an object those of `adapt_policy`.

    Raises:
        UnknownNameError: The name is unknown.
        InvalidInputError: The module or attribute does not exist, the arguments do not fit, building raised, or what
            comes back is no policy.
    """
    found = POLICIES.find(policy) if isinstance(policy, str) else policy
    name = policy if isinstance(policy, str) else getattr(policy, "__name__", type(policy).__name__)
    if isinstance(found, type) or (isinstance(policy, str) and _makes_policies(found)):
        found, arguments = build_part("policy", name, found, arguments), {}
    return adapt_policy(found, **arguments)


def adapt_policy(policy: Any, /, **settings: Any) -> Policy:
    """Return a policy that asks an object.

    Args:
        policy: A policy, which is returned itself; an object with `infer(request)`, and `reset()` if it remembers
            anything, as openpi has it; a model with the `predict`, `observation_space` and `action_space` of
            Stable-Baselines3; or a function of the observation.
        settings: Settings of `InferPolicy`, `ModelPolicy` or `FunctionPolicy`, for example `observations` and
            `contract`.

    Raises:
        InvalidInputError: The object is none of these, or the settings do not fit.
    """
    kind: Any
    if not isinstance(policy, type) and isinstance(policy, Policy):
        kind = _itself
    elif not isinstance(policy, type) and callable(getattr(policy, "infer", None)):
        kind = InferPolicy
    elif not isinstance(policy, type) and _has(policy, "predict", "observation_space", "action_space"):
        from roep_gym.policies.sb3 import ModelPolicy

        kind = ModelPolicy
    elif not isinstance(policy, type) and callable(policy):
        kind = FunctionPolicy
    else:
        members = ("contract", "observations", "observed", "begin", "act", "end", "close")
        raise InvalidInputError(
            "Expected a policy, an object with infer, a model of Stable-Baselines3 or a function of the observation, "
            f"got {policy!r}, which lacks {', '.join(name for name in members if not hasattr(policy, name))}."
        )
    adapted: Policy = build_part("policy", type(policy).__name__, partial(kind, policy), settings)
    return adapted


def _itself(policy: Policy) -> Policy:
    return policy


def _makes_policies(part: Any) -> bool:
    """Tell whether a part is to be called for a policy, and is not one, or a function of the observation, itself."""
    if isinstance(part, Policy) or _has(part, "infer") or _has(part, "predict") or not callable(part):
        return False
    return not inspect.isfunction(part) or next(iter(inspect.signature(part).parameters), "") != "observation"


def _has(part: Any, *names: str) -> bool:
    return all(hasattr(part, name) for name in names)
