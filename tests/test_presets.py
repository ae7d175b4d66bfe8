"""Every preset: its contract is complete and typed, and a client that follows it does what the contract says."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from roep_gym.cli.main import main
from roep_gym.contracts import FIELDS
from roep_gym.documents import read_yaml
from roep_gym.envs.task_catalog import PAPER_TASKS
from roep_gym.error import InvalidInputError, UnknownNameError
from roep_gym.evaluate.plan import plan_from_mapping, resolve
from roep_gym.policies import PolicyContractTests, make_policy
from roep_gym.policies.base import Policy, PolicyEpisode, PolicyInput
from roep_gym.policies.conversions import ORIENTATIONS
from roep_gym.policies.presets import preset as module
from roep_gym.policies.presets.preset import ModelPreset, find_preset, preset_names
from roep_gym.policies.registry import POLICIES

FOLDER = Path(module.__file__).parent
MEASURED = {"rotation", "crop", "resize", "encoding", "prompt_format", "proprio_layout"}
UNKNOWN = {"checkpoint_revision", "mujoco", "robosuite", "precision"}
"""What a published evaluation may leave open."""

every_preset = pytest.mark.parametrize("name", preset_names())


class Inputs(PolicyContractTests):
    """Makes episodes and decisions; `pytest` does not collect it under this name."""

    def make_policy(self) -> Policy:
        raise NotImplementedError


def decision(preset: ModelPreset) -> tuple[PolicyEpisode, PolicyInput]:
    made = Inputs()
    episode = made.make_episode(0)
    return episode, made.make_input(preset.observations, episode, 0)


def suites(preset: ModelPreset) -> list[str]:
    return list(preset.contract.by_suite) or ["libero_goal"]


@every_preset
def test_the_contract_is_complete_in_every_suite(name: str) -> None:
    written = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())["contract"]
    assert set(written) - {"by_suite"} == set(FIELDS)
    preset = find_preset(name)
    for suite in suites(preset):
        contract = preset.contract.for_suite(suite).to_dict()
        assert {field for field, value in contract.items() if value is None} <= UNKNOWN
        assert contract["suite"] in ("any", suite)
    sources = [preset.contract.for_suite(suite).checkpoint_source for suite in suites(preset)]
    assert len(set(sources)) == len(sources)


@every_preset
def test_a_client_looks_at_what_the_contract_says(name: str) -> None:
    preset = find_preset(name)
    wanted = preset.observations
    assert (list(wanted.cameras), wanted.image_size) == (preset.contract.cameras, preset.contract.resolution)
    assert wanted.controller_pose == str(preset.contract.proprio_layout).startswith("controller")


@every_preset
def test_what_a_client_sends_is_measured_as_declared(name: str) -> None:
    preset = find_preset(name)
    episode, given = decision(preset)
    sent = preset.prepare(episode, given)
    assert list(sent) == [*preset.frames, *([preset.state_key] if preset.state_key else [])]
    found = preset.measure(episode, given, sent, given.instruction)
    declared = preset.contract.to_dict()
    assert found == {field: declared[field] for field in found}
    without_state = set() if preset.state_key else {"proprio_layout"}
    assert set(found) == MEASURED - set(preset.server_fields) - without_state


@pytest.mark.parametrize("turned", ORIENTATIONS)
@pytest.mark.parametrize("name", ["pi05", "x-vla"])
def test_a_planted_flip_is_found(name: str, turned: str) -> None:
    declared = find_preset(name)
    frames = {key: replace(frame, steps=(turned, *frame.steps[1:])) for key, frame in declared.frames.items()}
    episode, given = decision(declared)
    sent = replace(declared, frames=frames).prepare(episode, given)
    assert declared.measure(episode, given, sent, given.instruction)["rotation"] == turned


def test_other_departures_leave_their_field_unmeasured() -> None:
    preset = find_preset("pi05")
    episode, given = decision(preset)
    sent = preset.prepare(episode, given)
    darker = {key: frame // 2 if frame.ndim == 3 else frame + 0.1 for key, frame in sent.items()}
    assert preset.measure(episode, given, darker, "Task: stove") == {}
    cropped = replace(
        preset, frames={k: replace(f, steps=(*f.steps, "center_0.9")) for k, f in preset.frames.items()}
    )
    found = preset.measure(episode, given, cropped.prepare(episode, given), given.instruction)
    assert not {"crop", "resize", "rotation"} & set(found)


def test_a_frame_that_equals_its_mirror_image_shows_no_rotation() -> None:
    preset = find_preset("pi05")
    episode, given = decision(preset)
    even = np.full((256, 256, 3), 7, dtype=np.uint8)
    given = given._replace(
        observation={**given.observation, "agentview_image": even, "robot0_eye_in_hand_image": even}
    )
    found = preset.measure(episode, given, preset.prepare(episode, given), given.instruction)
    assert "rotation" not in found
    assert found["crop"] == "none"


@every_preset
def test_chunks_become_actions_of_the_environment(name: str) -> None:
    preset = find_preset(name)
    width = 20 if "xvla_actions" in preset.action_steps else 7
    chunk = np.random.default_rng(0).uniform(0.1, 0.9, (int(preset.contract.chunk_length or 1), width))
    actions = preset.actions(chunk)
    assert actions.shape == (len(chunk), 7)
    if preset.action_steps:
        assert set(np.unique(actions[:, -1])) <= {-1.0, 1.0}


def test_openvla_opens_at_one_and_closes_at_zero() -> None:
    chunk = np.zeros((2, 7))
    chunk[:, -1] = [1.0, 0.0]
    assert find_preset("openvla-oft").actions(chunk)[:, -1].tolist() == [-1.0, 1.0]
    assert find_preset("pi05").actions(chunk)[:, -1].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("name", [name for name in preset_names() if find_preset(name).policy])
def test_a_preset_with_a_client_is_a_policy_by_its_name(name: str) -> None:
    assert name in POLICIES.names()
    preset, policy = find_preset(name), make_policy(name, port=9)
    assert policy.contract == preset.contract
    assert policy.observations == preset.observations
    policy.close()


def test_a_preset_without_a_client_is_no_policy() -> None:
    for name in preset_names():
        if not find_preset(name).policy:
            assert name not in POLICIES.names()


def test_a_preset_of_ones_own(tmp_path: Path) -> None:
    mine = yaml.safe_load((FOLDER / "pi05.yaml").read_text())
    mine["contract"]["executed_steps"] = 10
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(mine))
    policy = make_policy("openpi", preset=str(path), port=9)
    assert policy.contract.executed_steps == 10
    policy.close()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"contract": {"executed_steps": "5"}}, "preset.contract.executed_steps to be an integer or one of"),
        ({"contract": {"executed_steps": 0}}, "contract.executed_steps to be at least 1, got 0"),
        ({"contract": {"excuted_steps": 1}}, "Did you mean 'executed_steps'"),
        ({"frames": {"a": {"camera": "agentview", "steps": ["rotated"]}}}, "Did you mean 'rotated_180'"),
        ({"action_steps": ["gripper"]}, "Unknown step of a chunk 'gripper'"),
        ({"server_fields": ["crops"]}, "Did you mean 'crop'"),
        ({"state_key": "state", "contract": {"proprio_layout": "eef_pos(3)"}}, "Unknown layout of the state"),
        ({"image_size": "256"}, "Expected preset.image_size to be an integer, got '256'"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({"contract": {}, **changes}))
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        find_preset(str(path))


def test_an_unknown_preset_is_answered_with_the_closest() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'openvla-oft'"):
        find_preset("openvla_oft")


def test_the_plan_of_the_papers_study_has_three_models_on_eight_tasks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(__file__).parents[1] / "examples" / "paper_study.yaml"
    resolved = resolve(plan_from_mapping(read_yaml(path, "a plan")))
    tasks: dict[str, list[str]] = {}
    for row in resolved.rows:
        tasks.setdefault(row.model.name, []).append(row.task)
        assert row.model.policy in POLICIES.names()
        assert find_preset(row.model.policy).contract.for_suite(row.suite).suite in ("any", row.suite)
        assert isinstance(row.model.arguments["port"], int)
    assert list(tasks) == ["OpenVLA", "X-VLA", "VLA-Adapter"]
    assert all(set(found) == set(PAPER_TASKS.values()) and len(found) == 8 for found in tasks.values())
    assert main(["evaluate", str(path), "--out", str(tmp_path / "run"), "--dry-run"]) == 0
    assert re.search(r"24 x \d+ x 5 x 10 = \d+ episodes", " ".join(capsys.readouterr().out.split()))
