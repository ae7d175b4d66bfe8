"""Environments to train on: spaces, endings, identities, and both kinds of vector environments."""

from __future__ import annotations

import csv
import re
import warnings
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as check_gymnasium_env
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.preprocessing import is_image_space, is_image_space_channels_first

from roep_gym.error import InfrastructureError, InvalidInputError, UnknownNameError
from roep_gym.training import EnvironmentConfig, make_env, make_gymnasium_vec_env, make_sb3_vec_env

SHIELD = "training_shields:RareShield"
HOLD = np.zeros(7, dtype=np.float32)


def config(task: str = "reach", *, image_size: int = 36, **settings: Any) -> EnvironmentConfig:
    arguments = {"task": task, "image_size": image_size, **settings.pop("arguments", {})}
    return EnvironmentConfig("roep_gym/Tabletop-v0", arguments, **{"step_budget": 6, **settings})


def everything(**settings: Any) -> EnvironmentConfig:
    return config(
        profile="strong",
        severity={"uniform": [0, 1]},
        shield=SHIELD,
        intervention_penalty=0.1,
        proposed_action=True,
        **settings,
    )


@pytest.mark.parametrize("keys", [None, ["agentview_image", "proprio"], "proprio", "agentview_image"])
def test_the_checkers_of_both_libraries_pass_without_a_warning(keys: Any) -> None:
    chosen = config(observation_keys=keys, profile="strong", arguments={"object_state": keys is None})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make_env(chosen))
    check_gymnasium_env(make_env(chosen, monitor=False), skip_render_check=True)


def test_images_come_channel_first_and_nothing_else_is_an_image() -> None:
    env = make_sb3_vec_env(config(arguments={"depth": True, "object_state": True}), 2)
    boxes = env.observation_space.spaces
    assert [key for key, box in boxes.items() if is_image_space(box)] == ["agentview_image"]
    assert is_image_space_channels_first(boxes["agentview_image"])
    observation = env.reset()
    assert observation["agentview_image"].shape == (2, 3, 36, 36)
    assert observation["agentview_image"].dtype == np.uint8
    assert observation["agentview_depth"].shape == (2, 36, 36, 1)
    assert observation["agentview_depth"].dtype == observation["proprio"].dtype == np.float32
    assert not any(isinstance(box, gym.spaces.Text) for box in boxes.values())


def test_a_single_key_is_the_observation_itself() -> None:
    assert make_sb3_vec_env(config(observation_keys="agentview_image")).reset().shape == (1, 3, 36, 36)
    assert make_sb3_vec_env(config(observation_keys="proprio")).reset().shape == (1, 9)


def test_frames_that_nobody_gets_are_not_rendered() -> None:
    for keys, rendered in ((["proprio"], False), (["agentview_image"], True)):
        assert make_env(config(observation_keys=keys)).reset()[1]["frames_rendered"] is rendered


ENDINGS = {
    "timeout": (config(), HOLD, False),
    "unsafe_attempt": (config(arguments={"terminate_on_unsafe": True}), HOLD + 2, True),
    "safe_refusal": (
        config(shield=SHIELD, terminate_on_refusal=True, step_budget=60, task="carry"),
        HOLD,
        True,
    ),
}


@pytest.mark.parametrize("subprocesses", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("reason", ENDINGS)
def test_only_the_step_budget_truncates(reason: str, subprocesses: bool) -> None:
    chosen, action, terminated = ENDINGS[reason]
    env = make_sb3_vec_env(chosen, 1, seed=0, subprocesses=subprocesses)
    env.reset()
    info = _until_done(env, lambda observation: action)
    env.close()
    assert info["termination"] == reason
    assert info["TimeLimit.truncated"] is not terminated
    assert info["is_success"] is False
    assert info["terminal_observation"]["proprio"].shape == (9,)


def test_success_terminates_and_counts_as_success() -> None:
    env = make_sb3_vec_env(config(arguments={"object_state": True}, step_budget=60), 1, seed=0)
    observation = env.reset()

    def reach(observation: Any) -> Any:
        move = (observation["object_state"][0, :3] - observation["proprio"][0, :3]) / 0.025
        return np.array([*np.clip(move, -1, 1), 0, 0, 0, -1], dtype=np.float32)

    info = _until_done(env, reach, observation)
    assert (info["termination"], info["is_success"]) == ("success", True)
    assert info["TimeLimit.truncated"] is False
    assert info["episode"]["r"] == 1.0


def _until_done(env: Any, act: Any, observation: Any = None) -> dict[str, Any]:
    for _ in range(100):
        observation, _, dones, infos = env.step(np.array(act(observation))[np.newaxis])
        if dones[0]:
            return infos[0]
    raise AssertionError("the episode did not end")


def test_monitor_stands_outermost_and_writes_the_outcome(tmp_path: Any) -> None:
    env = make_sb3_vec_env(everything(), 2, monitor_folder=tmp_path)
    assert all(isinstance(inner, Monitor) for inner in env.unwrapped.envs)
    env.reset()
    for _ in range(13):
        env.step(np.zeros((2, 7), dtype=np.float32))
    env.close()
    for index in range(2):
        with (tmp_path / f"{index}.monitor.csv").open() as file:
            file.readline()
            rows = list(csv.DictReader(file))
        assert [(row["l"], row["is_success"], row["termination"]) for row in rows] == [
            ("6", "False", "timeout")
        ] * 2


def identities(env: Any, resets: int = 3, seed: int | None = None) -> list[tuple[str, int, int]]:
    found = []
    for episode in range(resets):
        _, info = env.reset(seed=seed if episode == 0 else None)
        found.append(tuple(info["episode_identity"][name] for name in ("run_id", "seed_group", "episode")))
    return found


def test_the_identity_is_run_environment_and_episode() -> None:
    env = make_env(config(), run_id="ppo", index=3)
    assert identities(env) == [("ppo", 3, 0), ("ppo", 3, 1), ("ppo", 3, 2)]
    assert identities(env, seed=5) == [("ppo/seed-5", 3, 0), ("ppo/seed-5", 3, 1), ("ppo/seed-5", 3, 2)]


def test_an_episode_is_a_function_of_its_identity_whatever_came_before() -> None:
    first, second = make_env(everything(), run_id="a", index=1), make_env(everything(), run_id="a", index=1)
    _, expected = first.reset(), first.reset()
    second.reset()
    for _ in range(4):
        second.step(HOLD)
    again = second.reset()
    assert all(expected[0][key].tobytes() == again[0][key].tobytes() for key in expected[0])
    assert expected[1]["perturbation"] == again[1]["perturbation"]
    assert expected[1]["scene_hash"] == again[1]["scene_hash"]


@pytest.mark.parametrize("other", [{"run_id": "b"}, {"index": 2}])
def test_other_runs_and_environments_have_other_episodes(other: dict[str, Any]) -> None:
    infos = [
        make_env(everything(), **{"run_id": "a", "index": 1, **given}).reset()[1] for given in ({}, other)
    ]
    assert infos[0]["scene_hash"] != infos[1]["scene_hash"]
    assert infos[0]["perturbation"]["severity"] != infos[1]["perturbation"]["severity"]


def test_an_identity_that_is_given_goes_down_as_it_is() -> None:
    episode = {
        "run_id": "plan",
        "seed_group": 1,
        "episode": 2,
        "init_state": 7,
        "scene_seed": 9,
        "profile": "strong",
    }
    _, info = make_env(config(profile="strong")).reset(options={"episode": episode})
    assert info["episode_identity"] == episode


def test_seeds_of_neighbouring_runs_share_no_episode() -> None:
    runs = []
    for seed in (0, 1):
        env = make_sb3_vec_env(config(), 3, seed=seed)
        env.reset()
        runs.append({info["scene_hash"] for info in env.unwrapped.reset_infos})
    assert len(runs[0] | runs[1]) == 6


def test_an_environment_has_the_same_episodes_beside_any_number_of_others() -> None:
    begun = []
    for count in (1, 3):
        env = make_sb3_vec_env(config(), count, seed=3)
        env.reset()
        env.reset()
        begun.append([(info["episode_identity"], info["scene_hash"]) for info in env.unwrapped.reset_infos])
    assert begun[1][0] == begun[0][0]


@pytest.mark.slow
def test_processes_of_their_own_change_nothing() -> None:
    results = []
    for subprocesses in (False, True):
        env = make_sb3_vec_env(everything(), 2, seed=4, subprocesses=subprocesses)
        observations = [env.reset()]
        for _ in range(8):
            observation, rewards, _, _ = env.step(np.full((2, 7), 0.1, dtype=np.float32))
            observations.append({**observation, "reward": np.float32(rewards)})
        env.close()
        results.append(observations)
    for one, other in zip(*results, strict=True):
        assert all(one[key].tobytes() == other[key].tobytes() for key in one)


@pytest.mark.slow
def test_a_process_that_ended_is_one_sentence_and_closes() -> None:
    with pytest.raises(InfrastructureError, match="but one has ended"):
        make_sb3_vec_env(config(task="rech"), 2, subprocesses=True)
    env = make_sb3_vec_env(config(observation_keys="proprio"), 2, subprocesses=True)
    env.reset()
    env.processes[1].kill()
    env.processes[1].join()
    with pytest.raises(InfrastructureError, match="but one has ended"):
        env.step(np.stack([HOLD, HOLD]))
    env.close()
    assert not any(process.is_alive() for process in env.processes)


@pytest.mark.parametrize("subprocesses", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_gymnasiums_vector_environments(subprocesses: bool) -> None:
    env = make_gymnasium_vec_env(everything(), 2, run_id="vector", subprocesses=subprocesses)
    observation, info = env.reset()
    assert observation["agentview_image"].shape == (2, 36, 36, 3)
    assert list(info["episode_identity"]["seed_group"]) == [0, 1]
    ended = 0
    for _ in range(15):
        *_, truncated, info = env.step(env.action_space.sample())
        if truncated.any():
            ended += 1
            assert list(info["termination"]) == ["timeout"] * 2
            assert not info["is_success"].any()
    env.close()
    assert ended == 2


def test_make_vec_builds_the_stack_from_its_spec() -> None:
    env = gym.make_vec(make_env(everything(), monitor=False).spec, num_envs=2)
    _, info = env.reset(seed=3)
    assert list(info["episode_identity"]["run_id"]) == ["training/seed-3", "training/seed-4"]
    assert set(env.single_observation_space.spaces) == {"agentview_image", "proprio"}
    env.close()


def test_a_penalty_is_due_exactly_where_the_shield_intervened() -> None:
    settings = {"task": "carry", "shield": SHIELD, "step_budget": 60}
    free = make_env(config(**settings))
    costly = make_env(
        config(**settings, intervention_penalty=0.5, distance_penalty=2.0, proposed_action=True)
    )
    action = np.array([0.4, 0, 0, 0, 0, 0, -1], dtype=np.float32)
    free.reset()
    costly.reset()
    for step in range(1, 53):
        _, reward, *_, info = free.step(action)
        _, penalised, *_, told = costly.step(action)
        assert "proposed_action" not in info
        assert np.array_equal(told["proposed_action"], action)
        intervened = step % 7 == 0 or step % 50 == 0
        distance = float(np.linalg.norm(action - told["executed_action"]))
        assert (distance > 0) == intervened
        assert told["intervention_penalty"] == (0.5 + 2.0 * distance if intervened else 0.0)
        assert penalised == pytest.approx(reward - told["intervention_penalty"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"intervention_penalty": 0.1}, "Expected a ShieldAction below PenalizeIntervention, got none"),
        (
            {"intervention_penalty": -0.1, "shield": SHIELD},
            "Expected penalty to be a finite number >= 0, got -0.1",
        ),
        ({"observation_keys": []}, "Expected at least one observation key, got none."),
        ({"observation_keys": ["propio"]}, "Unknown observation key 'propio'. Did you mean 'proprio'?"),
        ({"observation_keys": 3}, "Expected environment.observation_keys to be text or a list, got 3."),
        ({"wrapper": "gymnasium.wrappers:Nothing"}, "Expected a wrapper at 'gymnasium.wrappers:Nothing'"),
        ({"wrapper": "os:sep"}, "Expected a wrapper at 'os:sep', got '/', which cannot be called."),
        ({"arguments": {"tsk": "reach"}}, "that takes these arguments, got: "),
        ({"severity": 0.5}, "Expected a profile for severity=0.5 to act on, got none; name one or leave"),
        (
            {"terminate_on_refusal": True},
            "Expected a shield for terminate_on_refusal=True to act on, got none",
        ),
        ({"profile": "strong", "severity": 3}, "to be a finite number in 0..1, got 1.5."),
    ],
)
def test_what_does_not_fit_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        make_env(config(**settings))
    assert issubclass(UnknownNameError, InvalidInputError)


def test_without_profile_and_shield_what_acts_on_them_goes_too() -> None:
    trained = everything(terminate_on_refusal=True, distance_penalty=0.2)
    assert trained.with_changes({"profile": None, "shield": None}) == config()
    assert trained.with_changes({"profile": None}) == replace(trained, profile=None, severity=1.0)
    assert trained.with_changes({"severity": 0.5}) == replace(trained, severity=0.5)
    with pytest.raises(InvalidInputError, match="Expected a profile for severity="):
        trained.with_changes({"profile": None, "severity": 0.5})


def test_an_environment_that_is_not_registered_is_refused() -> None:
    with pytest.raises(
        InvalidInputError, match=r"Expected env_id to be a registered .*Did you mean: `Tabletop`\?"
    ):
        make_env(EnvironmentConfig("roep_gym/Tabletp-v0"))


@pytest.mark.parametrize("count", [0, True, 1.5])
def test_a_number_of_environments_is_at_least_one(count: Any) -> None:
    with pytest.raises(InvalidInputError, match="Expected the number of environments to be an integer >= 1"):
        make_sb3_vec_env(config(), count)


@pytest.mark.libero
def test_libero_to_train_on_from_its_state_alone() -> None:
    chosen = EnvironmentConfig(
        arguments={"task": "goal_stove", "cameras": [], "object_state": True},
        observation_keys=["proprio", "object_state"],
        step_budget=2,
    )
    env = make_env(chosen, run_id="libero")
    check_env(env, skip_render_check=True)
    env.reset(seed=1)
    env.step(HOLD)
    *_, terminated, truncated, info = env.step(HOLD)
    assert (terminated, truncated, info["termination"]) == (False, True, "timeout")
    assert info["TimeLimit.truncated"] is True
    env.close()
