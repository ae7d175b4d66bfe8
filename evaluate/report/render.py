"""Tables in the forms in which people and programs read them.

`FORMS` maps a form's name to its file suffix and writer: terminal text through rich, CSV, Markdown, LaTeX and HTML.
A missing value is "N/A" with a mark whose reason stands below the table; CSV, which has no below, writes the reason
into the cell.
"""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from roep_gym.evaluate.report.table import Cell, Column, Table

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "FORMS",
    "Form",
    "column_blocks",
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
    """Print a table on a console: into a pipe or file at its full width, on a terminal never wider than that.

    A table that is too wide for the terminal comes in blocks of columns, each with the labels of the rows.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    marks = _Marks()
    lines = [[marks.text(cell) for cell in row] for row in table.rows]
    blocks = column_blocks(table, lines, console.width if console.is_terminal else None)
    if not console.is_terminal:
        console = Console(file=console.file, highlight=False, width=100_000)
    console.print(Text(f"Table {table.name}. {table.title}", style="bold"), soft_wrap=True)
    for block in blocks:
        shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False)
        for k, width in block.items():
            shown.add_column(
                Text(table.columns[k].heading), justify=table.columns[k].align, overflow="fold", width=width
            )
        for line in lines:
            shown.add_row(*(Text(line[k]) for k in block))
        console.print(shown)
    for note in (*marks.notes(), *table.notes):
        console.print(Text(note), soft_wrap=True)


def column_blocks(table: Table, lines: Sequence[Sequence[str]], width: int | None) -> list[dict[int, int]]:
    """Divide the columns of a table into blocks that fit a width, each beginning with the labels of the rows.

    Headings and long texts wrap between words and nothing else does.

    Args:
        table: The table.
        lines: Its cells as text.
        width: Characters that a block may take; None for any number.

    Returns:
        For each block the width of every column in it, by the column's position.
    """
    cells = [[line[k] for line in lines] for k in range(len(table.columns))]
    full = [
        max(map(len, [column.heading, *texts])) for column, texts in zip(table.columns, cells, strict=True)
    ]
    if width is None:
        return [dict(enumerate(full))]
    least = [
        max(map(len, [*column.heading.split(), *_unbreakable(texts)]))
        for column, texts in zip(table.columns, cells, strict=True)
    ]
    labels = [k for k, column in enumerate(table.columns) if column.name in _LABELS] or [0]
    blocks = [[*labels]]
    for k in (k for k in range(len(table.columns)) if k not in labels):
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


_LABELS = ("model", "suite", "task", "condition")
_BETWEEN_COLUMNS = 3

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
