"""Code from outside the package: a dry run loads none, and a command names it before it does."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from roep_gym.cli.foreign_code import policy_code, suite_code, training_code
from roep_gym.cli.main import main

MODULE = """
from pathlib import Path
Path({marker!r}).write_text("ran")
print("the module runs")
raise RuntimeError("enough")
"""


class Runs:
    """Unpickled, it leaves a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return Path.write_text, (self.marker, "ran")


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file that foreign code leaves; the working directory holds such code."""
    marker = tmp_path / "marker"
    (tmp_path / "foreign_module.py").write_text(MODULE.format(marker=str(marker)))
    (tmp_path / "statistics.pkl").write_bytes(pickle.dumps(Runs(marker)))
    (tmp_path / "model.zip").write_bytes(b"")
    training = "environment: {env_id: roep_gym/Tabletop-v0}\nalgorithm: foreign_module:make\n"
    (tmp_path / "training.yaml").write_text(training)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return marker


STATISTICS = ("--argument", "normalization=statistics.pkl")
SB3 = ("sb3", "--argument", "path=model.zip", *STATISTICS)


@pytest.mark.parametrize(
    "policy",
    [
        ("foreign_module:make",),
        (*SB3, "--argument", "algorithm=PPO"),
        (*SB3, "--argument", "algorithm=foreign_module:Algorithm"),
    ],
    ids=["module", "archive", "algorithm"],
)
def test_a_dry_run_runs_no_foreign_code_and_says_what_it_did_not_check(
    marker: Path, capsys: pytest.CaptureFixture[str], policy: tuple[str, ...]
) -> None:
    command = ["evaluate", "--policy", *policy, "--task", "tabletop/carry", "--condition", "baseline"]
    assert main([*command, "--seed-groups", "3", "--episodes", "4", "--dry-run"]) == 0
    output = capsys.readouterr().out
    assert not marker.exists()
    assert "Runs code" not in output
    assert "Not checked: that the policies can be built with their arguments and files" in output
    assert "seed groups 0 to 2, episodes 0 to 3" in output
    assert "baseline          12          0" in output
    assert "Time: " in output


def test_a_dry_run_refuses_a_suite_that_only_its_code_knows(
    marker: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", "--policy", "random", "--task", "foreign_module:SUITE/a", "--dry-run"]) == 2
    assert not marker.exists()
    assert "with --dry-run, which runs no code from outside" in capsys.readouterr().err


def test_a_dry_run_knows_a_wrong_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--policy", "rendom", "--task", "tabletop/carry", "--dry-run"]) == 2
    assert "Unknown policy 'rendom'. Did you mean 'random'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        ["evaluate", "--policy", "foreign_module:make", "--task", "tabletop/carry"],
        ["evaluate", "--policy", "random", "--task", "foreign_module:make"],
        ["serve", "foreign_module:make", "--port", "0"],
        ["train", "training.yaml"],
    ],
    ids=["evaluate", "suite", "serve", "train"],
)
def test_foreign_code_is_named_before_it_runs(
    marker: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    assert main(command) == 2
    output = capsys.readouterr().out
    named = output.index("Runs code from outside roep-gym, which must be trusted:")
    assert "foreign_module:make\n" in output[named:]
    assert marker.exists()
    assert named < output.index("the module runs")


def test_what_runs_code_is_named_by_kind() -> None:
    arguments = {"algorithm": "PPO", "path": "a.zip", "normalization": "b.pkl"}
    assert policy_code("sb3", arguments) == ["path a.zip", "normalization b.pkl"]
    assert policy_code("sb3", {"algorithm": "m:A", "path": "a"}) == ["algorithm m:A", "path a"]
    assert policy_code("random", {}) == policy_code("openpi", {"host": "h:1"}) == []
    assert suite_code(["tabletop/carry", "goal_stove", "m:S/a", "m:S"]) == ["suite m:S"] * 2
    wrappers = [{"name": "m:W"}, {"name": "FlattenObservation"}]
    source = {
        "environment": {"suite_task": "s:S/a", "env_id": "m:E-v0", "wrappers": wrappers},
        "hyperparameters": {"a": "m:A"},
    }
    assert training_code(source) == ["s:S/a", "m:E-v0", "m:W", "m:A"]
    assert training_code({"algorithm": "PPO", "shield": "runs/a.json", "note": "time: 3"}) == []
