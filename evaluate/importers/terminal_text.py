"""Messages of a console log, whatever carried it here: `read_messages`.

Between a script and a file stand terminals (colours, cursor moves, progress bars that overwrite lines), log handlers
(`INFO:root:`, rich's columns, JSON lines) and what collects output (docker compose, kubectl, srun, journald, GNU
parallel, W&B, `ts`). A message begins with one of the caller's heads; what stands before it on its line must be a
prefix: marks, times, levels and tags that are known, or what stands before the lines that can be nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Message", "read_messages"]

_ESCAPE = r"(?:\x1b|\^\[|\\033|\\x1b|\\e|\\u001b|#033)"
_BLANKS = re.compile(_ESCAPE + r"\[(\d*)C")
_MOVES = re.compile(_ESCAPE + r"\[[\d;]*[ABEFGHJSTdf]")
_OTHER = re.compile(
    rf"{_ESCAPE}\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()#][0-9A-Za-z]|\x1b[ -/]*[0-~]"
)
_LOST_COLOURS = re.compile(r"\[\d{1,3}(?:;\d{1,3})*m|\[0?m")
"""Colours whose escape character was lost on the way."""
_RUBBED_OUT = re.compile(r"[^\n\b]\b")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")

_BAR_GLYPHS = "\u2580-\u259f\u2500-\u257f"
_BAR = re.compile(
    r"\d{1,3}(?:\.\d+)?%\s?\|[^|\n]*\|\s*[\d.]+[kMG]?/[\d.?]+[kMG]?\s*\[[^\]\n]*\]"
    r"|\d+(?:it|ep|step)s? \[\d\d:\d\d[^\]\n]*\]"
)
_REMNANT = re.compile(
    rf"(?:\s*[{_BAR_GLYPHS}]|\s*#{{2,}}[#0-9]*|\s*\|)[^\n]*?\d+/\d+\s*\[[^\]\n]*\].*$|\s*(?:[{_BAR_GLYPHS}]|#{{3,}}).*$|\s+\|\s*$"
)
"""What an overwritten progress bar leaves behind a message."""

_RICH = re.compile(r"^(\[[^\]]*\]\s|\s{5,})\s*(DEBUG|INFO|WARNING|ERROR|CRITICAL)\s{2,}")
_RICH_LEVEL = 9
"""Width of rich's column of levels."""
_SOURCE_COLUMN = re.compile(r"\s{2,}\S+\.py:\d+\s*$")
_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|SUCCESS)"
_HAS_LEVEL = re.compile(rf"\b{_LEVEL}\b|\b[IWEF]\d{{4}} ", re.IGNORECASE)
_LOGGER = re.compile(rf"{_LEVEL}:[\w.]+:")
_TOKEN = re.compile(
    rf"""(?:
      [\[(<]?\d[\d\-:.,/TZ+]*[\])>]?:?                                          # times, dates, ranks, process ids
    | (?:Mon|Tue|Wed|Thu|Fri|Sat|Sun|Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec),?
    | AM|PM|UTC|GMT|stdout|stderr|[FP]
    | [\[(<]?{_LEVEL}[\])>]?:?(?:[\w.]+:)? | {_LEVEL}:[\w.]+: | [IWEF]\d{{4}}
    | \[[^\]]*\]:? | \([^)]*\):? | <[^>]*>:?
    | [\w.<>-]+\[\d+\]: | [\w./-]+\s*[|\u2502\u2503\u00a6] | [|\u2502\u2503\u00a6>-]+
    | \S*\.py:\d+[\]:]? | [\w.<>]+:[\w.<>]+:\d+ | wandb:
    )(?:\s+|(?=[\[(<|:A-Z]|$))""",
    re.VERBOSE,
)


class Message(NamedTuple):
    """A message of a log.

    Attributes:
        text: The message from its head on; the whole line where it has no head.
        headed: Whether it begins with a head.
        prefix: What stands before the head.
    """

    text: str
    headed: bool
    prefix: str

    @property
    def has_level(self) -> bool:
        """Whether a logger wrote its level before the message."""
        return _HAS_LEVEL.search(self.prefix) is not None

    @property
    def has_logger(self) -> bool:
        """Whether the prefix is that of Python's `logging.basicConfig`."""
        return _LOGGER.search(self.prefix) is not None


def read_messages(text: str, heads: re.Pattern[str], anchors: re.Pattern[str]) -> Iterator[Message]:
    """Yield the messages of a console log in order, one line each.

    Args:
        text: The log.
        heads: How a message may begin.
        anchors: Heads that can be nothing else wherever they stand; what stands before them is a prefix.
    """
    lines = list(_lines(text))
    known = set()
    for line in lines:
        if found := anchors.search(line):
            prefix = line[: found.start()]
            known |= {_shape(prefix), _shape(_LOGGER.sub("", prefix))}
    for line in lines:
        for found in heads.finditer(line):
            prefix = line[: found.start()]
            if _is_prefix(prefix) or _shape(prefix) in known:
                message = _REMNANT.sub("", _SOURCE_COLUMN.sub("", line[found.start() :])).strip()
                yield Message(message.removesuffix('"') if prefix.endswith('"') else message, True, prefix)
                break
        else:
            yield Message(line.strip(), False, "")


def _lines(text: str) -> Iterator[str]:
    """Yield the lines that a terminal would have shown, progress bars left out."""
    text = _unpacked(text)
    text = _BLANKS.sub(lambda found: " " * min(int(found[1] or 1), 500), text)
    text = _OTHER.sub("", _MOVES.sub("\n", text))
    text = _LOST_COLOURS.sub("", text)
    while "\b" in text and (shorter := _RUBBED_OUT.sub("", text)) != text:
        text = shorter
    text = _CONTROL.sub("", _BAR.sub("\n", text))
    return _unwrapped(text.splitlines())


def _unpacked(text: str) -> str:
    """Return the text inside of a log whose every line is a JSON object, as docker and journald write them."""
    lines = text.splitlines()
    if not next(filter(None, lines), "").startswith("{"):
        return text
    inner = []
    for line in filter(None, lines):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            return text
        held = [record.get(key) for key in ("log", "MESSAGE", "message", "msg", "content", "line")]
        found = next((value for value in held if isinstance(value, str)), None)
        if found is None:
            return text
        inner.append(found.removesuffix("\n"))
    return "\n".join(inner)


def _unwrapped(lines: list[str]) -> Iterator[str]:
    """Yield lines, with the continued lines of rich's message column joined to the one that they continue."""
    column, held = 0, ""
    for line in lines:
        if found := _RICH.match(line):
            if held:
                yield held
            column, held = found.start(2) + _RICH_LEVEL, _SOURCE_COLUMN.sub("", line.rstrip())
        elif column and held and line.strip() and not line[:column].strip():
            piece = line[column:].rstrip()
            if len(held) <= column or piece.startswith("Task: "):
                # The message begins with a line break, or holds one.
                yield held
                held = " " * column + piece
            else:
                held = f"{held} {piece.strip()}"
        else:
            if held:
                yield held
            held = ""
            yield line
    if held:
        yield held


def _is_prefix(prefix: str) -> bool:
    """Tell whether a text consists of times, levels, tags and marks."""
    at, prefix = 0, prefix.lstrip()
    while at < len(prefix):
        found = _TOKEN.match(prefix, at)
        if found is None:
            return False
        at = found.end()
    return True


def _shape(prefix: str) -> str:
    """Return a prefix without what differs from line to line."""
    return " ".join(re.sub(r"\d+", "0", re.sub(_LEVEL, "L", prefix)).split())
