"""A published model as data: what its server is sent, what its answers mean, and the runtime it was built for.

`ModelPreset` is one of them, `find_preset` reads one by its name or from a file of one's own, `preset_names` lists
those that ship with the package. A client sends what `ModelPreset.prepare` gives and executes what
`ModelPreset.actions` gives; `ModelPreset.measure` says what was really done to an observation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from roep_gym.arguments import check_names
from roep_gym.contracts import FIELDS, RuntimeContract
from roep_gym.documents import read_yaml
from roep_gym.error import InvalidInputError
from roep_gym.mapping_reader import check_fields, read_mapping
from roep_gym.policies.base import ObservationRequest, PolicyEpisode, PolicyInput
from roep_gym.policies.conversions import (
    ACTION_STEPS,
    FRAME_STEPS,
    ORIENTATIONS,
    libero_state,
    prepare_actions,
    prepare_frame,
    xvla_state,
)
from roep_gym.typing import JSON, Array, FloatArray

__all__ = ["STATES", "ModelPreset", "SentFrame", "find_preset", "observation_entry", "preset_names"]

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class SentFrame:
    """A frame of a request.

    Attributes:
        camera: The camera whose frame it is.
        steps: What the client does to the upright frame, by the names of `FRAME_STEPS`; the orientation comes first.
    """

    camera: str
    steps: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self, "frame")
        check_names("step of a frame", self.steps, FRAME_STEPS)


@dataclass(frozen=True)
class ModelPreset:
    """One published model.

    Attributes:
        contract: The declared runtime; its `proprio_layout` says which state is sent.
        policy: The policy of this package that reaches its server; empty: there is none yet.
        arguments: Arguments of that policy.
        frames: Frames of a request, by request key.
        image_size: Height and width of the rendered frames, in pixels.
        state_key: Request key of the state; empty: none is sent.
        action_steps: What is done to a chunk that comes back, by the names of `ACTION_STEPS`.
        server_fields: Fields of the contract that the server realises after the request, which no client can observe.

    Raises:
        UnknownNameError: A step, a field or a layout is unknown.
        InvalidInputError: A value has the wrong type.
    """

    contract: RuntimeContract
    policy: str = ""
    arguments: Mapping[str, JSON] = field(default_factory=dict)
    frames: Mapping[str, SentFrame] = field(default_factory=dict)
    image_size: int = 128
    state_key: str = ""
    action_steps: tuple[str, ...] = ()
    server_fields: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self, "preset")
        check_names("step of a chunk", self.action_steps, ACTION_STEPS)
        check_names("contract field", self.server_fields, FIELDS)
        if self.state_key:
            check_names("layout of the state", [self.contract.proprio_layout], STATES)

    @property
    def observations(self) -> ObservationRequest:
        """What a client has to look at."""
        return ObservationRequest(
            cameras=tuple(dict.fromkeys(sent.camera for sent in self.frames.values())),
            image_size=self.image_size,
            controller_pose=bool(self.state_key) and self.contract.proprio_layout == _XVLA,
        )

    def prepare(self, episode: PolicyEpisode, given: PolicyInput) -> dict[str, Array]:
        """Return the frames and the state of a request, by request key.

        Raises:
            InvalidInputError: The observation lacks something that is to be sent.
        """
        request = {
            key: prepare_frame(observation_entry(given, f"{sent.camera}_image"), sent.steps)
            for key, sent in self.frames.items()
        }
        if self.state_key:
            request[self.state_key] = self._state(episode, given)
        return request

    def actions(self, chunk: Array) -> Array:
        """Return a chunk (steps, n) in the environment's convention."""
        return prepare_actions(chunk, self.action_steps)

    def measure(
        self, episode: PolicyEpisode, given: PolicyInput, sent: Mapping[str, Any], prompt: Any
    ) -> dict[str, JSON]:
        """Return what was done to an observation on its way into a request, by field of the runtime contract.

        What was sent is compared with what was given, in each of the four orientations; a field that no known
        preparation explains, and one that the server realises, is left out.

        Args:
            episode: The episode of the decision.
            given: The decision.
            sent: The request.
            prompt: The instruction as it was sent.
        """
        found: dict[str, JSON] = {"prompt_format": "{instruction}"} if prompt == given.instruction else {}
        turns = [self._turns(given, frame, sent[key]) for key, frame in self.frames.items()]
        if turns and all(turns):
            kinds = [_kinds(frame) for frame in self.frames.values()]
            if all(kind == kinds[0] for kind in kinds):
                found |= kinds[0]
            if all(len(names) == 1 for names in turns):  # a frame that equals its mirror image shows several
                names = [turn for (turn,) in turns]
                found["rotation"] = names[0] if len(set(names)) == 1 else names
        if self.state_key and np.array_equal(sent[self.state_key], self._state(episode, given)):
            found["proprio_layout"] = self.contract.proprio_layout
        return {name: value for name, value in found.items() if name not in self.server_fields}

    def _state(self, episode: PolicyEpisode, given: PolicyInput) -> FloatArray:
        return STATES[str(self.contract.proprio_layout)](episode, given)

    def _turns(self, given: PolicyInput, frame: SentFrame, sent: Any) -> list[str]:
        """Return the orientations in which a frame gives what was sent."""
        upright, rest = observation_entry(given, f"{frame.camera}_image"), _rest(frame)
        return [name for name in ORIENTATIONS if np.array_equal(sent, prepare_frame(upright, [name, *rest]))]


@cache
def find_preset(name: str) -> ModelPreset:
    """Return a preset.

    Args:
        name: One of `preset_names`, or the path of a YAML file of one's own, ending in .yaml or .yml.

    Raises:
        UnknownNameError: No preset has the name; the message offers the closest.
        InvalidInputError: The file cannot be read, or a value in it does not fit.
    """
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        check_names("preset", [name], preset_names(), "A preset of your own is a file, 'mine.yaml'.")
        path = _FOLDER / f"{name}.yaml"
    return read_mapping(ModelPreset, read_yaml(path, "a preset"), "preset")


def preset_names() -> tuple[str, ...]:
    """Return the names of the presets of this package, in alphabetical order."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.yaml")))


def observation_entry(given: PolicyInput, name: str) -> Array:
    """Return an entry of the observation of a decision.

    Raises:
        InvalidInputError: The observation has no such entry.
    """
    if name not in given.observation:
        raise InvalidInputError(
            f"Expected the observation {name!r}, got {sorted(given.observation)}; "
            "make the environment with what the policy asks for."
        )
    return given.observation[name]


def _proprio(episode: PolicyEpisode, given: PolicyInput) -> dict[str, float]:
    values = observation_entry(given, "proprio").astype(np.float64)
    return dict(zip(episode.fields.get("proprio", ()), values, strict=True))


_XVLA = "controller_pos(3) controller_rot6d(6) zeros(11)"
STATES: Mapping[str, Callable[[PolicyEpisode, PolicyInput], FloatArray]] = {
    "eef_pos(3) eef_axis_angle(3) gripper_qpos(2)": lambda episode, given: libero_state(
        _proprio(episode, given)
    ),
    "eef_pos(3) eef_axis_angle_shortest(3) gripper_qpos(2)": lambda episode, given: libero_state(
        _proprio(episode, given), "shortest"
    ),
    _XVLA: lambda _, given: xvla_state(observation_entry(given, "controller_pose")),
}
"""The states that can be sent, by the words of the contract's `proprio_layout`."""


def _rest(frame: SentFrame) -> tuple[str, ...]:
    """Return the steps of a frame without its orientation."""
    return frame.steps[1:] if frame.steps and frame.steps[0] in ORIENTATIONS else frame.steps


def _kinds(frame: SentFrame) -> dict[str, JSON]:
    """Return what the steps of a frame are in the words of the contract."""
    rest = _rest(frame)
    return {
        name: next((step for step in rest if step.startswith(beginnings)), "none")
        for name, beginnings in _STEPS_OF_FIELD.items()
    }


_STEPS_OF_FIELD: Mapping[str, tuple[str, ...]] = {
    "crop": ("center_",),
    "resize": ("pad_", "lanczos3_"),
    "encoding": ("jpeg",),
}
"""Beginnings of the steps that are the value of a field of the contract."""
