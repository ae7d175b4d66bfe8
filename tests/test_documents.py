"""YAML and JSON files: what is not what it seems is refused in one sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from roep_gym.cli.main import main
from roep_gym.documents import parse_json, parse_yaml, read_json, read_yaml
from roep_gym.error import InvalidInputError, RoepError

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]\n" for i in range(1, 30))
MERGED = "a0: &a0 {x: 1}\n" + "".join(
    f"a{i}: &a{i} {{<<: [{', '.join([f'*a{i - 1}'] * 10)}]}}\n" for i in range(1, 30)
)


def test_ordinary_text_is_read() -> None:
    assert parse_yaml("a: &x [1, 2]\nb: *x\nc: {<<: {d: 1}, d: 2}", "it") == {
        "a": [1, 2],
        "b": [1, 2],
        "c": {"d": 2},
    }
    assert parse_yaml("", "it") is None
    assert parse_json('{"a": [1, null]}', "it") == {"a": [1, None]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "Expected at most 100000 values in it, got more; use fewer aliases."),
        (MERGED, "Expected at most 100000 values in it"),
        ("[" * 5000, "it is nested too deeply"),
        ("&a [*a]", "an alias inside of what it names"),
        ("a: 1\na: 2", "the key 'a' appears twice"),
        ("b:\n  - {c: 1, d: 2, c: 3}", "the key 'c' appears twice"),
        ("a: [1", "Expected YAML in it, got: while parsing"),
        ("a: 2026-99-99", "Expected YAML in it, got: month must be in 1..12"),
        ("a: !!int ''", "Expected YAML in it, got: "),
        ("a: !!bool maybe", "Expected YAML in it, got: "),
        ("a: !!timestamp soon", "Expected YAML in it, got: "),
        ("a: " + "9" * 5000, "Expected YAML in it, got: Exceeds the limit"),
        ("a: !!python/object:os.system x", "could not determine a constructor"),
        ("[1]: 2\n{}: 3", "Expected YAML in it, got: while constructing a mapping"),
        ("a: \x01", "special characters are not allowed"),
    ],
    ids=range(15),
)
def test_yaml_is_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)) as refused:
        parse_yaml(text, "it")
    assert len(str(refused.value)) < 5000


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "Expected it, but reading it failed: "),
        ("[" * 100_000, "it is nested too deeply"),
        ('{"a": 1, "a": 2}', "the key 'a' appears twice"),
        ("9" * 5000, "Exceeds the limit"),
    ],
    ids=range(4),
)
def test_json_is_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        parse_json(text, "it")


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"a: \xe9")
    for name in ("latin", "missing", "."):
        for read in (read_json, read_yaml):
            with pytest.raises(
                RoepError, match=f"Expected a plan at {re.escape(str(tmp_path / name))}, got "
            ):
                read(tmp_path / name, "a plan")


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["x"], "Expected --argument key=value, got 'x'."),
        (["x=1", "x=2"], "Expected --argument 'x' once, got it twice."),
        (["x=[1"], "Expected YAML in --argument 'x', got: "),
        (["x={1: a}"], "Expected the keys of --argument 'x' to be text, got 1"),
        (["x=.nan"], "Expected --argument 'x' to be a finite number, got nan."),
        (["x=2026-01-01"], "put quotes around what YAML takes for something else, such as a date"),
        (["x=!!set {a}"], "got set {'a'}"),
    ],
)
def test_an_argument_of_a_policy_is_refused_in_one_sentence(
    capsys: pytest.CaptureFixture[str], pairs: list[str], message: str
) -> None:
    flags = [flag for pair in pairs for flag in ("--argument", pair)]
    assert main(["evaluate", "--policy", "random", "--task", "tabletop/carry", "--dry-run", *flags]) == 2
    assert message in capsys.readouterr().err
