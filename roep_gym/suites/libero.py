"""LIBERO's suites and those of LIBERO-PRO, as the installed LIBERO has them.

`LiberoSuite` is one of them, `LiberoFamily` all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roep_gym.envs import task_catalog
from roep_gym.episode_record import UNSAFE_CHANNELS
from roep_gym.suites.base import SETTINGS, SuiteTask

if TYPE_CHECKING:
    import gymnasium as gym

__all__ = ["LiberoFamily", "LiberoSuite"]


@dataclass(frozen=True)
class LiberoSuite:
    """A suite of LIBERO.

    Attributes:
        name: LIBERO's name of the suite.
    """

    name: str
    step_budget = 280
    settings = SETTINGS
    unsafe_channels = UNSAFE_CHANNELS
    needs_renderer = True
    robot_type = "panda"

    def tasks(self) -> tuple[SuiteTask, ...]:
        """Return the tasks in LIBERO's default order, named by the paper's id where they have one."""
        return tuple(_suite_task(task) for task in task_catalog.tasks(self.name))

    def shield_fields(self, task: str) -> tuple[str, ...]:
        """Return the names of the entries of `proprio`."""
        from roep_gym.envs.libero_observations import PROPRIO_FIELDS

        return PROPRIO_FIELDS

    def make_environment(self, task: str, **settings: Any) -> gym.Env[Any, Any]:
        """Return the environment of a task; the simulator itself is built at the first reset."""
        from roep_gym.envs.registration import make_registered

        return make_registered("roep_gym/Libero-v0", suite=self.name, task=task, **settings)


class LiberoFamily:
    """Every suite of the installed LIBERO; without a suite, a task is looked for in the five standard ones."""

    def names(self) -> tuple[str, ...]:
        """Return the complete suites, LIBERO's five first."""
        return task_catalog.suites()

    def suite(self, name: str) -> LiberoSuite:
        """Return a suite."""
        return LiberoSuite(name)

    def find_task(self, suite: str | None, text: str) -> tuple[str, str]:
        """Return suite and name of the task with this paper's id, name or instruction."""
        task = task_catalog.find_task(suite, text)
        return task.suite, task.paper_id or task.name


def _suite_task(task: task_catalog.Task) -> SuiteTask:
    files: Mapping[str, str] = {
        "bddl_file": str(task.bddl_file),
        "init_states_file": str(task.init_states_file),
    }
    names = (task.paper_id, task.name) if task.paper_id else (task.name,)
    return SuiteTask(names[0], task.instruction, task.init_state_count, names[1:], files)
