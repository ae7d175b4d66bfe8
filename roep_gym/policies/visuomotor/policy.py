"""The built-in policy that sees: it finds things in a camera image and moves the hand by a plan.

`VisuomotorPolicy` looks once a chunk, as deployed vision-language-action models do, and has nothing but the image, the
proprioception and the instruction. `BlindPolicy` follows the same plan to where things are on average; what it solves,
no image is needed for.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from roep_gym.contracts import RuntimeContract
from roep_gym.error import InvalidInputError, unknown_name
from roep_gym.policies import expert_motion, expert_skills
from roep_gym.policies.base import ObservationRequest, PolicyEpisode, PolicyInput
from roep_gym.policies.expert_motion import HandPose, PlannedMotion
from roep_gym.policies.expert_skills import SKILLS, anchors
from roep_gym.policies.revision import file_revision, source_revision
from roep_gym.policies.visuomotor import network
from roep_gym.policies.visuomotor.network import CAMERA, IMAGE_SIZE, Trained, read_words
from roep_gym.typing import Array, FloatArray

__all__ = ["WEIGHTS", "BlindPolicy", "VisuomotorPolicy"]

WEIGHTS = Path(__file__).parent / "weights"
"""Folder of the weights that ship with the package, one file a suite, and their checksums."""


@dataclass
class _Episode:
    """An open episode."""

    motion: PlannedMotion
    anchors: tuple[str, str]
    proprio: tuple[str, ...]
    trained: Trained
    instruction: str
    words: torch.Tensor


class VisuomotorPolicy:
    """Localisation from one image a chunk, and position control through the legs of a skill.

    Each look replaces the estimate of the look before: until the descent the hand follows the object's, during the
    transport the receptacle's; in between, and within a chunk, it trusts what it saw last.

    Args:
        chunk: Actions in a chunk, all of them meant to be executed.
        weights: Folder with the weights of each suite, as `roep-gym train-visuomotor` writes it; empty: those of the
            package.
        batched: Whether the decisions of a call are one forward pass. Their last bits then depend on the batch, so an
            evaluation repeats bit for bit only without.

    Raises:
        InvalidInputError: The chunk is no integer >= 1, or the weights are missing or not those of their checksums.
    """

    def __init__(self, chunk: int = 8, weights: str = "", batched: bool = False) -> None:
        if not isinstance(chunk, int) or isinstance(chunk, bool) or chunk < 1:
            raise InvalidInputError(f"Expected chunk to be an integer >= 1, got {chunk!r}.")
        self._chunk, self._batched = chunk, batched
        self._source = weights or "built-in"
        self._trained, revision = _load(Path(weights) if weights else WEIGHTS)
        code = source_revision(sys.modules[__name__], network, expert_motion, expert_skills)
        self._revision = f"{revision}+{code}"
        precisions = {str(p.dtype) for t in self._trained.values() for p in t.network.parameters()}
        self._precision = ", ".join(sorted(precisions)).replace("torch.", "")
        self._episodes: dict[str, _Episode] = {}

    @property
    def contract(self) -> RuntimeContract:
        """The runtime that the policy was trained and written for; its code prepares neither image nor action."""
        return RuntimeContract(
            checkpoint_source=self._source,
            checkpoint_revision=self._revision,
            runtime_bridge="any",
            cameras=[CAMERA],
            resolution=IMAGE_SIZE,
            rotation="upright",
            crop="n/a",
            resize="n/a",
            encoding="n/a",
            prompt_format="n/a",
            proprio_layout="n/a",
            control_mode="relative",
            action_scale="n/a",
            action_clip="n/a",
            unnorm_key="n/a",
            gripper_sign="-1 open, +1 close",
            eef_orientation="axis_angle",
            chunk_length=self._chunk,
            executed_steps=self._chunk,
            replan_after_intervention=False,
            precision=self._precision,
            settle_steps=10,
            suite="any",
            mujoco="any",
            robosuite="any",
        )

    @property
    def observations(self) -> ObservationRequest:
        """One camera, no depth, no poses."""
        return ObservationRequest(cameras=(CAMERA,), image_size=IMAGE_SIZE)

    def observed(self) -> Mapping[str, Any]:
        """Return where the weights were read from, the hash of weights and code, and the precision of the weights."""
        return {
            "checkpoint_source": self._source,
            "checkpoint_revision": self._revision,
            "precision": self._precision,
        }

    def begin(self, episode: PolicyEpisode) -> None:
        """Open an episode.

        Raises:
            UnknownNameError: The policy was not trained on the suite or the instruction.
            InvalidInputError: The episode does not name the entries of proprio.
        """
        if episode.suite not in self._trained:
            raise unknown_name("suite of the visuomotor policy", episode.suite, self._trained)
        trained = self._trained[episode.suite]
        tasks = trained.card["tasks"]
        if episode.instruction not in tasks:
            raise unknown_name("instruction of the visuomotor policy", episode.instruction, tasks)
        if "proprio" not in episode.fields:
            raise InvalidInputError(f"Expected the observation proprio, got {sorted(episode.fields)}.")
        task = tasks[episode.instruction]["task"]
        self._episodes[episode.key] = _Episode(
            PlannedMotion(SKILLS[episode.suite, task]),
            anchors(episode.suite, task),
            episode.fields["proprio"],
            trained,
            episode.instruction,
            read_words(episode.instruction, trained.network.vocabulary),
        )

    def act(self, inputs: Sequence[PolicyInput]) -> list[Array]:
        """Return one chunk (chunk, 7) float32 in [-1, 1] for each input.

        Raises:
            InvalidInputError: The image is missing or of another size.
        """
        episodes = [self._episodes[decision.episode] for decision in inputs]
        places = self._localise(episodes, inputs)
        return [self._plan(e, d, p) for e, d, p in zip(episodes, inputs, places, strict=True)]

    def end(self, episode: str) -> None:
        """Forget an episode."""
        self._episodes.pop(episode, None)

    def close(self) -> None:
        """Forget all episodes."""
        self._episodes.clear()

    def _localise(self, episodes: Sequence[_Episode], inputs: Sequence[PolicyInput]) -> FloatArray:
        """Return the places (n, 4), in metres."""
        images = [torch.from_numpy(_image(decision)) for decision in inputs]
        groups = [[i] for i in range(len(inputs))]
        if self._batched:
            suites = {id(episode.trained): episode.trained for episode in episodes}
            groups = [
                [i for i, e in enumerate(episodes) if e.trained is trained] for trained in suites.values()
            ]
        places = np.empty((len(inputs), 4))
        for group in groups:
            with torch.inference_mode():
                found = episodes[group[0]].trained.network(
                    torch.stack([images[i] for i in group]), torch.stack([episodes[i].words for i in group])
                )
            places[group] = found.numpy()
        return places

    def _plan(self, episode: _Episode, decision: PolicyInput, places: FloatArray) -> FloatArray:
        poses = {
            f"{name}_pos_{axis}": float(places[2 * i + j])
            for i, name in enumerate(episode.anchors)
            for j, axis in enumerate("xy")
        }
        proprio = dict(zip(episode.proprio, decision.observation["proprio"].tolist(), strict=True))
        hand = HandPose.from_proprio(proprio)
        return episode.motion.chunk(decision.step, hand, poses, self._chunk)


class BlindPolicy(VisuomotorPolicy):
    """The same plan to where things were on average in training, whatever the image shows: a control.

    Args:
        chunk: Actions in a chunk, all of them meant to be executed.
        weights: Folder of weights, whose model cards tell the mean places; empty: those of the package.
    """

    def __init__(self, chunk: int = 8, weights: str = "") -> None:
        super().__init__(chunk, weights)

    def _localise(self, episodes: Sequence[_Episode], inputs: Sequence[PolicyInput]) -> FloatArray:
        del inputs
        return np.array([e.trained.card["tasks"][e.instruction]["mean_places"] for e in episodes])


@lru_cache(maxsize=4)
def _load(folder: Path) -> tuple[Mapping[str, Trained], str]:
    """Return the networks by suite, and a digest of the weights; files that differ from their checksums are refused."""
    listing = folder / "SHA256SUMS"
    if not listing.is_file():
        raise InvalidInputError(
            f"Expected the weights of the visuomotor policy and their checksums in {folder}, got no SHA256SUMS."
        )
    trained = {}
    for line in listing.read_text().splitlines():
        checksum, name = line.split()
        path = folder / name
        if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != checksum:
            raise InvalidInputError(
                f"Expected {path} with the checksum in SHA256SUMS, got another or no file; install the package again, "
                "or train anew with `roep-gym train-visuomotor`."
            )
        trained[path.stem] = network.load(path)
    return trained, file_revision(listing)


def _image(decision: PolicyInput) -> Array:
    name = f"{CAMERA}_image"
    image = decision.observation.get(name)
    if image is None or image.shape != (IMAGE_SIZE, IMAGE_SIZE, 3) or image.dtype != np.uint8:
        got = "none" if image is None else f"{image.dtype} {image.shape}"
        raise InvalidInputError(
            f"Expected the observation {name!r}, uint8 ({IMAGE_SIZE}, {IMAGE_SIZE}, 3), got {got}; evaluate with the "
            f"camera {CAMERA!r} and image_size {IMAGE_SIZE}."
        )
    return np.array(image)
