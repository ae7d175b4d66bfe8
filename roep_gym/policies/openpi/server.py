"""Any policy behind openpi's websocket protocol.

`OpenPIServer` answers several connections at once; what waits is asked in one call. `metadata` is what it says of the
policy first, `client_arguments` are the arguments with which the policy `openpi` reaches it.

openpi's protocol knows no episodes. `OpenPISession` tells those of one connection apart by the map "episode" of a
request where there is one; without it a connection is one episode after another, and "reset" or another prompt begins
the next. `LAYOUTS` are the ways in which a request holds the observation.
"""

from __future__ import annotations

import http
import itertools
import logging
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve
from websockets.typing import Origin

from roep_gym import escape, seeding
from roep_gym.arguments import check_names
from roep_gym.error import InfrastructureError, InvalidInputError, RoepError, bounded, shown
from roep_gym.policies.base import ObservationRequest, Policy, PolicyEpisode, PolicyInput
from roep_gym.policies.batching import PolicyBatcher
from roep_gym.policies.conversions import quaternion, rotated_180
from roep_gym.policies.openpi.codec import MAX_FRAME_BYTES, pack, unpack
from roep_gym.policies.openpi.request import CUSTOM
from roep_gym.policies.presets.preset import find_preset
from roep_gym.typing import Array

__all__ = [
    "LAYOUTS",
    "MAX_OPEN_EPISODES",
    "OpenPIServer",
    "OpenPISession",
    "client_arguments",
    "metadata",
]

MAX_OPEN_EPISODES = 64
"""Episodes that a connection can have open; the one that was not asked about for longest is ended for a new one."""

_PREFIX = "observation/"
_LIBERO = find_preset("pi05")
_LIBERO_PROPRIO = (
    *(f"eef_pos_{axis}" for axis in "xyz"),
    *(f"eef_quat_{axis}" for axis in "xyzw"),
    "gripper_qpos_0",
    "gripper_qpos_1",
)
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
        layout: How a request holds the observation, one of `LAYOUTS`.
        seed: Seed of episodes for which a client sends none.
        origins: Values of the header Origin, such as "https://example.org", whose web pages may connect. A browser
            sends the header for every page that is open in it, other clients send none and are always answered.

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
        origins: Sequence[str] = (),
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
                origins=[None, *map(Origin, origins)],
                compression=None,
                max_size=MAX_FRAME_BYTES,
                max_queue=1,
                ping_timeout=None,  # a client that simulates does not answer pings
                close_timeout=1.0,
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
        return int(self._server.socket.getsockname()[1])

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
            websocket.send(pack(metadata(policy)))
            for frame in websocket:
                if self._closing:
                    break
                websocket.send(_reply(session, frame))
        except ConnectionClosed:
            pass  # the client is gone
        except Exception as error:  # noqa: BLE001 (policies raise anything; the client gets it)
            reason = bounded(str(error) if isinstance(error, RoepError) else traceback.format_exc())
            _LOGGER.error("%s", escape.terminal(reason))
            _refuse(websocket, reason)
        finally:
            session.close()
            del self._connections[websocket]


@dataclass
class _Open:
    """An open episode and the control step of its next decision, for clients that do not tell it."""

    episode: PolicyEpisode
    step: int = 0


class OpenPISession:
    """Answers the requests of one connection, whose number is part of the key of its episodes.

    The policy is for this connection alone; layout and seed are those of `OpenPIServer`.
    """

    def __init__(self, policy: Policy, number: int, layout: str = "named", seed: int = 0) -> None:
        check_names("layout of requests", [layout], LAYOUTS)
        self._policy, self._number, self._layout, self._seed = policy, number, layout, seed
        self._episodes: dict[str, _Open] = {}
        self._begun = 0

    def infer(self, request: Any) -> dict[str, Any]:
        """Return the reply to a request: its "actions" are the chunk of the policy.

        Raises:
            InvalidInputError: The request is no map, or lacks something.
            Exception: What the policy raises.
        """
        if not isinstance(request, dict):
            raise InvalidInputError(f"Expected a request to be a map, got a {type(request).__name__}.")
        observation = LAYOUTS[self._layout](request, self._policy.observations)
        told = _entry(request, "episode", dict, {})
        opened = self._open_episode(request, told)
        step = _entry(told, "step", int, opened.step)
        given = PolicyInput(
            opened.episode.key, step, _entry(request, "prompt", str, opened.episode.instruction), observation
        )
        chunk = np.asarray(self._policy.act([given])[0])
        executed = self._policy.contract.executed_steps
        opened.step = step + (executed if isinstance(executed, int) else chunk.shape[0] if chunk.ndim else 1)
        return {"actions": chunk}

    def close(self) -> None:
        """End the episodes that are open."""
        self._policy.close()

    def _open_episode(self, request: Mapping[str, Any], told: Mapping[str, Any]) -> _Open:
        """Return the episode of a request, which may begin with it; `told` is what the request says of its episode."""
        key = _entry(told, "key", str, "")
        opened = self._episodes.pop(key, None)
        step = _entry(told, "step", int, 0 if opened is None else opened.step)
        if opened is None:
            if step > 0:
                raise InvalidInputError(
                    f"Expected the episode {shown(key)} to begin with its step 0, got step {step}; begin it again on "
                    f"this connection, which has at most {MAX_OPEN_EPISODES} episodes open."
                )
            opened = self._begin(key, told, request)
        elif (
            (step == 0 and "step" in told)
            or request.get("reset") is True
            or (not key and _entry(request, "prompt", str, "") != opened.episode.instruction)
        ):
            self._policy.end(opened.episode.key)
            opened = self._begin(key, told, request)
        self._episodes[key] = opened  # the last one is the one asked about last
        return opened

    def _begin(self, key: str, told: Mapping[str, Any], request: Mapping[str, Any]) -> _Open:
        while len(self._episodes) >= MAX_OPEN_EPISODES:
            self._policy.end(self._episodes.pop(next(iter(self._episodes))).episode.key)
        prompt = _entry(request, "prompt", str, "")
        fields = {}
        for name, entries in _entry(told, "fields", dict, {}).items():
            if not (isinstance(entries, list) and all(isinstance(entry, str) for entry in entries)):
                raise InvalidInputError(
                    f"Expected the fields of {shown(name)} as names, got {shown(entries)}."
                )
            fields[name] = tuple(entries)
        if self._layout == "libero":
            fields["proprio"] = _LIBERO_PROPRIO
        episode = PolicyEpisode(
            key=f"{self._number}:{key or self._begun}",
            suite=_entry(told, "suite", str, ""),
            task=_entry(told, "task", str, ""),
            instruction=_entry(told, "instruction", str, prompt),
            seed=_entry(told, "seed", int, seeding.seed("serve", self._seed, self._number, self._begun)),
            fields=fields,
        )
        self._begun += 1
        self._policy.begin(episode)
        return _Open(episode)


def metadata(policy: Policy) -> dict[str, Any]:
    """Return what a server says of its policy: what runs, by contract field, and what it declares and looks at."""
    return {
        **policy.observed(),
        "contract": policy.contract.to_dict(),
        "observations": asdict(policy.observations),
    }


def client_arguments(policy: Policy, host: str, port: int) -> Mapping[str, Any]:
    """Return the arguments with which the policy `openpi` evaluates this one behind a server of the layout "named"."""
    custom = CUSTOM.contract.to_dict()
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
    reply = session.infer(unpack(frame))
    reply["server_timing"] = {"infer_ms": 1000.0 * (time.monotonic() - started)}
    return pack(reply)


def _refuse(websocket: ServerConnection, reason: str) -> None:
    """Send the reason as text and close the connection, as openpi's server does."""
    try:
        websocket.send(reason)
        websocket.close(CloseCode.INTERNAL_ERROR, "The reason is in the previous frame.")
    except ConnectionClosed:
        pass  # the client did not wait for it


def _answer_health_check(connection: ServerConnection, request: Request) -> Response | None:
    return connection.respond(http.HTTPStatus.OK, "OK\n") if request.path == "/healthz" else None


def needed_observations(wanted: ObservationRequest) -> list[str]:
    """Return the names of the observations that a policy asks for, without "proprio", which all have."""
    kinds = ("image", "depth") if wanted.depth else ("image",)
    names = [f"{camera}_{kind}" for camera in wanted.cameras for kind in kinds]
    return [*names, *(name for name in ("object_state", "controller_pose") if getattr(wanted, name))]


def _named(request: Mapping[str, Any], wanted: ObservationRequest) -> dict[str, Array]:
    """Return every array of a request by its key, without the prefix "observation/"."""
    given = {
        key.removeprefix(_PREFIX): value for key, value in request.items() if isinstance(value, np.ndarray)
    }
    for name in needed_observations(wanted):
        if name not in given:
            raise InvalidInputError(
                f"Expected the policy's observation {name!r} under the key '{_PREFIX}{name}', got "
                f"{shown(sorted(given))}."
            )
    return given


def _libero(request: Mapping[str, Any], wanted: ObservationRequest) -> dict[str, Array]:
    """Return the observation of a request as openpi's LIBERO client sends it, turned back into ours."""
    observation: dict[str, Array] = {}
    for key, sent in _LIBERO.frames.items():
        if sent.camera in wanted.cameras:
            observation[f"{sent.camera}_image"] = rotated_180(_array(request, key, 3))
    state = _array(request, _LIBERO.state_key, 1).astype(np.float64)
    if state.shape != (8,):
        raise InvalidInputError(f"Expected {_LIBERO.state_key!r} of the shape (8,), got {state.shape}.")
    proprio = np.concatenate([state[:3], quaternion(state[3:6]), state[6:]])
    observation["proprio"] = proprio.astype(np.float32)
    lacking = [name for name in needed_observations(wanted) if name not in observation]
    if lacking:
        raise InvalidInputError(
            f"Expected a policy that looks at what openpi's LIBERO client sends, but it asks for {lacking} as well; "
            "serve it with the layout 'named'."
        )
    return observation


LAYOUTS: Mapping[str, Callable[[Mapping[str, Any], ObservationRequest], dict[str, Array]]] = {
    "named": _named,
    "libero": _libero,
}
"""How a request holds the observation: under our names, or as openpi's LIBERO client sends it."""


def _entry(source: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    value = source.get(name, default)
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidInputError(
            f"Expected {name!r} of a request to be a {kind.__name__}, got a {type(value).__name__}."
        )
    if isinstance(value, int) and value < 0:
        raise InvalidInputError(f"Expected {name!r} of a request to be at least 0, got {value}.")
    return value


def _array(request: Mapping[str, Any], key: str, dimensions: int) -> Array:
    value = request.get(key)
    if not isinstance(value, np.ndarray) or value.ndim != dimensions:
        raise InvalidInputError(
            f"Expected an array of {dimensions} dimensions under the key {key!r}, got "
            f"{type(value).__name__ if not isinstance(value, np.ndarray) else value.shape} among "
            f"{shown(sorted(request))}."
        )
    return value
