"""Policy servers in a thread of the test, with the protocols of other tools and with faults.

Each answers with the mean of the first frame, so that an answer shows what arrived. A fault is "raises", "closes",
"nan", "ragged", "garbage" or "no actions"; `Asked` holds what a server was sent.
"""

from __future__ import annotations

import base64
import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgpack
import numpy as np
from PIL import Image
from websockets.sync.server import ServerConnection
from websockets.sync.server import serve as serve_websocket

from roep_gym.policies.openpi.codec import pack, unpack

CHUNK = 8


@dataclass
class Asked:
    """What a server was sent: the observations, and the messages or paths in their order."""

    observations: list[dict[str, Any]] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    port: int = 0


def answer(frame: np.ndarray, fault: str = "", width: int = 7, steps: int = CHUNK) -> Any:
    """Return a chunk whose numbers are the mean of the frame, in [0, 1]; or a broken one."""
    chunk = np.full((steps, width), frame.mean() / 255.0)
    if width == 20:
        chunk[:, 3:9] = [1, 0, 0, 0, 1, 0]
    if fault == "nan":
        chunk[0, 2] = np.nan
    elif fault == "ragged":
        return [[0.0] * width, [0.0]]
    return chunk


@contextmanager
def vla_eval(
    fault: str = "",
    *,
    chunked: bool = True,
    hello: dict[str, Any] | None = None,
    seq_shift: int = 0,
    port: int = 0,
) -> Iterator[Asked]:
    """Speak vla-evaluation-harness's protocol; `hello` adds to the handshake, or replaces a part of it."""
    asked, connections = Asked(), list[ServerConnection]()

    def handle(websocket: ServerConnection) -> None:
        connections.append(websocket)
        for frame in websocket:
            message = msgpack.unpackb(frame)
            assert set(message) == {"type", "payload", "seq", "timestamp"}
            kind, seq = message["type"], message["seq"] + seq_shift
            asked.kinds.append(kind)

            def reply(kind: str, payload: dict[str, Any], seq: int = seq) -> None:
                websocket.send(
                    pack({"type": kind, "payload": payload, "seq": seq, "timestamp": 0.0}, text_keys=True)
                )

            if kind == "hello":
                said = {
                    "protocol_version": 1,
                    "harness_version": "0.8.0",
                    "model_server": "Fake",
                    "capabilities": {},
                }
                reply("hello", {**said, **(hello or {})}, message["seq"])
            elif kind == "observation":
                observation = unpack(frame, text_keys=True)["payload"]
                asked.observations.append(observation)
                chunk = answer(_frame(observation["images"]["agentview"]), fault)
                if fault == "raises":
                    reply("error", {"error": "observation_failed: ValueError: had enough"})
                elif fault == "closes":
                    websocket.close()
                elif fault == "garbage":
                    websocket.send(b"\xc1")
                elif fault == "no actions":
                    reply("action", {"state": [1.0]})
                else:
                    reply("action", {"actions": chunk[0] if chunked and fault != "ragged" else chunk})

    def health(connection: ServerConnection, request: Any) -> Any:
        return connection.respond(200, '{"status": "ok"}\n') if request.path == "/health" else None

    with serve_websocket(handle, "127.0.0.1", port, process_request=health, max_size=None) as server:
        asked.port = server.socket.getsockname()[1]
        with _running(server):
            yield asked
        for connection in connections:
            connection.close()


@contextmanager
def roboeval(
    fault: str = "", *, info: dict[str, Any] | None = None, ready: bool = True, port: int = 0
) -> Iterator[Asked]:
    """Speak roboeval's protocol; `info` adds to what the server says of itself."""

    def route(method: str, path: str, body: Any, asked: Asked) -> tuple[int, Any]:
        if path == "/openapi.json":
            return 200, {"paths": {"/health": {}, "/info": {}, "/reset": {}, "/predict": {}}}
        if path == "/info":
            return 200, {
                "model_id": "tiny",
                "action_space": {"type": "eef_delta", "dim": 7},
                "obs_requirements": {"cameras": ["primary"], "state_dim": 8},
                **(info or {}),
            }
        if path == "/health" or not ready:
            return (200, {"ready": True}) if ready else (503, {"status": "loading", "ready": False})
        if path == "/reset":
            return 200, {"success": True}
        if path != "/predict":
            return 404, {"detail": "Not Found"}
        observation = body["obs"]
        asked.observations.append(observation)
        frame = _file(base64.b64decode(observation["images"]["primary"]))
        if fault == "raises":
            return 500, {"error": "had enough", "traceback": "..."}
        if fault == "no actions":
            return 200, {"chunk_size": 1}
        return 200, {"actions": _plain(answer(frame, fault))}

    with _http(route, fault, port) as asked:
        yield asked


@contextmanager
def act(
    fault: str = "", form: str = "openvla-oft", *, documented: bool = True, port: int = 0
) -> Iterator[Asked]:
    """Speak `/act` as OpenVLA, OpenVLA-OFT or X-VLA do; `documented`: whether the routes are listed."""

    def route(method: str, path: str, body: Any, asked: Asked) -> tuple[int, Any]:
        if path == "/openapi.json" and documented:
            return 200, {"paths": {"/act": {}}}
        if path != "/act":
            return 404, {"detail": "Not Found"}
        if method != "POST":
            return 405, {"detail": "Method Not Allowed"}
        asked.observations.append(body)
        if form == "x-vla":
            frame = _map(json.loads(body["image0"]))
            if fault == "raises":
                return 400, {"error": "had enough"}
            return 200, {} if fault == "no actions" else {"action": _plain(answer(frame, fault, 20, 30))}
        if fault in ("raises", "no actions"):
            return 200, "error"
        chunk = answer(_map(body["image" if form == "openvla" else "full_image"]), fault)
        if fault == "ragged":
            return 200, chunk
        rows = [
            {"__numpy__": base64.b64encode(row.tobytes()).decode(), "dtype": "<f8", "shape": [len(row)]}
            for row in chunk
        ]
        return 200, rows[0] if form == "openvla" else rows

    with _http(route, fault, port) as asked:
        yield asked


@contextmanager
def openpi() -> Iterator[Asked]:
    """Speak openpi's protocol, without its package."""
    asked = Asked()

    def handle(websocket: ServerConnection) -> None:
        websocket.send(pack({}))
        for frame in websocket:
            try:
                request = unpack(frame)
                websocket.send(pack({"actions": answer(request["observation/image"])}))
            except (KeyError, ValueError) as error:
                websocket.send(f"Traceback\n{error!r}")
                return

    def health(connection: ServerConnection, request: Any) -> Any:
        return connection.respond(200, "OK\n") if request.path == "/healthz" else None

    with serve_websocket(handle, "127.0.0.1", 0, process_request=health, max_size=None) as server:
        asked.port = server.socket.getsockname()[1]
        with _running(server):
            yield asked


SERVERS = {"act": act, "openpi": openpi, "roboeval": roboeval, "vla-eval": vla_eval}
"""A server of each protocol."""


@contextmanager
def _http(route: Any, fault: str, port: int) -> Iterator[Asked]:
    asked = Asked()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer("GET", None)

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self._answer("POST", json.loads(content) if content else None)

        def _answer(self, method: str, body: Any) -> None:
            asked.kinds.append(self.path)
            status, value = route(method, self.path, body, asked)
            if self.path in ("/act", "/predict") and method == "POST":
                if fault == "closes":
                    self.close_connection = True
                    return
                if fault == "garbage":
                    value = None
            content = b"<html>" if value is None else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    asked.port = server.server_address[1]
    with _running(server):
        yield asked
    server.server_close()


@contextmanager
def _running(server: Any) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()


def _frame(value: Any) -> np.ndarray:
    """Return a frame of vla-eval's protocol: the array, or the file that a map holds."""
    return value if isinstance(value, np.ndarray) else _file(value["data"])


def _file(data: bytes) -> np.ndarray:
    return np.array(Image.open(io.BytesIO(data)))


def _map(value: dict[str, Any]) -> np.ndarray:
    return np.frombuffer(base64.b64decode(value["__numpy__"]), value["dtype"]).reshape(value["shape"])


def _plain(chunk: Any) -> Any:
    return chunk.tolist() if isinstance(chunk, np.ndarray) else chunk
