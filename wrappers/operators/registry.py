"""The perturbation operators by name.

`OPERATORS` is the registry, `register_operator` adds to it, `find_operator` makes an operator of a name, and `rebuild`
makes a perturbed array again from the clean one and the metadata of the application.
"""

from __future__ import annotations

from functools import cache

from roep_gym.error import InvalidInputError
from roep_gym.registry import Registry
from roep_gym.seeding import Key
from roep_gym.typing import Array
from roep_gym.wrappers.operators.base import Metadata, ObservationOperator, Operator

__all__ = ["OPERATORS", "find_operator", "rebuild", "register_operator"]

OPERATORS = Registry(
    "perturbation operator",
    "roep_gym.operators",
    {
        "rgb_occlusion": "roep_gym.wrappers.operators.rgb_occlusion:RgbOcclusion",
        "depth_dropout": "roep_gym.wrappers.operators.depth_dropout:DepthDropout",
    },
)
"""A part is a subclass of `Operator`."""


def register_operator(name: str, operator: type[Operator]) -> None:
    """Name an operator of your own for profiles in this process; worker processes do not see it.

    Raises:
        InvalidInputError: The name is empty, has a colon, or is taken by another operator.
    """
    OPERATORS.register(name, operator)


@cache  # asked for at every array of every step
def find_operator(name: str) -> Operator:
    """Return the operator of a name or of a place `module:attribute`."""
    kind = OPERATORS.find(name)
    if not isinstance(kind, type) or not issubclass(kind, Operator):
        raise InvalidInputError(f"Expected a subclass of Operator at {name!r}, got {kind!r}.")
    try:
        return kind(name)
    except TypeError as error:  # an abstract method is missing
        raise InvalidInputError(f"Expected an operator at {name!r}, got: {error}.") from error


def rebuild(clean: Array, metadata: Metadata, key: tuple[Key, ...]) -> Array:
    """Return the perturbed array of one application from its clean array, its metadata and its key."""
    operator = find_operator(metadata["operator"])
    if not isinstance(operator, ObservationOperator):
        raise InvalidInputError(
            f"Expected an operator on observations, but {operator.name!r} acts on {operator.target}s."
        )
    return operator.rebuild(clean, metadata, key)
