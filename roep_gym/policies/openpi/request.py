"""What a policy server of openpi is sent: presets for published checkpoints, and the request of one decision.

`OpenPIPreset` ties the keys of a request to our observations and declares the runtime contract; `PRESETS` holds those
of the published LIBERO checkpoints and "custom" for a server of one's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from roep_gym.contracts import RuntimeContract
from roep_gym.error import InvalidInputError
from roep_gym.policies.base import PolicyEpisode, PolicyInput
from roep_gym.policies.conversions import libero_state, resize_with_pad, rotated_180
from roep_gym.typing import JSON, Array, FloatArray

__all__ = [
    "PRESETS",
    "OpenPIPreset",
    "build_request",
    "measure_request",
]

REQUEST_SIZE = 224
STATE_LAYOUT = "eef_pos(3) eef_axis_angle(3) gripper_qpos(2)"


@dataclass(frozen=True)
class OpenPIPreset:
    """What one kind of checkpoint is sent, and the runtime it was built for.

    Attributes:
        contract: The declared runtime.
        images: Camera by request key.
        image_size: Height and width of the rendered frames, in pixels.
        state_key: Request key of the state vector (8,); empty: it is not sent.
    """

    contract: RuntimeContract
    images: Mapping[str, str] = field(default_factory=dict)
    image_size: int = 128
    state_key: str = ""


_PI05_LIBERO = OpenPIPreset(
    contract=RuntimeContract(
        checkpoint_source="gs://openpi-assets/checkpoints/pi05_libero",
        runtime_bridge="openpi-websocket",
        cameras=["agentview", "robot0_eye_in_hand"],
        resolution=256,
        rotation="rotated_180",
        crop="none",
        resize="pad_bilinear_224",
        encoding="none",
        prompt_format="{instruction}",
        proprio_layout=STATE_LAYOUT,
        control_mode="relative",
        action_scale="n/a",
        action_clip="n/a",
        unnorm_key="n/a",
        gripper_sign="-1 open, +1 close",
        eef_orientation="axis_angle",
        chunk_length=10,
        executed_steps=5,
        replan_after_intervention=False,
        precision="bfloat16",
        settle_steps=10,
        suite="any",
        mujoco="3.2.3",
        robosuite="1.4.1",
    ),
    images={"observation/image": "agentview", "observation/wrist_image": "robot0_eye_in_hand"},
    image_size=256,
    state_key="observation/state",
)

PRESETS: Mapping[str, OpenPIPreset] = {
    "pi05_libero": _PI05_LIBERO,
    "pi0_libero": replace(
        _PI05_LIBERO,
        contract=replace(
            _PI05_LIBERO.contract,
            checkpoint_source="gs://openpi-assets/checkpoints/pi0_libero",
            chunk_length=50,
        ),
    ),
    "pi0_fast_libero": replace(
        _PI05_LIBERO,
        contract=replace(
            _PI05_LIBERO.contract, checkpoint_source="gs://openpi-assets/checkpoints/pi0_fast_libero"
        ),
    ),
    "custom": OpenPIPreset(
        contract=RuntimeContract(runtime_bridge="openpi-websocket", prompt_format="{instruction}")
    ),
}


def build_request(
    preset: OpenPIPreset,
    episode: PolicyEpisode,
    given: PolicyInput,
    *,
    extra_keys: Mapping[str, str],
    send_episode: bool,
) -> dict[str, Any]:
    """Return the request of one decision.

    Args:
        preset: Which images and state are sent.
        episode: The episode of the decision.
        given: The decision.
        extra_keys: Observation by further request keys; sent as they are.
        send_episode: Whether the episode's key, seed, step and field names are sent under "episode".

    Raises:
        InvalidInputError: The observation lacks something that is to be sent.
    """
    request: dict[str, Any] = {
        key: resize_with_pad(rotated_180(_entry(given, f"{camera}_image")), REQUEST_SIZE)
        for key, camera in preset.images.items()
    }
    if preset.state_key:
        request[preset.state_key] = _state(episode, given)
    request["prompt"] = given.instruction
    request.update((key, _entry(given, name)) for key, name in extra_keys.items())
    if send_episode:
        request["episode"] = {
            "key": episode.key,
            "seed": episode.seed,
            "step": given.step,
            "suite": episode.suite,
            "task": episode.task,
            "instruction": episode.instruction,
            "fields": {name: list(fields) for name, fields in episode.fields.items()},
        }
    return request


def measure_request(
    preset: OpenPIPreset, episode: PolicyEpisode, given: PolicyInput, request: Mapping[str, Any]
) -> dict[str, JSON]:
    """Return what was done to an observation on its way into a request, by field of the runtime contract.

    What was sent is compared with what was given; a field that no known preparation explains is left out.
    """
    found: dict[str, JSON] = {}
    if request["prompt"] == given.instruction:
        found["prompt_format"] = "{instruction}"
    frames = {key: _entry(given, f"{camera}_image") for key, camera in preset.images.items()}
    turns = [
        name
        for name, direction in {"upright": 1, "rotated_180": -1}.items()
        if all(
            np.array_equal(
                request[key], resize_with_pad(np.ascontiguousarray(frame[:, ::direction]), REQUEST_SIZE)
            )
            for key, frame in frames.items()
        )
    ]
    if frames and turns:  # the bytes of the whole frame, resized
        found |= {"crop": "none", "resize": f"pad_bilinear_{REQUEST_SIZE}", "encoding": "none"}
    if len(turns) == 1:  # a frame that equals its mirror image shows both
        found["rotation"] = turns[0]
    if preset.state_key and np.array_equal(request[preset.state_key], _state(episode, given)):
        found["proprio_layout"] = STATE_LAYOUT
    return found


def _state(episode: PolicyEpisode, given: PolicyInput) -> FloatArray:
    values = _entry(given, "proprio").astype(np.float64)
    return libero_state(dict(zip(episode.fields.get("proprio", ()), values, strict=True)))


def _entry(given: PolicyInput, name: str) -> Array:
    if name not in given.observation:
        raise InvalidInputError(
            f"Expected the observation {name!r}, got {sorted(given.observation)}; "
            "make the environment with what the policy asks for."
        )
    return given.observation[name]
