"""Functions, objects with `infer` and models as policies: what a user has, without a class of our protocol."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from roep_gym import make_policy
from roep_gym.contracts import RuntimeContract, compare, unresolved
from roep_gym.envs import sighted_policy
from roep_gym.episode import EpisodeIdentity
from roep_gym.error import InvalidInputError, UnknownNameError
from roep_gym.evaluate import evaluate, run_episode
from roep_gym.policies import (
    FunctionPolicy,
    InferPolicy,
    ObservationRequest,
    Policy,
    PolicyContractTests,
    PolicyEpisode,
    PolicyInput,
    adapt_policy,
)
from roep_gym.policies.sb3 import ModelPolicy
from roep_gym.wrappers import RecordEpisode, StepBudget


def act(observation):
    return np.full(7, observation["proprio"][0], np.float32)


def follow(observation, instruction, fields):
    return np.full(7, len(instruction) / 100 + len(fields["proprio"]) / 1000)


def make(scale: float = 1.0):
    return lambda observation: act(observation) * np.float32(scale)


def broken(scale: float = 1.0):
    raise SystemExit(3)


class Client:
    """Answers as openpi's policies do, without any state."""

    def infer(self, request: dict[str, Any]) -> dict[str, Any]:
        self.request = request
        return {"actions": np.full((5, 7), request["proprio"][0]), "policy_timing": {}}


class Counting(Client):
    """Remembers how often it was asked in an episode."""

    def __init__(self) -> None:
        self.count = 0

    def reset(self) -> None:
        self.count = 0

    def infer(self, request: dict[str, Any]) -> Any:
        self.count += 1
        return np.full(7, self.count / 100)


class Model:
    """Has what is asked of a model of Stable-Baselines3; recurrent, to see that its state is handed back."""

    observation_space = spaces.Dict({"proprio": spaces.Box(-9, 9, (25,), np.float32)})
    action_space = spaces.Box(-1, 1, (7,), np.float32)

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        assert deterministic
        count = np.zeros(1) if episode_start[0] else state[0] + 1
        return np.full((1, 7), observation["proprio"][0, 0] / (1 + count[0]), np.float32), (count,)


THING, NUMBER = Client(), 3


class TestFunction(PolicyContractTests):
    def make_policy(self) -> Policy:
        return FunctionPolicy(act)


class TestFunctionOfAllArguments(PolicyContractTests):
    def make_policy(self) -> Policy:
        return FunctionPolicy(follow, ObservationRequest(cameras=("agentview",), image_size=16))


class TestInfer(PolicyContractTests):
    def make_policy(self) -> Policy:
        return adapt_policy(Client())


class TestModel(PolicyContractTests):
    def make_policy(self) -> Policy:
        return adapt_policy(Model(), contract={"chunk_length": 1})


def opened(policy: Policy, key: str = "a") -> Policy:
    policy.begin(PolicyEpisode(key, "s", "t", "carry it", 0, {"proprio": ("x", "y")}))
    return policy


def given(key: str = "a", **observation: Any) -> PolicyInput:
    return PolicyInput(key, 0, "carry it", {"proprio": np.array([0.5, 0.25], np.float32), **observation})


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda o: o["proprio"], [0.5, 0.25]),
        (lambda o, gain=2.0: o["proprio"] * gain, [1.0, 0.5]),
        (lambda o, instruction: np.array([len(instruction)]), [8]),
        (lambda o, instruction, fields: np.array([len(fields["proprio"])]), [2]),
        (lambda *everything: np.array([len(everything)]), [1]),
    ],
)
def test_a_function_is_given_what_it_takes(function: Any, expected: list[float]) -> None:
    (chunk,) = opened(FunctionPolicy(function)).act([given()])
    assert chunk.tolist() == [expected]


@pytest.mark.parametrize("function", [lambda: 0, lambda a, b, c, d: 0, lambda o, *, gain: 0, lambda **o: 0])
def test_a_function_of_other_arguments_is_refused(function: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"Expected a function of \(observation\), .*, got one of \("):
        FunctionPolicy(function)


def test_the_defaults_claim_nothing_and_hide_nothing() -> None:
    policy = FunctionPolicy(sighted_policy, {"cameras": ["agentview"], "image_size": 64})
    assert policy.observations == ObservationRequest(cameras=("agentview",), image_size=64)
    declared = {name: value for name, value in policy.contract.to_dict().items() if value != "n/a"}
    assert declared == {"cameras": ["agentview"], "resolution": 64}
    observed = {**policy.observed(), "cameras": ["agentview"], "resolution": 256}
    assert [line.name for line in unresolved(compare(policy.contract, observed))] == ["resolution"]
    assert FunctionPolicy(act, contract={"suite": "libero_goal"}).contract.suite == "libero_goal"
    assert FunctionPolicy(act, contract=RuntimeContract()).contract == RuntimeContract()
    with pytest.raises(UnknownNameError, match="Did you mean 'suite'"):
        FunctionPolicy(act, contract={"suit": "x"})
    with pytest.raises(UnknownNameError, match="Did you mean 'cameras'"):
        FunctionPolicy(act, {"camera": ["agentview"]})


def test_an_observation_that_was_not_asked_for_is_named() -> None:
    policy = opened(FunctionPolicy(sighted_policy))
    with pytest.raises(
        InvalidInputError, match=r"'agentview_image', which the policy looks up, got \['proprio'\]; say in"
    ):
        policy.act([given()])
    with pytest.raises(KeyError, match="own"):
        opened(FunctionPolicy(lambda o: {}["own"])).act([given()])


def test_a_function_runs_an_episode() -> None:
    env = RecordEpisode(StepBudget(gym.make("roep_gym/Tabletop-v0"), max_steps=80))
    record = run_episode(env, make_policy(sighted_policy), EpisodeIdentity("r", 0, 0, 0, 0))
    assert record.summary.reason == "success"


def test_infer_is_given_the_observation_and_the_prompt() -> None:
    client = Client()
    policy = opened(InferPolicy(client))
    (chunk,) = policy.act([given()])
    assert chunk.shape == (5, 7)
    assert sorted(client.request) == ["prompt", "proprio"]
    assert client.request["prompt"] == "carry it"
    client.infer = lambda request: {"action": 0}  # type: ignore[method-assign]
    with pytest.raises(
        InvalidInputError, match=r"Expected the entry 'actions' in what infer returns, got \['action'\]"
    ):
        opened(InferPolicy(client)).act([given()])


def test_a_preset_gives_infer_what_openpis_client_sends() -> None:
    requests: list[dict[str, Any]] = []

    class Served:
        def infer(self, request: dict[str, Any]) -> dict[str, Any]:
            requests.append(request)
            return {"actions": np.zeros((10, 7))}

    policy = adapt_policy(Served(), preset="pi05", contract={"precision": "float32"})
    assert policy.observations == ObservationRequest(("agentview", "robot0_eye_in_hand"), image_size=256)
    assert (policy.contract.runtime_bridge, policy.contract.precision) == ("n/a", "float32")
    assert policy.contract.executed_steps == 5
    suite = type("Tests", (PolicyContractTests,), {"make_policy": lambda self: policy})()
    policy.begin(suite.make_episode(0))
    policy.act([suite.make_input(policy.observations, suite.make_episode(0), 0)])
    shapes = {key: value.shape for key, value in requests[0].items() if key != "prompt"}
    assert shapes == {
        "observation/image": (224, 224, 3),
        "observation/wrist_image": (224, 224, 3),
        "observation/state": (8,),
    }
    declared = policy.contract.to_dict()
    assert dict(policy.observed()) == {name: declared[name] for name in policy.observed()}
    assert {"rotation", "resize", "proprio_layout"} <= set(policy.observed())
    with pytest.raises(UnknownNameError, match="Did you mean 'pi05'"):
        adapt_policy(Served(), preset="pi05_libero")


def test_an_object_that_remembers_keeps_one_episode_at_a_time() -> None:
    policy = opened(adapt_policy(Counting()))
    assert [policy.act([given()])[0][0, 0] for _ in range(2)] == [0.01, 0.02]
    opened(policy, "b")
    assert policy.act([given("b")])[0][0, 0] == 0.01
    with pytest.raises(
        InvalidInputError, match=r"Expected a decision of \['b'\], got one of 'a': an object with reset\(\)"
    ):
        policy.act([given("a")])


def test_a_name_leads_to_a_factory_a_function_or_an_object() -> None:
    for place, arguments, first in (
        (f"{__name__}:act", {}, 0.5),
        (f"{__name__}:make", {"scale": 2.0}, 1.0),
        (f"{__name__}:THING", {}, 0.5),
        (f"{__name__}:Client", {}, 0.5),
    ):
        (chunk,) = opened(make_policy(place, **arguments)).act([given()])
        assert chunk[0, 0] == first
    policy = make_policy(f"{__name__}:act", observations={"cameras": ["agentview"]})
    assert policy.observations.cameras == ("agentview",)
    assert isinstance(make_policy(f"{__name__}:Model"), ModelPolicy)


def test_an_object_is_taken_as_it_is() -> None:
    policy = FunctionPolicy(act)
    assert make_policy(policy) is policy
    assert adapt_policy(policy) is policy
    assert isinstance(make_policy(Client), InferPolicy)


def test_a_function_with_its_observations_is_evaluated(tmp_path: Path) -> None:
    model = {
        "name": "mine",
        "policy": sighted_policy,
        "arguments": {"observations": {"cameras": ["agentview"], "image_size": 64}},
    }
    plan = {"name": "p", "models": [model], "tasks": ["tabletop/carry"], "conditions": ["baseline"]}
    run = evaluate({**plan, "seed_groups": 1, "episodes": 2, "step_budget": 80}, tmp_path / "run")
    assert (run.aborts, run.data.success.mean()) == ((), 1.0)


@pytest.mark.parametrize(
    ("policy", "arguments", "message"),
    [
        (f"{__name__}:broken", {}, "to be built, got SystemExit: 3."),
        (f"{__name__}:make", {"skale": 1}, "Expected arguments that fit the policy"),
        (f"{__name__}:NUMBER", {}, "Expected a policy, an object with infer"),
        (3, {}, "got 3, which lacks contract, observations, observed, begin, act, end, close."),
        (act, {"image_size": 3}, "Expected arguments that fit the policy 'function'"),
        (FunctionPolicy(act), {"scale": 1}, "Expected arguments that fit the policy 'FunctionPolicy'"),
    ],
)
def test_what_is_no_policy_is_one_sentence(policy: Any, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        make_policy(policy, **arguments)
