"""A policy behind a model server of vla-evaluation-harness: `VLAEvalPolicy`.

A model server says in its handshake what the environment must be like (`observation_params`). `EnvironmentDemands`
reads that, `check_specs` what it says of its actions and observations. The server keeps chunks: it is sent each step
and answers with one action, or, where it keeps none, with a whole chunk.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from roep_gym.arguments import check_names
from roep_gym.contracts import RuntimeContract
from roep_gym.error import InfrastructureError, InvalidInputError, ServerGoneError, bounded, shown
from roep_gym.mapping_reader import check_fields
from roep_gym.policies.base import PolicyEpisode, PolicyInput
from roep_gym.policies.conversions import axis_angle_of_rot6d
from roep_gym.policies.openpi.codec import pack, unpack
from roep_gym.policies.presets.preset import ModelPreset, SentFrame, observation_entry
from roep_gym.policies.remote.address import ServerAddress
from roep_gym.policies.remote.images import encoded_frame
from roep_gym.policies.remote.policy import RemotePolicy
from roep_gym.policies.remote.websocket import FrameSocket
from roep_gym.typing import Array
from roep_gym.version import __version__

__all__ = ["IMAGE_FORMATS", "PROTOCOL_VERSION", "EnvironmentDemands", "VLAEvalPolicy", "check_specs"]

PROTOCOL_VERSION = 1

IMAGE_FORMATS = ("raw", "jpeg", "png")
"""How a frame can travel."""

_PROPRIO = "eef_pos(3) eef_axis_angle{}(3) gripper_qpos(2)"
_STATES = ("eef_pos3_axisangle3_gripper2", "rot6d_interleaved_proprio_20d", "raw")
"""Formats of a state that the harness's LIBERO observations serve; X-VLA makes its twenty numbers of them itself."""


@dataclass(frozen=True)
class EnvironmentDemands:
    """What a model server asks of the harness's LIBERO environment, by the names of the harness.

    Attributes:
        send_wrist_image: Whether the wrist camera is sent.
        send_state: Whether the state is sent, from the observation and from the controller.
        absolute_action: Whether actions are absolute poses.
        quat_no_antipodal: Whether the state's rotation is that of the quaternion as it is, not of the shorter way.
        num_steps_wait: Settling steps.
        seed: Seed of the harness; scenes are seeded by the plan, so that it is not followed.
        env_seed: Seed of its environment; not followed either.

    Raises:
        InvalidInputError: A value has the wrong type.
    """

    send_wrist_image: bool = False
    send_state: bool = False
    absolute_action: bool = False
    quat_no_antipodal: bool = False
    num_steps_wait: int = 10
    seed: int | None = None
    env_seed: int | None = None

    def __post_init__(self) -> None:
        check_fields(self, "observation_params")

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> EnvironmentDemands:
        """Return what is asked.

        Raises:
            UnknownNameError: Something is asked that this package does not know how to give.
        """
        names = [field.name for field in fields(cls)]
        check_names("entry of observation_params", given, names, "It cannot be given to the server.")
        return cls(**given)

    def preset(self) -> ModelPreset:
        """Return what the server is sent, and the contract that follows from what it asks."""
        cameras = {
            "agentview": "agentview",
            **({"wrist": "robot0_eye_in_hand"} if self.send_wrist_image else {}),
        }
        layout = _PROPRIO.format("" if self.quat_no_antipodal else "_shortest")
        return ModelPreset(
            contract=RuntimeContract(
                runtime_bridge="vla-eval-websocket",
                cameras=list(cameras.values()),
                resolution=256,
                rotation="rotated_180",
                encoding="none",
                prompt_format="{instruction}",
                proprio_layout=layout if self.send_state else "n/a",
                control_mode="absolute" if self.absolute_action else "relative",
                gripper_sign="-1 open, +1 close",
                eef_orientation="axis_angle",
                replan_after_intervention=False,
                settle_steps=self.num_steps_wait,
            ),
            policy="vla-eval",
            frames={name: SentFrame(camera, ("rotated_180",)) for name, camera in cameras.items()},
            image_size=256,
            state_key="states" if self.send_state else "",
            action_steps=("gripper_binary",),
            server_fields=("crop", "resize"),
        )


def check_specs(
    actions: Mapping[str, Mapping[str, Any]], observations: Mapping[str, Mapping[str, Any]], wrist: bool
) -> None:
    """Refuse a server whose specs do not fit LIBERO as the harness has it; what it does not specify is not checked.

    Whether positions are relative or absolute is not read from here, since X-VLA's server specifies the wrong one.

    Args:
        actions: The parts of an action by name, each with `dims` and `format`.
        observations: The parts of an observation, in the same way.
        wrist: Whether the wrist camera is sent.

    Raises:
        InvalidInputError: Something does not fit.
    """
    found = {
        name: (part.get("dims"), part.get("format")) for name, part in {**actions, **observations}.items()
    }
    wrong: list[str] = []
    sizes = [size for part in actions.values() if isinstance(size := part.get("dims"), int) and size > 0]
    if len(sizes) == len(actions) > 1 and sum(sizes) != 7:
        wrong.append(f"an action of {sum(sizes)} numbers")
    wanted = {"rotation": ("axis_angle", "raw"), "gripper": ("binary_close_positive", "raw")}
    for name, formats in wanted.items():
        if name in actions and found[name][1] not in formats:
            wrong.append(f"{name} as {shown(found[name][1])}")
    images = [name for name, part in observations.items() if part.get("format") == "rgb_hwc_uint8"]
    if len(images) > 1 + wrist:
        wrong.append(f"the images {images}")
    wrong += [
        f"{name} as {shown(part.get('format'))}"
        for name, part in observations.items()
        if name.startswith("state") and part.get("format") not in _STATES
    ]
    if wrong:
        raise InvalidInputError(
            f"Expected a model server of 7-D actions, axis-angle rotations and a gripper that closes at +1, fed with "
            f"{1 + wrist} image(s) and a state of 8, but its handshake specifies {', '.join(wrong)}; "
            "start it for LIBERO."
        )


class _Session:
    """One websocket on which the handshake was made; it has one episode at a time."""

    def __init__(self, address: ServerAddress, demands: EnvironmentDemands) -> None:
        self._socket, self._number = FrameSocket(address, "vla-eval"), 0
        hello = {"harness_version": f"roep-gym/{__version__}", "protocol_version": PROTOCOL_VERSION}
        try:
            self.said = self._ask("hello", hello, "hello", "connect_timeout")
        except ServerGoneError:
            raise
        except InfrastructureError as error:
            raise self._socket.wrong_server(error) from error
        try:
            self._check(demands)
        except InvalidInputError:
            self.close()
            raise

    @property
    def is_open(self) -> bool:
        return self._socket.is_open

    def tell(self, kind: str, payload: Mapping[str, Any]) -> None:
        """Send a message that is not answered."""
        self._number += 1
        message = {"type": kind, "payload": payload, "seq": self._number, "timestamp": time.time()}
        self._socket.send(pack(message, text_keys=True))

    def ask(self, payload: Mapping[str, Any]) -> Any:
        """Send an observation and return the actions that answer it."""
        answer = self._ask("observation", payload, "action", "infer_timeout")
        for name in ("actions", "action"):
            if name in answer:
                return answer[name]
        raise self._socket.failure(f"to send the entry 'actions' in a reply, got {shown(sorted(answer))}")

    def close(self) -> None:
        self._socket.close()

    def _ask(self, kind: str, payload: Mapping[str, Any], expected: str, limit: str) -> Mapping[str, Any]:
        self.tell(kind, payload)
        what = f"the message {expected!r}"
        frame = self._socket.receive(what, limit)
        try:
            message = unpack(frame, text_keys=True) if isinstance(frame, bytes) else None
        except InvalidInputError as error:
            raise self._socket.failure(
                f"to send {what} in the harness's format, got another frame: {error}"
            ) from error
        if not isinstance(message, dict) or not isinstance(message.get("payload"), dict):
            raise self._socket.failure(
                f"to send {what}, got {shown(message if message is not None else frame)}"
            )
        answer: Mapping[str, Any] = message["payload"]
        if message.get("type") == "error":
            raise self._socket.failure(
                f"to send {what}, but its policy failed with: {bounded(str(answer.get('error')), 500)}"
            )
        if message.get("type") != expected or message.get("seq") != self._number:
            raise self._socket.failure(
                f"to send {what} with the number {self._number}, got {shown(message.get('type'))} with the number "
                f"{shown(message.get('seq'))}"
            )
        return answer

    def _check(self, demands: EnvironmentDemands) -> None:
        """Refuse a server that speaks another version, or asks for another environment than was declared."""
        version = self.said.get("protocol_version")
        if version != PROTOCOL_VERSION:
            raise InvalidInputError(
                f"Expected version {PROTOCOL_VERSION} of the harness's protocol, got {shown(version)}; take a server "
                "of vla-eval 0.8."
            )
        asked = EnvironmentDemands.read(_mapping(self.said.get("observation_params")))
        if asked != demands:
            given = {
                field.name: getattr(asked, field.name)
                for field in fields(asked)
                if getattr(asked, field.name) != field.default
            }
            written = ", ".join(f"{name}: {str(value).lower()}" for name, value in given.items())
            raise InvalidInputError(
                f"Expected the model server to ask for the environment that was declared, {demands}, but it asks for "
                f"another; pass --argument 'observation_params={{{written}}}'."
            )
        check_specs(
            _parts(self.said.get("action_spec")),
            _parts(self.said.get("observation_spec")),
            demands.send_wrist_image,
        )


class _VLAEvalConnection:
    """A websocket for each open episode; one whose episode ended serves the next."""

    def __init__(self, address: ServerAddress, demands: EnvironmentDemands) -> None:
        self._address, self._demands = address, demands
        self._open: dict[str, _Session] = {}
        self._idle = [_Session(address, demands)]
        name = self._idle[0].said.get("model_server")
        self.said: Mapping[str, Any] = (
            {"checkpoint_source": f"vla-eval:{name}"} if isinstance(name, str) else {}
        )

    @property
    def is_open(self) -> bool:
        return all(session.is_open for session in (*self._open.values(), *self._idle))

    def begin(self, episode: PolicyEpisode) -> None:
        """Tell the server that an episode begins."""
        self.end(episode.key)
        session = self._idle.pop() if self._idle else _Session(self._address, self._demands)
        self._open[episode.key] = session
        task = {
            "name": episode.instruction,
            "suite": episode.suite,
            "task": episode.task,
            "seed": episode.seed,
        }
        session.tell("episode_start", {"task": task})

    def infer(self, episode: PolicyEpisode, request: Mapping[str, Any]) -> Any:
        """Return the action, or the chunk, that answers an observation."""
        return self._open[episode.key].ask(request)

    def end(self, episode: str) -> None:
        """Tell the server that an episode ended."""
        session = self._open.pop(episode, None)
        if session is None:
            return
        with suppress(
            InfrastructureError
        ):  # closed by its failure; the next episode finds that out and connects anew
            session.tell("episode_end", {})
        self._idle.append(session)

    def close(self) -> None:
        """Close all websockets; may be called twice."""
        for session in (*self._open.values(), *self._idle):
            session.close()


class VLAEvalPolicy(RemotePolicy):
    """Asks a model server of vla-evaluation-harness, with an observation for every step where it keeps the chunks.

    Observations are those of the harness's LIBERO environment. The gripper becomes -1 or +1, as there.

    Args:
        host: Host name or address of the server.
        port: Port of the server.
        observation_params: What the server asks of the environment, by the names of `EnvironmentDemands`; a server that
            asks for something else is refused, and the message says what to pass.
        image_format: How a frame travels, one of `IMAGE_FORMATS`; "jpeg" loses.
        executed_steps: Actions of a chunk that are executed; None: all that come back.
        image_size: Height and width of the rendered frames, in pixels; None: 256.
        connect_timeout: Time limit for the connection and for the handshake, in seconds.
        infer_timeout: Time limit for one reply, in seconds.
        lost_timeout: Seconds that an evaluation waits for a server that is gone.
        contract: Fields of the runtime contract that replace those of the client.

    Raises:
        InvalidInputError: An argument is unknown or outside its range.
    """

    protocol, bridge = "vla-eval", "vla-eval-websocket"

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 8000,
        observation_params: Mapping[str, Any] | None = None,
        image_format: str = "raw",
        executed_steps: int | None = None,
        image_size: int | None = None,
        connect_timeout: float = 10.0,
        infer_timeout: float = 120.0,
        lost_timeout: float = 300.0,
        contract: Mapping[str, Any] | None = None,
    ) -> None:
        check_names("image_format", [image_format], IMAGE_FORMATS)
        self._demands = EnvironmentDemands.read(observation_params or {})
        super().__init__(
            ServerAddress(host, port, connect_timeout, infer_timeout, lost_timeout),
            self._demands.preset(),
            executed_steps=executed_steps,
            image_size=image_size,
            contract=contract,
        )
        self.observations = replace(self.observations, controller_pose=self._demands.send_state)
        self._image_format = image_format

    def _connect(self) -> _VLAEvalConnection:
        return _VLAEvalConnection(self.address, self._demands)

    def _request(self, episode: PolicyEpisode, given: PolicyInput) -> dict[str, Any]:
        prepared = self._preset.prepare(episode, given)
        request: dict[str, Any] = {
            "images": {name: self._coded(prepared[name]) for name in self._preset.frames},
            "task_description": given.instruction,
        }
        if self._demands.send_state:
            request["states"] = prepared["states"]
            request["controller_states"] = _controller_state(given, prepared["states"][6:])
        return request

    def _measure(
        self, episode: PolicyEpisode, given: PolicyInput, request: Mapping[str, Any]
    ) -> dict[str, Any]:
        if self._image_format == "raw":
            sent = {**request, **request["images"]}
            return dict(self._preset.measure(episode, given, sent, request["task_description"]))
        sent = {**request, **self._preset.prepare(episode, given)}  # before it was coded
        found = dict(self._preset.measure(episode, given, sent, request["task_description"]))
        return {**found, "encoding": "jpeg"} if self._image_format == "jpeg" else found

    def _coded(self, frame: Array) -> Any:
        if self._image_format == "raw":
            return frame
        data = encoded_frame(frame, self._image_format)
        return {"__image__": True, "format": self._image_format, "data": data, "shape": list(frame.shape)}


def _controller_state(given: PolicyInput, gripper: Array) -> Array:
    """Return the state (8,) with the pose of the controller, the shorter way round."""
    pose = observation_entry(given, "controller_pose")
    return np.concatenate([pose[:3], axis_angle_of_rot6d(pose[3:]), gripper]).astype(np.float32)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _parts(value: Any) -> dict[str, dict[str, Any]]:
    return {name: part for name, part in _mapping(value).items() if isinstance(part, dict)}
