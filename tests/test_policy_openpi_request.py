"""What a server of openpi is sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from roep_gym.error import InvalidInputError
from roep_gym.policies.base import PolicyEpisode, PolicyInput
from roep_gym.policies.conversions import resize_with_pad
from roep_gym.policies.openpi.request import CUSTOM, build_request
from roep_gym.policies.presets.preset import find_preset

FIELDS = {
    "proprio": (
        "joint_pos_0",
        *(f"eef_pos_{a}" for a in "xyz"),
        *(f"eef_quat_{a}" for a in "xyzw"),
        "gripper_qpos_0",
        "gripper_qpos_1",
    )
}
EPISODE = PolicyEpisode("run/0/3", "libero_goal", "turn_on_the_stove", "turn on the stove", 7, FIELDS)


def given(**entries: Any) -> PolicyInput:
    draw = np.random.default_rng(0)
    observation = {
        "proprio": np.array([9, 0.1, 0.2, 0.3, 1, 0, 0, 0, 0.04, -0.04], dtype=np.float32),
        "agentview_image": draw.integers(0, 256, (256, 256, 3), dtype=np.uint8),
        "robot0_eye_in_hand_image": draw.integers(0, 256, (256, 256, 3), dtype=np.uint8),
        **entries,
    }
    return PolicyInput("run/0/3", 5, "turn on the stove", observation)


def test_request_of_a_libero_checkpoint():
    decision = given()
    request = build_request(find_preset("pi05"), EPISODE, decision, extra_keys={}, send_episode=False)
    assert list(request) == ["observation/image", "observation/wrist_image", "observation/state", "prompt"]
    for key, camera in (("image", "agentview"), ("wrist_image", "robot0_eye_in_hand")):
        frame = request[f"observation/{key}"]
        assert (frame.shape, frame.dtype) == ((224, 224, 3), np.uint8)
        upright = decision.observation[f"{camera}_image"]
        np.testing.assert_array_equal(frame, resize_with_pad(np.ascontiguousarray(upright[:, ::-1]), 224))
    state = request["observation/state"]
    assert (state.shape, state.dtype) == ((8,), np.float64)
    np.testing.assert_allclose(state, [0.1, 0.2, 0.3, np.pi, 0, 0, 0.04, -0.04], rtol=1e-6)
    assert request["prompt"] == "turn on the stove"


def test_extra_keys_and_episode():
    poses = np.arange(3.0)
    request = build_request(
        CUSTOM,
        EPISODE,
        given(object_state=poses),
        extra_keys={"observation/object_state": "object_state"},
        send_episode=True,
    )
    assert list(request) == ["prompt", "observation/object_state", "episode"]
    np.testing.assert_array_equal(request["observation/object_state"], poses)
    assert request["episode"] == {
        "key": "run/0/3",
        "seed": 7,
        "step": 5,
        "suite": "libero_goal",
        "task": "turn_on_the_stove",
        "instruction": "turn on the stove",
        "fields": {"proprio": list(FIELDS["proprio"])},
    }


def test_says_which_observation_is_missing():
    with pytest.raises(InvalidInputError, match="Expected the observation 'object_state'"):
        build_request(CUSTOM, EPISODE, given(), extra_keys={"o": "object_state"}, send_episode=False)


def test_says_which_entry_is_missing():
    episode = PolicyEpisode("e", "s", "t", "i", 0, {"proprio": tuple("abcdefghij")})
    with pytest.raises(InvalidInputError, match="Expected the entry 'eef_pos_x'"):
        build_request(find_preset("pi05"), episode, given(), extra_keys={}, send_episode=False)
