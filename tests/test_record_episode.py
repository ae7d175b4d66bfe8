"""RecordEpisode: one reason, every step, counts worked out by hand."""

from __future__ import annotations

import pickle
import re
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from failing_policies import blind_policy, nonfinite_policy, reckless_policy
from fake_environments import ScriptedEnv, image_env, vector_env
from gymnasium import spaces

import roep_gym  # noqa: F401
from roep_gym.envs.tabletop_policies import scripted_policy
from roep_gym.episode import EpisodeIdentity
from roep_gym.episode_record import EpisodeRecord
from roep_gym.error import InvalidInputError, PolicyOutputError, UnknownNameError
from roep_gym.evaluate.schema import EPISODE_VARIABLES, REASONS
from roep_gym.wrappers import PerturbObservation, RecordEpisode, StepBudget
from roep_gym.wrappers.profiles import PROFILES

IDENTITY = EpisodeIdentity("run", 0, 1, init_state=2, scene_seed=3, profile="medium")


def stack(frames: Any = "none", budget: int = 60, profile: str = "medium", **kwargs: Any) -> RecordEpisode:
    env = gym.make("roep_gym/Tabletop-v0", depth=True, object_state=True, image_size=32, **kwargs)
    return RecordEpisode(
        StepBudget(PerturbObservation(env, profile, keep_clean=frames != "none"), budget), frames
    )


def play(env: RecordEpisode, policy: Any, looks_every: int = 1) -> EpisodeRecord:
    look = env.get_wrapper_attr("request_frames")
    look(True)
    observation, _ = env.reset(seed=0, options=IDENTITY.to_options())
    for step in range(1000):
        look((step + 1) % looks_every == 0)
        observation, _, terminated, truncated, info = env.step(policy(observation))
        if terminated or truncated:
            record = info["episode_record"]
            assert isinstance(record, EpisodeRecord)
            return record
        assert "episode_record" not in info
    raise AssertionError("the episode did not end")


def act(env: RecordEpisode, actions: list[Any]) -> EpisodeRecord:
    env.reset(seed=0)
    info: dict[str, Any] = {}
    for action in actions:
        info = env.step(action)[4]
    record = info["episode_record"]
    assert isinstance(record, EpisodeRecord)
    return record


@pytest.mark.parametrize(
    ("policy", "kwargs", "reason"),
    [
        (scripted_policy, {}, "success"),
        (blind_policy, {}, "timeout"),
        (nonfinite_policy, {}, "invalid_execution"),
        (reckless_policy, {"terminate_on_unsafe": True}, "unsafe_attempt"),
        (reckless_policy, {}, "timeout"),
    ],
)
def test_every_episode_ends_with_its_reason(policy: Any, kwargs: dict[str, Any], reason: str) -> None:
    summary = play(stack(**kwargs), policy).summary
    assert summary.reason == reason
    assert reason in REASONS
    assert summary.success == (reason == "success")
    assert set(vars(summary)) - set(EPISODE_VARIABLES) == {"unsafe_channel_attempts"}
    assert summary.unsafe_channel_attempts["joint_limit"] == -1
    if policy is reckless_policy:
        assert summary.unsafe_attempts == summary.unsafe_channel_attempts["action_bounds"] == summary.steps
        assert summary.clipped_actions == summary.steps


def test_step_arrays_have_the_declared_shapes_and_line_up_with_the_observation_acted_on() -> None:
    env = stack(frames="all")
    record = play(env, scripted_policy, looks_every=4)
    n = record.summary.steps
    shapes = {name: (array.shape, array.dtype.name) for name, array in record.steps.items()}
    assert shapes == {
        "proposed_action": ((n, 7), "float32"),
        "executed_action": ((n, 7), "float32"),
        "reward": ((n,), "float32"),
        "proprio": ((n, 9), "float32"),
        "looked": ((n,), "int8"),
        "unsafe": ((n, 5), "int8"),
        "risk": ((n,), "float64"),
        "intervened": ((n,), "int8"),
        "shield_reason": ((n,), "int8"),
        "projection": ((n,), "int8"),
        "patch": ((n, 1, 3), "int32"),
        "dropped_fraction": ((n, 1), "float32"),
    }
    assert record.steps["looked"].tolist() == [int(t % 4 == 0) for t in range(n)]
    assert record.steps["reward"].tolist() == [0.0] * (n - 1) + [1.0]
    assert (record.steps["proposed_action"] == record.steps["executed_action"]).all()
    assert np.isnan(record.steps["risk"]).all()
    assert (record.steps["intervened"] == -1).all()
    assert record.summary.frames_given == record.summary.frames_perturbed == 2 * sum(record.steps["looked"])
    assert record.frames["step"].tolist() == list(range(n + 1))
    for t in range(n):
        image, patch = PROFILES["medium"].perturb(
            record.frames["clean_agentview_image"][t], "image", IDENTITY.key, t, "agentview_image"
        )
        assert (image == record.frames["given_agentview_image"][t]).all()
        assert [patch[0]["row"], patch[0]["column"], patch[0]["side"]] == record.steps["patch"][t, 0].tolist()
        _, dropped = PROFILES["medium"].perturb(
            record.frames["clean_agentview_depth"][t], "depth", IDENTITY.key, t, "agentview_depth"
        )
        assert np.float32(dropped[0]["fraction"]) == record.steps["dropped_fraction"][t, 0]


def test_looked_frames_are_those_the_policy_was_given() -> None:
    record = play(stack(frames="looked", budget=12), blind_policy, looks_every=4)
    # The frame of the observation after the last action (index 12) was asked for, but no policy saw it.
    assert record.frames["step"].tolist() == [0, 4, 8]
    assert all(len(stored) == 3 for stored in record.frames.values())
    assert (
        (record.frames["given_agentview_image"] != record.frames["clean_agentview_image"])
        .any(axis=(1, 2, 3))
        .all()
    )


def test_the_record_does_not_depend_on_which_frames_are_looked_at() -> None:
    all_looked, few_looked = play(stack(), scripted_policy), play(stack(), scripted_policy, looks_every=5)
    for name in set(all_looked.steps) - {"looked"}:
        assert np.array_equal(all_looked.steps[name], few_looked.steps[name], equal_nan=True)


def test_a_clean_episode_gives_no_perturbed_frame() -> None:
    env = stack(profile="clean")
    env.reset(seed=0)
    for _ in range(60):
        info = env.step(np.zeros(7, np.float32))[4]
    assert info["episode_record"].summary.frames_given == 120
    assert info["episode_record"].summary.frames_perturbed == 0


def test_counts_of_actions_by_hand() -> None:
    zero, big, half = np.zeros(7), np.full(7, 1.5), np.full(7, 0.5)
    minus_zero = -np.zeros(7)
    record = act(RecordEpisode(vector_env(end=6)), [zero, zero, minus_zero, big, half, big, big])
    counts = record.summary
    assert counts.steps == counts.recorded_steps == 7
    assert counts.repeated_actions == 3
    assert counts.clipped_actions == 3
    assert counts.unique_actions == 3
    assert counts.max_abs_action == 1.5
    assert counts.nonfinite_actions == 0
    assert counts.unsafe_attempts == -1
    assert counts.scene_hash == -1
    assert record.steps["proprio"].shape == (7, 5)


def test_shield_and_unsafe_counts_by_hand() -> None:
    def shielded(
        risk: float, *, refused: bool = False, moved: bool = False, unsafe: bool = False
    ) -> dict[str, Any]:
        intervened = not risk < 0.5
        reason = (
            "below_threshold" if not intervened else "threshold_reached" if risk >= 0 else "risk_not_finite"
        )
        projection = "refused_not_reduced" if refused else "projected" if intervened else "none"
        return {
            "shield": {"risk": risk, "threshold": 0.5, "intervened": intervened, "reason": reason,
                       "projection": projection, "refused": refused},
            "executed_action": np.full(7, 0.1 if moved else 0.2, np.float32),
            "unsafe": {"action_bounds": unsafe, "workspace": False},
        }  # fmt: skip

    infos = [
        shielded(0.1),
        shielded(0.5, moved=True, unsafe=True),
        shielded(0.9, refused=True),  # a refusal counts although it equals the proposed action
        shielded(0.7),  # intervened, but the projected action is the proposed one: not applied
        shielded(float("nan"), moved=True),
        shielded(0.2, unsafe=True) | {"termination": "safe_refusal"},
    ]
    record = act(RecordEpisode(vector_env(infos=infos, end=5)), [np.full(7, 0.2)] * 6)
    counts = record.summary
    assert counts.reason == "safe_refusal"
    assert counts.intervention_steps == 3
    assert counts.refusals == 1
    assert counts.risk_steps == 5
    assert counts.crossings == 3
    assert counts.unsafe_attempts == 2
    assert counts.unsafe_channel_attempts == {
        "action_bounds": 2, "workspace": 0, "contact_force": -1, "joint_limit": -1, "object_dropped": -1,
    }  # fmt: skip
    assert record.steps["intervened"].tolist() == [0, 1, 1, 1, 1, 0]
    names = record.attributes.shield_reasons
    assert [names[code] for code in record.steps["shield_reason"]] == [
        info["shield"]["reason"] for info in infos
    ]
    names = record.attributes.projections
    assert [names[code] for code in record.steps["projection"]] == [
        info["shield"]["projection"] for info in infos
    ]


def test_an_unknown_shield_reason_is_refused() -> None:
    shield = {
        "risk": 0.1,
        "threshold": 0.5,
        "intervened": False,
        "reason": "below",
        "projection": "none",
        "refused": False,
    }
    env = RecordEpisode(vector_env(infos=[{"shield": shield}]))
    env.reset(seed=0)
    with pytest.raises(UnknownNameError, match="Unknown shield reason 'below'"):
        env.step(np.zeros(7))


@pytest.mark.parametrize(
    "action",
    [
        np.full(7, np.nan),
        np.zeros(6),
        np.zeros((1, 7)),
        [0.0] * 6 + [np.inf],
        None,
        "left",
        [1e300] * 7,
        [[1], [2, 3]],
    ],
)
def test_an_invalid_action_ends_the_episode_and_reaches_nobody(action: Any) -> None:
    inner = vector_env(infos=[{"instruction": "go"}])
    env = RecordEpisode(inner)
    first, _ = env.reset(seed=0)
    env.step(np.zeros(7))
    observation, reward, terminated, truncated, info = env.step(action)
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert observation.tobytes() == first.tobytes()
    assert not np.shares_memory(observation, inner.observation)
    assert len(inner.actions) == 1
    assert info["termination"] == "invalid_execution"
    assert info["is_success"] is False
    record = info["episode_record"]
    assert record.summary.nonfinite_actions == 1
    assert record.summary.steps == record.summary.recorded_steps == 2
    assert not np.isfinite(record.steps["proposed_action"][1]).all()
    assert np.isnan(record.steps["executed_action"][1]).all()
    assert record.attributes.cause.startswith("Expected an action of")


def test_an_invalid_action_found_below_is_the_same() -> None:
    class Fussy(ScriptedEnv):
        def step(self, action: Any) -> Any:
            raise PolicyOutputError("Expected another action.")

    env = RecordEpisode(Fussy(np.zeros(2, np.float32), spaces.Box(-1, 1, (2,), np.float32)))
    env.reset(seed=0)
    info = env.step(np.zeros(7))[4]
    assert info["episode_record"].summary.reason == "invalid_execution"
    assert info["episode_record"].attributes.cause == "Expected another action."


def test_an_infrastructure_failure_passes_through() -> None:
    class Broken(ScriptedEnv):
        def step(self, action: Any) -> Any:
            raise RuntimeError("the simulator died")

    env = RecordEpisode(Broken(np.zeros(2, np.float32), spaces.Box(-1, 1, (2,), np.float32)))
    env.reset(seed=0)
    with pytest.raises(RuntimeError, match="the simulator died"):
        env.step(np.zeros(7))


def test_an_episode_cut_short_by_a_reset_leaves_no_record_and_is_reported() -> None:
    env = stack()
    assert "abandoned_episode" not in env.reset(seed=0, options=IDENTITY.to_options())[1]
    env.step(np.zeros(7))
    info = env.reset(seed=1)[1]
    assert info["abandoned_episode"]["steps"] == 1
    assert info["abandoned_episode"]["run_id"] == "run"
    assert "episode_record" not in info
    assert "abandoned_episode" not in env.reset(seed=1)[1]


def test_no_step_after_the_end_nor_before_the_beginning() -> None:
    env = RecordEpisode(vector_env(end=0))
    message = re.escape("Expected an episode in progress, but none is; call reset before step.")
    with pytest.raises(InvalidInputError, match=message):
        env.step(np.zeros(7))
    act(env, [np.zeros(7)])
    with pytest.raises(InvalidInputError, match=message):
        env.step(np.zeros(7))


def test_an_end_that_nobody_explains_is_unknown_and_no_failure() -> None:
    summary = act(RecordEpisode(vector_env(end=0)), [np.zeros(7)]).summary
    assert (summary.reason, summary.success) == ("unknown", -1)


def test_discrete_actions_and_images_alone_are_recorded() -> None:
    env = RecordEpisode(image_env(end=1, action_space=spaces.Discrete(4)), frames="all")
    record = act(env, [3, 0])
    assert record.steps["proposed_action"].tolist() == [[3.0], [0.0]]
    assert record.steps["proprio"].shape == (2, 0)
    assert (
        record.frames["given_observation"].shape == record.frames["clean_observation"].shape == (3, 40, 32, 3)
    )


def test_the_record_is_plain_and_private() -> None:
    env = stack(frames="all")
    record = play(env, scripted_policy)
    copy = pickle.loads(pickle.dumps(record))
    assert repr(copy.summary) == repr(record.summary)  # NaN is not equal to itself
    before = record.steps["proprio"].tobytes()
    play(env, blind_policy)
    assert record.steps["proprio"].tobytes() == before
    assert record.attributes.episode.run_id == "run"
    assert record.attributes.profile == PROFILES["medium"].to_spec()
    assert record.attributes.proprio[0] == "eef_pos_x"


def test_requests_are_forwarded_and_widened_when_all_frames_are_stored() -> None:
    for frames, rendered in (("none", False), ("looked", False), ("all", True)):
        env = stack(frames=frames)
        env.get_wrapper_attr("request_frames")(False)
        assert env.reset(seed=0)[1]["frames_rendered"] is rendered


def test_frames_need_clean_frames_and_the_right_spaces() -> None:
    with pytest.raises(
        InvalidInputError, match=re.escape("Expected PerturbObservation(keep_clean=True) below")
    ):
        RecordEpisode(PerturbObservation(image_env()), frames="looked")
    with pytest.raises(UnknownNameError, match="Did you mean 'looked'"):
        RecordEpisode(image_env(), frames="look")
    with pytest.raises(InvalidInputError, match="Expected a Box or Discrete action space"):
        RecordEpisode(image_env(action_space=spaces.MultiBinary(3)))
