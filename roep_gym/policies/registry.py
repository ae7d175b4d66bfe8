"""The policies by name, and any policy by its place in Python.

`make_policy` builds a policy from what a plan can hold: a name and JSON-native arguments.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

from roep_gym.error import InvalidInputError, RoepError, unknown_name
from roep_gym.policies.base import Policy

__all__ = ["POLICIES", "make_policy"]

POLICIES: Mapping[str, str] = {
    "random": "roep_gym.policies.random:RandomPolicy",
    "expert": "roep_gym.policies.expert:ExpertPolicy",
    "visuomotor": "roep_gym.policies.visuomotor.policy:VisuomotorPolicy",
    "blind": "roep_gym.policies.visuomotor.policy:BlindPolicy",
    "sb3": "roep_gym.policies.sb3:SB3Policy",
    "openpi": "roep_gym.policies.openpi.policy:OpenPIPolicy",
}
"""Where each built-in policy lives; imported only when it is made."""


def make_policy(name: str | Policy, /, **arguments: Any) -> Policy:
    """Build a policy.

    Args:
        name: One of `POLICIES`, or "module:attribute" of a callable that returns a policy; a policy is returned.
        arguments: Arguments of the policy, JSON-native.

    Raises:
        UnknownNameError: The name is unknown.
        InvalidInputError: The module or attribute does not exist, the arguments do not fit, or what comes back is no
            policy.
    """
    if isinstance(name, Policy):
        return name
    place = name if ":" in name else POLICIES.get(name)
    if place is None:
        raise unknown_name("policy", name, POLICIES, "A policy of your own is named 'module:attribute'.")
    module, _, attribute = place.partition(":")
    try:
        factory = getattr(importlib.import_module(module), attribute)
    except (ModuleNotFoundError, AttributeError) as error:
        raise InvalidInputError(f"Expected a policy at {place!r}, got: {error}.") from error
    try:
        inspect.signature(factory).bind(**arguments)
    except TypeError as error:
        raise InvalidInputError(f"Expected arguments that fit the policy {name!r}, got: {error}.") from error
    try:
        policy = factory(**arguments)
    except RoepError:
        raise
    except (Exception, SystemExit) as error:
        raise InvalidInputError(
            f"Expected the policy {name!r} to be built, got {type(error).__name__}: {error}."
        ) from error
    if not isinstance(policy, Policy):
        missing = [m for m in ("contract", "observations", "observed", "begin", "act", "end", "close")
                   if not hasattr(policy, m)]  # fmt: skip
        raise InvalidInputError(
            f"Expected {place!r} to make a policy, but its result lacks {', '.join(missing)}."
        )
    return policy
