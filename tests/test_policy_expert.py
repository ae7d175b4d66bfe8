"""The scripted expert: on a hand that moves as it predicts, and on real LIBERO."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from libero_rollout import STEP_BUDGET, rollout
from scipy.spatial.transform import Rotation

from roep_gym.error import InvalidInputError, UnknownNameError
from roep_gym.policies import expert_motion
from roep_gym.policies.base import Policy, PolicyEpisode, PolicyInput
from roep_gym.policies.contract_suite import PolicyContractTests
from roep_gym.policies.expert import ExpertPolicy
from roep_gym.policies.expert_skills import SKILLS
from roep_gym.policies.registry import make_policy
from roep_gym.typing import FloatArray

FIELDS = {
    "proprio": (*(f"eef_pos_{a}" for a in "xyz"), *(f"eef_quat_{a}" for a in "xyzw")),
    "object_state": tuple(f"{n}_pos_{a}" for n in ("akita_black_bowl_1", "plate_1") for a in "xyz"),
}
BOWL, PLATE = np.array([-0.08, 0.0, 0.90]), np.array([0.05, -0.02, 0.90])
RIM = np.array([0.0, 0.05])


class TestExpertPolicy(PolicyContractTests):
    def make_policy(self) -> Policy:
        return make_policy("expert")


class TestExpertPolicyInChunks(PolicyContractTests):
    def make_policy(self) -> Policy:
        return make_policy("expert", chunk=8, failure_rate=0.5, noise=0.1)


def episode(seed: int) -> PolicyEpisode:
    return PolicyEpisode(
        "one", "libero_goal", "put_the_bowl_on_the_plate", "put the bowl on the plate", seed, FIELDS
    )


def drive(policy: ExpertPolicy, seed: int, *, executed: int | None = None) -> Iterator[FloatArray]:
    """Run the policy on a hand that follows the expert's own model; yield position (3,) and action (7,) of a step."""
    policy.begin(episode(seed))
    position, velocity = np.array([-0.2, 0.0, 1.18]), np.zeros(6)
    rotation, step = Rotation.from_quat([1.0, 0.0, 0.0, 0.0]), 0
    while step < STEP_BUDGET:
        observation = {
            "proprio": np.concatenate([position, rotation.as_quat()]).astype(np.float32),
            "object_state": np.concatenate([BOWL, PLATE]),
        }
        for action in policy.act([PolicyInput("one", step, "", observation)])[0][:executed]:
            commanded = action[:6] * expert_motion._TERMINAL_SPEED
            velocity = velocity + expert_motion._ACCELERATION * (commanded - velocity)
            position = position + velocity[:3]
            rotation = Rotation.from_rotvec(velocity[3:]) * rotation
            step += 1
            yield np.concatenate([position, action])
    policy.end("one")


@pytest.mark.parametrize(("chunk", "executed"), [(1, None), (8, None), (8, 3)])
def test_closes_at_the_bowl_and_opens_at_the_plate(chunk: int, executed: int | None) -> None:
    path = np.array(list(drive(ExpertPolicy(chunk=chunk), 0, executed=executed)))
    position, gripper = path[:, :3], path[:, -1]
    closing = int(np.argmax(gripper > 0))
    opening = closing + int(np.argmax(gripper[closing:] < 0))
    assert np.abs(path[:, 3:]).max() <= 1.0
    np.testing.assert_allclose(position[closing, :2], BOWL[:2] + RIM, atol=0.01)
    assert position[closing, 2] == pytest.approx(0.925, abs=0.008)
    np.testing.assert_allclose(position[opening, :2], PLATE[:2] + RIM, atol=0.015)
    assert position[opening, 2] == pytest.approx(0.945, abs=0.015)


def test_failures_come_at_the_chosen_rate_and_touch_nothing() -> None:
    policy = ExpertPolicy(chunk=8, failure_rate=0.3)
    hover = SKILLS["libero_goal", "put_the_bowl_on_the_plate"][0].height
    lowest = np.array([np.array(list(drive(policy, seed)))[:, 2].min() for seed in range(60)])
    failed = lowest > hover - 0.03
    assert 0.2 <= failed.mean() <= 0.4
    assert (lowest[~failed] < hover - 0.06).all()


def test_failures_are_a_function_of_the_seed() -> None:
    paths = [np.array(list(drive(ExpertPolicy(chunk=8, failure_rate=0.5, noise=0.1), 3))) for _ in range(2)]
    np.testing.assert_array_equal(*paths)


def test_holds_still_at_the_end() -> None:
    path = np.array(list(drive(ExpertPolicy(), 0)))
    np.testing.assert_array_equal(path[-5:, 3:9], np.zeros((5, 6)))


def test_noise_stays_in_the_bounds_and_off_the_gripper() -> None:
    clean = np.array(list(drive(ExpertPolicy(), 0)))
    noisy = np.array(list(drive(ExpertPolicy(noise=2.0), 0)))
    assert np.abs(noisy[:, 3:]).max() == 1.0
    assert set(np.unique(noisy[:, -1])) == {-1.0, 1.0}
    assert not np.array_equal(clean[:, 3:9], noisy[:, 3:9])


def test_names_the_closest_task() -> None:
    told = PolicyEpisode("one", "libero_goal", "put_the_bowl_on_the_plates", "", 0, FIELDS)
    with pytest.raises(UnknownNameError, match="Did you mean 'libero_goal/put_the_bowl_on_the_plate'"):
        ExpertPolicy().begin(told)


def test_says_how_to_get_object_poses() -> None:
    told = PolicyEpisode("one", "libero_goal", "turn_on_the_stove", "", 0, {"proprio": FIELDS["proprio"]})
    with pytest.raises(InvalidInputError, match="object_state=True"):
        ExpertPolicy().begin(told)


def test_says_which_pose_is_missing() -> None:
    policy = ExpertPolicy()
    policy.begin(PolicyEpisode("one", "libero_goal", "turn_on_the_stove", "", 0, FIELDS))
    observation = {
        "proprio": np.array([0, 0, 1, 1, 0, 0, 0], dtype=np.float32),
        "object_state": np.zeros(6),
    }
    with pytest.raises(InvalidInputError, match="the pose of 'flat_stove_1'"):
        policy.act([PolicyInput("one", 0, "", observation)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"chunk": 0}, "chunk to be an integer >= 1, got 0"),
        ({"failure_rate": 1.5}, r"failure_rate in \[0, 1\], got 1.5"),
        ({"failure_rate": float("nan")}, r"failure_rate in \[0, 1\], got nan"),
        ({"noise": -1.0}, "noise to be finite and >= 0, got -1.0"),
    ],
)
def test_refuses_arguments(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        ExpertPolicy(**arguments)  # type: ignore[arg-type]


@pytest.mark.libero
@pytest.mark.parametrize("chunk", [1, 8])
def test_solves_a_libero_task(chunk: int) -> None:
    assert rollout("libero_goal", "put_the_bowl_on_the_plate", 1, ExpertPolicy(chunk=chunk)).success


@pytest.mark.slow
@pytest.mark.libero
@pytest.mark.parametrize("task", SKILLS)
def test_solves_every_task_of_the_paper(task: tuple[str, str]) -> None:
    outcome = rollout(*task, 2, ExpertPolicy(chunk=8))
    assert (outcome.success, outcome.unsafe) == (True, set())


@pytest.mark.slow
@pytest.mark.libero
@pytest.mark.parametrize(
    "task",
    [
        ("libero_goal", "turn_on_the_stove"),
        ("libero_goal", "put_the_cream_cheese_in_the_bowl"),
        ("libero_object", "pick_up_the_salad_dressing_and_place_it_in_the_basket"),
    ],
)
def test_failures_time_out_without_an_unsafe_attempt(task: tuple[str, str]) -> None:
    outcome = rollout(*task, 2, ExpertPolicy(chunk=8, failure_rate=1.0))
    assert (outcome.success, outcome.unsafe) == (False, set())
    assert len(outcome.actions) == STEP_BUDGET
