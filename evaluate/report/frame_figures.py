"""Figures of stored frames: four representative rollouts (Figure 2), the operators with the area they affect (A1).

`contact_sheet` lays frames of one episode side by side as an array, for pages that show episodes without axes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from roep_gym import escape
from roep_gym.evaluate.judging.noise_floor import SEVERITIES
from roep_gym.evaluate.report.episodes import episode_label, first_with_frames, representative_episodes
from roep_gym.evaluate.report.records import Run
from roep_gym.evaluate.report.style import NotDrawableError, new_figure
from roep_gym.evaluate.schema import CONDITIONS
from roep_gym.typing import Array, IntArray

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

_FRAMES_SHOWN = 6


def given_image(frames: Mapping[str, Array]) -> Array | None:
    """Return the images (frame, height, width, 3) of the first camera as the policy was given them, if stored."""
    key = _first_camera(frames, "image")
    return None if key is None else frames[f"given_{key}"]


def _first_camera(frames: Mapping[str, Array], kind: str) -> str | None:
    """Return the first key of a kind, image or depth, of which the frames that the policy was given are stored."""
    given = sorted(name.removeprefix("given_") for name in frames if name.startswith("given_"))
    return next((key for key in given if key.endswith(f"_{kind}")), None)


def show_frame(axes: Axes, frame: Array, label: str) -> None:
    """Draw one frame without an axis, its label above; small frames keep their pixels."""
    axes.imshow(frame, interpolation="nearest" if frame.shape[0] <= 64 else "antialiased")
    axes.set_title(label, fontsize=8)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color("#8C8C8C")


def rollouts(run: Run) -> Figure:
    """Figure 2: up to four representative rollouts as the policy saw them, from first to last stored frame."""
    chosen = representative_episodes(run)
    if not chosen:
        raise NotDrawableError(_no_frames(run))
    figure = new_figure(8.0, 1.75 * len(chosen))
    for part, (key, why) in zip(_bands(figure, len(chosen)), chosen, strict=True):
        frames = run.frames(key)
        images, at = given_image(frames), _shown(len(frames["step"]))
        if images is None:
            raise NotDrawableError(f"the frames of {episode_label(run, key)} hold no image")
        for axes, k in zip(part.subplots(1, _FRAMES_SHOWN), at, strict=False):
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
    """Return how much of the frames, each of `frame_pixels`, the operators affected, from every step's metadata."""
    parts = [steps for _, steps in run.steps(row, condition)]
    recorded = np.concatenate([np.empty(0), *(steps["patch"].values[:, :, 2].ravel() for steps in parts)])
    dropped = np.concatenate([np.empty(0), *(steps["dropped_fraction"].values.ravel() for steps in parts)])
    # Metadata exist where the operator ran; a side or fraction below 0 says that it did not.
    side, fraction = recorded[recorded > 0], dropped[dropped >= 0]
    return AffectedArea(
        float((side**2).mean() / frame_pixels) if side.size else float("nan"),
        float(fraction.mean()) if fraction.size else float("nan"),
        recorded.size,
    )


def operators(run: Run) -> Figure:
    """Figure A1: a frame clean, under each operator and under both, with the measured affected area."""
    shown = [
        key for condition in SEVERITIES.values() if (key := first_with_frames(run, condition)) is not None
    ]
    if not shown:
        raise NotDrawableError(_no_frames(run))
    figure = new_figure(9.2, 2.15 * len(shown))
    for part, key in zip(_bands(figure, len(shown)), shown, strict=True):
        frames = run.frames(key)
        image, depth = _first_camera(frames, "image"), _first_camera(frames, "depth")
        panels = part.subplots(1, 5)
        pixels = int(np.prod(frames[f"given_{image or depth}"].shape[1:3]))
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

    They are enlarged or reduced to `height` pixels by nearest neighbours.
    """
    images = given_image(frames)
    if images is None:
        return None
    rows = _spread(images.shape[1], height)
    columns = _spread(images.shape[2], round(height * images.shape[2] / images.shape[1]))
    gap = np.full((height, 3, 3), 255, dtype=np.uint8)
    strip: list[Array] = []
    for k in _shown(len(images)):
        strip += [gap, images[k][rows][:, columns]]
    return np.concatenate(strip[1:], axis=1)


def _bands(figure: Figure, n: int) -> list[SubFigure]:
    """Divide a figure into n bands, one above the other."""
    return list(figure.subfigures(n, 1, squeeze=False)[:, 0])


def _shown(n: int) -> IntArray:
    """Return which of n frames are shown."""
    return _spread(n, min(n, _FRAMES_SHOWN))


def _spread(n: int, wanted: int) -> IntArray:
    """Return some positions among n, evenly spread, the first and the last included."""
    return np.linspace(0, n - 1, wanted).round().astype(np.int64)


def _middle(frames: Mapping[str, Array], key: str) -> tuple[Array, Array]:
    """Return the frame in the middle of the episode, clean and as given."""
    k = len(frames["step"]) // 2
    return frames[f"clean_{key}"][k], frames[f"given_{key}"][k]


def _before_and_after(
    panels: Array, frames: Mapping[str, Array], key: str | None, operator: str, measured: str
) -> None:
    """Draw a frame clean and as given."""
    if key is None:
        for axes in panels:
            axes.set_axis_off()
        panels[0].text(0, 0.5, f"no frames for\n{operator}", transform=panels[0].transAxes, fontsize=8)
        return
    clean, given = _middle(frames, key)
    if clean.shape[-1] == 1:
        clean, given = (_depth_colors(frame[..., 0], clean) for frame in (clean, given))
    show_frame(panels[0], clean, f"clean {key.rpartition('_')[2]}")
    show_frame(panels[1], given, f"{operator}\n{measured}")


def _combined(axes: Axes, frames: Mapping[str, Array], image: str | None, depth: str | None) -> None:
    """Draw a frame under all operators: the given image, with the pixels whose depth was dropped in colour."""
    if image is None:
        axes.set_axis_off()
        return
    clean, given = _middle(frames, image)
    shown, affected = given.copy(), (clean != given).any(axis=-1)
    if depth is not None and frames[f"given_{depth}"].shape[1:3] == given.shape[:2]:
        before, after = _middle(frames, depth)
        dropped = (before != after)[..., 0]
        shown[dropped] = (240, 168, 48)
        affected |= dropped
    show_frame(axes, shown, f"combined\n{affected.mean():.1%} affected")


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
    return f"no frames are stored in {run.folder.name}/frames; keep them with `frames: looked` in the plan"
