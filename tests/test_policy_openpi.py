"""The client of openpi's protocol against openpi's own server."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import openpi_servers
import pytest
from libero_rollout import rollout

from roep_gym.contracts import compare
from roep_gym.error import InfrastructureError, InvalidInputError, UnknownNameError
from roep_gym.policies.base import ObservationRequest, Policy, PolicyEpisode, PolicyInput
from roep_gym.policies.contract_suite import PolicyContractTests
from roep_gym.policies.openpi.policy import OpenPIPolicy
from roep_gym.policies.openpi.server import client_arguments
from roep_gym.policies.registry import make_policy

pytest.importorskip("openpi_server", reason="needs the extra 'servers'")


@pytest.fixture(scope="module")
def normal_port() -> Iterator[int]:
    with openpi_servers.tiny("normal") as port:
        yield port


@pytest.fixture(scope="module")
def expert_port() -> Iterator[int]:
    arguments = ("--argument", "chunk=8", "--argument", "failure_rate=0.5")
    with openpi_servers.serving("-m", "roep_gym", "serve", "expert", *arguments, "--port") as port:
        yield port


class TestOpenPIPolicy(PolicyContractTests):
    @pytest.fixture(autouse=True)
    def _server(self, normal_port: int) -> None:
        self.port = normal_port

    def make_policy(self) -> Policy:
        return make_policy("openpi", port=self.port)


def custom(port: int, **arguments: Any) -> OpenPIPolicy:
    return OpenPIPolicy(port=port, preset="custom", send_episode=True, **arguments)


def begin(policy: OpenPIPolicy, key: str = "e") -> None:
    policy.begin(PolicyEpisode(key, "libero_goal", "turn_on_the_stove", "turn on the stove", 1))


def ask(policy: OpenPIPolicy, step: int, key: str = "e") -> np.ndarray:
    return policy.act([PolicyInput(key, step, "turn on the stove", {})])[0]


def test_asks_and_observes(normal_port: int):
    policy = custom(normal_port, extra_keys={})
    assert policy.observed() == {}
    begin(policy)
    np.testing.assert_array_equal(ask(policy, 6), np.full((10, 7), 6.0))
    assert policy.observed() == {
        "prompt_format": "{instruction}",
        "checkpoint_revision": "tiny-1",
        "runtime_bridge": "openpi-websocket",
    }
    policy.close()


def test_many_inputs_share_one_connection(normal_port: int):
    policy = custom(normal_port)
    begin(policy, "a")
    begin(policy, "b")
    given = [PolicyInput(key, step, "", {}) for key, step in (("a", 3), ("b", 5), ("a", 4))]
    assert [chunk[0, 0] for chunk in policy.act(given)] == [3, 5, 4]
    policy.close()


@pytest.mark.parametrize("kind", ["nan", "shape"])
def test_a_bad_chunk_is_handed_on(kind: str):
    with openpi_servers.tiny(kind) as port:
        policy = custom(port)
        begin(policy)
        chunk = ask(policy, 0)
        policy.close()
    assert chunk.shape == ((10, 7) if kind == "nan" else (10, 6))
    assert np.isnan(chunk).any() == (kind == "nan")


def test_a_reply_without_actions_is_refused():
    with openpi_servers.tiny("no actions") as port:
        policy = custom(port)
        begin(policy)
        with pytest.raises(InfrastructureError, match="to send the entry 'actions' in a reply, got"):
            ask(policy, 0)


def test_a_policy_that_raises_gives_one_sentence_and_ends_the_episode():
    with openpi_servers.tiny("raise") as port:
        policy = custom(port)
        begin(policy)
        ask(policy, 0)
        message = (
            f"Expected the openpi server at ws://127.0.0.1:{port} to send a reply, but its policy failed with: "
            "ValueError: the tiny policy has had enough."
        )
        with pytest.raises(InfrastructureError, match=re.escape(message)):
            ask(policy, 1)
        with pytest.raises(InfrastructureError, match="begin the episode again"):
            ask(policy, 2)
        begin(policy)
        assert ask(policy, 3)[0, 0] == 3
        policy.close()


def test_a_late_reply_never_answers_the_next_request():
    with openpi_servers.tiny("slow") as port:
        policy = custom(port, infer_timeout=0.6 * openpi_servers.SLOW_SECONDS)
        begin(policy)
        ask(policy, 0)
        with pytest.raises(InfrastructureError, match=r"within 0\.6 s, got nothing; raise infer_timeout"):
            ask(policy, 1)
        begin(policy)
        time.sleep(openpi_servers.SLOW_SECONDS)
        assert ask(policy, 2)[0, 0] == 2
        policy.close()


def test_other_open_episodes_do_not_go_on_after_a_failure():
    with openpi_servers.tiny("raise") as port:
        policy = custom(port)
        begin(policy, "a")
        begin(policy, "b")
        with pytest.raises(InfrastructureError, match="has had enough"):
            ask(policy, 1, "a")
        begin(policy, "a")
        with pytest.raises(InfrastructureError, match="'b' began, but it was dropped"):
            ask(policy, 0, "b")
        assert ask(policy, 0, "a")[0, 0] == 0
        policy.close()


def test_a_server_that_dies():
    with openpi_servers.tiny("die") as port:
        policy = custom(port)
        begin(policy)
        ask(policy, 0)
        with pytest.raises(InfrastructureError, match="but it closed the connection"):
            ask(policy, 1)
        with pytest.raises(InfrastructureError, match="start it, or pass its host and port"):
            begin(policy)


def test_a_server_that_goes_away_between_episodes():
    with openpi_servers.tiny("die") as port:
        policy = custom(port)
        begin(policy)
        other = custom(port)
        begin(other, "other")
        with pytest.raises(InfrastructureError):
            ask(other, 1, "other")
        policy.end("e")
        time.sleep(0.5)  # until the end of the connection is noticed
        with pytest.raises(InfrastructureError, match=f"at ws://127.0.0.1:{port}, got"):
            begin(policy)


def test_a_server_that_hangs_and_does_not_read():
    with openpi_servers.tiny("stuck") as port:
        hung = custom(port, infer_timeout=0.3)
        blocked = custom(port, infer_timeout=0.5, extra_keys={"frames": "frames"})
        begin(hung)
        begin(blocked)
        with pytest.raises(InfrastructureError, match=r"to send a reply within 0\.3 s"):
            ask(hung, 1)
        frames = np.zeros(
            64_000_000, dtype=np.uint8
        )  # more than the system keeps for a reader that does not come
        with pytest.raises(InfrastructureError, match="to take a request"):
            blocked.act([PolicyInput("e", 0, "", {"frames": frames})])


def test_a_port_that_never_answers():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        policy = custom(listener.getsockname()[1], connect_timeout=0.3)
        with pytest.raises(InfrastructureError, match="Expected an openpi policy server"):
            begin(policy)


def test_request_of_observations():
    assert OpenPIPolicy().observations == ObservationRequest(("agentview", "robot0_eye_in_hand"), 256)
    extra = {"a": "object_state", "b": "frontview_depth", "c": "proprio"}
    assert custom(1, extra_keys=extra).observations == ObservationRequest(("frontview",), 128, True, True)


def test_contract_fields_are_replaced():
    policy = OpenPIPolicy(executed_steps=10, contract={"checkpoint_revision": "r1"})
    assert policy.contract.executed_steps == 10
    assert policy.contract.checkpoint_revision == "r1"
    assert policy.contract.chunk_length == 10


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"preset": "pi05_libero"}, UnknownNameError, "Did you mean 'pi05'"),
        ({"contract": {"chunk_lenght": 1}}, UnknownNameError, "Did you mean 'chunk_length'"),
        ({"infer_timeout": 0}, InvalidInputError, "infer_timeout to be positive"),
        ({"connect_timeout": float("inf")}, InvalidInputError, "connect_timeout to be positive"),
        ({"executed_steps": 0}, InvalidInputError, "executed_steps to be at least 1, got 0"),
        ({"image_size": 0}, InvalidInputError, "image_size to be an integer >= 1"),
    ],
)
def test_refuses_arguments(arguments: dict[str, Any], error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        OpenPIPolicy(**arguments)


class TestExpertThroughTheWire(PolicyContractTests):
    """`roep-gym serve expert` answers what the expert answers in process."""

    @pytest.fixture(autouse=True)
    def _server(self, expert_port: int) -> None:
        self.port = expert_port

    def expert(self) -> Policy:
        return make_policy("expert", chunk=8, failure_rate=0.5)

    def make_policy(self) -> Policy:
        return make_policy("openpi", **client_arguments(self.expert(), "127.0.0.1", self.port))

    def test_equals_the_expert_in_process(self) -> None:
        self._assert_equal(self._run(self.expert(), [0, 1, 2]), self._run_new([0, 1, 2]))

    @pytest.mark.slow
    @pytest.mark.libero
    @pytest.mark.parametrize("init_state", [0, 1])
    def test_libero_episodes_are_those_of_the_expert(self, init_state: int) -> None:
        policy, task = self.make_policy(), ("libero_goal", "put_the_bowl_on_the_plate")
        through_the_wire = rollout(*task, init_state, policy)
        in_process = rollout(*task, init_state, self.expert())
        policy.close()
        assert through_the_wire.success == in_process.success
        np.testing.assert_array_equal(through_the_wire.actions, in_process.actions)

    def test_contract_is_matched(self) -> None:
        policy = self.make_policy()
        self._run(policy, [0])
        lines = compare(policy.contract, policy.observed())
        assert [line.name for line in lines if line.verdict == "mismatch"] == []
        policy.close()
