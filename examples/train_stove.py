"""Learn to turn on the stove of LIBERO from its state, on two CPU cores, and let the protocol judge what was learned.

Soft actor-critic with the dense reward (`docs/reward.md`) and, in half of each batch, a few episodes of the scripted
expert. It trains on scenes that LIBERO's samplers draw; the evaluation uses the official initial states.

    python examples/train_stove.py --out runs/stove
    roep-gym evaluate runs/stove/evaluation.yaml --out runs/stove/evaluation
    python examples/train_stove.py --out runs/stove_shielded --shield runs/stove/shield.npz
    python examples/learning_curve.py runs/stove runs/stove_shielded --figure curve.png

Into the folder go the model (`model.zip`, `normalization.pkl`), what TensorBoard shows (`tensorboard/`), the plan of
the evaluation (`evaluation.yaml`) and, of an unshielded run, a shield trained on its episodes (`shield.npz`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro
from stable_baselines3 import SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import configure
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import VecNormalize

from roep_gym.policies import ExpertPolicy
from roep_gym.shields import ShieldConfig, save_shield, train_shield
from roep_gym.training import (
    DemonstrationReplayBuffer,
    EnvironmentConfig,
    EpisodeCollector,
    InterventionCallback,
    NormalizedReLU,
    SelectEntries,
    collect_demonstrations,
    make_env,
    make_sb3_vec_env,
    relevant_entries,
    write_evaluation_plan,
)


@dataclass(frozen=True)
class Settings:
    """How to train.

    Attributes:
        out: Folder of the results.
        task: One of the paper's eight tasks, which the expert can show.
        objects: Objects, fixtures and regions whose positions the networks see.
        minutes: Wall-clock time after which the training ends, demonstrations included.
        steps: Control steps after which it ends.
        warm_up: Control steps of random actions at the beginning.
        demonstrations: Episodes of the expert.
        noise: Standard deviation of the noise on the expert's actions.
        step_budget: Control steps of an episode.
        discount: Discount factor of the learner and of the dense reward.
        shield: File of a shield to train under; None: no shield.
        seed: Seed of everything.
    """

    out: Path = Path("runs/stove")
    task: str = "goal_stove"
    objects: tuple[str, ...] = ("flat_stove_1",)
    minutes: float = 30.0
    steps: int = 40_000
    warm_up: int = 1_000
    demonstrations: int = 20
    noise: float = 0.2
    step_budget: int = 100
    discount: float = 0.98
    shield: str | None = None
    seed: int = 0


class TimeLimit(BaseCallback):
    """End the training at a moment of `time.monotonic()`."""

    def __init__(self, end: float) -> None:
        super().__init__()
        self._end = end

    def _on_step(self) -> bool:
        return time.monotonic() < self._end


def main(settings: Settings) -> None:
    """Train, and write the results."""
    end = time.monotonic() + 60.0 * settings.minutes
    logger = configure(str(settings.out / "tensorboard"), ["stdout", "tensorboard"])  # its clock starts here
    torch.set_num_threads(1)  # the networks are small
    config = EnvironmentConfig(
        arguments={
            "task": settings.task,
            "cameras": [],
            "object_state": True,
            "initial_states": "sampled",
            "reward": "dense",
            "reward_discount": settings.discount,
        },
        observation_keys=["proprio", "object_state"],
        shield=settings.shield,
        step_budget=settings.step_budget,
        record=settings.shield is None,
    )
    shown = make_env(config, run_id="demonstrations")
    demonstrations = collect_demonstrations(shown, ExpertPolicy(), settings.demonstrations, settings.noise)
    fields = shown.unwrapped.observation_fields  # type: ignore[attr-defined]
    shown.close()

    env = VecNormalize(make_sb3_vec_env(config, run_id="stove", seed=settings.seed), norm_reward=False)
    model = SAC(
        "MultiInputPolicy",
        env,
        learning_rate=LinearSchedule(5e-4, 0.0, 1.0),  # the last steps then change little
        learning_starts=settings.warm_up,
        gamma=settings.discount,
        ent_coef="auto_0.01",
        policy_kwargs={
            "activation_fn": NormalizedReLU,
            "features_extractor_class": SelectEntries,
            "features_extractor_kwargs": {"entries": relevant_entries(fields, settings.objects)},
        },
        buffer_size=settings.steps,
        replay_buffer_class=DemonstrationReplayBuffer,
        stats_window_size=20,
        seed=settings.seed,
    )
    assert isinstance(model.replay_buffer, DemonstrationReplayBuffer)
    model.replay_buffer.set_demonstrations(demonstrations)
    model.set_logger(logger)
    collector = EpisodeCollector()
    callbacks = [TimeLimit(end), InterventionCallback(), *([] if settings.shield else [collector])]
    model.learn(settings.steps, callback=callbacks)
    model.save(settings.out / "model.zip")
    env.save(str(settings.out / "normalization.pkl"))
    env.close()
    write_evaluation_plan(
        settings.out / "evaluation.yaml",
        name="stove",
        algorithm="SAC",
        model=settings.out / "model.zip",
        normalization=settings.out / "normalization.pkl",
        environment=config,
        step_budget=280,
    )
    if settings.shield is None:
        outcome = train_shield(collector.episodes, ShieldConfig())
        print(f"shield: {outcome.status} {outcome.reason}")
        if outcome.shield is not None:
            save_shield(outcome.shield, settings.out / "shield.npz")


if __name__ == "__main__":
    main(tyro.cli(Settings))
