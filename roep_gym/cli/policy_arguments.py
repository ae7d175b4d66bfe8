"""Arguments of a policy on the command line: `--argument key=value`, the value read as YAML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from roep_gym.error import InvalidInputError

__all__ = ["policy_arguments"]


def policy_arguments(pairs: Sequence[str]) -> dict[str, Any]:
    """Return the arguments that `key=value` pairs name.

    Raises:
        InvalidInputError: One is no such pair.
    """
    values = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InvalidInputError(f"Expected --argument key=value, got {pair!r}.")
        values[name] = yaml.safe_load(text)
    return values
