"""The built-in policy that sees: its network, its weights, its plan and its blind control."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from roep_gym.error import InvalidInputError, RoepError
from roep_gym.policies.base import ObservationRequest, Policy, PolicyEpisode, PolicyInput
from roep_gym.policies.contract_suite import PolicyContractTests
from roep_gym.policies.expert_skills import SKILLS, anchors
from roep_gym.policies.registry import make_policy
from roep_gym.policies.visuomotor import network
from roep_gym.policies.visuomotor.policy import WEIGHTS, BlindPolicy, VisuomotorPolicy
from roep_gym.training.visuomotor.build import build
from roep_gym.training.visuomotor.collect import CollectionConfig, Scenes
from roep_gym.training.visuomotor.train import FitConfig, train

INSTRUCTION = "put the bowl on the plate"


class TestContract(PolicyContractTests):
    """The policy fulfils the protocol of every policy."""

    def make_policy(self) -> Policy:
        """Return the policy with the weights of the package."""
        return make_policy("visuomotor")


class TestBlindContract(PolicyContractTests):
    """So does its control."""

    def make_policy(self) -> Policy:
        """Return the control."""
        return make_policy("blind")


def decision(policy: VisuomotorPolicy, image: np.ndarray, step: int = 0) -> PolicyInput:
    suite = TestContract()
    episode = suite.make_episode(0)
    policy.begin(episode)
    given = suite.make_input(policy.observations, episode, step)
    return given._replace(observation={**given.observation, "agentview_image": image})


def square_scenes(count: int) -> Scenes:
    """Frames of a light square on dark ground, whose place is linear in the pixels."""
    random = np.random.default_rng(0)
    corners = random.integers(8, 104, (count, 2))
    images = random.integers(0, 40, (count, 128, 128, 3), dtype=np.uint8)
    for image, (row, column) in zip(images, corners, strict=True):
        image[row : row + 12, column : column + 12] = 220
    places = (np.repeat(corners[:, ::-1], 2, axis=0).reshape(count, 4) - 56) / 400.0
    points = np.repeat((corners + 6) / 64.0 - 1.0, 2, axis=0).reshape(count, 2, 2)
    held = np.zeros(count, dtype=bool)
    return Scenes(
        images, places.astype(np.float32), points.astype(np.float32), held, np.arange(count, dtype=np.int32)
    )


def test_training_finds_a_square() -> None:
    outcome = train({INSTRUCTION: square_scenes(320)}, FitConfig(epochs=12, batch_size=32))
    scenes = square_scenes(320)
    spread = 100.0 * float(np.linalg.norm(scenes.places[:, :2] - scenes.places[:, :2].mean(0), axis=1).mean())
    assert 100.0 * float(np.median(outcome.errors[INSTRUCTION])) < spread / 4


def test_training_is_repeatable_and_leaves_torch_alone() -> None:
    config = FitConfig(epochs=1, batch_size=16)
    state = torch.get_rng_state()
    first = train({INSTRUCTION: square_scenes(40)}, config).network
    second = train({INSTRUCTION: square_scenes(40)}, config).network
    assert torch.equal(state, torch.get_rng_state())
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)


def test_weights_survive_a_round_trip(tmp_path: Path) -> None:
    made = network.Localizer(["bowl", "plate"]).eval()
    network.save(tmp_path / "w.safetensors", network.Trained(made, {"tasks": {}}))
    read = network.load(tmp_path / "w.safetensors")
    image = torch.randint(0, 255, (1, 128, 128, 3), dtype=torch.uint8)
    words = network.read_words("bowl plate", ["bowl", "plate"])[None]
    assert torch.equal(made(image, words), read.network(image, words))
    assert read.card == {"tasks": {}}


def test_changed_weights_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "weights"
    shutil.copytree(WEIGHTS, folder)
    file = next(folder.glob("*.safetensors"))
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(InvalidInputError, match="SHA256SUMS"):
        VisuomotorPolicy(weights=str(folder))


def test_missing_weights_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="SHA256SUMS"):
        VisuomotorPolicy(weights=str(tmp_path))


def test_a_broken_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(b"nothing")
    with pytest.raises(InvalidInputError, match="train-visuomotor"):
        network.load(tmp_path / "w.safetensors")


@pytest.mark.parametrize("chunk", [0, -1, 2.0, True])
def test_a_chunk_is_a_positive_integer(chunk: object) -> None:
    with pytest.raises(InvalidInputError, match="chunk"):
        VisuomotorPolicy(chunk=chunk)  # type: ignore[arg-type]


def test_an_instruction_of_another_task_is_refused() -> None:
    episode = replace(TestContract().make_episode(0), instruction="open the middle drawer of the cabinet")
    with pytest.raises(RoepError, match="instruction"):
        VisuomotorPolicy().begin(episode)


def test_an_image_of_another_size_is_refused() -> None:
    policy = VisuomotorPolicy()
    with pytest.raises(InvalidInputError, match="image_size"):
        policy.act([decision(policy, np.zeros((256, 256, 3), dtype=np.uint8))])


def test_it_looks_and_its_control_does_not() -> None:
    dark, light = np.zeros((128, 128, 3), dtype=np.uint8), np.full((128, 128, 3), 200, dtype=np.uint8)
    for policy, same in ((VisuomotorPolicy(), False), (BlindPolicy(), True)):
        chunks = [policy.act([decision(policy, image)])[0] for image in (dark, light)]
        assert np.array_equal(*chunks) == same


def test_weights_cover_the_papers_tasks_and_stay_small() -> None:
    files = list(WEIGHTS.glob("*.safetensors"))
    cards = [network.load(file).card for file in files]
    assert {(card["suite"], task["task"]) for card in cards for task in card["tasks"].values()} == set(SKILLS)
    assert sum(file.stat().st_size for file in files) < 10e6


def test_cards_tell_an_error_below_a_centimetre() -> None:
    for file in WEIGHTS.glob("*.safetensors"):
        for task in network.load(file).card["tasks"].values():
            assert task["localisation_error_cm"]["object"]["median"] < 1.0


def test_a_batch_agrees_with_single_decisions() -> None:
    suite, chunks = TestContract(), []
    for batched in (False, True):
        policy = VisuomotorPolicy(batched=batched)
        episodes = [suite.make_episode(number) for number in range(5)]
        for episode in episodes:
            policy.begin(episode)
        chunks.append(policy.act([suite.make_input(policy.observations, e, 0) for e in episodes]))
    np.testing.assert_allclose(chunks[0], chunks[1], atol=1e-4)


def test_it_asks_for_one_camera_and_no_poses() -> None:
    assert VisuomotorPolicy().observations == ObservationRequest(cameras=("agentview",), image_size=128)


def test_anchors_name_object_and_receptacle() -> None:
    assert anchors("libero_goal", "put_the_bowl_on_the_plate") == ("akita_black_bowl_1", "plate_1")
    assert anchors("libero_goal", "turn_on_the_stove") == ("flat_stove_1", "flat_stove_1")


def test_episodes_without_proprio_are_refused() -> None:
    episode = PolicyEpisode("k", "libero_goal", "put_the_bowl_on_the_plate", INSTRUCTION, 0, {})
    with pytest.raises(InvalidInputError, match="proprio"):
        VisuomotorPolicy().begin(episode)


def test_erasing_is_a_share() -> None:
    with pytest.raises(InvalidInputError, match="erasing"):
        FitConfig(erasing=1.5)


def test_without_erasing_another_network_is_trained() -> None:
    scenes = {INSTRUCTION: square_scenes(40)}
    config = FitConfig(epochs=1, batch_size=16)
    erased = train(scenes, config).network
    whole = train(scenes, replace(config, erasing=0.0)).network
    assert not all(torch.equal(a, b) for a, b in zip(erased.parameters(), whole.parameters(), strict=True))


@pytest.mark.parametrize("suites", [(), ("libero_goals",)])
def test_suites_that_cannot_be_trained_are_refused(tmp_path: Path, suites: tuple[str, ...]) -> None:
    with pytest.raises(RoepError, match="libero_goal"):
        build(
            tmp_path,
            suites=suites,
            collecting=CollectionConfig(),
            training=FitConfig(),
            workers=1,
            report=print,
        )
