"""Code blocks of Markdown files, and running them.

The rule, also told in `docs/development.md`:

- Every fenced block names its language.
- `python` blocks run, in order, in one namespace a file.
- `bash` and `console` blocks do not run, but their `roep-gym` commands and options and their `make` targets must exist.
- An HTML comment on the line before a block changes that: `<!-- test: run -->` runs a `bash` block,
  `<!-- test: libero -->` and `<!-- test: slow -->` run a block with the tests of that mark, and
  `<!-- test: skip, REASON -->` leaves it out.
"""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LEVELS = ("quick", "libero", "slow")
SHELLS = ("bash", "console")
_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<info>[^`]*)$")
_MARKER = re.compile(r"^ *<!-- test: (?P<what>[^>]*?) *-->$")


class DocumentationError(AssertionError):
    """A documentation file breaks the rule above."""


@dataclass(frozen=True)
class Block:
    """One fenced code block.

    Attributes:
        path: File that holds it.
        line: Line of the opening fence, from 1.
        language: First word of the fence.
        code: Text of the block.
        marker: What the HTML comment before it asks for; empty without one.
    """

    path: Path
    line: int
    language: str
    code: str
    marker: str

    @property
    def where(self) -> str:
        """File and line, as editors understand them."""
        return f"{self.path}:{self.line}"

    @property
    def level(self) -> str | None:
        """With which tests the block runs; None if it does not."""
        if self.marker in LEVELS:
            return self.marker
        if self.marker.startswith("skip"):
            return None
        return "quick" if self.language == "python" or self.marker == "run" else None


def read_blocks(path: Path) -> list[Block]:
    """Return the blocks of a file.

    Raises:
        DocumentationError: A block names no language or is not closed, or a marker is unknown or marks no block.
    """
    blocks: list[Block] = []
    marker, marker_line = "", 0
    lines = iter(enumerate(path.read_text(encoding="utf-8").splitlines(), start=1))
    for number, line in lines:
        fence, found = _FENCE.match(line), _MARKER.match(line)
        if marker and fence is None:
            raise DocumentationError(
                f"{path}:{marker_line}: the marker {marker!r} stands before no code block"
            )
        if found:
            marker, marker_line = _known_marker(found["what"], f"{path}:{number}"), number
        if fence is None:
            continue
        language = (fence["info"].split() or [""])[0]
        if not language:
            raise DocumentationError(
                f"{path}:{number}: the code block names no language; say text if it has none"
            )
        code: list[str] = []
        for _, inner in lines:
            if inner.strip() == fence["ticks"]:
                break
            code.append(inner.removeprefix(fence["indent"]))
        else:
            raise DocumentationError(f"{path}:{number}: the code block is not closed")
        blocks.append(Block(path, number, language, "\n".join(code) + "\n", marker))
        marker = ""
    if marker:
        raise DocumentationError(f"{path}:{marker_line}: the marker {marker!r} stands before no code block")
    return blocks


def _known_marker(what: str, where: str) -> str:
    if what in ("run", "libero", "slow") or re.fullmatch(r"skip, .+", what):
        return what
    raise DocumentationError(f"{where}: expected run, libero, slow or 'skip, REASON' as marker, got {what!r}")


def run_blocks(blocks: Sequence[Block], level: str, folder: Path) -> dict[str, Any]:
    """Run what a level includes, in order, in one folder, and return the names that its Python blocks made.

    Lower levels are included, because a block may use what the blocks before it made.
    """
    wanted = LEVELS[: LEVELS.index(level) + 1]
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks:
        if block.level not in wanted:
            continue
        if block.language == "python":
            # Empty lines in front, so that a traceback shows the line of the Markdown file.
            compiled = compile("\n" * block.line + block.code, str(block.path), "exec")
            with redirect_stdout(io.StringIO()):
                exec(compiled, namespace)
        elif block.language in SHELLS:
            _run_shell(block, folder)
        else:
            raise DocumentationError(f"{block.where}: a {block.language} block cannot run")
    return namespace


def _run_shell(block: Block, folder: Path) -> None:
    script = "\n".join(commands(block))
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"export PATH={shlex.quote(path)}\n{script}"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise DocumentationError(f"{block.where}: exit status {done.returncode}\n{done.stdout}{done.stderr}")


def commands(block: Block) -> list[str]:
    """Return the command lines of a shell block: prompts removed, continued lines joined, output left out."""
    text = block.code.replace("\\\n", " ")
    lines = text.splitlines()
    if block.language == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def check_commands(block: Block, options: Mapping[str, frozenset[str]], targets: frozenset[str]) -> None:
    """Hold the commands of a shell block against what exists.

    Args:
        block: The block.
        options: Options of every `roep-gym` command by its name.
        targets: Targets of the Makefile.
    """
    for line in commands(block):
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for token in [*lexer, ";"]:
            if not set(token) <= set("();<>|&"):
                words.append(token)
                continue
            _check_command(words, block.where, options, targets)
            words = []


def _check_command(
    words: list[str], where: str, options: Mapping[str, frozenset[str]], targets: frozenset[str]
) -> None:
    words = words[next((i for i, word in enumerate(words) if "=" not in word), len(words)) :]
    if words[:3] == ["python", "-m", "roep_gym"]:
        words = ["roep-gym", *words[3:]]
    if words[:1] == ["make"]:
        named = [word for word in words[1:] if "=" not in word and not word.startswith("-")]
        if unknown := [word for word in named if word not in targets]:
            raise DocumentationError(f"{where}: the Makefile has no target {unknown[0]!r}")
    elif words[:1] == ["roep-gym"] and words[1:2] not in (["--help"], ["--version"]):
        name = words[1] if len(words) > 1 else ""
        if name not in options:
            raise DocumentationError(f"{where}: roep-gym has no command {name!r}")
        used = [word.split("=")[0] for word in words[2:] if word.startswith("--")]
        if unknown := [option for option in used if option not in options[name]]:
            raise DocumentationError(f"{where}: roep-gym {name} has no option {unknown[0]!r}")
