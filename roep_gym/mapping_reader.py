"""Dataclasses from nested mappings, as YAML and JSON give them, checked against their annotations.

`read_mapping` builds a dataclass, `check_fields` checks one that was built in Python, and `read_json_value` checks a
value that is stored as JSON. Every message names the path of the bad value (`plan.models[0].arguments.speed`). What
passes is stored exactly: JSON gives back the same value.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from roep_gym.arguments import check_names
from roep_gym.error import InvalidInputError, shown, unknown_name
from roep_gym.typing import JSON

__all__ = ["check_fields", "read_json_value", "read_mapping"]

_T = TypeVar("_T")
_INT64 = range(-(2**63), 2**63)
_MAX_DEPTH = 32
_NUMBERS: Mapping[Any, Any] = {int: numbers.Integral, float: numbers.Real}
"""What is taken for a number, NumPy's included."""


def read_mapping(target: Callable[..., _T], source: Any, path: str) -> _T:
    """Return the dataclass that a mapping of its fields describes.

    Lists become tuples where the annotation says so, and text becomes a tuple of one; nested mappings become nested
    dataclasses.

    Args:
        target: The dataclass.
        source: The mapping.
        path: Name of the mapping in messages ("plan").

    Raises:
        UnknownNameError: A field is unknown; the message offers the closest.
        InvalidInputError: A field is missing, has another type than its annotation, or a number is not finite.
    """
    hints = _hints(target)
    values = _mapping(Any, source, path)
    check_names(f"field of {path}", values, hints)
    for entry in fields(target):  # type: ignore[arg-type]
        if entry.name not in values and entry.default is MISSING and entry.default_factory is MISSING:
            raise InvalidInputError(f"Expected {path} to have the field {entry.name!r}, got none; add it.")
    return target(**{name: _read(hints[name], value, f"{path}.{name}") for name, value in values.items()})


def check_fields(instance: Any, path: str) -> None:
    """Check the fields of a frozen dataclass, in its `__post_init__`, as `read_mapping` does; lists become tuples.

    Raises:
        InvalidInputError: A field has another type than its annotation, or a number is not finite.
    """
    for name, hint in _hints(instance.__class__).items():
        object.__setattr__(instance, name, _read(hint, getattr(instance, name), f"{path}.{name}"))


def read_json_value(value: Any, path: str, depth: int = 0) -> JSON:
    """Return a value that JSON stores exactly, with numbers of NumPy as Python's.

    Raises:
        InvalidInputError: It is something else: a tuple, a set, bytes, a date, a key that is not text, a number that
            is not finite or an integer beyond 64 bits; or it is nested too deeply.
    """
    if depth > _MAX_DEPTH:
        raise InvalidInputError(f"Expected {path} to be nested at most {_MAX_DEPTH} levels deep, got more.")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, numbers.Real):
        return _number(value, path)
    if isinstance(value, list):
        return [read_json_value(entry, f"{path}[{i}]", depth + 1) for i, entry in enumerate(value)]
    if isinstance(value, Mapping):
        return {
            _key(name, path): read_json_value(entry, f"{path}.{name}", depth + 1)
            for name, entry in value.items()
        }
    raise InvalidInputError(
        f"Expected {path} to be text, a number, true, false, null, a list or a mapping, got {type(value).__name__} "
        f"{shown(value)}; write a tuple as a list, and put quotes around what YAML takes for something else, such as "
        "a date."
    )


@cache
def _hints(target: Any) -> dict[str, Any]:
    resolved = get_type_hints(target, include_extras=True)
    return {entry.name: resolved[entry.name] for entry in fields(target)}


def _read(hint: Any, value: Any, path: str) -> Any:
    """Return a value in the type of an annotation."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint == JSON:
        return read_json_value(value, path)
    if hint is Any:
        return value
    if origin in (Union, UnionType):
        return _alternative(arguments, value, path)
    if origin is Literal and isinstance(value, str) and value not in arguments:
        raise unknown_name(f"value of {path}", value, map(str, arguments))
    if origin is tuple and isinstance(value, str) and arguments[0] is str:
        value = (value,)
    if origin in (tuple, list) and isinstance(value, list | tuple):
        entry = arguments[0]
        return origin(_read(entry, item, f"{path}[{i}]") for i, item in enumerate(value))
    if origin in (Mapping, dict) and isinstance(value, Mapping):
        return _mapping(arguments[1], value, path)
    if is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, hint):
            return read_mapping(hint, value, path)
        check_fields(value, path)
        return value
    if hint is str and isinstance(value, str):
        return _text(value, path)
    if hint in _NUMBERS and isinstance(value, _NUMBERS[hint]) and not isinstance(value, bool):
        return _number(value, path)
    fits = (
        (origin is Literal and any(type(value) is type(known) and value == known for known in arguments))
        or (origin is Callable and callable(value))
        or (hint is bool and isinstance(value, bool))
    )
    if not fits:
        raise InvalidInputError(f"Expected {path} to be {_expectation(hint)}, got {shown(value)}.")
    return value


def _alternative(hints: tuple[Any, ...], value: Any, path: str) -> Any:
    others = [hint for hint in hints if hint is not NoneType]
    if value is None and len(others) < len(hints):
        return None
    if len(others) == 1:
        return _read(others[0], value, path)
    for hint in others:
        try:
            return _read(hint, value, path)
        except InvalidInputError as error:
            # The path goes deeper: the kind was right, and its content was not.
            if f"{path}." in str(error) or f"{path}[" in str(error):
                raise
    expected = " or ".join(map(_expectation, others))
    raise InvalidInputError(f"Expected {path} to be {expected}, got {shown(value)}.")


def _mapping(entry: Any, source: Any, path: str) -> dict[Any, Any]:
    if not isinstance(source, Mapping):
        raise InvalidInputError(f"Expected {path} to be a mapping, got {shown(source)}.")
    return {_key(name, path): _read(entry, value, f"{path}.{name}") for name, value in source.items()}


def _key(name: Any, path: str) -> str:
    if not isinstance(name, str):
        raise InvalidInputError(
            f"Expected the keys of {path} to be text, got {shown(name)}; put quotes around it."
        )
    return _text(name, path)


def _text(value: str, path: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(
            f"Expected {path} to be text that UTF-8 can store, got {shown(value)}."
        ) from error
    if "\0" in value:
        raise InvalidInputError(f"Expected {path} to be text without null characters, got {shown(value)}.")
    return value


def _number(value: Any, path: str) -> int | float:
    number = int(value) if isinstance(value, numbers.Integral) else float(value)
    if isinstance(number, int) and number not in _INT64:
        raise InvalidInputError(f"Expected {path} to be an integer of at most 64 bits, got {shown(number)}.")
    if not math.isfinite(number):
        raise InvalidInputError(f"Expected {path} to be a finite number, got {number}.")
    return number


def _expectation(hint: Any) -> str:
    """Return what an annotation expects, in words."""
    origin = get_origin(hint)
    if origin is Literal:
        return "one of " + ", ".join(map(repr, get_args(hint)))
    if is_dataclass(hint):
        return "a mapping"
    if origin is Annotated:
        return "a value of JSON"
    return _WORDS[origin or hint]


_WORDS: Mapping[Any, str] = {
    int: "an integer",
    float: "a number",
    bool: "true or false",
    str: "text",
    tuple: "a list",
    list: "a list",
    Mapping: "a mapping",
    dict: "a mapping",
    Callable: "callable",
}
