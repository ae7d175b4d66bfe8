"""Tables in the forms in which people and programs read them.

`FORMS` maps a form's name to its file suffix and writer: terminal text through rich, CSV, Markdown, LaTeX and HTML.
A missing value is "N/A" with a mark whose reason stands below the table; CSV, which has no below, writes the reason
into the cell.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from roep_gym import escape
from roep_gym.evaluate.report.table import Cell, Column, Table

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "FORMS",
    "Form",
    "csv_text",
    "html_text",
    "latex_text",
    "markdown_text",
    "print_table",
    "scrolled",
    "terminal_text",
]


class Form(NamedTuple):
    """A form of a table: the suffix of its file, and what writes it."""

    suffix: str
    write: Callable[[Table], str]


def csv_text(table: Table) -> str:
    """Return a table as CSV: full precision, every part in a column of its own, notes left out."""
    table = table.for_reader("programs")
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    headings = (
        (column.name, *(f"{column.name}_{part}" for part in column.parts)) for column in table.columns
    )
    writer.writerow(itertools.chain(*headings))
    for row in table.rows:
        cells: list[str] = []
        for column, cell in zip(table.columns, row, strict=True):
            cells.append(_exact(f"N/A: {cell.reason}" if cell.value is None else cell.value))
            cells += [_exact(cell.parts[part]) if part in cell.parts else "N/A" for part in column.parts]
        writer.writerow(cells)
    return stream.getvalue()


def markdown_text(table: Table) -> str:
    """Return a table in Markdown, its title above and its notes below."""
    page = _Page(table, escape.markdown)
    rule = [":--" if column.align == "left" else "--:" for column in page.columns]
    lines = [f"| {' | '.join(cells)} |" for cells in (page.headings, rule, *page.lines)]
    return "\n".join([f"**{page.title}**", "", *lines, "", *(f"- {note}" for note in page.notes), ""])


def latex_text(table: Table) -> str:
    """Return a table as a LaTeX tabular (package booktabs), its notes below the bottom rule."""
    page = _Page(table, escape.latex)
    align = "".join(column.align[0] for column in page.columns)
    head, *body = (rf"{' & '.join(cells)} \\" for cells in (page.headings, *page.lines))
    # A note gets a paragraph cell, since it is longer than any column.
    cell = rf"\multicolumn{{{len(page.columns)}}}{{p{{0.95\linewidth}}}}"
    notes = [rf"{cell}{{\footnotesize {note}}} \\" for note in page.notes]
    begin = [f"% {page.title}", rf"\begin{{tabular}}{{{align}}}", r"\toprule", head, r"\midrule"]
    return "\n".join([*begin, *body, r"\bottomrule", *notes, r"\end{tabular}", ""])


def html_text(table: Table) -> str:
    """Return a table as an HTML element whose headings are buttons that the page's script sorts by."""
    page, name = _Page(table, escape.html), escape.html(table.name)
    head = "".join(
        f'<th scope="col" class="{column.align}"><button type="button">{heading}</button></th>'
        for column, heading in zip(page.columns, page.headings, strict=True)
    )
    body = ""
    for cells, line in zip(page.rows, page.lines, strict=True):
        body += "<tr>"
        for column, cell, shown in zip(page.columns, cells, line, strict=True):
            key = "" if cell.value is None else escape.html(_exact(cell.value))
            body += f'<td class="{_cell_class(column, cell)}" data-value="{key}">{shown}</td>'
        body += "</tr>\n"
    notes = "".join(f"<li>{note}</li>" for note in page.notes)
    element = (
        f'<table id="table-{name}" class="sortable">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
    below = f'<ul class="notes">{notes}</ul>' if notes else ""
    caption = f"<figcaption>{page.title}</figcaption>"
    return f'<figure class="table">{caption}{scrolled(f"Table {name}", element)}{below}</figure>\n'


def scrolled(label: str, content: str) -> str:
    """Return an HTML element that scrolls what is wider than the page, reachable by keyboard."""
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{label}">{content}</div>'


def terminal_text(table: Table) -> str:
    """Return a table as plain text at its full width."""
    from rich.console import Console

    stream = io.StringIO()
    print_table(table, Console(file=stream, highlight=False))
    return stream.getvalue()


def print_table(table: Table, console: Console) -> None:
    """Print a table on a console: into a pipe or file at its full width, on a terminal never wider than that.

    On a terminal, model and suite are a line above their rows, and a table that is still too wide comes in blocks of
    columns, each with the labels of the rows.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    page = _Page(table, escape.visible)
    above = _GROUP if console.is_terminal and [c.name for c in page.columns[:3]] == [*_GROUP, "task"] else ()
    columns, lines = page.columns[len(above) :], [line[len(above) :] for line in page.lines]
    blocks = _column_blocks(columns, lines, console.width if console.is_terminal else None)
    if not console.is_terminal:
        console = Console(file=console.file, highlight=False, width=100_000)
    console.print(Text(page.title, style="bold"), soft_wrap=True)
    for block in blocks:
        groups = itertools.groupby(page.lines, lambda line: line[: len(above)])
        for number, (group, members) in enumerate(groups):
            if group:
                console.print(Text("  ".join(group), style="bold"), soft_wrap=True)
            first = not number
            shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_header=first, show_edge=first)
            for k, width in block.items():
                column = columns[k]
                shown.add_column(Text(column.heading), justify=column.align, overflow="fold", width=width)
            for line in members:
                shown.add_row(*(Text(line[len(above) + k]) for k in block))
            console.print(shown)
    for note in page.notes:
        console.print(Text(note), soft_wrap=True)


def _column_blocks(
    columns: Sequence[Column], lines: Sequence[Sequence[str]], width: int | None
) -> list[dict[int, int]]:
    """Divide the columns of a table into blocks that fit a width, each beginning with the labels of the rows.

    Headings and long texts wrap between words and nothing else does. Returns for each block the width of every column
    in it, by the column's position; a `width` of None fits everything.
    """
    cells = [[line[k] for line in lines] for k in range(len(columns))]
    full = [max(map(len, [column.heading, *texts])) for column, texts in zip(columns, cells, strict=True)]
    if width is None:
        return [dict(enumerate(full))]
    least = [
        max(map(len, [*column.heading.split(), *_unbreakable(texts)]))
        for column, texts in zip(columns, cells, strict=True)
    ]
    labels = [k for k, column in enumerate(columns) if column.name in _LABELS] or [0]
    blocks = [[*labels]]
    for k in (k for k in range(len(columns)) if k not in labels):
        taken = sum(least[i] + _BETWEEN_COLUMNS for i in [*blocks[-1], k])
        if taken > width and blocks[-1] != labels:
            blocks.append([*labels])
        blocks[-1].append(k)
    return [_spread(block, least, full, width) for block in blocks]


def _unbreakable(texts: Sequence[str]) -> list[str]:
    """Return what of a column's texts must stay in one line: words of long texts, short texts as they are."""
    if max(map(len, texts), default=0) <= _LONG_TEXT:
        return [*texts]
    return [word for text in texts for word in text.split()]


def _spread(block: Sequence[int], least: Sequence[int], full: Sequence[int], width: int) -> dict[int, int]:
    """Return the widths of a block's columns: the least, and what room is left in proportion to what they lack."""
    room = max(0, width - sum(least[k] + _BETWEEN_COLUMNS for k in block))
    lacking = max(1, sum(full[k] - least[k] for k in block))
    share = min(1.0, room / lacking)
    return {k: least[k] + int((full[k] - least[k]) * share) for k in block}


_GROUP = ("model", "suite")
_LABELS = (*_GROUP, "task", "condition")
_BETWEEN_COLUMNS = 3

FORMS: Mapping[str, Form] = {
    "table": Form("txt", terminal_text),
    "csv": Form("csv", csv_text),
    "markdown": Form("md", markdown_text),
    "latex": Form("tex", latex_text),
    "html": Form("html", html_text),
}


class _Page:
    """A table as people read it, every text escaped for a form.

    `lines` holds the text of each cell, with a mark where the value is missing, `notes` the reasons of the marks in the
    order of their appearance and the table's own notes.
    """

    def __init__(self, table: Table, escaped: Callable[[str], str]) -> None:
        table = table.for_reader("people")
        marks: dict[str, int] = {}

        def shown(cell: Cell) -> str:
            if cell.value is not None or not cell.reason:
                return escaped(cell.text)
            return escaped(f"{cell.text} [{marks.setdefault(cell.reason, len(marks) + 1)}]")

        self.title = escaped(f"Table {table.name}. {table.title}")
        self.columns, self.rows = table.columns, table.rows
        self.headings = [escaped(column.heading) for column in table.columns]
        self.lines = [[shown(cell) for cell in row] for row in table.rows]
        reasons = [f"[{number}] {reason}" for reason, number in marks.items()]
        self.notes = [escaped(note) for note in (*reasons, *table.notes)]


_LONG_TEXT = 24
"""Length of a text above which its cell gets room on a page."""


def _exact(value: object) -> str:
    """Return a value for programs; text is one line and no formula."""
    if isinstance(value, str):
        return escape.csv(escape.visible(value))
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _cell_class(column: Column, cell: Cell) -> str:
    return f"{column.align} long" if column.align == "left" and len(cell.text) > _LONG_TEXT else column.align
