"""Code from outside this package that a command is about to run: modules, packages and files that hold pickles.

`policy_code`, `suite_code` and `training_code` name it without loading anything, `announce` prints it in one line
before it is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from roep_gym.cli.terminal import say
from roep_gym.error import bounded
from roep_gym.policies.registry import POLICIES
from roep_gym.suites.registry import foreign_suite

__all__ = ["announce", "policy_code", "suite_code", "training_code"]

_REFERENCE = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.-]*")


def policy_code(policy: str, arguments: Mapping[str, Any]) -> list[str]:
    """Return what runs when a policy is built, by name and arguments."""
    if POLICIES.is_foreign(policy):
        return [f"policy {policy}"]
    if policy != "sb3":
        return []
    algorithm = str(arguments.get("algorithm", ""))
    files = [f"{name} {arguments[name]}" for name in ("path", "normalization") if arguments.get(name)]
    return [*([f"algorithm {algorithm}"] if ":" in algorithm else []), *files]


def suite_code(tasks: Iterable[str]) -> list[str]:
    """Return what runs when the tasks that a plan names are looked up."""
    return [f"suite {suite}" for task in tasks if (suite := foreign_suite(task)) is not None]


def training_code(source: object) -> list[str]:
    """Return every `module:attribute` in a training file, wherever it stands."""
    if isinstance(source, Mapping):
        return [name for value in source.values() for name in training_code(value)]
    if isinstance(source, list):
        return [name for value in source for name in training_code(value)]
    return [source] if isinstance(source, str) and _REFERENCE.fullmatch(source.partition("/")[0]) else []


def announce(parts: Iterable[str]) -> None:
    """Print what is about to run; nothing where it is nothing."""
    named = ", ".join(dict.fromkeys(parts))
    if named:
        say(f"Runs code from outside roep-gym, which must be trusted: {bounded(named)}")
