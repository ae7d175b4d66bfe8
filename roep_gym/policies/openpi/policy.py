"""A policy behind a server that speaks openpi's websocket protocol.

`OpenPIPolicy` evaluates an unmodified server, such as openpi's `scripts/serve_policy.py --env LIBERO`, over an
`OpenPIConnection`. It is an implementation of its own of the client's side; openpi's packages are not needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from roep_gym.error import InfrastructureError, InvalidInputError, ServerGoneError, bounded, shown
from roep_gym.policies.base import PolicyEpisode, PolicyInput
from roep_gym.policies.openpi.codec import pack, unpack
from roep_gym.policies.openpi.request import build_request, openpi_preset
from roep_gym.policies.remote.address import ServerAddress
from roep_gym.policies.remote.policy import RemotePolicy
from roep_gym.policies.remote.websocket import FrameSocket

__all__ = ["OpenPIConnection", "OpenPIPolicy"]


class OpenPIConnection:
    """One connection: reads the server's metadata, and then exchanges requests and replies.

    The server sends a frame of metadata first; then each binary frame of ours is answered by one of its own, and a text
    frame holds the traceback of a server that failed. Frames carry no number, so a connection on which a read has
    failed is never used again.

    Args:
        address: Where the server is.

    Raises:
        InfrastructureError: Nobody answers, or not as an openpi server does.
    """

    def __init__(self, address: ServerAddress) -> None:
        self._socket = FrameSocket(address, "openpi")
        try:
            self.said: Mapping[str, Any] = self._receive("its metadata", "connect_timeout")
        except ServerGoneError:
            raise
        except InfrastructureError as error:
            raise self._socket.wrong_server(error) from error
        if {"type", "payload"} <= set(self.said):
            raise self._socket.wrong_server("a message of another protocol")

    @property
    def is_open(self) -> bool:
        """Whether the connection can still be used."""
        return self._socket.is_open

    def begin(self, episode: PolicyEpisode) -> None:
        """Do nothing: the protocol knows no episodes."""

    def infer(self, episode: PolicyEpisode, request: Mapping[str, Any]) -> Any:
        """Send a request and return the actions of its reply.

        Raises:
            InfrastructureError: The server failed, is gone, took too long or sent something else; the connection is
                then closed.
            InvalidInputError: The request holds a value that the format cannot.
        """
        self._socket.send(pack(request))
        reply = self._receive("a reply", "infer_timeout")
        if "actions" not in reply:
            raise self._socket.failure(
                f"to send the entry 'actions' in a reply, got {shown(sorted(reply))}; the server's policy must return "
                "it"
            )
        return reply["actions"]

    def end(self, episode: str) -> None:
        """Do nothing: the protocol knows no episodes."""

    def close(self) -> None:
        """Close the connection; may be called twice."""
        self._socket.close()

    def _receive(self, what: str, limit: str) -> Mapping[str, Any]:
        frame = self._socket.receive(what, limit)
        if isinstance(frame, str):
            lines = [line.strip() for line in frame.splitlines() if line.strip()] or ["no message"]
            raise self._socket.failure(f"to send {what}, but its policy failed with: {bounded(lines[-1])}")
        try:
            message = unpack(frame)
        except InvalidInputError as error:
            raise self._socket.failure(
                f"to send {what} in openpi's format, got another frame: {error}"
            ) from error
        if not isinstance(message, dict):
            raise self._socket.failure(f"to send {what} as a map, got a {type(message).__name__}")
        return message


class OpenPIPolicy(RemotePolicy):
    """Asks a policy server over one connection, one request at a time.

    Its contract is that of the checkpoint, as openpi evaluates it; it looks at the cameras of the preset and at what
    `extra_keys` names. openpi's own servers say nothing about their checkpoint, so its source and revision stay
    unknown.

    Args:
        host: Host name or address of the server.
        port: Port of the server.
        preset: Which checkpoint the server runs: the name of a preset, or a YAML file of one's own; "custom" sends the
            prompt and `extra_keys` alone.
        executed_steps: Actions of a chunk that are executed (openpi's `replan_steps`); None: as the preset declares.
        image_size: Height and width of the rendered frames, in pixels; None: as the preset declares.
        connect_timeout: Time limit for the connection, in seconds.
        infer_timeout: Time limit for one reply, in seconds; the first one may include compilation.
        lost_timeout: Seconds that an evaluation waits for a server that is gone.
        extra_keys: Our observation by further request keys, for example
            {"observation/object_state": "object_state"}; sent as they are.
        send_episode: Whether a map "episode" with key, seed, step, suite, task, instruction and fields is sent.
        contract: Fields of the runtime contract that replace those of the preset.

    Raises:
        InvalidInputError: An argument is unknown or outside its range.
    """

    protocol, bridge = "openpi", "openpi-websocket"

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 8000,
        preset: str = "pi05",
        executed_steps: int | None = None,
        image_size: int | None = None,
        connect_timeout: float = 10.0,
        infer_timeout: float = 120.0,
        lost_timeout: float = 300.0,
        extra_keys: Mapping[str, str] | None = None,
        send_episode: bool = False,
        contract: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            ServerAddress(host, port, connect_timeout, infer_timeout, lost_timeout),
            openpi_preset(preset),
            executed_steps=executed_steps,
            image_size=image_size,
            contract=contract,
        )
        extra = set(extra_keys.values()) if extra_keys else set()
        named = sorted(name.rpartition("_")[0] for name in extra if name.endswith(("_image", "_depth")))
        wanted = self.observations
        self.observations = replace(
            wanted,
            cameras=tuple(dict.fromkeys([*wanted.cameras, *named])),
            depth=any(name.endswith("_depth") for name in extra),
            object_state="object_state" in extra,
            controller_pose=wanted.controller_pose or "controller_pose" in extra,
        )
        self._extra_keys, self._send_episode = dict(extra_keys or {}), send_episode

    def _connect(self) -> OpenPIConnection:
        return OpenPIConnection(self.address)

    def _request(self, episode: PolicyEpisode, given: PolicyInput) -> dict[str, Any]:
        return build_request(
            self._preset, episode, given, extra_keys=self._extra_keys, send_episode=self._send_episode
        )

    def _measure(
        self, episode: PolicyEpisode, given: PolicyInput, request: Mapping[str, Any]
    ) -> dict[str, Any]:
        return dict(self._preset.measure(episode, given, request, request["prompt"]))
