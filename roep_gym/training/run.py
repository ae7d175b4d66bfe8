"""A training run with Stable-Baselines3, from its configuration to a model that `roep-gym evaluate` loads.

`train` writes into a folder: `model.zip`, `best_model.zip` and `evaluations.npz` of the evaluations in training,
`checkpoints/`, `tensorboard/`, `monitor/`, `normalization.pkl`, and, where a plan can rebuild the environment,
`evaluate.yaml`, a plan that evaluates the model. A training that ends early, at Ctrl-C or by an error, leaves the same
of what was learned until then, and `resume/`, from which it is continued.
"""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, CallbackList, CheckpointCallback, EvalCallback
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from roep_gym import seeding
from roep_gym.atomic_file import replacing, writing
from roep_gym.error import InvalidInputError, PolicyOutputError, RoepError
from roep_gym.policies.sb3 import algorithm_class
from roep_gym.training.callbacks import InterventionCallback
from roep_gym.training.config import TrainingConfig
from roep_gym.training.evaluation_plan import write_evaluation_plan
from roep_gym.training.hyperparameters import policy_for, read_hyperparameters
from roep_gym.training.resume import (
    CONFIGURATION,
    ResumePoint,
    SaveResumePoint,
    check_configuration,
    find_resume_point,
    rewind,
    write_configuration,
)
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


def train(config: TrainingConfig, out: Path, *, resume: bool = False) -> TrainedModel:
    """Train a model; an exception on the way, `KeyboardInterrupt` too, comes out after the model was saved.

    Args:
        config: The run.
        out: Folder of the run, without a model in it.
        resume: Whether an unfinished training of the same configuration in the folder is continued; without one, a
            training begins.

    Raises:
        InvalidInputError: The folder has a model or an unfinished training that is not to be continued, cannot be
            written, or algorithm, hyperparameters or environment do not fit.
        PolicyOutputError: The policy diverged; it is not saved.
        RoepError: The folder was moved or deleted meanwhile, or cannot be written.
    """
    algorithm = algorithm_class(config.algorithm)
    point = _beginning(config, out, resume)
    if config.algorithm == "ARS" and (config.n_envs > 1 or config.subprocesses):
        raise InvalidInputError(
            "Expected one environment in this process for ARS, which miscounts the steps of several and shows those of "
            "other processes to no callback; write n_envs: 1 and subprocesses: false."
        )
    try:
        (out / "monitor").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(f"Expected to write to {out}, got {error}; choose another folder.") from error
    env = _environments(config, out, point)
    try:
        model = _model(algorithm, config, env, out, point)
    except (TypeError, ValueError, AssertionError) as error:
        env.close()
        if isinstance(error, RoepError):
            raise
        raise InvalidInputError(
            f"Expected hyperparameters that {config.algorithm} takes, got: {error}."
        ) from error
    eval_env = _eval_environment(config, env) if config.eval_every else None
    counted = InterventionCallback()
    saver = SaveResumePoint(
        out,
        max(config.checkpoint_every // config.n_envs, 1) if config.checkpoint_every else 0,
        counted,
        replay_buffer=config.save_replay_buffer,
        episodes=(0,) * config.n_envs if point is None else point.episodes,
    )
    callbacks = [counted, *_callbacks(config, out, eval_env), saver]
    if point is not None:
        _continue(callbacks, counted, config, out, point)
    try:
        with writing(out):
            write_configuration(config, out)
            return _learn(model, CallbackList(callbacks), saver, config, out)
    finally:
        env.close()
        if eval_env is not None:
            eval_env.close()


def _beginning(config: TrainingConfig, out: Path, resume: bool) -> ResumePoint | None:
    """Return what the training continues from, with the logs taken back to it; None: it begins."""
    point = find_resume_point(out)
    if (out / "model.zip").exists() and point is None:
        raise InvalidInputError(
            f"Expected a folder without a model, got {out}, where a training is finished; choose another with --out."
        )
    if not (out / CONFIGURATION).exists():
        if point is None and not (out / "tensorboard").exists():
            return None
        raise InvalidInputError(
            f"Expected a folder without a training, got {out} with one that cannot be continued, since it has no "
            f"{CONFIGURATION}; choose another with --out."
        )
    if not resume:
        reached = "its beginning" if point is None else f"step {point.timesteps}"
        raise InvalidInputError(
            f"Expected a folder without a training, got {out} with an unfinished one; continue it from {reached} with "
            "--resume, or choose another with --out."
        )
    check_configuration(config, out)
    rewind(out, point)
    return point


def _model(
    algorithm: type[BaseAlgorithm], config: TrainingConfig, env: VecEnv, out: Path, point: ResumePoint | None
) -> BaseAlgorithm:
    hyperparameters = read_hyperparameters(algorithm, config.hyperparameters, env.action_space)
    logs = str(out / "tensorboard")
    if point is None:
        policy = config.policy or policy_for(algorithm, env.observation_space)
        return algorithm(policy, env, seed=config.seed, tensorboard_log=logs, **hyperparameters)
    scheduled = any(isinstance(part, Mapping) for part in config.hyperparameters.values())
    if config.algorithm == "ARS" and scheduled:
        raise InvalidInputError(
            "Expected a constant learning_rate and delta_std to continue ARS, got a schedule."
        )
    device = hyperparameters.get("device", "auto")
    model = algorithm.load(point.folder / "model.zip", env=env, device=device, tensorboard_log=logs)
    if isinstance(model, OffPolicyAlgorithm):
        buffer = point.folder / "replay_buffer.pkl"
        if buffer.exists():
            model.load_replay_buffer(buffer)
        else:
            model.learning_starts += model.num_timesteps
    # The generators are seeded anew, from the step, since those of libraries and processes cannot be stored.
    drawn = seeding.seed("resume", config.seed, point.timesteps)
    set_random_seed(drawn, using_cuda=model.device.type == "cuda")
    model.action_space.seed(drawn)
    return model


def _continue(
    callbacks: list[BaseCallback],
    counted: InterventionCallback,
    config: TrainingConfig,
    out: Path,
    point: ResumePoint,
) -> None:
    """Give the callbacks what they knew at the point."""
    counted.restore(pickle.loads((point.folder / "statistics.pkl").read_bytes()))
    for callback in callbacks:
        callback.n_calls = point.timesteps // config.n_envs
        if isinstance(callback, EvalCallback) and (out / "evaluations.npz").exists():
            with np.load(out / "evaluations.npz") as done:
                callback.evaluations_timesteps = done["timesteps"].tolist()
                callback.evaluations_results = done["results"].tolist()
                callback.evaluations_length = done["ep_lengths"].tolist()
                callback.evaluations_successes = done["successes"].tolist() if "successes" in done else []
            callback.best_mean_reward = float(np.mean(callback.evaluations_results, axis=1).max())


def _learn(
    model: BaseAlgorithm, callback: BaseCallback, saver: SaveResumePoint, config: TrainingConfig, out: Path
) -> TrainedModel:
    before = model.num_timesteps
    try:
        model.learn(
            max(config.total_timesteps - before, 0),
            callback,
            log_interval=config.log_interval,
            tb_log_name=config.name,
            reset_num_timesteps=before == 0,
        )
    except BaseException:
        if model.num_timesteps:
            _save(model, config, out)
            callback.on_training_end()
            saver.save()
        raise
    trained = _save(model, config, out)
    shutil.rmtree(out / "resume", ignore_errors=True)
    return trained


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


def _environments(config: TrainingConfig, out: Path, point: ResumePoint | None) -> VecEnv:
    env = make_sb3_vec_env(
        config.environment,
        config.n_envs,
        run_id=config.name,
        seed=config.seed,
        subprocesses=config.subprocesses,
        monitor_folder=out / "monitor",
        first_episodes=() if point is None else point.episodes,
    )
    if not config.normalize:
        return env
    if point is None:
        return _normalized(env, training=True)
    return VecNormalize.load(str(point.folder / "normalization.pkl"), env)


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
    callbacks: list[BaseCallback] = []
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
