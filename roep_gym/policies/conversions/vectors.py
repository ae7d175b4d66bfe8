"""Rotations and the state vectors that published checkpoints take.

`axis_angle` and its inverse `quaternion`, `rot6d` and `axis_angle_of_rot6d` are the rotations; `libero_state` and
`xvla_state` are the two layouts of the proprioception.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np
from scipy.spatial.transform import Rotation

from roep_gym.arguments import check_names
from roep_gym.error import InvalidInputError
from roep_gym.typing import Array, FloatArray

__all__ = ["axis_angle", "axis_angle_of_rot6d", "libero_state", "quaternion", "rot6d", "xvla_state"]

Antipode = Literal["kept", "shortest"]


def axis_angle(quaternion: FloatArray, antipode: Antipode = "kept") -> FloatArray:
    """Return the rotation vector (3,) of a quaternion xyzw, in radians.

    A quaternion and its antipode are one rotation, but give two vectors. Which of them a checkpoint was trained on is
    a part of its contract: the hand of LIBERO points down, where the sign of w changes all the time.

    Args:
        quaternion: Unit quaternion (4,), scalar last; it is not changed.
        antipode: "kept" takes the quaternion as it is, so that the angle is in [0, 2 pi], as `quat2axisangle` of
            robosuite does and with it the clients of openpi, OpenVLA-OFT and VLA-Adapter. "shortest" takes the antipode
            where w < 0, so that the angle is in [0, pi], as vla-eval does unless its server asks for
            `quat_no_antipodal`.

    Raises:
        UnknownNameError: The rule is unknown.
    """
    check_names("antipode", [antipode], ("kept", "shortest"))
    w = min(max(float(quaternion[3]), -1.0), 1.0)
    sine = math.sqrt(1.0 - w * w)
    if math.isclose(sine, 0.0):
        return np.zeros(3)
    sign = -1.0 if antipode == "shortest" and w < 0.0 else 1.0
    return np.asarray(quaternion[:3], dtype=np.float64) * sign * 2.0 * math.acos(sign * w) / sine


def quaternion(rotation: FloatArray) -> FloatArray:
    """Return the quaternion xyzw of a rotation vector (3,): the inverse of `axis_angle`, sign included."""
    angle = float(np.linalg.norm(rotation))
    if math.isclose(angle, 0.0):
        return np.array([0.0, 0.0, 0.0, 1.0])
    return np.array([*(rotation / angle * math.sin(angle / 2)), math.cos(angle / 2)])


def rot6d(matrix: FloatArray) -> FloatArray:
    """Return the first two columns of a rotation matrix (..., 3, 3), one after the other, (..., 6).

    Source: `Mat_to_Rotate6D` of X-VLA's LIBERO client.
    """
    matrix = np.asarray(matrix)
    return np.concatenate([matrix[..., 0], matrix[..., 1]], axis=-1)


def axis_angle_of_rot6d(columns: FloatArray) -> FloatArray:
    """Return the rotation vectors (..., 3), of an angle in [0, pi], of two columns (..., 6) of a rotation matrix.

    The second column is made orthogonal to the first, both are made of unit length, and the third is their cross
    product. Columns that are zero, parallel or not finite give NaN.
    Source: `Rotate6D_to_AxisAngle` of X-VLA's LIBERO client, which computes in single precision.

    Raises:
        InvalidInputError: There are not six entries.
    """
    columns = np.asarray(columns, dtype=np.float64)
    if columns.shape[-1:] != (6,):
        raise InvalidInputError(f"Expected two columns of a rotation matrix (..., 6), got {columns.shape}.")
    first = _unit(columns[..., :3])
    second = columns[..., 3:]
    second = _unit(second - (first * second).sum(axis=-1, keepdims=True) * first)
    matrix = np.stack([first, second, np.cross(first, second)], axis=-1)
    vectors = np.full((*columns.shape[:-1], 3), np.nan)
    rotations = np.isfinite(matrix).all(axis=(-2, -1))
    if rotations.any():
        vectors[rotations] = Rotation.from_matrix(matrix[rotations]).as_rotvec().reshape(-1, 3)
    return vectors


def libero_state(proprio: Mapping[str, float], antipode: Antipode = "kept") -> FloatArray:
    """Return the state (8,) of openpi, OpenVLA-OFT, VLA-Adapter and vla-eval's harness, float64.

    Position of the hand in metres, its rotation vector in radians, and the two fingers in metres.

    Args:
        proprio: The observation `proprio` by the names of its entries.
        antipode: As for `axis_angle`.

    Raises:
        InvalidInputError: An entry is missing.
    """
    try:
        position = [proprio[f"eef_pos_{axis}"] for axis in "xyz"]
        rotation = axis_angle(np.array([proprio[f"eef_quat_{axis}"] for axis in "xyzw"]), antipode)
        gripper = [proprio["gripper_qpos_0"], proprio["gripper_qpos_1"]]
    except KeyError as error:
        raise InvalidInputError(
            f"Expected the entry {error} in the observation proprio, got {sorted(proprio)}."
        ) from error
    return np.concatenate([position, rotation, gripper])


def xvla_state(controller_pose: Array) -> FloatArray:
    """Return the state (20,) of X-VLA: position, two columns of the rotation matrix, and eleven zeros, float64.

    The zeros are the gripper, which X-VLA is not told on LIBERO, and the ten entries of a second arm.
    Source: X-VLA's LIBERO client, which reads the pose of the *controller*; the orientation in `proprio` is that of
    another body, turned by 90 degrees.

    Args:
        controller_pose: The observation `controller_pose` (9,): position in metres, and the x and the y axis of the
            controlled point in the world's frame.

    Raises:
        InvalidInputError: It has another shape.
    """
    if np.shape(controller_pose) != (9,):
        raise InvalidInputError(
            f"Expected the pose of the controller (9,), got {np.shape(controller_pose)}; "
            "ask for the observation 'controller_pose'."
        )
    return np.concatenate([np.asarray(controller_pose, dtype=np.float64), np.zeros(11)])


def _unit(vectors: FloatArray) -> FloatArray:
    """Return vectors of unit length; NaN where one has no direction."""
    with np.errstate(invalid="ignore", over="ignore"):
        length = np.linalg.norm(vectors, axis=-1, keepdims=True)
        unit: FloatArray = vectors / np.where(length > 1e-9, length, np.nan)
    return unit
