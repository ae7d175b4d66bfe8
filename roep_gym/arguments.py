"""Arguments that people pass, checked and made plain.

`read_integer` and `read_number` check a number of Python or NumPy, `check_names` checks names, `plain` makes all
numbers in lists and mappings plain, so that they are JSON-native.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from numbers import Integral, Real
from typing import Any

from roep_gym.error import InvalidInputError, unknown_name

__all__ = ["check_names", "plain", "read_integer", "read_number"]


def read_integer(name: str, value: Any, least: int, largest: int | None = None) -> int:
    """Return the integer argument `name`, of Python or NumPy, as a Python integer; True and False are none.

    Raises:
        InvalidInputError: It is not an integer, or outside `least` to `largest` (None: no limit).
    """
    if not isinstance(value, bool) and isinstance(value, Integral):
        number = int(value)
        if least <= number and (largest is None or number <= largest):
            return number
    limits = f">= {least}" if largest is None else f"in {least}..{largest}"
    raise InvalidInputError(f"Expected {name} to be an integer {limits}, got {value!r}.")


def read_number(name: str, value: Any, least: float, largest: float = math.inf) -> float:
    """Return the numeric argument `name`, of Python or NumPy, as a Python float; True and False are none.

    Raises:
        InvalidInputError: It is not a finite number, or outside `least` to `largest`.
    """
    if not isinstance(value, bool) and isinstance(value, Real):
        number = float(value)
        if math.isfinite(number) and least <= number <= largest:
            return number
    limits = f" >= {least:g}" if largest == math.inf else f" in {least:g}..{largest:g}"
    limits = "" if (least, largest) == (-math.inf, math.inf) else limits
    raise InvalidInputError(f"Expected {name} to be a finite number{limits}, got {value!r}.")


def check_names(kind: str, names: Iterable[Any], known: Collection[Any], remedy: str = "") -> None:
    """Refuse a name that is not among the known ones; the arguments are those of `unknown_name`.

    Raises:
        UnknownNameError: A name is unknown; the message offers the closest.
    """
    for name in names:
        if name not in known:
            raise unknown_name(kind, name, known, remedy)


def plain(value: Any) -> Any:
    """Return a value with every number in its lists and mappings as Python has it; everything else stays as it is."""
    if isinstance(value, Mapping):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value
