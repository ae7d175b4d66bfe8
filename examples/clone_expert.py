"""Clone the scripted expert from its states, in minutes on a CPU, and let the protocol judge the clone.

The expert is shown on scenes that LIBERO's samplers draw, with noise on its actions so that the clone also sees how to
come back. The clone is a policy network of PPO, saved as Stable-Baselines3 saves a model; PPO can go on from it.

    python examples/clone_expert.py --out runs/clone
    roep-gym evaluate runs/clone/evaluation.yaml --out runs/clone/evaluation
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import tyro
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecNormalize

from roep_gym import generator
from roep_gym.policies import ExpertPolicy
from roep_gym.training import (
    Demonstrations,
    EnvironmentConfig,
    SelectEntries,
    collect_demonstrations,
    make_env,
    make_sb3_vec_env,
    relevant_entries,
    write_evaluation_plan,
)


@dataclass(frozen=True)
class Settings:
    """How to clone.

    Attributes:
        out: Folder of the results.
        task: One of the paper's eight tasks, which the expert can show.
        objects: Objects, fixtures and regions whose positions the network sees.
        demonstrations: Episodes of the expert.
        noise: Standard deviation of the noise on the expert's actions.
        batches: Batches of the training.
        batch_size: Steps in a batch.
        seed: Seed of everything.
    """

    out: Path = Path("runs/clone")
    task: str = "goal_stove"
    objects: tuple[str, ...] = ("flat_stove_1",)
    demonstrations: int = 100
    noise: float = 0.3
    batches: int = 10_000
    batch_size: int = 256
    seed: int = 0


def main(settings: Settings) -> None:
    """Collect, clone, and write the results."""
    torch.set_num_threads(1)  # the network is small
    config = EnvironmentConfig(
        arguments={"task": settings.task, "cameras": [], "object_state": True, "initial_states": "sampled"},
        observation_keys=["proprio", "object_state"],
    )
    shown = make_env(config, run_id=f"clone-{settings.seed}")
    demonstrations = collect_demonstrations(shown, ExpertPolicy(), settings.demonstrations, settings.noise)
    fields = shown.unwrapped.observation_fields  # type: ignore[attr-defined]
    shown.close()
    print(f"{len(demonstrations.actions)} steps, success {demonstrations.successes.mean():.2f}")

    env = VecNormalize(make_sb3_vec_env(config), norm_reward=False, training=False)
    for key, statistics in env.obs_rms.items():
        statistics.update(demonstrations.observations[key])
    networks = {
        "net_arch": [256, 256],
        "features_extractor_class": SelectEntries,
        "features_extractor_kwargs": {"entries": relevant_entries(fields, settings.objects)},
    }
    model = PPO("MultiInputPolicy", env, policy_kwargs=networks, seed=settings.seed, device="cpu")
    clone(model, env, demonstrations, settings)
    settings.out.mkdir(parents=True, exist_ok=True)
    model.save(settings.out / "model.zip")
    env.save(str(settings.out / "normalization.pkl"))
    env.close()
    write_evaluation_plan(
        settings.out / "evaluation.yaml",
        name="clone",
        algorithm="PPO",
        model=settings.out / "model.zip",
        normalization=settings.out / "normalization.pkl",
        environment=config,
    )


def clone(model: PPO, env: VecNormalize, demonstrations: Demonstrations, settings: Settings) -> None:
    """Fit the mean of the policy's actions to what the expert chose."""
    normalized = env.normalize_obs(demonstrations.observations)
    assert isinstance(normalized, dict)
    observations = {key: torch.as_tensor(array, dtype=torch.float32) for key, array in normalized.items()}
    actions = torch.as_tensor(demonstrations.chosen)
    optimizer = torch.optim.Adam(model.policy.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, settings.batches)
    draw = generator("clone", settings.seed)
    losses = []
    for batch in range(1, settings.batches + 1):
        chosen = torch.as_tensor(draw.integers(len(actions), size=settings.batch_size))
        mean = model.policy.get_distribution({k: o[chosen] for k, o in observations.items()}).mode()
        loss = torch.nn.functional.mse_loss(mean, actions[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if batch % 1_000 == 0:
            print(f"batch {batch}: mean squared error {np.mean(losses[-1_000:]):.4f}")


if __name__ == "__main__":
    main(tyro.cli(Settings))
