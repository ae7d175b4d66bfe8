"""`EnvironmentProcesses`: environments of Stable-Baselines3 in processes of their own, which may end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
from stable_baselines3.common.vec_env import SubprocVecEnv

from roep_gym.error import InfrastructureError

__all__ = ["EnvironmentProcesses"]


@contextmanager
def _answers_expected() -> Iterator[None]:
    try:
        yield
    except (EOFError, ConnectionError) as error:
        raise InfrastructureError(
            "Expected an answer from the process of each environment, but one has ended: it was killed, or its "
            "environment raised what the standard error stream says."
        ) from error


class EnvironmentProcesses(SubprocVecEnv):
    """A `SubprocVecEnv` that says when a process has ended, and can be closed all the same.

    A process ends when its environment raises, when it is killed and at Ctrl-C. Then the pipe alone would say
    `EOFError` or `ConnectionResetError`, and `close` would raise it again, in place of what happened.

    Raises:
        InfrastructureError: A process has ended; what its environment raised is on the standard error stream.
    """

    def __init__(self, makers: Sequence[Callable[[], gym.Env[Any, Any]]], start_method: str) -> None:
        try:
            with _answers_expected():
                super().__init__(list(makers), start_method=start_method)
        except InfrastructureError:
            self._let_go()
            raise

    reset = _answers_expected()(SubprocVecEnv.reset)
    step_async = _answers_expected()(SubprocVecEnv.step_async)
    step_wait = _answers_expected()(SubprocVecEnv.step_wait)
    env_method = _answers_expected()(SubprocVecEnv.env_method)

    def close(self) -> None:
        """End the processes."""
        if self.waiting:  # A step was interrupted, and nobody knows which of its answers are still to come.
            self._let_go()
        try:
            super().close()
        except (EOFError, ConnectionError):
            self._let_go()

    def _let_go(self) -> None:
        """Close the pipes, at which the processes that are left end by themselves."""
        for remote in self.remotes:
            remote.close()
        for process in self.processes:
            process.join()
        self.closed = True
