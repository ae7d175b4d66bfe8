"""What the environments of a run repeat: measured in the driver before the first episode, where no test has shown it.

`measure_determinism` measures and stores, `mismatches` puts in words what was not repeated. A mismatch stops nothing:
the noise floor, which is measured by executing conditions again, has to carry it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from roep_gym.atomic_file import write_atomically
from roep_gym.evaluate.plan import ResolvedPlan
from roep_gym.evaluate.store.run_directory import RunDirectory
from roep_gym.suites.base import MeasuredSuite

__all__ = ["measure_determinism", "mismatches"]

_COMPARED: Mapping[str, str] = {
    "after_another_episode": "after another episode",
    "in_another_process": "in another process",
}


def measure_determinism(
    run: RunDirectory, plan: ResolvedPlan, built_with: Mapping[int, Mapping[str, Any]]
) -> None:
    """Measure every task whose suite promises nothing and that was not measured yet, and store what came out.

    Args:
        run: The folder of the run, which has the results as `determinism.json`.
        plan: The plan.
        built_with: What the environment of each row is built with, by the row's index.

    Raises:
        RoepError: An environment refuses its first steps, such as one whose `info` lacks what the success rule reads.
    """
    measured = run.measured_determinism()
    known = dict(measured)
    for row in plan.rows:
        suite, settings = row.find_suite(), dict(built_with[row.index])
        label = f"{row.suite}/{row.task} {json.dumps(settings, sort_keys=True)}"
        if isinstance(suite, MeasuredSuite) and label not in known:
            known[label] = dict(suite.measure(row.task, **settings))
    if known != measured:
        write_atomically(run.determinism, json.dumps(known, indent=1, sort_keys=True).encode())


def mismatches(run: RunDirectory) -> list[str]:
    """Return a sentence for each task of a run that was not seen to repeat its episodes."""
    sentences = []
    for label, result in run.measured_determinism().items():
        unequal = [f"{words}: {result[name]}" for name, words in _COMPARED.items() if result[name] != "equal"]
        if unequal:
            sentences.append(
                f"Expected {label.partition(' {')[0]} to repeat an episode with the same seed and actions, got "
                f"{'; '.join(unequal)}; the noise floor has to carry it."
            )
    return sentences
