"""A render context that keeps to itself; importing this module imports robosuite.

robosuite draws and frees in whichever GL context happens to be current, so that two environments in one process draw
each other's meshes and free each other's textures.
"""

from __future__ import annotations

import threading
from typing import Any

import mujoco
from robosuite.utils.binding_utils import MjRenderContextOffscreen

from roep_gym.error import InfrastructureError

__all__ = ["RenderContext"]

_ASSET_SIZES = (
    "ntexdata",
    "nmeshvert",
    "nmeshface",
    "nmeshtexcoord",
    "nmesh",
    "ntex",
    "nhfielddata",
    "nskinvert",
)


class RenderContext(MjRenderContextOffscreen):  # type: ignore[misc]
    """The GL context of one scene, current whenever it is used or freed; the EGL device -1 lets robosuite choose."""

    def __init__(self, sim: Any, device_id: int) -> None:
        self._thread = threading.get_ident()
        super().__init__(sim, device_id)

    def make_current(self) -> None:
        """Make this context the one that GL calls go to.

        Raises:
            InfrastructureError: The thread is another than that of the first reset, which GL drivers answer with an
                error or a crash.
        """
        if threading.get_ident() != self._thread:
            raise InfrastructureError(
                "Expected every reset, step and render of an environment with cameras from the thread of its first "
                "reset, got another thread, where its render context cannot be used; make one environment per thread."
            )
        self.gl_ctx.make_current()

    def move_to(self, sim: Any) -> None:
        """Draw the newly compiled model of the same problem from now on.

        Uploading textures and meshes takes most of a reset. They are those of the problem's assets, which no reset
        changes; everything else that the context holds is made anew.

        Raises:
            InfrastructureError: The model has other assets.
        """
        for name in _ASSET_SIZES:
            if getattr(self.model, name) != getattr(sim.model, name):
                raise InfrastructureError(f"Expected a reset to keep the scene's assets, but {name} changed.")
        self.sim: Any = sim
        self.model: Any = sim.model
        self.data: Any = sim.data
        self.scn = mujoco.MjvScene(sim.model._model, maxgeom=1000)
        self.cam = mujoco.MjvCamera()
        self.cam.fixedcamid, self.cam.type = 0, mujoco.mjtCamera.mjCAMERA_FIXED
        self.vopt = mujoco.MjvOption()
        sim.add_render_context(self)

    def __del__(self) -> None:
        # Else it was never built, or belongs to another thread, in which alone it could be freed.
        if hasattr(self, "con") and threading.get_ident() == self._thread:
            self.make_current()
            super().__del__()
