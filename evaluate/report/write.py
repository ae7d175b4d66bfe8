"""Writing a report: every table and figure of a run as files, and the HTML page.

`write_report` does it; `FORMATS` are the formats that it knows.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from roep_gym.atomic_file import write_atomically
from roep_gym.error import unknown_name
from roep_gym.evaluate.report import style
from roep_gym.evaluate.report.episodes import example_episodes
from roep_gym.evaluate.report.figures import draw_figures
from roep_gym.evaluate.report.html import report_page
from roep_gym.evaluate.report.records import DamagedFileError, EpisodeKey, Run
from roep_gym.evaluate.report.render import FORMS
from roep_gym.evaluate.report.tables import make_tables
from roep_gym.evaluate.report.videos import episode_video

__all__ = ["FORMATS", "Written", "write_report"]

_TABLE_FORMS = tuple(name for name in FORMS if name != "html")
FORMATS: tuple[str, ...] = ("html", *_TABLE_FORMS, *style.FORMATS)
"""The page, the forms of tables, the formats of figures."""


@dataclass(frozen=True)
class Written:
    """What `write_report` left behind.

    Attributes:
        page: The HTML page; None when it was not asked for.
        files: Every file.
        missing: Why a figure or video could not be made, by its name.
    """

    page: Path | None
    files: tuple[Path, ...]
    missing: dict[str, str]


def write_report(
    run: Run, folder: Path, formats: Collection[str] = FORMATS, *, videos: bool = False
) -> Written:
    """Write `report.html`, `tables/` and `figures/` into a folder, replacing earlier ones file by file.

    Args:
        run: The run.
        folder: The folder; it is made where it does not exist.
        formats: Some of `FORMATS`.
        videos: Whether the example episodes are written as videos too, into `videos/`.

    Raises:
        UnknownNameError: A format is unknown.
        RoepError: A file cannot be written.
    """
    for name in formats:
        if name not in FORMATS:
            raise unknown_name("format", name, FORMATS)
    tables, wanted = make_tables(run), [name for name in style.FORMATS if name in formats]
    page = folder / "report.html" if "html" in formats else None
    contents: dict[Path, bytes] = {}
    missing: dict[str, str] = {}
    filmed: dict[EpisodeKey, Path] = {}
    for table, name in itertools.product(tables, _TABLE_FORMS):
        if name in formats:
            path = folder / "tables" / f"{table.name}.{FORMS[name].suffix}"
            contents[path] = FORMS[name].write(table).encode()
    examples = example_episodes(run) if videos and not run.provenance.get("published") else []
    if videos and run.provenance.get("published"):
        missing["videos"] = "a published run lacks what the figures do not show; make them of the run itself"
    elif videos and not examples:
        missing["videos"] = "no frames are stored"
    for key in examples:
        path = folder / "videos" / f"{run.frames_path(key).stem}.gif"
        try:
            contents[path] = episode_video(run, key)
            filmed[key] = path
        except DamagedFileError as damaged:
            missing[f"video {path.stem}"] = str(damaged)
    figures = draw_figures(run) if wanted or page else []
    for drawn in figures:
        if drawn.figure is None:
            missing[f"figure {drawn.name}"] = drawn.reason
            continue
        for suffix in wanted:
            contents[folder / "figures" / f"{drawn.name}.{suffix}"] = style.encoded(drawn.figure, suffix)
    if page:
        contents[page] = report_page(run, tables, figures, folder, filmed).encode()
    for path, content in contents.items():
        write_atomically(path, content)
    return Written(page, tuple(contents), missing)
