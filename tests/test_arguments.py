"""Numbers of NumPy are arguments like Python's, and what is recorded of them is JSON-native."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from training_shields import RareShield

import roep_gym  # noqa: F401
from roep_gym.arguments import check_names, plain, read_integer, read_number
from roep_gym.envs import LiberoEnv, TabletopEnv
from roep_gym.episode import EpisodeIdentity
from roep_gym.error import InvalidInputError, UnknownNameError
from roep_gym.wrappers import (
    PenalizeIntervention,
    PerturbObservation,
    ShieldAction,
    StepBudget,
    TrainingEpisode,
)


@pytest.mark.parametrize(
    ("env_id", "arguments"),
    [
        ("roep_gym/Tabletop-v0", {"image_size": np.int64(16), "settle_steps": np.uint8(2)}),
        (
            "roep_gym/Libero-v0",
            {
                "task": "goal_stove",
                "image_size": np.int16(32),
                "settle_steps": np.int64(1),
                "placement_shift": np.float32(0.03125),
                "reward_discount": np.float64(0.5),
                "safety_limits": {"drop_speed": np.float32(0.5)},
            },
        ),
    ],
)
def test_an_environment_takes_numpys_numbers(env_id: str, arguments: dict[str, Any]) -> None:
    spec = gym.make(env_id, disable_env_checker=True, **arguments).spec
    assert spec is not None
    stored = json.loads(spec.to_json())["kwargs"]
    assert stored == {
        name: value if isinstance(value, str | dict) else value.item() for name, value in arguments.items()
    }
    again = gym.make(gym.envs.registration.EnvSpec.from_json(spec.to_json()))
    assert again.unwrapped.image_size == arguments["image_size"]
    assert type(again.unwrapped.image_size) is int


@pytest.mark.parametrize(
    ("wrap", "recorded"),
    [
        (lambda env: StepBudget(env, max_steps=np.int64(5)), {"max_steps": 5}),
        (lambda env: TrainingEpisode(env, "run", index=np.int32(2)), {"run_id": "run", "index": 2}),
        (
            lambda env: PenalizeIntervention(
                ShieldAction(env, RareShield()), np.float32(0.5), distance_penalty=np.int64(1)
            ),
            {"penalty": 0.5, "distance_penalty": 1.0},
        ),
        (lambda env: PerturbObservation(env, severity=np.float32(0.5)), {"severity": 0.5}),
        (
            lambda env: PerturbObservation(env, severity={"uniform": [np.float64(0), np.float32(0.5)]}),
            {"severity": {"uniform": [0.0, 0.5]}},
        ),
        (
            lambda env: PerturbObservation(
                env, {"name": "own", "operators": [{"operator": "rgb_occlusion", "alpha": np.float32(0.25)}]}
            ),
            {"profile": {"name": "own", "operators": [{"operator": "rgb_occlusion", "alpha": 0.25}]}},
        ),
    ],
)
def test_a_wrapper_takes_numpys_numbers_and_records_pythons(
    wrap: Callable[[Any], Any], recorded: dict[str, Any]
) -> None:
    arguments = wrap(gym.make("roep_gym/Tabletop-v0", image_size=16))._saved_kwargs
    assert {name: json.loads(json.dumps(arguments[name])) for name in recorded} == recorded


@pytest.mark.parametrize("value", [True, np.True_, "3", 3.5, None, np.array([3])])
def test_what_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(f"an integer >= 0, got {value!r}")):
        read_integer("size", value, 0)
    if value != 3.5:
        with pytest.raises(InvalidInputError, match=re.escape(f"a finite number in 0..1, got {value!r}")):
            read_number("share", value, 0.0, 1.0)
    with pytest.raises(InvalidInputError, match="Expected max_steps to be an integer >= 1, got "):
        StepBudget(TabletopEnv(image_size=16), max_steps=value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.5, 1.5])
def test_a_number_out_of_its_range_is_refused(value: float) -> None:
    with pytest.raises(InvalidInputError, match=r"Expected share to be a finite number in 0\.\.1, got "):
        read_number("share", value, 0.0, 1.0)


def test_the_first_unknown_name_is_refused_with_the_closest_and_the_remedy() -> None:
    check_names("colour", [], ("black", "green"))
    check_names("colour", ["black"], ("black", "green"))
    with pytest.raises(UnknownNameError, match=r"^Unknown colour 'gren'\. Did you mean 'green'\? Mix one\.$"):
        check_names("colour", ["black", "gren", "blu"], ("black", "green"), "Mix one.")


def test_plain_keeps_what_is_no_number() -> None:
    value = {"a": [np.float32(0.5), True, None, "x"], "b": (np.uint8(3),)}
    assert json.dumps(plain(value)) == '{"a": [0.5, true, null, "x"], "b": [3]}'


def test_a_scene_seed_beyond_32_bits_is_refused_in_one_sentence() -> None:
    env = LiberoEnv("goal_stove", cameras=[])
    identity = EpisodeIdentity("run", 0, 0, init_state=0, scene_seed=2**32)
    message = "Expected a scene seed in 0..4294967295, as LIBERO's random stream takes it, got 4294967296."
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        env.reset(options=identity.to_options())
    env.close()
