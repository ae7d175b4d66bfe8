"""A policy behind the HTTP server of roboeval: `RoboEvalPolicy`.

The server is asked what it is (`/info`), told that an episode begins (`/reset`, which concerns all its clients), and
asked for chunks (`/predict`). Frames travel as files, PNG or JPEG.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from roep_gym.arguments import check_names
from roep_gym.contracts import RuntimeContract
from roep_gym.error import InvalidInputError, bounded, shown
from roep_gym.policies.base import PolicyEpisode, PolicyInput
from roep_gym.policies.presets.preset import ModelPreset, SentFrame
from roep_gym.policies.remote.address import ServerAddress
from roep_gym.policies.remote.images import encoded_frame
from roep_gym.policies.remote.json_http import JsonReply, JsonServer
from roep_gym.policies.remote.policy import RemotePolicy

__all__ = ["RoboEvalPolicy"]

_CAMERAS = {"primary": "agentview", "wrist": "robot0_eye_in_hand"}
"""Camera by the role that the server knows."""

_PRESET = ModelPreset(
    contract=RuntimeContract(
        runtime_bridge="roboeval-http",
        cameras=list(_CAMERAS.values()),
        resolution=256,
        rotation="rotated_180",
        prompt_format="{instruction}",
        encoding="none",
        proprio_layout="eef_pos(3) eef_axis_angle(3) gripper_qpos(2)",
        control_mode="relative",
        gripper_sign="-1 open, +1 close",
        eef_orientation="axis_angle",
        replan_after_intervention=False,
        settle_steps=10,
    ),
    policy="roboeval",
    frames={role: SentFrame(camera, ("rotated_180",)) for role, camera in _CAMERAS.items()},
    image_size=256,
    state_key="state",
    server_fields=("crop", "resize"),
)
"""What roboeval's own LIBERO client sends, which leaves the gripper as the server gives it."""


class _RoboEvalConnection:
    """Asks one server, which has been found to fit."""

    is_open = True

    def __init__(self, address: ServerAddress, image_format: str) -> None:
        self._server, self._image_format = JsonServer(address, "roboeval"), image_format
        reply = self._server.ask("GET", "/info")
        info = reply.value
        if reply.status != HTTPStatus.OK or not isinstance(info, dict) or "action_space" not in info:
            raise self._server.wrong_server(f"the status {reply.status} for /info")
        self._checked("/health", self._server.ask("GET", "/health"))
        _check_info(info)
        model = info.get("model_id")
        self.said: Mapping[str, Any] = {"checkpoint_source": model} if isinstance(model, str) else {}

    def begin(self, episode: PolicyEpisode) -> None:
        """Have the server forget the last episode."""
        self._checked("/reset", self._server.ask("POST", "/reset"))

    def infer(self, episode: PolicyEpisode, request: Mapping[str, Any]) -> Any:
        """Return the actions of a reply."""
        images = {
            role: base64.b64encode(encoded_frame(request[role], self._image_format)).decode()
            for role in _CAMERAS
        }
        state = {"flat": request["state"].tolist()}
        body = {"obs": {"instruction": request["instruction"], "images": images, "state": state}}
        value = self._checked("/predict", self._server.ask("POST", "/predict", body))
        if not isinstance(value, dict) or "actions" not in value:
            raise self._server.failure(f"to answer /predict with the entry 'actions', got {shown(value)}")
        return value["actions"]

    def end(self, episode: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing: a connection is closed after each reply."""

    def _checked(self, path: str, reply: JsonReply) -> Any:
        if reply.status == HTTPStatus.SERVICE_UNAVAILABLE:
            raise self._server.failure(
                f"to answer {path}, but its model is not loaded: {bounded(reply.text, 300)}; wait for it",
                gone=True,
            )
        if reply.status != HTTPStatus.OK:
            told = reply.value.get("error", reply.text) if isinstance(reply.value, dict) else reply.text
            raise self._server.failure(
                f"to answer {path}, but it failed with the status {reply.status}: {bounded(str(told), 500)}"
            )
        return reply.value


def _check_info(info: Mapping[str, Any]) -> None:
    """Refuse a server that takes or gives something else than this client.

    Raises:
        InvalidInputError: An entry of `/info` does not fit; one that the server leaves out is not checked.
    """
    needs, space = _mapping(info, "obs_requirements"), _mapping(info, "action_space")
    checks = (
        (
            "cameras",
            needs.get("cameras"),
            lambda roles: set(roles) <= set(_CAMERAS),
            f"some of {list(_CAMERAS)}",
        ),
        ("state_dim", needs.get("state_dim"), lambda size: size in (0, 8), "0 or 8"),
        ("image_transform", needs.get("image_transform"), "applied_in_sim".__eq__, "'applied_in_sim'"),
        ("action_space.type", space.get("type"), "eef_delta".__eq__, "'eef_delta'"),
        ("action_space.dim", space.get("dim"), lambda size: size == 7, "7"),
    )
    for name, value, fits, wanted in checks:
        if value is not None and not fits(value):
            raise InvalidInputError(
                f"Expected a roboeval server whose {name} is {wanted}, got {shown(value)}; this client gives what "
                "roboeval gives on LIBERO, so serve a checkpoint of LIBERO."
            )


def _mapping(info: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = info.get(name)
    return value if isinstance(value, dict) else {}


class RoboEvalPolicy(RemotePolicy):
    """Asks a policy server of roboeval, one request at a time.

    It sends both cameras and the state of 8 as roboeval's own LIBERO client does; the server takes what it needs. The
    server has one episode for all its clients, so that a policy that remembers must be asked by one worker.

    Args:
        host: Host name or address of the server.
        port: Port of the server.
        image_format: How a frame is written, "png", which loses nothing and is what roboeval's own client does, or
            "jpeg".
        executed_steps: Actions of a chunk that are executed; None: all.
        image_size: Height and width of the rendered frames, in pixels; None: 256.
        connect_timeout: Time limit for the connection, in seconds.
        infer_timeout: Time limit for one reply, in seconds.
        lost_timeout: Seconds that an evaluation waits for a server that is gone.
        contract: Fields of the runtime contract that replace those of the client.

    Raises:
        InvalidInputError: An argument is unknown or outside its range.
    """

    protocol, bridge = "roboeval", "roboeval-http"

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 5100,
        image_format: str = "png",
        executed_steps: int | None = None,
        image_size: int | None = None,
        connect_timeout: float = 10.0,
        infer_timeout: float = 120.0,
        lost_timeout: float = 300.0,
        contract: Mapping[str, Any] | None = None,
    ) -> None:
        check_names("image_format", [image_format], ("png", "jpeg"))
        super().__init__(
            ServerAddress(host, port, connect_timeout, infer_timeout, lost_timeout),
            _PRESET,
            executed_steps=executed_steps,
            image_size=image_size,
            contract=contract,
        )
        self._image_format = image_format

    def _connect(self) -> _RoboEvalConnection:
        return _RoboEvalConnection(self.address, self._image_format)

    def _request(self, episode: PolicyEpisode, given: PolicyInput) -> dict[str, Any]:
        return {**self._preset.prepare(episode, given), "instruction": given.instruction}

    def _measure(
        self, episode: PolicyEpisode, given: PolicyInput, request: Mapping[str, Any]
    ) -> dict[str, Any]:
        found = dict(self._preset.measure(episode, given, request, request["instruction"]))
        return {**found, "encoding": "jpeg"} if self._image_format == "jpeg" else found
