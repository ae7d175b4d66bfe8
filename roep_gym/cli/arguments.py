"""Arguments that several commands take.

`Folder`, `Repeated` and `Flag` are kinds of arguments, `given` returns those that were given, `gate_settings` reads the
file of `--config`, and `key_values` what `--argument key=value` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from roep_gym.documents import parse_yaml
from roep_gym.error import InvalidInputError, shown
from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.mapping_reader import read_json_value

__all__ = ["Flag", "Folder", "Repeated", "gate_settings", "given", "key_values"]

Folder = Annotated[Path, tyro.conf.Positional]
"""A folder or file that is given without a flag."""
Repeated = Annotated[tuple[str, ...], tyro.conf.UseAppendAction]
"""A flag that is given once for each value."""
Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]
"""A flag without a value."""


def given(arguments: object, *names: str) -> dict[str, Any]:
    """Return by name the arguments that are not None."""
    values = {name: getattr(arguments, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def gate_settings(file: Path | None) -> GateConfig:
    """Return the gate settings of a JSON file; without one, the paper's."""
    return GateConfig() if file is None else GateConfig.from_file(file)


def key_values(pairs: Sequence[str], flag: str = "--argument") -> dict[str, Any]:
    """Return the arguments that the `key=value` pairs of a flag name, each value read as YAML.

    Raises:
        InvalidInputError: One is no such pair, a name appears twice, or a value is no YAML that JSON stores exactly.
    """
    values = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InvalidInputError(f"Expected {flag} key=value, got {shown(pair)}.")
        if name in values:
            raise InvalidInputError(f"Expected {flag} {shown(name)} once, got it twice.")
        value = parse_yaml(text, f"{flag} {shown(name)}")
        values[name] = read_json_value(value, f"{flag} {shown(name)}")
    return values
