"""Draw what the event files of training runs say: success, and with a shield its interventions.

    python examples/learning_curve.py runs/stove runs/stove_shielded --csv curve.csv --figure curve.png

Each run is a folder with a subfolder `tensorboard`; its name is the label.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

COLUMNS = {
    "success_rate": "rollout/success_rate",
    "episode_length": "rollout/ep_len_mean",
    "intervention_rate": "shield/intervention_rate",
    "intervention_steps": "shield/intervention_steps",
}
"""Tag of each column; the first two are Stable-Baselines3's, over its last `stats_window_size` episodes."""


@dataclass(frozen=True)
class Settings:
    """What to draw.

    Attributes:
        runs: Folders of training runs.
        csv: File of the numbers.
        figure: File of the figure.
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    csv: Path | None = None
    figure: Path | None = None


def read_run(folder: Path) -> list[dict[str, float | str]]:
    """Return one line for each time that a run wrote its success."""
    events = EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0})
    events.Reload()
    start = events.FirstEventTimestamp()
    tags = [name for name, tag in COLUMNS.items() if tag in events.Tags()["scalars"]]
    series = {name: {event.step: event for event in events.Scalars(COLUMNS[name])} for name in tags}
    lines: list[dict[str, float | str]] = []
    for step, event in sorted(series["success_rate"].items()):
        values = {name: series[name][step].value for name in tags if step in series[name]}
        lines.append(
            {"run": folder.name, "steps": step, "minutes": (event.wall_time - start) / 60.0, **values}
        )
    return lines


def write_csv(lines: Sequence[dict[str, float | str]], path: Path) -> None:
    """Write the numbers; what a run did not write is an empty cell."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, ["run", "steps", "minutes", *COLUMNS], lineterminator="\n")
        writer.writeheader()
        for line in lines:
            rounded = {k: round(v, 3) if isinstance(v, float) else v for k, v in line.items()}
            writer.writerow(rounded)


def draw(runs: dict[str, list[dict[str, float | str]]], path: Path) -> None:
    """Draw success over minutes and, where a run had a shield, its interventions below."""
    from matplotlib.figure import Figure

    panels = {"success_rate": "success rate of the last 20 episodes"}
    if any("intervention_steps" in line for lines in runs.values() for line in lines):
        panels["intervention_steps"] = "intervened steps an episode"
    figure = Figure(figsize=(6.4, 2.8 * len(panels)), layout="constrained")
    axes = figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0]
    for axis, (column, label) in zip(axes, panels.items(), strict=True):
        for name, lines in runs.items():
            points = [(line["minutes"], line[column]) for line in lines if column in line]
            axis.plot(*zip(*points, strict=True), label=name) if points else axis.plot([], label=name)
        axis.set_ylabel(label)
        axis.grid(alpha=0.3)
    axes[0].axhline(0.8, color="grey", linestyle=":", linewidth=1)
    axes[0].set_ylim(0, 1.02)
    axes[0].legend(loc="lower right")
    axes[-1].set_xlabel("minutes of training")
    figure.savefig(path, dpi=150)


def main(settings: Settings) -> None:
    """Read the runs, and write what was asked for."""
    runs = {folder.name: read_run(folder) for folder in settings.runs}
    if settings.csv is not None:
        write_csv([line for lines in runs.values() for line in lines], settings.csv)
    if settings.figure is not None:
        draw(runs, settings.figure)
    for name, lines in runs.items():
        print(f"{name}: success {lines[0]['success_rate']:.2f} -> {lines[-1]['success_rate']:.2f}, "
              f"{lines[-1]['steps']} steps, {lines[-1]['minutes']:.1f} minutes")  # fmt: skip


if __name__ == "__main__":
    main(tyro.cli(Settings))
