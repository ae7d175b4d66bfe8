"""`TabletopSuite`: the tasks of `roep_gym/Tabletop-v0`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roep_gym.suites.base import SuiteTask

if TYPE_CHECKING:
    import gymnasium as gym

__all__ = ["TabletopSuite"]


class TabletopSuite:
    """The small environment on NumPy alone."""

    name = "tabletop"
    step_budget = 280
    settings = (
        "cameras",
        "image_size",
        "depth",
        "object_state",
        "control_mode",
        "settle_steps",
        "terminate_on_unsafe",
    )
    unsafe_channels = ("action_bounds", "workspace")
    needs_renderer = False
    robot_type = None

    def tasks(self) -> tuple[SuiteTask, ...]:
        """Return the tasks."""
        from roep_gym.envs.tabletop_env import INIT_STATES, TASKS

        return tuple(SuiteTask(name, instruction, INIT_STATES) for name, instruction in TASKS.items())

    def shield_fields(self, task: str) -> tuple[str, ...]:
        """Return the names of the entries of `proprio`."""
        from roep_gym.envs.tabletop_env import PROPRIO_FIELDS

        return PROPRIO_FIELDS

    def make_environment(self, task: str, **settings: Any) -> gym.Env[Any, Any]:
        """Return the environment of a task."""
        from roep_gym.envs.registration import make_registered

        return make_registered("roep_gym/Tabletop-v0", suite=self.name, task=task, **settings)
