"""`roep-gym report`: turn a run into all its tables, figures and the HTML report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from roep_gym.cli.arguments import Flag, Folder, gate_settings
from roep_gym.cli.terminal import say
from roep_gym.evaluate.report.records import open_run
from roep_gym.evaluate.report.write import FORMATS, write_report

__all__ = ["Arguments", "run"]

Format = Literal["html", "table", "csv", "markdown", "latex", "svg", "pdf", "png"]


@dataclass(frozen=True)
class Arguments:
    """Turn a run into all its tables and figures and one HTML page that opens offline.

    What the records do not hold is shown as N/A with the reason.
    """

    run: Folder
    """Folder of a run, or of flat tables."""
    out: Path | None = None
    """Folder of the report; default: RUN/report."""
    format: Annotated[tuple[Format, ...], tyro.conf.UseAppendAction] = ()
    """What is written, once or more: the page (html), forms of tables, formats of figures; default: all."""
    video: Flag = False
    """Also write example episodes as videos, with patch and shield drawn over the frames."""
    config: Path | None = None
    """JSON file with gate settings; default: the paper's."""


def run(arguments: Arguments) -> None:
    """Write the report."""
    opened = open_run(arguments.run, gate_settings(arguments.config))
    folder = arguments.out or arguments.run / "report"
    written = write_report(opened, folder, arguments.format or FORMATS, videos=arguments.video)
    for name, reason in written.missing.items():
        say(f"{name[0].upper()}{name[1:]}: N/A, {reason}")
    say(f"{len(written.files)} files in {folder}" + (f"; open {written.page}" if written.page else ""))
