"""Registered Gymnasium environments as suites, `gym:ENV_ID`, by the description that a plan holds.

`GymnasiumSuite` is one environment, `GymnasiumFamily` finds them by their ids.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from roep_gym.envs.env_description import EnvDescription
from roep_gym.error import InvalidInputError
from roep_gym.mapping_reader import read_mapping
from roep_gym.suites.base import SuiteTask
from roep_gym.typing import JSON

if TYPE_CHECKING:
    import gymnasium as gym

__all__ = ["GymnasiumFamily", "GymnasiumSuite"]

_PREFIX = "gym:"
_STEP_BUDGET = 280
"""Control steps where neither the description nor the registration has a limit."""
_ID = re.compile(r"(?P<id>(?:(?![^/]*-v\d+/)[^/]*/)?[^/]*?-v\d+|[^/]*)(?:/(?P<task>.*))?")
"""An id may have one slash, after its namespace; a version ends it."""


class GymnasiumSuite:
    """A registered environment.

    Args:
        env_id: Its id, or `module:id`.
        description: The fields of `EnvDescription`.

    Raises:
        InvalidInputError: The description has an unknown or wrong field.
    """

    unsafe_channels = ()
    needs_renderer = False

    def __init__(self, env_id: str, description: Mapping[str, JSON]) -> None:
        self._env_id, self._description = env_id, dict(description)
        self._described = read_mapping(EnvDescription, self._description, f"suites.{_PREFIX}{env_id}")
        self.name = env_id.rpartition(":")[2].replace("/", ".")
        self.robot_type = self._described.robot_type
        described = self._described
        self.settings = (
            "cameras",
            "control_mode",
            *(["image_size"] if described.render_camera else []),
            *(["depth"] if described.depths else []),
        )

    @cached_property
    def step_budget(self) -> int:
        """The description's step budget, else the registered limit."""
        from roep_gym.envs.gymnasium_env import registered_spec

        registered = registered_spec(self._env_id).max_episode_steps
        return self._described.step_budget or registered or _STEP_BUDGET

    def tasks(self) -> tuple[SuiteTask, ...]:
        """Return the tasks of the description, or the one of the environment itself."""
        from roep_gym.envs.gymnasium_env import registered_spec

        registered_spec(self._env_id)
        return tuple(
            SuiteTask(
                name,
                self._described.task(name).instruction or self._env_id,
                self._described.init_states,
                details={"env_id": self._env_id},
            )
            for name in self._described.task_names()
        )

    def shield_fields(self, task: str) -> tuple[str, ...]:
        """Return the names of the numbers that a shield may read; makes the environment to count them."""
        env = self.make_environment(task)
        fields: Mapping[str, tuple[str, ...]] = env.get_wrapper_attr("observation_fields")
        env.close()
        return fields.get("proprio", ())

    def make_environment(self, task: str, **settings: Any) -> gym.Env[Any, Any]:
        """Return the environment of a task."""
        from roep_gym.envs.registration import make_registered

        return make_registered(
            "roep_gym/Gymnasium-v0",
            env_id=self._env_id,
            description=self._description,
            suite=self.name,
            task=task,
            **settings,
        )

    def measure(self, task: str, **settings: Any) -> Mapping[str, JSON]:
        """Return what the environment of a task was seen to repeat."""
        from roep_gym.suites.determinism import measure

        return measure(f"{_PREFIX}{self._env_id}", self._description, task, settings)


class GymnasiumFamily:
    """Every registered environment; none is listed, since no success rule is registered with them."""

    def names(self) -> tuple[str, ...]:
        """Return no name."""
        return ()

    def suite(self, name: str, **description: JSON) -> GymnasiumSuite:
        """Return the suite of `gym:ENV_ID`, described by the other arguments."""
        env_id = name.removeprefix(_PREFIX)
        if env_id == name or not env_id:
            raise InvalidInputError(
                f"Expected {_PREFIX}ENV_ID, such as 'gym:Pendulum-v1', got {name!r}; name a registered environment."
            )
        return GymnasiumSuite(env_id, description)

    def split(self, text: str) -> tuple[str, str]:
        """Return suite and task, empty where the text names none; an id may have a slash of its own."""
        found = _ID.fullmatch(text)
        assert found is not None  # the pattern takes every text
        return found["id"], found["task"] or ""

    def find_task(self, suite: str | None, text: str) -> tuple[str, str]:
        """Return suite and task as they are: what tasks there are, the description says."""
        return str(suite), text
