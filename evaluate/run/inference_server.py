"""One inference process that serves all episode workers of a run.

`InferenceProcess` is the executor's handle: it starts the process and replaces it when it died or hangs. The process
builds each model of the plan once, when a worker asks for it first, and answers what waits in batches.
"""

from __future__ import annotations

import multiprocessing
import pickle
import socket
import tempfile
import threading
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np

from roep_gym.arguments import read_integer
from roep_gym.error import InfrastructureError
from roep_gym.evaluate.plan import ResolvedPlan
from roep_gym.evaluate.run.child_process import JOIN_SECONDS, follow_driver, how_it_ended, threads_of_children
from roep_gym.evaluate.run.shared_policy import Answered, Raised, raised
from roep_gym.policies.batching import BatchedPolicy, BatchLimits, PolicyBatcher
from roep_gym.policies.registry import make_policy
from roep_gym.typing import Array

__all__ = ["InferenceProcess", "InferenceSettings"]


@dataclass(frozen=True)
class InferenceSettings:
    """How the inference process works.

    Attributes:
        limits: When a batch is complete.
        threads: Threads of torch and BLAS. The last bits of an answer may depend on them, as in any process.
    """

    limits: BatchLimits = field(default_factory=BatchLimits)
    threads: int = 1

    def __post_init__(self) -> None:
        read_integer("the threads of inference", self.threads, 1)


class InferenceProcess:
    """The inference process of a run, and the socket at which workers reach it.

    The socket belongs to the driver. A worker that connects while the process is replaced waits in its queue. A call of
    a policy that does not return within `stall_timeout` seconds counts as hung.
    """

    def __init__(self, plan: ResolvedPlan, settings: InferenceSettings, stall_timeout: float) -> None:
        self._plan, self._settings, self._stall_timeout = plan, settings, stall_timeout
        self._folder = tempfile.TemporaryDirectory(prefix="roep-gym-")
        self.address = str(Path(self._folder.name) / "inference")
        """Path of the socket."""
        self.ended = "is gone"
        """How the last process that had to be replaced came to its end."""
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listener.bind(self.address)
        except OSError as error:
            self._listener.close()
            self._folder.cleanup()
            raise InfrastructureError(
                f"Expected a socket at {self.address}, got: {error}; set TMPDIR to a local folder with a short name."
            ) from error
        self._listener.listen(1024)
        self._start()

    @property
    def sentinel(self) -> int:
        """Becomes ready when the process dies; for `multiprocessing.connection.wait`."""
        return self.process.sentinel

    def replace_if_lost(self) -> None:
        """Start the process anew if it died or hangs; what was asked of it fails in the workers."""
        if not self.process.is_alive():
            self.ended = f"died ({how_it_ended(self.process)})"
            if not self._ready.value:  # another one would, too
                raise InfrastructureError(f"Expected the inference process to start, but it {self.ended}.")
        elif self._busy_seconds() > self._stall_timeout:
            self.ended = (
                f"did not within {self._stall_timeout:g} s and was killed; "
                "the policy hangs, or --stall-timeout is too short"
            )
            self._kill()
        else:
            return
        self._start()

    def how_it_was_lost(self, process: BaseProcess) -> str:
        """Return how the process that ran when a worker began ended, and replace it if that was not done yet.

        The worker knows first: a dying process closes its connections before it can be seen dead.
        """
        if process is self.process:
            process.join(JOIN_SECONDS)
            self.replace_if_lost()
        return self.ended

    def close(self) -> None:
        """Kill the process and close the socket; may be called twice."""
        self._kill()
        self._listener.close()
        self._folder.cleanup()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._ready = context.Value("b", False, lock=False)
        self._busy_since = context.Array("d", len(self._plan.plan.models), lock=False)
        self.process: BaseProcess = context.Process(
            target=_serve,
            args=(self._listener, self._plan, self._settings.limits, self._ready, self._busy_since),
            name="inference",
            daemon=True,
        )
        with threads_of_children(self._settings.threads):
            self.process.start()

    def _kill(self) -> None:
        self.process.kill()
        self.process.join(JOIN_SECONDS)

    def _busy_seconds(self) -> float:
        """Return for how long the call that began first has been running; 0 when none is."""
        now = time.monotonic()
        return max((now - since for since in self._busy_since if since), default=0.0)


def _serve(
    listener: socket.socket, plan: ResolvedPlan, limits: BatchLimits, ready: Any, busy_since: Any
) -> None:
    """Answer every worker that connects, until the driver is gone."""
    follow_driver()
    models = _Models(plan, limits, busy_since)
    ready.value = True
    while True:
        end, _ = listener.accept()
        session = threading.Thread(
            target=_answer_worker, args=(Connection(end.detach()), models), daemon=True
        )
        session.start()


class _Models:
    """The models of a plan, each built when it is asked for first."""

    def __init__(self, plan: ResolvedPlan, limits: BatchLimits, busy_since: Any) -> None:
        self._specs = plan.plan.models
        self._locks = [threading.Lock() for _ in self._specs]
        self._batchers: dict[int, PolicyBatcher] = {}
        self._limits, self._busy_since = limits, busy_since

    def connect(self, index: int) -> BatchedPolicy:
        """Return a model, by its position in the plan, for one worker."""
        with self._locks[index]:
            if index not in self._batchers:
                spec = self._specs[index]

                def watch(busy: bool) -> None:
                    self._busy_since[index] = time.monotonic() if busy else 0.0

                self._batchers[index] = PolicyBatcher(
                    lambda: make_policy(spec.policy, **spec.arguments), self._limits, renew=True, watch=watch
                )
            return self._batchers[index].connect()


def _answer_worker(connection: Connection, models: _Models) -> None:
    """Answer one worker until it is gone; then the episodes end that it had open."""
    policy: BatchedPolicy | None = None
    reply: Answered | Raised
    try:
        while True:
            method, arguments = pickle.loads(connection.recv_bytes())
            try:
                if method == "open":
                    policy = models.connect(*arguments)
                    reply = Answered((policy.contract, policy.observations))
                elif method == "act":
                    assert policy is not None
                    reply = Answered([_as_array(answer) for answer in policy.act(*arguments)])
                else:
                    reply = Answered(getattr(policy, method)(*arguments))
                frame = pickle.dumps(reply)
            except BaseException as error:  # noqa: BLE001 (policies raise anything, also SystemExit; the worker gets it)
                frame = pickle.dumps(raised(error))
            connection.send_bytes(frame)
    except (EOFError, OSError):
        pass  # the worker is gone, or has thrown its policies away
    finally:
        connection.close()
        if policy is not None:
            policy.close()


def _as_array(answer: Any) -> Array:
    """Return a chunk as an array that can travel; whatever is no array of numbers becomes an empty, malformed one."""
    try:
        array = np.asarray(answer)
    except ValueError:  # ragged
        return np.empty(0)
    return array if array.dtype.kind in "fiu" else np.empty(0)
