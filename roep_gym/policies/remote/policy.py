"""What all clients of policy servers share: `RemotePolicy` over a `Connection`, and `as_chunk` for what comes back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol

import numpy as np

from roep_gym.arguments import read_integer
from roep_gym.contracts import FIELDS
from roep_gym.error import InfrastructureError
from roep_gym.policies.base import ObservationRequest, PolicyEpisode, PolicyInput
from roep_gym.policies.presets.preset import ModelPreset
from roep_gym.policies.remote.address import ServerAddress
from roep_gym.typing import Array

__all__ = ["Connection", "RemotePolicy", "as_chunk"]


class Connection(Protocol):
    """What a client needs of a protocol.

    Every method but `end` and `close` raises `InfrastructureError` where the server fails, is gone, takes too long or
    sends something else, `ServerGoneError` among them where it is gone.
    """

    @property
    def said(self) -> Mapping[str, Any]:
        """What the server says of itself."""

    @property
    def is_open(self) -> bool:
        """Whether it can still be used."""

    def begin(self, episode: PolicyEpisode) -> None:
        """Tell the server that an episode begins."""

    def infer(self, episode: PolicyEpisode, request: Mapping[str, Any]) -> Any:
        """Return the actions that answer a request, as the server gives them."""

    def end(self, episode: str) -> None:
        """Tell the server that an episode ended; a server that is gone need not know."""

    def close(self) -> None:
        """Release it; may be called twice."""


class RemotePolicy(ABC):
    """Asks a policy server, one request at a time.

    The connection is made when an episode begins. After a failed exchange it is dropped, and the episodes that were
    open on it cannot go on: they have to begin again, on a new one.

    Args:
        address: Where the server is.
        preset: What it is sent, and the runtime that its model was built for.
        executed_steps: Actions of a chunk that are executed; None: as the preset declares.
        image_size: Height and width of the rendered frames, in pixels; None: as the preset declares.
        contract: Fields of the runtime contract that replace those of the preset.

    Raises:
        InvalidInputError: An argument is unknown or outside its range.
    """

    protocol: ClassVar[str]
    """Which of the `PROTOCOLS` it speaks."""
    bridge: ClassVar[str]
    """The `runtime_bridge` of a contract that is reached so."""

    def __init__(
        self,
        address: ServerAddress,
        preset: ModelPreset,
        *,
        executed_steps: int | None = None,
        image_size: int | None = None,
        contract: Mapping[str, Any] | None = None,
    ) -> None:
        given = dict(contract or {})
        if executed_steps is not None:
            given["executed_steps"] = executed_steps
        if image_size is not None:
            preset = replace(preset, image_size=read_integer("image_size", image_size, 1))
        self.contract = preset.contract.replaced(given)
        self.observations: ObservationRequest = preset.observations
        self.address = address
        self._preset = preset
        self._connection: Connection | None = None
        self._said: Mapping[str, Any] = {}
        self._measured: Mapping[str, Any] = {}
        self._episodes: dict[str, PolicyEpisode] = {}

    @property
    def lost_timeout(self) -> float:
        """Seconds that an evaluation waits for the server when it is gone."""
        return self.address.lost_timeout

    def ask_server(self) -> None:
        """Find out that the server answers and is the right one; a connection that is open is left alone.

        Raises:
            ServerGoneError: Nobody listens.
            InfrastructureError: Another server answers, or it is not ready.
            InvalidInputError: The server asks for something else than the arguments declare.
        """
        self._connect().close()

    def observed(self) -> Mapping[str, Any]:
        """Return what the first request of the connection was seen to hold, and what the server says of itself."""
        said = {name: self._said[name] for name in FIELDS if name in self._said}
        return {**said, **self._measured}

    def begin(self, episode: PolicyEpisode) -> None:
        """Open an episode, and a connection where there is none.

        Raises:
            InfrastructureError: Nobody answers, or not as the server of the protocol does.
            InvalidInputError: The server asks for something else than the arguments declare.
        """
        if self._connection is None or not self._connection.is_open:
            self._drop()
            self._connection = self._connect()
            self._said, self._measured = self._connection.said, {}
        try:
            self._connection.begin(episode)
        except InfrastructureError:
            self._drop()
            raise
        self._episodes[episode.key] = episode

    def act(self, inputs: Sequence[PolicyInput]) -> list[Array]:
        """Return the server's chunk for each input, asking for one after another.

        Raises:
            InfrastructureError: The server failed, is gone or took too long, now or earlier in the episode.
        """
        return [self._ask(given) for given in inputs]

    def end(self, episode: str) -> None:
        """Forget an episode."""
        if self._episodes.pop(episode, None) is not None and self._connection is not None:
            self._connection.end(episode)

    def close(self) -> None:
        """Forget all episodes and close the connection."""
        self._drop()

    @abstractmethod
    def _connect(self) -> Connection:
        """Return a new connection, over which the server has been found to be the right one."""

    @abstractmethod
    def _request(self, episode: PolicyEpisode, given: PolicyInput) -> dict[str, Any]:
        """Return what is asked: the entries of the preset, and what the protocol adds to them."""

    def _measure(
        self, episode: PolicyEpisode, given: PolicyInput, request: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return what was seen to be done to an observation, by field of the contract."""
        return dict(self._preset.measure(episode, given, request, given.instruction))

    def _ask(self, given: PolicyInput) -> Array:
        if given.episode not in self._episodes or self._connection is None:
            raise InfrastructureError(
                f"Expected the connection to the {self.protocol} server at {self.address} on which the episode "
                f"{given.episode!r} began, but it was dropped after a failure; begin the episode again."
            )
        episode = self._episodes[given.episode]
        request = self._request(episode, given)
        try:
            actions = self._connection.infer(episode, request)
        except InfrastructureError:
            self._drop()
            raise
        if not self._measured:
            self._measured = {"runtime_bridge": self.bridge, **self._measure(episode, given, request)}
        chunk = as_chunk(actions)
        return self._preset.actions(chunk) if chunk.size and chunk.dtype.kind in "fiu" else chunk

    def _drop(self) -> None:
        """Close the connection and forget the episodes that began on it."""
        self._episodes.clear()
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def as_chunk(actions: Any) -> Array:
    """Return what a server answered as a chunk (steps, n); one action (n,) is a chunk of one step.

    What is none comes back as an array of another shape or type, on which a rollout ends the episode as malformed.
    """
    try:
        chunk = np.asarray(actions)
    except ValueError:  # lists of different lengths
        return np.empty(0)
    return chunk[None] if chunk.ndim == 1 and chunk.size else chunk
