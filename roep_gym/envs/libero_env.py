"""`roep_gym/Libero-v0`: one LIBERO task as a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from gymnasium import spaces

from roep_gym.arguments import check_names, read_integer, read_number
from roep_gym.envs import libero_observations as observations
from roep_gym.envs.base import TaskEnvironment
from roep_gym.envs.dense_reward import GoalPotential, shaped_reward
from roep_gym.envs.libero_safety import DEFAULT_CHANNELS, SafetyLimits, UnsafeMonitor
from roep_gym.envs.libero_simulation import SETTLE_ACTION, LiberoSimulation
from roep_gym.envs.placement import is_at_rest, shift_placement
from roep_gym.envs.task_catalog import Task, find_task
from roep_gym.envs.task_catalog import initial_states as stored_states
from roep_gym.episode import SAMPLED, InitState
from roep_gym.episode_record import UNSAFE_CHANNELS
from roep_gym.error import InfrastructureError, InvalidInputError
from roep_gym.typing import Array, FloatArray, Info

__all__ = ["CAMERAS", "LiberoEnv"]

CAMERAS: tuple[str, ...] = (
    "agentview",
    "robot0_eye_in_hand",
    "frontview",
    "birdview",
    "sideview",
    "galleryview",
    "robot0_robotview",
)
_FAR_PLANE = 1000.0
_MAX_PLACEMENT_SHIFT = 0.1
_MAX_SCENE_SEED = 2**32 - 1
_PLACEMENT_ATTEMPTS = 20
_ABSOLUTE_BOUND = np.array([2.0] * 3 + [2.0 * np.pi] * 3 + [1.0], dtype=np.float32)


class LiberoEnv(TaskEnvironment):
    """A LIBERO task with the observations, the order of reset and the physics of the published evaluations.

    An episode's trajectory is a pure function of (scene seed, initial state, actions), bit for bit within one
    numeric fingerprint, whatever ran before in this environment or process. The simulator is built at the first
    reset. There is no inner horizon; `StepBudget` ends an episode.

    Observation (`Dict`): `<camera>_image` uint8 (size, size, 3), upright; `<camera>_depth` float32 (size, size, 1)
    in metres; `proprio` float32 (25,), see `observation_fields`; `object_state` float64, privileged poses;
    `controller_pose` float64 (9,), position and the first two columns of the rotation matrix.

    Action: float (7,), translation and axis-angle rotation of the end effector and the gripper (-1 open, +1 close;
    only the sign counts). Relative: each entry in [-1, 1], a unit of translation is 5 cm and of rotation 0.5 rad.
    Absolute: metres and radians.

    `reset` takes `options={"episode": {...}}`, see `EpisodeIdentity`, or `options={"init_state": k}`; the initial state
    "sampled" is the placement that LIBERO's samplers draw from the scene seed.

    Args:
        task: Instruction, LIBERO name or the paper's id ("goal_stove").
        suite: Suite; needed only where the task is ambiguous without it.
        cameras: Cameras of the observation; an empty list is the state-only mode, which needs no renderer.
        image_size: Height and width of the frames, in pixels.
        depth: Whether every camera also gives depth.
        object_state: Whether the observation holds privileged poses of objects, fixtures and regions.
        controller_pose: Whether the observation holds the pose that robosuite's controller moves, which X-VLA is given;
            the quaternion in `proprio` belongs to another body.
        initial_states: "official", LIBERO's stored states, or "sampled", the placement that LIBERO's samplers draw from
            the scene seed: scenes to train on that no evaluation uses. Sampled scenes ignore `init_state`.
        placement_shift: Horizontal distance by which every object, and every fixture that the task is about, is moved
            from where the initial state has it, in metres; each in a direction drawn from the scene seed.
        settle_steps: Steps of holding still after a reset, not counted in any budget.
        control_mode: "relative" or "absolute" (set after settling, as the published evaluations do).
        reward: "sparse", 1 for success and else 0, or "dense", to which the discounted difference of `GoalPotential` is
            added.
        reward_discount: Discount factor of the dense reward; it must be that of the learner.
        unsafe_channels: Active unsafe channels.
        safety_limits: Replaces some of `SafetyLimits`.
        terminate_on_unsafe: Whether an unsafe attempt ends the episode.
        render_mode: None or "rgb_array".
        render_camera: Camera of `render`.

    Raises:
        InvalidInputError: An argument is out of its range, or a name is unknown or ambiguous.
    """

    def __init__(
        self,
        task: str,
        suite: str | None = None,
        cameras: Sequence[str] = ("agentview",),
        image_size: int = 128,
        depth: bool = False,
        object_state: bool = False,
        controller_pose: bool = False,
        initial_states: Literal["official", "sampled"] = "official",
        placement_shift: float = 0.0,
        settle_steps: int = 10,
        control_mode: Literal["relative", "absolute"] = "relative",
        reward: Literal["sparse", "dense"] = "sparse",
        reward_discount: float = 0.99,
        unsafe_channels: Sequence[str] = DEFAULT_CHANNELS,
        safety_limits: Mapping[str, float] | None = None,
        terminate_on_unsafe: bool = False,
        render_mode: str | None = None,
        render_camera: str = "agentview",
    ) -> None:
        image_size = read_integer("image_size", image_size, 16, 2048)
        super().__init__(cameras, CAMERAS, image_size, depth, reward, terminate_on_unsafe, render_mode)
        if isinstance(unsafe_channels, str):
            raise InvalidInputError(
                f"Expected unsafe_channels to be a list of names, got the text {unsafe_channels!r}."
            )
        check_names("unsafe channel", unsafe_channels, UNSAFE_CHANNELS)
        check_names("camera", [render_camera], CAMERAS)
        check_names("choice of initial states", [initial_states], ("official", "sampled"))
        check_names("control mode", [control_mode], ("relative", "absolute"))
        self.settle_steps = read_integer("settle_steps", settle_steps, 0)
        self.placement_shift = read_number("placement_shift", placement_shift, 0.0, _MAX_PLACEMENT_SHIFT)
        self.reward_discount = read_number("reward_discount", reward_discount, 0.0, 1.0)
        limits = SafetyLimits.from_mapping(safety_limits)

        self.libero_task: Task = find_task(suite, task)
        self.suite, self.task = self.libero_task.suite, self.libero_task.name
        self.instruction = self.libero_task.instruction
        self.render_camera, self.unsafe_channels = render_camera, tuple(unsafe_channels)
        self.initial_states, self.control_mode = initial_states, control_mode

        self._entities = observations.read_entities(self.libero_task.bddl_file)
        self.observation_fields: dict[str, tuple[str, ...]] = {"proprio": observations.PROPRIO_FIELDS}
        if object_state:
            self.observation_fields["object_state"] = self._entities.fields
        if controller_pose:
            self.observation_fields["controller_pose"] = observations.CONTROLLER_FIELDS
        self.observation_space = self._observation_space()
        bound = np.ones(7, dtype=np.float32) if control_mode == "relative" else _ABSOLUTE_BOUND
        self.action_space = spaces.Box(-bound, bound, dtype=np.float32)
        self._bound = bound.astype(np.float64)

        objects = [name for name in self._entities.of_interest if name in self._entities.objects]
        self._monitor = UnsafeMonitor(self.unsafe_channels, limits, objects)
        self._simulation: LiberoSimulation | None = None
        self._goal_potential: GoalPotential | None = None
        self._potential = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], Info]:
        """Place the scene, set the initial state, settle, and return the first observation.

        `info` holds the instruction, the episode, the hash of the nominal scene, and `settle_displacement`, the
        farthest that an object moved sideways while settling, in metres (LIBERO's states let objects drop a few
        centimetres; a scene that tips over is not the stored one).

        Raises:
            InvalidInputError: The initial state does not exist, or the options are malformed.
            InfrastructureError: The simulator cannot be built or the state did not arrive.
        """
        episode = self._begin(seed, options)
        assert episode.scene_seed is not None
        assert episode.init_state is not None
        if episode.scene_seed > _MAX_SCENE_SEED:
            raise InvalidInputError(
                f"Expected a scene seed in 0..{_MAX_SCENE_SEED}, as LIBERO's random stream takes it, got "
                f"{episode.scene_seed}."
            )
        simulation = self._built()
        state = self._initial_state(episode.init_state)
        for attempt in range(_PLACEMENT_ATTEMPTS):
            simulation.reset(episode.scene_seed, state)
            if self.placement_shift:
                key = (self.suite, self.task, episode.scene_seed, episode.init_state, attempt)
                shift_placement(simulation, self._entities, self.placement_shift, key)
            scene_hash = simulation.nominal_scene_hash()
            settle_displacement = self._settle(simulation)
            if not self.placement_shift or is_at_rest(simulation, self._entities, settle_displacement):
                break
        else:
            raise InfrastructureError(
                f"Expected a valid placement {self.placement_shift} m from the initial state {episode.init_state} of "
                f"{self.task!r}, got none in {_PLACEMENT_ATTEMPTS} attempts; choose a smaller placement_shift."
            )
        if self.control_mode == "absolute":
            simulation.set_absolute_control()
        info = self._begun(episode, scene_hash) | {"settle_displacement": settle_displacement}
        if self.reward == "dense":
            self._goal_potential = GoalPotential(simulation)
            self._potential = info["potential"] = self._goal_potential()
        return self._observe(), info

    def step(self, action: FloatArray) -> tuple[dict[str, Array], float, bool, bool, Info]:
        """Run one control step of 50 ms.

        Raises:
            PolicyOutputError: The action is not numeric, or has another shape than (7,) or a non-finite entry.
            InfrastructureError: No episode is running.
            SimulationUnstableError: MuJoCo diverged.
        """
        proposed, simulation = self._read_action(action), self._built()
        clipped = np.clip(proposed, -self._bound, self._bound)
        success = simulation.step(clipped, frames=self._frames_wanted)
        info = self._outcome(success, self._monitor.evaluate(simulation, proposed, self._bound))
        terminated = "termination" in info
        reward = float(success)
        if self._goal_potential is not None:
            before = self._potential
            self._potential = info["potential"] = self._goal_potential()
            after = self._potential if success or not terminated else 0.0
            reward = shaped_reward(reward, before, after, self.reward_discount)
        return self._observe(), reward, terminated, False, info

    def render(self) -> Array | None:
        """Return a frame of the present state, uint8 (size, size, 3), in the mode "rgb_array"."""
        if self.render_mode is None:
            return None
        if self._simulation is None:
            raise InfrastructureError("Expected reset() before render(), but the scene is not built yet.")
        return self._simulation.render(self.render_camera, max(self.image_size, 256))

    def renderer_name(self) -> str:
        """Return the name of the GL renderer, "none" in the state-only mode or before the first reset."""
        return "none" if self._simulation is None else self._simulation.renderer_name()

    def close(self) -> None:
        """Free the simulator; may be called twice."""
        self._running = False
        simulation, self._simulation = self._simulation, None
        if simulation is not None:
            simulation.close()

    def _initial_state(self, index: InitState) -> FloatArray | None:
        if SAMPLED in (index, self.initial_states):
            return None
        assert index != SAMPLED
        states = stored_states(self.libero_task)
        if index >= len(states):
            raise InvalidInputError(
                f"Expected an initial state in 0..{len(states) - 1} for {self.task!r}, got {index}."
            )
        state: FloatArray = states[index]
        return state

    def _settle(self, simulation: LiberoSimulation) -> float:
        """Hold still for the settling steps; return the farthest that an object moved sideways, in metres."""
        simulation.refresh(frames=self._frames_wanted and self.settle_steps == 0)
        placed = self._object_positions(simulation)
        settle = np.array(SETTLE_ACTION)
        for step in range(self.settle_steps):
            simulation.step(settle, frames=self._frames_wanted and step == self.settle_steps - 1)
        return float(np.hypot(*(self._object_positions(simulation) - placed).T[:2]).max(initial=0.0))

    def _object_positions(self, simulation: LiberoSimulation) -> FloatArray:
        bodies = [simulation.domain.obj_body_id[name] for name in self._entities.objects]
        return np.array(simulation.data.body_xpos[bodies])

    def _built(self) -> LiberoSimulation:
        if self._simulation is None:
            self._simulation = LiberoSimulation(
                self.libero_task.bddl_file,
                cameras=self.cameras,
                image_size=self.image_size,
                renderer=bool(self.cameras) or self.render_mode is not None,
            )
        return self._simulation

    def _count_initial_states(self) -> int:
        return len(stored_states(self.libero_task))

    def _frame(self, camera: str) -> tuple[Array, Array]:
        return self._built().frame(camera)

    def _observation_space(self) -> spaces.Space[dict[str, Array]]:
        parts = self._camera_spaces(_FAR_PLANE)
        vectors = {"proprio": np.float32, "object_state": np.float64, "controller_pose": np.float64}
        for name, dtype in vectors.items():
            if name in self.observation_fields:
                parts[name] = spaces.Box(-np.inf, np.inf, (len(self.observation_fields[name]),), dtype)
        return spaces.Dict(parts)  # type: ignore[return-value]

    def _observe(self) -> dict[str, Array]:
        simulation, observation = self._built(), self._frames()
        observation["proprio"] = observations.proprio(simulation)
        if "object_state" in self.observation_fields:
            observation["object_state"] = observations.object_state(simulation, self._entities)
        if "controller_pose" in self.observation_fields:
            observation["controller_pose"] = observations.controller_pose(simulation)
        return observation
