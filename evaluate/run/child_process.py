"""What all processes that a run starts on this machine have in common."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess

__all__ = ["JOIN_SECONDS", "follow_driver", "how_it_ended", "thread_variables", "threads_of_children"]

JOIN_SECONDS = 5.0
"""How long to wait for a process that was killed or whose end of a connection was closed."""

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_PR_SET_PDEATHSIG = 1


def follow_driver() -> None:
    """Leave Ctrl-C to the driver, and end this process as soon as the driver is gone, even while a policy hangs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    driver = parent_process()
    assert driver is not None

    def watch() -> None:
        wait([driver.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    if sys.platform == "linux":  # also where a policy hangs in C code that keeps the interpreter locked
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def how_it_ended(process: BaseProcess) -> str:
    """Return the signal or exit status of a process that has just died."""
    process.join(JOIN_SECONDS)
    code = process.exitcode
    return f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit status {code}"


def thread_variables(count: int) -> dict[str, str]:
    """Return the environment of a process that uses so many threads of torch and BLAS."""
    return dict.fromkeys(_THREAD_VARIABLES, str(count))


@contextmanager
def threads_of_children(count: int) -> Iterator[None]:
    """Let processes that start here use so many threads of torch and BLAS: bits must not depend on the cores."""
    before = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
    os.environ.update(thread_variables(count))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
