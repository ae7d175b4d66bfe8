"""A training run with Stable-Baselines3, from its configuration to a model that `roep-gym evaluate` loads.

`train` writes into a folder: `model.zip`, `best_model.zip` and `evaluations.npz` of the evaluations in training,
`checkpoints/`, `tensorboard/`, `monitor/`, `normalization.pkl`, and, where a plan can rebuild the environment,
`evaluate.yaml`, a plan that evaluates the model. A training that ends early, at Ctrl-C or by an error, leaves the same
of what was learned until then.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, CheckpointCallback, EvalCallback
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from roep_gym.atomic_file import replacing
from roep_gym.error import InvalidInputError, PolicyOutputError, RoepError
from roep_gym.policies.sb3 import algorithm_class
from roep_gym.training.config import TrainingConfig
from roep_gym.training.evaluation_plan import write_evaluation_plan
from roep_gym.training.intervention_callback import InterventionCallback
from roep_gym.training.vector import make_sb3_vec_env

__all__ = ["TrainedModel", "train"]


class TrainedModel(NamedTuple):
    """What a training run leaves.

    Attributes:
        model: The model's file.
        plan: The plan that evaluates it; None where no plan reproduces the environment.
        without_plan: Why there is no plan, else empty.
    """

    model: Path
    plan: Path | None
    without_plan: str = ""


class _FixedEpisodes(EvalCallback):
    """Evaluates on the same episodes each time, so that the best model is not the one with the easiest episodes."""

    def _on_step(self) -> bool:
        if self.n_calls % self.eval_freq == 0:
            self.eval_env.seed(0)
        return bool(super()._on_step())


class _SaveNormalization(BaseCallback):
    """Saves the statistics that belong to the best model beside it."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def _on_step(self) -> bool:
        normalization = self.model.get_vec_normalize_env()
        if normalization is not None:
            normalization.save(str(self._file))
        return True


def train(config: TrainingConfig, out: Path) -> TrainedModel:
    """Train a model; an exception on the way, `KeyboardInterrupt` too, comes out after the model was saved.

    Args:
        config: The run.
        out: Folder of the run, without a model in it.

    Raises:
        InvalidInputError: The folder has a model or cannot be written, or algorithm, hyperparameters or environment
            do not fit.
        PolicyOutputError: The policy diverged; it is not saved.
        RoepError: The folder was moved or deleted meanwhile, or cannot be written.
    """
    if (out / "model.zip").exists():
        raise InvalidInputError(f"Expected a folder without a model, got {out}; choose another with --out.")
    algorithm = algorithm_class(config.algorithm)
    _check_numbers(algorithm, config.hyperparameters)
    try:
        (out / "monitor").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(f"Expected to write to {out}, got {error}; choose another folder.") from error
    env = _environments(config, out)
    try:
        model = algorithm(
            config.policy or _policy_for(env.observation_space),
            env,
            seed=config.seed,
            tensorboard_log=str(out / "tensorboard"),
            **config.hyperparameters,
        )
    except (TypeError, ValueError, AssertionError) as error:
        env.close()
        raise InvalidInputError(
            f"Expected hyperparameters that {config.algorithm} takes, got: {error}."
        ) from error
    eval_env = _eval_environment(config, env) if config.eval_every else None
    callback = CallbackList(_callbacks(config, out, eval_env))
    try:
        return _learn(model, callback, config, out)
    except OSError as error:
        raise RoepError(
            f"Expected to write to {out}, got {error}; make room or choose another folder."
        ) from error
    finally:
        env.close()
        if eval_env is not None:
            eval_env.close()


def _learn(model: BaseAlgorithm, callback: BaseCallback, config: TrainingConfig, out: Path) -> TrainedModel:
    try:
        model.learn(
            config.total_timesteps, callback, log_interval=config.log_interval, tb_log_name=config.name
        )
    except BaseException:
        if model.num_timesteps:
            _save(model, config, out)
            callback.on_training_end()
        raise
    return _save(model, config, out)


def _check_numbers(algorithm: type[BaseAlgorithm], hyperparameters: Mapping[str, Any]) -> None:
    """Refuse text for a number, which Stable-Baselines3 would mostly find out in the middle of the training."""
    known = inspect.signature(algorithm).parameters
    for name, value in hyperparameters.items():
        is_number = name in known and type(known[name].default) in (int, float)
        if is_number and (value is None or isinstance(value, str)):
            raise InvalidInputError(
                f"Expected the hyperparameter {name} to be a number, got {value!r}; YAML takes 3e-4 for text, write "
                "3.0e-4."
            )


def _save(model: BaseAlgorithm, config: TrainingConfig, out: Path) -> TrainedModel:
    if not all(weights.isfinite().all() for weights in model.policy.parameters()):
        raise PolicyOutputError(
            f"Expected finite weights after {model.num_timesteps} steps, got a policy that diverged, which is not "
            "saved; go back to a checkpoint or to best_model.zip, or train with a lower learning_rate."
        )
    in_place = (out / "monitor").is_dir()
    with replacing(out / "model.zip") as file:
        model.save(file)
    normalization = model.get_vec_normalize_env()
    if normalization is not None:
        with replacing(out / "normalization.pkl") as file:
            normalization.save(str(file))
    trained = _planned(config, out)
    if not in_place:
        raise RoepError(
            f"Expected {out} to stay where it is while the training goes on, but it was moved or deleted: the model "
            f"is in {trained.model}, without the logs and checkpoints until then."
        )
    return trained


def _environments(config: TrainingConfig, out: Path) -> VecEnv:
    env = make_sb3_vec_env(
        config.environment,
        config.n_envs,
        run_id=config.name,
        seed=config.seed,
        subprocesses=config.subprocesses,
        monitor_folder=out / "monitor",
    )
    return _normalized(env, training=True) if config.normalize else env


def _eval_environment(config: TrainingConfig, env: VecEnv) -> VecEnv:
    eval_env = make_sb3_vec_env(
        config.environment.with_changes(config.eval_environment), run_id=f"{config.name}/evaluation"
    )
    if config.normalize:
        eval_env = _normalized(eval_env, training=False)
    if eval_env.observation_space != env.observation_space:
        raise InvalidInputError(
            f"Expected eval_environment to have the observations of training, {env.observation_space}, got "
            f"{eval_env.observation_space}."
        )
    return eval_env


def _callbacks(config: TrainingConfig, out: Path, eval_env: VecEnv | None) -> list[BaseCallback]:
    callbacks: list[BaseCallback] = [InterventionCallback()]
    if eval_env is not None:
        best = _SaveNormalization(out / "best_normalization.pkl") if config.normalize else None
        evaluation = _FixedEpisodes(
            eval_env,
            callback_on_new_best=best,
            n_eval_episodes=config.eval_episodes,
            eval_freq=max(config.eval_every // config.n_envs, 1),
            log_path=str(out),
            best_model_save_path=str(out),
            verbose=0,
        )
        callbacks.append(evaluation)
    if config.checkpoint_every:
        callbacks.append(
            CheckpointCallback(
                max(config.checkpoint_every // config.n_envs, 1),
                str(out / "checkpoints"),
                config.name,
                save_vecnormalize=config.normalize,
            )
        )
    return callbacks


def _policy_for(space: spaces.Space[Any]) -> str:
    if isinstance(space, spaces.Dict):
        return "MultiInputPolicy"
    return "CnnPolicy" if is_image_space(space) else "MlpPolicy"


def _normalized(env: VecEnv, *, training: bool) -> VecNormalize:
    space = env.observation_space
    keys = None
    if isinstance(space, spaces.Dict):
        keys = [key for key, box in space.spaces.items() if len(box.shape or ()) == 1]
    return VecNormalize(env, training=training, norm_reward=False, norm_obs_keys=keys)


def _planned(config: TrainingConfig, out: Path) -> TrainedModel:
    model, plan = out / "model.zip", out / "evaluate.yaml"
    try:
        write_evaluation_plan(
            plan,
            name=config.name,
            algorithm=config.algorithm,
            model=model,
            environment=config.environment,
            normalization=out / "normalization.pkl" if config.normalize else None,
        )
    except InvalidInputError as error:
        return TrainedModel(model, None, str(error))
    return TrainedModel(model, plan)
