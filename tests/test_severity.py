"""Severity of a profile by episode: constant, drawn, scheduled; zero is the identity bit for bit."""

from __future__ import annotations

import json
import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import roep_gym  # noqa: F401
from roep_gym.error import InvalidInputError, UnknownNameError
from roep_gym.wrappers import PerturbObservation, RecordEpisode, StepBudget
from roep_gym.wrappers.profiles import PROFILES, Profile
from roep_gym.wrappers.severity import Severity

HOLD = np.zeros(7, dtype=np.float32)


def at(spec: Any, episode: int = 0, run: str = "run", group: int = 0) -> float:
    return Severity.from_spec(json.loads(json.dumps(spec))).at((run, group, episode))


def table(severity: Any, profile: Any = "strong") -> PerturbObservation:
    env = gym.make("roep_gym/Tabletop-v0", image_size=40, depth=True)
    return PerturbObservation(env, profile, severity=severity)


def test_a_number_holds_in_every_episode() -> None:
    assert {at(0.3, episode) for episode in range(5)} == {0.3}


@pytest.mark.parametrize(
    ("episode", "factor"), [(0, 0.0), (10, 0.0), (15, 0.25), (20, 0.5), (40, 1.0), (99, 1.0)]
)
def test_a_schedule_is_linear_between_its_points_and_constant_outside(episode: int, factor: float) -> None:
    assert at({"schedule": [[10, 0], [20, 0.5], [40, 1]]}, episode) == factor


def test_a_draw_is_a_function_of_the_episodes_key() -> None:
    spec = {"uniform": [0.2, 0.6]}
    draws = [at(spec, episode) for episode in range(400)]
    assert draws == [at(spec, episode) for episode in range(400)]
    assert len(set(draws)) == 400
    assert 0.2 <= min(draws) < 0.22
    assert 0.58 < max(draws) <= 0.6
    assert abs(np.mean(draws) - 0.4) < 0.02
    assert len({at(spec, 3), at(spec, 3, run="other"), at(spec, 3, group=1)}) == 3


def test_a_drawn_severity_can_grow() -> None:
    spec = {"uniform": [0, {"schedule": [[0, 0], [100, 1]]}]}
    assert at(spec, 0) == 0
    assert all(at(spec, episode) <= episode / 100 for episode in range(100))
    assert max(at(spec, episode) for episode in range(100, 300)) > 0.9


def test_a_choice_draws_each_of_its_values() -> None:
    draws = [at({"choice": [0, 0.5, 1]}, episode) for episode in range(300)]
    assert {value: draws.count(value) for value in (0, 0.5, 1)}.keys() == set(draws)
    assert min(draws.count(value) for value in (0, 0.5, 1)) > 70


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (-0.1, "Expected a severity to be a finite number >= 0, got -0.1."),
        (True, "got True."),
        (float("nan"), "got nan."),
        ({"uniform": [0, 1], "choice": [1]}, "Expected a severity as a number or one of"),
        ({"uniform": []}, "Expected the severity 'uniform' to hold a list, got []."),
        ({"uniform": [1]}, "to hold [low, high], got [1]."),
        ({"uniform": [1, 0]}, "Expected the lower bound of 'uniform' first, got [1, 0]."),
        (
            {"uniform": [{"schedule": [[0, 1], [9, 0]]}, {"schedule": [[0, 0], [9, 1]]}]},
            "Expected the lower bound of 'uniform' first",
        ),
        ({"uniform": [0, {"choice": [1]}]}, "Expected the bounds of 'uniform' as numbers or schedules"),
        ({"schedule": [1, 2]}, "Expected the points of 'schedule' as [episode, severity] each, got [1, 2]."),
        ({"schedule": [[5, 0], [5, 1]]}, "by increasing episode, got [[5, 0], [5, 1]]."),
        ({"choice": [0, "1"]}, "got '1'."),
    ],
)
def test_a_malformed_severity_is_refused(spec: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        Severity.from_spec(spec)


def test_an_unknown_form_comes_with_the_closest() -> None:
    with pytest.raises(UnknownNameError, match=re.escape("'unifrom'. Did you mean 'uniform'?")):
        Severity.from_spec({"unifrom": [0, 1]})


def test_a_scaled_profile_says_so_and_can_be_read_again() -> None:
    scaled = PROFILES["strong"].scaled(0.5)
    assert {s.operator: s.severity for s in scaled.settings} == {"rgb_occlusion": 0.25, "depth_dropout": 0.15}
    assert scaled.name == "strong x 0.5"
    assert Profile.from_spec(scaled.to_spec()) == scaled
    assert PROFILES["strong"].scaled(1) is PROFILES["strong"]
    assert PROFILES["clean"].scaled(0.5) is PROFILES["clean"]


@pytest.mark.parametrize(
    "severity", [2.5, {"uniform": [0, 2.5]}, {"choice": [0, 2.5]}, {"schedule": [[0, 2.5]]}]
)
def test_a_severity_that_can_leave_the_range_is_refused_at_once(severity: Any) -> None:
    with pytest.raises(
        InvalidInputError, match=re.escape("'alpha' of 'rgb_occlusion' to be a finite number in 0..1")
    ):
        table(severity)


def test_severity_zero_is_the_identity_bit_for_bit() -> None:
    env, clean = table(0.0), gym.make("roep_gym/Tabletop-v0", image_size=40, depth=True)
    results = [
        (env.reset(seed=3), clean.reset(seed=3)),
        *((env.step(HOLD), clean.step(HOLD)) for _ in range(3)),
    ]
    for (observation, *_, info), (original, *_) in results:
        assert info["perturbation"]["severity"] == 0.0
        assert not any(info["perturbation"]["changed"].values())
        assert all(observation[key].tobytes() == original[key].tobytes() for key in original)


def test_severity_one_is_the_profile_bit_for_bit() -> None:
    plain = PerturbObservation(gym.make("roep_gym/Tabletop-v0", image_size=40, depth=True), "strong")
    first, second = plain.reset(seed=3)[0], table({"schedule": [[0, 1.0]]}).reset(seed=3)[0]
    assert all(first[key].tobytes() == second[key].tobytes() for key in first)


def test_info_and_record_tell_the_severity_of_the_episode() -> None:
    env = RecordEpisode(StepBudget(table({"schedule": [[0, 0.0], [2, 1.0]]}), max_steps=2))
    for episode, factor in enumerate((0.0, 0.5, 1.0, 1.0)):
        _, info = env.reset(seed=0 if episode == 0 else None)
        assert info["perturbation"]["severity"] == factor
        assert info["perturbation"]["metadata"]["agentview_image"][0]["side"] == round(0.5 * factor * 40)
        env.step(HOLD)
        *_, info = env.step(HOLD)
        assert info["perturbation"]["severity"] == factor
        stored = Profile.from_spec(info["episode_record"].attributes.profile)
        assert stored == PROFILES["strong"].scaled(factor)


def test_a_new_severity_acts_from_the_next_episode_on() -> None:
    env = table(0.0)
    env.reset(seed=0)
    env.set_severity(0.5)
    *_, info = env.step(HOLD)
    assert info["perturbation"]["severity"] == 0.0
    _, info = env.reset()
    assert info["perturbation"]["severity"] == 0.5
    with pytest.raises(InvalidInputError, match=r"in 0\.\.1"):
        env.set_severity(3.0)
