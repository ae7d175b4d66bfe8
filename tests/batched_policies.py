"""Policies for tests of batching on the Tabletop environment; named as "batched_policies:NAME" in plans."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from evaluation_policies import Scripted

from roep_gym import seeding
from roep_gym.contracts import RuntimeContract
from roep_gym.error import InvalidInputError
from roep_gym.policies.base import ObservationRequest, PolicyEpisode, PolicyInput


class Logged(Scripted):
    """`Scripted` that appends the size of every batch, and the process, to a file; it may be slow, or fail a batch."""

    def __init__(self, log: str = "", seconds: float = 0.0, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._log, self._seconds = log, seconds

    def act(self, inputs: list[PolicyInput]) -> list[Any]:
        time.sleep(self._seconds)
        if self._log:
            with Path(self._log).open("a") as file:
                file.write(f"{os.getpid()} {len(inputs)}\n")
        return super().act(inputs)


def logged_batches(log: Path) -> list[tuple[int, int]]:
    """Return process id and size of every batch."""
    return [(int(pid), int(size)) for pid, size in (line.split() for line in log.read_text().splitlines())]


class Torch:
    """A network of one hidden layer with a recurrent state, whose rows are computed alike in every batch.

    Multiplying and summing row by row, as here, gives the same bits in a batch of any size; a matrix product does not.
    """

    def __init__(self, chunk: int = 2, log: str = "") -> None:
        self.contract = RuntimeContract.applicable(chunk_length=chunk, executed_steps=chunk)
        self.observations = ObservationRequest(cameras=("agentview",), image_size=32)
        self._chunk, self._log = chunk, log
        draw = seeding.generator("torch test policy")
        self._hidden = torch.from_numpy(draw.normal(0, 0.1, (16, 64)).astype(np.float32))
        self._out = torch.from_numpy(draw.normal(0, 0.3, (chunk * 7, 16)).astype(np.float32))
        self._states: dict[str, torch.Tensor] = {}

    def observed(self) -> dict[str, Any]:
        return {"chunk_length": self._chunk}

    def begin(self, episode: PolicyEpisode) -> None:
        draw = seeding.generator("state", episode.seed)
        self._states[episode.key] = torch.from_numpy(draw.normal(size=16).astype(np.float32))

    def act(self, inputs: Sequence[PolicyInput]) -> Sequence[Any]:
        if not inputs:
            return []
        if self._log:
            with Path(self._log).open("a") as file:
                file.write(f"{os.getpid()} {len(inputs)}\n")
        frames = np.stack([given.observation["agentview_image"][::4, ::4, 0].ravel() for given in inputs])
        seen = torch.from_numpy(frames).float() / 255
        states = torch.stack([self._states[given.episode] for given in inputs])
        states = torch.tanh((seen[:, None, :] * self._hidden).sum(-1) + states)
        for given, state in zip(inputs, states, strict=True):
            self._states[given.episode] = state
        return torch.tanh((states[:, None, :] * self._out).sum(-1)).reshape(-1, self._chunk, 7).numpy()

    def end(self, episode: str) -> None:
        self._states.pop(episode, None)

    def close(self) -> None:
        self._states.clear()


class OddError(Exception):
    """An exception that cannot be pickled: its arguments are not those of its constructor."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


class Raising(Scripted):
    """Raises in the method that is named: `begin` and `act` in the second episode of the first seed group alone."""

    def __init__(self, method: str = "act", kind: str = "value") -> None:
        super().__init__()
        self._method, self._kind = method, kind

    def _raise(self, method: str, hit: bool) -> None:
        if hit and method == self._method:
            raise {
                "value": ValueError(f"no {method} today"),
                "odd": OddError("this", "that"),
                "own": InvalidInputError(f"Expected another {method}."),
            }[self._kind]

    def begin(self, episode: PolicyEpisode) -> None:
        self._raise("begin", episode.key.endswith("/0/1"))
        super().begin(episode)

    def act(self, inputs: list[PolicyInput]) -> list[Any]:
        self._raise("act", any(given.episode.endswith("/0/1") for given in inputs))
        return super().act(inputs)

    def observed(self) -> dict[str, Any]:
        self._raise("observed", True)
        return super().observed()


def unbuildable() -> Any:
    """Fail as a missing checkpoint does, in the inference process only."""
    raise FileNotFoundError("no weights here")
