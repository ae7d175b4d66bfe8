"""What the documentation shows, runs: README.md and docs/*.md; the rule stands in `doc_blocks`."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from doc_blocks import LEVELS, ROOT, SHELLS, DocumentationError, check_commands, read_blocks, run_blocks

from roep_gym.cli.main import COMMANDS, main

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
OPTIONS = {"tasks": frozenset({"--json"})}
TARGETS = frozenset({"test", "evaluate"})


def _make_targets() -> frozenset[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return frozenset(re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)[1].split())


def _options_of(command: str) -> frozenset[str]:
    """Return the options that a command's own help names."""
    text = StringIO()
    with redirect_stdout(text), pytest.raises(SystemExit):
        main([command, "--help"])
    return frozenset(re.findall(r"--[a-zA-Z][\w.-]*", text.getvalue())) | {"--help"}


def _cases():
    """Return one case for each file and for each level at which it has a block."""
    for path in DOCUMENTS:
        levels = {block.level for block in read_blocks(path)}
        for level in LEVELS:
            if level in levels:
                marks = [] if level == "quick" else [getattr(pytest.mark, level)]
                yield pytest.param(path, level, marks=marks, id=f"{path.relative_to(ROOT)}-{level}")


@pytest.mark.parametrize(("path", "level"), list(_cases()))
def test_documentation_blocks_run(path, level, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    run_blocks(read_blocks(path), level, tmp_path)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_documented_commands_exist(path):
    blocks = [block for block in read_blocks(path) if block.language in SHELLS]
    named = {name for name in COMMANDS if any(re.search(rf"\b{name}\b", block.code) for block in blocks)}
    options = {name: _options_of(name) for name in named}
    for block in blocks:
        check_commands(block, options, _make_targets())


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_relative_links_lead_somewhere(path):
    text = _without_code(path)
    broken = []
    for target in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)", text):
        file, _, anchor = target.partition("#")
        page = path.parent / file if file else path
        if not page.exists() or (anchor and anchor not in _anchors(page)):
            broken.append(target)
    assert broken == []


def test_the_index_lists_every_page_once():
    listed = re.findall(r"^([\w/]+)$", (ROOT / "docs" / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    assert sorted(listed) == sorted({*pages, "api/modules"})


def _without_code(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    return re.sub(r"^ *(`{3,}).*?^ *\1 *$", "", text, flags=re.DOTALL | re.MULTILINE)


def _anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and Sphinx's Markdown parser make them."""
    headings = re.findall(r"^#+ (.+)$", _without_code(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def _write(folder: Path, text: str) -> Path:
    path = folder / "page.md"
    path.write_text(text.replace("'''", "```"))
    return path


def test_python_blocks_share_a_namespace_in_order(tmp_path):
    run_blocks(
        read_blocks(_write(tmp_path, "'''python\nx = 1\n'''\ntext\n'''python\nassert x == 1\n'''\n")),
        "quick",
        tmp_path,
    )


def test_a_failing_block_fails_at_its_line(tmp_path):
    path = _write(tmp_path, "# Title\n\n'''python\nx = 1\nraise ValueError('shown')\n'''\n")
    with pytest.raises(ValueError, match="shown") as caught:
        run_blocks(read_blocks(path), "quick", tmp_path)
    frame = caught.traceback[-1]
    assert (str(frame.path), frame.lineno + 1) == (str(path), 5)


def test_a_marked_block_waits_for_its_level_and_then_sees_the_others(tmp_path):
    path = _write(tmp_path, "'''python\nx = 1\n'''\n<!-- test: slow -->\n'''python\nx / 0\n'''\n")
    run_blocks(read_blocks(path), "quick", tmp_path)
    run_blocks(read_blocks(path), "libero", tmp_path)
    with pytest.raises(ZeroDivisionError):
        run_blocks(read_blocks(path), "slow", tmp_path)


def test_shell_blocks_run_only_when_marked(tmp_path):
    run_blocks(read_blocks(_write(tmp_path, "'''bash\ntouch made\n'''\n")), "slow", tmp_path)
    assert not (tmp_path / "made").exists()
    run_blocks(
        read_blocks(_write(tmp_path, "<!-- test: run -->\n'''bash\ntouch made\n'''\n")), "quick", tmp_path
    )
    assert (tmp_path / "made").exists()


def test_a_failing_shell_block_fails(tmp_path):
    path = _write(tmp_path, "<!-- test: run -->\n'''bash\nfalse\ntrue\n'''\n")
    with pytest.raises(DocumentationError, match=r"page\.md:2: exit status 1"):
        run_blocks(read_blocks(path), "quick", tmp_path)


def test_console_blocks_run_their_commands_and_not_their_output(tmp_path):
    path = _write(tmp_path, "<!-- test: run -->\n'''console\n$ touch a \\\n  b\nno such command\n'''\n")
    run_blocks(read_blocks(path), "quick", tmp_path)
    assert (tmp_path / "a").exists()
    assert (tmp_path / "b").exists()


def test_skipped_and_other_blocks_do_not_run(tmp_path):
    text = (
        "<!-- test: skip, needs a GPU -->\n'''python\n1 / 0\n'''\n'''text\n1 / 0\n'''\n'''yaml\na: 1\n'''\n"
    )
    blocks = read_blocks(_write(tmp_path, text))
    assert [block.level for block in blocks] == [None, None, None]
    run_blocks(blocks, "slow", tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("'''\nx\n'''\n", "names no language"),
        ("'''python\nx\n", "is not closed"),
        ("<!-- test: skip -->\n'''python\nx\n'''\n", "expected run, libero, slow or 'skip, REASON'"),
        ("<!-- test: sometimes -->\n'''python\nx\n'''\n", "got 'sometimes'"),
        ("<!-- test: run -->\ntext\n'''bash\nx\n'''\n", "stands before no code block"),
        ("text\n<!-- test: run -->\n", "stands before no code block"),
    ],
)
def test_what_breaks_the_rule_is_refused(tmp_path, text, message):
    with pytest.raises(DocumentationError, match=message):
        read_blocks(_write(tmp_path, text))


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("roep-gym task", "roep-gym has no command 'task'"),
        ("roep-gym tasks --jsn", "roep-gym tasks has no option '--jsn'"),
        ("A=1 python -m roep_gym tasks --jsn | head", "has no option '--jsn'"),
        ("true && roep-gym tsks", "has no command 'tsks'"),
        ("make tests", "the Makefile has no target 'tests'"),
    ],
)
def test_commands_that_do_not_exist_are_found(tmp_path, command, message):
    (block,) = read_blocks(_write(tmp_path, f"'''bash\n{command}\n'''\n"))
    with pytest.raises(DocumentationError, match=message):
        check_commands(block, OPTIONS, TARGETS)


@pytest.mark.parametrize(
    "command",
    [
        "roep-gym tasks --json > out.json",
        "roep-gym --help",
        "make test PYTEST_ARGS=-x",
        "pip install --no-deps x",
        "# x",
    ],
)
def test_commands_that_exist_are_fine(tmp_path, command):
    (block,) = read_blocks(_write(tmp_path, f"'''bash\n{command}\n'''\n"))
    check_commands(block, OPTIONS, TARGETS)
