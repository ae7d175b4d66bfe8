"""The tools whose logs can be imported, and the budget note that their logs share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from roep_gym.evaluate.importers.combination import ConditionLog
from roep_gym.evaluate.importers.episode_log import EpisodeLog
from roep_gym.evaluate.importers.inspect_robots import read_inspect_log
from roep_gym.evaluate.importers.lerobot import read_eval_info
from roep_gym.evaluate.importers.openpi import read_openpi_log
from roep_gym.evaluate.importers.openvla_oft import read_openvla_oft_log
from roep_gym.evaluate.importers.vla_eval import read_vla_eval_result

__all__ = ["IMPORTERS", "notes"]

IMPORTERS: Mapping[str, Callable[[Path, str], EpisodeLog]] = {
    "lerobot": read_eval_info,
    "vla-eval": read_vla_eval_result,
    "openvla-oft": read_openvla_oft_log,
    "openpi": read_openpi_log,
    "inspect": read_inspect_log,
}
"""Importers by the name of their tool: (path, suite or "") to the log's episodes."""

_PROTOCOL_STEP_BUDGET = 280
"""Protocol section 1."""


def notes(logs: Sequence[ConditionLog]) -> Iterator[str]:
    """Yield a sentence on everything that a reader of the imported outcomes must know."""
    for item in logs:
        for note in item.log.notes:
            yield f"{item.log.path.name}: {note}"
    budgets = {budget for item in logs for budget in item.log.step_budgets.items()}
    for suite, steps in sorted(budgets):
        if steps != _PROTOCOL_STEP_BUDGET:
            yield (
                f"The step budget of {suite} was {steps}, the protocol's is {_PROTOCOL_STEP_BUDGET}: its success and "
                "timeout rates are not comparable with those of the other budget."
            )
    stated = sorted({item.condition for item in logs})
    yield f"The logs do not name a condition; that they recorded {', '.join(stated)} is your statement."
