"""PerturbObservation: the first frame included, never in place, keyed by the episode and nothing else."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from fake_environments import ScriptedEnv, image_env, vector_env
from gymnasium import spaces

import roep_gym  # noqa: F401
from roep_gym.episode import EpisodeIdentity
from roep_gym.error import InvalidInputError, UnknownNameError
from roep_gym.wrappers import PerturbObservation
from roep_gym.wrappers.operators.registry import rebuild
from roep_gym.wrappers.profiles import perturbation_key

HOLD = np.zeros(7, dtype=np.float32)
IDENTITY = EpisodeIdentity("run-a", 1, 4, init_state=3, scene_seed=5, profile="medium")


def tabletop(profile: Any = "medium", **kwargs: Any) -> PerturbObservation:
    cameras = ["agentview", "robot0_eye_in_hand"]
    env = gym.make("roep_gym/Tabletop-v0", cameras=cameras, depth=True, object_state=True, image_size=40)
    return PerturbObservation(env, profile, **kwargs)


def rollout(
    env: gym.Env[Any, Any], steps: int = 4, identity: EpisodeIdentity = IDENTITY
) -> list[tuple[Any, dict[str, Any]]]:
    results = [env.reset(seed=0, options=identity.to_options())]
    for _ in range(steps):
        observation, _, _, _, info = env.step(HOLD)
        results.append((observation, info))
    return results


def same(a: Any, b: Any) -> bool:
    return all(a[key].tobytes() == b[key].tobytes() for key in a)


def test_every_frame_differs_exactly_where_its_metadata_says_and_can_be_rebuilt() -> None:
    for step, (observation, info) in enumerate(rollout(tabletop(keep_clean=True))):
        report = info["perturbation"]
        assert report["profile"] == "medium"
        assert set(report["metadata"]) == set(info["clean_frames"]) == set(report["changed"])
        assert len(report["metadata"]) == 4
        for key, clean in info["clean_frames"].items():
            [done] = report["metadata"][key]
            given = observation[key]
            differs = (given != clean).any(axis=-1)
            if key.endswith("_image"):
                square = np.zeros_like(differs)
                row, column, side = done["row"], done["column"], done["side"]
                square[row : row + side, column : column + side] = True
                assert side == 12
                assert (differs == square).all()
            else:
                assert differs.mean() == done["fraction"]
                assert not given[differs].any()
            assert report["changed"][key]
            stream = perturbation_key(IDENTITY.key, step, key, done["operator"])
            assert rebuild(clean, done, stream).tobytes() == given.tobytes()


def test_a_step_depends_on_its_identity_alone() -> None:
    first = rollout(tabletop(), steps=6)
    env = tabletop()
    rollout(env, steps=2, identity=EpisodeIdentity("other", 0, 0, 3, 5, "medium"))
    again = rollout(env, steps=6)
    assert all(same(a[0], b[0]) for a, b in zip(first, again, strict=True))
    clone = rollout(tabletop(), steps=6, identity=EpisodeIdentity("run-b", 1, 4, 3, 5, "medium"))
    assert not any(same(a[0], b[0]) for a, b in zip(first, clone, strict=True))


def test_another_process_draws_the_same() -> None:
    code = (
        "import hashlib, gymnasium as gym, roep_gym\n"
        "from roep_gym.wrappers import PerturbObservation\n"
        "env = PerturbObservation(gym.make('roep_gym/Tabletop-v0', depth=True, image_size=40))\n"
        f"frames, _ = env.reset(seed=0, options={IDENTITY.to_options()!r})\n"
        "print(hashlib.sha256(frames['agentview_image'].tobytes() + frames['agentview_depth'].tobytes()).hexdigest())"
    )
    frames, _ = tabletop().reset(seed=0, options=IDENTITY.to_options())
    here = hashlib.sha256(
        frames["agentview_image"].tobytes() + frames["agentview_depth"].tobytes()
    ).hexdigest()
    for salt in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": salt}
        run = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
        )
        assert run.stdout.strip() == here


def test_without_identity_a_seeded_sequence_of_episodes_repeats_whatever_their_lengths() -> None:
    def third_frame(lengths: list[int]) -> bytes:
        env = PerturbObservation(image_env(), "medium")
        frame = env.reset(seed=7)[0]
        for length in lengths:
            for _ in range(length):
                env.step(HOLD)
            frame = env.reset()[0]
        return bytes(frame.tobytes())

    assert third_frame([1, 9]) == third_frame([5, 0])
    assert third_frame([1]) != third_frame([1, 9])


def test_the_environments_generator_and_numpys_are_left_alone() -> None:
    clean, perturbed = tabletop("clean"), tabletop("strong")
    before = np.random.get_state()[1].tobytes()
    for env in (clean, perturbed):
        env.reset(seed=3)
        env.step(HOLD)
    assert np.random.get_state()[1].tobytes() == before
    assert clean.np_random.bit_generator.state == perturbed.np_random.bit_generator.state


def test_a_reused_buffer_is_neither_modified_nor_handed_on() -> None:
    buffer = {
        "image": np.full((16, 16, 3), 200, np.uint8),
        "a_depth": np.ones((16, 16, 1), np.float32),
        "state": np.ones(3, np.float64),
    }
    space = spaces.Dict(
        {
            "image": spaces.Box(0, 255, (16, 16, 3), np.uint8),
            "a_depth": spaces.Box(0, 2, (16, 16, 1), np.float32),
            "state": spaces.Box(-1, 1, (3,), np.float64),
        }
    )
    before = {key: value.tobytes() for key, value in buffer.items()}
    for profile in ("clean", "strong"):
        env = PerturbObservation(ScriptedEnv(buffer, space), profile, keep_clean=True)
        observation, info = env.reset(seed=0)
        assert list(observation) == list(buffer)
        for key, value in buffer.items():
            assert not np.shares_memory(observation[key], value)
            assert value.tobytes() == before[key]
        for key, clean in info["clean_frames"].items():
            assert clean.tobytes() == before[key]
            assert not np.shares_memory(clean, buffer[key])
        assert observation["state"].tobytes() == before["state"]
        assert observation in env.observation_space


@pytest.mark.parametrize("shape", [(40, 32, 3), (40, 32, 1), (40, 32, 4), (3, 40, 32)])
def test_an_image_alone_is_perturbed_channels_last_or_first(shape: tuple[int, ...]) -> None:
    keys = ["observation"] if 4 in shape else None  # four channels may be four frames
    observation, info = PerturbObservation(image_env(shape), "medium", image_keys=keys).reset(seed=0)
    [done] = info["perturbation"]["metadata"]["observation"]
    channels = min(shape)
    assert (observation == 0).sum() == done["side"] ** 2 * channels == 100 * channels


def test_a_vector_passes_through_bit_for_bit() -> None:
    inner = vector_env()
    nothing: dict[str, list[str]] = {"image_keys": [], "depth_keys": []}
    for profile, chosen in (("clean", {}), ("strong", nothing)):
        observation, info = PerturbObservation(inner, profile, **chosen).reset(seed=0)
        assert observation.tobytes() == inner.observation.tobytes()
        assert info["perturbation"] == {
            "profile": profile,
            "severity": 1.0,
            "metadata": {},
            "changed": {},
        }


VECTORS = "got none; vector observations pass through unchanged; nothing would be perturbed."


@pytest.mark.parametrize(
    ("shape", "kind", "message"),
    [
        ((5,), np.float32, VECTORS),
        ((12,), np.uint8, VECTORS),
        ((20, 20, 9), np.uint8, "got only 'observation' (uint8 (20, 20, 9)), skipped as neither."),
        ((4, 32, 32, 3), np.uint8, "got only 'observation' (uint8 (4, 32, 32, 3)), skipped as neither."),
        ((32, 32, 3), np.float32, "got only 'observation' (float32 (32, 32, 3)), skipped as neither."),
    ],
)
def test_a_profile_that_would_perturb_nothing_is_refused(
    shape: tuple[int, ...], kind: type[np.generic], message: str
) -> None:
    inner = ScriptedEnv(np.ones(shape, kind), spaces.Box(0, 255, shape, kind))  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        PerturbObservation(inner, "strong")
    still = {"name": "still", "operators": [{"operator": "rgb_occlusion", "alpha": 0.0}]}
    for profile in ("clean", still):
        observation, _ = PerturbObservation(inner, profile).reset(seed=0)
        assert (observation == 1).all()


def test_a_stack_of_frames_and_a_profile_for_depth_alone_are_refused() -> None:
    plain = gym.make("roep_gym/Tabletop-v0", image_size=32)
    with pytest.raises(InvalidInputError, match=re.escape("'agentview_image' (uint8 (3, 32, 32, 3))")):
        PerturbObservation(gym.wrappers.FrameStackObservation(plain, 3), "strong")
    fog = {"name": "fog", "operators": [{"operator": "depth_dropout", "probability": 0.2}]}
    with pytest.raises(
        InvalidInputError, match="only 'agentview_image', on which none of its operators acts"
    ):
        PerturbObservation(plain, fog)
    with pytest.raises(InvalidInputError, match=re.escape(VECTORS)):
        PerturbObservation(gym.make("CartPole-v1"), "strong")


def test_severity_zero_is_the_identity_bit_for_bit() -> None:
    plain = gym.make("roep_gym/Tabletop-v0", cameras=["agentview", "robot0_eye_in_hand"], depth=True, object_state=True,
                     image_size=40)  # fmt: skip
    for (clean, _), (given, info) in zip(
        rollout(plain, identity=EpisodeIdentity("run-a", 1, 4, 3, 5)),
        rollout(tabletop("clean"), identity=EpisodeIdentity("run-a", 1, 4, 3, 5)),
        strict=True,
    ):
        assert same(clean, given)
        assert not any(info["perturbation"]["changed"].values())


def test_frames_that_were_not_rendered_stay_zero_with_the_metadata_of_the_key() -> None:
    rendered = rollout(tabletop())
    env = tabletop(keep_clean=True)
    env.get_wrapper_attr("request_frames")(False)
    for (_, full), (observation, info) in zip(rendered, rollout(env), strict=True):
        assert info["frames_rendered"] is False
        assert info["perturbation"]["metadata"] == full["perturbation"]["metadata"]
        assert info["perturbation"]["changed"] == info["clean_frames"] == {}
        for key in info["perturbation"]["metadata"]:
            assert not observation[key].any()


def test_chosen_keys_alone_are_perturbed() -> None:
    env = tabletop(image_keys=["agentview_image"], depth_keys=[], keep_clean=True)
    observation, info = env.reset(seed=0)
    assert set(info["perturbation"]["metadata"]) == {"agentview_image"}
    assert (observation["robot0_eye_in_hand_image"] > 0).all()


def test_depth_under_another_name_can_be_named() -> None:
    inner = ScriptedEnv(np.ones((20, 20), np.float32), spaces.Box(0.1, 3.0, (20, 20), np.float32))
    env = PerturbObservation(inner, "medium", depth_keys=["observation"])
    observation, _ = env.reset(seed=0)
    assert 0 < (observation == 0).sum() < 200
    assert observation in env.observation_space


def box(*shape: int, dtype: Any = np.uint8) -> spaces.Box:
    return spaces.Box(0, 255, shape, dtype)


@pytest.mark.parametrize(
    ("beside", "named"),
    [
        ({"front": box(40, 40, 3, dtype=np.float32)}, "'front' (float32 (40, 40, 3))"),
        ({"grey": box(40, 40)}, "'grey' (uint8 (40, 40))"),
        ({"wrist": spaces.Dict({"rgb": box(40, 40, 3)})}, "'wrist.rgb' (uint8 (40, 40, 3))"),
        ({"views": spaces.Tuple([box(40, 40, 3)])}, "'views.0' (uint8 (40, 40, 3))"),
        ({"last": box(4, 40, 40, 3)}, "'last' (uint8 (4, 40, 40, 3))"),
        ({"last": box(4, 40, 40)}, "'last' (stacked frames or channels) (4, 40, 40)"),
        ({"depth": box(40, 40, 1, dtype=np.float32)}, "'depth' (float32 (40, 40, 1))"),
    ],
)
def test_a_part_of_the_frames_is_perturbed_only_where_keys_say_so(beside: dict[str, Any], named: str) -> None:
    space = spaces.Dict({"rgb": box(40, 40, 3), "state": box(5, dtype=np.float32), **beside})
    env = ScriptedEnv(space.sample(), space)
    with pytest.raises(
        InvalidInputError, match=re.escape(f"before a part of them is perturbed, got {named}; ")
    ):
        PerturbObservation(env, "medium")
    assert PerturbObservation(env, "medium", image_keys=["rgb"], depth_keys=[]).frame_keys.images == ("rgb",)
    assert PerturbObservation(env, "clean").profile.is_identity


def test_frames_that_are_stacked_are_not_taken_for_channels() -> None:
    grey = box(40, 40)
    stacked = gym.wrappers.FrameStackObservation(ScriptedEnv(grey.sample(), grey), 3)
    assert stacked.observation_space.shape == (3, 40, 40)
    with pytest.raises(InvalidInputError, match="stacked frames or channels"):
        PerturbObservation(stacked, "medium")


def test_environments_without_a_seed_have_streams_of_their_own_and_with_one_the_same() -> None:
    def sides(seed: int | None) -> list[Any]:
        observation, info = tabletop().reset(seed=seed, options={"init_state": 3})
        return [done["side"] for done in info["perturbation"]["metadata"]["agentview_image"]] + [observation]

    assert not same(sides(None)[1], sides(None)[1])
    assert same(sides(5)[1], sides(5)[1])


def test_unseeded_environments_of_a_vector_differ_in_scene_and_perturbation() -> None:
    def make() -> gym.Env[Any, Any]:
        return PerturbObservation(gym.make("roep_gym/Tabletop-v0", image_size=40), "strong")

    def squares(seed: int | None) -> Any:
        env = gym.vector.SyncVectorEnv([make, make, make])
        observations = env.reset(seed=seed, options={"init_state": 3})[0]["agentview_image"]
        return [(image.max(axis=-1) == 0).tobytes() for image in observations]

    assert len(set(squares(None))) == 3
    assert len(set(squares(4))) == 3
    assert squares(4) == squares(4)


def test_perturbation_and_environment_name_an_unseeded_episode_alike() -> None:
    env = tabletop()
    _, info = env.reset()
    (named,) = [value for value in info.values() if isinstance(value, dict) and "run_id" in value]
    assert env._stream == (named["run_id"], named["seed_group"], named["episode"])


def test_an_identity_of_another_profile_is_refused() -> None:
    message = (
        "Expected an episode of the profile 'medium', which this wrapper applies, got 'strong'; "
        "build the environment of each condition with its own profile."
    )
    options = EpisodeIdentity("r", 0, 0, profile="strong").to_options()
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        tabletop().reset(options=options)
    del options["episode"]["profile"]
    tabletop().reset(options=options)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"profile": "medum"}, UnknownNameError, "Did you mean 'medium'?"),
        ({"image_keys": ["agentview_imag"]}, UnknownNameError, "Did you mean 'agentview_image'"),
        ({"image_keys": ["proprio"]}, InvalidInputError, "Expected 'proprio' to be a uint8 image"),
        (
            {"depth_keys": ["agentview_image"]},
            InvalidInputError,
            "Expected 'agentview_image' to be a float array",
        ),
    ],
)
def test_wrong_arguments_are_refused(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        tabletop(**arguments)


def test_other_observation_spaces_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="Expected a Dict or Box observation space"):
        PerturbObservation(ScriptedEnv(0, spaces.Discrete(3)))
