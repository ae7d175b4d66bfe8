"""Episodes as short videos: the frames that the policy was given, with the perturbation and the shield drawn over them.

`episode_video` makes one animated GIF, which every browser shows.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np

from roep_gym.error import InvalidInputError
from roep_gym.evaluate.report.episodes import ShieldTrace, shield_trace
from roep_gym.evaluate.report.frame_figures import given_image
from roep_gym.evaluate.report.records import EpisodeKey, Run
from roep_gym.evaluate.report.style import PALETTE
from roep_gym.evaluate.schema import CONDITIONS
from roep_gym.typing import Array

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["episode_video", "overlay_text"]

_HEIGHT = 256
_STRIP = 40
_BORDER = 6


def episode_video(run: Run, key: EpisodeKey) -> bytes:
    """Return the stored frames of an episode as an animated GIF.

    An outline shows where the occluding patch lies; the border is coloured at steps at which the shield intervened; the
    strip below tells step, profile, relative risk and what the shield did.

    Raises:
        InvalidInputError: No frames of the episode are stored.
    """
    frames = run.frames(key)
    images = given_image(frames)
    if images is None:
        raise InvalidInputError(f"Expected stored images at {run.frames_path(key)}, but there are none.")
    steps, trace = run.episode_steps(key), shield_trace(run, key)
    patches = np.empty((0, 1, 3), dtype=int) if steps is None else steps["patch"].values
    pictures = []
    for image, step in zip(images, frames["step"].tolist(), strict=True):
        # The observation after the last action belongs to no step.
        acted = step < len(patches)
        patch = patches[step, 0] if acted and patches.shape[1] else np.zeros(3, dtype=int)
        intervened = bool(acted and trace is not None and trace.intervened[step])
        pictures.append(_picture(image, patch, overlay_text(key, step, trace if acted else None), intervened))
    stream = io.BytesIO()
    # The duration of a frame is in milliseconds.
    pictures[0].save(stream, "GIF", save_all=True, append_images=pictures[1:], duration=150, loop=0)
    return stream.getvalue()


def overlay_text(key: EpisodeKey, step: int, trace: ShieldTrace | None) -> str:
    """Return the two lines below a frame."""
    head = f"step {step}  {CONDITIONS[key.condition].profile}"
    if trace is None:
        return head
    events = {"intervened": trace.intervened, "refused": trace.refused}
    happened = ", ".join(name for name, mask in events.items() if mask[step])
    return f"{head}  r/tau {trace.relative_risk[step]:.2g}\n{happened or 'shield: passed'}"


def _picture(image: Array, patch: Array, text: str, intervened: bool) -> Image:
    from PIL import Image, ImageDraw, ImageFont

    scale = max(1, round(_HEIGHT / image.shape[0]))
    height, width = image.shape[0] * scale, image.shape[1] * scale
    border = PALETTE["medium"].color if intervened else "white"
    canvas = Image.new("RGB", (width + 2 * _BORDER, height + 2 * _BORDER + _STRIP), "white")
    draw = ImageDraw.Draw(canvas)
    draw.rectangle((0, 0, width + 2 * _BORDER - 1, height + 2 * _BORDER - 1), fill=border)
    canvas.paste(Image.fromarray(image).resize((width, height), Image.Resampling.NEAREST), (_BORDER, _BORDER))
    row, column, side = (int(value) * scale for value in patch)
    if side > 0:
        left, top = _BORDER + column, _BORDER + row
        draw.rectangle((left, top, left + side - 1, top + side - 1), outline="yellow", width=2)
    draw.text((_BORDER, height + 2 * _BORDER + 2), text, fill="black", font=ImageFont.load_default(size=13))
    return canvas
