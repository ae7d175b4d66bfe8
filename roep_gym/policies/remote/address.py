"""Where a policy server is, how long it may take, and who answers there.

`ServerAddress` holds what is no part of a plan's identity, `REACHING` its names; `answering` finds out which of the
`PROTOCOLS` a server speaks, and `refusal` makes of it the message for a client that met the wrong one.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple

from roep_gym.arguments import read_integer
from roep_gym.error import InfrastructureError, InvalidInputError, ServerGoneError, bounded

__all__ = ["PROTOCOLS", "REACHING", "Protocol", "ServerAddress", "answering", "refusal"]


@dataclass(frozen=True)
class ServerAddress:
    """How a server is reached.

    Attributes:
        host: Host name or address.
        port: Port.
        connect_timeout: Time limit for the connection, in seconds.
        infer_timeout: Time limit for sending a request and for its reply, in seconds.
        lost_timeout: Seconds that an evaluation waits for a server that is gone.

    Raises:
        InvalidInputError: A time limit is not positive and finite, or the port no port.
    """

    host: str
    port: int
    connect_timeout: float
    infer_timeout: float
    lost_timeout: float

    def __post_init__(self) -> None:
        read_integer("port", self.port, 1, 65535)
        for name in ("connect_timeout", "infer_timeout", "lost_timeout"):
            seconds = getattr(self, name)
            if not 0.0 < seconds < float("inf"):
                raise InvalidInputError(f"Expected {name} to be positive and finite, got {seconds!r}.")

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


REACHING: tuple[str, ...] = tuple(field.name for field in fields(ServerAddress))
"""Arguments of a policy that say how its server is reached, and nothing about what it answers."""


class Protocol(NamedTuple):
    """A protocol of policy servers: what its servers are called, and the policy that asks them (empty: none)."""

    server: str
    policy: str


PROTOCOLS: Mapping[str, Protocol] = {
    "openpi": Protocol("an openpi policy server", "openpi"),
    "vla-eval": Protocol("a model server of vla-evaluation-harness", "vla-eval"),
    "roboeval": Protocol("a policy server of roboeval", "roboeval"),
    "act": Protocol("an HTTP policy server with /act", "act"),
    "grpc": Protocol("a gRPC server, such as LeRobot's policy server", ""),
    "websocket": Protocol("a websocket server of an unknown protocol", ""),
    "http": Protocol("an HTTP server without /act and /predict", ""),
}
"""What can answer at a port."""

_MAX_PAGE = 2**20


def answering(address: ServerAddress) -> str | None:
    """Return which of the `PROTOCOLS` a server speaks; None: nobody answers, or nothing that is known.

    Only pages that change nothing are asked for: those that tell whether a server is well, and the list of its routes.
    """
    try:
        health = _page(address, "/healthz")
        if health.status == http.HTTPStatus.OK and health.text.strip() == "OK":
            return "openpi"
        if health.status == http.HTTPStatus.UPGRADE_REQUIRED:
            page = _page(address, "/health")
            known = page.status == http.HTTPStatus.OK and _json(page.text) == {"status": "ok"}
            return "vla-eval" if known else "websocket"
        routes = _json(_page(address, "/openapi.json").text)
        paths = routes.get("paths", {}) if isinstance(routes, dict) else {}
        if "/predict" in paths and "/info" in paths:
            return "roboeval"
        if "/act" in paths or _page(address, "/act").status == http.HTTPStatus.METHOD_NOT_ALLOWED:
            return "act"
    except http.client.HTTPException:  # it speaks, but not HTTP/1
        return "grpc" if _speaks_http2(address) else None
    except OSError:
        return "grpc" if _speaks_http2(address) else None
    return "http"


def refusal(
    expected: str, address: ServerAddress, url: str, cause: object, gone: bool
) -> InfrastructureError:
    """Return the error of a client that did not find the server it expected; it names the one that answers.

    Args:
        expected: The protocol of the client, one of `PROTOCOLS`.
        address: Where it was expected.
        url: The address as the protocol writes it.
        cause: What went wrong.
        gone: Whether nobody listens, so that waiting may help.
    """
    found = None if gone else answering(address)
    server = PROTOCOLS[expected].server
    if found is not None and found != expected:
        other = PROTOCOLS[found]
        remedy = f"evaluate it with --policy {other.policy}, or pass" if other.policy else "pass"
        return InfrastructureError(
            f"Expected {server} at {url}, but {other.server} answers there; {remedy} the port of the right server."
        )
    kind = ServerGoneError if gone else InfrastructureError
    reason = bounded(str(cause)) or type(cause).__name__
    return kind(f"Expected {server} at {url}, got: {reason}; start it, or pass its host and port.")


class _Page(NamedTuple):
    status: int
    text: str


def _page(address: ServerAddress, path: str) -> _Page:
    connection = http.client.HTTPConnection(address.host, address.port, timeout=address.connect_timeout)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return _Page(response.status, response.read(_MAX_PAGE).decode("utf-8", "replace"))
    finally:
        connection.close()


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _speaks_http2(address: ServerAddress) -> bool:
    """Tell whether a server answers the beginning of HTTP/2 with a frame of settings, as those of gRPC do."""
    settings_type = 4
    try:
        with socket.create_connection((address.host, address.port), address.connect_timeout) as connection:
            connection.sendall(
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, settings_type, 0, 0, 0, 0, 0])
            )
            frame = connection.recv(9)
    except OSError:
        return False
    return len(frame) == 9 and frame[3] == settings_type
