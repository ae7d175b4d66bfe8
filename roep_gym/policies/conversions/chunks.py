"""From what a network gives to actions of the environment.

`unnormalized` and its inverse `normalized` apply a checkpoint's statistics, which `statistics_key` finds.
`gripper_to_signed`, `gripper_sign`, `gripper_inverted`, `gripper_binary` and `gripper_thresholded` convert the last
entry of an action, `xvla_actions` X-VLA's twenty numbers. `prepare_actions` does the steps that `ACTION_STEPS` names,
one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from roep_gym.arguments import check_names
from roep_gym.error import InvalidInputError, unknown_name
from roep_gym.policies.conversions.vectors import axis_angle_of_rot6d
from roep_gym.typing import Array, FloatArray

__all__ = [
    "ACTION_STEPS",
    "gripper_binary",
    "gripper_inverted",
    "gripper_sign",
    "gripper_thresholded",
    "gripper_to_signed",
    "normalized",
    "prepare_actions",
    "statistics_key",
    "unnormalized",
    "xvla_actions",
]


class _Affine(NamedTuple):
    """Values are `normalized * scale + offset` where the mask holds, and stay as they are elsewhere."""

    scale: FloatArray
    offset: FloatArray
    mask: Array


def statistics_key(statistics: Mapping[str, Any], suite: str) -> str:
    """Return the key under which a checkpoint keeps the statistics of a suite: its name, else with `_no_noops`.

    Source: `run_libero_eval.py` of OpenVLA and OpenVLA-OFT.

    Raises:
        UnknownNameError: The checkpoint has neither; it was tuned for another suite.

    Example:
        >>> from roep_gym.policies.conversions import statistics_key
        >>> statistics_key({"libero_goal_no_noops": {}}, "libero_goal")
        'libero_goal_no_noops'
    """
    for key in (suite, f"{suite}_no_noops"):
        if key in statistics:
            return key
    raise unknown_name(
        "key of the checkpoint's statistics", suite, statistics, "Is it the checkpoint of this suite?"
    )


def unnormalized(
    values: FloatArray, statistics: Mapping[str, Any], bounds: str = "quantiles", epsilon: float = 0.0
) -> FloatArray:
    """Return a network's values (..., n) in the units of its training data.

    Args:
        values: What the network gives, in [-1, 1] for bounds and in standard deviations for the mean.
        statistics: The statistics of one data set: the entries of `bounds`, each (n,), and optionally `mask` (n,),
            which is false for entries that were never normalised.
        bounds: "quantiles" for `q01` and `q99`, "extremes" for `min` and `max`, "deviations" for `mean` and `std`.
        epsilon: What is added to each width or deviation: 0 in OpenVLA, 1e-8 in OpenVLA-OFT and VLA-Adapter, 1e-6 in
            openpi.

    Raises:
        UnknownNameError: The kind of bounds is unknown.
        InvalidInputError: The statistics lack an entry, or one is of another length than the values.

    Source: `predict_action` and `_unnormalize_actions` of `modeling_prismatic.py` (OpenVLA, OpenVLA-OFT,
    VLA-Adapter), `Unnormalize` of `transforms.py` (openpi).
    """
    values = np.asarray(values)
    scale, offset, mask = _affine(statistics, bounds, epsilon, values)
    return np.where(mask, values * scale + offset, values)


def normalized(
    values: FloatArray,
    statistics: Mapping[str, Any],
    bounds: str = "quantiles",
    epsilon: float = 0.0,
    clip: bool = False,
) -> FloatArray:
    """Return values (..., n) as a network takes them: the inverse of `unnormalized`.

    Args:
        values: Values in the units of the training data, such as a state.
        statistics: As for `unnormalized`, and so `bounds` and `epsilon`.
        bounds: The kind of statistics.
        epsilon: What is added to each width or deviation.
        clip: Whether the result is clipped to [-1, 1], as the state of OpenVLA-OFT and VLA-Adapter is.

    Raises:
        UnknownNameError: The kind of bounds is unknown.
        InvalidInputError: The statistics do not fit.

    Source: `normalize_proprio` of `openvla_utils.py` (OpenVLA-OFT, VLA-Adapter), `Normalize` of openpi.
    """
    values = np.asarray(values)
    scale, offset, mask = _affine(statistics, bounds, epsilon, values)
    scale = np.where(mask, scale, 1.0)
    if not scale.all():
        raise InvalidInputError(
            "Expected statistics of a positive width, got entries that never vary; mask them, or give an epsilon."
        )
    result = np.where(mask, (values - offset) / scale, values)
    return np.clip(result, -1.0, 1.0) if clip else result


def gripper_to_signed(actions: Array) -> FloatArray:
    """Map the last entry of actions (..., n) from [0, 1] to [-1, 1].

    Source: `normalize_gripper_action` of `robot_utils.py` (OpenVLA, OpenVLA-OFT, VLA-Adapter).
    """
    return _with_gripper(actions, lambda gripper: 2.0 * gripper - 1.0)


def gripper_sign(actions: Array) -> FloatArray:
    """Replace the last entry of actions (..., n) by its sign, -1, 0 or 1. Source: as for `gripper_to_signed`."""
    return _with_gripper(actions, np.sign)


def gripper_inverted(actions: Array) -> FloatArray:
    """Negate the last entry of actions (..., n), since OpenVLA's data have 0 for closed and 1 for open.

    Source: `invert_gripper_action` of `robot_utils.py` (OpenVLA, OpenVLA-OFT, VLA-Adapter).
    """
    return _with_gripper(actions, np.negative)


def gripper_thresholded(actions: Array) -> FloatArray:
    """Replace the last entry of actions (..., n) by 1 where it is above 0.5, else by -1; NaN stays.

    Source: X-VLA's LIBERO client.
    """
    return _with_gripper(
        actions, lambda gripper: np.where(np.isnan(gripper), gripper, np.where(gripper > 0.5, 1.0, -1.0))
    )


def gripper_binary(actions: Array) -> FloatArray:
    """Replace the last entry of actions (..., n) by -1 where it is negative, else by 1; NaN stays.

    Source: LIBERO's environment in vla-evaluation-harness.
    """
    return _with_gripper(
        actions, lambda gripper: np.where(np.isnan(gripper), gripper, np.where(gripper < 0.0, -1.0, 1.0))
    )


def xvla_actions(actions: Array) -> FloatArray:
    """Return the absolute actions (..., 7) of X-VLA's numbers (..., 20), float64.

    Position in metres, rotation vector in radians and gripper, -1 open and +1 closed, of the first arm; the second,
    entries 10 to 19, does not exist in LIBERO. What is no rotation becomes NaN, which an evaluation counts as the
    policy's failure. The environment must be in the control mode "absolute".
    Source: X-VLA's LIBERO client.

    Raises:
        InvalidInputError: There are not 20 entries, or the 10 of one arm.
    """
    actions = np.asarray(actions, dtype=np.float64)
    if actions.ndim == 0 or actions.shape[-1] not in (10, 20):
        raise InvalidInputError(f"Expected actions of X-VLA (..., 20), got {actions.shape}.")
    arm = [actions[..., :3], axis_angle_of_rot6d(actions[..., 3:9]), actions[..., 9:10]]
    return gripper_thresholded(np.concatenate(arm, axis=-1))


ACTION_STEPS: Mapping[str, Callable[[Array], FloatArray]] = {
    "gripper_binary": gripper_binary,
    "gripper_to_signed": gripper_to_signed,
    "gripper_sign": gripper_sign,
    "gripper_inverted": gripper_inverted,
    "gripper_thresholded": gripper_thresholded,
    "xvla_actions": xvla_actions,
}
"""What can be done to a chunk, by name."""


def prepare_actions(actions: Array, steps: Sequence[str]) -> Array:
    """Return a chunk (steps, n) after the named steps, in their order.

    Raises:
        UnknownNameError: A step is none of `ACTION_STEPS`.

    Example:
        >>> from roep_gym.policies.conversions import prepare_actions
        >>> openvla = ["gripper_to_signed", "gripper_sign", "gripper_inverted"]
        >>> prepare_actions([[0.1, 0, 0, 0, 0, 0, 0.996]], openvla).tolist()
        [[0.1, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0]]
    """
    check_names("step of a chunk", steps, ACTION_STEPS)
    for step in steps:
        actions = ACTION_STEPS[step](actions)
    return actions


_KINDS: Mapping[str, tuple[str, str]] = {
    "quantiles": ("q01", "q99"),
    "extremes": ("min", "max"),
    "deviations": ("mean", "std"),
}


def _affine(statistics: Mapping[str, Any], bounds: str, epsilon: float, values: Array) -> _Affine:
    check_names("kind of bounds", [bounds], _KINDS)
    first, second = (_entry(statistics, name, values) for name in _KINDS[bounds])
    mask = _entry(statistics, "mask", values).astype(bool) if "mask" in statistics else np.array(True)
    if bounds == "deviations":
        return _Affine(second + epsilon, first, mask)
    half = 0.5 * (second - first + epsilon)
    return _Affine(half, first + half, mask)


def _entry(statistics: Mapping[str, Any], name: str, values: Array) -> Array:
    if name not in statistics:
        raise InvalidInputError(f"Expected the entry {name!r} in the statistics, got {sorted(statistics)}.")
    entry = np.asarray(statistics[name])
    if entry.shape != values.shape[-1:]:
        raise InvalidInputError(
            f"Expected the statistics {name!r} of the shape {values.shape[-1:]}, as the values have, got {entry.shape}."
        )
    return entry


def _with_gripper(actions: Array, convert: Callable[[Array], Any]) -> FloatArray:
    actions = np.array(actions, dtype=np.result_type(np.asarray(actions), np.float32))
    if actions.ndim == 0 or actions.shape[-1] == 0:
        raise InvalidInputError(f"Expected actions with a gripper as the last entry, got {actions.shape}.")
    actions[..., -1] = convert(actions[..., -1])
    return actions
