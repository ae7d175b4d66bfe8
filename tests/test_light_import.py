"""What may be loaded, and how long it may take, at `import roep_gym`."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = ("torch", "libero", "robosuite", "mujoco", "stable_baselines3", "matplotlib", "tensorboard", "pandas")
CODE = """
import json, sys, time
start = time.perf_counter()
import roep_gym
print(json.dumps([time.perf_counter() - start, sorted(sys.modules)]))
"""


def _import_once() -> tuple[float, set[str]]:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60, check=True
    )
    seconds, modules = json.loads(done.stdout)
    return seconds, {name.split(".")[0] for name in modules}


def test_import_takes_less_than_half_a_second():
    # The best of several: another process on the machine must not decide.
    assert min(_import_once()[0] for _ in range(5)) < 0.5


def test_import_loads_nothing_heavy():
    assert _import_once()[1].isdisjoint(HEAVY)
