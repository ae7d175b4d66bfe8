"""What all processes that a run starts on this machine have in common."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess

__all__ = ["JOIN_SECONDS", "how_it_ended", "thread_variables", "threads_of_children"]

JOIN_SECONDS = 5.0
"""How long to wait for a process that was killed or whose end of a connection was closed."""

_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


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
