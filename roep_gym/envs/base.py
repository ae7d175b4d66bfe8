"""`TaskEnvironment`: what the environments have in common, from their arguments to the outcome of a step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from roep_gym import seeding
from roep_gym.arguments import check_names, plain, read_integer
from roep_gym.episode import SAMPLED, EpisodeIdentity, EpisodeTracker
from roep_gym.error import InfrastructureError, InvalidInputError, PolicyOutputError
from roep_gym.typing import Array, FloatArray, Info

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec

__all__ = ["TaskEnvironment"]

_ACTION_SIZE = 7


class TaskEnvironment(gym.Env[dict[str, Array], Array]):
    """One task, an episode of which is a function of scene seed, initial state and actions.

    Attributes:
        suite: Name of the suite.
        task: Name of the task in it.
        instruction: The instruction, word for word.
        conventions: Fields of the runtime contract that are the same in all scenes.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012
    conventions: Mapping[str, str] = {
        "rotation": "upright",
        "gripper_sign": "-1 open, +1 close",
        "eef_orientation": "axis_angle",
    }
    suite: str
    task: str
    instruction: str
    _spec: EnvSpec | None = None

    def __init__(
        self,
        cameras: Sequence[str],
        known_cameras: Collection[str],
        image_size: int,
        depth: bool,
        reward: str,
        terminate_on_unsafe: bool,
        render_mode: str | None,
    ) -> None:
        if isinstance(cameras, str):
            raise InvalidInputError(f"Expected cameras to be a list of names, got the text {cameras!r}.")
        check_names("camera", cameras, known_cameras)
        if len(set(cameras)) != len(cameras):
            raise InvalidInputError(f"Expected each camera once, got {list(cameras)}.")
        check_names("reward", [reward], ("sparse", "dense"))
        check_names("render mode", [] if render_mode is None else [render_mode], ("rgb_array",))
        self.cameras, self.image_size, self.depth = tuple(cameras), image_size, depth
        self.reward, self.terminate_on_unsafe, self.render_mode = reward, terminate_on_unsafe, render_mode
        self._episodes = EpisodeTracker()
        self._frames_wanted, self._running = True, False

    @property
    def spec(self) -> EnvSpec | None:
        """How `gym.make` made the environment, with JSON-native arguments; None where it did not."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        if spec is not None:
            spec = copy(spec)
            spec.kwargs = {name: plain(value) for name, value in spec.kwargs.items()}
        self._spec = spec

    def request_frames(self, wanted: bool) -> None:
        """Say whether the frames of the observations returned from now on will be looked at.

        A frame that is not wanted is all zeros, and `info["frames_rendered"]` is False.
        """
        self._frames_wanted = bool(wanted)

    @abstractmethod
    def _count_initial_states(self) -> int:
        """Return the number of stored initial states."""

    @abstractmethod
    def _frame(self, camera: str) -> tuple[Array, Array]:
        """Return a camera's image, uint8 (size, size, 3), and its depth, float32 (size, size, 1) in metres."""

    def _camera_spaces(self, far: float) -> dict[str, spaces.Space[Any]]:
        """Return the spaces of the frames; `far` is the largest depth, in metres."""
        size, boxes = self.image_size, dict[str, spaces.Space[Any]]()
        for camera in self.cameras:
            boxes[f"{camera}_image"] = spaces.Box(0, 255, (size, size, 3), np.uint8)
            if self.depth:
                boxes[f"{camera}_depth"] = spaces.Box(0.0, far, (size, size, 1), np.float32)
        return boxes

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> EpisodeIdentity:
        """Return the identity of the episode that a reset begins, with initial state and scene seed.

        What the identity leaves open is taken from `options["init_state"]` or drawn: the initial state from the
        environment's generator, the scene seed from the identity.
        """
        self._running = False
        super().reset(seed=seed)
        check_names("reset option", options or {}, ("episode", "init_state"))
        episode = self._episodes.begin(seed, options, self.np_random_seed)
        init_state, scene_seed = episode.init_state, episode.scene_seed
        if init_state is None and options is not None:
            init_state = options.get("init_state")
            if init_state is not None and init_state != SAMPLED:
                init_state = read_integer("options['init_state']", init_state, 0)
        if init_state is None:
            init_state = int(self.np_random.integers(self._count_initial_states()))
        if scene_seed is None:
            scene_seed = seeding.seed("scene", self.suite, self.task, *episode.key)
        return replace(episode, init_state=init_state, scene_seed=scene_seed)

    def _begun(self, episode: EpisodeIdentity, scene_hash: int) -> Info:
        """Let the episode run, and return the `info` of its reset."""
        self._running = True
        return {
            "instruction": self.instruction,
            **episode.to_info(),
            "scene_hash": scene_hash,
            "is_success": False,
            "frames_rendered": self._frames_wanted,
        }

    def _read_action(self, action: Any) -> FloatArray:
        """Return an action of a running episode as float64 (7,).

        Raises:
            InfrastructureError: No episode is running, since nothing was reset or the last reset was refused.
            PolicyOutputError: The action is not numeric, has another shape, or is not finite.
        """
        if not self._running:
            raise InfrastructureError("Expected reset() before step(), but no episode is running.")
        expectation = f"Expected {_ACTION_SIZE} finite action entries"
        try:
            values = np.asarray(action, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise PolicyOutputError(f"{expectation}, got what is no array of numbers: {error}.") from error
        if values.shape != (_ACTION_SIZE,):
            raise PolicyOutputError(f"{expectation}, got the shape {values.shape}.")
        if not np.isfinite(values).all():
            count = np.count_nonzero(~np.isfinite(values))
            raise PolicyOutputError(
                f"{expectation}, got {count} non-finite entries in {np.array2string(values, precision=3)}."
            )
        return values

    def _outcome(self, success: bool, unsafe: Mapping[str, bool]) -> Info:
        """Return the `info` of a step; it has "termination" where the step ends the episode."""
        info = {"is_success": success, "unsafe": unsafe, "frames_rendered": self._frames_wanted}
        if success:
            info["termination"] = "success"
        elif self.terminate_on_unsafe and any(unsafe.values()):
            info["termination"] = "unsafe_attempt"
        return info

    def _frames(self) -> dict[str, Array]:
        """Return the frames of the observation by its keys."""
        frames: dict[str, Array] = {}
        for camera in self.cameras:
            if self._frames_wanted:
                image, depth = self._frame(camera)
            else:
                image = np.zeros((self.image_size, self.image_size, 3), dtype=np.uint8)
                depth = np.zeros((self.image_size, self.image_size, 1), dtype=np.float32)
            frames[f"{camera}_image"] = image
            if self.depth:
                frames[f"{camera}_depth"] = depth
        return frames
