"""One LIBERO scene in MuJoCo: built once as LIBERO builds it, reset without history, rendered on demand.

`LiberoSimulation` owns a robosuite problem class of LIBERO and does what LIBERO's `ControlEnv` does, with five
differences: the global random stream is seeded and given back around every reset, a reset restores the scene instead
of building it again, nothing of an earlier episode survives it, the GL context is made current before it is used,
and camera frames are drawn only when somebody looks at them. It knows neither Gymnasium nor tasks.
"""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roep_gym import seeding
from roep_gym.envs.libero_install import isolate_libero
from roep_gym.envs.mujoco_state import check_stable, metric_depth, nominal_scene_hash, warning_counts
from roep_gym.envs.robosuite_import import import_robosuite
from roep_gym.error import InfrastructureError, InvalidInputError
from roep_gym.typing import Array, FloatArray

if TYPE_CHECKING:
    from roep_gym.envs.fast_step import FastStep

__all__ = ["SETTLE_ACTION", "LiberoSimulation"]

SETTLE_ACTION: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0)
"""The action of a settling step: hold still, gripper open (as in the published LIBERO evaluations)."""

_PLACEMENT_ATTEMPTS = 100
_DERIVED_OBSERVATIONS = (
    "_joint_pos_cos",
    "_joint_pos_sin",
    "world_pose_in_gripper",
    "_to_robot0_eef_pos",
    "_to_robot0_eef_quat",
)  # functions of others; nobody reads them
_open_simulations: weakref.WeakSet[LiberoSimulation] = weakref.WeakSet()


class LiberoSimulation:
    """A LIBERO problem in MuJoCo.

    Args:
        bddl_file: Problem file of the task.
        cameras: Cameras whose frames can be looked at; empty: none.
        image_size: Height and width of the frames, in pixels.
        renderer: Whether a GL context exists; needed for `cameras` and for `render`.

    Raises:
        InfrastructureError: The simulator or the GL context cannot be built.
    """

    def __init__(self, bddl_file: Path, *, cameras: Sequence[str], image_size: int, renderer: bool) -> None:
        self._frames_wanted = False
        self._frames: dict[str, tuple[Array, Array]] = {}
        self._context: Any = None
        self._fast_step: FastStep | None = None
        self._stock_step = self._stock_reset = False  # for the proofs that both ways agree
        domain_class, settings = _load_domain(bddl_file)
        with seeding.preserved_numpy_state():
            try:
                self._domain = _on_demand(domain_class, self)(
                    str(bddl_file),
                    use_camera_obs=bool(cameras),
                    has_offscreen_renderer=renderer,
                    camera_names=list(cameras),
                    camera_heights=image_size,
                    camera_widths=image_size,
                    **settings,
                )
            except (ImportError, RuntimeError, ValueError, OSError, AttributeError) as error:
                raise InfrastructureError(
                    f"Expected LIBERO to build the scene of {bddl_file.name}, got {type(error).__name__}: {error}. "
                    "Run `roep-gym doctor`, which checks rendering and assets."
                ) from error
        self._initializers = list(self._domain.object_property_initializers)
        self._warnings = warning_counts(self.data)
        if not _open_simulations:
            atexit.register(_close_all)  # after robosuite's own hook, hence before it at exit
        _open_simulations.add(self)

    @property
    def domain(self) -> Any:
        """The robosuite environment; for reading only."""
        return self._domain

    @property
    def model(self) -> Any:
        """The wrapped MuJoCo model."""
        return self._domain.sim.model

    @property
    def data(self) -> Any:
        """The wrapped MuJoCo data."""
        return self._domain.sim.data

    def reset(self, scene_seed: int, init_state: FloatArray | None) -> None:
        """Return to the scene as it was built, place it by the seed, and set a stored initial state.

        The order is that of the published evaluations: seed, reset, set the state. The state's trajectory then
        depends on (scene seed, initial state, actions) alone.

        Args:
            scene_seed: Seed of NumPy's global stream, from which LIBERO draws the placements, 0 to 2**32 - 1.
            init_state: Flattened MuJoCo state: time, positions, velocities; None keeps the placement of the seed.

        Raises:
            InvalidInputError: The state has another size than the scene, or a non-finite entry.
            InfrastructureError: LIBERO found no valid placement, or the state did not arrive.
        """
        from robosuite.utils.errors import RandomizationError

        domain = self._domain
        self._fast_step = None  # it holds the controller that the reset replaces
        domain.hard_reset = self._stock_reset
        with seeding.preserved_numpy_state():
            np.random.seed(scene_seed)  # noqa: NPY002
            for attempt in range(_PLACEMENT_ATTEMPTS):
                # LIBERO appends its initializers whenever it loads the model: once when it is built, and at every
                # attempt to reset. A fresh environment that is seeded and reset draws with two sets; so do we.
                loaded = 1 + attempt + (not self._stock_reset)
                domain.object_property_initializers = self._initializers * loaded
                domain.built_scene.restore()
                try:
                    domain.reset()
                    break
                except RandomizationError:
                    continue
            else:
                raise InfrastructureError(
                    f"Expected LIBERO to find a valid placement within {_PLACEMENT_ATTEMPTS} attempts of scene seed "
                    f"{scene_seed}, got none; take another scene seed."
                )
        if init_state is not None:
            self._set_state(init_state)
        domain._check_success()
        domain._post_process()
        self._warnings = warning_counts(self.data)

    def refresh(self, *, frames: bool) -> None:
        """Sample all observations now, as LIBERO does after setting a state; draw frames if they are wanted."""
        with self._looking(frames):
            self._domain._update_observables(force=True)

    def step(self, action: FloatArray, *, frames: bool) -> bool:
        """Run one control step and tell whether the task's goal holds.

        Args:
            action: 7 float64 numbers: translation, axis-angle rotation, gripper.
            frames: Whether the frames of the resulting observation are looked at. A frame is drawn at the
                substep at which robosuite samples its camera, which is before the end of the control step.

        Raises:
            SimulationUnstableError: MuJoCo diverged during the step.
        """
        with self._looking(frames):
            success = self._control_step(action)
        check_stable(self.data, self._warnings)
        return bool(success)

    def observe(self, name: str) -> Array:
        """Return a copy of a low-dimensional observation by robosuite's name, as last sampled.

        Raises:
            InfrastructureError: The scene has no such observation, or it is one that follows from others.
        """
        observable = self._domain._observables.get(name)
        if observable is None or not observable.is_enabled():
            raise InfrastructureError(f"Expected an observation that is sampled, got {name!r}.")
        return np.array(observable.obs)

    def frame(self, camera: str) -> tuple[Array, Array]:
        """Return the last frame of a camera.

        RGB is uint8 (height, width, 3), depth float32 (height, width, 1) in metres. Both are upright; LIBERO's raw
        rows are bottom-up.

        Raises:
            InfrastructureError: No frame was drawn since the frames were last wanted.
        """
        if camera not in self._frames:
            raise InfrastructureError(
                f"Expected a frame of {camera!r} in this control step, but robosuite sampled none; an observation "
                "without its frame is never handed out."
            )
        rgb, depth = self._frames[camera]
        return np.ascontiguousarray(rgb[::-1]), metric_depth(self.model, depth)

    def render(self, camera: str, size: int) -> Array:
        """Return a frame of the present state, RGB uint8 (size, size, 3), upright."""
        rgb, _ = self._draw(camera, size)
        return np.ascontiguousarray(rgb[::-1])

    def nominal_scene_hash(self) -> int:
        """Return the hash of fixture placements and state."""
        return nominal_scene_hash(self.model, self.data)

    def set_absolute_control(self) -> None:
        """Let the controller read actions as absolute poses (robosuite's `use_delta = False`)."""
        self._domain.robots[0].controller.use_delta = False

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
        domain, self._domain = self._domain, None
        self._context = self._fast_step = None
        if domain is not None:
            domain.close()
        _open_simulations.discard(self)

    def _set_state(self, init_state: FloatArray) -> None:
        size = 1 + self.model.nq + self.model.nv
        if init_state.shape != (size,) or not np.isfinite(init_state).all():
            raise InvalidInputError(
                f"Expected an initial state of {size} finite numbers for this scene, got shape {init_state.shape}; "
                "the initial states belong to another task or another version of LIBERO."
            )
        self._domain.sim.set_state_from_flattened(init_state)
        self._domain.sim.forward()
        if not np.array_equal(self.data.qpos, init_state[1 : 1 + self.model.nq]):
            raise InfrastructureError(
                "Expected the initial state to arrive in the simulator, got other positions."
            )

    def _control_step(self, action: FloatArray) -> bool:
        if self._stock_step:
            _, _, success, _ = self._domain.step(action)
            return bool(success)
        if self._fast_step is None:
            from roep_gym.envs.fast_step import FastStep

            self._fast_step = FastStep(self._domain)
        return self._fast_step.step(action)

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
        rgb, depth = self._domain.sim.render(camera_name=camera, width=size, height=size, depth=True)
        return rgb, depth


def _load_domain(bddl_file: Path) -> tuple[type, dict[str, Any]]:
    """Return LIBERO's problem class for a problem file and the settings that LIBERO's ControlEnv gives it."""
    os.environ.setdefault("MUJOCO_GL", "egl")
    isolate_libero()
    robosuite = import_robosuite()
    from libero.libero.envs import TASK_MAPPING
    from libero.libero.envs.bddl_utils import get_problem_info

    problem = get_problem_info(str(bddl_file))["problem_name"]
    settings = {
        "robots": ["Panda"],
        "controller_configs": robosuite.load_controller_config(default_controller="OSC_POSE"),
        "gripper_types": "default",
        "initialization_noise": None,
        "has_renderer": False,
        "control_freq": 20,
        "ignore_done": True,
        "hard_reset": True,
        "camera_depths": True,
    }
    return TASK_MAPPING[problem], settings


def _on_demand(domain_class: Any, simulation: LiberoSimulation) -> Any:
    """Return the problem class with cameras that draw when wanted, and with GL contexts kept apart."""
    from robosuite.environments.base import REGISTERED_ENVS
    from robosuite.utils.observables import sensor

    from roep_gym.envs.built_scene import BuiltScene
    from roep_gym.envs.render_context import RenderContext

    class OnDemand(domain_class):  # type: ignore[misc]
        def _create_camera_sensors(self, cam_name: str, cam_w: int, cam_h: int, **_: Any) -> Any:
            # The sensor keeps robosuite's sampling times; its value is a token, the frame itself is kept aside.
            @sensor(modality="image")  # type: ignore[untyped-decorator]
            def camera(obs_cache: Any) -> Array:
                if simulation._frames_wanted:
                    simulation._frames[cam_name] = simulation._draw(cam_name, cam_h)
                return np.zeros(1)

            return [camera], [f"{cam_name}_image"]

        def _setup_observables(self) -> Any:
            observables = super()._setup_observables()
            for name, observable in observables.items():
                if name.endswith(_DERIVED_OBSERVATIONS):
                    observable.set_active(False)
                    observable.set_enabled(False)
            return observables

        def _initialize_sim(self, xml_string: str | None = None) -> None:
            super()._initialize_sim(xml_string)
            self.built_scene: BuiltScene | None = BuiltScene(self)

        def _reset_internal(self) -> None:
            if not self.hard_reset:
                self.sim.forward()  # as after compiling
            if self.has_offscreen_renderer and simulation._context is None:
                simulation._context = RenderContext(self.sim, self.render_gpu_device_id)
            else:
                # Building a render context runs `forward`, which moves the solver's warm start: where none is built,
                # the same bits need the same call.
                self.sim.forward()
                if simulation._context is not None and simulation._context.sim is not self.sim:
                    simulation._context.move_to(self.sim)
            super()._reset_internal()

        def _destroy_sim(self) -> None:
            if self.sim is not None:
                self.sim._render_context_offscreen = None  # kept by the simulation
                self.built_scene = None  # holds the model
            super()._destroy_sim()

    OnDemand.__name__ = domain_class.__name__  # LIBERO compares it with the problem's
    del REGISTERED_ENVS["OnDemand"]  # robosuite registers every class by its name
    return OnDemand


def _close_all() -> None:
    for simulation in list(_open_simulations):
        simulation.close()
