"""Registered Gymnasium environments as suites: their contract, what a description says, and what it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import gymnasium as gym
import gymnasium_environments
import numpy as np
import pytest

from roep_gym.cli.foreign_code import suite_code
from roep_gym.documents import read_yaml
from roep_gym.envs.env_description import SuccessRule
from roep_gym.episode import EpisodeIdentity
from roep_gym.error import InvalidInputError, PolicyOutputError
from roep_gym.evaluate.plan import plan_from_mapping, resolve
from roep_gym.suites import Suite, SuiteContractTests, find_suite, find_tasks
from roep_gym.suites.registry import split_task
from roep_gym.wrappers import PerturbObservation, RecordEpisode, StepBudget

ARM_ID = "gymnasium_environments:roep_test/Arm-v0"
ARM = f"gym:{ARM_ID}"
DONE: Mapping[str, Any] = {"success": {"info": "task.done"}}
SEEN: Mapping[str, Any] = {
    **DONE,
    "images": {"top": "top"},
    "depths": {"top": "range"},
    "render_camera": "side",
}


class TestCartPole(SuiteContractTests):
    limit_episodes = 2

    def make_suite(self) -> Suite:
        return find_suite("gym:CartPole-v1", {"success": {"length_at_least": 50}, "step_budget": 60})


class TestPendulum(SuiteContractTests):
    limit_episodes = 1

    def make_suite(self) -> Suite:
        names = {"observation": ["cosine", "sine", "speed"]}
        return find_suite("gym:Pendulum-v1", {"success": {"return_at_least": -300}, "field_names": names})


class TestReacher(SuiteContractTests):
    limit_episodes = 1

    def make_suite(self) -> Suite:
        pytest.importorskip("imageio", reason="Gymnasium's MuJoCo environments need it; pip install imageio")
        return find_suite("gym:Reacher-v5", {"success": {"return_at_least": -5}})


class TestFetch(SuiteContractTests):
    limit_episodes = 1

    def make_suite(self) -> Suite:
        pytest.importorskip("gymnasium_robotics", reason="pip install gymnasium-robotics")
        return find_suite("gym:gymnasium_robotics:FetchReach-v4", {"success": {"info": "is_success"}})


class TestArm(SuiteContractTests):
    settings: ClassVar[Mapping[str, Any]] = {"cameras": ["top", "side"], "image_size": 16, "depth": True}
    limit_episodes = 1
    arguments: ClassVar[dict[str, Any]] = {}

    def make_suite(self) -> Suite:
        return find_suite(ARM, {**SEEN, "arguments": self.arguments})


@pytest.mark.parametrize(
    ("fault", "test"),
    [
        ("leak of history", "test_a_reset_is_a_function_of_scene_seed_and_initial_state"),
        ("unseeded reset", "test_a_reset_is_a_function_of_scene_seed_and_initial_state"),
        ("hidden limit", "test_no_step_limit_is_hidden"),
    ],
)
def test_the_contract_finds_a_fault_of_a_registered_environment(fault: str, test: str) -> None:
    contract = TestArm()
    contract.arguments = {"fault": fault}  # type: ignore[misc]
    with pytest.raises(AssertionError):
        getattr(contract, test)()


@pytest.mark.parametrize("changes", [{"arguments": {"fault": "global streams"}}, {"rebuild": True}])
def test_global_streams_belong_to_the_episode_and_a_leak_ends_with_a_new_environment(
    changes: dict[str, Any],
) -> None:
    if "rebuild" in changes:
        changes = {**changes, "arguments": {"fault": "leak of history"}}
    contract = TestArm()
    contract.make_suite = lambda: find_suite(ARM, {**SEEN, **changes})  # type: ignore[method-assign]
    np.random.seed(3)
    expected = np.random.random()
    np.random.seed(3)
    env = contract._environment()
    env.reset(options=contract._options(1, 1))
    assert np.random.random() == expected  # a policy's stream is left alone
    env.close()
    contract.test_a_reset_is_a_function_of_scene_seed_and_initial_state()


def _make(arguments: Mapping[str, Any], source: str = ARM, task: str = "default", **settings: Any) -> Any:
    return find_suite(source, arguments).make_environment(task, **settings)


def _options(scene_seed: int = 1) -> dict[str, Any]:
    return EpisodeIdentity("run", 0, 0, 0, scene_seed).to_options()


def test_observations_are_flat_named_and_of_the_cameras_that_are_asked_for() -> None:
    env = _make(SEEN, cameras=["top", "side"], image_size=16)
    observation, _ = env.reset(options=_options())
    assert sorted(observation) == [
        "arm.joint", "arm.speed", "mode", "proprio", "side_image", "top_depth", "top_image",
    ]  # fmt: skip
    assert env.get_wrapper_attr("observation_fields")["proprio"] == (
        "arm.joint_0", "arm.speed_0", "mode_0", "mode_1", "mode_2",
    )  # fmt: skip
    assert observation["mode"].sum() == 1
    assert observation["top_depth"].shape == (16, 16, 1)
    assert observation["proprio"].dtype == np.float32
    assert sorted(_make(SEEN).reset()[0]) == [
        "arm.joint", "arm.speed", "mode", "proprio", "top_depth", "top_image",
    ]  # fmt: skip
    chosen = {**DONE, "shield_inputs": ["arm.speed", "arm.joint"], "field_names": {"arm.joint": ["angle"]}}
    env = _make(chosen)
    observation, _ = env.reset(options=_options())
    assert env.get_wrapper_attr("observation_fields")["proprio"] == ("arm.speed_0", "angle")
    assert observation["proprio"][1] == np.float32(observation["arm.joint"][0])


def test_the_render_camera_draws_where_it_is_asked_to_and_is_perturbed() -> None:
    env = _make(SEEN, cameras=["side"], image_size=16)
    stack = RecordEpisode(StepBudget(PerturbObservation(env, profile="medium"), max_steps=5))
    identity = EpisodeIdentity("run", 0, 0, 0, 1, profile="medium")
    stack.request_frames(True)
    observation, info = stack.reset(options=identity.to_options())
    assert (observation["side_image"] == 0).all(axis=-1).sum() == 25
    inner = env.get_wrapper_attr("inner")
    stack.request_frames(False)
    drawn = inner.drawn
    observation, *_, info = stack.step(np.zeros(2, np.float32))
    assert inner.drawn == drawn
    assert not info["frames_rendered"]
    assert env.get_wrapper_attr("renderer_name")().startswith("rgb_array of")
    stack.close()


@pytest.mark.parametrize(
    ("rule", "success", "ends"),
    [
        ({"info": "task.done"}, True, True),
        ({"info": "task.done", "when": "end"}, True, False),
        ({"function": "gymnasium_environments:near"}, True, True),
        ({"return_at_least": -100}, True, False),
        ({"return_at_least": 1}, False, False),
        ({"length_at_least": 4}, False, False),
        ({"length_at_least": 1, "when": "first"}, True, True),
        ({"terminated": True}, False, False),
    ],
)
def test_what_counts_as_success(rule: dict[str, Any], success: bool, ends: bool) -> None:
    env = _make({"success": rule})
    observation, _ = env.reset(options=_options())
    towards = np.array(
        [-np.sign(observation["arm.joint"][0]) * min(1.0, abs(observation["arm.joint"][0]) * 5), 0]
    )
    for _ in range(8):
        *_, terminated, truncated, info = env.step(towards)
        if info["environment"]["distance"] < 0.2 or terminated:
            break
    if rule.get("length_at_least") != 4:
        assert (info["is_success"], terminated, truncated) == (success, ends, False)
    assert info.get("termination") == ("success" if ends else None)


def test_an_end_without_success_is_a_failure_and_no_unknown_outcome() -> None:
    env = StepBudget(_make({"success": {"length_at_least": 400}}, "gym:CartPole-v1"), max_steps=100)
    stack = RecordEpisode(env)
    stack.reset(options=_options())
    terminated = False
    while not terminated:
        *_, terminated, _, info = stack.step(1)
    summary = info["episode_record"].summary
    assert (summary.success, summary.reason) == (0, "timeout")
    assert summary.steps < 100


@pytest.mark.parametrize("action", [0.5, 2, -1, np.nan, [1, 0], "left"])
def test_an_action_that_is_none_of_the_numbered_ones_is_the_policys_failure(action: Any) -> None:
    env = _make({"success": {"length_at_least": 40}}, "gym:CartPole-v1")
    env.reset(options=_options())
    with pytest.raises(PolicyOutputError):
        env.unwrapped.step(action)
    stack = RecordEpisode(StepBudget(env, max_steps=9))
    stack.reset(options=_options())
    *_, info = stack.step(action)
    assert info["episode_record"].summary.reason == "invalid_execution"


def test_the_environment_is_rebuilt_from_its_spec() -> None:
    env = _make(SEEN, cameras=["side"], image_size=16)
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    first, second = env.reset(options=_options())[0], again.reset(options=_options())[0]
    assert first.keys() == second.keys()
    assert all(np.array_equal(first[key], second[key]) for key in first)


def test_wrappers_of_a_spec_are_put_around() -> None:
    rescaled = gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), -1, 1)
    (entry,) = json.loads(rescaled.spec.to_json())["additional_wrappers"]
    env = _make({"success": {"return_at_least": -300}, "wrappers": [entry]}, "gym:Pendulum-v1")
    assert (float(env.action_space.low[0]), float(env.action_space.high[0])) == (-1.0, 1.0)


def test_the_step_budget_is_the_registered_limit_and_tasks_are_those_of_the_description() -> None:
    suite = find_suite(
        ARM, {**DONE, "tasks": {"wide": {"arguments": {"bound": 2.0}, "instruction": "turn"}, "plain": {}}}
    )
    assert (suite.name, suite.step_budget) == ("roep_test.Arm-v0", 30)
    assert [(task.name, task.instruction) for task in suite.tasks()] == [
        ("plain", ARM_ID),
        ("wide", "turn"),
    ]
    assert suite.make_environment("wide").action_space.high[0] == 2.0
    assert find_suite("gym:Pendulum-v1").step_budget == 200
    assert find_suite("gym:Pendulum-v1", {"step_budget": 9}).step_budget == 9
    names = suite.shield_fields("plain")
    assert names[:2] == ("arm.joint_0", "arm.speed_0")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gym:Pendulum-v1", ("gym:Pendulum-v1", "")),
        ("gym:Pendulum-v1/default", ("gym:Pendulum-v1", "default")),
        ("gym:ALE/Pong-v5", ("gym:ALE/Pong-v5", "")),
        ("gym:module:ALE/Pong-v5/hard", ("gym:module:ALE/Pong-v5", "hard")),
        ("gym:Pendulum-v1/hard-v2", ("gym:Pendulum-v1", "hard-v2")),
        ("gym:Plain", ("gym:Plain", "")),
        ("tabletop/carry", ("tabletop", "carry")),
        ("mine:Suite", ("mine:Suite", "")),
    ],
)
def test_ids_may_have_a_slash_of_their_own(text: str, expected: tuple[str, str]) -> None:
    assert split_task(text) == expected


def test_the_module_that_registers_an_environment_is_announced() -> None:
    assert suite_code(["gym:Pendulum-v1", ARM, f"{ARM}/default"]) == [f"suite {ARM}"] * 2


SPOKEN = "gym:gymnasium_environments:roep_test/Spoken-v0"
ENDS: Mapping[str, Any] = {"success": {"terminated": True}}


@pytest.mark.parametrize(
    ("source", "arguments", "message"),
    [
        ("gym:Pendulm-v1", DONE, "Unknown environment of Gymnasium 'Pendulm-v1'. Did you mean 'Pendulum-v1'"),
        ("gym:", DONE, "Expected gym:ENV_ID, such as 'gym:Pendulum-v1', got 'gym:'"),
        ("gym", DONE, "Expected gym:ENV_ID, such as 'gym:Pendulum-v1', got 'gym'"),
        ("gym:no_such_module:A-v0", DONE, "Expected a module that registers 'A-v0' at 'no_such_module', got ModuleNot"),
        (ARM, {}, f"Expected a success rule for {ARM_ID}, got none; describe it"),
        (ARM, {"success": {}}, "Expected one success rule (info, return_at_least, length_at_least, terminated,"),
        (ARM, {"success": {"info": "a", "terminated": True}}, "got info and terminated"),
        (ARM, {"success": {"length_at_least": 0}}, "Expected success.length_at_least to be at least 1, got 0"),
        (ARM, {"success": {"function": "near"}}, "Expected success.function to be 'module:function', got 'near'"),
        (ARM, {"success": {"function": "gymnasium_environments:far"}}, "Expected a success function at"),
        (ARM, {"succes": {}}, f"Unknown field of suites.{ARM} 'succes'. Did you mean 'success'?"),
        (ARM, {**DONE, "arguments": {"colour": 1}}, "to be made with the arguments {'colour': 1}, got TypeError"),
        (ARM, {**DONE, "images": {"top": "tob"}}, "entry of the observation for top_image 'tob'. Did you mean 'top'"),
        (ARM, {**DONE, "images": {"top": "mode"}}, "Expected 'mode' to be uint8 with three axes"),
        (ARM, {**DONE, "depths": {"top": "range"}}, "Expected the depth of a camera that has an image"),
        (ARM, {**DONE, "shield_inputs": ["arm.joints"]}, "'arm.joints'. Did you mean 'arm.joint'"),
        (ARM, {**DONE, "field_names": {"arm.joint": ["a", "b"]}}, "Expected 1 field_names for 'arm.joint', got 2."),
        (ARM, {**DONE, "field_names": {"arm.joint": ["a"], "arm.speed": ["a"]}}, "got a more than once."),
        (ARM, {**DONE, "wrappers": [{"entry_point": "gymnasium.wrappers:TimeLimit"}]}, "got TimeLimit; give the limit"),
        (ARM, {**DONE, "wrappers": [{"entry_point": "gymnasium.wrappers:None"}]}, "Expected a wrapper at"),
        (SPOKEN, {**ENDS, "arguments": {"observations": "tuple"}}, "got 'observation' of Tuple"),
        (SPOKEN, {**ENDS, "arguments": {"observations": "text"}}, "got 'heard' of Text"),
        (SPOKEN, {**ENDS, "arguments": {"actions": "several"}}, "Expected a Discrete action space"),
        (SPOKEN, {**ENDS, "arguments": {"actions": "matrix"}}, "or a Box of one axis, got Box"),
    ],
)  # fmt: skip
def test_what_cannot_be_evaluated_is_one_sentence(
    source: str, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        _make(arguments, source)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"info": "task.finished"}, f"Expected info['task.finished'] from step() of {ARM_ID}"),
        ({"info": "distance"}, "to be true or false, or 1 or 0, got"),
        ({"function": "gymnasium_environments:perhaps"}, "to be true or false, or 1 or 0, got 0.5"),
    ],
)  # fmt: skip
def test_a_rule_that_the_steps_do_not_answer_is_refused_at_the_first(
    rule: dict[str, Any], message: str
) -> None:
    env = _make({"success": rule})
    env.reset(options=_options())
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        env.step(np.ones(2, np.float32))
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        find_suite(ARM, {"success": rule}).measure("default")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"suites": {"gym:Pendulum-v0": {}}},
            "Unknown suite with arguments 'gym:Pendulum-v0'. Did you mean 'gym:Pend",
        ),
        ({"environment": {"image_size": 64}}, "Expected no image_size for tasks of Pendulum-v1"),
        ({"episodes": 1001, "seed_groups": 1}, "Expected at most 1000 episodes"),
        ({"shield": {"fields": ["angle"]}}, "Unknown entry that a shield may read on Pendulum-v1 'angle'"),
        (
            {"suites": {"tabletop": {"size": 2}}, "tasks": ["tabletop/carry"]},
            "Expected arguments that fit the suite",
        ),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(changes: dict[str, Any], message: str) -> None:
    source = {
        "models": [{"name": "m", "policy": "random"}],
        "tasks": ["gym:Pendulum-v1"],
        "suites": {"gym:Pendulum-v1": {"success": {"return_at_least": -300}}},
        **changes,
    }
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        resolve(plan_from_mapping(source))


def test_arguments_of_suites_belong_to_the_digest_and_others_change_none() -> None:
    source = {"models": [{"name": "m", "policy": "random"}], "tasks": ["tabletop/carry"]}
    assert "suites" not in plan_from_mapping(source).content()
    pendulum = {**source, "tasks": ["gym:Pendulum-v1"]}
    digests = {
        resolve(
            plan_from_mapping(
                {**pendulum, "suites": {"gym:Pendulum-v1": {"success": {"return_at_least": x}}}}
            )
        ).digest
        for x in (-300, -200)
    }
    assert len(digests) == 2
    (named,) = find_tasks("gym:Pendulum-v1", {"gym:Pendulum-v1": {"instruction": "swing up"}})
    assert named.task.instruction == "swing up"


def test_two_rules_are_none() -> None:
    assert SuccessRule(info="is_success").ends_episode
    assert not SuccessRule(return_at_least=3.0).ends_episode
    assert gymnasium_environments.near is not None


@pytest.mark.parametrize(("source", "key"), [("gym:CartPole-v1", "observation"), (ARM, "arm.joint")])
def test_a_training_in_a_described_environment_leaves_a_plan_for_it(
    source: str, key: str, tmp_path: Path
) -> None:
    from roep_gym.training import EnvironmentConfig, write_evaluation_plan

    arguments = {"env_id": source.removeprefix("gym:"), "description": {"success": {"length_at_least": 9}}}
    config = EnvironmentConfig("roep_gym/Gymnasium-v0", arguments, observation_keys=key, step_budget=12)
    model = tmp_path / "model.zip"
    write_evaluation_plan(
        tmp_path / "plan.yaml", name="mine", algorithm="PPO", model=model, environment=config
    )
    plan = resolve(plan_from_mapping(read_yaml(tmp_path / "plan.yaml", "a plan")))
    (row,) = plan.rows
    assert (row.suite_source, row.task, row.step_budget) == (source, "default", 12)
    assert row.suite_arguments == arguments["description"]
    assert row.model.arguments["observation_key"] == key
    assert not any(condition.shielded for condition in plan.conditions)
