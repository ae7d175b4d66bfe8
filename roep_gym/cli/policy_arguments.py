"""Arguments of a policy on the command line: `--argument key=value`, the value read as YAML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from roep_gym.documents import parse_yaml
from roep_gym.error import InvalidInputError, shown
from roep_gym.mapping_reader import read_json_value

__all__ = ["policy_arguments"]


def policy_arguments(pairs: Sequence[str]) -> dict[str, Any]:
    """Return the arguments that `key=value` pairs name.

    Raises:
        InvalidInputError: One is no such pair, a name appears twice, or a value is no YAML that JSON stores exactly.
    """
    values = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InvalidInputError(f"Expected --argument key=value, got {shown(pair)}.")
        if name in values:
            raise InvalidInputError(f"Expected --argument {shown(name)} once, got it twice.")
        value = parse_yaml(text, f"--argument {shown(name)}")
        values[name] = read_json_value(value, f"--argument {shown(name)}")
    return values
