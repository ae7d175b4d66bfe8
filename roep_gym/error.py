"""The exception family of roep-gym.

Every message states what was expected, what was found and what to do. `closest_match` writes the message
for unknown names. Infrastructure failures and policy failures are different classes, since only the
second may ever count against a policy.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "DependencyNotInstalledError",
    "InfrastructureError",
    "InvalidInputError",
    "PolicyOutputError",
    "RecordConflictError",
    "RoepError",
    "SimulationUnstableError",
    "UnknownNameError",
    "unknown_name",
]


class RoepError(Exception):
    """Base of every error that roep-gym raises on purpose."""


class InvalidInputError(RoepError, ValueError):
    """A value, an argument or a file is not what was expected."""


class UnknownNameError(InvalidInputError):
    """A name is not among the known ones; the message offers the closest match."""


class DependencyNotInstalledError(RoepError, ImportError):
    """An optional package is missing; the message holds the pip command."""


class RecordConflictError(RoepError):
    """Two different records claim the same episode key."""


class InfrastructureError(RoepError):
    """The simulator, the policy server or the machine failed; never an outcome of the policy."""


class SimulationUnstableError(InfrastructureError):
    """MuJoCo reported a divergence (BADQPOS, BADQVEL, BADQACC or BADCTRL) and silently reset the scene."""


class PolicyOutputError(RoepError):
    """The policy returned a non-finite or wrongly shaped action: the reason `invalid_execution`."""


def unknown_name(kind: str, name: str, known: Iterable[str], remedy: str = "") -> UnknownNameError:
    """Return the error for an unknown name, with the closest known one.

    Args:
        kind: What the name names, in the singular ("condition").
        name: The name that was given.
        known: All valid names.
        remedy: One more sentence, for example which command lists the names.
    """
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if close:
        hint = "Did you mean " + " or ".join(repr(n) for n in close) + "?"
    elif len(names) <= 20:
        hint = "Known: " + ", ".join(names) + "."
    else:
        hint = f"{len(names)} names are known."
    return UnknownNameError(" ".join(filter(None, [f"Unknown {kind} {name!r}.", hint, remedy])))
