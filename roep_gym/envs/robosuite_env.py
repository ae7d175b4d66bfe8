"""`roep_gym/Robosuite-v0`: one of robosuite's own tasks as a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from gymnasium import spaces

from roep_gym import seeding
from roep_gym.arguments import check_names, read_integer
from roep_gym.envs.base import TaskEnvironment
from roep_gym.envs.described_spaces import read_command
from roep_gym.envs.libero_observations import PROPRIO, PROPRIO_FIELDS
from roep_gym.envs.robosuite_scene import RobosuiteScene
from roep_gym.episode import SAMPLED
from roep_gym.error import InfrastructureError, InvalidInputError
from roep_gym.typing import Array, FloatArray, Info

__all__ = ["CAMERAS", "INIT_STATES", "TASKS", "RobosuiteEnv", "proprio_fields"]

TASKS: Mapping[str, str] = {
    "Door": "open the door",
    "Lift": "lift the cube",
    "NutAssembly": "put both nuts on their pegs",
    "NutAssemblyRound": "put the round nut on the round peg",
    "NutAssemblySquare": "put the square nut on the square peg",
    "PickPlace": "put every object into its bin",
    "PickPlaceBread": "put the bread into its bin",
    "PickPlaceCan": "put the can into its bin",
    "PickPlaceCereal": "put the cereal into its bin",
    "PickPlaceMilk": "put the milk into its bin",
    "Stack": "stack the red cube on the green cube",
    "Wipe": "wipe the table",
}
"""Instruction of each task, by robosuite's name; robosuite itself has none."""
CAMERAS: tuple[str, ...] = ("agentview", "robot0_eye_in_hand", "frontview", "birdview", "robot0_robotview")
"""Cameras that every task has."""
INIT_STATES = 1000
"""Number of initial states of a task, each a seed of its own."""

_FAR_PLANE = 1000.0
_WITHOUT_GRIPPER = "Wipe"


def proprio_fields(task: str) -> tuple[str, ...]:
    """Return the names of the entries of `proprio`; the arm that wipes has no gripper."""
    if task != _WITHOUT_GRIPPER:
        return PROPRIO_FIELDS
    return tuple(name for name in PROPRIO_FIELDS if not name.startswith("gripper"))


class RobosuiteEnv(TaskEnvironment):
    """A task of robosuite with a Panda arm under operational-space control, 20 control steps a second.

    robosuite places everything by random draws. They follow from scene seed and initial state, and the scene is built
    anew for every episode: its trajectory is a function of the two and the actions, whatever ran before. A step is
    robosuite's own. The first success ends an episode; there is no horizon, and Wipe goes on after a collision.

    Observation: `<camera>_image` uint8 (size, size, 3), upright; `<camera>_depth` float32 (size, size, 1) in metres;
    `proprio` float32, see `observation_fields`; `object_state` float64, robosuite's `object-state`.

    Action: float (7,), for Wipe (6,), each entry in [-1, 1]: translation and axis-angle rotation of the end effector,
    and the gripper (-1 open, +1 close).

    Args:
        task: robosuite's name of the task, one of `TASKS`.
        suite: "robosuite", the only suite, or None.
        cameras: Cameras of the observation; an empty list is the state-only mode, which needs no renderer.
        image_size: Height and width of the frames, in pixels.
        depth: Whether every camera also gives depth.
        object_state: Whether the observation holds what robosuite tells of objects; the scene is then built once more,
            to count the entries.
        settle_steps: Steps of holding still after a reset, not counted in any budget.
        control_mode: "relative", the only mode.
        reward: "sparse" or "dense", robosuite's shaped reward.
        render_mode: None or "rgb_array", the view of "agentview".

    Raises:
        InvalidInputError: An argument is out of its range, or a name is unknown.
    """

    def __init__(
        self,
        task: str = "Lift",
        suite: str | None = None,
        cameras: Sequence[str] = ("agentview",),
        image_size: int = 128,
        depth: bool = False,
        object_state: bool = False,
        settle_steps: int = 10,
        control_mode: str = "relative",
        reward: str = "sparse",
        render_mode: str | None = None,
    ) -> None:
        image_size = read_integer("image_size", image_size, 16, 2048)
        super().__init__(cameras, CAMERAS, image_size, depth, reward, False, render_mode)
        check_names("suite", [suite or "robosuite"], ["robosuite"])
        check_names("task of robosuite", [task], TASKS)
        check_names("control mode", [control_mode], ["relative"])
        self.settle_steps = read_integer("settle_steps", settle_steps, 0, 1000)
        self.suite, self.task, self.instruction = "robosuite", task, TASKS[task]
        self.control_mode = control_mode
        self._settings = {"reward_shaping": reward == "dense"}
        size = 6 if task == _WITHOUT_GRIPPER else 7
        self._actions = spaces.Box(-1.0, 1.0, (size,), np.float32)
        self.action_space = self._actions
        self._settle_action = np.zeros(size)
        self._settle_action[6:] = -1.0
        self._parts = [part for part, _ in PROPRIO if size == 7 or not part.startswith("gripper")]
        self.observation_fields: dict[str, tuple[str, ...]] = {"proprio": proprio_fields(task)}
        self._objects: list[str] = []
        if object_state:
            sizes = self._object_sizes()
            self._objects = list(sizes)
            self.observation_fields["object_state"] = tuple(
                f"{name}_{i}" for name, count in sizes.items() for i in range(count)
            )
        self.observation_space = self._observation_space()
        self._scene: RobosuiteScene | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], Info]:
        """Build and place the scene, settle, and return the first observation.

        Raises:
            InvalidInputError: The initial state does not exist, or the options are malformed.
            InfrastructureError: The simulator cannot be built.
        """
        episode = self._begin(seed, options)
        if episode.init_state != SAMPLED and cast(int, episode.init_state) >= INIT_STATES:
            raise InvalidInputError(
                f"Expected an initial state in 0..{INIT_STATES - 1}, got {episode.init_state!r}."
            )
        scene = self._built()
        scene_seed = cast(int, episode.scene_seed)
        scene.reset(
            seeding.seed("robosuite", self.task, scene_seed, str(episode.init_state)),
            frames=self._frames_wanted and self.settle_steps == 0,
        )
        scene_hash = scene.scene_hash()
        for step in range(self.settle_steps):
            scene.step(self._settle_action, frames=self._frames_wanted and step == self.settle_steps - 1)
        return self._observe(scene), self._begun(episode, scene_hash)

    def step(self, action: FloatArray) -> tuple[dict[str, Array], float, bool, bool, Info]:
        """Run one control step of 50 ms; entries beyond the bounds are clipped.

        Raises:
            PolicyOutputError: The action is not numeric, or has another shape or a non-finite entry.
            InfrastructureError: No episode is running.
            SimulationUnstableError: MuJoCo diverged.
        """
        if not self._running:
            raise InfrastructureError("Expected reset() before step(), but no episode is running.")
        command = np.clip(read_command(action, self._actions), -1.0, 1.0).astype(np.float64)
        scene = self._built()
        reward = scene.step(command, frames=self._frames_wanted)
        info = self._outcome(scene.success, {})
        return self._observe(scene), reward, "termination" in info, False, info

    def render(self) -> Array | None:
        """Return a frame of the present state, uint8 (size, size, 3), in the mode "rgb_array"."""
        if self.render_mode is None:
            return None
        if self._scene is None:
            raise InfrastructureError("Expected reset() before render(), but the scene is not built yet.")
        return self._scene.render("agentview", max(self.image_size, 256))

    def renderer_name(self) -> str:
        """Return the name of the GL renderer, "none" in the state-only mode or before the first reset."""
        return "none" if self._scene is None else self._scene.renderer_name()

    def close(self) -> None:
        """Free the simulator; may be called twice."""
        self._running = False
        scene, self._scene = self._scene, None
        if scene is not None:
            scene.close()

    def _built(self) -> RobosuiteScene:
        if self._scene is None:
            self._scene = RobosuiteScene(
                self.task,
                cameras=self.cameras,
                image_size=self.image_size,
                renderer=bool(self.cameras) or self.render_mode is not None,
                settings=self._settings,
            )
        return self._scene

    def _object_sizes(self) -> dict[str, int]:
        """Return what robosuite tells of objects, which only a scene knows."""
        scene = RobosuiteScene(self.task, settings=self._settings)
        scene.reset(0, frames=False)
        sizes = scene.object_fields()
        scene.close()
        return sizes

    def _count_initial_states(self) -> int:
        return INIT_STATES

    def _frame(self, camera: str) -> tuple[Array, Array]:
        return self._built().frame(camera)

    def _observation_space(self) -> spaces.Space[dict[str, Array]]:
        parts = self._camera_spaces(_FAR_PLANE)
        for name, fields in self.observation_fields.items():
            dtype = np.float32 if name == "proprio" else np.float64
            parts[name] = spaces.Box(-np.inf, np.inf, (len(fields),), dtype)
        return spaces.Dict(parts)  # type: ignore[return-value]

    def _observe(self, scene: RobosuiteScene) -> dict[str, Array]:
        observation = self._frames()
        proprio = [scene.observe(f"robot0_{part}") for part in self._parts]
        observation["proprio"] = np.concatenate(proprio).astype(np.float32)
        if self._objects:
            observation["object_state"] = np.concatenate([scene.observe(name) for name in self._objects])
        return observation
