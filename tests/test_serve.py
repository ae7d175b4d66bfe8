"""Any policy behind openpi's protocol: episodes, batches, errors, several clients, and openpi's own client."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import hypothesis
import msgpack
import numpy as np
import pytest
from batched_policies import Torch
from evaluation_runs import importable_policies, make_plan  # noqa: F401
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from roep_gym import seeding
from roep_gym.cli.main import dispatch
from roep_gym.contracts import FIELDS, RuntimeContract
from roep_gym.error import InfrastructureError, InvalidInputError, RoepError
from roep_gym.evaluate.run.driver import evaluate
from roep_gym.evaluate.run.in_process_executor import InProcessExecutor
from roep_gym.evaluate.run.local_executor import LocalExecutor
from roep_gym.evaluate.store.run_directory import RunDirectory
from roep_gym.evaluate.store.storage import load_dataset
from roep_gym.policies.base import ObservationRequest, Policy, PolicyEpisode, PolicyInput
from roep_gym.policies.batching import BatchLimits, PolicyBatcher
from roep_gym.policies.contract_suite import PolicyContractTests
from roep_gym.policies.openpi.codec import pack, unpack
from roep_gym.policies.openpi.policy import OpenPIPolicy
from roep_gym.policies.openpi.server import (
    LAYOUTS,
    MAX_OPEN_EPISODES,
    OpenPIServer,
    OpenPISession,
    client_arguments,
)


class Noting:
    """Answers with the number of decisions of the episode; notes what it is told; fails when asked to."""

    contract = RuntimeContract(executed_steps=2, runtime_bridge="in-process")

    def __init__(self, observations: ObservationRequest | None = None) -> None:
        self.observations = observations or ObservationRequest()
        self.begun: list[PolicyEpisode] = []
        self.open: dict[str, int] = {}
        self.given: list[PolicyInput] = []

    def observed(self) -> dict[str, Any]:
        return {"precision": "float16", "runtime_bridge": "in-process"}

    def begin(self, episode: PolicyEpisode) -> None:
        self.begun.append(episode)
        self.open[episode.key] = 0

    def act(self, inputs: Sequence[PolicyInput]) -> list[Any]:
        self.given.extend(inputs)
        for given in inputs:
            if given.instruction == "fail":
                raise ValueError("asked to fail")
            self.open[given.episode] += 1
        return [np.full((3, 7), float(self.open[given.episode])) for given in inputs]

    def end(self, episode: str) -> None:
        del self.open[episode]

    def close(self) -> None:
        pass


@contextmanager
def served(
    policy: Any, layout: str = "named", origins: Sequence[str] = (), **limits: Any
) -> Iterator[OpenPIServer]:
    batcher = PolicyBatcher(lambda: policy, BatchLimits(**limits))
    server = OpenPIServer(batcher, port=0, layout=layout, origins=origins)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join()
        batcher.close()


class Client:
    """A client of a few lines, which speaks the protocol and nothing more."""

    def __init__(self, server: OpenPIServer) -> None:
        self._websocket = connect(f"ws://127.0.0.1:{server.port}", compression=None, max_size=None)
        self.metadata = unpack(self._websocket.recv())

    def ask(self, **request: Any) -> Any:
        self._websocket.send(pack(request))
        frame = self._websocket.recv(timeout=20)
        return frame if isinstance(frame, str) else unpack(frame)["actions"][0, 0]

    def close(self) -> None:
        self._websocket.close()


@pytest.fixture(scope="module")
def torch_server() -> Iterator[OpenPIServer]:
    with served(Torch()) as server:
        yield server


class TestServedPolicy(PolicyContractTests):
    """Through `serve` and the policy `openpi`, a policy stays the policy that it is."""

    @pytest.fixture(autouse=True)
    def _server(self, torch_server: OpenPIServer) -> None:
        self.port = torch_server.port

    def make_policy(self) -> Policy:
        return OpenPIPolicy(**client_arguments(Torch(), "127.0.0.1", self.port))

    def test_answers_are_those_of_the_policy_itself(self) -> None:
        self._assert_equal(self._run(Torch(), [0, 1, 2]), self._run_new([0, 1, 2]))


def test_an_evaluation_through_the_wire_gives_the_records_of_the_policy_in_process(
    torch_server: OpenPIServer, tmp_path: Path
) -> None:
    arguments = dict(client_arguments(Torch(), "127.0.0.1", torch_server.port))
    data = {}
    for name, policy, given in (
        ("wire", "openpi", arguments),
        ("direct", "batched_policies:Torch", {}),
    ):
        models = [{"name": "model", "policy": policy, "arguments": given}]
        plan = make_plan(models=models, conditions=["baseline", "perturb"])
        make = InProcessExecutor if name == "direct" else lambda plan: LocalExecutor(plan, 3)
        summary = evaluate(plan, tmp_path / name, make)
        assert (summary.recorded, summary.aborts) == (12, ())
        data[name] = load_dataset(RunDirectory(tmp_path / name).steps / "0000-perturb.nc")
    for entry in ("executed_action", "reward", "proprio", "patch"):
        np.testing.assert_array_equal(data["wire"][entry].values, data["direct"][entry].values)


def test_openpis_own_client_is_answered() -> None:
    clients = pytest.importorskip("openpi_client.websocket_client_policy", reason="needs the extra 'servers'")
    policy = Noting(ObservationRequest(cameras=("agentview",)))
    with served(policy, max_wait=0.2) as server:
        asking = [clients.WebsocketClientPolicy("127.0.0.1", server.port) for _ in range(4)]
        metadata = asking[0].get_server_metadata()
        assert metadata["precision"] == "float16"
        assert metadata["contract"] == policy.contract.to_dict()
        assert metadata["observations"]["cameras"] == ["agentview"]
        frame = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
        request = {"observation/agentview_image": frame, "prompt": "go on"}
        with ThreadPoolExecutor(4) as pool:
            for decision in (1, 2):
                replies = list(pool.map(lambda client: client.infer(request), asking))
                assert [reply["actions"].tolist() for reply in replies] == [[[decision] * 7] * 3] * 4
                assert all(reply["server_timing"]["infer_ms"] > 0 for reply in replies)
        np.testing.assert_array_equal(policy.given[0].observation["agentview_image"], frame)
        assert server._batcher.batch_sizes[4] >= 1
        with pytest.raises(RuntimeError, match="ValueError: asked to fail"):
            asking[0].infer({**request, "prompt": "fail"})
        with pytest.raises(RuntimeError, match="under the key 'observation/agentview_image', got "):
            asking[1].infer({"prompt": "go on"})
        assert asking[2].infer(request)["actions"][0, 0] == 3, "the others go on"
        for client in asking:
            client._ws.close()


def test_a_connection_is_one_episode_after_another() -> None:
    policy = Noting()
    with served(policy) as server:
        first, second = Client(server), Client(server)
        assert [first.ask(prompt="a"), first.ask(prompt="a"), second.ask(prompt="a")] == [1, 2, 1]
        assert [first.ask(prompt="b"), first.ask(prompt="b"), first.ask(prompt="b", reset=True)] == [1, 2, 1]
        assert [given.step for given in policy.given] == [0, 2, 0, 0, 2, 0], "executed steps are counted"
        assert [episode.instruction for episode in policy.begun] == ["a", "a", "b", "b"]
        assert len({episode.seed for episode in policy.begun}) == 4
        assert len(policy.open) == 2
        first.close()
        second.close()
        _until(lambda: not policy.open)


def test_a_client_that_tells_its_episodes_may_have_several_open() -> None:
    policy = Noting()
    with served(policy) as server:
        client = Client(server)
        told = {"key": "e", "seed": np.int64(7), "suite": "s", "task": "t", "fields": {"proprio": ["x", "y"]}}
        assert client.ask(episode={**told, "step": 0}, prompt="a") == 1
        assert client.ask(episode={"key": "other", "step": 0}) == 1
        assert client.ask(episode={**told, "step": 5}, prompt="a") == 2
        assert client.ask(episode={**told, "step": 0}, prompt="a") == 1, "step 0 begins anew"
        begun = policy.begun[0]
        assert (begun.seed, begun.suite, begun.task) == (7, "s", "t")
        assert begun.fields == {"proprio": ("x", "y")}
        assert [given.step for given in policy.given] == [0, 0, 5, 0]
        for number in range(MAX_OPEN_EPISODES - 1):
            client.ask(episode={"key": str(number), "step": 0})
        assert len(policy.open) == MAX_OPEN_EPISODES
        answer = client.ask(episode={"key": "other", "step": 1})
        assert answer.startswith("Expected the episode 'other' to begin with its step 0, got step 1;")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ("text", "Expected a request in a binary frame, got a text frame."),
        (b"\xc1", "Expected a MessagePack frame, got"),
        (pack([1]), "Expected a request to be a map, got a list."),
        (pack({"prompt": 3}), "Expected 'prompt' of a request to be a str, got a int."),
        (
            pack({"episode": {"key": "a", "seed": "x"}}),
            "Expected 'seed' of a request to be a int",
        ),
        (
            msgpack.packb({b"__ndarray__": True, b"data": b"", b"dtype": "S0", b"shape": [-1]}),
            "Expected the dtype of an array",
        ),
        (pack({"episode": {"seed": -1}}), "Expected 'seed' of a request to be at least 0, got -1."),
        (pack({"episode": {"step": np.zeros(2)}}), "Expected 'step' of a request to be a int"),
        (pack({"episode": {"fields": {"proprio": 3}}}), "Expected the fields of 'proprio' as names, got 3."),
    ],
)
def test_what_is_no_request_is_refused_in_one_sentence(frame: Any, message: str) -> None:
    with served(Noting()) as server:
        with connect(f"ws://127.0.0.1:{server.port}") as websocket:
            websocket.recv()
            websocket.send(frame)
            answer = websocket.recv(timeout=10)
            assert answer.startswith(message)
            assert "Traceback" not in answer
        assert Client(server).ask(prompt="a") == 1


REQUESTS = st.dictionaries(
    st.sampled_from(["prompt", "reset", "observation/state", "x"]),
    st.one_of(
        st.text(max_size=3), st.integers(), st.booleans(), st.just(np.zeros(2)), st.just(np.float32(1))
    ),
)
EPISODES = st.dictionaries(
    st.sampled_from(["key", "seed", "step", "suite", "task", "instruction", "fields"]),
    st.one_of(
        st.text(max_size=1),
        st.integers(-1, 3),
        st.just(np.zeros(2)),
        st.none(),
        st.dictionaries(st.text(max_size=1), st.one_of(st.integers(), st.lists(st.text(max_size=1)))),
    ),
)


@hypothesis.settings(max_examples=300, deadline=None)
@hypothesis.given(st.lists(st.tuples(REQUESTS, st.one_of(EPISODES, st.integers())), max_size=3))
def test_any_request_is_answered_or_refused(requests: list[tuple[dict[str, Any], Any]]) -> None:
    for layout in LAYOUTS:
        session = OpenPISession(Noting(), 0, layout)
        for request, episode in requests:
            try:
                assert session.infer({**request, "episode": episode})["actions"].shape == (3, 7)
            except RoepError:
                break  # the connection is closed


def test_a_page_in_a_browser_may_connect_only_where_its_origin_is_allowed() -> None:
    with served(Noting(), origins=["https://mine.example"]) as server:
        address = f"ws://127.0.0.1:{server.port}"
        with pytest.raises(InvalidStatus, match="HTTP 403"):
            connect(address, origin=Origin("https://foreign.example"))
        with connect(address, origin=Origin("https://mine.example")) as websocket:
            assert "contract" in unpack(websocket.recv(timeout=10))
        assert Client(server).ask(prompt="a") == 1


def test_a_frame_above_the_limit_ends_its_connection_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("openpi.server", "openpi.codec", "remote.websocket"):
        monkeypatch.setattr(f"roep_gym.policies.{module}.MAX_FRAME_BYTES", 5000)
    with served(Noting()) as server:
        with connect(f"ws://127.0.0.1:{server.port}") as websocket:
            websocket.recv()
            websocket.send(b"\x90" * 5001)
            with pytest.raises(ConnectionClosed, match="1009"):
                websocket.recv(timeout=10)
        assert Client(server).ask(prompt="a") == 1

    class Large(Noting):
        def observed(self) -> dict[str, Any]:
            return {"precision": "x" * 5000}

    with served(Large()) as server:
        monkeypatch.setattr("roep_gym.policies.openpi.codec.MAX_FRAME_BYTES", 10**6)
        with pytest.raises(InfrastructureError, match="closed the connection: sent 1009"):
            OpenPIPolicy(port=server.port).begin(PolicyEpisode("e", "s", "t", "i", 1))


def test_an_enormous_error_of_the_policy_is_cut() -> None:
    class Loud(Noting):
        def act(self, inputs: Sequence[PolicyInput]) -> list[Any]:
            raise ValueError("loud " * 10**6)

    with served(Loud()) as server:
        answer = Client(server).ask(prompt="a")
    assert answer.startswith("Traceback")
    assert len(answer) < 5000


def test_health_and_a_probe_that_leaves(capfd: pytest.CaptureFixture[str]) -> None:
    import socket

    with served(Noting()) as server:
        socket.create_connection(("127.0.0.1", server.port)).close()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/healthz", timeout=10) as reply:
            assert (reply.status, reply.read()) == (200, b"OK\n")
        with pytest.raises(InfrastructureError, match=f"Expected to listen at 127.0.0.1:{server.port}, got"):
            OpenPIServer(server._batcher, port=server.port)
    assert capfd.readouterr().err == ""


def test_the_libero_layout_gives_back_what_the_client_turned() -> None:
    policy = Noting(ObservationRequest(cameras=("agentview", "robot0_eye_in_hand"), image_size=224))
    draw = seeding.generator("libero layout")
    rotation = draw.normal(size=4)
    names = [
        *(f"eef_pos_{a}" for a in "xyz"),
        *(f"eef_quat_{a}" for a in "xyzw"),
        "gripper_qpos_0",
        "gripper_qpos_1",
    ]
    proprio = np.array([0.1, 0.2, 0.3, *(rotation / np.linalg.norm(rotation)), 0.02, -0.02], dtype=np.float32)
    observation = {
        "proprio": proprio,
        "agentview_image": draw.integers(0, 256, (224, 224, 3), dtype=np.uint8),
        "robot0_eye_in_hand_image": draw.integers(0, 256, (224, 224, 3), dtype=np.uint8),
    }
    with served(policy, layout="libero") as server:
        client = OpenPIPolicy(port=server.port, image_size=224)
        assert client.observations.image_size == 224
        client.begin(PolicyEpisode("e", "libero_goal", "t", "i", 1, {"proprio": tuple(names)}))
        client.act([PolicyInput("e", 0, "i", observation)])
        client.close()
    seen = policy.given[0].observation
    assert policy.begun[0].fields == {"proprio": tuple(names)}
    for name in ("agentview_image", "robot0_eye_in_hand_image"):
        np.testing.assert_array_equal(seen[name], observation[name])
    np.testing.assert_allclose(seen["proprio"], proprio, atol=1e-6)


def test_the_libero_layout_refuses_what_that_client_does_not_send() -> None:
    session = OpenPISession(Noting(ObservationRequest(object_state=True)), 0, "libero")
    with pytest.raises(
        InvalidInputError, match=re.escape("asks for ['object_state'] as well; serve it with")
    ):
        session.infer({"observation/state": np.zeros(8)})
    with pytest.raises(InvalidInputError, match=re.escape("of the shape (8,), got (7,)")):
        session.infer({"observation/state": np.zeros(7)})
    with pytest.raises(
        InvalidInputError, match="Expected an array of 1 dimensions under the key 'observation/state'"
    ):
        session.infer({"observation/image": np.zeros((2, 2, 3))})


def test_arguments_for_the_client_name_what_the_policy_looks_at() -> None:
    policy = Noting(ObservationRequest(cameras=("frontview",), image_size=96, depth=True, object_state=True))
    arguments = client_arguments(policy, "there", 9)
    client = OpenPIPolicy(**arguments)
    assert client.observations == policy.observations
    declared = {**policy.contract.to_dict(), "runtime_bridge": "openpi-websocket"}
    assert client.contract.to_dict() == declared
    assert set(arguments["contract"]) < set(FIELDS)


def test_the_command_serves_until_it_is_interrupted() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "roep_gym", "serve", "random", "--argument", "chunk=4", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    found = re.search(r"ws://127\.0\.0\.1:(\d+)", process.stdout.readline())
    assert found
    policy = OpenPIPolicy(port=int(found[1]), preset="custom", send_episode=True)
    policy.begin(PolicyEpisode("e", "", "", "", 3))
    assert policy.act([PolicyInput("e", 0, "", {})])[0].shape == (4, 7)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    output, errors = process.stdout.read(), process.stderr.read()
    assert process.wait(timeout=30) == 130
    assert "send_episode: true" in output
    assert output.endswith("1 decisions in 1 calls of the policy, at most 1 in one.\n")
    assert errors == "roep-gym: interrupted\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rendom"], "Unknown policy 'rendom'. Did you mean 'random'"),
        (["random", "--layout", "liber"], "Unknown layout of requests 'liber'. Did you mean 'libero'?"),
        (
            ["random", "--max-batch", "0"],
            "Expected max_batch to be an integer >= 1, got 0.",
        ),
        (["random", "--argument", "chunk"], "Expected --argument key=value, got 'chunk'."),
    ],
)
def test_what_cannot_be_served_is_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        dispatch(["serve", *arguments])
    assert message in str(caught.value)


def _until(condition: Any) -> None:
    for _ in range(200):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("Expected the condition to hold within four seconds.")
