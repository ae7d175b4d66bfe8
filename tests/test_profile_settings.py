"""When and on what the operators of a profile act, in the wrapper, in plans and in training."""

from __future__ import annotations

import json
import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fake_environments import ScriptedEnv
from gymnasium import spaces

import roep_gym  # noqa: F401
from roep_gym.episode import EpisodeIdentity
from roep_gym.error import InvalidInputError, UnknownNameError
from roep_gym.evaluate.plan import PlannedEpisode, ResolvedPlan, plan_from_mapping, resolve
from roep_gym.evaluate.run.environment_stack import wrap
from roep_gym.training.environment import EnvironmentConfig, make_env
from roep_gym.wrappers import PROFILES, PerturbObservation, Profile, RecordEpisode, StepBudget

CAMERAS = ["agentview", "robot0_eye_in_hand"]
MOVES = np.random.default_rng(0).uniform(-1, 1, (40, 7)).astype(np.float32)
IDENTITY = EpisodeIdentity("settings", 0, 0, profile="own")


def own(*operators: dict[str, Any]) -> dict[str, Any]:
    return {"name": "own", "operators": list(operators)}


def table() -> gym.Env[Any, Any]:
    return gym.make("roep_gym/Tabletop-v0", cameras=CAMERAS, depth=True, object_state=True, image_size=24)


def rollout(env: gym.Env[Any, Any], steps: int = 20) -> list[tuple[Any, dict[str, Any]]]:
    given = [env.reset(seed=3, options=IDENTITY.to_options())]
    for action in MOVES[:steps]:
        observation, _, _, _, info = env.step(action)
        given.append((observation, info))
    return given


def differing(profile: dict[str, Any], **kwargs: Any) -> list[set[str]]:
    """Return, for each observation of a rollout, the keys of the arrays that differ from the clean ones."""
    pairs = zip(rollout(table()), rollout(PerturbObservation(table(), profile, **kwargs)), strict=True)
    return [
        {key for key in clean if clean[key].tobytes() != given[key].tobytes()}
        for (clean, _), (given, _) in pairs
    ]


IMAGES = {f"{camera}_image" for camera in CAMERAS}


def test_nothing_differs_before_the_onset_and_after_the_duration() -> None:
    noise = {"operator": "gaussian_noise", "severity": 3}
    assert differing(own(noise)) == [IMAGES] * 21
    timed = differing(own({**noise, "onset": 5, "duration": 3}))
    assert timed == [set()] * 5 + [IMAGES] * 3 + [set()] * 13
    fractions = own({**noise, "onset": 0.25, "duration": 0.15})
    assert differing(fractions, step_budget=20) == timed
    with pytest.raises(InvalidInputError, match="Expected a step budget for 'gaussian_noise'"):
        PerturbObservation(table(), fractions)


def test_targets_choose_cameras_and_entries_of_vectors() -> None:
    camera = {"operator": "dead_camera", "severity": 5, "targets": ["robot0_eye_in_hand_image"]}
    assert differing(own(camera)) == [{"robot0_eye_in_hand_image"}] * 21
    assert differing(own({"operator": "vector_bias", "severity": 3})) == [{"proprio"}] * 21
    entry = own({"operator": "vector_bias", "severity": 3, "targets": ["proprio.eef_pos_y"]})
    clean, given = rollout(table()), rollout(PerturbObservation(table(), entry))
    for (before, _), (after, info) in zip(clean, given, strict=True):
        assert np.flatnonzero(before["proprio"] != after["proprio"]).tolist() == [1]
        assert info["perturbation"]["metadata"]["proprio"][0]["entries"] == [1]
    privileged = {"operator": "vector_noise", "severity": 3, "targets": ["object_state"]}
    assert differing(own(privileged)) == [{"object_state"}] * 21


@pytest.mark.parametrize(
    ("operator", "error", "message"),
    [
        (
            {"operator": "fog", "severity": 3, "targets": ["agentview_imag"]},
            UnknownNameError,
            "'agentview_image'",
        ),
        ({"operator": "fog", "severity": 3, "targets": ["proprio"]}, UnknownNameError, "target of 'fog'"),
        (
            {"operator": "vector_noise", "severity": 3, "targets": ["proprio.eef_pos_w"]},
            UnknownNameError,
            "entry of 'proprio'",
        ),
        (
            {"operator": "action_noise", "severity": 3, "targets": ["x"]},
            InvalidInputError,
            "on observations alone",
        ),
        ({"operator": "typos", "severity": 3, "onset": 5}, InvalidInputError, "given once"),
        ({"operator": "fog", "severity": 3, "onset": -1}, InvalidInputError, "'onset' of 'fog'"),
        ({"operator": "fog", "severity": 3, "duration": 0}, InvalidInputError, "'duration' of 'fog'"),
        ({"operator": "fog", "severity": 3, "onset": 1.5}, InvalidInputError, "'onset' of 'fog'"),
        ({"operator": "fog", "severity": 6}, InvalidInputError, "in 0..5, got 6"),
        ({"operator": "fog", "severity": 3, "targets": "x"}, InvalidInputError, "to be a list"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(
    operator: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=re.escape(message)):
        PerturbObservation(table(), own(operator))


def test_a_profile_with_every_setting_survives_json() -> None:
    operators = (
        {"operator": "fog", "severity": 2.5, "targets": ["a_image"], "onset": 0.5, "duration": 10},
        {"operator": "vector_delay", "severity": 1.0, "onset": 3},
    )
    profile = Profile.from_spec(own(*operators))
    assert profile.to_spec() == own(*operators)
    assert Profile.from_spec(json.loads(json.dumps(profile.to_spec()))) == profile


@pytest.mark.parametrize("name", ["frame_delay", "frozen_frames", "dropped_frames"])
def test_an_earlier_frame_is_that_of_its_source_step_and_no_others_are_drawn(name: str) -> None:
    profile = own({"operator": name, "severity": 3})
    every = rollout(PerturbObservation(table(), profile, keep_clean=True), 30)
    older = set()
    for step, (observation, info) in enumerate(every):
        for key, done in info["perturbation"]["metadata"].items():
            source = done[0]["source_step"]
            older |= {(key, source)} if source < step else set()
            assert observation[key].tobytes() == every[source][1]["clean_frames"][key].tobytes()
    assert older
    env = PerturbObservation(table(), profile)
    env.get_wrapper_attr("request_frames")(False)
    drawn = {step for step, (_, info) in enumerate(rollout(env, 30)) if info["frames_rendered"]}
    assert {source for _, source in older} <= drawn
    assert name == "frame_delay" or len(drawn) < 31


def test_an_environment_that_does_not_draw_what_it_is_asked_for_is_told() -> None:
    space = spaces.Dict({"a_image": spaces.Box(0, 255, (8, 8, 3), np.uint8)})
    image = {"a_image": np.ones((8, 8, 3), np.uint8)}
    env = ScriptedEnv(image, space, infos=[{"frames_rendered": False}, {"frames_rendered": True}])
    env = PerturbObservation(env, own({"operator": "frame_delay", "severity": 1}))
    env.reset(seed=0)
    env.step(MOVES[0])
    with pytest.raises(InvalidInputError, match="of step 1, which is given at step 2, but it was not drawn"):
        env.step(MOVES[1])


def test_latency_reaches_the_environment_and_is_no_intervention() -> None:
    profile = own({"operator": "action_latency", "severity": 2, "onset": 4})
    env = RecordEpisode(StepBudget(PerturbObservation(table(), profile), max_steps=12))
    record = rollout(env, 12)[-1][1]["episode_record"]
    proposed, executed = record.steps["proposed_action"], record.steps["executed_action"]
    assert (executed[:4] == proposed[:4]).all()
    assert (executed[4:] == proposed[2:-2]).all()
    assert (record.steps["shielded_action"] == proposed).all()
    assert record.summary.intervention_steps == 0
    late = RecordEpisode(StepBudget(table(), max_steps=12))
    late.reset(seed=3, options=IDENTITY.to_options())
    for action in executed:
        _, _, _, _, info = late.step(action)
    plain = info["episode_record"].steps
    assert "shielded_action" not in plain
    assert (plain["proprio"] == record.steps["proprio"]).all()


def test_zeros_are_refused_in_absolute_control_and_bad_actions_stay_the_environments() -> None:
    env = table()
    env.unwrapped.control_mode = "absolute"
    with pytest.raises(InvalidInputError, match="Expected relative control for 'action_drop'"):
        PerturbObservation(env, own({"operator": "action_drop", "severity": 1}))
    noisy = RecordEpisode(PerturbObservation(table(), own({"operator": "action_noise", "severity": 5})))
    noisy.reset(seed=0)
    record = noisy.step(np.full(7, np.nan))[-1]["episode_record"]
    assert record.summary.reason == "invalid_execution"
    clipped = PerturbObservation(table(), own({"operator": "action_bias", "severity": 5}))
    clipped.reset(seed=0)
    assert np.abs(clipped.step(np.ones(7, np.float32))[-1]["actuated_action"]).max() == 1


def test_the_record_has_the_instruction_that_was_given() -> None:
    env = RecordEpisode(
        StepBudget(PerturbObservation(table(), own({"operator": "word_dropout", "severity": 5})), max_steps=1)
    )
    (_, info), (_, last) = rollout(env, 1)
    assert (info["instruction"], info["clean_instruction"]) == ("", "carry the red disc to the green square")
    assert info["perturbation"]["changed"]["instruction"]
    assert last["episode_record"].attributes.instruction == ""
    space = spaces.Box(-1.0, 1.0, (3,), np.float32)
    mute = PerturbObservation(
        ScriptedEnv(np.zeros(3, np.float32), space), own({"operator": "typos", "severity": 1})
    )
    with pytest.raises(InvalidInputError, match="Expected info\\['instruction'\\] from reset"):
        mute.reset(seed=0)


def planned(**fields: Any) -> ResolvedPlan:
    plan = {"models": [{"name": "random", "policy": "random"}], "tasks": ["tabletop/reach"]}
    return resolve(plan_from_mapping({**plan, **fields}))


STALE = {"operators": [{"operator": "frame_delay", "severity": 3, "onset": 0.5}]}


def test_the_papers_profiles_keep_their_bits_and_plans_their_digests() -> None:
    expected = {"clean": (0.0, 0.0), "mild": (0.1, 0.1), "medium": (0.3, 0.2), "strong": (0.5, 0.3)}
    for name, (alpha, probability) in expected.items():
        spec = (
            f'{{"name": "{name}", "operators": [{{"operator": "rgb_occlusion", "alpha": {alpha}}}, '
            f'{{"operator": "depth_dropout", "probability": {probability}}}]}}'
        )
        assert json.dumps(PROFILES[name].to_spec()) == spec
    assert not {"profiles", "perturbation"} & set(planned().plan.content())


def test_a_plan_names_the_perturbation_of_its_conditions() -> None:
    plan = planned(profiles={"stale": STALE}, perturbation="stale")
    assert plan.profiles == {"clean": PROFILES["clean"].to_spec(), "medium": {"name": "stale", **STALE}}
    digests = {plan.digest, planned().digest, planned(profiles={"stale": STALE}).digest}
    stronger = {"operators": [{**STALE["operators"][0], "severity": 4}]}
    assert len(digests | {planned(profiles={"stale": stronger}, perturbation="stale").digest}) == 4
    identity = plan.identity(PlannedEpisode(0, "perturb", 0, 0))
    assert identity.profile == "stale"
    assert plan.identity(PlannedEpisode(0, "baseline", 0, 0)).profile == "clean"
    env = wrap(
        table(),
        profile=plan.profiles["medium"],
        shield=None,
        step_budget=20,
        frames="none",
        replan=False,
        terminate_on_refusal=False,
    )
    env.reset(seed=3, options=identity.to_options())
    changed = [any(env.step(action)[-1]["perturbation"]["changed"].values()) for action in MOVES[:20]]
    assert not any(changed[:9])
    assert any(changed[9:])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"perturbation": "stal", "profiles": {"stale": STALE}}, "Did you mean 'stale'"),
        ({"profiles": {"medium": STALE}}, "under a name that no built-in one has"),
        ({"profiles": {"stale": {"name": "x", **STALE}}}, "with 'operators' alone"),
        ({"perturbation": "clean"}, "Expected a perturbation of images or depth"),
        (
            {
                "profiles": {"typos": {"operators": [{"operator": "typos", "severity": 1}]}},
                "perturbation": "typos",
            },
            "Expected a perturbation of images or depth",
        ),
    ],
)
def test_a_plan_with_a_profile_that_cannot_be_judged_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        planned(**fields)


def test_training_takes_the_same_profiles() -> None:
    config = EnvironmentConfig(
        "roep_gym/Tabletop-v0",
        {"image_size": 16},
        profile=own({"operator": "fog", "severity": 3, "onset": 0.5}),
        step_budget=6,
    )
    env = make_env(config, monitor=False)
    env.reset(seed=0)
    changed = [env.step(action)[-1]["perturbation"]["changed"]["agentview_image"] for action in MOVES[:5]]
    assert changed == [False, False, True, True, True]
