"""A run in TensorBoard: rates a row and condition as scalars, the claim table as text, figures as images.

`write_events` writes the event files. They are a view on the records and never their source: they are made anew from
the records each time, and replace what was there, so that an evaluation that was continued shows nothing twice.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from roep_gym import escape
from roep_gym.error import DependencyNotInstalledError, RoepError
from roep_gym.evaluate.report.figures import draw_figures
from roep_gym.evaluate.report.records import Run
from roep_gym.evaluate.report.render import markdown_text
from roep_gym.evaluate.report.style import drawing
from roep_gym.evaluate.report.tables import make_tables
from roep_gym.evaluate.schema import CONDITIONS

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

__all__ = ["write_events"]

_SUFFIX = ".roep-gym"
"""End of the name of our event files; others in the same folder are left alone."""


def write_events(run: Run, folder: Path) -> list[Path]:
    """Write a run's event files into a folder, remove those of an earlier call, and return their paths.

    Each row is a TensorBoard run of its own, `<model>/<suite>/<task>`, with the tags `<rate>/<condition>`: the rate
    over the first episodes, by their number. The claim table and figures are in the folder itself.

    Raises:
        DependencyNotInstalledError: TensorBoard is not installed.
        RoepError: The files cannot be written.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise DependencyNotInstalledError(
            "Expected torch and TensorBoard to be installed; run: pip install torch tensorboard"
        ) from error
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".events-") as scratch:
            with SummaryWriter(scratch, filename_suffix=_SUFFIX) as writer:
                _write_overview(run, writer)
            for row in range(run.rows):
                names = map(escape.file_name, run.label(row))
                with SummaryWriter(str(Path(scratch, *names)), filename_suffix=_SUFFIX) as writer:
                    _write_row(run, row, writer)
            return _replace(Path(scratch), folder)
    except OSError as error:
        raise RoepError(
            f"Expected to write event files into {folder}, got {error}; choose another folder."
        ) from error


def _write_overview(run: Run, writer: SummaryWriter) -> None:
    for table in make_tables(run, ("claims", "3", "4")):
        writer.add_text(f"table/{table.name}", markdown_text(table))
    for drawn in draw_figures(run):
        if drawn.figure is None:
            writer.add_text(f"figure/{drawn.name}", escape.markdown(f"N/A: {drawn.reason}"))
            continue
        with drawing():
            drawn.figure.canvas.draw()
        pixels = np.asarray(drawn.figure.canvas.buffer_rgba())[..., :3]  # type: ignore[attr-defined]
        writer.add_image(f"figure/{drawn.name}", pixels, dataformats="HWC")


def _write_row(run: Run, row: int, writer: SummaryWriter) -> None:
    """Write each rate after every episode, in the order of the pairing keys: the last is the rate of the condition."""
    for condition in run.conditions:
        outcomes = run.outcomes(row, condition)
        happened = {"success_rate": outcomes["success"] == 1, "timeout_rate": outcomes["reason"] == "timeout"}
        steps = outcomes["intervention_steps"]
        if CONDITIONS[condition].shielded and (steps >= 0).all():
            happened["intervention_rate"] = steps > 0
        for name, mask in happened.items():
            rates = np.cumsum(mask) / np.arange(1, mask.size + 1)
            for episodes, value in enumerate(rates.tolist(), start=1):
                writer.add_scalar(f"{name}/{condition}", value, global_step=episodes)


def _replace(scratch: Path, folder: Path) -> list[Path]:
    """Put the new event files in the place of the old ones."""
    for old in folder.rglob(f"events.out.tfevents.*{_SUFFIX}"):
        if scratch not in old.parents:
            old.unlink()
    files = []
    for new in sorted(scratch.rglob(f"*{_SUFFIX}")):
        target = folder / new.relative_to(scratch)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(new, target)
        files.append(target)
    return files
