"""Our control step and stock LIBERO's: the same bits at every step, whatever the robot touches."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from roep_gym import seeding
from roep_gym.envs.libero_env import LiberoEnv
from roep_gym.envs.libero_simulation import SETTLE_ACTION
from roep_gym.envs.task_catalog import LIBERO_SUITES, find_task, initial_states, tasks
from roep_gym.episode import EpisodeIdentity
from roep_gym.error import InfrastructureError
from roep_gym.policies.base import PolicyEpisode, PolicyInput
from roep_gym.policies.registry import make_policy
from roep_gym.typing import FloatArray

pytestmark = pytest.mark.libero

SCENE_SEED, INIT_STATE = 77, 5


def push_and_grasp(seed: int, count: int) -> FloatArray:
    """Return actions that go down to the table at random places, close, drag, lift and open, with pauses."""
    generator = seeding.generator("push and grasp", seed)
    actions: list[FloatArray] = []
    while len(actions) < count:
        side = generator.uniform(-1, 1, 6)
        side[3:] *= 0.3
        for length, height, gripper in (
            (6, -0.2, -1),
            (12, -1, -1),
            (5, 0, 1),
            (8, -0.1, 1),
            (6, 1, 1),
            (3, 0, -1),
        ):
            move = np.append(side, gripper) * (1 if length != 5 else 0)
            move[2], move[6] = height, gripper
            actions += [move] * length
            if length == 8:
                side = -side
    return np.array(actions[:count])


def random_actions(seed: int, count: int) -> FloatArray:
    return seeding.generator("random actions", seed).uniform(-1, 1, (count, 7))


def expert_actions(task: str) -> FloatArray:
    """Return the actions with which the scripted expert solves the task."""
    env, policy, actions = our_environment(None, task, cameras=[]), make_policy("expert"), []
    policy.begin(PolicyEpisode("one", env.suite, env.task, env.instruction, 0, env.observation_fields))
    observation, success = env._observe(), False
    while not success:
        given = PolicyInput("one", len(actions), env.instruction, observation)
        action = policy.act([given])[0][0]
        observation, _, success, _, _ = env.step(action)
        actions.append(action.astype(np.float64))
        assert len(actions) < 280, "the expert solves the task within the budget"
    env.close()
    return np.array(actions)


class Compared(NamedTuple):
    """Compared steps with the robot in contact, and with the goal reached."""

    contacts: int
    successes: int


class Stock:
    """Stock LIBERO at the beginning of an episode, in the order of the published evaluations.

    It has a renderer, as there (building one moves the solver's warm start), but draws only for a camera.
    """

    def __init__(self, suite: str | None, task: str, camera: bool = False) -> None:
        from libero.libero.envs import OffScreenRenderEnv

        found = find_task(suite, task)
        cameras = {"camera_names": ["agentview"], "camera_heights": 64, "camera_widths": 64}
        self.env = OffScreenRenderEnv(bddl_file_name=str(found.bddl_file), use_camera_obs=camera, **cameras)
        with seeding.preserved_numpy_state():
            self.env.seed(SCENE_SEED)
            self.env.reset()
        self.observation = self.env.set_init_state(initial_states(found)[INIT_STATE])
        for _ in range(10):
            self.step(np.array(SETTLE_ACTION))

    def step(self, action: FloatArray) -> bool:
        self.observation, _, success, _ = self.env.step(action)
        return bool(success)


def our_environment(suite: str | None, task: str, **arguments: Any) -> LiberoEnv:
    env = LiberoEnv(task, suite=suite, object_state=True, **arguments)
    env.reset(options=EpisodeIdentity("test", 0, 0, INIT_STATE, SCENE_SEED).to_options())
    return env


def physics(data: Any) -> dict[str, FloatArray]:
    """Return everything that the next step depends on, and what is computed from it."""
    names = (
        "qpos",
        "qvel",
        "qacc",
        "qacc_warmstart",
        "ctrl",
        "sensordata",
        "xpos",
        "site_xpos",
        "qfrc_constraint",
    )
    return {"time": np.array(data.time), **{name: getattr(data, name).copy() for name in names}}


def assert_same_episode(
    suite: str | None, task: str, actions: FloatArray, absolute: bool = False
) -> Compared:
    """Replay actions on both and compare everything at every step."""
    ours = our_environment(suite, task, cameras=[], control_mode="absolute" if absolute else "relative")
    stock = Stock(suite, task)
    contacts = successes = 0
    try:
        stock.env.env.robots[0].controller.use_delta = not absolute
        simulation, domain = ours._simulation, ours._simulation.domain
        robot = set(domain.robots[0].robot_model.contact_geoms) | set(domain.robots[0].gripper.contact_geoms)
        geoms = [simulation.model.geom_name2id(name) for name in robot]
        sampled = [name for name, observable in domain._observables.items() if observable.is_enabled()]
        for step, action in enumerate(actions):
            success = stock.step(action)
            *_, info = ours.step(action)
            expected, got = physics(stock.env.sim.data), physics(simulation.data)
            for name, value in expected.items():
                np.testing.assert_array_equal(got[name], value, err_msg=f"{name} at step {step}")
            for name in sampled:
                np.testing.assert_array_equal(
                    simulation.observe(name), stock.observation[name], err_msg=f"{name} at step {step}"
                )
            assert info["is_success"] == success
            np.testing.assert_array_equal(simulation.model.site_rgba, stock.env.sim.model.site_rgba)
            hit = np.isin(simulation.data.contact.geom, geoms).sum(axis=1) == 1
            contacts += bool(hit.any())
            successes += success
    finally:
        ours.close()
        stock.env.close()
    return Compared(contacts, successes)


def test_an_expert_that_turns_the_stove_on_and_goes_on_pushing() -> None:
    actions = np.concatenate([expert_actions("goal_stove"), push_and_grasp(0, 50), random_actions(0, 20)])
    compared = assert_same_episode(None, "goal_stove", actions)
    assert compared.contacts > 20
    assert 0 < compared.successes < len(actions)


def test_absolute_control() -> None:
    start = np.array([-0.1, 0.0, 0.2, np.pi, 0.0, 0.0, -1.0])
    there = start + np.array([0.1, 0.1, -0.4, 0.2, 0.1, 0.0, 2.0])
    assert_same_episode(
        "libero_object", "object_bbq_sauce", np.repeat([start, there], 20, axis=0), absolute=True
    )


def test_frames_are_drawn_at_the_same_substep() -> None:
    ours, stock = (
        our_environment(None, "goal_bowl_plate", image_size=64),
        Stock(None, "goal_bowl_plate", True),
    )
    try:
        for action in push_and_grasp(3, 16):
            stock.env.env.sim._render_context_offscreen.gl_ctx.make_current()
            stock.step(action)
            observation, *_ = ours.step(action)
            np.testing.assert_array_equal(
                observation["agentview_image"], stock.observation["agentview_image"][::-1]
            )
    finally:
        ours.close()
        stock.env.close()


def test_the_switch_to_the_stock_path_changes_nothing() -> None:
    played = []
    for stock_step in (False, True):
        env = our_environment(None, "goal_stove", cameras=[])
        env._simulation._stock_step = stock_step
        played.append([env.step(action)[0] for action in push_and_grasp(1, 12)])
        with pytest.raises(InfrastructureError, match="that is sampled, got 'world_pose_in_gripper'"):
            env._simulation.observe("world_pose_in_gripper")
        env.close()
    for fast, slow in zip(*played, strict=True):
        for key in fast:
            np.testing.assert_array_equal(fast[key], slow[key])


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("suite", LIBERO_SUITES)
def test_every_task(suite: str) -> None:
    touched = 0
    for index, task in enumerate(tasks(suite)):
        actions = np.concatenate([push_and_grasp(index, 60), random_actions(index, 20)])
        touched += assert_same_episode(suite, task.name, actions).contacts > 0
    assert touched > len(tasks(suite)) / 2, "most episodes have the robot in contact"


def test_the_pose_of_the_controller_is_stocks_and_not_that_of_proprio() -> None:
    stock = Stock("libero_goal", "put_the_bowl_on_the_plate")
    env = our_environment("libero_goal", "put_the_bowl_on_the_plate", cameras=[], controller_pose=True)
    controller = stock.env.env.robots[0].controller
    names = env.observation_fields["proprio"]
    for action in random_actions(2, 8):
        stock.step(action)
        observation, *_ = env.step(action)
        matrix = np.array(controller.ee_ori_mat)
        expected = np.concatenate([controller.ee_pos, matrix[:, 0], matrix[:, 1]])
        np.testing.assert_allclose(observation["controller_pose"], expected, rtol=0, atol=1e-12)
        first = names.index("eef_quat_x")
        body = Rotation.from_quat(observation["proprio"][first : first + 4])
        turn = (Rotation.from_matrix(matrix).inv() * body).magnitude()
        assert abs(turn - np.pi / 2) < 0.1  # why X-VLA's state cannot be made of proprio
    stock.env.close()
    env.close()
