"""How figures look: one palette whose colours differ in hue for every kind of sight and in lightness on grey paper.

`drawing` sets matplotlib up for building and saving, `PALETTE` holds the colours with hatch and marker, `new_figure`
makes a figure without the global state of pyplot, `encoded` turns one into the bytes of a file.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roep_gym.error import RoepError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FORMATS", "PALETTE", "Look", "NotDrawableError", "drawing", "encoded", "new_figure"]

FORMATS: tuple[str, ...] = ("svg", "pdf", "png")
DOTS_PER_INCH = 150


class NotDrawableError(RoepError):
    """The records do not hold what a figure shows; the message says what is missing."""


@dataclass(frozen=True)
class Look:
    """How one kind of thing is drawn; no two that meet in a figure rely on hue alone."""

    color: str
    hatch: str
    marker: str
    line: str


PALETTE = {
    "clean": Look("#0B4F87", "", "o", "-"),
    "mild": Look("#5FA8D3", "\\\\", "v", "--"),
    "medium": Look("#F0A830", "///", "s", "--"),
    "strong": Look("#8C1D18", "xxx", "D", "-."),
    "effect": Look("#B3400E", "", "D", "-"),
    "floor": Look("#D9D9D9", "...", "v", ":"),
    "success": Look("#0B4F87", "", "o", "-"),
    "failure": Look("#E08214", "///", "X", "--"),
    "timeout": Look("#7A3B8F", "xxx", "^", "-."),
}
"""Dark blue against light orange, brick against light grey: distinct under every common colour deficiency."""

_SETTINGS: dict[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid.axis": "y",
    "grid.color": "#E4E4E4",
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
    "savefig.dpi": DOTS_PER_INCH,
    "figure.dpi": DOTS_PER_INCH,
    "pdf.fonttype": 42,
}


@contextmanager
def drawing() -> Iterator[None]:
    """Apply the style to what is built and saved inside, and to nothing else."""
    import matplotlib

    with matplotlib.rc_context(_SETTINGS):  # type: ignore[arg-type]  # its keys are literals
        yield


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure on an Agg canvas; sizes in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def encoded(figure: Figure, suffix: str) -> bytes:
    """Return a figure as the bytes of an SVG, PDF or PNG file, without a date."""
    stream = io.BytesIO()
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[suffix]
    with drawing():
        figure.savefig(stream, format=suffix, metadata=undated)
    return stream.getvalue()
