"""The one shape of every seam: parts by name, built in, installed by another package, or at a place in Python.

`Registry` finds a part, `build_part` calls it with arguments; `POLICIES`, `OPERATORS`, `SHIELDS` and `SUITES`, each
beside the protocol of its parts, are the seams. A third party offers a part under the seam's entry-point group;
`module:attribute` needs no registration at all.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from roep_gym.error import InvalidInputError, RoepError, unknown_name

__all__ = ["Registry", "build_part", "load_place"]


class Registry:
    """The parts of one kind by name.

    Args:
        kind: What a part is, in the singular ("policy").
        group: Entry-point group of parts in other packages ("roep_gym.policies").
        built_in: Place, as `module:attribute`, of each built-in part; imported only when the part is asked for.

    Example:
        >>> from roep_gym.registry import Registry
        >>> policies = Registry("policy", "roep_gym.policies", {"random": "roep_gym.policies.random:RandomPolicy"})
        >>> policies.find("random").__name__
        'RandomPolicy'
        >>> policies.find("rendom")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        roep_gym.error.UnknownNameError: Unknown policy 'rendom'. Did you mean 'random'? ...
    """

    def __init__(self, kind: str, group: str, built_in: Mapping[str, str]) -> None:
        self.kind, self.group = kind, group
        self._places: dict[str, str] = dict(built_in)
        self._parts: dict[str, Any] = {}

    def register(self, name: str, part: Any) -> None:
        """Add a part of this process; worker processes do not see it, unlike an entry point or `module:attribute`.

        Raises:
            InvalidInputError: The name is empty, has a colon, or is taken by another part.
        """
        if not name or ":" in name:
            raise InvalidInputError(f"Expected the name of a {self.kind} without a colon, got {name!r}.")
        if name in self._places or self._parts.get(name, part) is not part:
            raise InvalidInputError(
                f"Expected a new name for the {self.kind}, but {name!r} is registered already; choose another."
            )
        self._parts[name] = part

    def names(self) -> tuple[str, ...]:
        """Return the names of all parts, those of installed packages included, in alphabetical order."""
        return tuple(sorted({*self._places, *self._parts, *self._entry_points()}))

    def find(self, name: str) -> Any:
        """Return the part of a name or of a place in Python.

        Raises:
            UnknownNameError: No part has the name; the message offers the closest.
            InvalidInputError: Nothing is at the place, or several installed packages offer a part of the name.
        """
        if name in self._parts:
            return self._parts[name]
        if name in self._places or ":" in name:
            return load_place(self._places.get(name, name), self.kind)
        offered = self._entry_points().get(name, [])
        if not offered:
            raise unknown_name(
                self.kind, name, self.names(), f"A {self.kind} of your own is named 'module:attribute'."
            )
        if len(offered) > 1:
            packages = ", ".join(sorted(str(point.dist and point.dist.name) for point in offered))
            raise InvalidInputError(
                f"Expected one {self.kind} {name!r}, but the packages {packages} each offer one; uninstall all but one "
                "of them, or name the part as 'module:attribute'."
            )
        return load_place(offered[0].value, self.kind)

    def is_foreign(self, name: str) -> bool:
        """Tell whether finding a name loads code from outside this package; nothing is loaded for it."""
        known = name in self._parts or name in self._places
        return not known and (":" in name or name in self._entry_points())

    def _entry_points(self) -> Mapping[str, list[EntryPoint]]:
        """Return what installed packages offer; a built-in name cannot be replaced."""
        found: dict[str, list[EntryPoint]] = {}
        for point in entry_points(group=self.group):
            if point.name not in self._places:
                found.setdefault(point.name, []).append(point)
        return found


def load_place(place: str, kind: str) -> Any:
    """Return what `module:attribute` names; the attribute may have dots. Messages expect a `kind` there.

    Raises:
        InvalidInputError: The module cannot be imported, whatever it raises, or has no such attribute.
    """
    module, _, attribute = place.partition(":")
    try:
        part = importlib.import_module(module)
        for name in attribute.split("."):
            part = getattr(part, name)
    except RoepError:
        raise
    except (Exception, SystemExit) as error:  # importing a module runs its code
        raise InvalidInputError(
            f"Expected a {kind} at {place!r}, got {type(error).__name__}: {error}. Check the spelling and that the "
            "module can be imported."
        ) from error
    return part


def build_part(kind: str, name: str, factory: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Return what the class or function of a part makes of keyword arguments; messages call it by `kind` and `name`.

    Raises:
        InvalidInputError: The arguments do not fit, or the call raised; the message says what.
        RoepError: Raised by the call itself.
    """
    try:
        inspect.signature(factory).bind(**arguments)
    except TypeError as error:
        raise InvalidInputError(f"Expected arguments that fit the {kind} {name!r}, got: {error}.") from error
    except ValueError:
        pass  # some classes written in C have no signature; the call itself refuses what does not fit
    try:
        return factory(**arguments)
    except RoepError:
        raise
    except (Exception, SystemExit) as error:
        raise InvalidInputError(
            f"Expected the {kind} {name!r} to be built, got {type(error).__name__}: {error}."
        ) from error
