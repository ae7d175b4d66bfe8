"""YAML and JSON from people and files, refused in one sentence where they are not what they seem.

`read_yaml` and `read_json` read a file, `parse_yaml` and `parse_json` a text. A key that appears twice is refused, and
so are more values than anybody writes, such as those of an alias that names an alias.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import yaml

from roep_gym.error import InvalidInputError, bounded, shown
from roep_gym.typing import JSON

__all__ = ["parse_json", "parse_yaml", "read_json", "read_yaml"]

_MAX_VALUES = 100_000
_YAML_ERRORS = (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError)
"""What PyYAML raises; its constructors of dates, numbers and truth values raise whatever Python does."""


def read_yaml(path: Path, what: str) -> JSON:
    """Return the content of a YAML file; messages call it `what` ("a plan").

    Raises:
        InvalidInputError: The file cannot be read, is no YAML, or is refused by `parse_yaml`.
    """
    return parse_yaml(_text(path, what), f"{path}")


def read_json(path: Path, what: str) -> JSON:
    """Return the content of a JSON file, as `read_yaml` does for YAML."""
    return parse_json(_text(path, what), f"{what} (JSON) at {path}")


def parse_yaml(text: str, where: str) -> JSON:
    """Return the content of a YAML text; messages call it `where`.

    Raises:
        InvalidInputError: The text is no YAML, a key appears twice, or aliases make too many values of it.
    """
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        if _size(node, {}) > _MAX_VALUES:
            raise InvalidInputError(
                f"Expected at most {_MAX_VALUES} values in {where}, got more; use fewer aliases."
            )
        return loader.construct_document(node)
    except InvalidInputError:
        raise
    except _YAML_ERRORS as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidInputError(
            f"Expected YAML in {where}, got: {bounded(' '.join(reason.split()))}"
        ) from error


def parse_json(text: str, where: str) -> JSON:
    """Return the content of a JSON text.

    Raises:
        InvalidInputError: The text is no JSON, or a key appears twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else bounded(str(error))
        raise InvalidInputError(f"Expected {where}, but reading it failed: {reason}.") from error


def _text(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidInputError(f"Expected {what} at {path}, got {reason}; check the path.") from error


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """Return how many values a node stands for once its aliases are written out."""
    if id(node) in known:
        if not known[id(node)]:
            raise yaml.YAMLError(f"an alias inside of what it names{node.start_mark}")
        return known[id(node)]
    known[id(node)] = 0
    children: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        _refuse_repeated(
            (key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)), str(node.start_mark)
        )
        children = [child for pair in node.value for child in pair]
    elif isinstance(node, yaml.SequenceNode):
        children = node.value
    known[id(node)] = 1 + sum(_size(child, known) for child in children)
    return known[id(node)]


def _unique(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    _refuse_repeated((name for name, _ in pairs), "")
    return dict(pairs)


def _refuse_repeated(names: Iterable[str], place: str) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(f"the key {shown(repeated[0])} appears twice{place}")
