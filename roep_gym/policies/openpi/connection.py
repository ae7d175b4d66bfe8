"""One websocket connection to a policy server that speaks openpi's protocol.

The server sends a frame of metadata first; then each binary frame of ours is answered by one of its own, and a text
frame holds the traceback of a server that failed. Frames carry no number, so a connection on which a read has failed is
never used again: a late reply cannot answer the next request.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from typing import Any

from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.protocol import State
from websockets.sync.client import connect

from roep_gym.error import InfrastructureError, InvalidInputError
from roep_gym.policies.openpi import codec as openpi_codec

__all__ = ["OpenPIConnection"]


class OpenPIConnection:
    """Connects, reads the metadata, and then exchanges requests and replies.

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
                max_size=None,
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
        frame = openpi_codec.pack(request)
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
            raise self._failure(f"to send {what}, but its policy failed with: {lines[-1]}")
        try:
            message = openpi_codec.unpack(frame)
        except InvalidInputError as error:
            raise self._failure(f"to send {what} in openpi's format, got another frame: {error}") from error
        if not isinstance(message, dict):
            raise self._failure(f"to send {what} as a map, got a {type(message).__name__}")
        return message

    def _failure(self, expectation: str) -> InfrastructureError:
        self.close()
        return InfrastructureError(f"Expected the openpi server at {self._address} {expectation}.")
