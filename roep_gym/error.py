"""The exception family of roep-gym.

Every message states what was expected, what was found and what to do. `unknown_name` writes the message for unknown
names; `shown` and `bounded` keep values and texts of any size short. Infrastructure failures and policy failures are
different classes, since only the second may ever count against a policy.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable
from typing import Any

__all__ = [
    "DependencyNotInstalledError",
    "InfrastructureError",
    "InvalidInputError",
    "PolicyOutputError",
    "RecordConflictError",
    "RoepError",
    "ServerGoneError",
    "ShieldError",
    "SimulationUnstableError",
    "UnknownNameError",
    "bounded",
    "shown",
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


class ServerGoneError(InfrastructureError):
    """A policy server does not listen, or closed the connection; it may come back."""


class ShieldError(InfrastructureError):
    """A shield raised, or answered with something that cannot be executed; nothing was executed."""


class SimulationUnstableError(InfrastructureError):
    """MuJoCo reported a divergence (BADQPOS, BADQVEL, BADQACC or BADCTRL) and silently reset the scene."""


class PolicyOutputError(RoepError):
    """The policy returned a non-finite or wrongly shaped action: the reason `invalid_execution`."""


class _Short(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxlist, self.maxtuple, self.maxdict = 3, 20, 20, 20
        self.maxstring = self.maxother = self.maxlong = 200

    def repr_int(self, value: int, level: int) -> str:
        # Python refuses to write out an integer of thousands of digits.
        return repr(value) if value.bit_length() <= 256 else f"an integer of {value.bit_length()} bits"


def shown(value: Any) -> str:
    """Return a value as a message shows it: as `repr` does, but short, however large it is."""
    return bounded(_Short().repr(value), 1000)


def bounded(text: str, limit: int = 4000) -> str:
    """Return a text of at most about `limit` characters; a longer one loses its middle."""
    half = limit // 2
    return text if len(text) <= limit else f"{text[:half]} ... {text[-half:]}"


def unknown_name(kind: str, name: Any, known: Iterable[str], remedy: str = "") -> UnknownNameError:
    """Return the error for an unknown name, with the closest known one.

    Args:
        kind: What the name names, in the singular ("condition").
        name: The name that was given, of any type.
        known: All valid names.
        remedy: One more sentence, for example which command lists the names.
    """
    names = sorted(known)
    close = difflib.get_close_matches(str(name), names, n=3, cutoff=0.5) if len(shown(name)) < 200 else []
    if close:
        hint = "Did you mean " + " or ".join(repr(n) for n in close) + "?"
    elif len(names) <= 20:
        hint = "Known: " + ", ".join(names) + "."
    else:
        hint = f"{len(names)} names are known."
    return UnknownNameError(" ".join(filter(None, [f"Unknown {kind} {shown(name)}.", hint, remedy])))
