"""Real openpi policy servers with tiny policies, each in a process of its own.

`serving(kind)` starts one and gives its port; run as a script, the module is the server.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

SLOW_SECONDS = 1.0


@contextmanager
def serving(*command: str) -> Iterator[int]:
    """Run `python COMMAND PORT` until it answers, and end it afterwards."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, *command, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(200):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, f"the server {command} ended with {process.returncode}"
                time.sleep(0.1)
        else:
            raise AssertionError(f"the server {command} did not start")
        yield port
    finally:
        process.kill()
        process.wait()


def tiny(kind: str) -> Any:
    """Return the command line arguments of a server whose policy is of this kind."""
    return serving(str(Path(__file__)), kind)


class TinyPolicy:
    """Answers with the mean of the first image, or with the step where an episode is sent; or misbehaves."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def infer(self, request: dict[str, Any]) -> dict[str, Any]:
        step = request.get("episode", {}).get("step", 0)
        value = request["observation/image"].mean() / 255 if "observation/image" in request else float(step)
        actions = np.full((10, 7), value)
        if self._kind == "nan":
            actions[0, 3] = np.nan
        elif self._kind == "shape":
            actions = actions[:, :6]
        elif self._kind == "no actions":
            return {"state": actions}
        elif self._kind == "raise" and step == 1:
            raise ValueError("the tiny policy has had enough")
        elif self._kind == "slow" and step == 1:
            time.sleep(SLOW_SECONDS)
        elif self._kind == "stuck" and step == 1:
            time.sleep(600)
        elif self._kind == "die" and step == 1:
            os._exit(3)
        return {"actions": actions, "state": np.zeros(8), "policy_timing": {"infer_ms": 0.1}}


if __name__ == "__main__":
    from openpi_server import WebsocketPolicyServer

    metadata = {"checkpoint_revision": "tiny-1", "reset_pose": np.zeros(7)}
    WebsocketPolicyServer(
        TinyPolicy(sys.argv[1]), host="127.0.0.1", port=int(sys.argv[2]), metadata=metadata
    ).serve_forever()
