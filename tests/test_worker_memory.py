"""A worker that changes its scene again and again keeps its memory bounded."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "worker_memory.py"
NOISE_MIB = 100


@pytest.mark.slow
@pytest.mark.libero
def test_a_worker_that_visits_all_tasks_again_needs_no_more_memory() -> None:
    command = [sys.executable, str(BENCHMARK), "--rounds", "4", "--episodes", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peaks = [int(peak) for peak in re.findall(r"MiB \| (\d+) MiB", done.stdout)]
    assert len(peaks) == 4
    assert peaks[3] <= peaks[1] + NOISE_MIB, "the first two rounds load what later ones share"
