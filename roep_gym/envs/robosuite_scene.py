"""One of robosuite's own tasks in MuJoCo: built anew for every episode, so that nothing of an earlier one is in it.

`RobosuiteScene` seeds the global random streams, from which robosuite places everything, for its own draws alone. Its
step is robosuite's. Camera frames are drawn at the substep at which robosuite samples its cameras, and only when
somebody looks at them.
"""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from roep_gym.envs.global_streams import GlobalStreams
from roep_gym.envs.mujoco_state import check_stable, metric_depth, nominal_scene_hash, warning_counts
from roep_gym.envs.robosuite_import import import_robosuite
from roep_gym.error import InfrastructureError
from roep_gym.typing import Array, FloatArray

__all__ = ["CONTROL_FREQUENCY", "RobosuiteScene"]

CONTROL_FREQUENCY = 20
"""Control steps a second."""
_PLACEMENT_ATTEMPTS = 100
_open_scenes: weakref.WeakSet[RobosuiteScene] = weakref.WeakSet()


class RobosuiteScene:
    """A task of robosuite with a Panda arm under operational-space control.

    Args:
        task: robosuite's name of the task ("Lift").
        cameras: Cameras whose frames can be looked at; empty: none.
        image_size: Height and width of the frames, in pixels.
        renderer: Whether a GL context exists; needed for `cameras` and for `render`.
        settings: Further arguments of the task's class.
    """

    def __init__(
        self,
        task: str,
        *,
        cameras: Sequence[str] = (),
        image_size: int = 128,
        renderer: bool = False,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self._task, self._cameras, self._image_size = task, list(cameras), image_size
        self._renderer, self._settings = renderer, settings or {}
        self._streams = GlobalStreams()
        self._frames_wanted = False
        self._frames: dict[str, tuple[Array, Array]] = {}
        self._context: Any = None
        self._env: Any = None
        self._warnings = np.zeros(0, dtype=np.int64)

    def reset(self, seed: int, *, frames: bool) -> None:
        """Build the scene and place it by a seed of 32 bits; draw its frames if they are looked at.

        Raises:
            InfrastructureError: The simulator or the GL context cannot be built, or no valid placement is found.
        """
        os.environ.setdefault("MUJOCO_GL", "egl")
        import_robosuite()
        from robosuite.utils.errors import RandomizationError

        self._streams.seed(seed)
        for _ in range(_PLACEMENT_ATTEMPTS):
            self._free()
            try:
                with self._streams:
                    self._env = self._built()
                self._env.modify_observable("robot0_joint_pos", "active", True)  # off by default
                with self._streams, self._looking(frames):
                    self._env.reset()
                break
            except RandomizationError:  # the next attempt goes on with the same stream
                continue
            except (ImportError, RuntimeError, ValueError, OSError, AttributeError) as error:
                raise InfrastructureError(
                    f"Expected robosuite to build {self._task}, got {type(error).__name__}: {error}. "
                    "Run `roep-gym doctor`, which checks rendering and versions."
                ) from error
        else:
            raise InfrastructureError(
                f"Expected robosuite to find a valid placement of {self._task} within {_PLACEMENT_ATTEMPTS} attempts, "
                "got none; take another scene seed."
            )
        self._warnings = warning_counts(self._env.sim.data)

    def step(self, action: FloatArray, *, frames: bool) -> float:
        """Run one control step of robosuite, and return its reward.

        Args:
            action: float64, in [-1, 1]: translation, axis-angle rotation, and the gripper where the arm has one.
            frames: Whether the frames of the resulting observation are looked at.

        Raises:
            SimulationUnstableError: MuJoCo diverged during the step.
        """
        with self._streams, self._looking(frames):
            # robosuite's `done` is left out: it follows from a horizon, or from a collision of Wipe.
            _, reward, _, _ = self._env.step(action)
        check_stable(self._env.sim.data, self._warnings)
        return float(reward)

    @property
    def success(self) -> bool:
        """Whether the task's goal holds."""
        return bool(self._env._check_success())

    def object_fields(self) -> dict[str, int]:
        """Return the names and sizes of the observations of objects, as robosuite puts them into `object-state`."""
        return {
            name: int(np.size(observable.obs))
            for name, observable in self._env._observables.items()
            if observable.modality == "object" and observable.is_enabled() and observable.is_active()
        }

    def observe(self, name: str) -> Array:
        """Return an observation by robosuite's name, as last sampled, as a vector."""
        return np.array(self._env._observables[name].obs, dtype=np.float64).ravel()

    def frame(self, camera: str) -> tuple[Array, Array]:
        """Return the last frame of a camera, upright, as LIBERO's are.

        RGB is uint8 (size, size, 3), depth float32 (size, size, 1) in metres.

        Raises:
            InfrastructureError: No frame was drawn since the frames were last wanted.
        """
        if camera not in self._frames:
            raise InfrastructureError(
                f"Expected a frame of {camera!r} in this control step, but robosuite sampled none; an observation "
                "without its frame is never handed out."
            )
        rgb, depth = self._frames[camera]
        return np.ascontiguousarray(rgb[::-1]), metric_depth(self._env.sim.model, depth)

    def render(self, camera: str, size: int) -> Array:
        """Return a frame of the present state, RGB uint8 (size, size, 3), upright."""
        return np.ascontiguousarray(self._draw(camera, size)[0][::-1])

    def scene_hash(self) -> int:
        """Return the hash of fixture placements and state."""
        return nominal_scene_hash(self._env.sim.model, self._env.sim.data)

    def renderer_name(self) -> str:
        """Return the name of the GL renderer, "none" without one."""
        if self._context is None:
            return "none"
        from OpenGL import GL

        self._context.make_current()
        name = GL.glGetString(GL.GL_RENDERER)
        return name.decode() if isinstance(name, bytes) else str(name)

    def close(self) -> None:
        """Free the scene and its GL context; may be called twice."""
        self._free()
        self._context = None
        _open_scenes.discard(self)

    def _free(self) -> None:
        env, self._env = self._env, None
        if env is not None:
            env.close()

    def _built(self) -> Any:
        robosuite = import_robosuite()
        if not _open_scenes:
            atexit.register(_close_all)  # after robosuite's own hook, hence before it at exit
        _open_scenes.add(self)
        return _on_demand(self._task, self)(
            robots="Panda",
            controller_configs=robosuite.load_controller_config(default_controller="OSC_POSE"),
            has_renderer=False,
            has_offscreen_renderer=self._renderer,
            use_camera_obs=bool(self._cameras),
            camera_names=self._cameras,
            camera_heights=self._image_size,
            camera_widths=self._image_size,
            camera_depths=True,
            control_freq=CONTROL_FREQUENCY,
            ignore_done=True,
            hard_reset=False,
            **self._settings,
        )

    @contextmanager
    def _looking(self, frames: bool) -> Iterator[None]:
        self._frames_wanted = frames
        if frames:
            self._frames.clear()
        try:
            yield
        finally:
            self._frames_wanted = False

    def _draw(self, camera: str, size: int) -> tuple[Array, Array]:
        self._context.make_current()
        rgb, depth = self._env.sim.render(camera_name=camera, width=size, height=size, depth=True)
        return rgb, depth


def _on_demand(task: str, scene: RobosuiteScene) -> Any:
    """Return the class of a task with cameras that draw when wanted, in the one GL context of the scene."""
    from robosuite.environments.base import REGISTERED_ENVS
    from robosuite.utils.observables import sensor

    from roep_gym.envs.render_context import RenderContext

    task_class: Any = REGISTERED_ENVS[task]

    class OnDemand(task_class):  # type: ignore[misc]
        def _create_camera_sensors(self, cam_name: str, cam_w: int, cam_h: int, **_: Any) -> Any:
            # The sensor keeps robosuite's sampling times; its value is a token, the frame itself is kept aside.
            @sensor(modality="image")  # type: ignore[untyped-decorator]
            def camera(obs_cache: Any) -> Array:
                if scene._frames_wanted:
                    scene._frames[cam_name] = scene._draw(cam_name, cam_h)
                return np.zeros(1)

            return [camera], [f"{cam_name}_image"]

        def _reset_internal(self) -> None:
            if self.has_offscreen_renderer and scene._context is None:
                scene._context = RenderContext(self.sim, self.render_gpu_device_id)
            else:
                # Building a render context runs `forward`, which moves the solver's warm start: where none is built,
                # the same bits need the same call.
                self.sim.forward()
                if scene._context is not None and scene._context.sim is not self.sim:
                    scene._context.move_to(self.sim)
            super()._reset_internal()

        def _destroy_sim(self) -> None:
            if self.sim is not None:
                self.sim._render_context_offscreen = None  # kept by the scene
            super()._destroy_sim()

    del REGISTERED_ENVS["OnDemand"]  # robosuite registers every class by its name
    return OnDemand


def _close_all() -> None:
    for scene in list(_open_scenes):
        scene.close()
