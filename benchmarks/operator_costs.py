"""Time a step of `PerturbObservation` with each operator: `python operator_costs.py [SEVERITY]`.

Two cameras of 256 pixels with depth; the environment returns the same observation again and again and costs nothing.
The limit is 6 ms a step at severity 3.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from wrapper_costs import Replay

from roep_gym.wrappers import OPERATORS, PerturbObservation
from roep_gym.wrappers.operators.registry import find_operator

STEPS, ROUNDS, LIMIT = 40, 3, 6.0


def milliseconds(profile: Any) -> float:
    """Return the best mean time of a step over the rounds."""
    env = PerturbObservation(Replay(256), profile)
    action, times = env.action_space.sample() * 0, []
    for _ in range(ROUNDS):
        env.reset(seed=0)
        start = time.perf_counter()
        for _ in range(STEPS):
            env.step(action)
        times.append((time.perf_counter() - start) / STEPS * 1e3)
    return min(times)


def main() -> None:
    severity = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    base = milliseconds("clean")
    print(f"{'clean profile':24s} {base:7.2f} ms a step")
    for name in OPERATORS.names():
        operator = find_operator(name)
        setting = {"operator": name, operator.severity: severity / 5 * operator.max_severity}
        cost = milliseconds({"name": "one", "operators": [setting]})
        print(f"{name:24s} {cost:7.2f} ms a step{'' if cost <= LIMIT else '  above the limit'}")


if __name__ == "__main__":
    main()
