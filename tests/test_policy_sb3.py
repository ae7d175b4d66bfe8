"""Stable-Baselines3 models as policies."""

from __future__ import annotations

import hashlib
import pickle
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.wrappers import FilterObservation, FlattenObservation
from one_thread import one_thread  # noqa: F401
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from roep_gym.envs.tabletop_env import TabletopEnv
from roep_gym.error import DependencyNotInstalledError, InvalidInputError, UnknownNameError
from roep_gym.evaluate.plan import EnvironmentSettings, EvaluationPlan, ModelSpec, resolve
from roep_gym.evaluate.run.environment_stack import check_runnable
from roep_gym.policies.base import ObservationRequest, Policy, PolicyEpisode, PolicyInput
from roep_gym.policies.contract_suite import PolicyContractTests
from roep_gym.policies.registry import make_policy
from roep_gym.policies.sb3 import SB3Policy


def network(**arguments: Any) -> dict[str, Any]:
    """Return new arguments for a small network; Stable-Baselines3 writes into them."""
    return {"net_arch": [16], **arguments}


def table(**arguments: Any) -> TabletopEnv:
    return TabletopEnv(cameras=["agentview"], image_size=36, depth=True, **arguments)


def proprio_only() -> gym.Env[Any, Any]:
    return FilterObservation(table(), ["proprio"])


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of untrained models: frames and proprio (ppo), proprio alone (sac), one plain vector (flat)."""
    folder = tmp_path_factory.mktemp("models")
    frames = network(features_extractor_kwargs={"cnn_output_dim": 16})
    PPO(
        "MultiInputPolicy", table(), n_steps=8, batch_size=8, policy_kwargs=frames, seed=0, device="cpu"
    ).save(folder / "ppo")
    SAC(
        "MultiInputPolicy", proprio_only(), policy_kwargs=network(), buffer_size=10, seed=0, device="cpu"
    ).save(folder / "sac")
    flat = FlattenObservation(proprio_only())
    PPO("MlpPolicy", flat, n_steps=8, batch_size=8, policy_kwargs=network(), seed=0, device="cpu").save(
        folder / "flat"
    )
    PPO("MlpPolicy", flat, n_steps=8, batch_size=8, policy_kwargs=network(), use_sde=True, device="cpu").save(
        folder / "sde"
    )
    return folder


class SB3ContractTests(PolicyContractTests):
    @pytest.fixture(autouse=True)
    def _models(self, models: Path) -> None:
        self.models = models

    def make_episode(self, number: int) -> PolicyEpisode:
        size = table().observation_space["proprio"].shape[0]
        fields = {"proprio": tuple(f"p{i}" for i in range(size))}
        return PolicyEpisode(f"suite/0/{number}", "tabletop", "carry", "carry", 1000 + number, fields)


class TestFrames(SB3ContractTests):
    def make_policy(self) -> Policy:
        return make_policy("sb3", algorithm="PPO", path=str(self.models / "ppo.zip"))


class TestSampledActions(SB3ContractTests):
    def make_policy(self) -> Policy:
        return make_policy(
            "sb3",
            algorithm="PPO",
            path=str(self.models / "flat"),
            observation_key="proprio",
            deterministic=False,
        )


class TestOffPolicy(SB3ContractTests):
    def make_policy(self) -> Policy:
        return make_policy("sb3", algorithm="SAC", path=str(self.models / "sac"))


class Recurrent:
    """A stand-in with the interface of sb3-contrib's recurrent models: its action counts the steps since the start."""

    observation_space = gym.spaces.Dict({"proprio": gym.spaces.Box(-np.inf, np.inf, (9,), np.float32)})
    action_space = gym.spaces.Box(-1, 1, (7,), np.float32)
    device = torch.device("cpu")
    policy = torch.nn.Linear(1, 1)

    @classmethod
    def load(cls, path: Path, device: str) -> Recurrent:
        return cls()

    def predict(self, observation: Any, state: Any, episode_start: Any, deterministic: bool) -> Any:
        n = len(observation["proprio"])
        memory = np.zeros((2, n, 3)) if state is None else state[0]
        memory = memory * ~episode_start[:, np.newaxis] + 1.0
        actions = np.tile(memory[0, :, :1], 7) / 100 + observation["proprio"][:, :1] / 1000
        return actions.astype(np.float32), (memory, memory)


class TestRecurrentState(SB3ContractTests):
    def make_policy(self) -> Policy:
        return make_policy(
            "sb3",
            algorithm="test_policy_sb3:Recurrent",
            path=str(self.models / "sac"),
        )

    def make_episode(self, number: int) -> PolicyEpisode:
        fields = {"proprio": tuple(f"p{i}" for i in range(9))}
        return PolicyEpisode(f"suite/0/{number}", "tabletop", "carry", "carry", number, fields)

    def test_state_counts_the_steps_of_its_own_episode(self) -> None:
        policy = self.make_policy()
        for key in ("a", "b"):
            policy.begin(PolicyEpisode(key, "tabletop", "carry", "carry", 0))
        counts: dict[str, list[float]] = {"a": [], "b": []}
        for keys in (["a"], ["a", "b"], ["b"], ["b", "a"]):
            given = [PolicyInput(key, 0, "", {"proprio": np.zeros(9, dtype=np.float32)}) for key in keys]
            for key, chunk in zip(keys, policy.act(given), strict=True):
                counts[key].append(round(float(chunk[0, 0]) * 100, 3))
        assert counts == {"a": [1, 2, 3], "b": [1, 2, 3]}


@pytest.mark.parametrize(("name", "algorithm"), [("ppo", PPO), ("sac", SAC)])
def test_actions_are_those_of_the_model(models: Path, name: str, algorithm: Any):
    env = table() if name == "ppo" else proprio_only()
    observation, _ = env.reset(seed=1)
    expected, _ = algorithm.load(models / name, device="cpu").predict(observation, deterministic=True)
    policy = SB3Policy(algorithm.__name__, str(models / name))
    policy.begin(PolicyEpisode("e", "tabletop", "carry", "carry", 0))
    full, _ = table().reset(seed=1)
    chunk = policy.act([PolicyInput("e", 0, "", full)])[0]
    np.testing.assert_array_equal(chunk, expected[np.newaxis])


def test_requests_what_the_model_was_trained_on(models: Path):
    assert SB3Policy("PPO", str(models / "ppo")).observations == ObservationRequest(("agentview",), 36, True)
    assert SB3Policy("SAC", str(models / "sac")).observations == ObservationRequest()


def test_revision_is_the_hash_of_the_file(models: Path):
    digest = hashlib.sha256((models / "ppo.zip").read_bytes()).hexdigest()
    policy = SB3Policy("PPO", str(models / "ppo"))
    assert policy.contract.checkpoint_revision == f"sha256:{digest[:16]}"
    assert policy.observed()["checkpoint_revision"] == policy.contract.checkpoint_revision
    pinned = SB3Policy("PPO", str(models / "ppo"), contract={"checkpoint_revision": "sha256:other"})
    assert pinned.contract.checkpoint_revision == "sha256:other"
    assert pinned.observed()["checkpoint_revision"] == f"sha256:{digest[:16]}"


def test_samples_differ_by_seed_and_step_and_leave_the_global_stream(models: Path):
    policy = SB3Policy("PPO", str(models / "ppo"), deterministic=False)
    observation, _ = table().reset(seed=1)
    before = torch.random.get_rng_state()
    drawn = []
    for seed, step in ((0, 0), (0, 1), (1, 0)):
        policy.begin(PolicyEpisode("e", "tabletop", "carry", "carry", seed))
        drawn.append(policy.act([PolicyInput("e", step, "", observation)])[0].tobytes())
    assert len(set(drawn)) == 3
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_plain_vector_needs_a_name(models: Path):
    with pytest.raises(InvalidInputError, match="Expected observation_key"):
        SB3Policy("PPO", str(models / "flat"))
    policy = SB3Policy("PPO", str(models / "flat"), observation_key="proprio")
    policy.begin(PolicyEpisode("e", "tabletop", "carry", "carry", 0))
    observation, _ = table().reset(seed=1)
    expected, _ = PPO.load(models / "flat", device="cpu").predict(observation["proprio"], deterministic=True)
    np.testing.assert_array_equal(policy.act([PolicyInput("e", 0, "", observation)])[0][0], expected)


def test_normalisation_of_training_is_applied(models: Path, tmp_path: Path):
    normalized = VecNormalize(DummyVecEnv([proprio_only]))
    normalized.reset()
    for _ in range(5):
        normalized.step(np.full((1, 7), 0.5))
    normalized.save(str(tmp_path / "normalize.pkl"))
    policy = SB3Policy("SAC", str(models / "sac"), normalization=str(tmp_path / "normalize.pkl"))
    policy.begin(PolicyEpisode("e", "tabletop", "carry", "carry", 0))
    observation, _ = table().reset(seed=1)
    seen = normalized.normalize_obs({"proprio": observation["proprio"]})
    expected, _ = SAC.load(models / "sac", device="cpu").predict(seen, deterministic=True)
    np.testing.assert_array_equal(policy.act([PolicyInput("e", 0, "", observation)])[0][0], expected)
    assert str(policy.contract.checkpoint_revision).count("sha256:") == 2


@pytest.mark.parametrize(
    ("content", "got"),
    [(None, "FileNotFoundError"), (b"", "EOFError"), (pickle.dumps([1]), "TypeError: an object of list")],
)
def test_a_file_without_a_normalisation_is_one_sentence(models: Path, tmp_path: Path, content: Any, got: str):
    file = tmp_path / "normalize.pkl"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidInputError, match=f"that VecNormalize.save wrote, got .*{got}.*; leave it out"):
        SB3Policy("SAC", str(models / "sac"), normalization=str(file))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"agentview_image": None}, "Expected the observation 'agentview_image' that the model was trained"),
        (
            {"agentview_image": np.zeros((64, 64, 3), dtype=np.uint8)},
            r"'agentview_image' of the shape \(3, 36, 36\) that the model was trained on, got \(64, 64, 3\)",
        ),
        ({"proprio": np.zeros(2, dtype=np.float32)}, r"'proprio' of the shape .* got \(2,\)"),
    ],
)
def test_says_which_observation_does_not_fit(models: Path, change: dict[str, Any], message: str):
    policy = SB3Policy("PPO", str(models / "ppo"))
    policy.begin(PolicyEpisode("e", "tabletop", "carry", "carry", 0))
    observation = {**table().reset(seed=1)[0], **change}
    observation = {name: entry for name, entry in observation.items() if entry is not None}
    with pytest.raises(InvalidInputError, match=message):
        policy.act([PolicyInput("e", 0, "", observation)])


def test_a_missing_extra_package_is_named(models: Path, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "sb3_contrib", None)
        with pytest.raises(DependencyNotInstalledError, match="run pip install sb3-contrib"):
            SB3Policy("RecurrentPPO", str(models / "ppo"))


@pytest.mark.parametrize(
    ("algorithm", "name", "arguments", "error", "message"),
    [
        ("PP0", "ppo", {}, UnknownNameError, "Did you mean 'PPO'"),
        ("PPO", "absent", {}, InvalidInputError, "there is no such file"),
        ("SAC", "ppo", {}, InvalidInputError, "Expected a model of SAC in"),
        (
            "no_such_module:X",
            "ppo",
            {},
            InvalidInputError,
            "Expected a class of an algorithm at 'no_such_module:X'",
        ),
        ("stable_baselines3:X", "ppo", {}, InvalidInputError, "Expected a class of an algorithm at"),
        ("PPO", "ppo", {"contract": {"precison": ""}}, UnknownNameError, "Did you mean 'precision'"),
        (
            "PPO",
            "sde",
            {"observation_key": "proprio", "deterministic": False},
            InvalidInputError,
            "Expected deterministic=True",
        ),
    ],
)
def test_refuses(
    models: Path, algorithm: str, name: str, arguments: dict[str, Any], error: type[Exception], message: str
):
    with pytest.raises(error, match=message):
        SB3Policy(algorithm, str(models / name), **arguments)


def statistics(env: Any, file: Path) -> str:
    normalized = VecNormalize(DummyVecEnv([env]))
    normalized.reset()
    normalized.save(str(file))
    return str(file)


@pytest.mark.parametrize(
    "env",
    [
        lambda: FlattenObservation(proprio_only()),
        lambda: FilterObservation(table(object_state=True), ["proprio", "object_state"]),
        lambda: FilterObservation(table(object_state=True), ["object_state"]),
    ],
)
def test_statistics_of_other_observations_are_refused_at_loading(models: Path, tmp_path: Path, env: Any):
    file = statistics(env, tmp_path / "other.pkl")
    with pytest.raises(InvalidInputError, match="Expected the statistics of the observations"):
        SB3Policy("SAC", str(models / "sac"), normalization=file)


def test_statistics_that_would_broadcast_are_refused(models: Path, tmp_path: Path):
    file = statistics(lambda: FlattenObservation(proprio_only()), tmp_path / "one.pkl")
    normalization = VecNormalize.load(file, DummyVecEnv([lambda: FlattenObservation(proprio_only())]))
    normalization.obs_rms.mean, normalization.obs_rms.var = np.zeros(1), np.ones(1)
    normalization.save(file)
    with pytest.raises(InvalidInputError, match="Expected the statistics of the observations"):
        SB3Policy("PPO", str(models / "flat"), observation_key="proprio", normalization=file)


@pytest.mark.parametrize("name", ["vecnormalize.pkl", "vec_normalize.pkl", "ppo_vecnormalize_64_steps.pkl"])
def test_a_forgotten_normalisation_beside_the_model_is_noticed(models: Path, tmp_path: Path, name: str):
    shutil.copy(models / "sac.zip", tmp_path)
    file = statistics(proprio_only, tmp_path / name)
    with pytest.raises(InvalidInputError, match=f"since {name} lies beside it, got none; name the file"):
        SB3Policy("SAC", str(tmp_path / "sac"))
    SB3Policy("SAC", str(tmp_path / "sac"), normalization="none")
    SB3Policy("SAC", str(tmp_path / "sac"), normalization=file)


def test_a_forgotten_normalisation_in_the_archive_is_noticed(tmp_path: Path):
    env = VecNormalize(DummyVecEnv([proprio_only]))
    model = PPO("MultiInputPolicy", env, n_steps=8, batch_size=8, policy_kwargs=network(), device="cpu")
    model.learn(8).save(tmp_path / "model")
    with pytest.raises(InvalidInputError, match="since its archive shows a VecNormalize, got none"):
        SB3Policy("PPO", str(tmp_path / "model"))
    SB3Policy("PPO", str(tmp_path / "model"), normalization="none")


def test_a_gpu_that_is_not_there_is_one_sentence(models: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(
        InvalidInputError, match=r"Expected a GPU for the device 'cuda:0', but PyTorch .* none"
    ):
        SB3Policy("SAC", str(models / "sac"), device="cuda:0")
    with pytest.raises(InvalidInputError, match="Expected a device of PyTorch or 'auto', got 'gpu'"):
        SB3Policy("SAC", str(models / "sac"), device="gpu")


class OtherBounds(gym.ActionWrapper[Any, Any, Any]):
    """Actions in [-2, 2]."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        super().__init__(env)
        self.action_space = gym.spaces.Box(-2, 2, (7,), np.float32)

    def action(self, action: Any) -> Any:
        return action / 2


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (lambda: OtherBounds(proprio_only()), "the actions that the model was trained on, Box\\(-2"),
        (
            lambda: gym.wrappers.RescaleObservation(
                gym.wrappers.TransformObservation(
                    FlattenObservation(proprio_only()), np.tanh, gym.spaces.Box(-1, 1, (9,), np.float32)
                ),
                np.float32(0),
                np.float32(1),
            ),
            "the observation 'proprio' that the model was trained on, Box\\(0",
        ),
    ],
)
def test_a_model_of_another_environment_is_refused_before_the_first_episode(
    tmp_path: Path, env: Any, message: str
):
    made = env()
    single = isinstance(made.observation_space, gym.spaces.Box)
    PPO("MlpPolicy" if single else "MultiInputPolicy", made, n_steps=8, batch_size=8, device="cpu").save(
        tmp_path / "m"
    )
    arguments = {"algorithm": "PPO", "path": str(tmp_path / "m"), "observation_key": "proprio"}
    plan = EvaluationPlan(models=(ModelSpec("m", "sb3", arguments),), tasks=("tabletop/reach",))
    with pytest.raises(InvalidInputError, match=message):
        check_runnable(resolve(plan))


def test_a_model_of_this_environment_passes(models: Path):
    arguments = {"algorithm": "PPO", "path": str(models / "ppo")}
    plan = EvaluationPlan(models=(ModelSpec("m", "sb3", arguments),), tasks=("tabletop/reach",))
    check_runnable(resolve(plan))
    wrong = replace(plan, environment=EnvironmentSettings(image_size=64))
    with pytest.raises(
        InvalidInputError, match=r"agentview_image.* of 36 x 36 pixels.*got it in the shape \(64, 64, 3\)"
    ):
        check_runnable(resolve(wrong))
