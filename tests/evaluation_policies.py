"""Policies for tests of whole evaluations on the Tabletop environment; named as "evaluation_policies:NAME" in plans."""

from __future__ import annotations

import ctypes
import os
import time
from dataclasses import replace
from typing import Any

import numpy as np

from roep_gym import seeding
from roep_gym.contracts import RuntimeContract
from roep_gym.envs.tabletop_policies import scripted_policy
from roep_gym.policies.base import ObservationRequest, PolicyEpisode, PolicyInput

CONTRACT = RuntimeContract.applicable()
SLOW_START = 4.0


class Scripted:
    """Solves Tabletop; `failure_rate` of the episodes, keyed by the episode's seed, hold still instead."""

    def __init__(
        self,
        failure_rate: float = 0.0,
        chunk: int = 1,
        fault: str = "",
        marker: str = "",
        declared_chunk: int = 0,
        depth: bool = True,
    ) -> None:
        declared = declared_chunk or chunk
        self.contract = RuntimeContract(
            **{**CONTRACT.to_dict(), "executed_steps": declared, "chunk_length": declared}
        )
        self.observations = ObservationRequest(
            cameras=("agentview",), image_size=32, depth=depth, object_state=True
        )
        self._failure_rate, self._chunk, self._fault, self._marker = failure_rate, chunk, fault, marker
        self._seeds: dict[str, int] = {}

    def observed(self) -> dict[str, Any]:
        return {"chunk_length": self._chunk}

    def begin(self, episode: PolicyEpisode) -> None:
        self._seeds[episode.key] = episode.seed

    def act(self, inputs: list[PolicyInput]) -> list[Any]:
        return [self._answer(given) for given in inputs]

    def _answer(self, given: PolicyInput) -> Any:
        seed = self._seeds[given.episode]
        hit = given.episode.endswith("/0/1") and given.step >= 3
        if self._fault == "slow":
            time.sleep(0.05)
        if hit and self._fault == "nan":
            return np.full((1, 7), np.nan)
        if hit and self._fault == "shape":
            return np.zeros((1, 6))
        if hit and self._fault == "text":
            return "left a bit"
        if hit and self._fault == "axes":
            return np.zeros((1, 1, 7), dtype=np.float32)
        if hit and self._fault == "digits":
            return np.full((1, 7), "0.5")
        if hit and self._fault == "surrogate":
            raise RuntimeError("no such file: \udcff")
        if hit and self._fault == "raise":
            raise RuntimeError("the network fell over")
        if hit and self._fault == "raise much":
            raise RuntimeError("much " * 10**7)
        if hit and self._fault == "raise once" and self._first():
            raise RuntimeError("the network fell over once")
        if hit and self._fault == "hang once" and self._first():
            time.sleep(600)
        if hit and self._fault == "hang locked" and self._first():
            ctypes.PyDLL(None).sleep(600)  # without releasing the interpreter
        if hit and self._fault == "die once" and self._first():
            os.kill(os.getpid(), 9)
        if hit and self._fault == "fork":
            os.fork()
        if hit and self._fault == "fork and exit" and os.fork() == 0:
            raise SystemExit
        if hit and self._fault == "fork and die" and self._first():
            if os.fork() == 0:
                time.sleep(120)
                os._exit(0)
            os.kill(os.getpid(), 9)
        if seeding.generator("failure", seed).random() < self._failure_rate:
            noise = seeding.generator("noise", seed, given.step).uniform(-0.2, 0.2, (self._chunk, 7))
            return noise.astype(np.float32)
        return np.repeat(scripted_policy(given.observation)[np.newaxis], self._chunk, axis=0)

    def _first(self) -> bool:
        """Tell whether this happens for the first time, over all processes."""
        try:
            os.close(os.open(self._marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def end(self, episode: str) -> None:
        del self._seeds[episode]

    def close(self) -> None:
        self._seeds.clear()


class StateOnly(Scripted):
    """The same without a camera: no perturbation of images can reach it."""

    def __init__(self, failure_rate: float = 0.0) -> None:
        super().__init__(failure_rate)
        self.observations = ObservationRequest(object_state=True)


def leave(status: int) -> None:
    """End the process, as a careless loader does."""
    raise SystemExit(status)


def serve_late(*arguments: Any) -> None:
    """Be a worker process that takes long to start."""
    from roep_gym.evaluate.run import local_executor

    time.sleep(SLOW_START)
    local_executor._serve(*arguments)


def never_serve(*arguments: Any) -> None:
    """Be a worker process that never starts."""
    time.sleep(600)


class Repeater(Scripted):
    """Declares what is not so, and repeats the declaration as what it observed."""

    def __init__(self) -> None:
        super().__init__()
        wrong = {
            "cameras": ["nowhere"],
            "resolution": 7,
            "rotation": "upright",
            "control_mode": "absolute",
            "gripper_sign": "+1 open, -1 close",
            "eef_orientation": "quaternion",
            "chunk_length": 5,
            "executed_steps": 5,
            "settle_steps": 3,
            "suite": "libero_goal",
            "mujoco": "0.0",
            "robosuite": "0.0",
        }
        self.contract = replace(self.contract, **wrong)

    def observed(self) -> dict[str, Any]:
        return self.contract.to_dict()
