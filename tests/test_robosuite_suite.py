"""robosuite's own tasks: the contract of a suite, and that frames and numbers are those of robosuite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

from roep_gym import seeding
from roep_gym.envs.global_streams import GlobalStreams
from roep_gym.envs.robosuite_env import TASKS, RobosuiteEnv, proprio_fields
from roep_gym.episode import EpisodeIdentity
from roep_gym.error import InvalidInputError
from roep_gym.suites import Suite, SuiteContractTests, find_suite, find_tasks

OPTIONS = EpisodeIdentity("run", 0, 0, 3, 5).to_options()


class _Task(SuiteContractTests):
    steps = 4
    limit_episodes = 1

    def make_suite(self) -> Suite:
        suite: Any = type(find_suite("robosuite"))()
        suite.step_budget = (
            40  # a hidden limit of robosuite's would be its horizon, which the scene leaves out
        )
        return suite


@pytest.mark.libero
class TestLift(_Task):
    task = "Lift"
    settings: ClassVar[Mapping[str, Any]] = {"cameras": ["agentview"], "image_size": 32, "depth": True}


@pytest.mark.libero
class TestDoor(_Task):
    task = "Door"
    settings: ClassVar[Mapping[str, Any]] = {"cameras": [], "object_state": True}


@pytest.mark.libero
class TestWipe(_Task):
    task = "Wipe"
    settings: ClassVar[Mapping[str, Any]] = {"cameras": [], "object_state": True, "settle_steps": 0}


@pytest.mark.libero
@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_every_task_repeats_an_episode_in_a_new_environment(task: str) -> None:
    runs = []
    for _ in range(2):
        env = RobosuiteEnv(task, cameras=[], object_state=True, settle_steps=2)
        env.action_space.seed(0)
        observation, info = env.reset(options=OPTIONS)
        digests = [
            observation["proprio"].tobytes(),
            observation["object_state"].tobytes(),
            info["scene_hash"],
        ]
        for _ in range(3):
            observation, reward, *_ = env.step(env.action_space.sample())
            digests += [observation["proprio"].tobytes(), observation["object_state"].tobytes(), reward]
        runs.append(digests)
        env.close()
    assert runs[0] == runs[1]


@pytest.mark.libero
def test_observations_and_frames_are_those_that_robosuite_gives() -> None:
    from roep_gym.envs.robosuite_import import import_robosuite

    env = RobosuiteEnv("Lift", image_size=32, depth=True, object_state=True, settle_steps=0)
    observation, _ = env.reset(options=OPTIONS)
    robosuite = import_robosuite()
    controller = robosuite.load_controller_config(default_controller="OSC_POSE")
    streams = GlobalStreams()
    streams.seed(seeding.seed("robosuite", "Lift", 5, "3"))
    with streams:
        stock = robosuite.make(
            "Lift",
            robots="Panda",
            controller_configs=controller,
            camera_heights=32,
            camera_widths=32,
            camera_depths=True,
            hard_reset=False,
        )
        given = stock.reset()
    assert np.array_equal(observation["agentview_image"], given["agentview_image"][::-1])
    assert np.allclose(observation["object_state"], given["object-state"])
    assert np.allclose(observation["proprio"][14:17], given["robot0_eef_pos"])
    assert np.isfinite(observation["agentview_depth"]).all()
    env.request_frames(False)
    observation, *_, info = env.step(np.zeros(7, np.float32))
    assert not info["frames_rendered"]
    assert not observation["agentview_image"].any()
    stock.close()
    env.close()


@pytest.mark.libero
def test_frames_change_nothing_that_is_not_a_frame() -> None:
    states = []
    for cameras in ([], ["agentview"]):
        env = RobosuiteEnv("Lift", cameras=cameras, image_size=32, settle_steps=2)
        for _ in range(2):  # the second reset draws in the context of the first
            env.reset(options=OPTIONS)
            observation, *_ = env.step(np.full(7, 0.5, np.float32))
            states.append(observation["proprio"].tobytes())
        env.close()
    assert len(set(states)) == 1


def test_tasks_have_robosuites_names_and_the_arm_that_wipes_has_no_gripper() -> None:
    assert [named.task.name for named in find_tasks("robosuite")] == sorted(TASKS)
    (named,) = find_tasks("robosuite/lift the cube")
    assert (named.task.name, named.suite.robot_type) == ("Lift", "panda")
    assert (len(proprio_fields("Lift")), len(proprio_fields("Wipe"))) == (25, 21)
    env = RobosuiteEnv("Wipe", cameras=[])
    assert env.action_space.shape == (6,)
    assert env.observation_space["proprio"].shape == (21,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "Lfit"}, "Unknown task of robosuite 'Lfit'. Did you mean 'Lift'"),
        ({"cameras": ["agentvue"]}, "Unknown camera 'agentvue'. Did you mean 'agentview'"),
        ({"control_mode": "absolute"}, "Unknown control mode 'absolute'"),
        ({"settle_steps": -1}, "Expected settle_steps to be an integer in 0..1000, got -1"),
        ({"suite": "robosuit"}, "Unknown suite 'robosuit'. Did you mean 'robosuite'"),
    ],
)
def test_what_robosuite_does_not_have_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        RobosuiteEnv(**arguments)
