"""Conversions against numbers of the published code.

The numbers of robosuite and of X-VLA's client were computed by running that code once, those of TensorFlow's Lanczos
filter are the ones that its own tests expect. TensorFlow itself is not installed here: crop, antialiasing and JPEG are
compared with its formulas, written out by hand.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from roep_gym.error import InvalidInputError, UnknownNameError
from roep_gym.policies.conversions import (
    ACTION_STEPS,
    FRAME_STEPS,
    ORIENTATIONS,
    axis_angle,
    axis_angle_of_rot6d,
    bgr,
    center_crop,
    channels_first,
    gripper_inverted,
    gripper_sign,
    gripper_thresholded,
    gripper_to_signed,
    jpeg_round_trip,
    libero_state,
    normalized,
    prepare_actions,
    prepare_frame,
    quaternion,
    resize_lanczos3,
    resize_with_pad,
    rot6d,
    rotated_180,
    statistics_key,
    unnormalized,
    xvla_actions,
    xvla_state,
)


def noise(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def grey(values: Any) -> np.ndarray:
    return np.repeat(np.asarray(values, dtype=np.uint8)[..., np.newaxis], 3, axis=-1)


# Frames


def test_the_published_rotation_is_a_mirror_of_the_upright_frame():
    raw = noise(3, 4)  # as LIBERO renders: rows bottom-up
    upright, published = raw[::-1], raw[::-1, ::-1]
    np.testing.assert_array_equal(rotated_180(upright), published)
    assert not np.array_equal(rotated_180(upright), upright[::-1, ::-1])


def test_every_orientation_is_another_and_undone_by_itself():
    frame = noise(4, 6)
    seen = {name: turn(frame) for name, turn in ORIENTATIONS.items()}
    assert len({array.tobytes() for array in seen.values()}) == 4
    for name, turn in ORIENTATIONS.items():
        np.testing.assert_array_equal(turn(seen[name]), frame)
        assert seen[name].flags.c_contiguous


def test_channels():
    frame = noise(4, 6)
    np.testing.assert_array_equal(channels_first(frame)[2], frame[..., 2])
    np.testing.assert_array_equal(bgr(frame)[..., 0], frame[..., 2])
    np.testing.assert_array_equal(bgr(bgr(frame)), frame)


@pytest.mark.parametrize("shape", [(256, 256), (128, 128), (100, 200), (480, 640), (37, 11), (224, 224)])
def test_padded_resize_agrees_with_openpis_own_package(shape: tuple[int, int]):
    theirs = pytest.importorskip("openpi_client.image_tools", reason="needs the extra 'servers'")
    frame = noise(*shape, seed=1)
    np.testing.assert_array_equal(resize_with_pad(frame, 224), theirs.resize_with_pad(frame, 224, 224))


def test_padded_resize_pads_evenly_with_black():
    resized = resize_with_pad(np.full((100, 200, 3), 255, dtype=np.uint8), 224)
    assert (resized[:56] == 0).all()
    assert (resized[168:] == 0).all()
    assert (resized[56:168] == 255).all()


def test_lanczos_agrees_with_the_numbers_in_tensorflows_own_test():
    # ResizeMethod.LANCZOS3 in tensorflow/python/ops/image_ops_test.py, there before rounding.
    expected = [
        [75.8294, 59.6281, 38.4313, 22.23],
        [60.6851, 52.0037, 40.6454, 31.964],
        [35.8344, 41.0779, 47.9383, 53.1818],
        [24.6968, 43.0769, 67.1244, 85.5045],
        [35.7939, 56.4713, 83.5243, 104.2017],
        [44.8138, 65.1949, 91.8603, 112.2413],
    ]
    resized = resize_lanczos3(grey([[64, 32], [32, 64], [50, 100]]), 6, 4)
    np.testing.assert_array_equal(resized, grey(np.round(expected)))


def lanczos_weights(length: int, wanted: int) -> np.ndarray:
    """Return the weights (wanted, length) of `tf.image.resize(method="lanczos3", antialias=True)`."""
    scale = length / wanted
    width = max(scale, 1.0)  # the filter is as wide as an output pixel
    centre = (np.arange(wanted)[:, np.newaxis] + 0.5) * scale
    x = np.abs(np.arange(length) + 0.5 - centre) / width
    weights = np.where(x < 3.0, np.sinc(x) * np.sinc(x / 3.0), 0.0)
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("size", [256, 128, 360])
def test_lanczos_is_tensorflows_formula_in_both_directions(size: int):
    frame = noise(size, size, seed=2)
    weights = lanczos_weights(size, 224)
    exact = np.einsum("ih,hwc,jw->ijc", weights, frame.astype(float), weights, optimize=True)
    expected = np.clip(np.round(exact), 0, 255)
    found = resize_lanczos3(frame).astype(int)
    assert (found != expected).mean() < 1e-4  # single precision, where a value lies half way
    assert np.abs(found - expected).max() <= 1


# Annex K of the JPEG standard, table K.1, scaled to quality 95 as libjpeg does.
LUMINANCE = np.array(
    [
        [16, 11, 10, 16, 24, 40, 51, 61],
        [12, 12, 14, 19, 26, 58, 60, 55],
        [14, 13, 16, 24, 40, 57, 69, 56],
        [14, 17, 22, 29, 51, 87, 80, 62],
        [18, 22, 37, 56, 68, 109, 103, 77],
        [24, 35, 55, 64, 81, 104, 113, 92],
        [49, 64, 78, 87, 103, 121, 120, 101],
        [72, 92, 95, 98, 112, 100, 103, 99],
    ]
)


def test_jpeg_of_a_grey_frame_is_the_quantised_cosine_transform_at_quality_95():
    values = np.random.default_rng(3).integers(90, 166, (8, 8))
    step = np.maximum((LUMINANCE * 10 + 50) // 100, 1)
    basis = np.array([[math.cos((2 * n + 1) * k * math.pi / 16) for n in range(8)] for k in range(8)]) / 2
    basis[0] /= math.sqrt(2)
    coefficients = np.round(basis @ (values - 128.0) @ basis.T / step) * step
    expected = basis.T @ coefficients @ basis + 128
    found = jpeg_round_trip(grey(values)).astype(float)
    assert np.abs(found - expected[..., np.newaxis]).max() <= 1.5
    assert np.abs(found[..., 0] - values).max() > 1.5  # the frame itself is no solution


def test_jpeg_halves_the_resolution_of_colour():
    frame = np.zeros((32, 32, 3), dtype=np.uint8)
    frame[:, ::2], frame[:, 1::2] = (200, 40, 40), (40, 200, 40)
    red, green, _ = np.moveaxis(jpeg_round_trip(frame)[8:24, 8:24].astype(int), -1, 0)
    # Neighbours keep their brightness and lose the difference of their colour.
    assert np.abs((red - green).mean(axis=0)).max() < 15
    assert np.abs(np.diff(0.299 * red + 0.587 * green, axis=1)).min() > 20


def test_crop_by_hand():
    # A share of 0.25 of the area is half of each side: the places 0.5, 1 and 1.5 of a frame of three pixels.
    frame = grey([[10, 20, 30], [40, 50, 60], [70, 80, 90]])
    expected = grey([[30, 35, 40], [45, 50, 55], [60, 65, 70]])
    np.testing.assert_array_equal(center_crop(frame, area=0.25), expected)


def test_crop_of_a_ramp_takes_the_places_of_tensorflow():
    # crop_and_resize: place = y1 (H - 1) + i (y2 - y1) (H - 1) / (crop height - 1), with y2 - y1 = sqrt(0.9).
    side = math.sqrt(0.9)
    places = (1 - side) / 2 * 223 + np.arange(224) * side * 223 / 223
    found = center_crop(grey(np.tile(np.arange(224), (224, 1))))
    np.testing.assert_allclose(found[100, :, 0], np.floor(places * 255.5 / 255), atol=1)
    assert (found[100, :, 0] == np.floor(places * 255.5 / 255)).mean() > 0.98
    assert abs(int(found[0, 0, 0]) - 0.0257 * 223) < 1


def test_crop_cuts_down_and_does_not_round():
    frame = grey([[127, 129, 127], [127, 129, 127], [127, 129, 127]])
    # Half way: 128 * 255.5 / 255 = 128.25; at 0.3 of the way 127.6 gives 127.85.
    side = 1 - 0.3
    found = center_crop(frame, area=side**2)
    assert found[1, 0, 0] == 127
    assert found[1, 1, 0] == 129


def test_a_crop_of_everything_changes_nothing():
    frame = noise(32, 32)
    np.testing.assert_array_equal(center_crop(frame, area=1.0), frame)


def test_the_frame_of_openvla_is_its_steps():
    frame = noise(256, 256)
    expected = center_crop(resize_lanczos3(jpeg_round_trip(frame[:, ::-1])))
    steps = ["rotated_180", "jpeg", "lanczos3_224", "center_0.9"]
    np.testing.assert_array_equal(prepare_frame(frame, steps), expected)


@pytest.mark.parametrize("step", FRAME_STEPS)
def test_every_step_of_a_frame_leaves_its_input_alone(step: str):
    frame = noise(256, 256)
    before = frame.copy()
    assert prepare_frame(frame, [step]).dtype == np.uint8
    np.testing.assert_array_equal(frame, before)


@pytest.mark.parametrize("frame", [noise(8, 8) / 255, noise(8, 8)[..., 0], np.zeros((0, 8, 3), np.uint8)])
@pytest.mark.parametrize("step", ["jpeg", "lanczos3_224", "center_0.9", "pad_bilinear_224"])
def test_what_is_no_frame_is_refused(step: str, frame: np.ndarray):
    with pytest.raises(InvalidInputError, match=r"Expected a frame uint8 \(height, width, 3\), got"):
        prepare_frame(frame, [step])


# Rotations and states


@pytest.mark.parametrize(
    ("given", "kept", "shortest"),
    [
        # Computed with robosuite 1.4.0's quat2axisangle; the hand points down in the first two.
        (
            [0.9985123466815006, 0.012300152092320937, -0.030200373429926205, 0.04370054036052236],
            [3.052536357379219, 0.03760260109741051, -0.09232508562128433],
            [3.052536357379219, 0.03760260109741051, -0.09232508562128433],
        ),
        (
            [0.9985123466815006, 0.012300152092320937, -0.030200373429926205, -0.04370054036052236],
            [3.227301033585833, 0.0397554358669061, -0.09761090757565563],
            [-3.052536357379219, -0.03760260109741051, 0.09232508562128433],
        ),
        (
            [0.10259783520851541, -0.20519567041703082, 0.3077935056255462, -0.9233805168766387],
            [1.4686495009725506, -2.9372990019451013, 4.405948502917651],
            [-0.21060240739016323, 0.42120481478032645, -0.6318072221704896],
        ),
    ],
)
def test_axis_angle_agrees_with_robosuite(given: list[float], kept: list[float], shortest: list[float]):
    np.testing.assert_allclose(axis_angle(np.array(given)), kept, atol=1e-12)
    np.testing.assert_allclose(axis_angle(np.array(given), "shortest"), shortest, atol=1e-12)


@pytest.mark.parametrize("vector", [[0.3, -0.2, 0.1], [0, 0, 3.0], [-1.2, 2.0, 0.4]])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_shortest_axis_angle_is_that_of_scipy(vector: list[float], sign: int):
    given = sign * Rotation.from_rotvec(vector).as_quat(canonical=True)
    np.testing.assert_allclose(axis_angle(given, "shortest"), vector, atol=1e-12)


@pytest.mark.parametrize("w", [1.0, -1.0, 1.0000001])
def test_axis_angle_of_no_rotation_leaves_its_input(w: float):
    given = np.array([0.0, 0.0, 0.0, w])
    np.testing.assert_array_equal(axis_angle(given), np.zeros(3))
    assert given[3] == w


@pytest.mark.parametrize("angle", [0.0, 1e-3, 1.0, 3.0, 4.0, 6.28])
def test_quaternions_come_back_with_their_sign(angle: float):
    axis = np.array([0.6, 0.0, -0.8])
    given = np.array([*(axis * np.sin(angle / 2)), np.cos(angle / 2)])
    np.testing.assert_allclose(quaternion(axis_angle(given)), given, atol=1e-9)


SIX = [
    [0.2, -0.9, 0.4, 0.7, 0.1, -0.3],
    [0.99, 0.05, -0.1, 0.02, -0.97, 0.2],
    [1.5, 0.3, -0.2, 0.4, 2.0, 0.1],
]
# Rotate6D_to_AxisAngle of X-VLA's LIBERO client on SIX, with robosuite 1.4.0 in single precision.
SIX_AS_VECTORS = [
    [-0.60887474, -0.07539054, -1.3949702],
    [2.9351742, 0.08886489, -0.14028183],
    [0.09295677, 0.13992086, 0.19002318],
]


def test_rot6d_agrees_with_xvlas_client():
    np.testing.assert_allclose(axis_angle_of_rot6d(np.array(SIX)), SIX_AS_VECTORS, atol=2e-5)
    np.testing.assert_allclose(axis_angle_of_rot6d(np.array(SIX[1])), SIX_AS_VECTORS[1], atol=2e-5)


def test_rot6d_takes_columns_and_comes_back():
    matrix = Rotation.from_rotvec([0.4, -1.1, 0.7]).as_matrix()
    np.testing.assert_allclose(rot6d(matrix), [*matrix[:, 0], *matrix[:, 1]])
    np.testing.assert_allclose(axis_angle_of_rot6d(rot6d(matrix)), [0.4, -1.1, 0.7], atol=1e-12)


@pytest.mark.parametrize(
    "columns", [np.zeros(6), [1, 0, 0, 2, 0, 0], [np.nan, 0, 0, 0, 1, 0], [np.inf, 0, 0, 0, 1, 0]]
)
def test_what_is_no_rotation_is_no_number_and_leaves_its_neighbours(columns: Any):
    found = axis_angle_of_rot6d(np.array([SIX[0], columns, SIX[2]]))
    assert np.isnan(found[1]).all()
    np.testing.assert_allclose(found[[0, 2]], [SIX_AS_VECTORS[0], SIX_AS_VECTORS[2]], atol=2e-5)
    assert np.isnan(axis_angle_of_rot6d(np.asarray(columns, dtype=float))).all()


PROPRIO = {
    **{f"eef_pos_{axis}": value for axis, value in zip("xyz", (0.1, 0.2, 0.3), strict=True)},
    **{f"eef_quat_{axis}": value for axis, value in zip("xyzw", (1.0, 0.0, 0.0, 0.0), strict=True)},
    "gripper_qpos_0": 0.04,
    "gripper_qpos_1": -0.04,
}


def test_states():
    np.testing.assert_allclose(libero_state(PROPRIO), [0.1, 0.2, 0.3, np.pi, 0, 0, 0.04, -0.04])
    state = xvla_state(np.arange(9.0, dtype=np.float32))
    np.testing.assert_array_equal(state, [*range(9), *[0] * 11])
    with pytest.raises(InvalidInputError, match="Expected the entry 'eef_pos_x'"):
        libero_state({"gripper_qpos_0": 0.0})
    with pytest.raises(
        InvalidInputError, match=re.escape("Expected the pose of the controller (9,), got (12,)")
    ):
        xvla_state(np.zeros(12))


# Chunks

STATISTICS = {
    "q01": [-0.8, -0.5, 0.0],
    "q99": [0.8, 0.7, 1.0],
    "mean": [0.1, -0.1, 0.5],
    "std": [0.4, 0.2, 0.1],
    "mask": [True, True, False],
}


def test_unnormalised_by_hand():
    values = np.array([[-1.0, 0.0, 0.3], [0.5, 1.0, 0.9]])
    # 0.5 (v + 1) (q99 - q01) + q01; the gripper is masked.
    np.testing.assert_allclose(unnormalized(values, STATISTICS), [[-0.8, 0.1, 0.3], [0.4, 0.7, 0.9]])
    # v std + mean
    np.testing.assert_allclose(
        unnormalized(values, STATISTICS, "deviations"), [[-0.3, -0.1, 0.3], [0.3, 0.1, 0.9]]
    )
    # OpenVLA-OFT adds 1e-8 to the width, openpi 1e-6: at 1 the result is moved by that much.
    for epsilon in (1e-8, 1e-6):
        moved = unnormalized(values, STATISTICS, epsilon=epsilon) - unnormalized(values, STATISTICS)
        np.testing.assert_allclose(moved, [[0, epsilon / 2, 0], [0.75 * epsilon, epsilon, 0]], atol=1e-15)


@pytest.mark.parametrize("bounds", ["quantiles", "deviations"])
@pytest.mark.parametrize("epsilon", [0.0, 1e-2])
def test_normalised_is_the_inverse(bounds: str, epsilon: float):
    values = np.random.default_rng(4).uniform(-1, 1, (5, 3))
    there = unnormalized(values, STATISTICS, bounds, epsilon)
    np.testing.assert_allclose(normalized(there, STATISTICS, bounds, epsilon), values, atol=1e-12)


def test_the_state_of_openvla_oft_is_clipped():
    # 2 (x - q01) / (q99 - q01 + 1e-8) - 1, clipped to [-1, 1]
    state = normalized(np.array([1.2, 0.4, -3.0]), STATISTICS, epsilon=1e-8, clip=True)
    np.testing.assert_allclose(state, [1.0, 0.5, -1.0], atol=1e-7)


def test_statistics_that_do_not_fit_are_refused():
    with pytest.raises(InvalidInputError, match=r"'q01' of the shape \(7,\), as the values have, got \(3,\)"):
        unnormalized(np.zeros((1, 7)), STATISTICS)
    with pytest.raises(InvalidInputError, match="Expected the entry 'max' in the statistics"):
        unnormalized(np.zeros(3), {"min": [0, 0, 0]}, "extremes")
    with pytest.raises(UnknownNameError, match="Did you mean 'quantiles'"):
        unnormalized(np.zeros(3), STATISTICS, "quantile")
    with pytest.raises(InvalidInputError, match="entries that never vary"):
        normalized(np.zeros(1), {"q01": [1.0], "q99": [1.0]})


def test_the_key_of_a_suite_falls_back_to_the_data_without_no_ops():
    both = {"libero_goal": {}, "libero_goal_no_noops": {}}
    assert statistics_key(both, "libero_goal") == "libero_goal"
    assert statistics_key({"libero_goal_no_noops": {}}, "libero_goal") == "libero_goal_no_noops"
    with pytest.raises(UnknownNameError, match="Unknown key of the checkpoint's statistics 'libero_goal'"):
        statistics_key({"libero_object_no_noops": {}}, "libero_goal")


def test_the_gripper_of_openvla():
    # normalize_gripper_action and invert_gripper_action: 1 is open in the data, -1 in the environment.
    actions = np.zeros((3, 7), dtype=np.float32)
    actions[:, -1] = [0.0, 0.4, 0.996]
    steps = ["gripper_to_signed", "gripper_sign", "gripper_inverted"]
    np.testing.assert_array_equal(prepare_actions(actions, steps)[:, -1], [1, 1, -1])
    np.testing.assert_allclose(gripper_to_signed(actions)[:, -1], [-1, -0.2, 0.992], rtol=1e-6)
    np.testing.assert_array_equal(gripper_sign(actions)[:, -1], [0, 1, 1])
    np.testing.assert_allclose(gripper_inverted(actions)[:, -1], [0, -0.4, -0.996])
    np.testing.assert_array_equal(gripper_thresholded(actions)[:, -1], [-1, -1, 1])


def test_xvlas_actions():
    chunk = np.zeros((3, 20))
    chunk[:, :3] = [[0.1, 0.2, 1.1]]
    chunk[:, 3:9], chunk[:, 9], chunk[:, 10:] = SIX, [0.5, 0.51, 0.0], 9.0
    expected = np.column_stack([chunk[:, :3], SIX_AS_VECTORS, [-1, 1, -1]])
    np.testing.assert_allclose(xvla_actions(chunk), expected, atol=2e-5)
    with pytest.raises(InvalidInputError, match=re.escape("Expected actions of X-VLA (..., 20), got (3, 7)")):
        xvla_actions(chunk[:, :7])


@pytest.mark.parametrize("step", ACTION_STEPS)
def test_no_step_of_a_chunk_makes_a_number_of_none(step: str):
    chunk = np.full((1, 20), 0.5)
    chunk[0, 9] = chunk[0, -1] = np.nan
    assert np.isnan(prepare_actions(chunk, [step])[0, -1])


@pytest.mark.parametrize("step", ACTION_STEPS)
def test_every_step_of_a_chunk_leaves_its_input_alone(step: str):
    chunk = np.random.default_rng(5).uniform(0, 1, (4, 20))
    before = chunk.copy()
    assert len(prepare_actions(chunk, [step])) == 4
    np.testing.assert_array_equal(chunk, before)


def test_unknown_steps_are_answered_with_the_closest():
    with pytest.raises(UnknownNameError, match="Did you mean 'lanczos3_224'"):
        prepare_frame(noise(8, 8), ["lanczos_224"])
    with pytest.raises(UnknownNameError, match="Did you mean 'gripper_sign'"):
        prepare_actions(np.zeros((1, 7)), ["gripper_signs"])
