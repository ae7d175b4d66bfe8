"""Whole evaluations on the Tabletop environment: resume, kills, faults of policies, workers, what the files hold."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import evaluation_policies
import numpy as np
import pytest
import xarray as xr
from evaluation_runs import SHIELD, command_of, equal, importable_policies, make_plan, recorded, start  # noqa: F401

from roep_gym.episode import scene_seed
from roep_gym.error import InvalidInputError, RecordConflictError, RoepError
from roep_gym.evaluate.comparison.comparison import compare
from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.judging.gate import judge
from roep_gym.evaluate.plan import (
    PlannedEpisode,
    ResolvedPlan,
    Row,
    check_bootstrap_scenes,
)
from roep_gym.evaluate.run import local_executor
from roep_gym.evaluate.run.driver import SilentObserver, evaluate
from roep_gym.evaluate.run.environment_stack import check_runnable, make_environment
from roep_gym.evaluate.run.in_process_executor import InProcessExecutor
from roep_gym.evaluate.run.local_executor import LocalExecutor
from roep_gym.evaluate.run.work import WorkResult
from roep_gym.evaluate.schema import CONDITIONS, NOT_RUN, REASONS
from roep_gym.evaluate.store.dataset import write_run
from roep_gym.evaluate.store.flat_tables import EPISODES, ROWS, read_tables
from roep_gym.evaluate.store.journal import Journal
from roep_gym.evaluate.store.packed_record import pack_record
from roep_gym.evaluate.store.run_directory import RunDirectory
from roep_gym.evaluate.store.storage import load_dataset
from roep_gym.fingerprint import versions
from roep_gym.shields import Shield
from roep_gym.wrappers.profiles import PROFILES, OperatorSetting, Profile

TESTS = Path(__file__).parent


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    summary = evaluate(make_plan(), out, InProcessExecutor)
    assert (summary.recorded, summary.incomplete, summary.unavailable, summary.aborts) == (48, (), 0, ())
    return out


def test_every_planned_episode_is_recorded_with_its_key(whole_run: Path) -> None:
    data = load_dataset(RunDirectory(whole_run).dataset)
    assert data.sizes["episode"] == 48
    assert (data["success"] != NOT_RUN).all()
    assert data["shield_status"].values.tolist() == ["trained"]
    for name in ("scene_hash", "init_state", "env_seed"):
        values = data[name].values.reshape(8, 6)
        bootstrap = np.array([CONDITIONS[c].role == "bootstrap" for c in data["condition"].values])
        for group in (values[bootstrap], values[~bootstrap]):
            assert (group == group[0]).all(), f"{name} is equal in all conditions of a pair"
        assert not set(values[bootstrap].ravel()) & set(values[~bootstrap].ravel()), (
            f"{name} of the bootstrap"
        )
    assert len(set(data["run_id"].values.ravel())) == 8
    timeouts = data["reason"] == REASONS.index("timeout")
    assert timeouts.any()
    assert (data["steps"].values[timeouts.values] == 60).all()
    actions = load_dataset(RunDirectory(whole_run).steps / "0000-baseline.nc")["proposed_action"].values
    np.testing.assert_allclose(data["clean_action_variance"].values[0], actions.astype(float).var(axis=0))
    provenance = json.loads(data.attrs["provenance"])
    assert provenance["plan"]["name"] == "test"
    assert set(provenance["fingerprints"]) == {str(v) for v in set(data["fingerprint"].values.tolist())}


def test_the_parameters_of_a_profile_belong_to_plan_dataset_and_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"conditions": ["baseline", "perturb"], "seed_groups": 1}
    plan = make_plan(**changes)
    evaluate(plan, tmp_path / "run", InProcessExecutor)
    data = load_dataset(RunDirectory(tmp_path / "run").dataset)
    profiles = json.loads(data.attrs["provenance"])["profiles"]
    assert profiles == {name: PROFILES[name].to_spec() for name in ("clean", "medium")}
    with closing(Journal(RunDirectory(tmp_path / "run").journal, plan.digest)) as journal:
        for planned, record in journal.records():
            assert record.attributes.profile == profiles[CONDITIONS[planned.condition].profile]
    other = Profile("medium", (OperatorSetting("rgb_occlusion", 0.4), OperatorSetting("depth_dropout", 0.2)))
    monkeypatch.setattr("roep_gym.wrappers.profiles.PROFILES", {**PROFILES, "medium": other})
    changed = make_plan(**changes)
    assert changed.plan == plan.plan
    assert changed.digest != plan.digest
    with pytest.raises(InvalidInputError, match="got that of another plan"):
        evaluate(changed, tmp_path / "run", InProcessExecutor)
    evaluate(changed, tmp_path / "other", InProcessExecutor)
    with pytest.raises(InvalidInputError, match=r'profiles differ: .*"alpha": 0\.3.* and .*"alpha": 0\.4'):
        compare(data, load_dataset(RunDirectory(tmp_path / "other").dataset))


def test_repeating_a_declaration_observes_nothing_that_the_evaluation_measures(tmp_path: Path) -> None:
    models = [{"name": "repeater", "policy": "evaluation_policies:Repeater"}]
    environment = {"cameras": ["agentview"], "image_size": 32, "control_mode": "relative", "settle_steps": 10}
    plan = make_plan(
        models=models, environment=environment, conditions=["baseline"], seed_groups=1, episodes=1
    )
    evaluate(plan, tmp_path / "run", InProcessExecutor)
    data = load_dataset(RunDirectory(tmp_path / "run").dataset)
    ran = {line["name"]: line["observed"] for line in json.loads(data["contract"].item())}
    wrong = {line["name"] for line in json.loads(data["contract"].item()) if line["verdict"] != "match"}
    measured = {
        "cameras": ["agentview"],
        "resolution": 32,
        "control_mode": "relative",
        "gripper_sign": "-1 open, +1 close",
        "eef_orientation": "axis_angle",
        "chunk_length": 1,
        "executed_steps": 1,
        "settle_steps": 10,
        "suite": "tabletop",
        "mujoco": versions().get("mujoco"),
        "robosuite": versions().get("robosuite"),
    }
    assert {name: ran[name] for name in measured} == measured
    assert wrong == set(measured)
    assert data["contract_status"].item() == "mismatch"


def test_hundreds_of_aborted_attempts_of_one_episode_are_counted(tmp_path: Path) -> None:
    plan, run = make_plan(), RunDirectory(tmp_path / "run")
    with run.open(plan), closing(Journal(run.journal, plan.digest)) as journal:
        for _ in range(200):
            journal.add_abort(next(plan.episodes()), "it broke", "here")
        write_run(run, plan, journal)
    for data in (load_dataset(run.dataset), read_tables(run.root / EPISODES, run.root / ROWS)):
        assert data["aborts"].values.max() == data["aborts"].values.sum() == 200


def test_a_policy_without_images_gets_no_claim_of_a_perturbed_condition(tmp_path: Path) -> None:
    policy = {"name": "state", "policy": "evaluation_policies:StateOnly", "arguments": {"failure_rate": 0.5}}
    evaluate(make_plan(models=[policy], episodes=4), tmp_path, InProcessExecutor)
    data = load_dataset(RunDirectory(tmp_path).dataset)
    assert (data["frames_perturbed"] == 0).all()
    verdicts = judge(data, GateConfig(seed_groups=3, episodes_per_group=4, min_paired_support=1)).verdicts
    assert verdicts["limiting_factor"].values.tolist() == ["Perturbation did not reach the policy"]
    assert verdicts["claim_status"].values.tolist() == ["Insufficient evidence"]


def test_bootstrap_and_evaluated_scenes_are_disjoint(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan(seed_groups=5, episodes=10)
    check_bootstrap_scenes(plan)
    evaluated = {
        (p.seed_group, p.episode): plan.identity(p) for p in plan.episodes() if p.condition == "baseline"
    }
    for planned in plan.episodes():
        identity, twin = plan.identity(planned), evaluated[planned.seed_group, planned.episode]
        same = (identity.init_state, identity.scene_seed) == (twin.init_state, twin.scene_seed)
        assert same is not planned.condition.startswith("bootstrap")
    monkeypatch.setattr("roep_gym.evaluate.plan.bootstrap_scene_seed", scene_seed)
    monkeypatch.setattr("roep_gym.evaluate.plan.SAMPLED", 7)
    with pytest.raises(
        InvalidInputError, match=re.escape("in 'noisy/tabletop/carry', got 1 that are also evaluated")
    ):
        check_runnable(plan)


def test_a_refusal_ends_the_episode_where_the_plan_says_so(tmp_path: Path) -> None:
    # A threshold that most steps reach, and no reduction of the risk that would be enough.
    shield = {**SHIELD, "alpha": 0.9, "projection": {"min_risk_reduction": 1.0}}
    reasons = {}
    for terminate in (False, True):
        plan = make_plan(shield={**shield, "terminate_on_refusal": terminate})
        evaluate(plan, tmp_path / str(terminate), InProcessExecutor)
        data = load_dataset(RunDirectory(tmp_path / str(terminate)).dataset)
        full = data["condition_index"].values == data["condition"].values.tolist().index("full")
        assert (data["refusals"].values[full] > 0).any()
        reasons[terminate] = {REASONS[code] for code in data["reason"].values[full]}
    assert "safe_refusal" not in reasons[False]
    assert "safe_refusal" in reasons[True]


@pytest.mark.parametrize(
    ("mode", "shield", "message"),
    [
        (
            "relative",
            {"projection": {"action_low": -2.0}},
            "Expected the action bounds [-2.0, 1.0] of this shield",
        ),
        (
            "relative",
            {"projection": {"gripper": [7]}},
            "Expected distinct projection indices below the action size 7",
        ),
        ("joint", {}, "Expected a shield for one of the control modes ['relative', 'absolute'], got 'joint'"),
        ("absolute", {"projection": {"position_fields": ["a", "b", "c"]}}, "Unknown observation field 'a'"),
        ("absolute", {}, ""),
    ],
)
def test_a_plan_whose_shield_cannot_fit_is_refused_before_it_runs(
    monkeypatch: pytest.MonkeyPatch, mode: str, shield: dict[str, Any], message: str
) -> None:
    def make(row: Row, arguments: dict[str, Any]) -> Any:
        env = make_environment(row, arguments)
        env.unwrapped.control_mode = mode
        return env

    monkeypatch.setattr("roep_gym.evaluate.run.environment_stack.make_environment", make)
    check_runnable(make_plan(shield=shield, conditions=["baseline"]))
    if not message:
        check_runnable(make_plan(shield=shield))
        return
    with pytest.raises(InvalidInputError) as caught:
        check_runnable(make_plan(shield=shield))
    assert message in str(caught.value)
    assert str(caught.value).startswith(
        "Expected an environment that a shield fits for the shielded conditions of 'noisy/tabletop/carry', got: "
    )


def test_clones_are_executions_of_their_own(whole_run: Path) -> None:
    steps = RunDirectory(whole_run).steps
    first, clone = (load_dataset(steps / f"0000-{name}.nc") for name in ("perturb", "perturb_clone"))
    size = min(first.sizes["step"], clone.sizes["step"])
    assert (first["patch"].values[:size] != clone["patch"].values[:size]).any()


def test_shielded_steps_hold_the_shield_tuple(whole_run: Path) -> None:
    data = load_dataset(RunDirectory(whole_run).dataset)
    steps = load_dataset(RunDirectory(whole_run).steps / "0000-full.nc")
    assert np.isfinite(steps["risk"]).all()
    crossing = steps["risk"].values >= data["shield_tau"].values[0]
    np.testing.assert_array_equal(steps["intervened"].values == 1, crossing)
    untouched = ~crossing
    np.testing.assert_array_equal(
        steps["proposed_action"].values[untouched], steps["executed_action"].values[untouched]
    )
    unshielded = load_dataset(RunDirectory(whole_run).steps / "0000-perturb.nc")
    assert np.isnan(unshielded["risk"]).all()


class KilledExecutor(InProcessExecutor):
    """After a number of results it fails as a killed driver does."""

    def __init__(self, plan: ResolvedPlan, results: int) -> None:
        super().__init__(plan)
        self._left = results

    def wait(self, timeout: float) -> list[WorkResult]:
        if self._left == 0:
            raise KeyboardInterrupt
        self._left -= 1
        return super().wait(timeout)


def test_an_interrupted_run_continues_to_the_same_result(whole_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    for stop_after in (5, 20, 9):
        with pytest.raises(KeyboardInterrupt):
            evaluate(make_plan(), out, lambda plan, n=stop_after: KilledExecutor(plan, n))
        partial = load_dataset(RunDirectory(out).dataset)
        assert (partial["success"] == NOT_RUN).any()
        assert partial["success"].values[partial["steps"].values == NOT_RUN].tolist() == [NOT_RUN] * int(
            (partial["steps"] == NOT_RUN).sum()
        )
    shield = next(RunDirectory(out).shields.glob("*.npz")).stat().st_mtime_ns
    evaluate(make_plan(), out, InProcessExecutor)
    assert next(RunDirectory(out).shields.glob("*.npz")).stat().st_mtime_ns == shield, "never trained twice"
    equal(out, whole_run)


@pytest.mark.parametrize("workers", [1, 3])
def test_worker_processes_give_the_same_result(whole_run: Path, tmp_path: Path, workers: int) -> None:
    evaluate(make_plan(), tmp_path / "run", lambda plan: LocalExecutor(plan, workers))
    equal(tmp_path / "run", whole_run)


def test_a_killed_worker_costs_one_attempt_and_nothing_else(whole_run: Path, tmp_path: Path) -> None:
    executors: list[LocalExecutor] = []

    class KillOnce(SilentObserver):
        done = 0

        def recorded(self, planned: PlannedEpisode, reason: str, steps: int) -> None:
            self.done += 1
            if self.done == 7:
                os.kill(executors[0].process_ids[-1], signal.SIGKILL)

    def make(plan: ResolvedPlan) -> LocalExecutor:
        executors.append(LocalExecutor(plan, 2))
        return executors[0]

    summary = evaluate(make_plan(), tmp_path / "run", make, KillOnce())
    assert summary.recorded == 48
    assert len(summary.aborts) <= 1  # none when the worker was idle at that moment
    equal(tmp_path / "run", whole_run)


def test_a_killed_driver_loses_nothing_that_was_recorded(whole_run: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = command_of(make_plan(), tmp_path, "--workers", "2")
    process = start(command, out, 10, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    process.kill()
    process.wait()
    before = recorded(out)
    assert 10 <= before < 48
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"Continuing: {before} of 48 episodes are recorded." in " ".join(done.stdout.split())
    equal(out, whole_run)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [(fault, "invalid_execution") for fault in ("nan", "shape", "text", "axes", "digits")],
)
def test_a_malformed_answer_is_the_policys_failure(tmp_path: Path, fault: str, reason: str) -> None:
    plan = make_plan(arguments={"fault": fault}, conditions=["baseline"])
    summary = evaluate(plan, tmp_path / "run", InProcessExecutor)
    assert (summary.recorded, summary.incomplete, summary.aborts) == (6, (), ())
    data = load_dataset(RunDirectory(tmp_path / "run").dataset)
    reasons = [REASONS[code] for code in data["reason"].values]
    assert reasons == ["success", reason, *["success"] * 4]
    assert data["nonfinite_actions"].values.tolist() == [0, 1, 0, 0, 0, 0]


def test_an_exception_is_an_abort_that_is_retried_and_the_rest_goes_on(tmp_path: Path) -> None:
    told: list[tuple[PlannedEpisode, str, bool]] = []

    class Listen(SilentObserver):
        def aborted(self, planned: PlannedEpisode, cause: str, retried: bool) -> None:
            told.append((planned, cause, retried))

    plan = make_plan(arguments={"fault": "raise"}, conditions=["baseline"])
    summary = evaluate(plan, tmp_path / "run", InProcessExecutor, Listen())
    episode = PlannedEpisode(0, "baseline", 0, 1)
    assert summary.incomplete == (episode,)
    assert told == [
        (episode, "RuntimeError: the network fell over.", retried) for retried in (True, True, False)
    ]
    data = load_dataset(RunDirectory(tmp_path / "run").dataset)
    assert data["success"].values.tolist() == [1, NOT_RUN, 1, 1, 1, 1]
    assert data["aborts"].values.tolist() == [0, 3, 0, 0, 0, 0]


def test_a_broken_shield_is_an_abort_and_never_an_outcome_of_the_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shield that answers with NaN in one episode, and raises once in another, costs attempts alone."""
    sound, asked = Shield.assess, list[str]()

    def assess(self: Shield, low: Any, action: Any) -> Any:
        answer = sound(self, low, action)
        asked.append("")
        if len(asked) == 1:
            raise ZeroDivisionError("once")
        return answer

    plan = make_plan(conditions=["bootstrap_clean", "bootstrap_perturb", "full"])
    intact = evaluate(plan, tmp_path / "intact", InProcessExecutor)
    monkeypatch.setattr(Shield, "assess", assess)
    summary = evaluate(plan, tmp_path / "run", InProcessExecutor)
    assert (summary.recorded, summary.incomplete) == (intact.recorded, ())
    assert [abort.cause for abort in summary.aborts] == [
        f"Expected the shield {str(next((tmp_path / 'run').rglob('*.npz')))!r} to assess an action, but it raised "
        "ZeroDivisionError: once; nothing was executed, correct the shield."
    ]
    equal(tmp_path / "intact", tmp_path / "run")

    def broken(self: Shield, low: Any, action: Any) -> Any:
        return sound(self, low, action)._replace(intervene=True, action=np.full(7, np.nan))

    monkeypatch.setattr(Shield, "assess", broken)
    summary = evaluate(plan, tmp_path / "broken", InProcessExecutor)
    assert {episode.condition for episode in summary.incomplete} == {"full"}
    assert all("an action of finite numbers, got array([nan" in abort.cause for abort in summary.aborts)
    data = load_dataset(RunDirectory(tmp_path / "broken").dataset)
    bootstrap, full = data["success"].values[:12], data["success"].values[12:]
    assert (bootstrap != NOT_RUN).all()
    assert full.tolist() == [NOT_RUN] * 6
    assert not (data["reason"] == REASONS.index("invalid_execution")).any()


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ("raise once", "the network fell over once"),
        ("hang once", "Expected a control step within 5 s, got none; the worker was killed."),
        ("die once", "Expected the worker process to finish the episode, but it died (signal SIGKILL)."),
    ],
)
def test_a_passing_fault_is_retried_with_the_same_seeds(tmp_path: Path, fault: str, cause: str) -> None:
    def run(name: str, fault: str) -> xr.Dataset:
        arguments = {"fault": fault, "marker": str(tmp_path / "marker")}
        plan = make_plan(arguments=arguments, conditions=["baseline"])
        summary = evaluate(plan, tmp_path / name, lambda p: LocalExecutor(p, 1, stall_timeout=5.0))
        assert summary.recorded == 6
        assert [re.escape(cause) in re.escape(abort.cause) for abort in summary.aborts] == [True] * bool(
            fault
        )
        return load_dataset(RunDirectory(tmp_path / name).dataset)

    faulty, sound = run("faulty", fault), run("sound", "")
    assert faulty["aborts"].values.tolist() == [0, 1, 0, 0, 0, 0]
    for name in ("success", "steps", "max_abs_action", "unique_actions"):
        np.testing.assert_array_equal(faulty[name].values, sound[name].values)


def test_a_worker_that_starts_slowly_does_not_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_executor, "_serve", evaluation_policies.serve_late)
    plan = make_plan(conditions=["baseline"])
    timeout = 0.9 * evaluation_policies.SLOW_START
    summary = evaluate(plan, tmp_path / "run", lambda p: LocalExecutor(p, 1, stall_timeout=timeout))
    assert (summary.recorded, summary.aborts) == (6, ())


def test_a_worker_that_never_starts_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_executor, "_serve", evaluation_policies.never_serve)
    monkeypatch.setattr(local_executor, "_START_SECONDS", 0.5)
    summary = evaluate(make_plan(conditions=["baseline"]), tmp_path / "run", lambda p: LocalExecutor(p, 1))
    assert summary.recorded == 0
    assert {abort.cause for abort in summary.aborts} == {
        "Expected the worker process to start within 0.5 s, it did not and was killed."
    }


def test_a_hopeless_row_does_not_cost_the_others_their_turn(tmp_path: Path) -> None:
    policy = "evaluation_policies:Scripted"
    plan = make_plan(
        models=[
            {"name": "broken", "policy": policy, "arguments": {"failure_rate": "much"}},
            {"name": "sound", "policy": policy},
        ],
        conditions=["baseline"],
    )
    summary = evaluate(plan, tmp_path / "run", InProcessExecutor)
    assert summary.recorded == 6
    assert {planned.row for planned in summary.incomplete} == {0}
    assert len(summary.incomplete) == 6
    assert len(summary.aborts) < 18, "the row is given up before every episode was tried three times"


def test_no_shield_makes_the_shielded_conditions_unavailable_not_missing(tmp_path: Path) -> None:
    summary = evaluate(make_plan(arguments={}), tmp_path / "run", InProcessExecutor)
    assert (summary.recorded, summary.unavailable, summary.incomplete) == (36, 12, ())
    data = load_dataset(RunDirectory(tmp_path / "run").dataset)
    assert data["shield_status"].values.tolist() == ["failed"]
    assert data["shield_reason"].values.tolist() == ["no risk-positive support"]


def test_given_frames_differ_from_the_clean_ones_exactly_where_the_metadata_says(tmp_path: Path) -> None:
    plan = make_plan(arguments={"chunk": 4}, conditions=["perturb"], frames="looked", seed_groups=1)
    evaluate(plan, tmp_path / "run", InProcessExecutor)
    run = RunDirectory(tmp_path / "run")
    steps = load_dataset(run.steps / "0000-perturb.nc")
    offsets = np.concatenate([[0], np.cumsum(steps["row_size"].values)])
    looks = 0
    for index, path in enumerate(sorted(run.frames.iterdir())):
        with np.load(path) as stored:
            frames = dict(stored)
        looked = steps["looked"].values[offsets[index] : offsets[index + 1]]
        np.testing.assert_array_equal(frames["step"], np.flatnonzero(looked))
        for k, step in enumerate(frames["step"]):
            given, clean = frames["given_agentview_image"][k], frames["clean_agentview_image"][k]
            row, column, side = steps["patch"].values[offsets[index] + step, 0]
            expected = clean.copy()
            expected[row : row + side, column : column + side] = 0
            np.testing.assert_array_equal(given, expected)
            assert side == round(0.30 * 32)
            depth, clean_depth = frames["given_agentview_depth"][k], frames["clean_agentview_depth"][k]
            dropped = (depth == 0) & (clean_depth != 0)
            np.testing.assert_array_equal(depth[~dropped], clean_depth[~dropped])
            fraction = steps["dropped_fraction"].values[offsets[index] + step, 0]
            assert dropped.mean() == pytest.approx(fraction, abs=1e-6)
            looks += 1
    assert looks > 4


def test_the_folder_belongs_to_one_plan_and_one_writer(whole_run: Path) -> None:
    with pytest.raises(InvalidInputError, match=re.escape("got one that differs in episodes; continue with")):
        evaluate(make_plan(episodes=3), whole_run, InProcessExecutor)
    plan = make_plan()
    with RunDirectory(whole_run).open(plan), pytest.raises(RoepError, match="another run is writing there"):
        evaluate(plan, whole_run, InProcessExecutor)


def test_the_journal_refuses_a_second_record_that_differs(whole_run: Path, tmp_path: Path) -> None:
    plan = make_plan()
    source = Journal(RunDirectory(whole_run).journal, plan.digest)
    planned, record = next(source.records())
    journal = Journal(tmp_path / "journal.sqlite", plan.digest)
    journal.add_all([(planned, pack_record(record))])
    later = replace(record, summary=replace(record.summary, wall_time=99.0))
    journal.add_all([(planned, pack_record(later))])
    other = replace(record, summary=replace(record.summary, steps=1))
    with pytest.raises(RecordConflictError, match="got two that differ"):
        journal.add_all([(planned, pack_record(other))])
    assert len(journal.recorded()) == 1
    with pytest.raises(InvalidInputError, match="got that of another plan"):
        Journal(tmp_path / "journal.sqlite", "another")
    (tmp_path / "text.sqlite").write_text("no database" * 200)
    with pytest.raises(InvalidInputError, match="Expected a journal that can be written at"):
        Journal(tmp_path / "text.sqlite", plan.digest)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"conditions": ["perturbb"]}, "Unknown condition 'perturbb'. Did you mean 'perturb'"),
        ({"conditions": ["baseline", "full"]}, "Expected 'bootstrap_clean' or 'bootstrap_perturb' beside"),
        ({"tasks": ["tabletop/cary"]}, "Unknown task of tabletop 'cary'. Did you mean 'carry'?"),
        ({"tasks": []}, "Expected at least one task for the model 'noisy'"),
        ({"models": []}, "Expected at least one model in the plan"),
        ({"episode": 3}, "Unknown field of plan 'episode'. Did you mean 'episodes'?"),
        ({"episodes": "ten"}, "Expected plan.episodes to be an integer, got 'ten'."),
        ({"episodes": 0}, "Expected episodes to be an integer >= 1, got 0."),
        ({"frames": "some"}, "Unknown value of plan.frames 'some'."),
        ({"name": "a/b"}, "Expected a plan name without slashes"),
        (
            {"models": [{"name": "a", "polcy": "random"}]},
            "Unknown field of plan.models[0] 'polcy'. Did you mean 'policy'?",
        ),
        (
            {"tasks": ["goal_stove"], "seed_groups": 6, "episodes": 10},
            "Expected at most 50 episodes a condition",
        ),
        ({"tasks": ["turn on the stove"]}, "names 3 tasks"),
        ({"tasks": [3]}, "Expected plan.tasks[0] to be text, got 3."),
        ({"models": [{"name": "a"}]}, "Expected plan.models[0] to have the field 'policy'"),
        (
            {"models": [{"name": "a", "policy": "random", "accept": {"chekpoint_source": "ours"}}]},
            "Unknown contract field 'chekpoint_source'. Did you mean 'checkpoint_source'",
        ),
        ({"suite_step_budgets": {"tabeltop": 10}}, "Unknown suite with a step budget of its own 'tabeltop'."),
        ({"environment": {"unsafe_channels": ["workspaec"]}}, "Unknown unsafe channel 'workspaec'."),
        (
            {"arguments": {"since": __import__("datetime").date(2026, 1, 1)}},
            "put quotes around what YAML takes",
        ),
    ],
)
def test_a_bad_plan_is_refused_in_one_sentence(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        make_plan(**change)


def test_equal_plans_plan_equal_episodes_and_a_name_changes_only_the_runs() -> None:
    plan, same, renamed = make_plan(), make_plan(), make_plan(name="other")
    assert plan.digest == same.digest != renamed.digest
    for ours, theirs in zip(plan.episodes(), renamed.episodes(), strict=True):
        a, b = plan.identity(ours), renamed.identity(theirs)
        assert (a.init_state, a.scene_seed, a.seed_group, a.episode) == (
            b.init_state,
            b.scene_seed,
            b.seed_group,
            b.episode,
        )
        assert a.run_id != b.run_id
        assert a.profile == CONDITIONS[ours.condition].profile


def test_reasons_of_acceptance_can_be_added_to_a_finished_run(tmp_path: Path) -> None:
    arguments = {"chunk": 2, "declared_chunk": 4}
    plan = make_plan(arguments=arguments, conditions=["baseline"], seed_groups=1)
    evaluate(plan, tmp_path / "run", InProcessExecutor)
    data = load_dataset(RunDirectory(tmp_path / "run").dataset)
    verdicts = {
        line["name"]: (line["declared"], line["observed"]) for line in json.loads(data["contract"].item())
    }
    assert verdicts["chunk_length"] == (4, 2), "what came back counts, not what the policy says"
    assert verdicts["executed_steps"] == (4, 2)
    assert data["contract_unresolved"].item() == 2
    accept = {"chunk_length": "the fast variant", "executed_steps": "the fast variant"}
    models = [
        {"name": "noisy", "policy": "evaluation_policies:Scripted", "arguments": arguments, "accept": accept}
    ]
    accepted = make_plan(models=models, conditions=["baseline"], seed_groups=1)
    assert accepted.digest == plan.digest
    summary = evaluate(accepted, tmp_path / "run", lambda plan: KilledExecutor(plan, 0))
    assert summary.recorded == 2
    data = load_dataset(RunDirectory(tmp_path / "run").dataset)
    assert data["contract_unresolved"].item() == 0
    assert data["contract_note"].item() == "chunk_length: the fast variant; executed_steps: the fast variant"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"models": [{"name": "a", "policy": "rendom"}]}, "Unknown policy 'rendom'. Did you mean 'random'?"),
        ({"models": [{"name": "a", "policy": "evaluation_policies:Scriptd"}]}, "Expected a policy at"),
        (
            {"arguments": {"failure": 0.1}},
            "Expected arguments that fit the policy 'evaluation_policies:Scripted'",
        ),
        ({"environment": {"cameras": ["agentveiw"]}}, "Unknown camera 'agentveiw'. Did you mean 'agentview'"),
        ({"environment": {"image_size": "64"}}, "image_size"),
        ({"environment": {"settle_steps": -1}}, "settle_steps"),
    ],
)
def test_what_cannot_run_is_refused_before_the_folder_is_made(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        evaluate(make_plan(**change), tmp_path / "run", InProcessExecutor)
    assert not (tmp_path / "run").exists()


def test_a_broken_shield_outcome_is_named_with_its_remedy(whole_run: Path, tmp_path: Path) -> None:
    shutil.copytree(whole_run, tmp_path / "run")
    (RunDirectory(tmp_path / "run").shields / "0.json").write_text("{")
    with pytest.raises(
        InvalidInputError, match=re.escape("Delete the file, and the same command trains the same")
    ):
        evaluate(make_plan(), tmp_path / "run", InProcessExecutor)
    (RunDirectory(tmp_path / "run").shields / "0.json").unlink()
    evaluate(make_plan(), tmp_path / "run", InProcessExecutor)
    equal(tmp_path / "run", whole_run)


def test_a_run_without_its_dataset_is_not_judged_from_its_flat_tables(
    whole_run: Path, tmp_path: Path
) -> None:
    from roep_gym.evaluate.store.storage import read_run

    shutil.copytree(whole_run, tmp_path / "run")
    RunDirectory(tmp_path / "run").dataset.unlink()
    with pytest.raises(
        InvalidInputError, match="start the run's command again, which writes it from the journal"
    ):
        read_run(tmp_path / "run")


def copy_of(run: Path, tmp_path: Path) -> RunDirectory:
    shutil.copytree(run, tmp_path / "copy")
    return RunDirectory(tmp_path / "copy")


def test_a_record_that_was_changed_is_refused(whole_run: Path, tmp_path: Path) -> None:
    import sqlite3

    run = copy_of(whole_run, tmp_path)
    with sqlite3.connect(run.journal) as connection:
        connection.execute(
            "UPDATE episodes SET summary = replace(summary, '\"success\": 1', '\"success\": 0')"
        )
    with pytest.raises(InvalidInputError, match="as it was written, but it was changed or damaged since"):
        evaluate(make_plan(), run.root, InProcessExecutor)


def test_a_dataset_that_was_changed_is_refused_and_written_anew(whole_run: Path, tmp_path: Path) -> None:
    import h5py

    run = copy_of(whole_run, tmp_path)
    with h5py.File(run.dataset, "r+") as file:
        file["success"][:6] = 1 - file["success"][:6]
    with pytest.raises(InvalidInputError, match="its content was changed or damaged since"):
        load_dataset(run.dataset)
    evaluate(make_plan(), run.root, InProcessExecutor)
    equal(run.root, whole_run)


def test_a_finished_run_without_its_journal_is_not_overwritten(whole_run: Path, tmp_path: Path) -> None:
    run = copy_of(whole_run, tmp_path)
    before = run.dataset.read_bytes()
    run.journal.unlink()
    with pytest.raises(InvalidInputError, match="but it is missing; restore it from a copy"):
        evaluate(make_plan(), run.root, InProcessExecutor)
    assert run.dataset.read_bytes() == before


def test_frames_that_got_lost_are_made_again(tmp_path: Path) -> None:
    plan = make_plan(arguments={"chunk": 4}, conditions=["perturb"], frames="looked", seed_groups=1)
    evaluate(plan, tmp_path / "run", InProcessExecutor)
    lost = sorted(RunDirectory(tmp_path / "run").frames.iterdir())[0]
    with np.load(lost) as stored:
        before = dict(stored)
    lost.unlink()
    (lost.parent / f".{lost.name}.123.roep-gym.tmp").write_text("of a writer that was killed")
    evaluate(plan, tmp_path / "run", InProcessExecutor)
    with np.load(lost) as stored:
        for name, frames in before.items():
            np.testing.assert_array_equal(stored[name], frames)
    assert not list(lost.parent.glob(".*.tmp"))


def test_what_cannot_be_written_as_text_and_a_damaged_log_stop_nothing(tmp_path: Path) -> None:
    plan = make_plan(arguments={"fault": "surrogate"}, conditions=["baseline"])
    summary = evaluate(plan, tmp_path / "run", InProcessExecutor)
    assert (summary.recorded, len(summary.incomplete)) == (5, 1)
    assert summary.aborts[0].cause == "RuntimeError: no such file: \\udcff."
    RunDirectory(tmp_path / "run").log.write_text("{")
    evaluate(plan, tmp_path / "run", InProcessExecutor)
    assert len(json.loads(RunDirectory(tmp_path / "run").log.read_text())) == 1


def test_a_policy_that_cannot_be_built_is_one_sentence(tmp_path: Path) -> None:
    models = [{"name": "a", "policy": "evaluation_policies:leave", "arguments": {"status": 3}}]
    with pytest.raises(InvalidInputError, match=re.escape("to be built, got SystemExit: 3.")):
        evaluate(make_plan(models=models), tmp_path / "run", InProcessExecutor)


def test_a_run_that_is_asked_to_end_writes_its_dataset(tmp_path: Path) -> None:
    out = tmp_path / "run"
    command = command_of(make_plan(), tmp_path, "--workers", "1")
    process = start(command, out, 3, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    process.terminate()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Interrupted. What is recorded lies in" in " ".join(output.split())
    assert (load_dataset(RunDirectory(out).dataset)["success"] != NOT_RUN).sum() >= 3


def test_quick_and_conditions_exclude_each_other() -> None:
    from roep_gym.cli.main import dispatch

    with pytest.raises(
        InvalidInputError, match="Expected --quick, which is the condition baseline, or --condition"
    ):
        dispatch(
            ["evaluate", "--policy", "random", "--task", "tabletop/reach", "--quick", "--condition", "strong"]
        )


class Disturbed(SilentObserver):
    """Does something to the folder of the run when its third episode is recorded."""

    def __init__(self, run: RunDirectory, act: Callable[[RunDirectory], object]) -> None:
        self._run, self._act, self._recorded = run, act, 0

    def recorded(self, planned: PlannedEpisode, reason: str, steps: int) -> None:
        self._recorded += 1
        if self._recorded == 3:
            self._act(self._run)


@pytest.mark.parametrize(
    ("act", "still_there"),
    [
        (lambda run: shutil.rmtree(run.root), False),
        (lambda run: run.root.rename(run.root.with_name("elsewhere")), False),
        (lambda run: (run.root.rename(run.root.with_name("elsewhere")), run.root.mkdir()), True),
        (lambda run: run.journal.unlink(), True),
    ],
    ids=["deleted", "moved", "replaced", "without journal"],
)
def test_a_folder_that_goes_away_under_a_run_is_an_error(
    tmp_path: Path, act: Callable[[RunDirectory], object], still_there: bool
) -> None:
    run, plan = RunDirectory(tmp_path / "run"), make_plan(conditions=["quick"])
    with pytest.raises(RoepError, match="to stay where it is while its run goes on") as stopped:
        evaluate(plan, run.root, InProcessExecutor, Disturbed(run, act))
    assert "The Dataset could not be written either" in stopped.value.__notes__[0]
    assert run.root.exists() == still_there
    assert not run.dataset.exists()
    if (tmp_path / "elsewhere").exists():
        with closing(Journal(tmp_path / "elsewhere" / "journal.sqlite", plan.digest)) as journal:
            assert len(journal.recorded()) == 3
