"""Observations from earlier steps: `frame_delay`, `frozen_frames`, `dropped_frames` and `vector_delay`.

An image and the depth of one camera (`agentview_image`, `agentview_depth`) are lost together. `frame_delay` alone
makes the frames older than `proprio`; with `vector_delay` beside it both are old. Strengths are ours.
"""

from __future__ import annotations

from typing import ClassVar

from roep_gym.wrappers.operators.base import HistoryOperator, Modality, PerturbationKey
from roep_gym.wrappers.operators.levels import KEYFRAME, at_level, is_lost, last_delivered

__all__ = ["DroppedFrames", "FrameDelay", "FrozenFrames", "VectorDelay"]

_DELAYS = (1, 2, 4, 6, 8)


def _of_camera(key: PerturbationKey) -> PerturbationKey:
    return key._replace(channel=key.channel.removesuffix("_image").removesuffix("_depth"))


class FrameDelay(HistoryOperator):
    """Images and depth of all cameras are 1, 2, 4, 6, 8 steps old, at first those of the reset."""

    modalities: ClassVar[tuple[Modality, ...]] = ("image", "depth")
    max_age = _DELAYS[-1]

    def source(self, severity: float, key: PerturbationKey) -> int:
        """Return the step that the frames are of."""
        return max(0, key.step - round(at_level(_DELAYS, severity)))

    def is_needed(self, severity: float, key: PerturbationKey) -> bool:
        """Every frame is given later."""
        return True


class VectorDelay(FrameDelay):
    """A vector, or its entries that a profile's `targets` name, is 1, 2, 4, 6, 8 steps old."""

    modalities = ("vector",)


class FrozenFrames(HistoryOperator):
    """In every 20 steps a camera stands still once, for 3, 6, 9, 12, 15 steps after a frame."""

    modalities, max_age = ("image", "depth"), 15

    def source(self, severity: float, key: PerturbationKey) -> int:
        """Return the frame that the camera stands still at, or the present one."""
        start, length = self._freeze(severity, key)
        return start if start <= key.step <= start + length else key.step

    def is_needed(self, severity: float, key: PerturbationKey) -> bool:
        """The frame that the camera stands still at is given later."""
        start, length = self._freeze(severity, key)
        return key.step == start and length > 0

    def _freeze(self, severity: float, key: PerturbationKey) -> tuple[int, int]:
        """Return the first step of the freeze among the twenty steps, and the number of those after it."""
        block = key.step // KEYFRAME
        length = round(at_level((3, 6, 9, 12, 15), severity))
        offset = _of_camera(key).lasting(block).random() * (KEYFRAME - length)
        return block * KEYFRAME + int(offset), length


class DroppedFrames(HistoryOperator):
    """A camera loses each frame with the probability 0.1, 0.2, 0.3, 0.4, 0.5; the last that arrived is given again.

    The first of every 20 frames always arrives, so that none is older than 19 steps.
    """

    modalities, max_age = ("image", "depth"), KEYFRAME - 1

    def source(self, severity: float, key: PerturbationKey) -> int:
        """Return the last frame that arrived."""
        return last_delivered(_loss(severity), _of_camera(key))

    def is_needed(self, severity: float, key: PerturbationKey) -> bool:
        """A frame that arrives before one that is lost is given again."""
        key, probability = _of_camera(key), _loss(severity)
        following = key._replace(step=key.step + 1)
        return is_lost(probability, following) and not is_lost(probability, key)


def _loss(severity: float) -> float:
    return at_level((0.1, 0.2, 0.3, 0.4, 0.5), severity)
