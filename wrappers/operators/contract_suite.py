"""A test suite that any operator on observations can inherit.

Derive a test class from `OperatorContractTests`, override `make_operator`, and pytest checks what
`roep_gym.wrappers.operators.base` asks for:

    class TestFog(OperatorContractTests):
        def make_operator(self) -> ObservationOperator:
            return Fog("mine:Fog")
"""

from __future__ import annotations

import json
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, get_args

import numpy as np

from roep_gym import seeding
from roep_gym.error import InvalidInputError
from roep_gym.seeding import Key
from roep_gym.typing import Array
from roep_gym.wrappers.operators.base import Modality, ObservationOperator, Perturbed, Shape, frame_layout

__all__ = ["OperatorContractTests"]


class OperatorContractTests(ABC):
    """What every operator on observations must satisfy.

    Attributes:
        shapes: Shapes of the arrays, by modality: every layout that an environment may have.
        fractions: Severities that are tried, as fractions of the largest.
        steps: Keys that are tried for each array and severity.
    """

    shapes: ClassVar[dict[Modality, tuple[Shape, ...]]] = {
        "image": ((40, 32, 3), (32, 40, 1), (3, 24, 50), (30, 30, 4), (21, 33)),
        "depth": ((50, 60, 1), (1, 24, 31), (21, 33)),
        "vector": ((9,), (40,)),
    }
    fractions: tuple[float, ...] = (0.1, 0.5, 1.0)
    steps = 4

    @abstractmethod
    def make_operator(self) -> ObservationOperator:
        """Return the operator."""

    def make_arrays(self) -> Iterator[Array]:
        """Yield clean arrays, read-only, of every layout and of both directions of the rows in memory."""
        operator = self.make_operator()
        modality = operator.modality
        for shape in self.shapes[modality]:
            if modality == "image" and _channels(shape) not in operator.channels:
                continue
            draw = seeding.generator("contract suite", *shape)
            if modality == "image":
                clean: Array = draw.integers(1, 256, shape, dtype=np.uint8)
            else:
                clean = draw.uniform(0.5, 1.5, shape).astype(np.float32)
                clean.flat[:4] = [np.nan, -0.0, np.inf, -np.inf]
            for array in (clean, clean[::-1]):
                array.flags.writeable = False
                yield array

    def make_key(self, step: int) -> tuple[Key, ...]:
        """Return the key of a step."""
        return ("perturbation", "run", 0, 1, step, "observation", self.make_operator().name)

    def test_declares_itself(self) -> None:
        """Modality and severity are declared, and the severity can be a parameter in a profile."""
        operator = self.make_operator()
        assert isinstance(operator, ObservationOperator)
        assert operator.target == "observation"
        assert operator.modality in get_args(Modality)
        assert operator.severity.isidentifier()
        assert operator.severity != "operator"
        assert 0.0 < operator.max_severity < math.inf

    def test_severity_zero_is_the_identity_bit_for_bit(self) -> None:
        """Nothing changes at severity 0, yet the result is a private copy."""
        operator = self.make_operator()
        for clean in self.make_arrays():
            array, _ = operator.apply(clean, 0.0, self.make_key(0))
            assert array.tobytes() == clean.tobytes()
            assert not np.shares_memory(array, clean)

    def test_acts_at_its_largest_severity(self) -> None:
        """The largest severity changes every array."""
        operator = self.make_operator()
        for clean in self.make_arrays():
            array, _ = operator.apply(clean, operator.max_severity, self.make_key(0))
            assert array.tobytes() != clean.tobytes()

    def test_the_clean_array_is_never_written(self) -> None:
        """The clean array stays as it is, and the result has its shape, its dtype and memory of its own."""
        for clean, _, severity, key in self._cases():
            before = clean.tobytes()
            array, metadata = self.make_operator().apply(clean, severity, key)
            again = self.make_operator().rebuild(clean, metadata, key)
            for result in (array, again):
                assert (result.shape, result.dtype) == (clean.shape, clean.dtype)
                assert result.flags.writeable
                assert not np.shares_memory(result, clean)
            assert clean.tobytes() == before

    def test_is_a_function_of_array_severity_and_key(self) -> None:
        """Neither the order of the applications, nor an operator's past, nor a global random state has a part in it."""
        cases, operator, states = list(self._cases()), self.make_operator(), _global_states()
        forward = [operator.apply(clean, severity, key) for clean, _, severity, key in cases]
        for number in reversed(range(len(cases))):
            clean, _, severity, key = cases[number]
            self._assert_equal(operator.apply(clean, severity, key), forward[number])
            self._assert_equal(type(operator)(operator.name).apply(clean, severity, key), forward[number])
        assert _global_states() == states

    def test_metadata_determines_the_result(self) -> None:
        """The metadata are JSON-native, need no array, and give the perturbed array again from the clean one."""
        operator = self.make_operator()
        for clean, shape, severity, key in self._cases():
            array, metadata = operator.apply(clean, severity, key)
            assert metadata["operator"] == operator.name
            stored = json.loads(json.dumps(metadata))
            assert stored == metadata
            assert operator.describe(shape, severity, key) == metadata
            assert operator.rebuild(clean, stored, key).tobytes() == array.tobytes()

    def test_a_severity_out_of_its_range_is_refused(self) -> None:
        """A severity that is no number from 0 to the largest raises, whoever asks."""
        operator, key = self.make_operator(), self.make_key(0)
        wrong: tuple[Any, ...] = (-0.1, operator.max_severity * 1.1, math.nan, True, "0.3", None)
        clean = next(self.make_arrays())
        for severity in wrong:
            assert _refuses(operator.apply, clean, severity, key), severity
            assert _refuses(operator.describe, clean.shape, severity, key), severity

    def _cases(self) -> Iterator[tuple[Array, Shape, float, tuple[Key, ...]]]:
        """Yield arrays, their shapes, severities and keys."""
        largest = self.make_operator().max_severity
        for clean in self.make_arrays():
            for fraction in (0.0, *self.fractions):
                for step in range(self.steps):
                    yield clean, clean.shape, fraction * largest, self.make_key(step)

    @staticmethod
    def _assert_equal(left: Perturbed, right: Perturbed) -> None:
        assert left.array.tobytes() == right.array.tobytes()
        assert left.metadata == right.metadata


def _channels(shape: Shape) -> int:
    layout = frame_layout(shape)
    return math.prod(shape) // (layout.rows * layout.columns)


def _global_states() -> tuple[Any, ...]:
    state: Any = np.random.get_state()  # noqa: NPY002
    return state[1].tobytes(), state[2:], random.getstate()


def _refuses(function: Any, *arguments: Any) -> bool:
    try:
        function(*arguments)
    except InvalidInputError:
        return True
    return False
