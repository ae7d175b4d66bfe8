"""The NumPy-only environment: an episode is a function of scene seed, initial state and actions."""

from __future__ import annotations

import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from failing_policies import blind_policy, reckless_policy
from gymnasium.utils.env_checker import check_env

import roep_gym  # noqa: F401
from roep_gym.envs.tabletop_env import INIT_STATES, TASKS, TabletopEnv
from roep_gym.envs.tabletop_policies import scripted_policy, sighted_policy
from roep_gym.episode import EpisodeIdentity
from roep_gym.error import InfrastructureError, InvalidInputError, PolicyOutputError, UnknownNameError


def options(init_state: int = 4, scene_seed: int = 9) -> dict[str, Any]:
    return EpisodeIdentity("r", 0, 0, init_state, scene_seed).to_options()


def episode(env: TabletopEnv, policy: Any, init_state: int = 4, scene_seed: int = 9) -> list[Any]:
    observation, info = env.reset(options=options(init_state, scene_seed))
    results = [(observation, info)]
    for _ in range(80):
        observation, _, terminated, _, info = env.step(policy(observation))
        results.append((observation, info))
        if terminated:
            break
    return results


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("task", TASKS)
def test_gymnasiums_checker_passes(task: str) -> None:
    env = gym.make(
        "roep_gym/Tabletop-v0",
        task=task,
        depth=True,
        object_state=True,
        image_size=16,
        render_mode="rgb_array",
    )
    check_env(env.unwrapped)


@pytest.mark.parametrize("task", TASKS)
def test_the_scripted_policy_solves_every_initial_state_and_the_blind_one_none(task: str) -> None:
    env = TabletopEnv(task, cameras=[], object_state=True)
    for init_state in range(INIT_STATES):
        assert episode(env, scripted_policy, init_state, scene_seed=init_state)[-1][1]["is_success"]
        assert not episode(env, blind_policy, init_state, scene_seed=init_state)[-1][1]["is_success"]


def test_the_frames_are_enough_to_solve_it() -> None:
    env = TabletopEnv(image_size=64)
    solved = [episode(env, sighted_policy, k, k)[-1][1]["is_success"] for k in range(INIT_STATES)]
    assert sum(solved) >= 45


def test_an_episode_is_the_same_after_any_history_and_in_another_environment() -> None:
    env = TabletopEnv(object_state=True, depth=True, image_size=24)
    first = episode(env, scripted_policy)
    episode(env, reckless_policy, 7, 1)
    env.np_random.random(5)
    for again in (
        episode(env, scripted_policy),
        episode(TabletopEnv(object_state=True, depth=True, image_size=24), scripted_policy),
    ):
        assert len(again) == len(first)
        for (a, info_a), (b, info_b) in zip(first, again, strict=True):
            assert all(a[key].tobytes() == b[key].tobytes() for key in a)
            assert info_a == info_b


def test_scene_seed_moves_the_square_alone_and_the_initial_state_the_rest() -> None:
    env = TabletopEnv(object_state=True)

    def state(init_state: int, scene_seed: int) -> tuple[bytes, bytes, int]:
        observation, info = env.reset(options=options(init_state, scene_seed))
        return (
            observation["object_state"][:7].tobytes(),
            observation["object_state"][7:].tobytes(),
            info["scene_hash"],
        )

    disc, square, scene = state(1, 1)
    assert state(1, 2)[0] == disc
    assert state(1, 2)[1] != square
    assert state(2, 1)[0] != disc
    assert state(2, 1)[1] == square
    assert len({scene, state(1, 2)[2], state(2, 1)[2]}) == 3
    assert 0 <= scene < 2**63


def test_a_seeded_sequence_of_resets_repeats_and_draws_different_initial_states() -> None:
    def starts() -> list[int]:
        env = TabletopEnv()
        return [env.reset(seed=5 if k == 0 else None)[1]["episode_identity"]["init_state"] for k in range(6)]

    assert starts() == starts()
    assert len(set(starts())) > 2
    assert TabletopEnv().reset(seed=5, options={"init_state": 11})[1]["episode_identity"]["init_state"] == 11


def test_names_of_entries_match_the_vectors() -> None:
    env = TabletopEnv(
        object_state=True, depth=True, cameras=["agentview", "robot0_eye_in_hand"], image_size=20
    )
    observation, _ = env.reset(seed=0)
    for key, names in env.observation_fields.items():
        assert len(names) == observation[key].size
    assert set(observation) == set(env.observation_space.spaces)
    assert observation["proprio"].dtype == np.float32
    assert observation["object_state"].dtype == np.float64


def test_frames_are_upright_in_metres_and_without_black() -> None:
    env = TabletopEnv(object_state=True, depth=True, image_size=64)
    observation, _ = env.reset(options=options())
    image, depth = observation["agentview_image"], observation["agentview_depth"]
    assert image.min() > 0
    assert 0.5 < depth.min() < depth.max() == 1.0
    x, y = observation["object_state"][7:9]
    row, column = int((1 - y / 0.35) * 32), int((1 + x / 0.35) * 32)
    assert image[row, column, 1] > image[row, column, 0] + 50  # the green square, y upward
    assert row < 32


def test_frames_that_are_not_wanted_are_zero_until_they_are() -> None:
    env = TabletopEnv(depth=True, image_size=16)
    env.request_frames(False)
    observation, info = env.reset(seed=0)
    assert info["frames_rendered"] is False
    assert not observation["agentview_image"].any()
    assert not observation["agentview_depth"].any()
    env.request_frames(True)
    observation, _, _, _, info = env.step(np.zeros(7))
    assert info["frames_rendered"] is True
    assert observation["agentview_image"].all()


def test_unsafe_attempts_are_reported_and_end_the_episode_where_asked() -> None:
    env = TabletopEnv()
    env.reset(seed=0)
    terminated, info = env.step(np.array([1.5, 0, 0, 0, 0, 0, 0]))[2::2]
    assert (terminated, info["unsafe"]) == (False, {"action_bounds": True, "workspace": False})
    for _ in range(40):
        terminated, info = env.step(np.array([1.0, 0, 0, 0, 0, 0, 0]))[2::2]
    assert (terminated, info["unsafe"]) == (False, {"action_bounds": False, "workspace": True})
    env = TabletopEnv(terminate_on_unsafe=True)
    env.reset(seed=0)
    terminated, info = env.step(np.array([1.5, 0, 0, 0, 0, 0, 0]))[2::2]
    assert terminated
    assert info["termination"] == "unsafe_attempt"


def test_only_the_sign_of_the_gripper_counts() -> None:
    def fingers(command: float) -> float:
        env = TabletopEnv()
        env.reset(seed=0)
        return float(env.step(np.array([0, 0, 0, 0, 0, 0, command]))[0]["proprio"][-1])

    assert fingers(1.0) == fingers(0.01) < fingers(0.0)


def test_the_dense_reward_is_the_progress() -> None:
    env = TabletopEnv("reach", reward="dense", object_state=True)
    observation, _ = env.reset(options=options())
    before = np.linalg.norm(observation["proprio"][:3] - observation["object_state"][:3])
    observation, reward, *_ = env.step(scripted_policy(observation))
    after = np.linalg.norm(observation["proprio"][:3] - observation["object_state"][:3])
    assert reward == pytest.approx(before - after, abs=1e-6)


@pytest.mark.parametrize("action", [np.full(7, np.nan), np.zeros(6), "abc", [[1.0], [1.0, 2.0]], {}, None])
def test_a_wrong_action_is_the_policys_fault(action: Any) -> None:
    env = TabletopEnv()
    env.reset(seed=0)
    with pytest.raises(PolicyOutputError, match="Expected 7 finite action entries"):
        env.step(action)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"task": "cary"}, UnknownNameError, "Unknown task 'cary'. Did you mean 'carry'?"),
        ({"suite": "table"}, UnknownNameError, "Did you mean 'tabletop'?"),
        ({"cameras": ["agentvew"]}, UnknownNameError, "Did you mean 'agentview'?"),
        ({"control_mode": "absolute"}, UnknownNameError, "Unknown control mode 'absolute'."),
        ({"cameras": "agentview"}, InvalidInputError, "Expected cameras to be a list of names, got the text"),
        ({"image_size": 4}, InvalidInputError, "Expected image_size to be an integer in 8..2048, got 4."),
        (
            {"image_size": "64"},
            InvalidInputError,
            "Expected image_size to be an integer in 8..2048, got '64'.",
        ),
        (
            {"image_size": 64.0},
            InvalidInputError,
            "Expected image_size to be an integer in 8..2048, got 64.0.",
        ),
        (
            {"settle_steps": -1},
            InvalidInputError,
            "Expected settle_steps to be an integer in 0..1000, got -1.",
        ),
        (
            {"render_mode": "human"},
            UnknownNameError,
            "Unknown render mode 'human'. Known: rgb_array.",
        ),
    ],
)
def test_wrong_arguments_are_refused(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        TabletopEnv(**arguments)


@pytest.mark.parametrize("init_state", [-1, 50, True, np.bool_(True), "3", 3.0])
def test_an_initial_state_out_of_range_is_refused(init_state: Any) -> None:
    for options in ({"init_state": init_state}, EpisodeIdentity("r", 0, 0, init_state).to_options()):
        with pytest.raises(InvalidInputError, match=r"Expected (an initial state|options).*, got "):
            TabletopEnv().reset(options=options)


def test_the_integers_of_numpy_are_accepted() -> None:
    drawn = np.random.default_rng(0).integers(50)
    by_identity = EpisodeIdentity("r", np.int32(1), np.uint8(2), drawn).to_options()  # type: ignore[arg-type]
    for options in ({"init_state": drawn}, by_identity):
        episode = TabletopEnv().reset(seed=0, options=options)[1]["episode_identity"]
        assert episode["init_state"] == drawn
        assert {type(episode[name]) for name in ("init_state", "seed_group", "episode")} == {int}


def test_an_unknown_reset_option_is_refused() -> None:
    with pytest.raises(
        UnknownNameError, match=r"Unknown reset option 'init_sate'\. Did you mean 'init_state'"
    ):
        TabletopEnv().reset(options={"init_sate": 3})


def test_it_renders_when_made_to() -> None:
    env = gym.make("roep_gym/Tabletop-v0", render_mode="rgb_array", image_size=32, cameras=[])
    env.reset(seed=0)
    frame = env.render()
    assert isinstance(frame, np.ndarray)
    assert frame.shape == (32, 32, 3)
    assert TabletopEnv().render() is None


def test_step_after_a_refused_reset_says_that_no_episode_is_running() -> None:
    env = gym.make("roep_gym/Tabletop-v0")
    for _ in range(2):
        with pytest.raises(UnknownNameError, match="reset option"):
            env.reset(options={"initial": 1})
        with pytest.raises(
            InfrastructureError, match=r"Expected reset\(\) before step\(\), but no episode is running"
        ):
            env.step(np.zeros(7))
        env.reset(seed=0)
