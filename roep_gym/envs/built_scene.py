"""A scene as it was compiled, to which every reset returns instead of compiling it again.

Compiling takes nearly all of a LIBERO reset, and gives the same model each time: the scene seed moves only what
robosuite places afterwards. robosuite's own soft reset (`hard_reset = False`) clears the data, makes the controller
anew, and places everything with the same draws, but keeps what the last episode left in the model and the robot.
`BuiltScene` brings that back. `tests/test_libero_restore.py` compares everything with resets that build the scene.
"""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

__all__ = ["BuiltScene"]

_ASSETS = ("bvh_", "hfield_", "mesh_", "names", "oct_", "paths", "skin_", "tex_", "text_")
"""Beginnings of the names of the model's large arrays, which only the compiler writes."""


class BuiltScene:
    """What changes in a LIBERO problem during an episode and survives a soft reset.

    Args:
        domain: The robosuite environment, compiled but with nothing placed yet.
    """

    def __init__(self, domain: Any) -> None:
        model = domain.sim.model._model
        fields = (
            getattr(model, name) for name in dir(mujoco.MjModel) if not name.startswith(("_", *_ASSETS))
        )
        self._arrays = [(field, field.copy()) for field in fields if isinstance(field, np.ndarray)]
        self._robot = domain.robots[0]
        self._gripper_action = self._robot.gripper.current_action.copy()

    def restore(self) -> None:
        """Bring back the model and the robot; the soft reset does the rest."""
        for array, built in self._arrays:
            array[...] = built
        self._robot.torques = None
        self._robot.gripper.current_action = self._gripper_action.copy()
