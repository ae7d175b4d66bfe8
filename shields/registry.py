"""The shields by name: `SHIELDS` is the registry, `find_shield` finds any shield that `ShieldAction` takes."""

from __future__ import annotations

import os
from typing import Any

from roep_gym.error import InvalidInputError
from roep_gym.registry import Registry, build_part
from roep_gym.shields.base import RuntimeShield
from roep_gym.shields.storage import load_shield

__all__ = ["SHIELDS", "find_shield"]

SHIELDS = Registry("shield", "roep_gym.shields", {})
"""A part is a `RuntimeShield`, or a class or function without arguments that makes one."""


def find_shield(shield: str | RuntimeShield) -> RuntimeShield:
    """Return the shield of a file, a registered name or `module:attribute`; a shield is returned as it is."""
    found: Any = shield
    if isinstance(shield, str) and shield:
        if shield.endswith(".npz") or os.path.exists(shield):
            return load_shield(shield)
        found = SHIELDS.find(shield)
        # A class has the members of its objects, so that only a call tells.
        if isinstance(found, type) or (callable(found) and not isinstance(found, RuntimeShield)):
            found = build_part("shield", shield, found, {})
    if isinstance(found, type) or not isinstance(found, RuntimeShield):
        raise InvalidInputError(
            "Expected a shield as a file, a registered name, 'module:attribute' or an object with fields, action_size, "
            f"action_bounds, control_mode and assess, got {found!r}."
        )
    return found
