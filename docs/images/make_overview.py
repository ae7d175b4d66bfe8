"""Draws `overview.png` of the README: `python docs/images/make_overview.py RUN`.

RUN is a judged run folder, for example that of `make evaluate`; its claims are set below what a policy is given.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import gymnasium as gym
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import roep_gym
from roep_gym.wrappers import PROFILES

COLOURS = {
    "supported": "#0072B2",
    "withheld": "#D55E00",
    "Insufficient": "#999999",
    "prerequisite": "#000000",
}


def main(run: Path) -> None:
    """Draw what a policy is given under the four profiles, and the claims of a run."""
    env = gym.make("roep_gym/Libero-v0", task="goal_bowl_plate", image_size=256, depth=True)
    observation, _ = env.reset(seed=0, options={"init_state": 0})
    env.close()
    with (run / "claims.csv").open() as file:
        claims = list(csv.DictReader(file))
    figure = plt.figure(figsize=(10, 5.6 + 0.28 * len(claims)), dpi=130)
    grid = figure.add_gridspec(
        3, 4, height_ratios=[3, 3, 0.35 + 0.35 * len(claims)], hspace=0.08, wspace=0.04
    )
    for column, (name, profile) in enumerate(PROFILES.items()):
        for line, modality in enumerate(("image", "depth")):
            key = f"agentview_{modality}"
            given, _ = profile.perturb(observation[key], modality, ("overview", 0, 0), 0, key)
            axes = figure.add_subplot(grid[line, column])
            axes.imshow(given, cmap=None if modality == "image" else "viridis", vmin=0, vmax=2)
            axes.set_xticks([])
            axes.set_yticks([])
            if line == 0:
                axes.set_title(name, fontsize=12)
            if column == 0:
                axes.set_ylabel("RGB occlusion" if line == 0 else "depth dropout", fontsize=10)
    table = figure.add_subplot(grid[2, :])
    table.axis("off")
    head = ("model", "task", "claim status", "limiting factor")
    places = (0.0, 0.18, 0.38, 0.70)
    for place, title in zip(places, head, strict=True):
        table.text(place, 1.0, title, weight="bold", fontsize=10, va="top")
    for line, claim in enumerate(claims, start=1):
        height = 1.0 - line / (len(claims) + 1)
        status = claim["claim_status"]
        colour = next((c for word, c in COLOURS.items() if word in status), "black")
        texts = (claim["model"], claim["task"], status, claim["limiting_factor"] or "none")
        for place, text in zip(places, texts, strict=True):
            shade = colour if text == status else "black"
            table.text(place, height, text, fontsize=10, va="top", color=shade)
    target = Path(__file__).with_name("overview.png")
    figure.savefig(target, bbox_inches="tight")
    print(f"{target} (roep-gym {roep_gym.__version__})")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
