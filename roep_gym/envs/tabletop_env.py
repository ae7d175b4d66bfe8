"""A small manipulation environment on NumPy alone, with the spaces and the `info` of `LiberoEnv`.

`TabletopEnv` is for tests, documentation and first steps: a gripper that is a point moves over a table, a red disc
is to be reached or carried to a green square. Nothing about LIBERO can be claimed from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from roep_gym import seeding
from roep_gym.arguments import read_integer
from roep_gym.envs.action_input import read_action
from roep_gym.envs.plain_spec import PlainSpec
from roep_gym.episode import SAMPLED, EpisodeIdentity, EpisodeTracker, read_index
from roep_gym.error import InfrastructureError, InvalidInputError, unknown_name
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
_RESET_OPTIONS = ("episode", "init_state")
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


class TabletopEnv(PlainSpec, gym.Env[dict[str, Array], Array]):
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

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

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
        if isinstance(cameras, str):
            raise InvalidInputError(f"Expected cameras to be a list of names, got the text {cameras!r}.")
        if len(set(cameras)) != len(cameras):
            raise InvalidInputError(f"Expected each camera once, got {list(cameras)}.")
        for kind, name, known in (
            ("suite", suite or SUITE, [SUITE]),
            ("task", task, TASKS),
            *(("camera", camera, _CAMERAS) for camera in cameras),
            ("control mode", control_mode, ["relative"]),
            ("reward", reward, ["sparse", "dense"]),
        ):
            if name not in known:
                raise unknown_name(kind, name, known)
        image_size = read_integer("image_size", image_size, 8, 2048)
        settle_steps = read_integer("settle_steps", settle_steps, 0, 1000)
        if render_mode not in (None, "rgb_array"):
            raise unknown_name("render mode", str(render_mode), ("rgb_array",))
        self.suite, self.task, self.instruction = SUITE, task, TASKS[task]
        self.cameras, self.image_size, self.depth = tuple(cameras), image_size, depth
        self.settle_steps, self.control_mode = settle_steps, control_mode
        self.unsafe_channels, self.terminate_on_unsafe = ("action_bounds", "workspace"), terminate_on_unsafe
        self.conventions = {
            "rotation": "upright",
            "gripper_sign": "-1 open, +1 close",
            "eef_orientation": "axis_angle",
        }
        self.render_mode = render_mode
        self.observation_fields: dict[str, tuple[str, ...]] = {"proprio": PROPRIO_FIELDS}
        self.action_space = spaces.Box(-1.0, 1.0, (7,), np.float32)
        boxes: dict[str, spaces.Space[Any]] = {}
        for camera in cameras:
            boxes[f"{camera}_image"] = spaces.Box(0, 255, (image_size, image_size, 3), np.uint8)
            if depth:
                boxes[f"{camera}_depth"] = spaces.Box(
                    0.0, _CAMERA_HEIGHT, (image_size, image_size, 1), np.float32
                )
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
        self._keys = frozenset(boxes)

        self._object_state, self.reward = object_state, reward
        self._grid = (np.arange(image_size) + 0.5) / image_size * 2.0 - 1.0
        self._tracker = EpisodeTracker()
        self._frames_wanted, self._running = True, False

    def request_frames(self, wanted: bool) -> None:
        """Say whether the frames of the observations returned from now on will be looked at.

        A frame that is not wanted is all zeros, and `info["frames_rendered"]` is False.
        """
        self._frames_wanted = bool(wanted)

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
        self._running = False
        super().reset(seed=seed)
        for name in options or {}:
            if name not in _RESET_OPTIONS:
                raise unknown_name("reset option", name, _RESET_OPTIONS)
        episode = self._complete(self._tracker.begin(seed, options, self.np_random_seed), options)
        assert episode.scene_seed is not None
        assert episode.init_state is not None
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
        self._running = True
        info = self._info() | {"scene_hash": scene_hash, **episode.to_info()}
        return self._observation(), info

    def step(self, action: Array) -> tuple[dict[str, Array], float, bool, bool, Info]:
        """Make one control step; entries beyond the bounds count as an unsafe attempt and are clipped.

        Args:
            action: Shape (7,): translation, rotation, gripper, each in [-1, 1].

        Raises:
            PolicyOutputError: The action is not numeric, has another shape or is not finite.
            InfrastructureError: No episode is running, since nothing was reset or the last reset was refused.
        """
        if not self._running:
            raise InfrastructureError("Expected reset() before step(), but no episode is running.")
        command = read_action(action, 7)
        unsafe = {"action_bounds": bool((np.abs(command) > 1.0 + 1e-6).any())}
        unsafe["workspace"] = self._move(np.clip(command, -1.0, 1.0))
        success, attempt = self._success(), any(unsafe.values()) and self.terminate_on_unsafe
        left = self._distance_left()
        reward = float(success) + (self._progress - left if self.reward == "dense" else 0.0)
        self._progress = left
        info = self._info() | {"is_success": success, "unsafe": unsafe}
        if success or attempt:
            info["termination"] = "success" if success else "unsafe_attempt"
        return self._observation(), reward, success or attempt, False, info

    def render(self) -> Array | None:
        """Return the frame of "agentview", uint8 (H, W, 3), or None without a render mode."""
        return self._draw("agentview")[0] if self.render_mode == "rgb_array" else None

    def _complete(self, episode: EpisodeIdentity, options: Mapping[str, Any] | None) -> EpisodeIdentity:
        """Fill in what the identity leaves open: from the options, else from the environment's generator."""
        init_state, scene_seed = episode.init_state, episode.scene_seed
        if init_state is None:
            init_state = (options or {}).get("init_state")
        if init_state is None:
            init_state = int(self.np_random.integers(INIT_STATES))
        if init_state != SAMPLED:
            init_state = read_index(init_state, "an initial state")
            if init_state >= INIT_STATES:
                raise InvalidInputError(
                    f"Expected an initial state in 0..{INIT_STATES - 1}, got {init_state!r}."
                )
        if scene_seed is None:
            scene_seed = seeding.seed("scene", self.suite, self.task, *episode.key)
        return replace(episode, init_state=init_state, scene_seed=scene_seed)

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

    def _info(self) -> Info:
        return {
            "instruction": self.instruction,
            "is_success": False,
            "frames_rendered": self._frames_wanted,
        }

    def _observation(self) -> dict[str, Array]:
        observation: dict[str, Array] = {}
        for camera in self.cameras:
            frames = zip((f"{camera}_image", f"{camera}_depth"), self._draw(camera), strict=True)
            for key, frame in frames:
                if key in self._keys:
                    observation[key] = frame if self._frames_wanted else np.zeros_like(frame)
        turn = [0.0, 0.0, np.sin(self._yaw / 2), np.cos(self._yaw / 2)]
        observation["proprio"] = np.array(
            [*self._effector, *turn, self._finger, self._finger], dtype=np.float32
        )
        if self._object_state:
            disc_turn = turn if self._held else [0.0, 0.0, 0.0, 1.0]
            observation["object_state"] = np.array(
                [*self._disc, *disc_turn, *self._square, 0.0, 0.0, 0.0, 1.0]
            )
        return observation

    def _draw(self, camera: str) -> tuple[Array, Array]:
        """Return the upright image, uint8 (H, W, 3), and the depth, float32 (H, W, 1) in metres, of a camera."""
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
