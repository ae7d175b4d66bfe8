"""Workers that Ray places on the machines of a cluster, or on this one.

`RayExecutor` gives work to actors and takes their records; what is lost is retried by the driver, as with any executor.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from roep_gym.arguments import read_integer, read_number
from roep_gym.error import DependencyNotInstalledError, InfrastructureError, InvalidInputError
from roep_gym.evaluate.plan import ResolvedPlan
from roep_gym.evaluate.run.child_process import thread_variables
from roep_gym.evaluate.run.work import WorkItem, WorkResult
from roep_gym.evaluate.run.worker import EpisodeWorker

__all__ = ["RayExecutor", "RaySettings"]

_OBJECT_STORE_BYTES = 2**28
_CHECKS_PER_TIMEOUT = 10


@dataclass(frozen=True)
class RaySettings:
    """Where Ray runs and what a worker needs there.

    Attributes:
        address: Address of an existing cluster, or "auto" on one of its machines; empty: Ray is started on this
            machine for the time of the run.
        cpus: CPUs of a worker.
        gpus: GPUs of a worker, or a share of one; its frames are drawn on the GPU that Ray gives it.
    """

    address: str = ""
    cpus: float = 1.0
    gpus: float = 0.0

    def __post_init__(self) -> None:
        for name in ("cpus", "gpus"):
            read_number(f"the {name} of a worker", getattr(self, name), 0)


class RayExecutor:
    """Runs each episode in one of `workers` Ray actors.

    An actor waits until the cluster has room for it, so that work begins as machines come. The driver reads the files
    of shields and sends them along; a machine needs nothing but the installed package.

    Args:
        plan: The plan whose episodes will be submitted.
        workers: Number of actors, at least 1.
        settings: Where Ray runs and what an actor needs.
        stall_timeout: Seconds without a control step after which a worker counts as hung and ends itself.

    Raises:
        DependencyNotInstalledError: Ray is not installed.
        InfrastructureError: The cluster cannot be reached.
    """

    def __init__(
        self,
        plan: ResolvedPlan,
        workers: int,
        settings: RaySettings | None = None,
        *,
        stall_timeout: float = 180.0,
    ) -> None:
        read_integer("workers", workers, 1)
        if not stall_timeout > 0:
            raise InvalidInputError(f"Expected a stall timeout above 0 s, got {stall_timeout}.")
        try:
            import ray
        except ImportError as error:
            raise DependencyNotInstalledError(
                'Expected the package ray, but it is not installed; run pip install "roep-gym[ray]".'
            ) from error
        self._ray, self._stall_timeout = ray, stall_timeout
        self._settings = settings or RaySettings()
        self._connected_here = not ray.is_initialized()
        if self._connected_here:
            _connect(ray, self._settings, workers)
        self._plan = ray.put(plan)
        self._idle: list[Any] = [None] * workers
        self._running: dict[Any, tuple[Any, WorkItem]] = {}
        self._shields: dict[str, Any] = {}

    def capacity(self) -> int:
        """Return the number of idle workers."""
        return len(self._idle)

    def submit(self, item: WorkItem) -> None:
        """Give the item to an idle worker, which is started if need be."""
        actor = self._idle.pop() or self._start()
        self._running[actor.run.remote(item, self._shield(item.shield))] = actor, item

    def wait(self, timeout: float) -> list[WorkResult]:
        """Return what arrives within `timeout` seconds, the items of lost workers included."""
        if not self._running:
            return []
        self._ray.wait(list(self._running), num_returns=1, timeout=timeout, fetch_local=False)
        ready, _ = self._ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        return [self._result(reference) for reference in ready]

    def close(self) -> None:
        """Kill all workers; what they are running is not recorded."""
        for actor in [*self._idle, *(actor for actor, _ in self._running.values())]:
            if actor is not None:
                self._ray.kill(actor)
        self._idle, self._running = [], {}
        if self._connected_here:
            self._ray.shutdown()

    def _start(self) -> Any:
        actor = self._ray.remote(_RayWorker).options(
            num_cpus=self._settings.cpus,
            num_gpus=self._settings.gpus,
            runtime_env={"env_vars": thread_variables(1)},
        )
        return actor.remote(self._plan, sys.path, self._stall_timeout)

    def _shield(self, path: str | None) -> Any:
        """Return the content of a shield's file as an object of the cluster, which is put there once."""
        if path is None:
            return None
        if path not in self._shields:
            self._shields[path] = self._ray.put(Path(path).read_bytes())
        return self._shields[path]

    def _result(self, reference: Any) -> WorkResult:
        actor, item = self._running.pop(reference)
        try:
            result: WorkResult = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            self._ray.kill(actor)
            self._idle.append(None)
            cause = (
                "Expected the Ray worker to finish the episode, but it was lost: it died, its machine is gone, or it "
                f"made no control step within {self._stall_timeout:g} s."
            )
            return WorkResult(item, None, cause, str(error))
        self._idle.append(actor)
        return replace(result, item=item)


def _connect(ray: Any, settings: RaySettings, workers: int) -> None:
    """Connect to the cluster, or start Ray on this machine with room for all workers."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"address": settings.address}
    if not settings.address:
        options = {
            "address": "local",
            "num_cpus": max(1, round(workers * settings.cpus)),
            "include_dashboard": False,
            "object_store_memory": _OBJECT_STORE_BYTES,
        }
    handler = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(**options, log_to_driver=False, logging_level=logging.WARNING)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)  # Ray's own ends the process before the Dataset is written
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise InfrastructureError(
            f"Expected a Ray cluster at {settings.address or 'this machine'}, got: {error}; start one with `ray start` "
            "or correct --ray-address."
        ) from error


class _RayWorker:
    """The actor: an `EpisodeWorker` that ends its process when an episode hangs."""

    def __init__(self, plan: ResolvedPlan, path: Sequence[str], stall_timeout: float) -> None:
        import ray

        # Policies of one's own are found where the driver finds them, as far as this machine has those folders.
        sys.path.extend(entry for entry in path if entry not in sys.path)
        gpus = ray.get_gpu_ids()
        if gpus:
            os.environ["MUJOCO_EGL_DEVICE_ID"] = str(gpus[0])
        self._folder = tempfile.TemporaryDirectory(prefix="roep-gym-")
        self._watch = _Watch(stall_timeout)
        self._worker = EpisodeWorker(plan, self._watch.beat)

    def run(self, item: WorkItem, shield: bytes | None) -> WorkResult:
        """Run one episode, with the content of the shield's file that the item names."""
        if shield is not None:
            assert item.shield is not None
            path = Path(self._folder.name) / Path(item.shield).name
            if not path.exists():
                path.write_bytes(shield)
            item = replace(item, shield=str(path))
        with self._watch:
            return self._worker.run(item)


class _Watch:
    """Ends the process when no heartbeat comes for `timeout` seconds while it watches."""

    def __init__(self, timeout: float) -> None:
        self._timeout, self._last = timeout, float("inf")
        threading.Thread(target=self._check, daemon=True).start()

    def beat(self) -> None:
        self._last = time.monotonic()

    def __enter__(self) -> None:
        self.beat()

    def __exit__(self, *_: object) -> None:
        self._last = float("inf")

    def _check(self) -> None:
        while time.monotonic() - self._last < self._timeout:
            time.sleep(self._timeout / _CHECKS_PER_TIMEOUT)
        os._exit(1)
