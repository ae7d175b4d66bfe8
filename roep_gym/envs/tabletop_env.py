"""A small manipulation environment on NumPy alone, with the spaces and the `info` of `LiberoEnv`.

`TabletopEnv` is for tests, documentation and first steps: a gripper that is a point moves over a table, a red disc
is to be reached or carried to a green square. Nothing about LIBERO can be claimed from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np
from gymnasium import spaces

from roep_gym import seeding
from roep_gym.arguments import check_names, read_integer
from roep_gym.envs.base import TaskEnvironment
from roep_gym.episode import SAMPLED
from roep_gym.error import InvalidInputError
from roep_gym.typing import Array, Info

__all__ = ["INIT_STATES", "PROPRIO_FIELDS", "SUITE", "TASKS", "TabletopEnv"]

SUITE = "tabletop"

TASKS: Mapping[str, str] = {
    "carry": "carry the red disc to the green square",
    "reach": "reach the red disc",
}
"""Instruction of each task."""
INIT_STATES = 50
"""Number of stored initial states of a task."""

_CAMERAS: Mapping[str, float] = {"agentview": 0.35, "robot0_eye_in_hand": 0.12}
"""Half the side of the square that a camera sees, in metres; the second one follows the effector."""
_POSE = ("pos_x", "pos_y", "pos_z", "quat_x", "quat_y", "quat_z", "quat_w")
PROPRIO_FIELDS: tuple[str, ...] = (*(f"eef_{axis}" for axis in _POSE), "gripper_qpos_0", "gripper_qpos_1")
"""Entries of `proprio`."""

_LOW, _HIGH = np.array([-0.3, -0.3, 0.0]), np.array([0.3, 0.3, 0.3])
_STEP_LENGTH, _STEP_ANGLE = 0.025, 0.1
_FINGER_RANGE, _FINGER_STEP = 0.04, 0.01
_DISC_RADIUS, _EFFECTOR_RADIUS, _SQUARE_HALF_SIDE = 0.03, 0.015, 0.05
_REACH, _REST_HEIGHT, _FALL = 0.03, 0.01, 0.05
_CAMERA_HEIGHT = 1.0
_TABLE, _SQUARE, _DISC, _EFFECTOR = (150, 140, 120), (60, 170, 70), (200, 50, 50), (60, 70, 200)


class TabletopEnv(TaskEnvironment):
    """Move a point gripper over a table: reach a disc, or carry it to a square.

    The scene seed places the square, the initial state places disc and gripper ("sampled": the scene seed does), and
    an episode is a function of these two and the actions. Lengths are in metres, the origin is the table's centre, x
    points to the right of the frame, y away from the viewer, z up. One action moves the gripper by at most 0.025 m an
    axis. The gripper closes on a positive and opens on a negative last entry, and takes the disc when it closes
    within 0.03 m of it; a disc let go falls. Of the rotations only the one about z has an effect. Cameras look
    straight down; no pixel is black.

    Observation: `<camera>_image` uint8 (H, W, 3), `<camera>_depth` float32 (H, W, 1) in metres, `proprio` float32 (9,)
    and `object_state` float64 (14,); `observation_fields` names the entries of the vectors.

    Example:
        >>> import gymnasium as gym
        >>> import roep_gym
        >>> env = gym.make("roep_gym/Tabletop-v0", task="reach", image_size=32)
        >>> observation, info = env.reset(seed=0, options={"init_state": 3})
        >>> info["instruction"], observation["agentview_image"].shape
        ('reach the red disc', (32, 32, 3))
    """

    def __init__(
        self,
        task: str = "carry",
        suite: str | None = None,
        cameras: Sequence[str] = ("agentview",),
        image_size: int = 64,
        depth: bool = False,
        object_state: bool = False,
        settle_steps: int = 10,
        control_mode: str = "relative",
        reward: Literal["sparse", "dense"] = "sparse",
        terminate_on_unsafe: bool = False,
        render_mode: str | None = None,
    ) -> None:
        """Work out the spaces.

        Args:
            task: "carry" or "reach".
            suite: "tabletop", the only suite, or None.
            cameras: Any of "agentview" and "robot0_eye_in_hand"; an empty list is none.
            image_size: Height and width of the frames, in pixels, 8 to 2048.
            depth: Whether each camera also gives depth.
            object_state: Whether the observation holds the poses of disc and square.
            settle_steps: Steps with an opening gripper that a reset makes and no budget counts.
            control_mode: "relative", the only mode.
            reward: "sparse", 1 for success and else 0, or "dense", to which the progress of a step in metres is added.
            terminate_on_unsafe: Whether an unsafe attempt ends the episode.
            render_mode: None or "rgb_array".

        Raises:
            InvalidInputError: An argument is out of its range; unknown names come with the closest match.
        """
        image_size = read_integer("image_size", image_size, 8, 2048)
        super().__init__(cameras, _CAMERAS, image_size, depth, reward, terminate_on_unsafe, render_mode)
        check_names("suite", [suite or SUITE], [SUITE])
        check_names("task", [task], TASKS)
        check_names("control mode", [control_mode], ["relative"])
        self.settle_steps = read_integer("settle_steps", settle_steps, 0, 1000)
        self.suite, self.task, self.instruction = SUITE, task, TASKS[task]
        self.control_mode, self.unsafe_channels = control_mode, ("action_bounds", "workspace")
        self.observation_fields: dict[str, tuple[str, ...]] = {"proprio": PROPRIO_FIELDS}
        self.action_space = spaces.Box(-1.0, 1.0, (7,), np.float32)
        boxes = self._camera_spaces(_CAMERA_HEIGHT)
        low, high = (
            np.array([*_LOW, *[-1.0] * 4, 0.0, 0.0]),
            np.array([*_HIGH, *[1.0] * 4, *[_FINGER_RANGE] * 2]),
        )
        boxes["proprio"] = spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)
        if object_state:
            self.observation_fields["object_state"] = tuple(
                f"{o}_{axis}" for o in ("disc", "square") for axis in _POSE
            )
            low, high = np.array([*_LOW, *[-1.0] * 4] * 2), np.array([*_HIGH, *[1.0] * 4] * 2)
            boxes["object_state"] = spaces.Box(low, high, dtype=np.float64)
        self.observation_space = cast(spaces.Space[dict[str, Array]], spaces.Dict(boxes))
        self._grid = (np.arange(image_size) + 0.5) / image_size * 2.0 - 1.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], Info]:
        """Begin an episode.

        Args:
            seed: Seeds the generator that draws what the options leave open.
            options: `episode`, the episode's identity, or `init_state` alone.

        Raises:
            InvalidInputError: An option is unknown, the initial state is out of range, or the identity is malformed.
        """
        episode = self._begin(seed, options)
        assert episode.scene_seed is not None
        assert episode.init_state is not None
        if episode.init_state != SAMPLED and episode.init_state >= INIT_STATES:
            raise InvalidInputError(
                f"Expected an initial state in 0..{INIT_STATES - 1}, got {episode.init_state!r}."
            )
        scene = seeding.generator("tabletop", "scene", self.task, episode.scene_seed)
        drawn = (episode.scene_seed,) if episode.init_state == SAMPLED else ()
        start = seeding.generator("tabletop", "init_state", self.task, episode.init_state, *drawn)
        self._square = np.array([scene.uniform(-0.2, 0.2), scene.uniform(0.08, 0.22), 0.0])
        self._disc = np.array([start.uniform(-0.2, 0.2), start.uniform(-0.22, -0.02), _REST_HEIGHT])
        self._effector = np.array([start.uniform(-0.1, 0.1), start.uniform(-0.05, 0.1), 0.2])
        self._yaw, self._finger, self._held = 0.0, 0.5 * _FINGER_RANGE, False
        for _ in range(self.settle_steps):
            self._move(np.array([0.0] * 6 + [-1.0]))
        self._progress = self._distance_left()
        state = b"".join(part.tobytes() for part in (self._square, self._disc, self._effector))
        scene_hash = seeding.seed("tabletop", self.task, state.hex(), bits=63)
        return self._observation(), self._begun(episode, scene_hash)

    def step(self, action: Array) -> tuple[dict[str, Array], float, bool, bool, Info]:
        """Make one control step; entries beyond the bounds count as an unsafe attempt and are clipped.

        Args:
            action: Shape (7,): translation, rotation, gripper, each in [-1, 1].

        Raises:
            PolicyOutputError: The action is not numeric, has another shape or is not finite.
            InfrastructureError: No episode is running, since nothing was reset or the last reset was refused.
        """
        command = self._read_action(action)
        unsafe = {"action_bounds": bool((np.abs(command) > 1.0 + 1e-6).any())}
        unsafe["workspace"] = self._move(np.clip(command, -1.0, 1.0))
        success = self._success()
        left = self._distance_left()
        reward = float(success) + (self._progress - left if self.reward == "dense" else 0.0)
        self._progress = left
        info = {"instruction": self.instruction, **self._outcome(success, unsafe)}
        return self._observation(), reward, "termination" in info, False, info

    def render(self) -> Array | None:
        """Return the frame of "agentview", uint8 (H, W, 3), or None without a render mode."""
        return self._frame("agentview")[0] if self.render_mode == "rgb_array" else None

    def _count_initial_states(self) -> int:
        return INIT_STATES

    def _move(self, command: Array) -> bool:
        """Act on the gripper, then move; return whether it led out of the workspace."""
        closing = float(np.sign(command[6]))
        self._finger = min(max(self._finger - closing * _FINGER_STEP, 0.0), _FINGER_RANGE)
        if closing:
            self._held = closing > 0 and (self._held or self._reached())
        target = self._effector + _STEP_LENGTH * command[:3]
        self._effector = np.clip(target, _LOW, _HIGH)
        self._yaw += _STEP_ANGLE * float(command[5])
        if self._held:
            self._disc = self._effector.copy()
        else:
            self._disc[2] = max(self._disc[2] - _FALL, _REST_HEIGHT)
        return bool((target != self._effector).any())

    def _reached(self) -> bool:
        return bool(np.linalg.norm(self._effector - self._disc) <= _REACH)

    def _success(self) -> bool:
        if self.task == "reach":
            return self._reached()
        inside = (np.abs(self._disc - self._square)[:2] <= _SQUARE_HALF_SIDE - 0.01).all()
        return bool(inside and not self._held and self._disc[2] == _REST_HEIGHT)

    def _distance_left(self) -> float:
        reach = float(np.linalg.norm(self._effector - self._disc))
        return (
            reach if self.task == "reach" else reach + float(np.linalg.norm((self._disc - self._square)[:2]))
        )

    def _observation(self) -> dict[str, Array]:
        observation = self._frames()
        turn = [0.0, 0.0, np.sin(self._yaw / 2), np.cos(self._yaw / 2)]
        observation["proprio"] = np.array(
            [*self._effector, *turn, self._finger, self._finger], dtype=np.float32
        )
        if "object_state" in self.observation_fields:
            disc_turn = turn if self._held else [0.0, 0.0, 0.0, 1.0]
            observation["object_state"] = np.array(
                [*self._disc, *disc_turn, *self._square, 0.0, 0.0, 0.0, 1.0]
            )
        return observation

    def _frame(self, camera: str) -> tuple[Array, Array]:
        centre = self._effector[:2] if camera == "robot0_eye_in_hand" else np.zeros(2)
        x = (centre[0] + _CAMERAS[camera] * self._grid)[None, :]
        y = (centre[1] - _CAMERAS[camera] * self._grid)[:, None]
        image = np.empty((x.size, x.size, 3), np.uint8)
        image[:] = _TABLE
        height = np.zeros((x.size, x.size, 1), np.float32)
        inside = (np.abs(x - self._square[0]) <= _SQUARE_HALF_SIDE) & (
            np.abs(y - self._square[1]) <= _SQUARE_HALF_SIDE
        )
        image[inside] = _SQUARE
        for position, radius, colour in (
            (self._disc, _DISC_RADIUS, _DISC),
            (self._effector, _EFFECTOR_RADIUS, _EFFECTOR),
        ):
            inside = (x - position[0]) ** 2 + (y - position[1]) ** 2 <= radius**2
            image[inside] = colour
            height[inside] = position[2] + 0.01
        return image, np.float32(_CAMERA_HEIGHT) - height
