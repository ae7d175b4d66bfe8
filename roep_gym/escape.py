"""Text from outside, made harmless in each form in which it is shown or stored.

Names and reasons may come from another tool's file. `terminal`, `latex`, `markdown`, `html`, `csv` and `figure` return
a text so that the form shows exactly its characters and obeys none of them, `uncsv` reverses `csv`, `file_name` makes
one name of a file of it, and `visible` shows control characters, as all of them do.
"""

from __future__ import annotations

import hashlib
import re
from html import escape as _html

__all__ = ["csv", "figure", "file_name", "html", "latex", "markdown", "terminal", "uncsv", "visible"]

_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
"""Control characters, marks that reorder or hide text, and halves of characters, which no stream can encode."""

_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "_": r"\_", "&": r"\&", "%": r"\%", "#": r"\#", "$": r"\$",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": "$<$", ">": "$>$", "|": "$|$", "[": "{[}", "]": "{]}",
}  # fmt: skip
_MARKDOWN = re.compile(r"[\\`*|$~]|(?<!\w)_|_(?!\w)|\](?=[(\[:])|^[#+>-](?=\s)")
_MARKUP = re.compile(r"<(?=[A-Za-z/!?])|&(?=#|\w+;)")
"""Where an HTML tag or a character reference begins; other signs of comparison stay as they are."""
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_UNSAFE_IN_FILES = re.compile(rf'^\.|[%/\\:*?"<>|]|{_INVISIBLE.pattern}')
_LONGEST_FILE_NAME = 120


def visible(text: str) -> str:
    r"""Return a text with control characters shown as their escapes.

    >>> visible("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return _INVISIBLE.sub(lambda found: repr(found[0])[1:-1], text)


def terminal(text: str) -> str:
    """Return a text for a terminal; its line breaks are kept."""
    return "\n".join(map(visible, text.split("\n")))


def latex(text: str) -> str:
    r"""Return a text for LaTeX; brackets too, since one after a line break would be read as its argument.

    >>> latex("a_b")
    'a\\_b'
    """
    return "".join(_LATEX.get(character, character) for character in visible(text))


def markdown(text: str) -> str:
    r"""Return a text for one line or cell of Markdown.

    >>> markdown("a|b <c>")
    'a\\|b &lt;c>'
    """
    marked = _MARKDOWN.sub(lambda found: f"\\{found[0]}", visible(text))
    return _MARKUP.sub(lambda found: _html(found[0]), marked)


def html(text: str) -> str:
    """Return a text for HTML, attributes included."""
    return _html(visible(text))


def csv(text: str) -> str:
    """Return a text for a cell of CSV: what a spreadsheet would take for a formula begins with an apostrophe.

    >>> csv("=cmd()"), csv("-0.5")
    ("'=cmd()", '-0.5')
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def uncsv(text: str) -> str:
    """Return the text of which `csv` made a cell.

    >>> uncsv("'=cmd()")
    '=cmd()'
    """
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def figure(text: str) -> str:
    r"""Return a text for matplotlib, which would read what is between two dollar signs as mathematics.

    >>> figure("$x_$")
    '\\$x_\\$'
    """
    return visible(text).replace("$", r"\$")


def file_name(text: str) -> str:
    """Return the name of one file or folder for a text; two texts never share one.

    >>> file_name("../a"), file_name("pi0[v2]")
    ('%2E.%2Fa', 'pi0[v2]')
    """
    name = _UNSAFE_IN_FILES.sub(
        lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass")), text
    )
    if len(name.encode()) > _LONGEST_FILE_NAME:
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        short = name.encode()[: _LONGEST_FILE_NAME - 20].decode(errors="ignore")
        name = f"{short}%~{digest}"
    return name or "%"
