"""The dense reward: a potential of the scene, and a reward that keeps the order of policies."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from roep_gym import seeding
from roep_gym.envs.dense_reward import PREDICATES, GoalPotential, check_goal, shaped_reward
from roep_gym.envs.libero_env import LiberoEnv
from roep_gym.envs.task_catalog import LIBERO_SUITES, tasks
from roep_gym.episode import EpisodeIdentity, policy_seed
from roep_gym.error import InvalidInputError, UnknownNameError
from roep_gym.policies.base import PolicyEpisode, PolicyInput
from roep_gym.policies.expert import ExpertPolicy
from roep_gym.policies.expert_skills import SKILLS
from roep_gym.typing import FloatArray

DISCOUNT = 0.97


def actions(count: int, seed: int = 0) -> FloatArray:
    return seeding.generator("test actions", seed).uniform(-1, 1, (count, 7))


def make(task: str, suite: str | None = None, **arguments: Any) -> LiberoEnv:
    chosen = {"cameras": [], "reward": "dense", "reward_discount": DISCOUNT, **arguments}
    return LiberoEnv(task, suite, **chosen)


def identity(init_state: int = 2) -> EpisodeIdentity:
    return EpisodeIdentity("test", 0, init_state, init_state, 7)


def play(env: LiberoEnv, sequence: FloatArray, init_state: int = 2) -> tuple[FloatArray, FloatArray]:
    """Return the rewards (n,) and the potentials (n + 1,) of an episode."""
    _, info = env.reset(options=identity(init_state).to_options())
    rewards, potentials = [], [info["potential"]]
    for action in sequence:
        _, reward, terminated, _, info = env.step(action)
        rewards.append(reward)
        potentials.append(info["potential"])
        if terminated:
            break
    return np.array(rewards), np.array(potentials)


def play_expert(env: LiberoEnv, init_state: int = 2) -> tuple[FloatArray, FloatArray]:
    """Return the rewards and the potentials of an episode of the scripted expert, which must succeed."""
    observation, info = env.reset(options=identity(init_state).to_options())
    expert = ExpertPolicy()
    seed = policy_seed(identity(init_state))
    expert.begin(PolicyEpisode("one", env.suite, env.task, env.instruction, seed, env.observation_fields))
    rewards, potentials, terminated = [], [info["potential"]], False
    while not terminated and len(rewards) < 280:
        action = expert.act([PolicyInput("one", len(rewards), env.instruction, observation)])[0][0]
        observation, reward, terminated, _, info = env.step(action)
        rewards.append(reward)
        potentials.append(info["potential"])
    assert info["is_success"]
    return np.array(rewards), np.array(potentials)


def discounted(rewards: FloatArray) -> float:
    return float(np.sum(DISCOUNT ** np.arange(len(rewards)) * rewards))


def test_shaping_telescopes() -> None:
    potentials = seeding.generator("potentials").random(50)
    rewards = [shaped_reward(0.0, a, b, DISCOUNT) for a, b in pairwise(potentials)]
    assert discounted(np.array(rewards)) == pytest.approx(DISCOUNT**49 * potentials[-1] - potentials[0])


def test_refuses_a_predicate_without_a_potential() -> None:
    check_goal([["On", "bowl_1", "plate_1"], ["turnon", "flat_stove_1"]])
    with pytest.raises(UnknownNameError, match=r"goal predicate of the dense reward 'up'.*reward='sparse'"):
        check_goal([["on", "bowl_1", "plate_1"], ["up", "bowl_1"]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reward": "shaped"}, "Unknown reward 'shaped'"),
        ({"reward_discount": 1.5}, "reward_discount to be a finite number in 0..1, got 1.5"),
        ({"reward_discount": True}, "reward_discount to be a finite number in 0..1, got True"),
    ],
)
def test_refuses_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make("goal_stove", **arguments)


@pytest.mark.parametrize("suite", LIBERO_SUITES)
def test_every_task_of_libero_has_a_potential(suite: str) -> None:
    from bddl.parsing import scan_tokens

    used = set()
    for task in tasks(suite):
        (goal,) = (g[1] for g in scan_tokens(filename=str(task.bddl_file))[1:] if g[0] == ":goal")
        assert goal[0] == "and"
        used |= {predicate[0] for predicate in goal[1:]}
    assert used <= set(PREDICATES)


@pytest.fixture(scope="module", params=["goal_stove", "object_bbq_sauce"])
def env(request: pytest.FixtureRequest) -> Iterator[LiberoEnv]:
    env = make(request.param, object_state=True)
    yield env
    env.close()


@pytest.mark.libero
def test_rewards_of_an_unfinished_episode_telescope(env: LiberoEnv) -> None:
    rewards, potentials = play(env, actions(40))
    assert len(rewards) == 40
    assert np.ptp(potentials) > 0.001
    assert discounted(rewards) == pytest.approx(DISCOUNT**40 * potentials[-1] - potentials[0])


@pytest.mark.libero
def test_the_return_of_a_success_is_the_sparse_return_up_to_scale_and_start(env: LiberoEnv) -> None:
    rewards, potentials = play_expert(env)
    sparse = DISCOUNT ** (len(rewards) - 1)
    assert discounted(rewards) == pytest.approx((1.0 + DISCOUNT) * sparse - potentials[0])


@pytest.mark.libero
def test_rewards_have_no_history(env: LiberoEnv) -> None:
    first = play(env, actions(15))
    play(env, actions(20, seed=1), init_state=5)
    fresh = make(env.libero_task.paper_id)
    try:
        for again in (play(env, actions(15)), play(fresh, actions(15))):
            np.testing.assert_array_equal(np.concatenate(again), np.concatenate(first))
    finally:
        fresh.close()


@pytest.mark.libero
def test_the_potential_moves_nothing_and_sparse_stays_sparse(env: LiberoEnv) -> None:
    sparse = make(env.libero_task.paper_id, reward="sparse", object_state=True)
    try:
        seen = []
        for each in (env, sparse):
            observation, info = each.reset(options=identity().to_options())
            trace = [observation["proprio"], observation["object_state"]]
            for action in actions(15):
                observation, reward, *_, info = each.step(action)
                trace += [observation["proprio"], observation["object_state"]]
            data = each._simulation.data
            seen.append(np.concatenate([*trace, data.qpos, data.qvel, data.qacc_warmstart]))
        np.testing.assert_array_equal(*seen)
        assert (reward, "potential" in info) == (0.0, False)
    finally:
        sparse.close()


@pytest.mark.libero
def test_an_end_without_success_has_no_potential() -> None:
    env = make("goal_stove", terminate_on_unsafe=True)
    try:
        rewards, potentials = play(env, np.vstack([actions(5), np.full((1, 7), 1.5)]))
        assert len(rewards) == 6
        assert rewards[-1] == -potentials[-2]
    finally:
        env.close()


def assert_rises(potentials: FloatArray) -> None:
    change = np.diff(potentials)
    assert potentials[0] < 0.2
    assert potentials[-1] == 1.0
    assert (potentials[:-1] < 1.0).all()
    assert -change[change < 0].sum() < 0.02
    assert (change > 0).mean() > 0.8


@pytest.mark.libero
def test_the_potential_rises_along_the_expert(env: LiberoEnv) -> None:
    assert_rises(play_expert(env, init_state=4)[1])


@pytest.mark.slow
@pytest.mark.libero
@pytest.mark.parametrize("task", SKILLS)
def test_the_potential_rises_along_the_expert_on_every_task_of_the_paper(task: tuple[str, str]) -> None:
    env = make(task[1], task[0], object_state=True)
    try:
        assert_rises(play_expert(env, init_state=1)[1])
    finally:
        env.close()


@pytest.mark.slow
@pytest.mark.libero
@pytest.mark.parametrize(
    ("task", "joint", "start", "end"),
    [
        ("libero_90/KITCHEN_SCENE6_close_the_microwave", "microwave_1_microjoint", -2.0, 0.0),
        ("libero_90/KITCHEN_SCENE7_open_the_microwave", "microwave_1_microjoint", 0.0, -2.0),
        ("libero_goal/open_the_middle_drawer_of_the_cabinet", "wooden_cabinet_1_middle_level", 0.0, -0.16),
        (
            "libero_90/KITCHEN_SCENE5_close_the_top_drawer_of_the_cabinet",
            "white_cabinet_1_top_level",
            -0.16,
            0.005,
        ),
        ("libero_90/KITCHEN_SCENE8_turn_off_the_stove", "flat_stove_1_button", 1.5, -0.004),
        ("libero_90/KITCHEN_SCENE3_turn_on_the_stove", "flat_stove_1_button", 0.0, 1.0),
    ],
)
def test_the_potential_rises_as_a_joint_moves(task: str, joint: str, start: float, end: float) -> None:
    suite, name = task.split("/")
    env = make(name, suite)
    try:
        env.reset(seed=0)
        simulation = env._simulation
        assert simulation is not None
        potential, seen = GoalPotential(simulation), []
        for position in np.linspace(start, end, 12):
            simulation.data.set_joint_qpos(joint, position)
            simulation.domain.sim.forward()
            seen.append(potential())
        change = np.diff(seen)
        assert seen[-1] == 1.0
        assert seen[0] < 0.4
        assert (change[np.array(seen[1:]) < 1.0] > 0.0).all()
    finally:
        env.close()


@pytest.mark.slow
@pytest.mark.libero
@pytest.mark.parametrize(
    ("task", "least"),
    [
        ("libero_10/KITCHEN_SCENE4_put_the_black_bowl_in_the_bottom_drawer_of_the_cabinet_and_close_it", 0.0),
        ("libero_10/LIVING_ROOM_SCENE5_put_the_white_mug_on_the_left_plate_and_put_the_yellow_and_white_mug_"
         "on_the_right_plate", 0.0),
        ("libero_goal/open_the_top_drawer_and_put_the_bowl_inside", 0.0),
    ],
)  # fmt: skip
def test_goals_of_several_predicates_share_the_potential(task: str, least: float) -> None:
    suite, name = task.split("/")
    env = make(name, suite)
    try:
        rewards, potentials = play(env, actions(20))
        assert (potentials > least).all()
        assert (potentials < 0.5).all()
        assert discounted(rewards) == pytest.approx(DISCOUNT**20 * potentials[-1] - potentials[0])
    finally:
        env.close()
