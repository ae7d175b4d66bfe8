"""The clients against the real servers of vla-evaluation-harness and roboeval, each in a process of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import real_servers

from roep_gym.error import InfrastructureError, ServerGoneError
from roep_gym.policies.base import Policy, PolicyEpisode, PolicyInput
from roep_gym.policies.contract_suite import PolicyContractTests
from roep_gym.policies.conversions import libero_state, rotated_180
from roep_gym.policies.registry import make_policy
from roep_gym.policies.remote.address import ServerAddress, answering

PACKAGES = {"vla-eval": "vla_eval", "vla-eval chunked": "vla_eval", "roboeval": "sims"}
STEPS = {"vla-eval": real_servers.CHUNK, "vla-eval chunked": 1, "roboeval": real_servers.CHUNK}


class Inputs(PolicyContractTests):
    """Makes episodes and decisions; `pytest` does not collect it under this name."""

    def make_policy(self) -> Policy:
        raise NotImplementedError


@contextmanager
def serving(kind: str) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Run a real server until it answers, and end it afterwards."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(Path(real_servers.__file__)), kind, str(port)])
    try:
        for _ in range(300):
            if answering(ServerAddress("127.0.0.1", port, 1.0, 1.0, 1.0)) == kind.split()[0]:
                break
            assert process.poll() is None, f"the server {kind} ended with {process.returncode}"
            time.sleep(0.1)
        else:
            raise AssertionError(f"the server {kind} did not start")
        yield port, process
    finally:
        process.kill()
        process.wait()


def client(kind: str, port: int) -> Any:
    arguments = {"observation_params": real_servers.PARAMS} if kind.startswith("vla-eval") else {}
    return make_policy(kind.split()[0], port=port, image_size=32, **arguments)


@pytest.mark.parametrize("kind", PACKAGES)
def test_a_real_server_answers_what_its_policy_answers_in_process(kind: str) -> None:
    pytest.importorskip(PACKAGES[kind], reason="needs the extra 'servers'")
    with serving(kind) as (port, process):
        policy, made = client(kind, port), Inputs()
        for number in range(2):
            episode = made.make_episode(number)
            policy.begin(episode)
            for step in range(3):
                given = made.make_input(policy.observations, episode, step)
                named = dict(
                    zip(episode.fields["proprio"], given.observation["proprio"].astype(float), strict=True)
                )
                frame = rotated_180(given.observation["agentview_image"])
                expected = real_servers.chunk_of(frame, libero_state(named), given.instruction)
                chunk = policy.act([given])[0]
                if STEPS[kind] == 1:  # the server's chunk is that of the episode's first step
                    if step == 0:
                        first = expected
                    expected = first[step : step + 1]
                if kind.startswith("vla-eval"):
                    expected[:, -1] = -1.0
                np.testing.assert_allclose(chunk, expected, rtol=1e-6)
            policy.end(episode.key)
        if kind == "roboeval":
            policy.begin(PolicyEpisode("f", "s", "t", "fail", 1, episode.fields))
            with pytest.raises(InfrastructureError, match="status 500: had enough"):
                policy.act([PolicyInput("f", 0, "fail", given.observation)])
        policy.begin(episode)
        process.kill()
        process.wait()
        with pytest.raises(ServerGoneError):
            policy.act([given])
        policy.close()
