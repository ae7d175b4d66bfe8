"""Conversions between our observations and actions and those that published checkpoints take and give.

Each is a pure function of arrays. `FRAME_STEPS` and `ACTION_STEPS` name those that a preset can ask for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roep_gym.lazy import lazy_names

if TYPE_CHECKING:
    from roep_gym.policies.conversions.chunks import (
        ACTION_STEPS,
        gripper_binary,
        gripper_inverted,
        gripper_sign,
        gripper_thresholded,
        gripper_to_signed,
        normalized,
        prepare_actions,
        statistics_key,
        unnormalized,
        xvla_actions,
    )
    from roep_gym.policies.conversions.frames import (
        FRAME_STEPS,
        ORIENTATIONS,
        bgr,
        center_crop,
        channels_first,
        jpeg_round_trip,
        prepare_frame,
        raw_rows,
        resize_lanczos3,
        resize_with_pad,
        rotated_180,
        upside_down,
    )
    from roep_gym.policies.conversions.vectors import (
        axis_angle,
        axis_angle_of_rot6d,
        libero_state,
        quaternion,
        rot6d,
        xvla_state,
    )
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "ACTION_STEPS",
    "FRAME_STEPS",
    "ORIENTATIONS",
    "axis_angle",
    "axis_angle_of_rot6d",
    "bgr",
    "center_crop",
    "channels_first",
    "gripper_binary",
    "gripper_inverted",
    "gripper_sign",
    "gripper_thresholded",
    "gripper_to_signed",
    "jpeg_round_trip",
    "libero_state",
    "normalized",
    "prepare_actions",
    "prepare_frame",
    "quaternion",
    "raw_rows",
    "resize_lanczos3",
    "resize_with_pad",
    "rot6d",
    "rotated_180",
    "statistics_key",
    "unnormalized",
    "upside_down",
    "xvla_actions",
    "xvla_state",
]
