"""Models trained with Stable-Baselines3, as policies.

`ModelPolicy` asks the `predict` of a model, which prepares images and clips or scales actions as in training.
`SB3Policy` loads a saved model first. Needs nothing of the training script but the file, and the statistics of
`VecNormalize` if it was used.
"""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space, is_image_space_channels_first
from stable_baselines3.common.vec_env import VecNormalize

from roep_gym import seeding
from roep_gym.arguments import check_names
from roep_gym.contracts import RuntimeContract
from roep_gym.error import DependencyNotInstalledError, InvalidInputError
from roep_gym.policies.base import ObservationRequest, PolicyEpisode, PolicyInput
from roep_gym.policies.model_spaces import (
    check_not_forgotten,
    check_statistics,
    is_normalized,
    same_bounds,
    same_observation,
)
from roep_gym.policies.revision import file_revision
from roep_gym.registry import load_place
from roep_gym.typing import Array, Observation

__all__ = ["ALGORITHMS", "ModelPolicy", "SB3Policy", "algorithm_class", "check_device"]

ALGORITHMS: Mapping[str, str] = {
    **dict.fromkeys(("A2C", "DDPG", "PPO", "SAC", "TD3"), "stable_baselines3"),
    **dict.fromkeys(("ARS", "CrossQ", "RecurrentPPO", "TQC", "TRPO"), "sb3_contrib"),
}
"""Package of each algorithm with continuous actions."""


@dataclass
class _Episode:
    """An open episode: its seed, and the recurrent state after the last decision."""

    seed: int
    state: tuple[Array, ...] | None = None


class ModelPolicy:
    """One action a decision from a model in memory.

    Every prediction is a batch of one, since the last bits of a network's answer depend on the size of its batch and on
    the place in it. Sampled actions are keyed by the episode's seed and the step.

    Its contract is that of a model trained on this package's environment with its default arguments; it looks at the
    observations that the model's observation space names.

    Args:
        model: The model: what it sees and does is read from its `observation_space` and `action_space`.
        deterministic: Whether the mode of the action distribution is taken, or a sample.
        observation_key: Which observation a model without a `Dict` space takes.
        normalization: Statistics of the observations; None: they are not normalised.
        contract: Fields of the runtime contract that replace the declared ones.
        source: Where the weights come from.
        revision: Their revision; None: unknown.

    Raises:
        InvalidInputError: The model's spaces do not fit.
    """

    def __init__(
        self,
        model: Any,
        deterministic: bool = True,
        observation_key: str | None = None,
        normalization: VecNormalize | None = None,
        contract: Mapping[str, Any] | None = None,
        source: str = "in memory",
        revision: str | None = None,
    ) -> None:
        if not deterministic and getattr(model, "use_sde", False):
            raise InvalidInputError(
                "Expected deterministic=True for a model with state-dependent exploration, whose noise cannot be keyed."
            )
        if normalization is not None:
            check_statistics(normalization, model.observation_space)
        self._model, self._deterministic = model, deterministic
        self._source, self._revision, self._normalize = source, revision, normalization
        self._spaces = _observation_spaces(model.observation_space, observation_key)
        self._single = not isinstance(model.observation_space, spaces.Dict)
        own = model.action_space
        if not isinstance(own, spaces.Discrete) and not (isinstance(own, spaces.Box) and len(own.shape) == 1):
            raise InvalidInputError(
                f"Expected a model with Discrete actions or a one-dimensional Box of them, got {own}."
            )
        self._episodes: dict[str, _Episode] = {}
        frames = {name: space for name, space in self._spaces.items() if name.endswith(("_image", "_depth"))}
        cameras = tuple(dict.fromkeys(name.rsplit("_", 1)[0] for name in frames))
        image_size = max((max(space.shape) for space in frames.values()), default=128)
        self.observations = ObservationRequest(
            cameras=cameras,
            image_size=image_size,
            depth=any(name.endswith("_depth") for name in frames),
            object_state="object_state" in self._spaces,
        )
        seen = {"cameras": list(cameras), "resolution": image_size, "rotation": "upright"} if cameras else {}
        arm: dict[str, Any] = {}
        if own.shape == (7,):  # other actions have nothing to do with this package's arm
            arm = {"gripper_sign": "-1 open, +1 close", "eef_orientation": "axis_angle", "settle_steps": 10}
        self.contract = RuntimeContract.applicable(
            checkpoint_source=source,
            checkpoint_revision=revision,
            runtime_bridge="any",
            **seen,
            control_mode="relative",
            **arm,
            chunk_length=1,
            executed_steps=1,
            replan_after_intervention=False,
            precision=self._precision(),
            suite="any",
            mujoco="any",
            robosuite="any",
        ).replaced(contract)

    def check_environment(
        self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]
    ) -> None:
        """Compare the model's spaces with those of an environment, before an episode begins.

        Raises:
            InvalidInputError: An observation is missing or has another shape, kind or bounds than the model was trained
                on, or the actions have another shape or other bounds.
        """
        own = self._model.action_space
        boxes_fit = (
            isinstance(own, spaces.Box)
            and isinstance(action_space, spaces.Box)
            and same_bounds(own, action_space)
        )
        if not boxes_fit and own != action_space:
            raise InvalidInputError(
                f"Expected an environment with the actions that the model was trained on, {own}, got {action_space}; "
                "evaluate it with the control mode and the action space of its training."
            )
        boxes = observation_space.spaces if isinstance(observation_space, spaces.Dict) else {}
        for name, trained in self._spaces.items():
            box = boxes.get(name)
            normalized = self._normalize is not None and is_normalized(self._normalize, name)
            if not isinstance(box, spaces.Box) or not same_observation(trained, box, bounds=not normalized):
                raise InvalidInputError(
                    f"Expected an environment with the observation {name!r} that the model was trained on, {trained}, "
                    f"got {box or sorted(boxes)}; evaluate it with the observations of its training."
                )

    def observed(self) -> Mapping[str, Any]:
        """Return where the model was read from, the hash of its file, and the precision of its parameters."""
        return {
            "checkpoint_source": self._source,
            "checkpoint_revision": self._revision,
            "precision": self._precision(),
        }

    def begin(self, episode: PolicyEpisode) -> None:
        """Open an episode, with an empty recurrent state."""
        self._episodes[episode.key] = _Episode(episode.seed)

    def act(self, inputs: Sequence[PolicyInput]) -> list[Array]:
        """Return one chunk (1, action dimension) for each input.

        Raises:
            InvalidInputError: An observation is missing, or has another shape than the model was trained on.
        """
        return [self._predict(given) for given in inputs]

    def end(self, episode: str) -> None:
        """Forget an episode."""
        self._episodes.pop(episode, None)

    def close(self) -> None:
        """Forget all episodes."""
        self._episodes.clear()

    def _predict(self, given: PolicyInput) -> Array:
        episode = self._episodes[given.episode]
        with torch.random.fork_rng(devices=self._cuda_devices()):
            torch.manual_seed(seeding.seed("sb3", episode.seed, given.step))
            actions, episode.state = self._model.predict(
                self._observation(given),
                state=episode.state,
                episode_start=np.array([episode.state is None]),
                deterministic=self._deterministic,
            )
        return np.array(actions).reshape(1, -1)  # a Discrete action has no axis of its own

    def _observation(self, given: PolicyInput) -> Any:
        batch = {
            name: _checked(given.observation, name, space)[np.newaxis] for name, space in self._spaces.items()
        }
        observation: Any = next(iter(batch.values())) if self._single else batch
        return observation if self._normalize is None else self._normalize.normalize_obs(observation)

    def _precision(self) -> str:
        policy = getattr(self._model, "policy", None)
        return "n/a" if policy is None else str(next(policy.parameters()).dtype).removeprefix("torch.")

    def _cuda_devices(self) -> list[int]:
        device = getattr(self._model, "device", None)
        return [device.index or 0] if device is not None and device.type == "cuda" else []


class SB3Policy(ModelPolicy):
    """One action a decision from a saved model, as `ModelPolicy` has it.

    Args:
        algorithm: Name of the algorithm ("PPO"), or "module:attribute" of its class.
        path: File that the model's `save` wrote.
        deterministic: Whether the mode of the action distribution is taken, or a sample.
        device: PyTorch device.
        observation_key: Which observation a model without a `Dict` space takes.
        normalization: File of `VecNormalize.save`; "none": observations are not normalised; empty: the same, which is
            refused where the archive or a file beside it shows that training normalised.
        contract: Fields of the runtime contract that replace the declared ones.

    Raises:
        InvalidInputError: The file cannot be loaded as this algorithm, that of the normalisation holds none or was
            forgotten, the model's spaces do not fit, or the device is a GPU that is not there.
        DependencyNotInstalledError: The algorithm's package is missing.
    """

    def __init__(
        self,
        algorithm: str,
        path: str,
        deterministic: bool = True,
        device: str = "cpu",
        observation_key: str | None = None,
        normalization: str = "",
        contract: Mapping[str, Any] | None = None,
    ) -> None:
        check_device(device)
        file = _model_file(path)
        model, revision = _load(algorithm, file, device), file_revision(file)
        statistics = _normalization(Path(normalization)) if normalization not in ("", "none") else None
        if not normalization:
            check_not_forgotten(model, file)
        if statistics is not None:
            revision += "+" + file_revision(Path(normalization))
        super().__init__(model, deterministic, observation_key, statistics, contract, str(path), revision)


def check_device(device: Any) -> None:
    """Refuse a GPU that is not there, in whose place Stable-Baselines3 would silently take the CPU.

    Raises:
        InvalidInputError: The name is no device of PyTorch, or PyTorch finds no GPU.
    """
    try:
        kind = "cpu" if device == "auto" else torch.device(device).type
    except (RuntimeError, TypeError) as error:
        raise InvalidInputError(f"Expected a device of PyTorch or 'auto', got {device!r}.") from error
    if kind == "cuda" and not torch.cuda.is_available():
        raise InvalidInputError(
            f"Expected a GPU for the device {str(device)!r}, but PyTorch {torch.__version__} finds none here; write "
            "'cpu', or 'auto' to take a GPU where there is one."
        )


def _model_file(path: str) -> Path:
    for file in (Path(path), Path(f"{path}.zip")):
        if file.is_file():
            return file
    raise InvalidInputError(
        f"Expected a saved Stable-Baselines3 model at {path!r}, but there is no such file."
    )


def algorithm_class(algorithm: str) -> Any:
    """Return the class of an algorithm: its name ("PPO"), or "module:attribute".

    Raises:
        InvalidInputError: There is no such algorithm.
        DependencyNotInstalledError: Its package is missing.
    """
    if ":" in algorithm:
        return load_place(algorithm, "class of an algorithm")
    check_names("Stable-Baselines3 algorithm", [algorithm], ALGORITHMS)
    try:
        package = importlib.import_module(ALGORITHMS[algorithm])
    except ModuleNotFoundError as error:
        raise DependencyNotInstalledError(
            f"{algorithm} is an algorithm of sb3-contrib, which is not installed; run pip install sb3-contrib."
        ) from error
    return getattr(package, algorithm)


def _load(algorithm: str, file: Path, device: str) -> Any:
    loader = algorithm_class(algorithm)
    try:
        return loader.load(file, device=device)
    except Exception as error:
        raise InvalidInputError(
            f"Expected a model of {algorithm} in {str(file)!r}, got {type(error).__name__}: {error}."
        ) from error


def _normalization(file: Path) -> VecNormalize:
    try:
        with file.open("rb") as stream:
            normalization = pickle.load(stream)
        if not isinstance(normalization, VecNormalize):
            raise TypeError(f"an object of {type(normalization).__name__}")
    except Exception as error:
        raise InvalidInputError(
            f"Expected normalization to be a file that VecNormalize.save wrote, got {str(file)!r}: "
            f"{type(error).__name__}: {error}; leave it out if training did not normalise."
        ) from error
    normalization.training = False
    return normalization


def _observation_spaces(space: spaces.Space[Any], key: str | None) -> dict[str, spaces.Box]:
    """Return the spaces that a model takes, by observation."""
    named = space.spaces if isinstance(space, spaces.Dict) else {key: space}
    result: dict[str, spaces.Box] = {}
    for name, part in named.items():
        if name is None:
            raise InvalidInputError(
                f"Expected observation_key, since the model takes one unnamed observation of shape {space.shape}."
            )
        if not isinstance(part, spaces.Box):
            raise InvalidInputError(f"Expected the model's observation {name!r} to be a Box, got {part}.")
        result[name] = part
    return result


def _checked(observation: Observation, name: str, space: spaces.Box) -> Array:
    """Return an entry of an observation, with its channels where the model has them."""
    if name not in observation:
        raise InvalidInputError(
            f"Expected the observation {name!r} that the model was trained on, got {sorted(observation)}."
        )
    entry = observation[name]
    if is_image_space(space) and is_image_space_channels_first(space) and entry.ndim == 3:
        shape = (entry.shape[2], entry.shape[0], entry.shape[1])
    else:
        shape = entry.shape
    if shape != space.shape:
        raise InvalidInputError(
            f"Expected {name!r} of the shape {space.shape} that the model was trained on, got {entry.shape}."
        )
    return entry
