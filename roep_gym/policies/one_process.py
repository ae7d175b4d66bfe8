"""The guard against a policy that forks.

A child that a policy forks and does not end would return from the policy and go on with a copy of everything: run the
same episode, answer the same request, write the same files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["one_process"]

_LEFT = (
    b"Expected a process that a policy forks to end in the policy, but it returned from it; it was ended.\n"
)


@contextmanager
def one_process() -> Iterator[None]:
    """End a process that leaves the body, in whatever way, without having entered it."""
    process = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != process:
            os.write(2, _LEFT)
            os._exit(1)
