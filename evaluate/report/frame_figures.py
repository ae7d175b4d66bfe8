"""Figures of stored frames: four representative rollouts (Figure 2), the operators with the area they affect (A1).

`contact_sheet` lays frames of one episode side by side as an array, for pages that show episodes without axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from roep_gym import escape
from roep_gym.evaluate.report.episodes import episode_label, representative_episodes
from roep_gym.evaluate.report.records import EpisodeKey, Run
from roep_gym.evaluate.report.style import NotDrawableError, new_figure
from roep_gym.evaluate.schema import CONDITIONS
from roep_gym.typing import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

__all__ = [
    "AffectedArea",
    "affected_area",
    "contact_sheet",
    "given_image",
    "operators",
    "rollouts",
    "show_frame",
]

FRAMES_SHOWN = 6
_REMEDY = "keep them with `frames: looked` in the plan"


def given_image(frames: Mapping[str, Array]) -> Array | None:
    """Return the images (frame, height, width, 3) of the first camera as the policy was given them, if stored."""
    name = next(
        (name for name in sorted(frames) if name.startswith("given_") and name.endswith("_image")), None
    )
    return None if name is None else frames[name]


def show_frame(axes: Axes, frame: Array, label: str) -> None:
    """Draw one frame without an axis, its label above; small frames keep their pixels."""
    axes.imshow(frame, interpolation="nearest" if frame.shape[0] <= 64 else "antialiased")
    axes.set_title(label, fontsize=8)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color("#8C8C8C")


def rollouts(run: Run) -> Figure:
    """Figure 2: up to four representative rollouts as the policy saw them, from first to last stored frame.

    Raises:
        NotDrawableError: No frames are stored.
    """
    chosen = representative_episodes(run)
    if not chosen:
        raise NotDrawableError(_no_frames(run))
    figure = new_figure(8.0, 1.75 * len(chosen))
    for part, (key, why) in zip(_bands(figure, len(chosen)), chosen, strict=True):
        frames = run.frames(key)
        images, at = given_image(frames), _spread(len(frames["step"]))
        if images is None:
            raise NotDrawableError(f"the frames of {episode_label(run, key)} hold no image")
        for axes, k in zip(part.subplots(1, FRAMES_SHOWN), at, strict=False):
            show_frame(axes, images[k], f"step {int(frames['step'][k])}")
        for axes in part.axes[len(at) :]:
            axes.set_axis_off()
        part.suptitle(
            f"{why}, {run.reason(key).replace('_', ' ')}: {escape.figure(episode_label(run, key))}",
            fontsize=8.5,
            x=0.01,
            ha="left",
        )
    return figure


class AffectedArea(NamedTuple):
    """Mean share of the frame that the operators affected, over the steps of one condition of one row.

    Attributes:
        occluded: Share of the image under the patch; NaN where none was recorded.
        dropped: Share of depth pixels set to 0; NaN where none was recorded.
        steps: Number of steps.
    """

    occluded: float
    dropped: float
    steps: int


def affected_area(run: Run, row: int, condition: str, frame_pixels: int) -> AffectedArea:
    """Return how much of the frames the operators affected, from the recorded metadata of every step.

    Args:
        run: The run.
        row: A row.
        condition: A condition.
        frame_pixels: Height times width of a frame.
    """
    sides, dropped = [], []
    for _, steps in run.steps(row, condition):
        # Metadata exist where the operator ran; a side or fraction below 0 says that it did not.
        sides.append(steps["patch"].values[:, :, 2].astype(np.float64).ravel())
        dropped.append(steps["dropped_fraction"].values.astype(np.float64).ravel())
    side = np.concatenate(sides) if sides else np.empty(0)
    fraction = np.concatenate(dropped) if dropped else np.empty(0)
    side, fraction = side[side > 0], fraction[fraction >= 0]
    return AffectedArea(
        float((side**2).mean() / frame_pixels) if side.size else float("nan"),
        float(fraction.mean()) if fraction.size else float("nan"),
        sum(map(len, sides)),
    )


def operators(run: Run) -> Figure:
    """Figure A1: a frame clean, under each operator and under both, with the measured affected area.

    Raises:
        NotDrawableError: No frames of a perturbed condition are stored.
    """
    shown = [key for key in (_first_stored(run, c) for c in ("mild", "perturb", "strong")) if key is not None]
    if not shown:
        raise NotDrawableError(_no_frames(run))
    figure = new_figure(9.2, 2.15 * len(shown))
    for part, key in zip(_bands(figure, len(shown)), shown, strict=True):
        frames = run.frames(key)
        keys = sorted(name.removeprefix("given_") for name in frames if name.startswith("given_"))
        image = next((name for name in keys if name.endswith("_image")), None)
        depth = next((name for name in keys if name.endswith("_depth")), None)
        panels = part.subplots(1, 5)
        pixels = int(np.prod(frames[f"given_{keys[0]}"].shape[1:3]))
        area = affected_area(run, key.row, key.condition, pixels)
        _before_and_after(panels[:2], frames, image, "RGB occlusion", f"{area.occluded:.1%} occluded")
        _before_and_after(panels[2:4], frames, depth, "depth dropout", f"{area.dropped:.1%} dropped")
        _combined(panels[4], frames, image, depth)
        profile = CONDITIONS[key.condition].profile
        part.suptitle(
            f"{profile}: mean affected area over {area.steps} steps of {escape.figure(run.short(key.row))}",
            fontsize=9,
            x=0.01,
            ha="left",
        )
    return figure


def contact_sheet(frames: Mapping[str, Array], height: int = 96) -> Array | None:
    """Return up to six given frames of an episode side by side, (height, width, 3) uint8; None without an image.

    Args:
        frames: Stored frames of the episode.
        height: Height of the sheet in pixels; the frames are enlarged or reduced by nearest neighbours.
    """
    images = given_image(frames)
    if images is None:
        return None
    rows = np.linspace(0, images.shape[1] - 1, height).round().astype(int)
    columns = (
        np.linspace(0, images.shape[2] - 1, round(height * images.shape[2] / images.shape[1]))
        .round()
        .astype(int)
    )
    gap = np.full((height, 3, 3), 255, dtype=np.uint8)
    strip: list[Array] = []
    for k in _spread(len(images)):
        strip += [gap, images[k][rows][:, columns]]
    return np.concatenate(strip[1:], axis=1)


def _bands(figure: Figure, n: int) -> list[SubFigure]:
    """Divide a figure into n bands, one above the other."""
    return list(figure.subfigures(n, 1, squeeze=False)[:, 0])


def _spread(n: int) -> Array:
    """Return up to `FRAMES_SHOWN` positions among n, evenly spread, the first and the last included."""
    return np.unique(np.linspace(0, n - 1, min(n, FRAMES_SHOWN)).round().astype(int))


def _first_stored(run: Run, condition: str) -> EpisodeKey | None:
    for row in range(run.rows):
        for line in run.outcomes(row, condition).itertuples():
            key = EpisodeKey(row, condition, int(line.seed_group), int(line.episode))
            if run.frames_path(key).exists():
                return key
    return None


def _before_and_after(
    panels: Array, frames: Mapping[str, Array], key: str | None, operator: str, measured: str
) -> None:
    """Draw a frame clean and as given; the frame of the middle of the episode."""
    if key is None:
        for axes in panels:
            axes.set_axis_off()
        panels[0].text(0, 0.5, f"no frames for\n{operator}", transform=panels[0].transAxes, fontsize=8)
        return
    k = len(frames["step"]) // 2
    clean, given = (frames[f"{side}_{key}"][k] for side in ("clean", "given"))
    if clean.shape[-1] == 1:
        clean, given = (_depth_colors(frame[..., 0], clean) for frame in (clean, given))
    show_frame(panels[0], clean, f"clean {key.rpartition('_')[2]}")
    show_frame(panels[1], given, f"{operator}\n{measured}")


def _combined(axes: Axes, frames: Mapping[str, Array], image: str | None, depth: str | None) -> None:
    """Draw a frame under all operators: the given image, with the pixels whose depth was dropped in colour."""
    if image is None:
        axes.set_axis_off()
        return
    k = len(frames["step"]) // 2
    clean, given = (frames[f"{side}_{image}"][k] for side in ("clean", "given"))
    shown, affected = given.copy(), (clean != given).any(axis=-1)
    if depth is not None and frames[f"given_{depth}"].shape[1:3] == given.shape[:2]:
        before, after = (frames[f"{side}_{depth}"][k][..., 0] for side in ("clean", "given"))
        dropped = before != after
        shown[dropped] = _DROPPED_COLOR
        affected |= dropped
    show_frame(axes, shown, f"combined\n{affected.mean():.1%} affected")


_DROPPED_COLOR = (240, 168, 48)


def _depth_colors(depth: Array, clean: Array) -> Array:
    """Return depth as colours over the range of the clean frame; dropped pixels, which are 0, are black."""
    from matplotlib import colormaps

    low, high = float(clean.min()), float(clean.max())
    shade = (depth - low) / (high - low) if high > low else np.zeros_like(depth)
    colors = colormaps["cividis"](np.clip(shade, 0, 1))[..., :3]
    colors[depth == 0] = 0
    return np.asarray(colors)


def _no_frames(run: Run) -> str:
    if not run.native:
        return "flat tables hold no frames"
    return f"no frames are stored in {run.folder.name}/frames; {_REMEDY}"
