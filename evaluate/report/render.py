"""Tables in the forms in which people and programs read them.

`FORMS` maps a form's name to its file suffix and writer: terminal text through rich, CSV, Markdown, LaTeX and HTML.
A missing value is "N/A" with a mark whose reason stands below the table; CSV, which has no below, writes the reason
into the cell.
"""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

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
    "terminal_text",
]


class Form(NamedTuple):
    """A form of a table: the suffix of its file, and what writes it."""

    suffix: str
    write: Callable[[Table], str]


def csv_text(table: Table) -> str:
    """Return a table as CSV: full precision, every part in a column of its own, notes left out."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    header = []
    for column in table.columns:
        header += [column.name, *(f"{column.name}_{part}" for part in column.parts)]
    writer.writerow(header)
    for row in table.rows:
        cells: list[str] = []
        for column, cell in zip(table.columns, row, strict=True):
            cells.append(f"N/A: {cell.reason}" if cell.value is None else _exact(cell.value))
            cells += [_exact(cell.parts[part]) if part in cell.parts else "N/A" for part in column.parts]
        writer.writerow(cells)
    return stream.getvalue()


def markdown_text(table: Table) -> str:
    """Return a table in Markdown, its title above and its notes below."""
    marks = _Marks()
    rule = [":--" if column.align == "left" else "--:" for column in table.columns]
    lines = [_markdown_row([column.heading for column in table.columns]), _markdown_row(rule)]
    lines += [_markdown_row([marks.text(cell) for cell in row]) for row in table.rows]
    below = [f"- {note}" for note in (*marks.notes(), *table.notes)]
    return "\n".join([f"**Table {table.name}. {table.title}**", "", *lines, "", *below, ""])


def latex_text(table: Table) -> str:
    """Return a table as a LaTeX tabular (package booktabs), its notes below the bottom rule."""
    marks, width = _Marks(), len(table.columns)
    align = "".join(column.align[0] for column in table.columns)
    lines = [rf"% Table {table.name}. {table.title}", rf"\begin{{tabular}}{{{align}}}", r"\toprule"]
    lines += [_latex_row([column.heading for column in table.columns]), r"\midrule"]
    lines += [_latex_row([marks.text(cell) for cell in row]) for row in table.rows]
    lines.append(r"\bottomrule")
    for note in (*marks.notes(), *table.notes):
        # A paragraph cell, since a note is longer than any column.
        cell = rf"p{{0.95\linewidth}}}}{{\footnotesize {_latex(note)}"
        lines.append(rf"\multicolumn{{{width}}}{{{cell}}} \\")
    return "\n".join([*lines, r"\end{tabular}", ""])


def html_text(table: Table) -> str:
    """Return a table as an HTML element whose headings are buttons that the page's script sorts by."""
    marks = _Marks()
    head = "".join(
        f'<th scope="col" class="{column.align}"><button type="button">{html.escape(column.heading)}</button></th>'
        for column in table.columns
    )
    body = []
    for row in table.rows:
        cells = "".join(
            f'<td class="{_cell_class(column, cell)}" data-value="{_sort_key(cell)}">'
            f"{html.escape(marks.text(cell))}</td>"
            for column, cell in zip(table.columns, row, strict=True)
        )
        body.append(f"<tr>{cells}</tr>")
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in (*marks.notes(), *table.notes))
    name, title = html.escape(table.name), html.escape(table.title)
    return (
        f'<figure class="table"><figcaption>Table {name}. {title}</figcaption>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="Table {name}">'
        f'<table id="table-{name}" class="sortable">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
        + (f'<ul class="notes">{notes}</ul>' if notes else "")
        + "</figure>\n"
    )


def terminal_text(table: Table) -> str:
    """Return a table as plain text at its full width."""
    from rich.console import Console

    stream = io.StringIO()
    print_table(table, Console(file=stream, highlight=False))
    return stream.getvalue()


def print_table(table: Table, console: Console) -> None:
    """Print a table on a console; into a pipe or file at its full width, so that nothing is folded or cut."""
    from rich import box
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table as RichTable
    from rich.text import Text

    marks = _Marks()
    shown = RichTable(
        box=box.SIMPLE_HEAD, title=f"Table {table.name}. {table.title}", title_justify="left", pad_edge=False
    )
    for column in table.columns:
        shown.add_column(Text(column.heading), justify=column.align, overflow="fold")
    for row in table.rows:
        shown.add_row(*(Text(marks.text(cell)) for cell in row))
    if not console.is_terminal:
        unbounded = console.options.update(max_width=100_000)
        width = Measurement.get(console, unbounded, shown).maximum
        console = Console(file=console.file, highlight=False, width=width)
    console.print(shown)
    for note in (*marks.notes(), *table.notes):
        console.print(Text(note), soft_wrap=True)


FORMS: Mapping[str, Form] = {
    "table": Form("txt", terminal_text),
    "csv": Form("csv", csv_text),
    "markdown": Form("md", markdown_text),
    "latex": Form("tex", latex_text),
    "html": Form("html", html_text),
}


class _Marks:
    """Numbers the reasons of missing cells in the order of their appearance."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {}

    def text(self, cell: Cell) -> str:
        """Return a cell's text, with a mark where the value is missing."""
        if cell.value is not None or not cell.reason:
            return cell.text
        return f"{cell.text} [{self._number.setdefault(cell.reason, len(self._number) + 1)}]"

    def notes(self) -> list[str]:
        """Return one line a reason."""
        return [f"[{number}] {reason}" for reason, number in self._number.items()]


_LONG_TEXT = 24
"""Length of a text above which its cell gets room on a page."""


def _exact(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def _sort_key(cell: Cell) -> str:
    return "" if cell.value is None else html.escape(_exact(cell.value))


def _cell_class(column: Column, cell: Cell) -> str:
    return f"{column.align} long" if column.align == "left" and len(cell.text) > _LONG_TEXT else column.align


def _markdown_row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|").replace("\n", " ") for cell in cells) + " |"


def _latex_row(cells: list[str]) -> str:
    return " & ".join(map(_latex, cells)) + r" \\"


_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "_": r"\_", "&": r"\&", "%": r"\%", "#": r"\#", "$": r"\$",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": "$<$", ">": "$>$", "|": "$|$", "[": "{[}", "]": "{]}",
}  # fmt: skip


def _latex(value: str) -> str:
    """Escape text; brackets too, since one after a line break would be read as its argument."""
    return "".join(_LATEX.get(character, character) for character in value)
