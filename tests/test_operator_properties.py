"""What holds of every registered operator, whatever it acts on, alone and in the wrapper.

`applied` gives the result of any operator at a step as bytes, so that one test is about all of them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import cv2
import gymnasium as gym
import numpy as np
import pytest

import roep_gym  # noqa: F401
from roep_gym.episode import EpisodeIdentity
from roep_gym.wrappers import PerturbObservation
from roep_gym.wrappers.operators.base import (
    ActionOperator,
    HistoryOperator,
    InstructionOperator,
    ObservationOperator,
    Operator,
)
from roep_gym.wrappers.operators.registry import OPERATORS, find_operator
from roep_gym.wrappers.profiles import perturbation_key

STEPS = 45
CAMERAS = ["agentview", "robot0_eye_in_hand"]
SENTENCE = "pick up the cream cheese and put it on top of the middle drawer"
IDENTITY = EpisodeIdentity("properties", 1, 2, profile="one")

IMAGES = np.random.default_rng(0).integers(1, 256, (STEPS, 24, 32, 3), dtype=np.uint8)
DEPTHS = np.random.default_rng(1).uniform(0.5, 1.5, (STEPS, 24, 32, 1)).astype(np.float32)
VECTORS = np.random.default_rng(2).uniform(-1, 1, (STEPS, 9)).astype(np.float32)
ACTIONS = np.random.default_rng(3).uniform(-1, 1, (STEPS, 7)).astype(np.float32)
BLOCKS = IMAGES[0, :6, :8].repeat(31, axis=0).repeat(31, axis=1)
"""An image with structure, that blur changes the more the wider it is."""
CLEAN = {"image": IMAGES, "depth": DEPTHS, "vector": VECTORS}
for _array in (*CLEAN.values(), ACTIONS):
    _array.flags.writeable = False


def applied(operator: Operator, severity: float, step: int) -> Any:
    """Return what an operator gives at a step, an array or a sentence, having written nothing."""
    key = perturbation_key(IDENTITY.key, step, "agentview_image", operator.name)
    if isinstance(operator, ObservationOperator):
        clean = CLEAN[operator.modality][step]
        array, metadata = operator.apply(clean, severity, key)
        assert json.loads(json.dumps(metadata)) == metadata
        assert (array.dtype, array.shape) == (clean.dtype, clean.shape)
        return array
    if isinstance(operator, HistoryOperator):
        source = operator.describe(severity, key)["source_step"]
        assert max(0, step - operator.max_age) <= source <= step
        return CLEAN[operator.modalities[0]][source]
    if isinstance(operator, ActionOperator):
        before = list(ACTIONS[max(0, step - operator.max_age) : step + 1])
        array, metadata = operator.apply(before, severity, key)
        assert json.loads(json.dumps(metadata)) == metadata
        assert (array.dtype, array.shape) == (before[-1].dtype, before[-1].shape)
        assert not np.shares_memory(array, before[-1])
        return array
    assert isinstance(operator, InstructionOperator)
    return operator.describe(SENTENCE, severity, key)["instruction"]


def clean_at(operator: Operator, step: int) -> Any:
    if isinstance(operator, ActionOperator):
        return ACTIONS[step]
    if isinstance(operator, InstructionOperator):
        return SENTENCE
    modality = operator.modality if isinstance(operator, ObservationOperator) else operator.modalities[0]  # type: ignore[attr-defined]
    return CLEAN[modality][step]


def as_bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value.tobytes())


@pytest.mark.parametrize("name", OPERATORS.names())
def test_every_operator_is_a_pure_function_of_clean_value_severity_and_key(name: str) -> None:
    operator = find_operator(name)
    severities = (0.5 * operator.max_severity, operator.max_severity)
    order = [(step, severity) for step in range(0, STEPS, 3) for severity in severities]
    forward = {case: as_bytes(applied(operator, case[1], case[0])) for case in order}
    state, other = np.random.get_state()[1].tobytes(), type(operator)(name)
    threads = cv2.getNumThreads()
    random.Random(1).shuffle(order)
    try:
        cv2.setNumThreads(3)
        for step, severity in order:
            value = applied(other, severity, step)
            assert as_bytes(value) == forward[step, severity]
            assert isinstance(value, str) or np.isfinite(value).all()
    finally:
        cv2.setNumThreads(threads)
    assert np.random.get_state()[1].tobytes() == state
    for step in (0, 1, 17, STEPS - 1):
        assert as_bytes(applied(operator, 0.0, step)) == as_bytes(clean_at(operator, step))
    changed = [as_bytes(clean_at(operator, step)) != value for (step, _), value in forward.items()]
    assert any(changed)


def setting(name: str, severity: float | None = None) -> dict[str, Any]:
    operator = find_operator(name)
    return {"operator": name, operator.severity: operator.max_severity if severity is None else severity}


def stack(name: str, **kwargs: Any) -> PerturbObservation:
    env = gym.make("roep_gym/Tabletop-v0", cameras=CAMERAS, depth=True, image_size=24)
    return PerturbObservation(env, {"name": "one", "operators": [setting(name)]}, **kwargs)


def rollout(env: gym.Env[Any, Any], looks: Sequence[bool]) -> list[tuple[Any, dict[str, Any]]]:
    ask = env.get_wrapper_attr("request_frames")
    ask(looks[0])
    given = [env.reset(seed=3, options=IDENTITY.to_options())]
    for step, look in enumerate(looks[1:]):
        ask(look)
        observation, _, _, _, info = env.step(ACTIONS[step])
        given.append((observation, info))
    return given


@pytest.mark.parametrize("name", OPERATORS.names())
def test_what_is_given_does_not_depend_on_which_other_frames_were_drawn(name: str) -> None:
    every = rollout(stack(name), [True] * 32)
    eighth = rollout(stack(name), [step % 8 == 0 for step in range(32)])
    for step in range(0, 32, 8):
        observation, info = every[step]
        seldom, other = eighth[step]
        assert all(observation[key].tobytes() == seldom[key].tobytes() for key in observation)
        assert info["perturbation"] == other["perturbation"]
        assert observation in stack(name).observation_space
    reports = [info["perturbation"]["changed"] for _, info in every]
    assert any(value for changed in reports for value in changed.values())


@pytest.mark.parametrize("name", OPERATORS.names())
def test_severity_zero_in_the_wrapper_is_the_identity_bit_for_bit(name: str) -> None:
    plain = gym.make("roep_gym/Tabletop-v0", cameras=CAMERAS, depth=True, image_size=24)
    looks = [True] * 6
    for (clean, _), (given, info) in zip(
        rollout(plain, looks), rollout(stack(name, severity=0.0), looks), strict=True
    ):
        assert all(clean[key].tobytes() == given[key].tobytes() for key in clean)
        assert not any(info["perturbation"]["changed"].values())
        assert info.get("instruction", "") == info.get("clean_instruction", info.get("instruction", ""))


@pytest.mark.parametrize("name", [n for n in OPERATORS.names() if find_operator(n).max_severity == 5])
def test_an_effect_grows_with_its_level(name: str) -> None:
    operator = find_operator(name)

    def effect(level: float) -> float:
        if isinstance(operator, ObservationOperator) and operator.modality == "image":
            keys = (perturbation_key(IDENTITY.key, step, "agentview_image", name) for step in (10, 30, 50))
            pairs = [(operator.apply(BLOCKS, level, key).array, BLOCKS) for key in keys]
        else:  # after the first actions have arrived
            pairs = [(applied(operator, level, step), clean_at(operator, step)) for step in range(10, STEPS)]
        differences = [
            float(given != clean) if isinstance(given, str) else np.abs(given.astype(float) - clean).mean()
            for given, clean in pairs
        ]
        return float(np.mean(differences))

    weak, strong = effect(1), effect(5)
    assert weak > 0 or name == "wrong_object"
    assert strong > 0.9 * weak  # an array of noise is as far from one 8 steps older as from its neighbour
    assert strong > 0
