"""The LIBERO environment on the real simulator: same bits as LIBERO, no history, frames on demand."""

from __future__ import annotations

import gc
import hashlib
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from roep_gym import seeding
from roep_gym.envs.libero_env import LiberoEnv
from roep_gym.envs.libero_safety import SafetyLimits
from roep_gym.envs.libero_simulation import SETTLE_ACTION
from roep_gym.envs.task_catalog import find_task, initial_states
from roep_gym.episode_record import UNSAFE_CHANNELS
from roep_gym.error import InfrastructureError, InvalidInputError, PolicyOutputError

pytestmark = pytest.mark.libero

TASKS = ("goal_stove", "object_bbq_sauce")  # a scene with fixtures that move with the seed, and one without
SCENE_SEED, INIT_STATE = 1234, 3


def actions(count: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float32]]:
    return seeding.generator("test actions", seed).uniform(-1, 1, (count, 7)).astype(np.float32)


def episode(init_state: int = INIT_STATE, scene_seed: int = SCENE_SEED) -> dict[str, Any]:
    identity = {
        "run_id": "r",
        "seed_group": 0,
        "episode": 0,
        "init_state": init_state,
        "scene_seed": scene_seed,
    }
    return {"episode": identity}


def play(env: LiberoEnv, sequence: Sequence[Any], *, every: int = 1, **identity: int) -> dict[str, Any]:
    """Play actions and return everything that must be equal: observations, states, scene hash."""
    env.request_frames(True)
    observation, info = env.reset(options=episode(**identity))
    seen = [observation]
    for step, action in enumerate(sequence, start=1):
        env.request_frames(step % every == 0)
        observation, _, _, _, _ = env.step(action)
        seen.append(observation)
    env.request_frames(True)
    data = env._simulation.data
    return {"seen": seen, "state": np.concatenate([data.qpos, data.qvel]), "scene": info["scene_hash"]}


def digest(played: dict[str, Any]) -> str:
    state = hashlib.sha256(played["state"].tobytes() + str(played["scene"]).encode())
    for observation in played["seen"]:
        for key in sorted(observation):
            state.update(observation[key].tobytes())
    return state.hexdigest()


@pytest.fixture(scope="module", params=TASKS)
def env(request: pytest.FixtureRequest) -> Iterator[LiberoEnv]:
    env = LiberoEnv(request.param, depth=True, object_state=True, image_size=64)
    yield env
    env.close()


def test_states_and_images_are_those_of_stock_libero(env: LiberoEnv) -> None:
    from libero.libero.envs import OffScreenRenderEnv

    sequence = actions(12)
    ours = play(env, sequence)
    stock = OffScreenRenderEnv(
        bddl_file_name=str(env.libero_task.bddl_file),
        camera_names=["agentview"],
        camera_heights=64,
        camera_widths=64,
        camera_depths=True,
    )
    try:
        with seeding.preserved_numpy_state():
            stock.seed(SCENE_SEED)
            stock.reset()
        raw = stock.set_init_state(initial_states(env.libero_task)[INIT_STATE])
        for _ in range(10):
            raw, *_ = stock.step(list(SETTLE_ACTION))
        frames = [raw]
        for action in sequence:
            raw, *_ = stock.step(action.astype(np.float64))
            frames.append(raw)
        state = stock.get_sim_state()[1:]
    finally:
        stock.close()
    np.testing.assert_array_equal(ours["state"], state)
    for observation, raw in zip(ours["seen"], frames, strict=True):
        np.testing.assert_array_equal(observation["agentview_image"], raw["agentview_image"][::-1])
        np.testing.assert_array_equal(observation["proprio"][14:17], raw["robot0_eef_pos"].astype(np.float32))
        np.testing.assert_array_equal(observation["object_state"][:3], raw[f"{env._entities.objects[0]}_pos"])


def test_nothing_of_an_earlier_episode_survives(env: LiberoEnv) -> None:
    first = digest(play(env, actions(10)))
    play(env, actions(25, seed=1), init_state=7, scene_seed=99)
    assert digest(play(env, actions(10))) == first


def test_a_second_environment_in_the_process_sees_the_same(env: LiberoEnv) -> None:
    first = digest(play(env, actions(10)))
    other_task = TASKS[1] if env.libero_task.paper_id == TASKS[0] else TASKS[0]
    other = LiberoEnv(other_task, depth=True, image_size=64)
    second = LiberoEnv(env.libero_task.paper_id, depth=True, object_state=True, image_size=64)
    try:
        play(other, actions(4))
        assert digest(play(second, actions(10))) == first
        play(other, actions(4))  # draws with its own context, and leaves it current
        assert digest(play(env, actions(10))) == first
    finally:
        other.close()
        second.close()
    assert digest(play(env, actions(10))) == first


def test_an_environment_that_nobody_closed_frees_nothing_of_another(env: LiberoEnv) -> None:
    first = digest(play(env, actions(4)))
    forgotten = LiberoEnv("goal_bowl_plate", image_size=64)
    play(forgotten, actions(1))
    play(env, actions(1))
    del forgotten
    gc.collect()
    assert digest(play(env, actions(4))) == first


def test_another_process_sees_the_same(env: LiberoEnv) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_libero_env import LiberoEnv, actions, digest, play\n"
        "env = LiberoEnv(sys.argv[2], depth=True, object_state=True, image_size=64)\n"
        "print(digest(play(env, actions(10))))\n"
    )
    folder = str(__import__("pathlib").Path(__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", code, folder, env.libero_task.paper_id],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[-1] == digest(play(env, actions(10)))
    assert done.stderr == "", "closing at exit is quiet"


def test_frames_on_demand_change_nothing(env: LiberoEnv) -> None:
    always, sometimes = play(env, actions(9)), play(env, actions(9), every=4)
    np.testing.assert_array_equal(always["state"], sometimes["state"])
    for step, (full, lazy) in enumerate(zip(always["seen"], sometimes["seen"], strict=True)):
        if step % 4 == 0:
            np.testing.assert_array_equal(full["agentview_image"], lazy["agentview_image"])
            np.testing.assert_array_equal(full["agentview_depth"], lazy["agentview_depth"])
        else:
            assert not lazy["agentview_image"].any()
            assert not lazy["agentview_depth"].any()
        np.testing.assert_array_equal(full["proprio"], lazy["proprio"])


def test_state_only_mode_has_the_same_states(env: LiberoEnv) -> None:
    blind = LiberoEnv(env.libero_task.paper_id, cameras=[])
    try:
        assert list(blind.observation_space) == ["proprio"]
        np.testing.assert_array_equal(play(blind, actions(9))["state"], play(env, actions(9))["state"])
        assert blind.renderer_name() == "none"
    finally:
        blind.close()


def test_the_scene_seed_places_the_fixtures_and_the_episode_alone_decides() -> None:
    env = LiberoEnv("goal_stove", cameras=[])
    try:
        scenes = [play(env, [], scene_seed=seed)["scene"] for seed in (1, 2, 1)]
        np.random.seed(0)
        scenes.append(play(env, [], scene_seed=1)["scene"])
    finally:
        env.close()
    assert scenes[0] != scenes[1]
    assert scenes[0] == scenes[2] == scenes[3]


def test_global_numpy_state_is_untouched(env: LiberoEnv) -> None:
    np.random.seed(5)
    expected = np.random.random(3)
    np.random.seed(5)
    play(env, actions(1))
    np.testing.assert_array_equal(np.random.random(3), expected)


def test_observations_are_upright_metric_and_private(env: LiberoEnv) -> None:
    played = play(env, actions(2))
    first = played["seen"][0]
    depth = first["agentview_depth"]
    assert 0.3 < depth.min() < depth.max() < 20.0
    assert depth[-8:].mean() < depth[:8].mean(), "the table's near edge is at the bottom of an upright frame"
    kept = first["agentview_image"].copy()
    env.step(actions(1)[0])
    np.testing.assert_array_equal(first["agentview_image"], kept)
    assert not np.shares_memory(first["agentview_image"], played["seen"][1]["agentview_image"])


def test_check_env_and_spec_round_trip() -> None:
    env = gym.make("roep_gym/Libero-v0", task="goal_stove", image_size=32, render_mode="rgb_array")
    try:
        check_env(env.unwrapped)
        assert env.spec is not None
        again = gym.make(env.spec)
        assert again.unwrapped.observation_space == env.unwrapped.observation_space
        again.close()
        env.reset(seed=0)
        assert env.render().shape == (256, 256, 3)
    finally:
        env.close()
        env.close()


def test_async_vector_environment_with_spawn() -> None:
    envs = gym.make_vec(
        "roep_gym/Libero-v0",
        num_envs=2,
        vectorization_mode="async",
        vector_kwargs={"context": "spawn"},
        task="goal_stove",
        image_size=32,
    )
    try:
        observation, info = envs.reset(seed=[3, 3])
        np.testing.assert_array_equal(observation["agentview_image"][0], observation["agentview_image"][1])
        assert info["scene_hash"][0] == info["scene_hash"][1]
        _, reward, *_ = envs.step(np.zeros((2, 7), dtype=np.float32))
        assert reward.tolist() == [0.0, 0.0]
    finally:
        envs.close()


def test_absolute_control_reaches_an_absolute_pose() -> None:
    env = LiberoEnv("goal_bowl_plate", cameras=[], control_mode="absolute")
    try:
        observation, _ = env.reset(options=episode())
        start = observation["proprio"][14:17].astype(np.float64)
        target = start + np.array([0.05, -0.05, 0.05])
        for _ in range(40):
            observation, *_ = env.step(np.concatenate([target, [np.pi, 0, 0], [-1]]).astype(np.float32))
        assert np.abs(observation["proprio"][14:17] - target).max() < 0.02
    finally:
        env.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cameras": ["agentvew"]}, "Unknown camera 'agentvew'. Did you mean 'agentview'"),
        ({"image_size": 0}, "Expected image_size to be an integer in 16..2048, got 0."),
        ({"image_size": True}, "Expected image_size to be an integer in 16..2048, got True."),
        ({"settle_steps": -1}, "Expected settle_steps to be an integer >= 0, got -1."),
        ({"control_mode": "relativ"}, "Unknown control mode 'relativ'. Did you mean 'relative'"),
        ({"unsafe_channels": ["workspce"]}, "Unknown unsafe channel 'workspce'. Did you mean 'workspace'"),
        ({"safety_limits": {"contact": 1.0}}, "Unknown safety limit 'contact'."),
        (
            {"safety_limits": {"contact_force": -1}},
            "Expected the safety limit 'contact_force' to be a finite number >= 0, got -1.",
        ),
        (
            {"safety_limits": {"drop_speed": True}},
            "Expected the safety limit 'drop_speed' to be a finite number",
        ),
        (
            {"safety_limits": {"workspace_low": 0.9}},
            "Expected the safety limit 'workspace_low' below 'workspace_high', got 0.9 and 0.8.",
        ),
        ({"render_mode": "human"}, "Unknown render mode 'human'."),
        (
            {"cameras": ["agentview", "agentview"]},
            "Expected each camera once, got ['agentview', 'agentview'].",
        ),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        LiberoEnv("goal_stove", **arguments)


def test_the_workspace_may_begin_behind_and_below_the_base() -> None:
    limits = SafetyLimits.from_mapping({"workspace_near": -0.1, "workspace_low": -0.2})
    assert (limits.workspace_near, limits.workspace_low) == (-0.1, -0.2)


def test_bad_actions_and_states_are_refused(env: LiberoEnv) -> None:
    env.reset(options=episode())
    with pytest.raises(PolicyOutputError, match=re.escape("7 finite action entries, got the shape (6,)")):
        env.step(np.zeros(6))
    with pytest.raises(PolicyOutputError, match="1 non-finite entries"):
        env.step(np.array([np.nan, 0, 0, 0, 0, 0, 0]))
    with pytest.raises(PolicyOutputError, match="got what is no array of numbers"):
        env.step("abc")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=re.escape("initial state in 0..49")):
        env.reset(options=episode(init_state=50))
    with pytest.raises(InvalidInputError, match=re.escape("options['init_state'] to be an integer >= 0")):
        env.reset(options={"init_state": True})
    assert env.reset(options={"init_state": np.int64(3)})[1]["episode_identity"]["init_state"] == 3
    fresh = LiberoEnv("goal_stove", cameras=[])
    with pytest.raises(InfrastructureError, match=re.escape("Expected reset() before step()")):
        fresh.step(np.zeros(7))
    fresh.close()


def test_the_instruction_is_the_benchmarks() -> None:
    assert find_task(None, "goal_bowl_top").instruction == "put the bowl on top of the cabinet"


def test_unsafe_channels_fire() -> None:
    env = LiberoEnv("goal_stove", cameras=[], unsafe_channels=UNSAFE_CHANNELS, terminate_on_unsafe=True)
    try:
        env.reset(options=episode())
        _, _, terminated, _, info = env.step(np.full(7, 1.5))
        assert terminated
        assert info["termination"] == "unsafe_attempt"
        assert info["unsafe"] == {
            "action_bounds": True,
            "workspace": False,
            "contact_force": False,
            "joint_limit": False,
            "object_dropped": False,
        }
    finally:
        env.close()
    limits = {"contact_force": 20.0}
    env = LiberoEnv("goal_stove", cameras=[], unsafe_channels=UNSAFE_CHANNELS, safety_limits=limits)
    fired: set[str] = set()
    try:
        env.reset(options=episode())
        for _ in range(60):  # down into the table
            _, _, _, _, info = env.step(np.array([0, 0, -1, 0, 0, 0, -1.0]))
            fired |= {name for name, value in info["unsafe"].items() if value}
        env.reset(options=episode())
        for _ in range(60):  # to the side
            _, _, _, _, info = env.step(np.array([0, 1, 0.3, 0, 0, 0, -1.0]))
            fired |= {name for name, value in info["unsafe"].items() if value}
    finally:
        env.close()
    assert {"contact_force", "workspace"} <= fired


def test_the_whole_stack_passes_check_env_and_the_scene_settles() -> None:
    from roep_gym.wrappers import PerturbObservation, RecordEpisode, StepBudget

    env = gym.make("roep_gym/Libero-v0", task="object_bbq_sauce", image_size=32, depth=True)
    stack = RecordEpisode(StepBudget(PerturbObservation(env, profile="medium"), max_steps=20))
    try:
        check_env(stack, skip_render_check=True)
        _, info = stack.reset(seed=1, options={"init_state": 0})
        assert 0.0 <= info["settle_displacement"] < 0.02
    finally:
        stack.close()


def test_a_sampled_scene_follows_from_its_seed_alone_and_is_none_of_the_stored_ones() -> None:
    env = LiberoEnv("goal_stove", cameras=[])
    try:

        def scene(init_state: int | str, scene_seed: int) -> int:
            identity = {**episode(scene_seed=scene_seed)["episode"], "init_state": init_state}
            _, info = env.reset(options={"episode": identity})
            assert info["episode_identity"]["init_state"] == init_state
            return int(info["scene_hash"])

        first = scene("sampled", 7)
        stored = {scene(k, 7) for k in range(3)}
        assert scene("sampled", 7) == first
        assert len({first, scene("sampled", 8)} | stored) == 5
    finally:
        env.close()


def test_another_thread_is_told_before_the_driver_crashes() -> None:
    env = LiberoEnv("goal_stove", cameras=["agentview"], image_size=32)
    env.reset(seed=0)
    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises(InfrastructureError, match="one environment per thread"),
    ):
        pool.submit(env.step, np.zeros(7)).result()
    env.close()
