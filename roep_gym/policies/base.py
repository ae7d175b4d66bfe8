"""The boundary between an evaluation and a policy.

`Policy` is the protocol that every policy satisfies: in process, remote, batched, chunked.
`KnowsSpaces` is what one adds that knows the spaces it was trained on, `AsksServer` one that asks a server.
`ObservationRequest` says which observations the policy looks at, `PolicyEpisode` what it is told when an
episode begins, `PolicyInput` what it sees at a decision. The answer to one input is one chunk: a float array
(steps, action dimension) with at least one step. `one_process` guards against a policy that forks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

from roep_gym.contracts import RuntimeContract
from roep_gym.typing import Array, Observation

__all__ = [
    "AsksServer",
    "KnowsSpaces",
    "ObservationRequest",
    "Policy",
    "PolicyEpisode",
    "PolicyInput",
    "one_process",
]

_LEFT = (
    b"Expected a process that a policy forks to end in the policy, but it returned from it; it was ended.\n"
)


@dataclass(frozen=True)
class ObservationRequest:
    """Which observations a policy looks at.

    Attributes:
        cameras: LIBERO's camera names, for example ("agentview", "robot0_eye_in_hand"); empty: none is rendered.
        image_size: Height and width of the frames, in pixels.
        depth: Whether each camera also gives depth, in metres.
        object_state: Whether the privileged poses of objects and fixtures are looked at.
        controller_pose: Whether the pose that robosuite's controller moves is looked at, as X-VLA does.
    """

    cameras: tuple[str, ...] = ()
    image_size: int = 128
    depth: bool = False
    object_state: bool = False
    controller_pose: bool = False


@dataclass(frozen=True)
class PolicyEpisode:
    """What a policy is told when an episode begins.

    Attributes:
        key: Names the episode in later calls; unique among the episodes that are open.
        suite: LIBERO suite.
        task: Task name.
        instruction: The instruction, word for word.
        seed: Seed for the policy's own randomness, a function of (run id, seed group, episode).
        fields: Names of the entries of each vector observation, for example `fields["proprio"]`.
    """

    key: str
    suite: str
    task: str
    instruction: str
    seed: int
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class PolicyInput(NamedTuple):
    """What a policy sees at one decision of one episode."""

    episode: str
    step: int
    instruction: str
    observation: Observation


@runtime_checkable
class Policy(Protocol):
    """A manipulation policy.

    Several episodes may be open at once; what a policy remembers, it keeps by episode key. `act` gets the
    decisions that are due, in any mixture of episodes, and answers each with a chunk of shape
    (steps, action dimension), steps >= 1, in the action convention of its contract. An exception from any
    method is an infrastructure failure; a non-finite or wrongly shaped chunk is the policy's own failure.
    """

    @property
    def contract(self) -> RuntimeContract:
        """The runtime that the policy was built for."""

    @property
    def observations(self) -> ObservationRequest:
        """Which observations the policy looks at."""

    def observed(self) -> Mapping[str, Any]:
        """Return what only the policy can observe of its runtime, by field of `RuntimeContract`."""

    def begin(self, episode: PolicyEpisode) -> None:
        """Open an episode; nothing of an earlier episode may survive into it."""

    def act(self, inputs: Sequence[PolicyInput]) -> Sequence[Array]:
        """Return one chunk of actions for each input."""

    def end(self, episode: str) -> None:
        """Forget an episode."""

    def close(self) -> None:
        """Release connections and memory; may be called twice."""


@runtime_checkable
class KnowsSpaces(Protocol):
    """A policy that compares an environment's spaces with those of its training, before the first episode."""

    def check_environment(self, observation_space: Any, action_space: Any) -> None:
        """Raise `InvalidInputError` where the spaces of an environment do not fit."""


@runtime_checkable
class AsksServer(Protocol):
    """A policy behind a server, which can be gone and come back; its methods raise `ServerGoneError` where it is."""

    @property
    def lost_timeout(self) -> float:
        """Seconds that an evaluation waits for the server when it is gone."""

    def ask_server(self) -> None:
        """Find out that the server answers and is the right one, without opening an episode."""


@contextmanager
def one_process() -> Iterator[None]:
    """End a process that leaves the body, in whatever way, without having entered it.

    A child that a policy forks and does not end would return from the policy and go on with a copy of everything: run
    the same episode, answer the same request, write the same files.
    """
    process = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != process:
            os.write(2, _LEFT)
            os._exit(1)
