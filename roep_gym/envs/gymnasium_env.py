"""`GymnasiumEnv`: a registered Gymnasium environment, as an evaluation runs it.

It asks of the environment what `roep_gym.suites.base.Suite` asks of all: an episode that follows from scene seed and
initial state, no step limit, `is_success` and `scene_hash`, named vector entries, frames by the names of cameras.
`registered_spec` finds what is registered under an id.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from PIL import Image

from roep_gym import seeding
from roep_gym.arguments import check_names, plain, read_integer
from roep_gym.array_digest import arrays_digest
from roep_gym.envs.base import TaskEnvironment
from roep_gym.envs.described_spaces import (
    PROPRIO,
    checked_actions,
    frame_entries,
    read_command,
    vector_entries,
    vector_names,
    with_channel,
)
from roep_gym.envs.env_description import EnvDescription, StepOutcome
from roep_gym.envs.flat_observation import FlatObservation
from roep_gym.envs.global_streams import GlobalStreams
from roep_gym.episode import SAMPLED
from roep_gym.error import InfrastructureError, InvalidInputError, RoepError, unknown_name
from roep_gym.mapping_reader import read_mapping
from roep_gym.registry import load_place
from roep_gym.typing import JSON, Array, Info

__all__ = ["GymnasiumEnv", "registered_spec"]


def registered_spec(env_id: str) -> EnvSpec:
    """Return what is registered under an id.

    Args:
        env_id: The id ("Pendulum-v1"), or `module:id`, which imports the module that registers it.

    Raises:
        UnknownNameError: Nothing is; the message offers the closest id.
        InvalidInputError: The module cannot be imported.
    """
    module, _, name = env_id.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except (Exception, SystemExit) as error:
            raise InvalidInputError(
                f"Expected a module that registers {name!r} at {module!r}, got {type(error).__name__}: {error}; "
                "install it, or check the spelling."
            ) from error
    if name not in gym.registry:
        raise unknown_name(
            "environment of Gymnasium",
            name,
            gym.registry,
            "One that a package registers is named 'gym:module:id', where importing the module registers it.",
        )
    return gym.registry[name]


class GymnasiumEnv(TaskEnvironment):
    """Run a registered environment by the description of it.

    The observation is a Dict: the environment's own entries (nested ones joined by dots, counts as one-hot vectors, an
    observation that is no mapping as "observation"), `<camera>_image` and `<camera>_depth` in place of the entries that
    the description names so, and `proprio` float32, the vectors that a shield may read, with names in
    `observation_fields`. The image of the render camera is drawn where it is asked for. The environment's own `info` is
    `info["environment"]`. Where the environment ends an episode that is no success, `info["termination"]` is
    "timeout": a failure without an unsafe attempt. Its registered step limit is left to the evaluation.

    Example:
        >>> import gymnasium as gym
        >>> import roep_gym
        >>> description = {"success": {"return_at_least": 195}}
        >>> env = gym.make("roep_gym/Gymnasium-v0", env_id="CartPole-v1", description=description)
        >>> observation, info = env.reset(seed=0)
        >>> sorted(observation), env.get_wrapper_attr("observation_fields")["proprio"][:2]
        (['observation', 'proprio'], ('observation_0', 'observation_1'))
    """

    conventions: Mapping[str, str] = {}

    def __init__(
        self,
        env_id: str,
        description: Mapping[str, JSON] | None = None,
        suite: str = "",
        task: str = "default",
        cameras: Sequence[str] | None = None,
        image_size: int = 128,
        depth: bool = True,
        control_mode: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Make the environment and work out the spaces.

        Args:
            env_id: Id of the environment, or `module:id`, which imports the module that registers it.
            description: The fields of `roep_gym.envs.env_description.EnvDescription`.
            suite: Name of the suite; empty: the id.
            task: Name of a task of the description, or "default".
            cameras: Cameras of the description whose frames are observed; None: all but the render camera.
            image_size: Height and width of the render camera's frames, in pixels; drawn ones are scaled to it.
            depth: Whether the cameras also give the depth that the description names.
            control_mode: That of the description, or None.
            render_mode: None or "rgb_array".

        Raises:
            InvalidInputError: The environment cannot be made, the description lacks the success rule or does not fit
                the spaces, or an argument is out of its range; unknown names come with the closest match.
        """
        described = read_mapping(EnvDescription, description or {}, "description")
        if described.success is None:
            raise InvalidInputError(
                f"Expected a success rule for {env_id}, got none; describe it, for example with "
                "success: {info: is_success} or success: {return_at_least: 475}."
            )
        chosen = (
            [c for c in described.cameras if c != described.render_camera] if cameras is None else [*cameras]
        )
        image_size = read_integer("image_size", image_size, 8, 2048)
        super().__init__(chosen, described.cameras, image_size, depth, "sparse", False, render_mode)
        check_names(f"task of {env_id}", [task], described.task_names())
        check_names(
            f"control mode of {env_id}", [control_mode or described.control_mode], [described.control_mode]
        )
        self._judge, self._ends = described.success.judge(env_id), described.success.ends_episode
        variant = described.task(task)
        self.suite, self.task, self.env_id = suite or env_id, task, env_id
        self.suite_source, self.suite_arguments = f"gym:{env_id}", dict(description or {})
        self.instruction = variant.instruction or env_id
        self.control_mode = described.control_mode
        self._draws = described.render_camera if described.render_camera in chosen else ""
        self._described, self._variant = described, variant
        self._env = self._make()
        try:
            self._actions = checked_actions(self._env.action_space, env_id)
            self._flat = FlatObservation(self._env.observation_space, env_id)
            self._entries = frame_entries(described, self._flat.boxes, chosen, depth)
            self._dropped = {*described.images.values(), *described.depths.values()}
            self._vectors = vector_entries(described, self._flat.boxes, self._dropped, env_id)
            names = vector_names(described, self._flat.boxes, self._vectors)
            self.observation_fields: dict[str, tuple[str, ...]] = {PROPRIO: names} if names else {}
            self.action_space = cast(spaces.Space[Array], self._actions)
            self.observation_space = cast(spaces.Space[dict[str, Array]], self._space())
        except RoepError:
            self._env.close()
            raise
        sizes = {self._boxes()[f"{camera}_image"].shape[0] for camera in chosen}
        if len(sizes) == 1:
            self.image_size = sizes.pop()
        self._streams, self._used = GlobalStreams(), False
        self._return, self._length = 0.0, 0

    @property
    def inner(self) -> gym.Env[Any, Any]:
        """The environment itself, without any wrapper."""
        return self._env.unwrapped

    def renderer_name(self) -> str:
        """Return who draws: the environment, in its own way, or nobody."""
        return f"rgb_array of {self.env_id}" if self._draws else "none"

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Array], Info]:
        """Begin an episode.

        Args:
            seed: Seeds the generator that draws what the options leave open.
            options: `episode`, the episode's identity.

        Raises:
            InvalidInputError: The initial state is out of range, or the identity is malformed.
        """
        episode = self._begin(seed, options)
        last = self._described.init_states - 1
        if episode.init_state != SAMPLED and cast(int, episode.init_state) > last:
            raise InvalidInputError(f"Expected an initial state in 0..{last}, got {episode.init_state!r}.")
        inner_seed = seeding.seed("gymnasium", cast(int, episode.scene_seed), str(episode.init_state))
        if self._described.rebuild and self._used:
            self._env.close()
            self._env = self._make()
        self._streams.seed(inner_seed)
        self._env.action_space.seed(inner_seed)  # some environments draw from it
        with self._streams:
            given, own = self._env.reset(seed=inner_seed, options=dict(self._described.reset_options) or None)
        self._used, self._return, self._length = True, 0.0, 0
        entries = self._flat(given)
        scene = seeding.seed("gymnasium", self.env_id, self.task, self._scene_digest(entries), bits=63)
        info = self._begun(episode, scene) | {"frames_rendered": self._drawn_frames, "environment": own}
        return self._observation(entries), info

    def step(self, action: Any) -> tuple[dict[str, Array], float, bool, bool, Info]:
        """Make one step.

        Raises:
            PolicyOutputError: The action is not finite, or has another shape, or is none of the numbered ones.
            InfrastructureError: No episode is running.
            InvalidInputError: `info` lacks what the success rule reads.
        """
        if not self._running:
            raise InfrastructureError("Expected reset() before step(), but no episode is running.")
        command = read_command(action, self._actions)
        with self._streams:
            given, reward, terminated, truncated, own = self._env.step(command)
        self._return, self._length = self._return + float(reward), self._length + 1
        outcome = StepOutcome(
            given, command, float(reward), bool(terminated), bool(truncated), own, self._return, self._length
        )
        success = self._judge(outcome)
        ended = bool(terminated) or (success and self._ends)
        info: Info = {"is_success": success, "frames_rendered": self._drawn_frames, "environment": own}
        if ended:
            info["termination"] = "success" if success else "timeout"
        self._running = not (ended or truncated)
        return self._observation(self._flat(given)), float(reward), ended, bool(truncated), info

    def render(self) -> Array | None:
        """Return what the environment draws, or None without a render mode."""
        return cast(Array, self._env.render()) if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Close the environment."""
        self._running = False
        self._env.close()

    def _make(self) -> gym.Env[Any, Any]:
        """Make the environment without its step limit, and put the wrappers around it."""
        spec = copy(registered_spec(self.env_id))
        spec.max_episode_steps = None
        arguments: dict[str, Any] = dict(self._variant.arguments)
        if self.render_mode is not None or self._draws:
            arguments["render_mode"] = "rgb_array"
        try:
            env: gym.Env[Any, Any] = gym.make(spec, disable_env_checker=True, **arguments)
            for wrapper in self._described.wrappers:
                env = load_place(wrapper.entry_point, "wrapper")(env, **(wrapper.kwargs or {}))
        except RoepError:
            raise
        except (Exception, SystemExit) as error:
            raise InvalidInputError(
                f"Expected {self.env_id} to be made with the arguments {arguments}, got {type(error).__name__}: "
                f"{error}; correct its description, or install what it needs."
            ) from error
        return env

    def _count_initial_states(self) -> int:
        return self._described.init_states

    def _boxes(self) -> dict[str, spaces.Box]:
        """Return the spaces of the frames."""
        boxes = {key: with_channel(self._flat.boxes[entry]) for key, entry in self._entries.items()}
        if self._draws:
            boxes[f"{self._draws}_image"] = spaces.Box(
                0, 255, (self.image_size, self.image_size, 3), np.uint8
            )
        return boxes

    def _space(self) -> spaces.Dict:
        boxes: dict[str, spaces.Space[Any]] = {
            name: box for name, box in self._flat.boxes.items() if name not in self._dropped
        }
        frames = self._boxes()
        for key in frames:
            if key in boxes:
                raise InvalidInputError(
                    f"Expected cameras of {self.env_id} whose frames have names of their own, got {key!r}, which is an "
                    "entry of the observation; name the camera differently."
                )
        boxes |= frames
        if self._vectors and self._vectors != (PROPRIO,):
            parts = [self._flat.boxes[name] for name in self._vectors]
            low, high = (
                np.concatenate([getattr(box, side) for box in parts]).astype(np.float32)
                for side in ("low", "high")
            )
            boxes[PROPRIO] = spaces.Box(low, high, dtype=np.float32)
        return spaces.Dict(boxes)

    def _observation(self, entries: Mapping[str, Array]) -> dict[str, Array]:
        observation = {name: value for name, value in entries.items() if name not in self._dropped}
        for key, entry in self._entries.items():
            observation[key] = entries[entry].reshape(with_channel(self._flat.boxes[entry]).shape)
        if self._draws:
            size = self.image_size
            observation[f"{self._draws}_image"] = (
                self._drawn() if self._frames_wanted else np.zeros((size, size, 3), np.uint8)
            )
        if self._vectors and self._vectors != (PROPRIO,):
            observation[PROPRIO] = np.concatenate([entries[name] for name in self._vectors]).astype(
                np.float32
            )
        return observation

    def _drawn(self) -> Array:
        """Return what the environment draws, uint8 (size, size, 3)."""
        with self._streams:
            frame = np.asarray(self._env.render())
        if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3:
            raise InvalidInputError(
                f"Expected render() of {self.env_id} to give a uint8 image of shape (height, width, 3), got "
                f"{frame.dtype} {frame.shape}; leave render_camera out."
            )
        if frame.shape[:2] == (self.image_size, self.image_size):
            return frame.copy()
        resized = Image.fromarray(frame).resize((self.image_size, self.image_size), Image.Resampling.BOX)
        return np.asarray(resized).copy()

    @property
    def _drawn_frames(self) -> bool:
        """Whether the frames of the next observation are there; only the render camera's may be left out."""
        return self._frames_wanted or not self._draws

    def _scene_digest(self, entries: Mapping[str, Array]) -> str:
        """Return a digest of the first observation, and of the state and the generator where they can be found."""
        inner = self.inner
        arrays = {f"observation {name}": value for name, value in entries.items()}
        state = np.asarray(getattr(inner, "state", None))
        if state.dtype.kind in "biuf":
            arrays["state"] = state
        for name in ("qpos", "qvel", "act", "mocap_pos", "mocap_quat"):
            value = getattr(getattr(inner, "data", None), name, None)
            if isinstance(value, np.ndarray):
                arrays[f"data.{name}"] = value
        generator = getattr(inner, "_np_random", None)
        stream = None if generator is None else plain(_without_arrays(generator.bit_generator.state))
        return arrays_digest(arrays, json.dumps(stream, sort_keys=True))


def _without_arrays(state: Any) -> Any:
    if isinstance(state, Mapping):
        return {key: _without_arrays(value) for key, value in state.items()}
    return state.tolist() if isinstance(state, np.ndarray) else state
