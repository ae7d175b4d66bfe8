"""Requests of JSON over HTTP, with time limits, whose failures are infrastructure failures: `JsonServer`."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from roep_gym.error import InfrastructureError, ServerGoneError, bounded
from roep_gym.policies.openpi.codec import MAX_FRAME_BYTES
from roep_gym.policies.remote.address import ServerAddress, answering, refusal

__all__ = ["JsonReply", "JsonServer"]


class JsonReply(NamedTuple):
    """The status of a reply and its JSON; `text` is its content as it came."""

    status: int
    value: Any
    text: str


class JsonServer:
    """A server that is asked over a new connection each time, so that none is left from before its restart.

    Args:
        address: Where the server is.
        protocol: What it is expected to speak, one of `PROTOCOLS`.
    """

    def __init__(self, address: ServerAddress, protocol: str) -> None:
        self._address, self._protocol = address, protocol
        self.url = f"http://{address}"

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> JsonReply:
        """Send a request and return its reply, whatever its status.

        Raises:
            ServerGoneError: Nobody listens, or the server closed the connection without a reply.
            InfrastructureError: It took too long, or the reply is too long or no JSON.
        """
        address = self._address
        connection = http.client.HTTPConnection(address.host, address.port, timeout=address.connect_timeout)
        try:
            try:
                connection.connect()
            except OSError as error:
                raise refusal(self._protocol, address, self.url, error, gone=True) from error
            assert connection.sock is not None
            connection.sock.settimeout(address.infer_timeout)
            content = None if body is None else json.dumps(body).encode()
            connection.request(method, path, content, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read(MAX_FRAME_BYTES + 1)
        except TimeoutError as error:
            raise self.failure(
                f"to answer {path} within {address.infer_timeout:g} s, got nothing; raise infer_timeout if it is only "
                "slow"
            ) from error
        except (http.client.RemoteDisconnected, http.client.IncompleteRead, OSError) as error:
            if answering(address) not in (None, self._protocol):
                raise self.wrong_server(error) from error
            raise self.failure(
                f"to answer {path}, but it closed the connection: {bounded(str(error))}", gone=True
            ) from error
        except http.client.HTTPException as error:
            raise self.wrong_server(error) from error
        finally:
            connection.close()
        if len(text) > MAX_FRAME_BYTES:
            raise self.failure(f"to answer {path} with at most {MAX_FRAME_BYTES} bytes, got more")
        return self._reply(path, response.status, text.decode("utf-8", "replace"))

    def failure(self, expectation: str, gone: bool = False) -> InfrastructureError:
        """Return the error that the server did not do what was expected."""
        kind = ServerGoneError if gone else InfrastructureError
        return kind(f"Expected the {self._protocol} server at {self.url} {expectation}.")

    def wrong_server(self, cause: object) -> InfrastructureError:
        """Return the error that says who answers instead."""
        return refusal(self._protocol, self._address, self.url, cause, gone=False)

    def _reply(self, path: str, status: int, text: str) -> JsonReply:
        try:
            return JsonReply(status, json.loads(text), text)
        except (ValueError, RecursionError) as error:
            if status != http.HTTPStatus.OK:
                return JsonReply(status, None, text)
            raise self.failure(f"to answer {path} with JSON, got {bounded(text, 200)!r}") from error
