"""Running, recording and judging evaluations.

`evaluate` runs an `EvaluationPlan`, `load_run` opens what it left as an xarray Dataset, `judge` says which claims the
records support, `compare` sets two runs beside each other, `merge_runs` makes one of several, `open_run`, `make_tables`
and `write_report` show them, and `publish_run` makes a run small. The packages `importers`, `export` and `statistics`
below hold other tools' logs, datasets to train on, and intervals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roep_gym.lazy import lazy_names

if TYPE_CHECKING:
    from roep_gym.evaluate.comparison.comparison import Comparison, compare
    from roep_gym.evaluate.comparison.merge import merge_runs
    from roep_gym.evaluate.comparison.published import published_table
    from roep_gym.evaluate.gate_config import GateConfig
    from roep_gym.evaluate.judging.gate import Judgement, judge
    from roep_gym.evaluate.plan import (
        CONDITION_SETS,
        EnvironmentSettings,
        EvaluationPlan,
        ModelSpec,
        ResolvedPlan,
        plan_from_mapping,
        resolve,
    )
    from roep_gym.evaluate.report.publish import Published, publish_run
    from roep_gym.evaluate.report.records import Run, open_run
    from roep_gym.evaluate.report.render import csv_text, latex_text, markdown_text
    from roep_gym.evaluate.report.tables import TABLES, make_tables
    from roep_gym.evaluate.report.write import write_report
    from roep_gym.evaluate.run.capacity import Capacity, EpisodeCost, capacity
    from roep_gym.evaluate.run.driver import Observer, RunSummary, evaluate
    from roep_gym.evaluate.run.in_process_executor import InProcessExecutor
    from roep_gym.evaluate.run.local_executor import LocalExecutor
    from roep_gym.evaluate.run.ray_executor import RayExecutor, RaySettings
    from roep_gym.evaluate.run.rollout import run_episode
    from roep_gym.evaluate.run.work import Executor
    from roep_gym.evaluate.schema import CONDITIONS, Condition
    from roep_gym.evaluate.store.labelled import load_run
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "CONDITIONS",
    "CONDITION_SETS",
    "TABLES",
    "Capacity",
    "Comparison",
    "Condition",
    "EnvironmentSettings",
    "EpisodeCost",
    "EvaluationPlan",
    "Executor",
    "GateConfig",
    "InProcessExecutor",
    "Judgement",
    "LocalExecutor",
    "ModelSpec",
    "Observer",
    "Published",
    "RayExecutor",
    "RaySettings",
    "ResolvedPlan",
    "Run",
    "RunSummary",
    "capacity",
    "compare",
    "csv_text",
    "evaluate",
    "judge",
    "latex_text",
    "load_run",
    "make_tables",
    "markdown_text",
    "merge_runs",
    "open_run",
    "plan_from_mapping",
    "publish_run",
    "published_table",
    "resolve",
    "run_episode",
    "write_report",
]
