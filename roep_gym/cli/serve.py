"""`roep-gym serve`: put a policy behind openpi's websocket protocol, for evaluations elsewhere and for other tools."""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import tyro
import yaml

from roep_gym.cli.arguments import Repeated, key_values
from roep_gym.cli.foreign_code import announce, policy_code
from roep_gym.cli.terminal import say
from roep_gym.error import unknown_name
from roep_gym.policies.batching import BatchLimits, PolicyBatcher
from roep_gym.policies.openpi.server import LAYOUTS, OpenPIServer, client_arguments
from roep_gym.policies.registry import make_policy

__all__ = ["Arguments", "run"]


@dataclass(frozen=True)
class Arguments:
    """Serve a policy over openpi's websocket protocol, until Ctrl-C."""

    policy: Annotated[str, tyro.conf.Positional]
    """Policy: random, expert, sb3 or module:attribute."""
    argument: Repeated = ()
    """Argument of the policy as key=value, the value read as YAML; give the flag once for each."""
    host: str = "127.0.0.1"
    """Address to listen at; 0.0.0.0: every address of this machine."""
    port: int = 8000
    """Port to listen at; 0: a free one, which is printed."""
    layout: str = "named"
    """How requests hold the observation: named, under our names, or libero, as openpi's LIBERO client sends it."""
    allow_origin: Repeated = ()
    """Origin, such as https://example.org, whose web pages may connect; give the flag once for each; default: none."""
    max_batch: int = 16
    """Decisions that are asked in one call of the policy at most."""
    max_wait: float = 0.01
    """Seconds that a decision waits for those of other clients."""
    seed: int = 0
    """Seed of the policy's randomness in episodes for which a client sends no seed."""


def run(arguments: Arguments) -> None:
    """Serve until the process is interrupted."""
    if arguments.layout not in LAYOUTS:
        raise unknown_name("layout of requests", arguments.layout, LAYOUTS)
    limits = BatchLimits(arguments.max_batch, arguments.max_wait)
    # A policy of one's own, "module:attribute", is found in the working directory, as with `python -m`.
    sys.path.insert(0, os.getcwd())
    settings = key_values(arguments.argument)
    announce(policy_code(arguments.policy, settings))
    make = partial(make_policy, arguments.policy, **settings)
    with (
        closing(PolicyBatcher(make, limits)) as batcher,
        closing(
            OpenPIServer(
                batcher,
                arguments.host,
                arguments.port,
                layout=arguments.layout,
                seed=arguments.seed,
                origins=arguments.allow_origin,
            )
        ) as server,
    ):
        _introduce(server, batcher, arguments)
        # Asked to end, as by a batch system: the same as Ctrl-C, so that the policy is closed.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            server.serve_forever()
        finally:
            sizes = batcher.batch_sizes
            decisions = sum(size * count for size, count in sizes.items())
            calls = f"{sizes.total()} calls of the policy, at most {max(sizes, default=0)} in one"
            say(f"{decisions} decisions in {calls}.")


def _introduce(server: OpenPIServer, batcher: PolicyBatcher, arguments: Arguments) -> None:
    """Print where it can be reached, and the model of a plan that reaches it."""
    host = socket.gethostname() if arguments.host in ("0.0.0.0", "::") else arguments.host
    say(f"Serving {arguments.policy} at ws://{host}:{server.port}; Ctrl-C ends it.")
    if arguments.layout == "named":
        model = {
            "name": arguments.policy.rpartition(":")[2],
            "policy": "openpi",
            "arguments": client_arguments(batcher.connect(), host, server.port),
        }
        say("As a model of a plan:\n")
        say(yaml.safe_dump({"models": [model]}, sort_keys=False, default_flow_style=None))
    else:
        say("For clients that send what openpi's LIBERO client sends.")
    sys.stdout.flush()
