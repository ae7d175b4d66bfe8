"""What a policy server of openpi is sent: `build_request` gives the request of one decision.

`openpi_preset` finds the preset of a published checkpoint; `CUSTOM` is for a server of one's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from roep_gym.contracts import RuntimeContract
from roep_gym.policies.base import PolicyEpisode, PolicyInput
from roep_gym.policies.presets.preset import ModelPreset, find_preset, observation_entry

__all__ = ["CUSTOM", "build_request", "openpi_preset"]

CUSTOM = ModelPreset(
    RuntimeContract(runtime_bridge="openpi-websocket", prompt_format="{instruction}"), policy="openpi"
)
"""A server of one's own, which is sent the prompt alone."""


def openpi_preset(name: str) -> ModelPreset:
    """Return the preset of a name; "custom" is `CUSTOM`.

    Raises:
        UnknownNameError: No preset has the name; the message offers the closest.
    """
    return CUSTOM if name == "custom" else find_preset(name)


def build_request(
    preset: ModelPreset,
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
    request: dict[str, Any] = dict(preset.prepare(episode, given))
    request["prompt"] = given.instruction
    request.update((key, observation_entry(given, name)) for key, name in extra_keys.items())
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
