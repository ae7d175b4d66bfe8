"""The hyperparameters of a training file, which are JSON, as Stable-Baselines3's algorithms take them.

`read_hyperparameters` turns schedules, noise and names of classes into objects and refuses what an algorithm would take
in silence; `policy_for` chooses the policy class that fits the observation.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.utils import LinearSchedule

from roep_gym.error import InvalidInputError, shown, unknown_name
from roep_gym.policies.sb3 import check_device
from roep_gym.registry import load_place

__all__ = ["policy_for", "read_hyperparameters"]

_SCHEDULED = ("learning_rate", "clip_range", "clip_range_vf", "delta_std")
_NOISES = {"normal": NormalActionNoise, "ornstein_uhlenbeck": OrnsteinUhlenbeckActionNoise}
_NAMED: Mapping[str, Any] = {"activation_fn": torch.nn.modules.activation, "optimizer_class": torch.optim}
"""Arguments that take a class, with the package where a bare name is looked up."""


def read_hyperparameters(
    algorithm: type[BaseAlgorithm], given: Mapping[str, Any], action_space: spaces.Space[Any]
) -> dict[str, Any]:
    """Return the arguments of an algorithm.

    Args:
        algorithm: Class of the algorithm.
        given: The hyperparameters of the file. A schedule is `{"linear": [start, end]}` or `{"linear": start}`, which
            ends at 0; noise is `{"normal": sigma}` or `{"ornstein_uhlenbeck": sigma}`; a class, in
            `policy_kwargs` or of an argument ending in `_class`, is a name of PyTorch ("ReLU") or "module:attribute".
        action_space: The environment's actions, for noise on them.

    Raises:
        InvalidInputError: A value is not of the kind that the algorithm needs, or the device is a missing GPU.
    """
    known = inspect.signature(algorithm).parameters
    read: dict[str, Any] = {}
    for name, value in given.items():
        is_number = name in known and type(known[name].default) in (int, float)
        if name in _SCHEDULED and isinstance(value, Mapping):
            value = _schedule(name, value)
        elif is_number and (value is None or isinstance(value, str | Mapping)):
            hint = "; YAML takes 3e-4 for text, write 3.0e-4" if isinstance(value, str) else ""
            raise InvalidInputError(
                f"Expected the hyperparameter {name} to be a number, got {shown(value)}{hint}."
            )
        elif name == "action_noise" and value is not None:
            value = _noise(value, action_space)
        elif name == "policy_kwargs" and isinstance(value, Mapping):
            value = {key: _class(key, part) for key, part in value.items()}
        elif name == "train_freq" and isinstance(value, list):
            value = tuple(value)
        elif name == "device":
            check_device(value)
        read[name] = _class(name, value)
    return read


def policy_for(algorithm: type[BaseAlgorithm], space: spaces.Space[Any]) -> str:
    """Return the name of an algorithm's policy class for an observation space."""
    kind = "MultiInput" if isinstance(space, spaces.Dict) else "Cnn" if is_image_space(space) else "Mlp"
    offered = algorithm.policy_aliases
    for name in (f"{kind}Policy", f"{kind}LstmPolicy"):
        if name in offered or not offered:
            return name
    raise InvalidInputError(
        f"Expected an observation that {algorithm.__name__} has a policy for ({', '.join(offered)}), got {space}; "
        "choose one vector with observation_keys, such as observation_keys: proprio."
    )


def _schedule(name: str, value: Mapping[str, Any]) -> LinearSchedule:
    ends = value.get("linear")
    ends = ends if isinstance(ends, list) else [ends, 0.0]
    if set(value) != {"linear"} or len(ends) != 2 or not all(map(_is_rate, ends)):
        raise InvalidInputError(
            f"Expected the schedule of {name} as {{linear: start}} or {{linear: [start, end]}} with numbers >= 0, got "
            f"{shown(value)}; YAML takes 3e-4 for text, write 3.0e-4."
        )
    return LinearSchedule(float(ends[0]), float(ends[1]), 1.0)


def _is_rate(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _noise(value: Any, action_space: spaces.Space[Any]) -> Any:
    if not isinstance(value, Mapping) or len(value) != 1 or not set(value) <= set(_NOISES):
        raise InvalidInputError(
            f"Expected action_noise as {{normal: sigma}} or {{ornstein_uhlenbeck: sigma}}, got {shown(value)}."
        )
    ((kind, sigma),) = value.items()
    entries = sigma if isinstance(sigma, list) else [sigma]
    count = int(np.prod(action_space.shape or ()))
    if not all(_is_rate(entry) for entry in entries) or len(entries) not in (1, count):
        raise InvalidInputError(
            f"Expected sigma of action_noise to be a number >= 0 or {count} of them, got {shown(sigma)}."
        )
    return _NOISES[kind](mean=np.zeros(count), sigma=np.broadcast_to(np.array(entries, float), count).copy())


def _class(name: str, value: Any) -> Any:
    """Return the class that a text names, where the argument takes one; anything else as it is."""
    if not isinstance(value, str) or not (name in _NAMED or name.endswith("_class")):
        return value
    if ":" in value:
        found: Callable[..., Any] = load_place(value, name)
        return found
    package = _NAMED.get(name)
    if package is None:
        raise InvalidInputError(f"Expected {name} as 'module:attribute', got {value!r}.")
    names = {key.lower(): key for key, part in vars(package).items() if isinstance(part, type)}
    if value.lower() not in names:
        raise unknown_name(name, value, sorted(names.values()), "Or name a class as module:attribute.")
    return getattr(package, names[value.lower()])
