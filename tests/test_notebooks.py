"""The notebooks run from top to bottom, hold no outputs, and use nothing but the public names."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))


def _cells(path: Path, kind: str) -> list[dict[str, Any]]:
    return [
        cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind
    ]


def run_notebook(path: Path) -> dict[str, Any]:
    """Run the code cells in order and return the namespace that they leave."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(_cells(path, "code"), start=1):
        exec(compile("".join(cell["source"]), f"{path.name}, cell {number}", "exec"), namespace)
    return namespace


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_is_stored_without_outputs(path: Path) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    assert content["nbformat"] == 4
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in _cells(path, "code"))


def test_the_first_steps_show_what_they_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (path,) = [path for path in NOTEBOOKS if path.name == "first_steps.ipynb"]
    left = run_notebook(path)
    rates = left["success"].to_series()
    assert rates["baseline"] == 1.0
    assert rates["strong"] < 0.5
    assert left["judgement"].verdicts["claim_status"].values.tolist() == ["Insufficient evidence"]
    patch = left["record"].steps["patch"]
    assert patch.shape[1:] == (1, 3)
    assert np.all(patch >= 0)
