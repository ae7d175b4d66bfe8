"""A policy that lives in another process: the worker's end, and the messages between the two.

A request is the pickled pair (method, arguments); "open" with the position of the model in the plan comes first. The
reply is `Answered` or `Raised`. Pickles are only exchanged between processes of one run, over a socket in a folder that
nobody else can enter.
"""

from __future__ import annotations

import pickle
import socket
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from roep_gym.contracts import RuntimeContract
from roep_gym.error import InfrastructureError, bounded
from roep_gym.policies.base import ObservationRequest, PolicyEpisode, PolicyInput
from roep_gym.typing import Array

__all__ = ["PROCESS_GONE", "Answered", "Raised", "SharedPolicy", "raised"]

PROCESS_GONE = "Expected the inference process to answer, but it is gone."
"""What the worker says when the other end of the connection is closed."""

_BEAT_SECONDS = 1.0
_MAX_ERROR_BYTES = 10_000


class Answered(NamedTuple):
    """What a method of the policy returned."""

    value: Any


class Raised(NamedTuple):
    """What a method of the policy raised, and its traceback."""

    error: BaseException
    text: str


def raised(error: BaseException) -> Raised:
    """Return an exception as it can travel: one that cannot be pickled becomes an `InfrastructureError`."""
    text = "".join(traceback.format_exception(error))
    try:
        if len(frame := pickle.dumps(error)) > _MAX_ERROR_BYTES:
            raise ValueError("it is too large to travel")
        pickle.loads(frame)
    except Exception:  # noqa: BLE001 (an exception class with arguments of its own fails in any way)
        error = InfrastructureError(f"{type(error).__name__}: {bounded(str(error))}")
    return Raised(error, bounded(text))


class SharedPolicy:
    """A model of the plan, by its position there, asked in the inference process at the address of its socket.

    `heartbeat` is called while an answer is awaited: who waits does not hang. Making one raises what building the
    policy raises, and `InfrastructureError` where the process is gone.
    """

    def __init__(self, address: str, model: int, heartbeat: Callable[[], None] = lambda: None) -> None:
        self._address, self._model, self._heartbeat = address, model, heartbeat
        self._episodes: set[str] = set()
        self.contract: RuntimeContract
        """The contract of the policy."""
        self.observations: ObservationRequest
        """What the policy looks at."""
        self._connect()

    def observed(self) -> Mapping[str, Any]:
        """Return what the policy observes of its runtime."""
        observed: Mapping[str, Any] = self._ask("observed")
        return observed

    def begin(self, episode: PolicyEpisode) -> None:
        """Open an episode; when none is open, on a new connection if the process was replaced."""
        if not self._episodes and self._connection.poll():  # nothing was asked: this is no reply, but the end
            self._connection.close()
            self._connect()
        self._episodes.add(episode.key)
        self._ask("begin", episode)

    def act(self, inputs: Sequence[PolicyInput]) -> list[Array]:
        """Return one chunk for each input; other workers' inputs may be asked in the same call."""
        chunks: list[Array] = self._ask("act", list(inputs))
        return chunks

    def end(self, episode: str) -> None:
        """Forget an episode."""
        self._episodes.discard(episode)
        self._ask("end", episode)

    def close(self) -> None:
        """Close the connection, which ends the episodes that are open on it; the policy itself stays."""
        self._connection.close()

    def _connect(self) -> None:
        with socket.socket(socket.AF_UNIX) as end:
            try:
                end.connect(self._address)
            except OSError as error:
                raise InfrastructureError(PROCESS_GONE) from error
            self._connection = Connection(end.detach())
        self.contract, self.observations = self._ask("open", self._model)

    def _ask(self, method: str, *arguments: Any) -> Any:
        try:
            self._connection.send_bytes(pickle.dumps((method, arguments)))
            while not self._connection.poll(_BEAT_SECONDS):
                self._heartbeat()
            reply: Answered | Raised = pickle.loads(self._connection.recv_bytes())
        except (EOFError, OSError) as error:
            raise InfrastructureError(PROCESS_GONE) from error
        if isinstance(reply, Raised):
            reply.error.add_note(f"In the inference process:\n{reply.text}")
            raise reply.error
        return reply.value
