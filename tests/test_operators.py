"""The registered operators keep their contract, and each does what the protocol says, exact at its edges."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

from roep_gym.error import InvalidInputError, UnknownNameError
from roep_gym.wrappers.operators.base import ObservationOperator, Operator, Perturbed, frame_layout
from roep_gym.wrappers.operators.contract_suite import OperatorContractTests
from roep_gym.wrappers.operators.registry import OPERATORS, find_operator, rebuild, register_operator
from roep_gym.wrappers.profiles import Profile

SHAPES = OperatorContractTests.shapes["image"]


CHANGING = [name for name in OPERATORS.names() if isinstance(find_operator(name), ObservationOperator)]


class TestRegisteredOperators(OperatorContractTests):
    @pytest.fixture(autouse=True, params=CHANGING)
    def _named(self, request: pytest.FixtureRequest) -> None:
        self._name = request.param

    def make_operator(self) -> ObservationOperator:
        operator = find_operator(self._name)
        assert isinstance(operator, ObservationOperator)
        return operator


class Fog(ObservationOperator):
    """Adds a grey level; of another maker."""

    modality = "image"
    severity = "density"
    max_severity = 200.0

    def describe(self, shape, severity, key):
        return {"operator": self.name, "level": round(self.check(severity))}

    def rebuild(self, clean, metadata, key=()):
        return np.minimum(clean.astype(int) + metadata["level"], 255).astype(clean.dtype)


class Brighten(Operator):
    """Acts on the scene, not on observations."""

    target = "scene"
    severity = "watt"


class TestFog(OperatorContractTests):
    def make_operator(self) -> ObservationOperator:
        return Fog(f"{__name__}:Fog")


def faulty(name: str, **methods: object) -> OperatorContractTests:
    """Return the tests of a fog with a fault."""
    operator = type("Faulty", (Fog,), methods)("faulty")
    return type("Tests", (OperatorContractTests,), {"make_operator": lambda self: operator})()


FAULTS = {
    "test_declares_itself": {"severity": "operator"},
    "test_severity_zero_is_the_identity_bit_for_bit": {
        "rebuild": lambda self, clean, metadata, key=(): clean
    },
    "test_acts_at_its_largest_severity": {"rebuild": lambda self, clean, metadata, key=(): clean.copy()},
    "test_the_clean_array_is_never_written": {
        "rebuild": lambda self, clean, metadata, key=(): Fog.rebuild(self, clean, metadata).astype(float)
    },
    "test_is_a_function_of_array_severity_and_key": {
        "describe": lambda self, shape, severity, key: {
            "operator": self.name,
            "level": np.random.randint(1, 200) if severity else 0,
        }
    },
    "test_metadata_determines_the_result": {
        "describe": lambda self, shape, severity, key: {"operator": self.name, "level": np.int64(severity)}
    },
    "test_a_severity_out_of_its_range_is_refused": {"check": lambda self, severity: 1.0},
}


@pytest.mark.parametrize("test", FAULTS)
def test_each_test_of_the_contract_finds_its_fault(test: str) -> None:
    with pytest.raises((AssertionError, TypeError)):
        getattr(faulty(test, **FAULTS[test]), test)()
    assert set(FAULTS) == {name for name in dir(OperatorContractTests) if name.startswith("test_")}


def apply(name: str, clean: np.ndarray, severity: object, key: tuple) -> Perturbed:
    operator = find_operator(name)
    assert isinstance(operator, ObservationOperator)
    return operator.apply(clean, severity, key)


def image(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(1).integers(1, 256, shape, dtype=np.uint8)


def depth(shape: tuple[int, ...] = (50, 60, 1)) -> np.ndarray:
    return np.random.default_rng(2).uniform(0.5, 1.5, shape).astype(np.float32)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("alpha", [0.1, 0.3, 0.5, 1.0])
def test_occlusion_is_a_black_square_fully_inside_and_nothing_else(
    shape: tuple[int, ...], alpha: float
) -> None:
    clean = image(shape)
    layout = frame_layout(shape)
    for step in range(30):
        array, metadata = apply("rgb_occlusion", clean, alpha, ("r", 0, 0, step))
        row, column, side = metadata["row"], metadata["column"], metadata["side"]
        assert side == round(alpha * min(layout.rows, layout.columns))
        assert 0 <= row <= layout.rows - side
        assert 0 <= column <= layout.columns - side
        black = np.zeros(shape, dtype=bool)
        rows = np.arange(layout.rows)[:, None]
        columns = np.arange(layout.columns)[None, :]
        square = (rows >= row) & (rows < row + side) & (columns >= column) & (columns < column + side)
        black[...] = (
            square[None] if layout.row_axis == 1 else square.reshape(square.shape + (1,) * (len(shape) - 2))
        )
        assert ((array == 0) == black).all()
        assert (array[~black] == clean[~black]).all()


def test_occlusion_reaches_every_place_about_equally_often() -> None:
    corners = [apply("rgb_occlusion", image((10, 8, 3)), 0.5, (step,)).metadata for step in range(4200)]
    counts = np.zeros((7, 5))
    for corner in corners:
        counts[corner["row"], corner["column"]] += 1
    assert counts.min() > 0
    chi_squared = ((counts - 120) ** 2 / 120).sum()
    assert chi_squared < 65  # 34 degrees of freedom: p = 0.001


@pytest.mark.parametrize("probability", [0.1, 0.2, 0.3, 0.9])
def test_dropout_zeroes_about_its_share_and_leaves_the_rest(probability: float) -> None:
    clean = depth((200, 200, 1))
    array, metadata = apply("depth_dropout", clean, probability, ("r", 0))
    dropped = array == 0
    assert metadata["probability"] == probability
    assert metadata["fraction"] == dropped.mean()
    assert abs(dropped.mean() - probability) < 5 * np.sqrt(probability * (1 - probability) / dropped.size)
    assert (array[~dropped] == clean[~dropped]).all()
    neighbours = np.corrcoef(dropped[:, 1:].ravel(), dropped[:, :-1].ravel())[0, 1]
    assert abs(neighbours) < 0.03


def test_dropout_of_one_drops_everything_and_odd_sizes_are_fine() -> None:
    array, metadata = apply("depth_dropout", depth((3, 5, 1)), 1.0, ("r",))
    assert not array.any()
    assert metadata["fraction"] == 1.0
    assert apply("depth_dropout", depth((3, 5)), 0.5, ("r",)).array.shape == (3, 5)


def test_draws_are_the_same_in_every_process() -> None:
    key = ("perturbation", "run", 0, 1, 3, "d", "depth_dropout")
    code = (
        "import numpy as np; from roep_gym.wrappers.operators.registry import find_operator\n"
        f"print(find_operator('depth_dropout').describe((50, 60, 1), 0.2, {key!r})['fraction'])"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(other.stdout) == apply("depth_dropout", depth(), 0.2, key).metadata["fraction"]


def test_other_shapes_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="Expected a frame of shape"):
        apply("rgb_occlusion", np.zeros((8, 8, 8), np.uint8), 0.1, ("r",))
    with pytest.raises(InvalidInputError, match="Expected depth of shape"):
        apply("depth_dropout", np.zeros((8, 8, 3), np.float32), 0.1, ("r",))


def test_the_registry_finds_names_and_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OPERATORS, "_parts", {})  # what is registered here is gone after the test
    assert set(OPERATORS.names()) >= {"rgb_occlusion", "depth_dropout"}
    with pytest.raises(UnknownNameError, match="Did you mean 'rgb_occlusion'"):
        find_operator("rgb_oclusion")
    with pytest.raises(InvalidInputError, match="'rgb_occlusion' is registered already"):
        register_operator("rgb_occlusion", Fog)
    register_operator("fog of the tests", Fog)
    assert isinstance(find_operator("fog of the tests"), Fog)
    for place in ("image", "Perturbed"):
        with pytest.raises(InvalidInputError, match="Expected a subclass of Operator at"):
            find_operator(f"{__name__}:{place}")
    with pytest.raises(InvalidInputError, match=r"Expected an operator at .*abstract"):
        find_operator("roep_gym.wrappers.operators.base:ObservationOperator")


def test_a_profile_names_an_operator_by_its_place() -> None:
    place = f"{__name__}:Fog"
    spec = {"name": "foggy", "operators": [{"operator": place, "density": 20}]}
    profile = Profile.from_spec(spec)
    assert Profile.from_spec(profile.to_spec()) == profile
    clean = image((8, 8, 3))
    array, (metadata,) = profile.perturb(clean, "image", ("run", 0, 0), 1, "agentview_image")
    assert metadata == {"operator": place, "level": 20}
    assert rebuild(clean, metadata, ()).tobytes() == array.tobytes()
    with pytest.raises(UnknownNameError, match=re.escape("Did you mean 'density'")):
        Profile.from_spec({"name": "x", "operators": [{"operator": place, "densty": 1}]})


def test_only_operators_on_observations_are_rebuilt() -> None:
    with pytest.raises(
        InvalidInputError, match=r"Expected an operator on observations, but .* acts on scenes"
    ):
        rebuild(image((8, 8, 3)), {"operator": f"{__name__}:Brighten"}, ())


class Sound(Fog):
    """Acts on what no wrapper gives it."""

    modality = "sound"  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("name", "parameter", "acts_on"), [("Brighten", "watt", "scene"), ("Sound", Fog.severity, "sound")]
)
def test_an_operator_that_nothing_applies_is_refused(name: str, parameter: str, acts_on: str) -> None:
    entry = {"operator": f"{__name__}:{name}", parameter: 0.5}
    with pytest.raises(InvalidInputError, match=f"{name}' on '{acts_on}', which nothing applies"):
        Profile.from_spec({"name": "odd", "operators": [entry]})
