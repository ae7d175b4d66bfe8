"""What a server of openpi is sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from roep_gym.error import InvalidInputError
from roep_gym.policies.base import PolicyEpisode, PolicyInput
from roep_gym.policies.conversions import resize_with_pad
from roep_gym.policies.openpi.request import (
    PRESETS,
    build_request,
    measure_request,
)

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
    request = build_request(PRESETS["pi05_libero"], EPISODE, decision, extra_keys={}, send_episode=False)
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


IMAGES = ("observation/image", "observation/wrist_image")


def test_what_was_done_to_an_observation_is_read_off_the_request():
    preset, decision = PRESETS["pi05_libero"], given()
    sent = build_request(preset, EPISODE, decision, extra_keys={}, send_episode=False)
    found = measure_request(preset, EPISODE, decision, sent)
    declared = preset.contract.to_dict()
    assert found == {name: declared[name] for name in found}
    assert set(found) == {"prompt_format", "rotation", "crop", "resize", "encoding", "proprio_layout"}
    upright = {
        key: resize_with_pad(decision.observation[f"{preset.images[key]}_image"], 224) for key in IMAGES
    }
    assert measure_request(preset, EPISODE, decision, sent | upright)["rotation"] == "upright"
    cropped = {key: sent[key][::-1] for key in IMAGES}
    changed = sent | cropped | {"prompt": "Task: stove", "observation/state": np.zeros(8)}
    assert measure_request(preset, EPISODE, decision, changed) == {}


def test_a_frame_that_equals_its_mirror_image_shows_no_rotation():
    even = np.full((256, 256, 3), 7, dtype=np.uint8)
    decision = given(agentview_image=even, robot0_eye_in_hand_image=even)
    sent = build_request(PRESETS["pi05_libero"], EPISODE, decision, extra_keys={}, send_episode=False)
    found = measure_request(PRESETS["pi05_libero"], EPISODE, decision, sent)
    assert "rotation" not in found
    assert found["crop"] == "none"


def test_extra_keys_and_episode():
    poses = np.arange(3.0)
    request = build_request(
        PRESETS["custom"],
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
        build_request(
            PRESETS["custom"], EPISODE, given(), extra_keys={"o": "object_state"}, send_episode=False
        )


def test_says_which_entry_is_missing():
    episode = PolicyEpisode("e", "s", "t", "i", 0, {"proprio": tuple("abcdefghij")})
    with pytest.raises(InvalidInputError, match="Expected the entry 'eef_pos_x'"):
        build_request(PRESETS["pi05_libero"], episode, given(), extra_keys={}, send_episode=False)


@pytest.mark.parametrize("name", ["pi05_libero", "pi0_libero", "pi0_fast_libero"])
def test_presets_declare_everything_but_the_revision(name: str):
    contract = PRESETS[name].contract.to_dict()
    assert [field for field, value in contract.items() if value is None] == ["checkpoint_revision"]
    assert contract["executed_steps"] == 5
