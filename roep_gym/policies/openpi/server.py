"""Any policy behind openpi's websocket protocol.

`OpenPIServer` answers several connections at once; what waits is asked in one call. `metadata` is what it says of the
policy first, `client_arguments` are the arguments with which the policy `openpi` reaches it.
"""

from __future__ import annotations

import http
import itertools
import logging
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from roep_gym.error import InfrastructureError, InvalidInputError, RoepError
from roep_gym.policies.base import Policy
from roep_gym.policies.batching import PolicyBatcher
from roep_gym.policies.openpi import codec as openpi_codec
from roep_gym.policies.openpi.request import PRESETS
from roep_gym.policies.openpi.session import OpenPISession, needed_observations

__all__ = ["OpenPIServer", "client_arguments", "metadata"]

_CLOSE_SECONDS = 1.0
_LOGGER = logging.getLogger(__name__)
_CONNECTIONS = logging.getLogger(f"{__name__}.connections")
_CONNECTIONS.addHandler(logging.NullHandler())  # a probe that connects and leaves is no news


class OpenPIServer:
    """Serves a policy; `GET /healthz` is answered with OK.

    After a failed request the client is sent the reason as text, as openpi's server does, and its connection is closed;
    the other connections go on.

    Args:
        batcher: The policy.
        host: Address to listen at.
        port: Port to listen at; 0: a free one.
        layout: How a request holds the observation, one of `roep_gym.policies.openpi.session.LAYOUTS`.
        seed: Seed of episodes for which a client sends none.

    Raises:
        InfrastructureError: The address or port cannot be had.
    """

    def __init__(
        self,
        batcher: PolicyBatcher,
        host: str = "127.0.0.1",
        port: int = 8000,
        *,
        layout: str = "named",
        seed: int = 0,
    ) -> None:
        self._batcher, self._layout, self._seed = batcher, layout, seed
        self._numbers = itertools.count()
        self._closing = False
        self._connections: dict[ServerConnection, threading.Thread] = {}
        try:
            self._server = serve(
                self._handle,
                host,
                port,
                compression=None,
                max_size=None,
                ping_timeout=None,  # a client that simulates does not answer pings
                close_timeout=_CLOSE_SECONDS,
                process_request=_answer_health_check,
                logger=_CONNECTIONS,
            )
        except OSError as error:
            raise InfrastructureError(
                f"Expected to listen at {host}:{port}, got: {error}; take another --host or --port."
            ) from error

    @property
    def port(self) -> int:
        """The port at which it listens."""
        port: int = self._server.socket.getsockname()[1]
        return port

    def serve_forever(self) -> None:
        """Answer until `close` is called from another thread."""
        self._server.serve_forever()

    def close(self) -> None:
        """Close all connections, when their last reply is sent; the policy stays."""
        self._closing = True
        self._server.shutdown()
        for websocket, thread in list(self._connections.items()):
            websocket.close(CloseCode.GOING_AWAY)
            thread.join()

    def _handle(self, websocket: ServerConnection) -> None:
        self._connections[websocket] = threading.current_thread()
        policy = self._batcher.connect()
        session = OpenPISession(policy, next(self._numbers), self._layout, self._seed)
        try:
            websocket.send(openpi_codec.pack(metadata(policy)))
            for frame in websocket:
                if self._closing:
                    break
                websocket.send(_reply(session, frame))
        except ConnectionClosed:
            pass  # the client is gone
        except Exception as error:
            known = isinstance(error, RoepError)
            _LOGGER.error("%s", error, exc_info=not known)
            _refuse(websocket, str(error) if known else traceback.format_exc())
        finally:
            session.close()
            del self._connections[websocket]


def metadata(policy: Policy) -> dict[str, Any]:
    """Return what a server says of its policy: what runs, by contract field, and what it declares and looks at."""
    return {
        **policy.observed(),
        "contract": policy.contract.to_dict(),
        "observations": asdict(policy.observations),
    }


def client_arguments(policy: Policy, host: str, port: int) -> Mapping[str, Any]:
    """Return the arguments with which the policy `openpi` evaluates this one behind a server of the layout "named"."""
    custom = PRESETS["custom"].contract.to_dict()
    declared = {**policy.contract.to_dict(), "runtime_bridge": custom["runtime_bridge"]}
    arguments: dict[str, Any] = {
        "host": host,
        "port": port,
        "preset": "custom",
        "extra_keys": {
            f"observation/{name}": name for name in ("proprio", *needed_observations(policy.observations))
        },
        "send_episode": True,
        "contract": {name: value for name, value in declared.items() if value != custom[name]},
    }
    if policy.observations.cameras:
        arguments["image_size"] = policy.observations.image_size
    return arguments


def _reply(session: OpenPISession, frame: str | bytes) -> bytes:
    started = time.monotonic()
    if isinstance(frame, str):
        raise InvalidInputError("Expected a request in a binary frame, got a text frame.")
    reply = session.infer(openpi_codec.unpack(frame))
    reply["server_timing"] = {"infer_ms": 1000.0 * (time.monotonic() - started)}
    return openpi_codec.pack(reply)


def _refuse(websocket: ServerConnection, reason: str) -> None:
    """Send the reason as text and close the connection, as openpi's server does."""
    try:
        websocket.send(reason)
        websocket.close(CloseCode.INTERNAL_ERROR, "The reason is in the previous frame.")
    except ConnectionClosed:
        pass  # the client did not wait for it


def _answer_health_check(connection: ServerConnection, request: Request) -> Response | None:
    return connection.respond(http.HTTPStatus.OK, "OK\n") if request.path == "/healthz" else None
