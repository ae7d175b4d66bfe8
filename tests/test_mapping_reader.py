"""Plans and configurations are read from mappings in one way, and what JSON cannot store exactly is refused."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roep_gym.error import InvalidInputError, RoepError
from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.plan import EvaluationPlan, ModelSpec, plan_from_mapping, resolve
from roep_gym.evaluate.run.environment_stack import check_runnable
from roep_gym.mapping_reader import read_json_value, read_mapping
from roep_gym.shields import ShieldConfig
from roep_gym.training.config import TrainingConfig
from roep_gym.training.environment import make_env

PLAN: Mapping[str, Any] = {
    "name": "p",
    "models": [{"name": "m", "policy": "random", "arguments": {"a": {"b": [1, 2.5, None, True, "x"]}}}],
    "tasks": ["tabletop/carry"],
    "conditions": ["main"],
    "seed_groups": 2,
    "episodes": 3,
    "suite_step_budgets": {"tabletop": 50},
    "environment": {"cameras": ["agentview"], "image_size": 16, "safety_limits": {"contact_force": 3.5}},
    "shield": {"prefix_support": 3, "hidden_sizes": [4], "projection": {"scale": 0.25, "vertical": None}},
    "frames": "looked",
}
TRAINING: Mapping[str, Any] = {
    "environment": {
        "env_id": "roep_gym/Tabletop-v0",
        "arguments": {"task": "reach"},
        "profile": "strong",
        "severity": {"uniform": [0, 1]},
        "observation_keys": ["proprio"],
    },
    "hyperparameters": {"n_steps": 8, "policy_kwargs": {"net_arch": [4]}},
    "eval_environment": {"profile": None},
    "total_timesteps": 64,
}
GATE: Mapping[str, Any] = GateConfig().to_dict()
SHIELD: Mapping[str, Any] = ShieldConfig().to_dict()
READERS = {
    "plan": (EvaluationPlan, PLAN),
    "training": (TrainingConfig, TRAINING),
    "gate": (GateConfig, GATE),
    "shield": (ShieldConfig, SHIELD),
}
CYCLE: list[Any] = []
CYCLE.append(CYCLE)


def model_with(**arguments: Any) -> dict[str, Any]:
    return {**PLAN, "models": [{"name": "m", "policy": "random", "arguments": arguments}]}


def test_a_plan_comes_back_from_its_file_as_it_was() -> None:
    plan = plan_from_mapping(PLAN)
    assert plan_from_mapping(json.loads(plan.to_json())) == plan
    assert plan.environment.cameras == ("agentview",)
    assert plan.shield.projection.vertical is None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({1: "a"}, "the keys of plan.models[0].arguments.x to be text, got 1"),
        ({"y": [math.nan]}, "plan.models[0].arguments.x.y[0] to be a finite number, got nan"),
        (math.inf, "plan.models[0].arguments.x to be a finite number, got inf"),
        ((1, 2), "got tuple (1, 2); write a tuple as a list"),
        ({1, 2}, "got set {1, 2}"),
        (b"x", "got bytes b'x'"),
        (datetime.date(2026, 1, 1), "put quotes around what YAML takes for something else, such as a date"),
        (2**63, "to be an integer of at most 64 bits, got 9223372036854775808"),
        (1 << 100_000, "got an integer of 100001 bits"),
        ("\ud800", "to be text that UTF-8 can store"),
        ("a\0b", "to be text without null characters"),
        (object(), "to be text, a number, true, false, null, a list or a mapping, got object"),
        (CYCLE, "to be nested at most 32 levels deep"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_argument_that_a_plan_cannot_store_exactly_is_refused(value: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        plan_from_mapping(model_with(x=value))
    with pytest.raises(InvalidInputError):
        EvaluationPlan(models=(ModelSpec("m", "random", {"x": value}),))


def test_numbers_of_numpy_are_stored_as_those_of_python() -> None:
    values = read_json_value([np.int64(3), np.float32(0.5), np.float64(0.1)], "x")
    assert [(type(v), v) for v in values] == [(int, 3), (float, 0.5), (float, 0.1)]
    assert EvaluationPlan(models=(ModelSpec("m", "random"),), episodes=np.int64(3)).to_json()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shield": {"projection": {"scael": 1}}}, "Unknown field of plan.shield.projection 'scael'. Did you mean"),
        ({"shield": {"alpha": "x"}}, "Expected plan.shield.alpha to be a number, got 'x'."),
        ({"shield": {"prefix_support": None}}, "plan.shield.prefix_support to be one of 'all', 'none' or an integer"),
        ({"environment": {"depth": 1}}, "Expected plan.environment.depth to be true or false, got 1."),
        ({"environment": {"placement_shift": math.nan}}, "plan.environment.placement_shift to be a finite number"),
        ({"environment": {"safety_limits": {"contact_force": "x"}}}, "safety_limits.contact_force to be a number"),
        ({"environment": []}, "Expected plan.environment to be a mapping, got []."),
        ({"models": {}}, "Expected plan.models to be a list, got {}."),
        ({"models": [3]}, "Expected plan.models[0] to be a mapping, got 3."),
        ({"seed_groups": True}, "Expected plan.seed_groups to be an integer, got True."),
        ({"suite_step_budgets": {"tabletop": 1.5}}, "plan.suite_step_budgets.tabletop to be an integer, got 1.5."),
        ({3: 1}, "Expected the keys of plan to be text, got 3"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_with_its_path(change: dict[Any, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        plan_from_mapping({**PLAN, **change})


def test_a_large_value_makes_a_short_message() -> None:
    with pytest.raises(InvalidInputError) as refused:
        plan_from_mapping({**PLAN, "seed_groups": "x" * 10_000_000})
    assert len(str(refused.value)) < 1000
    with pytest.raises(InvalidInputError) as refused:
        plan_from_mapping({**PLAN, "x" * 1_000_000: 1})
    assert len(str(refused.value)) < 2000


BAD = st.sampled_from(
    [None, True, -1, 0, 10**30, 1.5, math.nan, math.inf, "", "x", "a/b", "\0", "\ud800", b"x", [], [[]], {}, {1: 2},
     ":", "os:sep", "x:y", 10**18, {"a": {"b": None}}, (1,), {2}, datetime.date(2026, 1, 1), "é" * 1000, CYCLE]
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    entries = (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    )
    return [path, *(place for key, entry in entries for place in places(entry, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    if not path:
        return by
    changed = dict(value) if isinstance(value, Mapping) else list(value)
    changed[path[0]] = replaced(value[path[0]], path[1:], by)
    return changed


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_whatever_a_file_holds_is_read_or_refused_in_a_sentence(name: str, data: Any) -> None:
    target, source = READERS[name]
    mutated = replaced(source, data.draw(st.sampled_from(places(source))), data.draw(BAD))
    refused = ""
    try:
        made: Any = read_mapping(target, mutated, name)
        if isinstance(made, EvaluationPlan):
            assert plan_from_mapping(json.loads(made.to_json())) == made
            check_runnable(resolve(made))
        if isinstance(made, TrainingConfig):
            make_env(made.environment).close()
    except RoepError as error:
        refused = str(error)
    assert len(refused) < 5000
