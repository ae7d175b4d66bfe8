"""Serve the scripted expert through openpi's own policy server.

    pip install --no-deps openpi-client==0.1.2 openpi-server==0.1.0    # they ask for NumPy 1, and run with NumPy 2
    python examples/serve_expert_openpi.py --port 8000 --chunk 8

An evaluation whose model is the policy `openpi` with the arguments of `client_arguments` then gets, through the
wire, the decisions that the policy `expert` takes in process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tyro
from openpi_client.base_policy import BasePolicy
from openpi_server import WebsocketPolicyServer

from roep_gym.policies.base import PolicyEpisode, PolicyInput
from roep_gym.policies.expert import ExpertPolicy


@dataclass(frozen=True)
class Arguments:
    """What to serve, and where."""

    host: str = "127.0.0.1"
    port: int = 8000
    chunk: int = 8
    failure_rate: float = 0.0
    noise: float = 0.0


class ServedExpert(BasePolicy):  # type: ignore[misc]
    """The expert behind openpi's `infer`; an episode begins with its step 0."""

    def __init__(self, expert: ExpertPolicy) -> None:
        self._expert = expert

    def infer(self, obs: dict[str, Any]) -> dict[str, Any]:
        told = obs["episode"]
        if told["step"] == 0:
            names = ("key", "suite", "task", "instruction", "seed")
            fields = {name: tuple(entries) for name, entries in told["fields"].items()}
            self._expert.begin(PolicyEpisode(**{name: told[name] for name in names}, fields=fields))
        observation = {
            "proprio": obs["observation/proprio"],
            "object_state": obs["observation/object_state"],
        }
        given = PolicyInput(told["key"], told["step"], told["instruction"], observation)
        return {"actions": self._expert.act([given])[0]}


def client_arguments(port: int, expert: ExpertPolicy) -> Mapping[str, Any]:
    """Return the arguments of the policy `openpi` for this server."""
    contract = {**expert.contract.to_dict(), "runtime_bridge": "openpi-websocket", "prompt_format": "n/a"}
    return {
        "port": port,
        "preset": "custom",
        "extra_keys": {
            "observation/proprio": "proprio",
            "observation/object_state": "object_state",
        },
        "send_episode": True,
        "contract": contract,
    }


def main(arguments: Arguments) -> None:
    """Serve until interrupted."""
    expert = ExpertPolicy(arguments.chunk, arguments.failure_rate, arguments.noise)
    server = WebsocketPolicyServer(
        ServedExpert(expert),
        host=arguments.host,
        port=arguments.port,
        metadata=dict(expert.observed()),
    )
    server.serve_forever()


if __name__ == "__main__":
    main(tyro.cli(Arguments, description=__doc__))
