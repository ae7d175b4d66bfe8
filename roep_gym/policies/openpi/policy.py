"""A policy behind a server that speaks openpi's websocket protocol.

`OpenPIPolicy` evaluates an unmodified server, such as openpi's `scripts/serve_policy.py --env LIBERO`, over an
`OpenPIConnection`. It is an implementation of its own of the client's side; openpi's packages are not needed.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.protocol import State
from websockets.sync.client import connect

from roep_gym.arguments import read_integer
from roep_gym.contracts import FIELDS
from roep_gym.error import InfrastructureError, InvalidInputError, bounded, shown
from roep_gym.policies.base import PolicyEpisode, PolicyInput
from roep_gym.policies.openpi.codec import MAX_FRAME_BYTES, pack, unpack
from roep_gym.policies.openpi.request import build_request, openpi_preset
from roep_gym.typing import Array

__all__ = ["OpenPIConnection", "OpenPIPolicy"]


class OpenPIConnection:
    """One connection: reads the server's metadata, and then exchanges requests and replies.

    The server sends a frame of metadata first; then each binary frame of ours is answered by one of its own, and a text
    frame holds the traceback of a server that failed. Frames carry no number, so a connection on which a read has
    failed is never used again: a late reply cannot answer the next request.

    Args:
        host: Host name or address of the server.
        port: Port of the server.
        connect_timeout: Time limit for the connection and the metadata, in seconds.
        infer_timeout: Time limit for sending a request and for its reply, in seconds.

    Raises:
        InfrastructureError: Nobody answers, or not as an openpi server does.
    """

    def __init__(self, host: str, port: int, *, connect_timeout: float, infer_timeout: float) -> None:
        self._address = f"ws://{host}:{port}"
        self._infer_timeout = infer_timeout
        try:
            # The server does not answer pings while it infers, and a proxy has no place between the two.
            self._websocket = connect(
                self._address,
                compression=None,
                max_size=MAX_FRAME_BYTES,
                open_timeout=connect_timeout,
                close_timeout=1.0,
                ping_interval=None,
                proxy=None,
            )
        except (OSError, WebSocketException) as error:
            raise InfrastructureError(
                f"Expected an openpi policy server at {self._address}, got: {error or type(error).__name__}; "
                "start it, or pass its host and port."
            ) from error
        seconds, fraction = divmod(infer_timeout, 1.0)
        self._websocket.socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(seconds), int(fraction * 1e6))
        )
        self.metadata: Mapping[str, Any] = self._receive("its metadata", connect_timeout, "connect_timeout")

    @property
    def is_open(self) -> bool:
        """Whether the connection can still be used."""
        return self._websocket.state is State.OPEN

    def infer(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a request and return its reply.

        Raises:
            InfrastructureError: The server failed, is gone, took too long or sent something else; the connection is
                then closed.
            InvalidInputError: The request holds a value that the format cannot.
        """
        frame = pack(request)
        try:
            self._websocket.send(frame)
        except (OSError, ConnectionClosed) as error:
            raise self._failure(f"to take a request, got: {error}") from error
        return self._receive("a reply", self._infer_timeout, "infer_timeout")

    def close(self) -> None:
        """Close the connection; may be called twice."""
        self._websocket.close()

    def _receive(self, what: str, timeout: float, limit: str) -> Mapping[str, Any]:
        try:
            frame = self._websocket.recv(timeout=timeout)
        except TimeoutError as error:
            raise self._failure(
                f"to send {what} within {timeout:g} s, got nothing; raise {limit} if it is only slow"
            ) from error
        except (OSError, ConnectionClosed) as error:
            raise self._failure(f"to send {what}, but it closed the connection: {error}") from error
        if isinstance(frame, str):
            lines = [line.strip() for line in frame.splitlines() if line.strip()] or ["no message"]
            raise self._failure(f"to send {what}, but its policy failed with: {bounded(lines[-1])}")
        try:
            message = unpack(frame)
        except InvalidInputError as error:
            raise self._failure(f"to send {what} in openpi's format, got another frame: {error}") from error
        if not isinstance(message, dict):
            raise self._failure(f"to send {what} as a map, got a {type(message).__name__}")
        return message

    def _failure(self, expectation: str) -> InfrastructureError:
        self.close()
        return InfrastructureError(f"Expected the openpi server at {self._address} {expectation}.")


class OpenPIPolicy:
    """Asks a policy server over one connection, one request at a time.

    Its contract is that of the checkpoint, as openpi evaluates it; it looks at the cameras of the preset and at what
    `extra_keys` names. The connection is made when an episode begins. After a failed exchange it is dropped, and the
    episodes that were open on it cannot go on: they have to begin again, on a new one.

    Args:
        host: Host name or address of the server.
        port: Port of the server.
        preset: Which checkpoint the server runs: the name of a preset, or a YAML file of one's own; "custom" sends the
            prompt and `extra_keys` alone.
        executed_steps: Actions of a chunk that are executed (openpi's `replan_steps`); None: as the preset declares.
        image_size: Height and width of the rendered frames, in pixels; None: as the preset declares.
        connect_timeout: Time limit for the connection, in seconds.
        infer_timeout: Time limit for one reply, in seconds; the first one may include compilation.
        extra_keys: Our observation by further request keys, for example
            {"observation/object_state": "object_state"}; sent as they are.
        send_episode: Whether a map "episode" with key, seed, step, suite, task, instruction and fields is sent.
        contract: Fields of the runtime contract that replace those of the preset.

    Raises:
        InvalidInputError: An argument is unknown or outside its range.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 8000,
        preset: str = "pi05",
        executed_steps: int | None = None,
        image_size: int | None = None,
        connect_timeout: float = 10.0,
        infer_timeout: float = 120.0,
        extra_keys: Mapping[str, str] | None = None,
        send_episode: bool = False,
        contract: Mapping[str, Any] | None = None,
    ) -> None:
        for name, seconds in (("connect_timeout", connect_timeout), ("infer_timeout", infer_timeout)):
            if not 0.0 < seconds < np.inf:
                raise InvalidInputError(f"Expected {name} to be positive and finite, got {seconds!r}.")
        self._preset = openpi_preset(preset)
        steps = {} if executed_steps is None else {"executed_steps": executed_steps}
        self.contract = self._preset.contract.replaced({**(contract or {}), **steps})
        if image_size is not None:
            self._preset = replace(self._preset, image_size=read_integer("image_size", image_size, 1))
        extra = set(extra_keys.values()) if extra_keys else set()
        named = sorted(name.rpartition("_")[0] for name in extra if name.endswith(("_image", "_depth")))
        wanted = self._preset.observations
        self.observations = replace(
            wanted,
            cameras=tuple(dict.fromkeys([*wanted.cameras, *named])),
            depth=any(name.endswith("_depth") for name in extra),
            object_state="object_state" in extra,
            controller_pose=wanted.controller_pose or "controller_pose" in extra,
        )
        self._host, self._port = host, port
        self._connect_timeout, self._infer_timeout = connect_timeout, infer_timeout
        self._extra_keys, self._send_episode = dict(extra_keys or {}), send_episode
        self._connection: OpenPIConnection | None = None
        self._metadata: Mapping[str, Any] = {}
        self._measured: Mapping[str, Any] = {}
        self._episodes: dict[str, PolicyEpisode] = {}

    def observed(self) -> Mapping[str, Any]:
        """Return what the first request of the connection was seen to hold, and what the server says of itself.

        The servers of openpi say nothing about their checkpoint, so its source and revision stay unknown.
        """
        said = {name: self._metadata[name] for name in FIELDS if name in self._metadata}
        return {**said, **self._measured}

    def begin(self, episode: PolicyEpisode) -> None:
        """Open an episode, and a connection where there is none.

        Raises:
            InfrastructureError: Nobody answers, or not as an openpi server does.
        """
        if self._connection is None or not self._connection.is_open:
            self._drop()
            self._connection = OpenPIConnection(
                self._host,
                self._port,
                connect_timeout=self._connect_timeout,
                infer_timeout=self._infer_timeout,
            )
            self._metadata, self._measured = self._connection.metadata, {}
        self._episodes[episode.key] = episode

    def act(self, inputs: Sequence[PolicyInput]) -> list[Array]:
        """Return the server's chunk for each input, as it sent it, asking for one after another.

        Raises:
            InfrastructureError: The server failed, is gone or took too long, now or earlier in the episode.
        """
        return [self._ask(given) for given in inputs]

    def end(self, episode: str) -> None:
        """Forget an episode."""
        self._episodes.pop(episode, None)

    def close(self) -> None:
        """Forget all episodes and close the connection."""
        self._drop()

    def _ask(self, given: PolicyInput) -> Array:
        if given.episode not in self._episodes or self._connection is None:
            raise InfrastructureError(
                f"Expected the connection to the openpi server at {self._host}:{self._port} on which the episode "
                f"{given.episode!r} began, but it was dropped after a failure; begin the episode again."
            )
        episode = self._episodes[given.episode]
        request = build_request(
            self._preset, episode, given, extra_keys=self._extra_keys, send_episode=self._send_episode
        )
        try:
            reply = self._connection.infer(request)
        except InfrastructureError:
            self._drop()
            raise
        if "actions" not in reply:
            self._drop()
            raise InfrastructureError(
                f"Expected the entry 'actions' in the reply of the openpi server at {self._host}:{self._port}, "
                f"got {shown(sorted(reply))}; the server's policy must return it."
            )
        if not self._measured:
            sent = self._preset.measure(episode, given, request, request["prompt"])
            self._measured = {"runtime_bridge": "openpi-websocket", **sent}
        try:
            chunk = np.asarray(reply["actions"])
        except ValueError:  # lists of different lengths
            return np.empty(0)  # malformed, as the rollout finds out
        return self._preset.actions(chunk)

    def _drop(self) -> None:
        """Close the connection and forget the episodes that began on it."""
        self._episodes.clear()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
