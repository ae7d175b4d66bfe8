"""The split of bootstrap episodes into training, validation and calibration (protocol section 6).

`assign_part` is a function of the episode identifier and the fractions alone: adding, removing or reordering
other episodes never moves an episode, and none is ever in two parts. The price is that parts of a small data
set vary in size and may be empty; `train_shield` says so instead of moving episodes.
"""

from __future__ import annotations

from typing import Literal

from roep_gym import seeding
from roep_gym.shields.config import ShieldConfig

__all__ = ["PARTS", "Part", "assign_part"]

Part = Literal["train", "validation", "calibration"]
PARTS: tuple[Part, ...] = ("train", "validation", "calibration")


def assign_part(identifier: str, config: ShieldConfig) -> Part:
    """Return the part of an episode, by a keyed hash of its identifier that is uniform in [0, 1)."""
    position = seeding.seed("shield", "split", identifier, bits=53) / 2.0**53
    if position < config.train_fraction:
        return "train"
    # Measured from the far end, so that a calibration share of 0 is never reached through rounding.
    return "validation" if position < 1.0 - config.calibration_fraction else "calibration"
