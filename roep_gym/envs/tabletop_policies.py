"""Small policies for `roep_gym/Tabletop-v0`: functions from an observation to an action, for tests and examples.

`scripted_policy` solves every episode from the privileged poses, `sighted_policy` from the frame of "agentview", so
that an occluded frame can make it fail. Neither remembers anything.
"""

from __future__ import annotations

import numpy as np

from roep_gym.typing import Array, FloatArray, Observation

__all__ = ["scripted_policy", "sighted_policy"]


def scripted_policy(observation: Observation) -> FloatArray:
    """Reach the disc, close, carry it to the square and let go; needs `object_state`."""
    return _carry(observation["proprio"], observation["object_state"][:3], observation["object_state"][7:9])


def sighted_policy(observation: Observation) -> FloatArray:
    """Do what `scripted_policy` does with the places of disc and square as seen in `agentview_image`.

    What is hidden is taken to be at the table's centre.
    """
    image = observation["agentview_image"].astype(np.int16)
    disc = _centre(image[..., 0] - np.maximum(image[..., 1], image[..., 2]) > 100)
    square = _centre(image[..., 1] - np.maximum(image[..., 0], image[..., 2]) > 50)
    position = observation["proprio"][:3].astype(np.float64)
    held = position[2] > 0.02 and np.linalg.norm(disc - position[:2]) < 0.02
    return _carry(observation["proprio"], np.array([*disc, position[2] if held else 0.01]), square)


def _carry(proprio: Array, disc: Array, square: Array) -> FloatArray:
    position = proprio[:3].astype(np.float64)
    near = np.linalg.norm(disc - position) < 0.02
    arrived = np.abs(disc[:2] - square[:2]).max() < 0.01
    target = np.array([*square[:2], 0.06]) if near else disc
    grip = 1.0 if near and not arrived else -1.0
    translation = np.clip((target - position) / 0.025, -1.0, 1.0)
    return np.array([*translation, 0.0, 0.0, 0.0, grip], dtype=np.float32)


def _centre(mask: Array) -> FloatArray:
    """Return the centre (x, y) of the marked pixels in metres; (0, 0) where nothing is marked."""
    rows, columns = np.nonzero(mask)
    if rows.size == 0:
        return np.zeros(2)
    return 0.35 * np.array([columns.mean() + 0.5, -(rows.mean() + 0.5)]) * 2.0 / len(mask) + 0.35 * np.array(
        [-1.0, 1.0]
    )
