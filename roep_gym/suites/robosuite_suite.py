"""`RobosuiteSuite`: the single-arm tasks of robosuite itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from roep_gym.suites.base import SuiteTask

if TYPE_CHECKING:
    import gymnasium as gym

__all__ = ["RobosuiteSuite"]


class RobosuiteSuite:
    """Lift, Stack, Door, NutAssembly, PickPlace, their variants with one object, and Wipe."""

    name = "robosuite"
    step_budget = 500
    settings = ("cameras", "image_size", "depth", "object_state", "control_mode", "settle_steps")
    unsafe_channels = ()
    needs_renderer = True
    robot_type = "panda"

    def tasks(self) -> tuple[SuiteTask, ...]:
        """Return the tasks, by robosuite's names."""
        from roep_gym.envs.robosuite_env import INIT_STATES, TASKS

        return tuple(SuiteTask(name, instruction, INIT_STATES) for name, instruction in TASKS.items())

    def shield_fields(self, task: str) -> tuple[str, ...]:
        """Return the names of the entries of `proprio`."""
        from roep_gym.envs.robosuite_env import proprio_fields

        return proprio_fields(task)

    def make_environment(self, task: str, **settings: Any) -> gym.Env[Any, Any]:
        """Return the environment of a task; its scene is built at every reset."""
        from roep_gym.envs.registration import make_registered

        return make_registered("roep_gym/Robosuite-v0", suite=self.name, task=task, **settings)
