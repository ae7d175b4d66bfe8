"""The operators are pure functions of (clean array, severity, key), exact at their edges."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest

from roep_gym.error import InvalidInputError, UnknownNameError
from roep_gym.wrappers.operators import (
    ObservationOperator,
    RgbOcclusion,
    depth_dropout,
    find_operator,
    frame_layout,
    operator_names,
    rebuild,
    register_operator,
    rgb_occlusion,
)

SHAPES = [(40, 32, 3), (32, 40, 1), (3, 24, 50), (30, 30, 4), (21, 33)]


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
        array, metadata = rgb_occlusion(clean, alpha, ("r", 0, 0, step))
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
    corners = [rgb_occlusion(image((10, 8, 3)), 0.5, (step,)).metadata for step in range(4200)]
    counts = np.zeros((7, 5))
    for corner in corners:
        counts[corner["row"], corner["column"]] += 1
    assert counts.min() > 0
    chi_squared = ((counts - 120) ** 2 / 120).sum()
    assert chi_squared < 65  # 34 degrees of freedom: p = 0.001


@pytest.mark.parametrize("probability", [0.1, 0.2, 0.3, 0.9])
def test_dropout_zeroes_about_its_share_and_leaves_the_rest(probability: float) -> None:
    clean = depth((200, 200, 1))
    array, metadata = depth_dropout(clean, probability, ("r", 0))
    dropped = array == 0
    assert metadata["probability"] == probability
    assert metadata["fraction"] == dropped.mean()
    assert abs(dropped.mean() - probability) < 5 * np.sqrt(probability * (1 - probability) / dropped.size)
    assert (array[~dropped] == clean[~dropped]).all()
    neighbours = np.corrcoef(dropped[:, 1:].ravel(), dropped[:, :-1].ravel())[0, 1]
    assert abs(neighbours) < 0.03


def test_dropout_of_one_drops_everything_and_odd_sizes_are_fine() -> None:
    array, metadata = depth_dropout(depth((3, 5, 1)), 1.0, ("r",))
    assert not array.any()
    assert metadata["fraction"] == 1.0
    assert depth_dropout(depth((3, 5)), 0.5, ("r",)).array.shape == (3, 5)


@pytest.mark.parametrize(("operate", "clean"), [(rgb_occlusion, image((8, 8, 3))), (depth_dropout, depth())])
def test_severity_zero_is_the_identity_bit_for_bit(operate, clean) -> None:
    clean = clean.copy()
    if clean.dtype == np.float32:
        clean[0, :3, 0] = [np.nan, -0.0, np.inf]
    array, _ = operate(clean, 0.0, ("r", 0))
    assert array.tobytes() == clean.tobytes()
    assert array is not clean
    assert not np.shares_memory(array, clean)


@pytest.mark.parametrize(
    ("operate", "clean"), [(rgb_occlusion, image((20, 20, 3))), (depth_dropout, depth())]
)
def test_nothing_is_modified_and_the_frame_is_rebuilt_from_metadata(operate, clean) -> None:
    before = clean.tobytes()
    clean.flags.writeable = False
    array, metadata = operate(clean, 0.4, ("r", 1, 2))
    assert clean.tobytes() == before
    assert (rebuild(clean, metadata, ("r", 1, 2)) == array).all()
    operator = find_operator(metadata["operator"])
    assert isinstance(operator, ObservationOperator)
    assert operator.describe(clean.shape, 0.4, ("r", 1, 2)) == metadata


def test_draws_depend_on_the_key_alone_in_any_order_and_process() -> None:
    def fraction(step: int) -> float:
        return float(
            depth_dropout(depth(), 0.2, ("perturbation", "run", 0, 1, step, "d", "depth_dropout"))[1][
                "fraction"
            ]
        )

    forward = [fraction(step) for step in range(6)]
    assert [fraction(step) for step in reversed(range(6))] == forward[::-1]
    assert len(set(forward)) > 3
    code = (
        "import numpy as np; from roep_gym.wrappers.operators import depth_dropout\n"
        "d = np.ones((50, 60, 1), np.float32)\n"
        "print(depth_dropout(d, 0.2, ('perturbation', 'run', 0, 1, 3, 'd', 'depth_dropout'))[1]['fraction'])"
    )
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(other.stdout) == forward[3]


def test_the_global_numpy_state_is_left_alone() -> None:
    before = np.random.get_state()[1].tobytes()
    rgb_occlusion(image((8, 8, 3)), 0.5, ("r",))
    depth_dropout(depth(), 0.5, ("r",))
    assert np.random.get_state()[1].tobytes() == before


@pytest.mark.parametrize("severity", [-0.1, 1.1, float("nan"), True, "0.3", None])
def test_a_severity_out_of_range_is_refused(severity: object) -> None:
    message = re.escape(f"Expected 'alpha' of 'rgb_occlusion' to be a number in [0, 1], got {severity!r}.")
    with pytest.raises(InvalidInputError, match=message):
        rgb_occlusion(image((8, 8, 3)), severity, ("r",))


def test_other_shapes_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="Expected a frame of shape"):
        rgb_occlusion(np.zeros((8, 8, 8), np.uint8), 0.1, ("r",))
    with pytest.raises(InvalidInputError, match="Expected depth of shape"):
        depth_dropout(np.zeros((8, 8, 3), np.float32), 0.1, ("r",))


def test_the_registry_knows_the_names_and_refuses_a_second_operator_of_one_name() -> None:
    assert set(operator_names("observation")) >= {"rgb_occlusion", "depth_dropout"}
    with pytest.raises(UnknownNameError, match="Did you mean 'rgb_occlusion'"):
        find_operator("rgb_oclusion")

    class Impostor(RgbOcclusion):
        pass

    with pytest.raises(InvalidInputError, match="'rgb_occlusion' is taken"):
        register_operator(Impostor())
    register_operator(RgbOcclusion())
