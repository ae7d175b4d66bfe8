"""Judging reads records alone: it loads neither the simulator's side nor anything slow, and is quick."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPLAY = Path(__file__).parent / "data" / "replay"
FORBIDDEN = (
    "gymnasium", "torch", "mujoco", "robosuite", "libero", "stable_baselines3", "matplotlib", "scipy.stats",
    "roep_gym.wrappers", "roep_gym.shields", "roep_gym.policies",
)  # fmt: skip


def test_judging_loads_no_simulator_wrapper_or_network():
    script = f"""
import sys
from roep_gym.cli import import_outcomes
from roep_gym.cli.main import dispatch
status = dispatch(["gate", {str(REPLAY)!r}])
loaded = [n for n in {FORBIDDEN!r} if any(m == n or m.startswith(n + ".") for m in sys.modules)]
sys.exit(f"loaded: {{loaded}}" if loaded else status)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "24 rows" in done.stdout
