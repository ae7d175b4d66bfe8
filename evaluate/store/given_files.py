"""Files that people give: how their text is encoded, how messages name them, and names that look alike.

`encoding_of` and `read_text` read text with any byte-order mark, `file_labels` names files that share a base name,
`appearance`, `spelled` and `beside` compare and show names that differ only invisibly, `absent_names` offers the
closest name that there is.
"""

from __future__ import annotations

import codecs
import difflib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from roep_gym.error import InvalidInputError

__all__ = ["absent_names", "appearance", "beside", "encoding_of", "file_labels", "read_text", "spelled"]

_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (codecs.BOM_UTF8, "utf-8-sig"),
)
_MAX_BYTES = 256 * 2**20


def encoding_of(path: Path) -> str:
    """Return the encoding that a file's byte-order mark names, UTF-8 without one."""
    with path.open("rb") as stream:
        head = stream.read(4)
    return next((name for mark, name in _MARKS if head.startswith(mark)), "utf-8")


def read_text(path: Path, what: str, remedy: str) -> str:
    """Read a text file of at most 256 MiB in UTF-8, or in the encoding of its byte-order mark.

    A message says what was expected ("a text log of openpi") and what to do otherwise.
    """
    try:
        encoding = encoding_of(path)
        with path.open("rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
        text = content.decode(encoding) if len(content) <= _MAX_BYTES else ""
    except (OSError, UnicodeError) as error:
        raise InvalidInputError(
            f"{path}: Expected {what}, but reading it failed: {error}; {remedy}."
        ) from error
    if len(content) > _MAX_BYTES:
        raise InvalidInputError(
            f"{path}: Expected {what} of at most {_MAX_BYTES >> 20} MiB, got a larger file; split it."
        )
    if 3 * text.count("\0") > len(text):
        raise InvalidInputError(
            f"{path}: Expected {what} in UTF-8, got what looks like UTF-16 without a byte-order mark; save it as UTF-8."
        )
    return text


def file_labels(paths: Sequence[Path]) -> list[str]:
    """Return how messages name the files: by base name, or by path where several share one."""
    named = Counter(path.name for path in set(paths))
    return [path.name if named[path.name] == 1 else str(path) for path in paths]


def appearance(name: str) -> str:
    """Return what a reader sees of a name: one Unicode form, without invisible characters and outer blanks."""
    seen = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf")
    return " ".join(seen.split())


def spelled(name: str, other: str) -> str:
    """Return a name in quotes, with code points where it looks like the other one."""
    return ascii(name) if name != other and appearance(name) == appearance(other) else repr(name)


def beside(names: Sequence[str], others: Sequence[str]) -> tuple[str, str]:
    """Return two sequences of names as a message shows them beside each other."""
    pairs = list(zip(names, others, strict=True))
    return ", ".join(spelled(a, b) for a, b in pairs), ", ".join(spelled(b, a) for a, b in pairs)


def absent_names(names: Sequence[str], known: Iterable[Sequence[str]], file: str) -> str:
    """Return the end of the sentence that these names have no line in a file, with the closest that have."""
    joined = {"\0".join(map(appearance, other)): other for other in known}
    close = difflib.get_close_matches("\0".join(map(appearance, names)), joined, n=1, cutoff=0.85)
    if not close:
        return f"{', '.join(names)} has no line in {file}; add its line"
    mine, others = beside(names, joined[close[0]])
    return f"{mine} has no line in {file}, where the closest is {others}; correct the name or add its line"
