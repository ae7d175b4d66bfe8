"""A policy behind an HTTP server with the one route `/act`: OpenVLA, OpenVLA-OFT, VLA-Adapter, X-VLA.

`ActPolicy` asks the `deploy.py` of these models, unmodified. The three `FORMS` of the requests differ in where the
instruction is, how an array is written and what comes back. Arrays are those of the package json_numpy.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import numpy as np

from roep_gym.arguments import check_names
from roep_gym.error import InvalidInputError, bounded, shown
from roep_gym.policies.base import PolicyEpisode, PolicyInput
from roep_gym.policies.openpi.codec import read_array
from roep_gym.policies.presets.preset import find_preset
from roep_gym.policies.remote.address import ServerAddress, answering
from roep_gym.policies.remote.json_http import JsonServer
from roep_gym.policies.remote.policy import RemotePolicy
from roep_gym.typing import JSON, Array

__all__ = ["FORMS", "ActForm", "ActPolicy", "array_map", "read_array_map"]


@dataclass(frozen=True)
class ActForm:
    """How requests and replies of one kind of server are written.

    Attributes:
        instruction: Key of the instruction.
        write: How an array is written.
        actions: Key of the actions in a reply; empty: the reply is the actions.
        takes_unnorm_key: Whether a request may name the statistics by which actions are un-normalised.
    """

    instruction: str
    write: Callable[[Array], Any]
    actions: str = ""
    takes_unnorm_key: bool = False


def array_map(array: Array) -> dict[str, JSON]:
    """Return an array as json_numpy writes it."""
    return {
        "__numpy__": base64.b64encode(np.ascontiguousarray(array).tobytes()).decode(),
        "dtype": array.dtype.str,
        "shape": list(array.shape),
    }


def read_array_map(value: Mapping[str, Any]) -> Array:
    """Return the array that json_numpy wrote.

    Raises:
        InvalidInputError: The map is none of json_numpy, or holds something else than numbers.
    """
    try:
        data = base64.b64decode(value.get("__numpy__", ""), validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise InvalidInputError(f"Expected the data of an array in base64, got: {error}.") from error
    return read_array({b"data": data, b"dtype": value.get("dtype"), b"shape": value.get("shape")})


FORMS: Mapping[str, ActForm] = {
    "openvla": ActForm("instruction", array_map, takes_unnorm_key=True),
    "openvla-oft": ActForm("instruction", array_map),
    "x-vla": ActForm("language_instruction", lambda array: json.dumps(array_map(array)), actions="action"),
}
"""The forms by name; VLA-Adapter has that of OpenVLA-OFT."""


class _ActConnection:
    """Asks `/act`; the protocol knows no episodes."""

    is_open = True
    said: Mapping[str, Any] = {}

    def __init__(self, address: ServerAddress, form: ActForm) -> None:
        self._server, self._form = JsonServer(address, "act"), form
        self._server.ask("GET", "/openapi.json")  # says whether anybody is there
        if answering(address) != "act":
            raise self._server.wrong_server("no route /act")

    def begin(self, episode: PolicyEpisode) -> None:
        """Do nothing."""

    def infer(self, episode: PolicyEpisode, request: Mapping[str, Any]) -> Any:
        """Return the actions of a reply."""
        body = {
            key: self._form.write(value) if isinstance(value, np.ndarray) else value
            for key, value in request.items()
        }
        reply = self._server.ask("POST", "/act", body)
        value = reply.value
        if reply.status != HTTPStatus.OK or value == "error":
            raise self._server.failure(
                f"to answer /act, but its policy failed with the status {reply.status}: {bounded(reply.text, 500)}; "
                "its log says why, for example an un-normalisation key or a number of images that the checkpoint does "
                "not have"
            )
        if self._form.actions:
            if not isinstance(value, dict) or self._form.actions not in value:
                raise self._server.failure(
                    f"to answer /act with the entry {self._form.actions!r}, got {shown(value)}; is it the server of "
                    "this preset?"
                )
            value = value[self._form.actions]
        try:
            return _arrays(value)
        except InvalidInputError as error:
            raise self._server.failure(f"to answer /act with actions, got others: {error}") from error

    def end(self, episode: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing: a connection is closed after each reply."""


def _arrays(value: Any) -> Any:
    """Return a reply with the maps of json_numpy in it as arrays."""
    if isinstance(value, dict):
        return read_array_map(value)
    if isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
        return [read_array_map(entry) for entry in value]
    if not isinstance(value, list):
        raise InvalidInputError(f"Expected a list or an array, got {shown(value)}.")
    return value


class ActPolicy(RemotePolicy):
    """Asks a server with the route `/act`, one request at a time.

    Its contract is that of the preset, and so are the preparation of the frames and of the state, and what is done to
    the actions that come back.

    Args:
        preset: Which model the server runs: the name of a preset, or a YAML file of one's own.
        host: Host name or address of the server.
        port: Port of the server.
        form: How a request is written, one of `FORMS`; empty: as the preset says.
        executed_steps: Actions of a chunk that are executed; None: as the preset declares.
        image_size: Height and width of the rendered frames, in pixels; None: as the preset declares.
        connect_timeout: Time limit for the connection, in seconds.
        infer_timeout: Time limit for one reply, in seconds; the first one may include compilation.
        lost_timeout: Seconds that an evaluation waits for a server that is gone.
        unnorm_key: Key of the statistics that a server of OpenVLA is asked to apply; None: as the contract declares for
            the suite; empty: none is sent.
        extra: Further entries of every request, such as X-VLA's {"domain_id": 3, "steps": 10}.
        contract: Fields of the runtime contract that replace those of the preset.

    Raises:
        InvalidInputError: An argument is unknown or outside its range.
    """

    protocol, bridge = "act", "http-act"

    def __init__(
        self,
        preset: str,
        host: str = "127.0.0.1",
        port: int = 8000,
        form: str = "",
        executed_steps: int | None = None,
        image_size: int | None = None,
        connect_timeout: float = 10.0,
        infer_timeout: float = 120.0,
        lost_timeout: float = 300.0,
        unnorm_key: str | None = None,
        extra: Mapping[str, JSON] | None = None,
        contract: Mapping[str, Any] | None = None,
    ) -> None:
        found = find_preset(preset)
        form = form or str(found.arguments.get("form", ""))
        check_names("form of /act", [form], FORMS)
        super().__init__(
            ServerAddress(host, port, connect_timeout, infer_timeout, lost_timeout),
            found,
            executed_steps=executed_steps,
            image_size=image_size,
            contract=contract,
        )
        self._form, self._unnorm_key, self._extra = FORMS[form], unnorm_key, dict(extra or {})

    def _connect(self) -> _ActConnection:
        return _ActConnection(self.address, self._form)

    def _request(self, episode: PolicyEpisode, given: PolicyInput) -> dict[str, Any]:
        request: dict[str, Any] = {**self._extra, **self._preset.prepare(episode, given)}
        request[self._form.instruction] = given.instruction
        key = (
            self.contract.for_suite(episode.suite).unnorm_key
            if self._unnorm_key is None
            else self._unnorm_key
        )
        if self._form.takes_unnorm_key and key not in (None, "", "n/a", "any"):
            request["unnorm_key"] = key
        return request

    def _measure(
        self, episode: PolicyEpisode, given: PolicyInput, request: Mapping[str, Any]
    ) -> dict[str, Any]:
        found = dict(self._preset.measure(episode, given, request, request[self._form.instruction]))
        return {**found, "unnorm_key": request["unnorm_key"]} if "unnorm_key" in request else found
