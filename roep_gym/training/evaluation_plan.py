"""The plan with which `roep-gym evaluate` judges a model that was trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

__all__ = ["write_evaluation_plan"]


def write_evaluation_plan(
    file: Path,
    *,
    name: str,
    algorithm: str,
    model: Path,
    task: str,
    normalization: Path | None = None,
    observation_key: str | None = None,
    step_budget: int | None = None,
) -> None:
    """Write a plan of all main conditions for a model of Stable-Baselines3.

    Args:
        file: Where the plan goes, as YAML.
        name: Name of the evaluation, and the model's label in its tables.
        algorithm: Algorithm of Stable-Baselines3 or sb3-contrib, or "module:attribute" of its class.
        model: File that the model's `save` wrote.
        task: The task, as a plan names it.
        normalization: File of `VecNormalize.save`.
        observation_key: Which observation a model without a `Dict` space takes.
        step_budget: Control steps that an episode may take; None: the plan's default.
    """
    arguments: dict[str, Any] = {"algorithm": algorithm, "path": str(model.resolve())}
    if observation_key is not None:
        arguments["observation_key"] = observation_key
    if normalization is not None:
        arguments["normalization"] = str(normalization.resolve())
    plan: dict[str, Any] = {
        "name": name,
        "models": [{"name": name, "policy": "sb3", "arguments": arguments}],
        "tasks": [task],
        "conditions": ["main"],
    }
    if step_budget is not None:
        plan["step_budget"] = step_budget
    file.write_text(yaml.safe_dump(plan, sort_keys=False))
