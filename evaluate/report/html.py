"""The report: one self-contained HTML file with everything that a reader of a run asks for.

`report_page` returns it; `page` holds its style and script, `statements` its sentences.
"""

from __future__ import annotations

import html
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from roep_gym.evaluate.judging import claim_table
from roep_gym.evaluate.judging.checks import CHECKS
from roep_gym.evaluate.report.episodes import episode_label, example_episodes
from roep_gym.evaluate.report.figures import Drawn
from roep_gym.evaluate.report.frame_figures import contact_sheet
from roep_gym.evaluate.report.page import data_uri, document
from roep_gym.evaluate.report.records import EpisodeKey, Run
from roep_gym.evaluate.report.render import html_text
from roep_gym.evaluate.report.statements import facts, limits
from roep_gym.evaluate.report.style import encoded
from roep_gym.evaluate.report.table import Table

__all__ = ["report_page"]

_ROW = ("model", "suite", "task")


def report_page(
    run: Run,
    tables: Sequence[Table],
    figures: Sequence[Drawn],
    folder: Path,
    videos: Mapping[EpisodeKey, Path] | None = None,
) -> str:
    """Return the report as HTML.

    Args:
        run: The run.
        tables: All tables.
        figures: All figures, those that cannot be drawn included.
        folder: Folder that the page will lie in; links to stored files are relative to it.
        videos: Videos of episodes, which contact sheets then link to.
    """
    table = {item.name: item for item in tables}
    figure = {item.name: item for item in figures}

    def show(*names: str) -> str:
        return "".join(html_text(table[name]) for name in names)

    def draw(*names: str) -> str:
        return "".join(_figure(figure[name]) for name in names)

    sections = {
        "What was evaluated": _facts(run),
        "Claims": _rows(run, table["checks"]) + show("claims", "A3", "2", "A1"),
        "Outcomes": draw("3", "effects") + show("3", "4", "effects"),
        "Failures by reason": draw("4") + show("failures"),
        "Harm and shield": show("A4", "A5") + draw("reliability", "A2", "A3", "A4"),
        "Severity": draw("severity") + show("severity", "A6a", "A6b") + draw("A1"),
        "Episodes": draw("2") + _contact_sheets(run, folder, videos or {}),
        "Provenance and fidelity": show("A2") + _folded("Every field of every contract", show("contract")),
        "Limits": _list(limits(run)),
    }
    lead = (
        f'<p class="status">{html.escape(claim_table.status_summary(run.judgement))}</p>'
        f"<p>{html.escape(claim_table.WORDING)}</p>"
    )
    return document(f"Evaluation report: {run.name}", lead, sections)


def _facts(run: Run) -> str:
    lines = "".join(f"<dt>{name}</dt><dd>{html.escape(text)}</dd>" for name, text in facts(run).items())
    return f"<dl>{lines}</dl>"


def _rows(run: Run, checks: Table) -> str:
    """Return the checks of each row behind a summary with its status."""
    verdicts, lines = run.judgement.verdicts, checks.without(*_ROW)
    parts = ["<p>Each row opens to its checks, with value, threshold and verdict.</p>"]
    for row in range(run.rows):
        factor = str(verdicts["limiting_factor"].values[row])
        status = f"{verdicts['claim_status'].values[row]}{f' ({factor})' if factor else ''}"
        note = str(verdicts["notes"].values[row])
        own = replace(
            lines,
            name=f"checks-{row}",
            title=", ".join(run.label(row)),
            rows=lines.rows[row * len(CHECKS) : (row + 1) * len(CHECKS)],
            notes=(note,) if note else (),
        )
        summary = f'{html.escape(run.short(row))}: <span class="status">{html.escape(status)}</span>'
        parts.append(f"<details><summary>{summary}</summary>{html_text(own)}</details>\n")
    return "".join(parts)


def _figure(drawn: Drawn) -> str:
    title = f"Figure {drawn.name}. {html.escape(drawn.kind.title)}"
    if drawn.figure is None:
        return f'<p class="missing">{title}: N/A, {html.escape(drawn.reason)}.</p>\n'
    source = data_uri(encoded(drawn.figure, "svg"), "image/svg+xml")
    return (
        f'<figure class="picture"><figcaption>{title}</figcaption>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="Figure {drawn.name}">'
        f'<img src="{source}" alt="{html.escape(drawn.kind.title)}"></div>'
        f'<p class="caption">{html.escape(drawn.kind.caption)}</p></figure>\n'
    )


def _contact_sheets(run: Run, folder: Path, videos: Mapping[EpisodeKey, Path]) -> str:
    """Return frames of example episodes, inlined, with links to the stored frames and the videos."""
    keys = example_episodes(run)
    if not keys:
        return '<p class="missing">Contact sheets: N/A, no frames are stored.</p>\n'
    sheets = [_sheet(run, key, folder, videos) for key in keys]
    return "<h3>First success and first failure of each row</h3>" + "".join(sheets)


def _sheet(run: Run, key: EpisodeKey, folder: Path, videos: Mapping[EpisodeKey, Path]) -> str:
    sheet = contact_sheet(run.frames(key))
    label = html.escape(f"{episode_label(run, key)}: {run.reason(key).replace('_', ' ')}")
    files = {"stored frames": run.frames_path(key)} | ({"video": videos[key]} if key in videos else {})
    links = ", ".join(
        f'<a href="{html.escape(os.path.relpath(path, folder))}">{name}</a>' for name, path in files.items()
    )
    if sheet is None:
        return f'<p class="missing">{label}: no image; {links}</p>\n'
    from matplotlib.image import imsave

    stream = io.BytesIO()
    imsave(stream, sheet, format="png")
    return (
        f'<figure class="sheet"><div class="scroll" tabindex="0" role="region" aria-label="{label}">'
        f'<img src="{data_uri(stream.getvalue(), "image/png")}" alt="frames of {label}"></div>'
        f'<p class="caption">{label} ({links})</p></figure>\n'
    )


def _folded(summary: str, content: str) -> str:
    return f"<details><summary>{summary}</summary>{content}</details>\n"


def _list(lines: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{html.escape(line)}</li>" for line in lines) + "</ul>"
