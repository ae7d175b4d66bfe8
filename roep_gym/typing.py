"""Type aliases that the whole package shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["JSON", "Array", "BoolArray", "FloatArray", "Info", "IntArray", "Observation"]

Array = NDArray[Any]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.integer[Any]]
JSON = Annotated[Any, "JSON"]
"""A value of the JSON data model: None, bool, int, float, str, list or dict with string keys."""
Info = dict[str, Any]
Observation = Mapping[str, Array]
