"""The report: one self-contained HTML file with everything that a reader of a run asks for.

`report_page` returns it; `statements` holds its sentences. The page loads nothing: style and script are inline, images
are data, and its security policy forbids everything else.
"""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from roep_gym import escape
from roep_gym.evaluate.judging.checks import CHECKS
from roep_gym.evaluate.judging.verdict_document import WORDING, status_summary
from roep_gym.evaluate.report.episodes import episode_label, example_episodes
from roep_gym.evaluate.report.figures import Drawn
from roep_gym.evaluate.report.frame_figures import contact_sheet
from roep_gym.evaluate.report.records import DamagedFileError, EpisodeKey, Run
from roep_gym.evaluate.report.render import html_text, scrolled
from roep_gym.evaluate.report.statements import facts, limits
from roep_gym.evaluate.report.style import encoded
from roep_gym.evaluate.report.table import Table

__all__ = ["data_uri", "report_page"]

_STYLE = """
:root { --ink: #1c1c1c; --muted: #5a5a5a; --line: #d5d5d5; --accent: #0b4f87; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1rem; color: var(--ink); background: #fff;
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .5rem 0; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .6rem; padding-top: .6rem; border-top: 2px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.4rem 0 .4rem; }
nav ul { display: flex; flex-wrap: wrap; gap: .2rem 1rem; padding: 0; list-style: none; }
a { color: var(--accent); }
dl { display: grid; grid-template-columns: minmax(7rem, 12rem) 1fr; gap: .3rem 1rem; }
dt { color: var(--muted); }
dd { margin: 0; }
figure { margin: 1.2rem 0; }
figcaption { font-weight: 600; margin-bottom: .3rem; }
.caption, .notes { color: var(--muted); font-size: .9rem; }
.notes { padding-left: 1.2rem; margin: .4rem 0; }
.scroll { overflow-x: auto; max-width: 100%;  /* a shadow at the right edge while there is more to scroll to */
  background: linear-gradient(to left, #fff 30%, #fff0) 100% 0 / 3rem 100% local no-repeat,
    linear-gradient(to left, #0003, #0000) 100% 0 / .9rem 100% scroll no-repeat; }
.scroll:focus-visible { outline: 2px solid var(--accent); }
.picture img { display: block; max-width: 100%; min-width: 34rem; height: auto; }
.sheet img { display: block; height: 6rem; width: auto; image-rendering: pixelated; }
table { border-collapse: collapse; font-size: .85rem; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; max-width: 26rem;
  overflow-wrap: normal; }
thead th { vertical-align: bottom; border-bottom: 2px solid var(--ink); }
td.left, th.left { text-align: left; }
td.right, th.right { text-align: right; font-variant-numeric: tabular-nums; }
td.right { white-space: nowrap; }
td.long { min-width: 10rem; }
th button { font: inherit; font-weight: 600; color: inherit; background: none; border: 0; padding: .2rem 0;
  cursor: pointer; text-align: inherit; }
th[aria-sort=ascending] button::after { content: " \\25b2"; }
th[aria-sort=descending] button::after { content: " \\25bc"; }
details { border: 1px solid var(--line); border-radius: .3rem; margin: .4rem 0; padding: .3rem .7rem; }
summary { cursor: pointer; }
.status { font-weight: 600; }
.missing { border-left: 4px solid var(--line); padding: .3rem .8rem; color: var(--muted); }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .5rem; } }
@media print { nav { display: none; } .scroll { overflow: visible; } .picture img { min-width: 0; } }
"""

_SCRIPT = """
document.querySelectorAll("table.sortable thead button").forEach(button => {
  button.addEventListener("click", () => {
    const heading = button.parentElement, body = heading.closest("table").tBodies[0];
    const ascending = heading.getAttribute("aria-sort") !== "ascending";
    heading.parentElement.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    const compare = (a, b) => {
      if (a === "" || b === "") return (a === "") - (b === "");  // what is missing stays below
      return (ascending ? 1 : -1) * (isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b);
    };
    const key = row => row.cells[heading.cellIndex].dataset.value;
    [...body.rows].sort((first, second) => compare(key(first), key(second))).forEach(row => body.append(row));
  });
});
"""

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


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
        folder: Folder of the page, to which links to stored files are relative.
        videos: Videos of episodes, which contact sheets then link to.
    """
    table = {item.name: item for item in tables}
    figure = {item.name: item for item in figures}

    def show(*names: str) -> str:
        return "".join(html_text(table[name]) for name in names)

    def draw(*names: str) -> str:
        return "".join(_figure(figure[name]) for name in names)

    stated = "".join(f"<dt>{name}</dt><dd>{escape.html(fact)}</dd>" for name, fact in facts(run).items())
    sections = {
        "What was evaluated": f"<dl>{stated}</dl>",
        "Claims": _rows(run, table["checks"]) + show("claims", "A3", "2", "A1"),
        "Outcomes": draw("3", "effects") + show("3", "4", "effects", "success"),
        "Failures by reason": draw("4") + show("failures"),
        "Harm and shield": show("A4", "A5") + draw("reliability", "A2", "A3", "A4"),
        "Severity": draw("severity") + show("severity", "A6a", "A6b") + draw("A1"),
        "Episodes": draw("2") + _contact_sheets(run, folder, videos or {}),
        "Provenance and fidelity": show("A2") + _folded("Every field of every contract", show("contract")),
        "Limits": "<ul>" + "".join(f"<li>{escape.html(limit)}</li>" for limit in limits(run)) + "</ul>",
    }
    lead = f'<p class="status">{escape.html(status_summary(run.judgement))}</p><p>{escape.html(WORDING)}</p>'
    return _document(f"Evaluation report: {run.name}", lead, sections)


def _rows(run: Run, checks: Table) -> str:
    """Return the checks of each row behind a summary with its status."""
    verdicts, lines = run.judgement.verdicts, checks.without("model", "suite", "task")
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
        summary = f'{escape.html(run.short(row))}: <span class="status">{escape.html(status)}</span>'
        parts.append(_folded(summary, html_text(own)))
    return "".join(parts)


def _figure(drawn: Drawn) -> str:
    title = f"Figure {drawn.name}. {escape.html(drawn.kind.title)}"
    if drawn.figure is None:
        return f'<p class="missing">{title}: N/A, {escape.html(drawn.reason)}.</p>\n'
    source = data_uri(encoded(drawn.figure, "svg"), "image/svg+xml")
    image = f'<img src="{source}" alt="{escape.html(drawn.kind.title)}">'
    return (
        f'<figure class="picture"><figcaption>{title}</figcaption>{scrolled(f"Figure {drawn.name}", image)}'
        f'<p class="caption">{escape.html(drawn.kind.caption)}</p></figure>\n'
    )


def _contact_sheets(run: Run, folder: Path, videos: Mapping[EpisodeKey, Path]) -> str:
    """Return frames of example episodes, inlined, with links to the stored frames and the videos."""
    keys = example_episodes(run)
    if not keys:
        return '<p class="missing">Contact sheets: N/A, no frames are stored.</p>\n'
    sheets = [_sheet(run, key, folder, videos) for key in keys]
    return "<h3>First success and first failure of each row</h3>" + "".join(sheets)


def _sheet(run: Run, key: EpisodeKey, folder: Path, videos: Mapping[EpisodeKey, Path]) -> str:
    label = escape.html(f"{episode_label(run, key)}: {run.reason(key).replace('_', ' ')}")
    files = {"stored frames": run.frames_path(key)} | ({"video": videos[key]} if key in videos else {})
    links = ", ".join(
        f'<a href="{escape.html(os.path.relpath(path, folder))}">{name}</a>' for name, path in files.items()
    )
    try:
        sheet, missing = contact_sheet(run.frames(key)), "no image"
    except DamagedFileError as damaged:
        sheet, missing = None, f"N/A, {escape.html(str(damaged))}"
    if sheet is None:
        return f'<p class="missing">{label}: {missing}; {links}</p>\n'
    from matplotlib.image import imsave

    stream = io.BytesIO()
    imsave(stream, sheet, format="png")
    image = f'<img src="{data_uri(stream.getvalue(), "image/png")}" alt="frames of {label}">'
    caption = f'<p class="caption">{label} ({links})</p>'
    return f'<figure class="sheet">{scrolled(label, image)}{caption}</figure>\n'


def _folded(summary: str, content: str) -> str:
    return f"<details><summary>{summary}</summary>{content}</details>\n"


def _document(title: str, lead: str, sections: Mapping[str, str]) -> str:
    """Return the page of a title (text), what follows it (HTML), and sections (HTML by heading)."""
    anchors = {heading: heading.lower().replace(" ", "-") for heading in sections}
    links = "".join(f'<li><a href="#{anchor}">{heading}</a></li>' for heading, anchor in anchors.items())
    body = "".join(
        f'<section><h2 id="{anchors[heading]}">{heading}</h2>\n{content}</section>\n'
        for heading, content in sections.items()
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f'<link rel="icon" href="data:,">\n<title>{escape.html(title)}</title>\n<style>{_STYLE}</style>\n</head>\n'
        f"<body>\n<header><h1>{escape.html(title)}</h1>\n{lead}<nav><ul>{links}</ul></nav></header>\n"
        f"<main>{body}</main>\n<script>{_SCRIPT}</script>\n</body>\n</html>\n"
    )


def data_uri(content: bytes, mime: str) -> str:
    """Return bytes as a data URI."""
    return f"data:{mime};base64,{base64.b64encode(content).decode()}"
