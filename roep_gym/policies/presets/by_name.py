"""Each preset with a client as an attribute: the client with the preset as its argument, as the registry finds it.

`make_policy("pi05", port=8000)` is `make_policy("openpi", preset="pi05", port=8000)`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from roep_gym.policies.presets.preset import find_preset, preset_names
from roep_gym.policies.registry import POLICIES

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    if name not in preset_names():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    preset = find_preset(name)
    return partial(POLICIES.find(preset.policy), preset=name, **preset.arguments)
