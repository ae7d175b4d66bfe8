"""JSON files of a known shape: `read_json` reads one, and every `Field` knows its place and what it must be.

Each refusal is one sentence with the place (`tasks[0].episodes[3].steps`). A key that appears twice, NaN where a number
is read, `true` for a number and a number for text are refused alike for all tools.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roep_gym.error import InvalidInputError, shown
from roep_gym.evaluate.importers.episode_log import check_total, refuse
from roep_gym.evaluate.store.given_files import read_text

__all__ = ["Field", "read_json"]

_MAX_INTEGER, _MAX_DEPTH = 2**31 - 1, 64
_KINDS: Mapping[type, str] = {dict: "an object", list: "a list"}
_REMEDY = "this is not the shape that the importer knows, see docs/importing.md; bring the outcomes as tables"


@dataclass(frozen=True)
class Field:
    """A value in a JSON file.

    Attributes:
        path: The file.
        place: Where the value is; empty for the whole file.
        value: The value.
    """

    path: Path
    place: str
    value: Any

    def __contains__(self, name: str) -> bool:
        """Tell whether an object has an entry that is not null."""
        return isinstance(self.value, dict) and self.value.get(name) is not None

    def __getitem__(self, name: str) -> Field:
        """Return an entry of an object.

        Raises:
            InvalidInputError: The value is no object, or the entry is missing or null.
        """
        self.object()
        place = f"{self.place}.{name}" if self.place else name
        return Field(self.path, place, self.value.get(name))

    def find(self, *names: str) -> Iterator[Field]:
        """Yield the entries of an object that are there."""
        for name in names:
            if name in self:
                yield self[name]

    def object(self) -> dict[str, Any]:
        """Return an object."""
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        return self.value

    def list(self) -> list[Field]:
        """Return the items of a list."""
        if not isinstance(self.value, list):
            raise self.wrong("a list")
        return [Field(self.path, f"{self.place}[{k}]", item) for k, item in enumerate(self.value)]

    def text(self) -> str:
        """Return text that is not blank."""
        if not isinstance(self.value, str) or not self.value.strip():
            raise self.wrong("text")
        return self.value

    def flag(self) -> bool:
        """Return true or false."""
        if not isinstance(self.value, bool):
            raise self.wrong("true or false")
        return self.value

    def number(self) -> float:
        """Return a finite number."""
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            raise self.wrong("a number")
        if abs(self.value) > 1e300 or not math.isfinite(self.value):
            raise self.wrong("a finite number")
        return float(self.value)

    def integer(self, low: int = 0, *, whole: bool = False) -> int:
        """Return an integer of at most 31 bits.

        Args:
            low: Smallest value.
            whole: Whether a number such as 84.0 is one too.
        """
        value = self.value
        if whole and isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.wrong("a whole number" if whole else "an integer")
        if not low <= value <= _MAX_INTEGER:
            raise self.wrong(f"an integer in {low}..{_MAX_INTEGER}")
        return value

    def steps(self, budget: int | None, *, whole: bool = False) -> int:
        """Return a number of control steps, at least 1 and within the step budget where there is one."""
        steps = self.integer(1, whole=whole)
        if budget is not None and steps > budget:
            raise self.wrong(f"at most the step budget {budget}", "the file contradicts itself, restore it")
        return steps

    def check_totals(self, *names: str, read: Sequence[float], tolerance: float = 0.0) -> None:
        """Validate the totals that an object states against what the file's episodes give.

        Args:
            *names: Entries that may state it; an integer, but for a total that was rounded.
            read: What the episodes give, in each way that the tool may have counted.
            tolerance: How far rounding may have moved the stated value.
        """
        for stated in self.find(*names):
            value = stated.number() if tolerance else stated.integer()
            check_total(self.path, stated.place, value, read, tolerance=tolerance)

    def wrong(self, expected: str, remedy: str = _REMEDY) -> InvalidInputError:
        """Return the error for a value that is something else."""
        return refuse(self.path, f"{expected} as {self.place or 'the whole file'}", self.shown(), remedy)

    def shown(self) -> str:
        """Return the value as a message shows it, whatever its size."""
        if self.value is None:
            return "none"
        if kind := _KINDS.get(type(self.value)):
            return f"{kind} of {len(self.value)}"
        return shown(self.value)


def read_json(path: Path, tool: str) -> Field:
    """Read a JSON file that holds one object.

    Raises:
        InvalidInputError: It cannot be read, is not JSON, names a key of an object twice, is nested too deeply, or
            holds something else.
    """
    what, remedy = f"a JSON file of {tool}", "check the path and --from"
    too_deep = f"values nested more than {_MAX_DEPTH} deep"
    text = read_text(path, what, remedy)
    try:
        content = json.loads(text, object_pairs_hook=_unique)
    except RecursionError as error:
        raise refuse(path, what, too_deep, remedy) from error
    except ValueError as error:
        raise InvalidInputError(
            f"{path}: Expected {what}, but reading it failed: {str(error).partition(';')[0]}; {remedy}."
        ) from error
    if not isinstance(content, dict):
        raise refuse(path, f"one JSON object of {tool}", type(content).__name__, "check --from")
    level: list[Any] = [content]
    for _ in range(_MAX_DEPTH):
        holders = [value for value in level if isinstance(value, (dict, list))]
        level = [
            inner for value in holders for inner in (value.values() if isinstance(value, dict) else value)
        ]
    if level:
        raise refuse(path, what, too_deep, remedy)
    return Field(path, "", content)


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, each of whose keys appears once."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key[:60]!r} appears twice in one object")
        found[key] = value
    return found
