"""The clients of policy servers, each against a server of its protocol in the test's process, with faults."""

from __future__ import annotations

import base64
import io
import json
import re
import socket
import threading
from typing import Any

import numpy as np
import policy_servers
import pytest
from PIL import Image

from roep_gym.contracts import compare
from roep_gym.error import InfrastructureError, InvalidInputError, ServerGoneError, UnknownNameError
from roep_gym.policies.base import Policy, PolicyEpisode, PolicyInput
from roep_gym.policies.contract_suite import PolicyContractTests
from roep_gym.policies.conversions import axis_angle, rotated_180
from roep_gym.policies.presets.preset import find_preset
from roep_gym.policies.registry import make_policy
from roep_gym.policies.remote.act import array_map, read_array_map
from roep_gym.policies.remote.address import PROTOCOLS, ServerAddress, answering

WRIST = {"send_wrist_image": True, "send_state": True}
OFT = {**WRIST, "env_seed": 0, "quat_no_antipodal": True}
XVLA = {**WRIST, "absolute_action": True}
CLIENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "openvla": ("act", {"form": "openvla"}),
    "openvla-oft": ("act", {"form": "openvla-oft"}),
    "x-vla": ("act", {"form": "x-vla"}),
    "roboeval": ("roboeval", {}),
    "vla-eval": ("vla-eval", {}),
}
"""Of a policy by its name: the protocol of its server, and the arguments of a fake one."""

every_client = pytest.mark.parametrize("name", CLIENTS)


def client(name: str, port: int, **arguments: Any) -> Any:
    return make_policy(name, port=port, image_size=24, connect_timeout=2.0, infer_timeout=2.0, **arguments)


def served(name: str, fault: str = "", **arguments: Any) -> Any:
    protocol, own = CLIENTS[name]
    return policy_servers.SERVERS[protocol](fault, **{**own, **arguments})


class Inputs(PolicyContractTests):
    """Makes episodes and decisions; `pytest` does not collect it under this name."""

    def make_policy(self) -> Policy:
        raise NotImplementedError


def begun(policy: Policy, number: int = 0) -> tuple[PolicyEpisode, PolicyInput]:
    made = Inputs()
    episode = made.make_episode(number)
    policy.begin(episode)
    return episode, made.make_input(policy.observations, episode, 0)


def ask(policy: Policy, number: int = 0) -> np.ndarray:
    return np.asarray(policy.act([begun(policy, number)[1]])[0])


@pytest.mark.parametrize("served_by", CLIENTS)
class TestEveryClient(PolicyContractTests):
    decisions = 2
    batch_sizes = (2,)

    @pytest.fixture(autouse=True)
    def _server(self, served_by: str) -> Any:
        with served(served_by) as asked:
            self.name, self.port = served_by, asked.port
            yield

    def make_policy(self) -> Policy:
        policy: Policy = client(self.name, self.port)
        return policy


@every_client
def test_what_is_measured_is_what_is_declared(name: str) -> None:
    with served(name) as asked:
        policy = client(name, asked.port)
        ask(policy)
        suite = policy.contract.for_suite(Inputs.suite)
        lines = {line.name: line for line in compare(suite, policy.observed())}
        assert not [line for line in lines.values() if line.verdict == "mismatch"]
        assert lines["runtime_bridge"].verdict == lines["rotation"].verdict == "match"
        policy.close()


@every_client
@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        ("raises", InfrastructureError, "had enough|its policy failed with the status 200"),
        ("closes", ServerGoneError, "closed the connection"),
        ("garbage", InfrastructureError, "with JSON, got|in the harness's format, got another frame"),
        ("no actions", InfrastructureError, "the entry 'actions?'|status 200: \"error\""),
    ],
)
def test_a_server_that_fails_ends_the_episode(
    name: str, fault: str, error: type[Exception], message: str
) -> None:
    with served(name, fault) as asked:
        policy = client(name, asked.port)
        episode, given = begun(policy)
        with pytest.raises(error, match=message) as raised:
            policy.act([given])
        assert isinstance(raised.value, ServerGoneError) == (fault == "closes")
        assert str(asked.port) in str(raised.value)
        with pytest.raises(InfrastructureError, match="begin the episode again"):
            policy.act([given])
        policy.end(episode.key)
        policy.close()


@every_client
def test_a_bad_chunk_is_handed_on(name: str) -> None:
    for fault in ("nan", "ragged"):
        with served(name, fault) as asked:
            policy = client(name, asked.port)
            chunk = ask(policy)
            assert chunk.ndim != 2 or chunk.dtype == object if fault == "ragged" else np.isnan(chunk).any()
            policy.close()


@every_client
def test_a_server_that_is_gone(name: str) -> None:
    with served(name) as asked:
        policy = client(name, asked.port)
        policy.ask_server()
    with pytest.raises(ServerGoneError, match="start it, or pass its host and port"):
        policy.ask_server()
    with pytest.raises(ServerGoneError, match="start it, or pass its host and port"):
        begun(policy)


@every_client
def test_a_server_that_comes_back_answers_the_next_episode(name: str) -> None:
    with served(name) as asked:
        policy = client(name, asked.port)
        first = ask(policy)
    with served(name, port=asked.port):
        np.testing.assert_array_equal(ask(policy), first)
        policy.close()


@pytest.mark.parametrize("protocol", sorted(policy_servers.SERVERS))
def test_who_answers_is_found_out(protocol: str) -> None:
    with policy_servers.SERVERS[protocol]() as asked:
        assert answering(ServerAddress("127.0.0.1", asked.port, 2.0, 2.0, 2.0)) == protocol


@pytest.mark.parametrize("protocol", sorted(policy_servers.SERVERS))
@pytest.mark.parametrize("name", ["openvla-oft", "pi05", "roboeval", "vla-eval"])
def test_the_wrong_client_says_who_answered(name: str, protocol: str) -> None:
    arguments: dict[str, Any] = {"connect_timeout": 0.3, "infer_timeout": 2.0}
    with policy_servers.SERVERS[protocol]() as asked:
        policy = make_policy(name, port=asked.port, **arguments)
        if policy.protocol == protocol:
            policy.ask_server()
            return
        there = re.escape(
            f"but {PROTOCOLS[protocol].server} answers there; evaluate it with --policy {protocol}"
        )
        with pytest.raises(InfrastructureError, match=there) as raised:
            policy.ask_server()
        assert not isinstance(raised.value, ServerGoneError)


def test_a_grpc_server_is_recognised() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(2):  # one that speaks HTTP/1 is sent away, the beginning of HTTP/2 is answered
                connection, _ = listener.accept()
                with connection:
                    asked = connection.recv(1000)
                    connection.sendall(
                        bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]) if asked.startswith(b"PRI") else b"\x00"
                    )

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        found = answering(ServerAddress("127.0.0.1", listener.getsockname()[1], 2.0, 2.0, 2.0))
        thread.join()
    assert found == "grpc"


# What is sent


@pytest.mark.parametrize("size", [24, 31])
def test_openvla_oft_is_sent_raw_frames_and_the_state(size: int) -> None:
    with served("openvla-oft") as asked:
        policy = make_policy("openvla-oft", port=asked.port, image_size=size)
        _, given = begun(policy)
        chunk = policy.act([given])[0]
        sent = asked.observations[0]
    assert list(sent) == ["full_image", "wrist_image", "state", "instruction"]
    np.testing.assert_array_equal(
        read_array_map(sent["full_image"]), rotated_180(given.observation["agentview_image"])
    )
    assert read_array_map(sent["state"]).shape == (8,)
    assert sent["instruction"] == given.instruction
    assert chunk.shape == (8, 7)
    assert set(chunk[:, -1]) <= {-1.0, 1.0}


def test_openvla_is_sent_the_key_of_the_suite() -> None:
    with served("openvla") as asked:
        for arguments, key in (
            ({}, "libero_goal"),
            ({"unnorm_key": "mine"}, "mine"),
            ({"unnorm_key": ""}, None),
        ):
            policy = client("openvla", asked.port, **arguments)
            assert ask(policy).shape == (1, 7)
            assert asked.observations[-1].get("unnorm_key") == key
            assert policy.observed().get("unnorm_key") == key
    assert read_array_map(asked.observations[0]["image"]).shape == (224, 224, 3)


def test_xvla_is_sent_texts_in_json_and_answers_poses() -> None:
    with served("x-vla") as asked:
        policy = client("x-vla", asked.port)
        _, given = begun(policy)
        chunk = policy.act([given])[0]
        sent = asked.observations[0]
    assert (sent["domain_id"], sent["steps"]) == (3, 10)
    assert sent["language_instruction"] == given.instruction
    np.testing.assert_array_equal(
        read_array_map(json.loads(sent["image1"])), given.observation["robot0_eye_in_hand_image"][::-1]
    )
    assert read_array_map(json.loads(sent["proprio"])).shape == (20,)
    assert chunk.shape == (30, 7)


def test_an_act_server_that_lists_no_routes_is_known_by_its_refusal_of_get() -> None:
    with policy_servers.act(documented=False) as asked:
        client("openvla-oft", asked.port).ask_server()


@pytest.mark.parametrize("image_format", ["png", "jpeg"])
@pytest.mark.parametrize("size", [24, 31])
def test_roboeval_is_sent_files_as_declared(image_format: str, size: int) -> None:
    with policy_servers.roboeval() as asked:
        policy = make_policy("roboeval", port=asked.port, image_format=image_format, image_size=size)
        _, given = begun(policy)
        policy.act([given])
        sent = asked.observations[0]
        assert asked.kinds == ["/info", "/health", "/reset", "/predict"]
    for role, camera in (("primary", "agentview"), ("wrist", "robot0_eye_in_hand")):
        image = Image.open(io.BytesIO(base64.b64decode(sent["images"][role])))
        assert image.format == image_format.upper()
        same = np.array_equal(np.array(image), rotated_180(given.observation[f"{camera}_image"]))
        assert same == (image_format == "png")
    assert sent["instruction"] == given.instruction
    assert len(sent["state"]["flat"]) == 8
    assert policy.observed()["encoding"] == ("jpeg" if image_format == "jpeg" else "none")
    assert policy.observed()["checkpoint_source"] == "tiny"


@pytest.mark.parametrize(
    ("info", "message"),
    [
        (
            {"action_space": {"type": "joint_pos", "dim": 14}},
            "whose action_space.type is 'eef_delta', got 'joint_pos'",
        ),
        ({"action_space": {"type": "eef_delta", "dim": 6}}, "whose action_space.dim is 7, got 6"),
        (
            {"obs_requirements": {"cameras": ["secondary"]}},
            r"whose cameras is some of \['primary', 'wrist'\]",
        ),
        ({"obs_requirements": {"state_dim": 14}}, "whose state_dim is 0 or 8, got 14"),
        (
            {"obs_requirements": {"image_transform": "none"}},
            "whose image_transform is 'applied_in_sim', got 'none'",
        ),
    ],
)
def test_a_roboeval_server_of_another_robot_is_refused(info: dict[str, Any], message: str) -> None:
    with (
        policy_servers.roboeval(info=info) as asked,
        pytest.raises(InvalidInputError, match=message),
    ):
        client("roboeval", asked.port).ask_server()


def test_a_roboeval_server_that_loads_is_waited_for() -> None:
    with (
        policy_servers.roboeval(ready=False) as asked,
        pytest.raises(ServerGoneError, match="its model is not loaded"),
    ):
        client("roboeval", asked.port).ask_server()


def test_vla_eval_is_told_of_episodes_over_one_connection() -> None:
    with policy_servers.vla_eval() as asked:
        policy = client("vla-eval", asked.port)
        for number in range(2):
            episode, given = begun(policy, number)
            policy.act([given])
            policy.act([given])
            policy.end(episode.key)
        policy.close()
    told = ["episode_start", "observation", "observation", "episode_end"]
    assert asked.kinds[:9] == ["hello", *told, *told]


def test_vla_eval_has_a_connection_for_each_open_episode() -> None:
    with policy_servers.vla_eval() as asked:
        policy = client("vla-eval", asked.port)
        inputs = [begun(policy, number)[1] for number in range(2)]
        assert len(policy.act(inputs)) == 2
        policy.close()
    assert asked.kinds.count("hello") == 2


@pytest.mark.parametrize("image_format", ["raw", "jpeg", "png"])
@pytest.mark.parametrize("size", [24, 31])
def test_vla_eval_is_sent_frames_as_declared(image_format: str, size: int) -> None:
    with policy_servers.vla_eval(hello={"observation_params": XVLA}) as asked:
        policy = make_policy(
            "vla-eval",
            port=asked.port,
            image_size=size,
            image_format=image_format,
            observation_params=XVLA,
        )
        _, given = begun(policy)
        assert policy.act([given])[0].shape == (1, 7)
        sent = asked.observations[0]
    assert list(sent["images"]) == ["agentview", "wrist"]
    for image in sent["images"].values():
        if image_format == "raw":
            assert isinstance(image, np.ndarray)
        else:
            assert Image.open(io.BytesIO(image["data"])).format == image_format.upper()
            assert (image["format"], image["shape"]) == (image_format, [size, size, 3])
    assert policy.observed()["encoding"] == ("jpeg" if image_format == "jpeg" else "none")
    assert policy.contract.control_mode == "absolute"
    assert policy.observations.controller_pose


def test_vla_eval_states_turn_as_the_server_asks() -> None:
    quaternion = np.array([0.6, 0.0, 0.0, -0.8])
    values = np.concatenate([[0.1, 0.2, 0.3], quaternion, [0.04, -0.04]])
    names = (
        *(f"eef_pos_{a}" for a in "xyz"),
        *(f"eef_quat_{a}" for a in "xyzw"),
        "gripper_qpos_0",
        "gripper_qpos_1",
    )
    frame = np.zeros((24, 24, 3), dtype=np.uint8)
    observation = {
        "proprio": values,
        "agentview_image": frame,
        "robot0_eye_in_hand_image": frame,
        "controller_pose": np.array([1.0, 2.0, 3.0, 0, 1, 0, -1, 0, 0]),
    }
    for params, antipode in ((OFT, "kept"), (WRIST, "shortest")):
        with policy_servers.vla_eval(hello={"observation_params": params}) as asked:
            policy = client("vla-eval", asked.port, observation_params=params)
            policy.begin(PolicyEpisode("e", "libero_goal", "t", "i", 1, {"proprio": names}))
            policy.act([PolicyInput("e", 0, "i", observation)])
            policy.close()
        sent = asked.observations[0]
        expected = [0.1, 0.2, 0.3, *axis_angle(quaternion, antipode), 0.04, -0.04]
        np.testing.assert_allclose(sent["states"], expected, rtol=1e-6)
        np.testing.assert_allclose(
            sent["controller_states"], [1, 2, 3, 0, 0, np.pi / 2, 0.04, -0.04], atol=1e-6
        )


@pytest.mark.parametrize(
    ("hello", "message"),
    [
        (
            {"observation_params": OFT},
            "pass --argument 'observation_params={send_wrist_image: true, send_state: true",
        ),
        ({"observation_params": {"send_video_history": True}}, "Unknown entry of observation_params"),
        ({"observation_params": {"send_state": 1}}, "observation_params.send_state to be"),
        ({"protocol_version": 2}, "Expected version 1 of the harness's protocol, got 2"),
        (
            {"action_spec": {"gripper": {"dims": 1, "format": "binary_close_negative"}}},
            "specifies gripper as 'binary_close_negative'",
        ),
        (
            {"action_spec": {"rotation": {"dims": 3, "format": "euler_xyz"}}},
            "specifies rotation as 'euler_xyz'",
        ),
        (
            {"action_spec": {"arm": {"dims": 7, "format": "raw"}, "gripper": {"dims": 1, "format": "raw"}}},
            "specifies an action of 8 numbers",
        ),
        (
            {"observation_spec": {"a": {"format": "rgb_hwc_uint8"}, "b": {"format": "rgb_hwc_uint8"}}},
            "specifies the images",
        ),
        (
            {"observation_spec": {"state": {"format": "joint_positions"}}},
            "specifies state as 'joint_positions'",
        ),
    ],
)
def test_a_handshake_that_does_not_fit_is_refused(hello: dict[str, Any], message: str) -> None:
    with (
        policy_servers.vla_eval(hello=hello) as asked,
        pytest.raises(InvalidInputError, match=re.escape(message)),
    ):
        client("vla-eval", asked.port).ask_server()


def test_the_argument_that_a_refusal_names_is_taken() -> None:
    with policy_servers.vla_eval(hello={"observation_params": OFT}) as asked:
        with pytest.raises(InvalidInputError) as raised:
            client("vla-eval", asked.port).ask_server()
        import yaml

        found = re.search(r"observation_params=(\{.*\})'", str(raised.value))
        assert found is not None
        client("vla-eval", asked.port, observation_params=yaml.safe_load(found[1])).ask_server()


def test_a_reply_to_another_observation_is_refused() -> None:
    with policy_servers.vla_eval(seq_shift=1) as asked:
        policy = client("vla-eval", asked.port)
        with pytest.raises(
            InfrastructureError, match="the message 'action' with the number 3, got 'action' with the"
        ):
            ask(policy)


def test_a_server_without_chunks_of_its_own_answers_with_a_whole_one() -> None:
    with policy_servers.vla_eval(chunked=False) as asked:
        policy = client("vla-eval", asked.port)
        assert ask(policy).shape == (policy_servers.CHUNK, 7)
        policy.close()


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("vla-eval", {"image_format": "tiff"}, "Unknown image_format 'tiff'"),
        ("vla-eval", {"observation_params": {"send_sate": True}}, "Did you mean 'send_state'"),
        ("roboeval", {"image_format": "raw"}, "Unknown image_format 'raw'"),
        ("act", {"preset": "pi05"}, "Unknown form of /act"),
        ("act", {"preset": "x-vla", "form": "x"}, "Unknown form of /act 'x'"),
    ],
)
def test_unknown_arguments_are_refused(name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        make_policy(name, **arguments)


@pytest.mark.parametrize("value", [{"port": 0}, {"lost_timeout": 0.0}, {"infer_timeout": float("inf")}])
@every_client
def test_addresses_outside_their_range_are_refused(name: str, value: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(value))):
        make_policy(name, **value)


@pytest.mark.parametrize("array", [np.arange(6, dtype=np.uint8).reshape(1, 2, 3), np.array(1.5)])
def test_json_numpy_round_trip(array: np.ndarray) -> None:
    np.testing.assert_array_equal(read_array_map(array_map(array)), array)


def test_json_numpy_as_its_package_writes_it() -> None:
    written = {"__numpy__": "AQID", "dtype": "|u1", "shape": [3]}
    assert array_map(np.array([1, 2, 3], dtype=np.uint8)) == written
    assert find_preset("openvla-oft").arguments["form"] == "openvla-oft"


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"__numpy__": "AQI", "dtype": "|u1", "shape": [3]},
        {"__numpy__": "AQID", "dtype": "O", "shape": [3]},
    ],
)
def test_broken_arrays_are_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        read_array_map(broken)
