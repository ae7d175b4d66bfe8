"""What holds of every wrapper in `roep_gym.wrappers`, alone and in a stack."""

from __future__ import annotations

import copy
import importlib
import inspect
import json
import pkgutil
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec, WrapperSpec
from gymnasium.utils.env_checker import check_env, data_equivalence

import roep_gym  # noqa: F401
from roep_gym import wrappers
from roep_gym.error import InvalidInputError
from roep_gym.shields import Assessment
from roep_gym.wrappers import (
    PenalizeIntervention,
    PerturbObservation,
    RecordEpisode,
    SelectObservation,
    ShieldAction,
    StepBudget,
    TrainingEpisode,
)

MAKE = {"image_size": 16, "depth": True, "cameras": ["agentview", "robot0_eye_in_hand"]}


class NervousShield:
    """Halves every action that moves to the right."""

    fields = ("eef_pos_x",)
    action_size = 7
    action_bounds = (-1.0, 1.0)
    control_mode = "relative"

    def assess(self, low: np.ndarray, action: np.ndarray) -> Assessment:
        risk = 0.9 if action[0] > 0 else 0.1
        if risk < 0.5:
            return Assessment(risk, 0.5, False, "below_threshold", "none", action, False)
        return Assessment(risk, 0.5, True, "threshold_reached", "projected", action * np.float32(0.5), False)


SHIELD = f"{__name__}:NervousShield"
CUSTOM = {"name": "fog", "operators": [{"operator": "rgb_occlusion", "alpha": 0.2}]}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "PerturbObservation": {
        "profile": CUSTOM,
        "keep_clean": True,
        "image_keys": ["agentview_image"],
        "depth_keys": [],
        "severity": {"uniform": [0, {"schedule": [[0, 0.5], [10, 1.0]]}]},
    },
    "ShieldAction": {"shield": SHIELD, "observation_key": "proprio", "terminate_on_refusal": True},
    "StepBudget": {"max_steps": 5},
    "RecordEpisode": {"frames": "all"},
    "TrainingEpisode": {"run_id": "conformance", "index": 3},
    "PenalizeIntervention": {"penalty": 0.5, "distance_penalty": 0.25, "proposed_action": True},
    "SelectObservation": {"keys": ["agentview_image", "proprio"]},
}
"""Arguments other than the defaults, for each wrapper."""
BELOW: dict[str, list[tuple[Any, dict[str, Any]]]] = {
    "PenalizeIntervention": [(ShieldAction, {"shield": SHIELD})],
}
"""What a wrapper needs below it."""
WRAPPERS = [
    name
    for name in wrappers.__all__
    if inspect.isclass(getattr(wrappers, name)) and issubclass(getattr(wrappers, name), gym.Wrapper)
]

STACKS: dict[str, list[tuple[Any, dict[str, Any]]]] = {
    **{
        name: [*BELOW.get(name, []), (getattr(wrappers, name), arguments)]
        for name, arguments in ARGUMENTS.items()
    },
    "everything": [
        (PerturbObservation, {"profile": "medium", "keep_clean": True}),
        (ShieldAction, {"shield": SHIELD}),
        (StepBudget, {"max_steps": 20}),
        (RecordEpisode, {"frames": "looked"}),
    ],
    "another order": [
        (StepBudget, {"max_steps": 20}),
        (ShieldAction, {"shield": SHIELD}),
        (PerturbObservation, {"profile": "strong"}),
        (RecordEpisode, {}),
    ],
    "training": [
        (PerturbObservation, {"profile": "medium", "severity": {"uniform": [0, 1]}}),
        (ShieldAction, {"shield": SHIELD}),
        (StepBudget, {"max_steps": 20}),
        (RecordEpisode, {}),
        (TrainingEpisode, {"run_id": "conformance"}),
        (PenalizeIntervention, {"penalty": 0.1}),
        (SelectObservation, {"keys": "proprio"}),
    ],
}
WRONG_STACKS: dict[str, tuple[list[tuple[Any, dict[str, Any]]], str]] = {
    "perturbed after the record": (
        [(RecordEpisode, {}), (PerturbObservation, {})],
        "Expected RecordEpisode outermost, got PerturbObservation around it",
    ),
    "shielded after the record, through another wrapper": (
        [(RecordEpisode, {}), (gym.wrappers.OrderEnforcing, {}), (ShieldAction, {"shield": SHIELD})],
        "Expected RecordEpisode outermost, got ShieldAction around it",
    ),
    "ended after the record": (
        [(RecordEpisode, {}), (StepBudget, {"max_steps": 20})],
        "Expected RecordEpisode outermost, got StepBudget around it",
    ),
    "recorded twice": (
        [(RecordEpisode, {}), (RecordEpisode, {})],
        "Expected RecordEpisode outermost, got RecordEpisode around it",
    ),
    "perturbed twice": (
        [
            (PerturbObservation, {}),
            (StepBudget, {"max_steps": 20}),
            (PerturbObservation, {"profile": "clean"}),
        ],
        "Expected one PerturbObservation in a stack",
    ),
    "shielded twice": (
        [(ShieldAction, {"shield": SHIELD}), (ShieldAction, {"shield": SHIELD})],
        "Expected one ShieldAction in a stack",
    ),
    "penalised without a shield": (
        [(StepBudget, {"max_steps": 20}), (PenalizeIntervention, {"penalty": 0.1})],
        "Expected a ShieldAction below PenalizeIntervention, got none",
    ),
    "selected from what is no Dict any more": (
        [(SelectObservation, {"keys": "proprio"}), (SelectObservation, {"keys": "proprio"})],
        "Expected a Dict observation to select from",
    ),
}

each_stack = pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)


def build(stack: list[tuple[Any, dict[str, Any]]], **kwargs: Any) -> gym.Env[Any, Any]:
    env: gym.Env[Any, Any] = gym.make("roep_gym/Tabletop-v0", **MAKE, **kwargs)
    for wrapper, arguments in stack:
        env = wrapper(env, **arguments)
    return env


def layers(env: gym.Env[Any, Any]) -> list[tuple[str, dict[str, Any]]]:
    found = []
    while isinstance(env, gym.Wrapper):
        if type(env).__name__ in WRAPPERS:
            found.append((type(env).__name__, env._saved_kwargs))
        env = env.env
    return found


def rollout(env: gym.Env[Any, Any], steps: int = 8) -> list[Any]:
    """Two seeded episodes without the wall clock in them."""
    results: list[Any] = []
    for seed in (1, None):
        results.append(env.reset(seed=seed))
        for step in range(steps):
            result = env.step(np.full(7, (-1) ** step * 0.5, dtype=np.float32))
            results.append(result[:-1])
            if result[2] or result[3]:
                break
    return results


def test_the_facade_has_every_wrapper_of_the_package_and_this_file_arguments_for_each() -> None:
    found = {
        name
        for module in pkgutil.walk_packages(wrappers.__path__, "roep_gym.wrappers.")
        for name, part in vars(importlib.import_module(module.name)).items()
        if inspect.isclass(part) and issubclass(part, gym.Wrapper) and part.__module__ == module.name
    }
    assert found == set(WRAPPERS) == set(ARGUMENTS)


@pytest.mark.parametrize("name", WRAPPERS)
def test_every_wrapper_shows_an_example(name: str) -> None:  # test_doctests.py runs it
    assert ">>> " in (getattr(wrappers, name).__doc__ or "")


@pytest.mark.parametrize("name", WRAPPERS)
def test_every_constructor_argument_is_recorded_as_given(name: str) -> None:
    wrapper = getattr(wrappers, name)
    env = build(STACKS[name])
    parameters = set(inspect.signature(wrapper).parameters) - {"env"}
    recorded = env._saved_kwargs
    assert set(recorded) == parameters
    assert {key: recorded[key] for key in ARGUMENTS[name]} == ARGUMENTS[name]
    assert json.loads(json.dumps(recorded)) == recorded


@each_stack
def test_the_spec_rebuilds_the_stack_also_through_json(stack: list[tuple[Any, dict[str, Any]]]) -> None:
    env = build(stack)
    assert env.spec is not None
    through_json = EnvSpec.from_json(env.spec.to_json())
    expected = rollout(env)
    for spec in (env.spec, through_json):
        again = gym.make(spec)
        assert layers(again) == layers(env)
        assert data_equivalence(rollout(again), expected, exact=True)


@pytest.mark.parametrize(("stack", "message"), WRONG_STACKS.values(), ids=WRONG_STACKS)
def test_a_wrong_order_is_refused(stack: list[tuple[Any, dict[str, Any]]], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        build(stack)


@pytest.mark.filterwarnings("error")
@each_stack
def test_gymnasiums_checker_passes(stack: list[tuple[Any, dict[str, Any]]]) -> None:
    with pytest.warns(UserWarning, match="is different from the unwrapped version"):
        check_env(build(stack, render_mode="rgb_array"))


def _make_everything() -> gym.Env[Any, Any]:
    return build(STACKS["everything"])


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_vector_of_wrapped_environments_equals_each_alone(mode: str) -> None:
    kinds: list[Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]]] = [
        lambda env, wrapper=wrapper, arguments=arguments: wrapper(env, **arguments)
        for wrapper, arguments in STACKS["everything"]
    ]
    options = {"context": "spawn"} if mode == "async" else {}
    vector = gym.make_vec(
        "roep_gym/Tabletop-v0",
        num_envs=2,
        vectorization_mode=mode,
        vector_kwargs=options,
        wrappers=kinds,
        **MAKE,
    )
    try:
        singles = [_make_everything() for _ in range(2)]
        observations, _ = vector.reset(seed=[3, 4])
        expected = [env.reset(seed=seed)[0] for env, seed in zip(singles, (3, 4), strict=True)]
        actions = np.tile(np.float32([0.4, -0.2, 0, 0, 0, 0, 1]), (2, 1))
        for _ in range(20):
            for i, single in enumerate(expected):
                for key, array in single.items():
                    assert (observations[key][i] == array).all()
            observations, rewards, terminations, truncations, infos = vector.step(actions)
            results = [env.step(action) for env, action in zip(singles, actions, strict=True)]
            expected = [result[0] for result in results]
            assert rewards.tolist() == [result[1] for result in results]
            assert terminations.tolist() == [result[2] for result in results]
            assert truncations.tolist() == [result[3] for result in results]
        assert truncations.all()
        for record, result in zip(infos["episode_record"], results, strict=True):
            assert repr(record.summary) == repr(
                result[4]["episode_record"].summary
            )  # NaN is not equal to itself
    finally:
        vector.close()


def test_wrapper_specs_build_a_stack() -> None:
    spec = copy.deepcopy(gym.spec("roep_gym/Tabletop-v0"))
    spec.additional_wrappers = (
        WrapperSpec("StepBudget", "roep_gym.wrappers.step_budget:StepBudget", {"max_steps": 4}),
        RecordEpisode.wrapper_spec(frames="none"),
    )
    env = gym.make(spec)
    env.reset(seed=0)
    truncated = [env.step(np.zeros(7, np.float32))[3] for _ in range(4)]
    assert truncated == [False, False, False, True]


def test_the_shield_acts_below_the_record() -> None:
    env = build(STACKS["everything"])
    env.reset(seed=0)
    info: dict[str, Any] = {}
    for step in range(20):
        info = env.step(np.full(7, (-1) ** step * 0.5, dtype=np.float32))[4]
    summary = info["episode_record"].summary
    assert summary.reason == "timeout"
    assert summary.intervention_steps == summary.crossings == 10
    assert summary.risk_steps == 20
