"""The seam of suites: its contract finds planted faults, and a suite of a third party is evaluated."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from point_suite import PointSuite

from roep_gym.cli import main as cli
from roep_gym.error import InvalidInputError, UnknownNameError
from roep_gym.evaluate import load_run
from roep_gym.evaluate.plan import plan_from_mapping, resolve
from roep_gym.suites import SUITES, Suite, SuiteContractTests, find_suite, find_tasks, registry

TESTS = Path(__file__).parent


class TestTabletop(SuiteContractTests):
    settings: ClassVar[Mapping[str, Any]] = {"image_size": 16, "depth": True, "object_state": True}
    limit_episodes = 2

    def make_suite(self) -> Suite:
        return find_suite("tabletop")


@pytest.mark.libero
class TestLibero(SuiteContractTests):
    settings: ClassVar[Mapping[str, Any]] = {"cameras": [], "object_state": True}
    task = "goal_stove"
    steps = 4
    limit_episodes = 1

    def make_suite(self) -> Suite:
        return find_suite("libero_goal")


class TestPoint(SuiteContractTests):
    settings: ClassVar[Mapping[str, Any]] = {"control_mode": "relative"}

    def make_suite(self) -> Suite:
        return PointSuite()


_RESET = "test_a_reset_is_a_function_of_scene_seed_and_initial_state"
_INFO = "test_info_says_what_an_evaluation_needs"


@pytest.mark.parametrize(
    ("fault", "test"),
    [
        ("leak of history", _RESET),
        ("leak of dynamics", _RESET),
        ("unseeded reset", _RESET),
        ("global stream", _RESET),
        ("seed of reset", _RESET),
        ("no sampled states", _RESET),
        ("hidden limit", "test_no_step_limit_is_hidden"),
        ("hidden end", "test_no_step_limit_is_hidden"),
        ("constant hash", "test_equal_scene_hashes_mean_equal_scenes"),
        ("wrong shape", "test_spaces_hold_what_comes"),
        ("wrong dtype", "test_spaces_hold_what_comes"),
        ("no success", _INFO),
        ("no hash", _INFO),
        ("no instruction", _INFO),
        ("other instruction", _INFO),
        ("unknown channel", _INFO),
    ],
)
def test_the_contract_finds_a_fault_of_an_environment(fault: str, test: str) -> None:
    contract = TestPoint()
    getattr(contract, test)()
    suite = PointSuite()
    suite.fault = fault
    contract.make_suite = lambda: suite  # type: ignore[method-assign]
    with pytest.raises((AssertionError, KeyError, ValueError)):
        getattr(contract, test)()


@pytest.mark.parametrize(
    ("member", "value", "test"),
    [
        ("name", "a/b", "test_is_a_suite"),
        ("step_budget", 0, "test_is_a_suite"),
        ("settings", ("wind",), "test_is_a_suite"),
        ("settings", ("image_size",), "test_is_a_suite"),
        ("unsafe_channels", ("volcano",), "test_is_a_suite"),
        ("shield_fields", lambda task: ("z",), "test_shield_fields_name_entries_of_proprio"),
        ("tasks", lambda: PointSuite().tasks()[:1] * 2, "test_tasks_are_named_once_and_stay"),
        ("tasks", list, "test_tasks_are_named_once_and_stay"),
    ],
)
def test_the_contract_finds_a_fault_of_a_suite(member: str, value: Any, test: str) -> None:
    contract, suite = TestPoint(), PointSuite()
    setattr(suite, member, value)
    contract.make_suite = lambda: suite  # type: ignore[method-assign]
    with pytest.raises((AssertionError, TypeError)):
        getattr(contract, test)()


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path as an installed package leaves it: its entry points are found in this process and others."""
    site = tmp_path / "site"
    metadata = site / "point_robots-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: point-robots\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[roep_gym.suites]\npoint = point_suite:PointSuite\nbroken = point_suite:missing\n"
        "misnamed = point_suite:PointSuite\nlacking = point_suite:FIELDS\n"
    )
    monkeypatch.syspath_prepend(str(site))
    registry._built.cache_clear()
    return site


@pytest.mark.parametrize("task", ["point/push", "point_suite:PointSuite/push the point"])
def test_a_suite_of_a_third_party_is_evaluated_recorded_and_judged(
    installed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], task: str
) -> None:
    out = tmp_path / "run"
    arguments = [
        "--policy",
        "point_suite:point_policy",
        "--task",
        task,
        "--seed-groups",
        "2",
        "--episodes",
        "2",
    ]
    assert cli.main(["evaluate", *arguments, "--workers", "2", "--out", str(out)]) == 0
    data = load_run(out)
    baseline = data.sel(condition="baseline")
    assert (set(baseline["suite"].values), set(baseline["task"].values)) == ({"point"}, {"push"})
    assert float(baseline.success.mean()) == 1.0
    assert len(set(baseline["scene_hash"].values)) == baseline.sizes["episode"] == 4
    assert json.loads(data.attrs["provenance"])["plan"]["suite_step_budgets"] == {"point": 40}
    assert cli.main(["gate", str(out)]) == 0
    verdicts = json.loads((out / "verdicts.json").read_text())
    assert "Insufficient evidence" in json.dumps(verdicts)
    assert "point" in capsys.readouterr().out


def test_an_installed_suite_is_listed(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tasks", "--suite", "point"]) == 0
    assert "point  push  shove        push the point  8" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("poimt/push", "Unknown suite 'poimt'."),
        ("point/pish", "Unknown task of point 'pish'. Did you mean 'push'"),
        ("broken", "Expected a suite at 'point_suite:missing', got"),
        ("misnamed", "Expected the suite that is registered as 'misnamed' to have this name, got 'point'"),
        ("lacking", "Expected 'lacking' to give a suite, but its result lacks"),
        ("point_suite:Pointsuite/push", "Expected a suite at 'point_suite:Pointsuite', got"),
        ("no_such_module:SUITE/push", "Expected a suite at 'no_such_module:SUITE', got"),
    ],
)
def test_a_suite_that_cannot_be_used_is_one_sentence(installed: Path, text: str, message: str) -> None:
    points = dict(SUITES._entry_points())  # one that cannot be loaded must not hide the names of the others
    assert {"point", "broken"} <= set(points)
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        find_tasks(text)


def test_names_of_tasks_and_suites() -> None:
    assert [named.task.name for named in find_tasks("tabletop")] == ["carry", "reach"]
    (named,) = find_tasks("tabletop/Reach the red disc.")
    assert (named.suite.name, named.source, named.task.name) == ("tabletop", "tabletop", "reach")
    with pytest.raises(UnknownNameError, match=r"Unknown task of tabletop 'rech'\. Did you mean 'reach'"):
        find_tasks("tabletop/rech")
    with pytest.raises(UnknownNameError, match=r"Unknown suite 'tabeltop'\. Did you mean 'tabletop'"):
        find_tasks("tabeltop/reach")


def test_every_suite_of_libero_goes_through_the_registry() -> None:
    for text in ("goal_stove", "libero_goal/turn_on_the_stove", "libero_goal/Turn on the stove."):
        (named,) = find_tasks(text)
        assert (named.suite.name, named.task.name, named.task.init_states) == (
            "libero_goal",
            "goal_stove",
            50,
        )
    assert len(find_tasks("libero_10")) == 10
    (named,) = find_tasks("libero_goal_swap/turn_on_the_stove")
    assert (named.suite.name, named.task.name) == ("libero_goal_swap", "turn_on_the_stove")


def _plan(task: str, **changes: Any) -> Any:
    return resolve(
        plan_from_mapping({"models": [{"name": "m", "policy": "random"}], "tasks": [task], **changes})
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"environment": {"placement_shift": 0.03}}, "Expected no placement_shift for tasks of tabletop"),
        (
            {"environment": {"safety_limits": {"drop_speed": 1.0}}},
            "Expected no safety_limits for tasks of tabletop",
        ),
        (
            {"environment": {"unsafe_channels": ["workspace"]}},
            "Expected no unsafe_channels for tasks of tabletop",
        ),
        (
            {"shield": {"fields": ["joint_pos_0"]}},
            "Unknown entry that a shield may read on tabletop 'joint_pos_0'",
        ),
        (
            {"shield": {"fields": ["disc_pos_x"]}},
            "Unknown entry that a shield may read on tabletop 'disc_pos_x'",
        ),
        ({"seed_groups": 6}, "Expected at most 50 episodes a condition"),
    ],
)
def test_what_a_suite_does_not_have_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        _plan("tabletop/carry", **changes)


def test_the_step_budget_is_the_plans_then_the_suites() -> None:
    task = "point_suite:PointSuite/push"
    few = {"seed_groups": 1, "episodes": 2}
    assert _plan(task, **few).rows[0].step_budget == 40
    assert _plan(task, **few, step_budget=9).rows[0].step_budget == 9
    assert _plan(task, **few, suite_step_budgets={"point": 7}).rows[0].step_budget == 7
    explicit, silent = _plan("tabletop/carry", step_budget=280), _plan("tabletop/carry")
    assert silent.digest == explicit.digest
    stored = plan_from_mapping(json.loads(_plan(task, **few).plan.to_json()))
    assert resolve(stored).digest == _plan(task, **few).digest


def test_resolving_a_plan_of_libero_does_not_load_gymnasium() -> None:
    script = (
        "import sys; from roep_gym.evaluate.plan import plan_from_mapping, resolve; "
        "resolve(plan_from_mapping({'models': [{'name': 'm', 'policy': 'random'}], 'tasks': ['libero_goal']})); "
        "sys.exit('gymnasium' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_no_suite_is_named_outside_its_module() -> None:
    root = TESTS.parent
    files = [
        p
        for folder in ("evaluate", "roep_gym/cli", "roep_gym/training", "wrappers")
        for p in (root / folder).rglob("*.py")
    ]
    named = [str(p.relative_to(root)) for p in files if re.search(r"""["']tabletop["']""", p.read_text())]
    assert named == []


def test_an_environment_without_success_is_an_error_and_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    status = cli.main(
        ["evaluate", "--policy", "point_suite:point_policy", "--task", "point_suite:SUCCESSLESS/push", "--quick",
         "--seed-groups", "1", "--episodes", "1", "--workers", "1", "--out", str(out)]
    )  # fmt: skip
    assert status == 1
    output = " ".join(capsys.readouterr().out.split())
    assert "Expected info['is_success'] from step() of PointEnv (point/push)" in output
    assert "0 episodes recorded" in output


@pytest.mark.parametrize(
    ("environment", "request_", "message"),
    [
        ({"image_size": 64}, {"cameras": ("agentview",), "image_size": 256},
         "'agentview_image' of 256 x 256 pixels, which the policy looks at, got it in the shape (64, 64, 3)"),
        ({"cameras": []}, {"cameras": ("agentview",), "image_size": 64},
         "'agentview_image' of 64 x 64 pixels, which the policy looks at, got only proprio"),
        ({"depth": False}, {"cameras": ("agentview",), "image_size": 64, "depth": True},
         "'agentview_depth' of 64 x 64 pixels, which the policy looks at, got only agentview_image, proprio"),
        ({}, {"object_state": True}, "'object_state', which the policy looks at, got only agentview_image, proprio"),
    ],
)  # fmt: skip
def test_an_environment_that_does_not_match_the_policy_is_refused(
    environment: dict[str, Any], request_: dict[str, Any], message: str
) -> None:
    import gymnasium as gym

    from roep_gym.episode import EpisodeIdentity
    from roep_gym.evaluate.run.rollout import run_episode
    from roep_gym.policies import FunctionPolicy, ObservationRequest
    from roep_gym.wrappers import RecordEpisode, StepBudget

    env = RecordEpisode(StepBudget(gym.make("roep_gym/Tabletop-v0", **environment), max_steps=2))
    policy = FunctionPolicy(lambda observation: env.action_space.sample(), ObservationRequest(**request_))
    with pytest.raises(InvalidInputError, match=re.escape(f"Expected observations with {message}")):
        run_episode(env, policy, EpisodeIdentity("run", 0, 0, 0, 0))
