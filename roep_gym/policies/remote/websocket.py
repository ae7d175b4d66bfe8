"""A websocket with time limits, whose failures are infrastructure failures: `FrameSocket`."""

from __future__ import annotations

import socket
import struct

from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.protocol import State
from websockets.sync.client import connect

from roep_gym.error import InfrastructureError, ServerGoneError
from roep_gym.policies.openpi.codec import MAX_FRAME_BYTES
from roep_gym.policies.remote.address import ServerAddress, refusal

__all__ = ["FrameSocket"]


class FrameSocket:
    """One connection. After a failure it is closed: a late reply cannot answer the next request.

    Args:
        address: Where the server is.
        protocol: What it is expected to speak, one of `PROTOCOLS`.

    Raises:
        ServerGoneError: Nobody listens.
        InfrastructureError: Another server answers.
    """

    def __init__(self, address: ServerAddress, protocol: str) -> None:
        self._address, self._protocol = address, protocol
        self.url = f"ws://{address}"
        try:
            # Servers do not answer pings while they infer, and a proxy has no place between the two.
            self._websocket = connect(
                self.url,
                compression=None,
                max_size=MAX_FRAME_BYTES,
                open_timeout=address.connect_timeout,
                close_timeout=1.0,
                ping_interval=None,
                proxy=None,
            )
        except (OSError, WebSocketException) as error:
            gone = isinstance(error, OSError) and not isinstance(error, TimeoutError)
            raise refusal(protocol, address, self.url, error or type(error).__name__, gone) from error
        seconds, fraction = divmod(address.infer_timeout, 1.0)
        self._websocket.socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(seconds), int(fraction * 1e6))
        )

    @property
    def is_open(self) -> bool:
        """Whether the connection can still be used."""
        return self._websocket.state is State.OPEN

    def send(self, frame: bytes) -> None:
        """Send a frame.

        Raises:
            ServerGoneError: The server is gone, or does not read.
        """
        try:
            self._websocket.send(frame)
        except (OSError, ConnectionClosed) as error:
            raise self.failure(f"to take a request, got: {error}", gone=True) from error

    def receive(self, what: str, limit: str) -> str | bytes:
        """Return the next frame.

        Args:
            what: What is expected, for messages.
            limit: The field of the address that is the time limit.

        Raises:
            ServerGoneError: The server closed the connection.
            InfrastructureError: It took too long.
        """
        timeout: float = getattr(self._address, limit)
        try:
            return self._websocket.recv(timeout=timeout)
        except TimeoutError as error:
            raise self.failure(
                f"to send {what} within {timeout:g} s, got nothing; raise {limit} if it is only slow"
            ) from error
        except (OSError, ConnectionClosed) as error:
            # We close first where a frame is too large, of a server that is there.
            ours = isinstance(error, ConnectionClosed) and error.sent is not None and not error.rcvd_then_sent
            raise self.failure(
                f"to send {what}, but it closed the connection: {error}", gone=not ours
            ) from error

    def failure(self, expectation: str, gone: bool = False) -> InfrastructureError:
        """Close the connection and return the error that the server did not do what was expected."""
        self.close()
        kind = ServerGoneError if gone else InfrastructureError
        return kind(f"Expected the {self._protocol} server at {self.url} {expectation}.")

    def wrong_server(self, cause: object) -> InfrastructureError:
        """Close the connection and return the error that says who answers instead."""
        self.close()
        return refusal(self._protocol, self._address, self.url, cause, gone=False)

    def close(self) -> None:
        """Close the connection; may be called twice."""
        self._websocket.close()
