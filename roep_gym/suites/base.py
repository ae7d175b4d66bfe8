"""The boundary between an evaluation and the tasks that it runs on.

`Suite` is the protocol that every suite satisfies and `SuiteTask` one of its tasks; `MeasuredSuite` is what one adds
whose environments promise nothing. `SuiteFamily` offers several suites whose names are found out when they are asked
for. `SETTINGS` are the arguments that an evaluation can make an environment with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from roep_gym.typing import JSON

if TYPE_CHECKING:
    import gymnasium as gym

__all__ = ["SETTINGS", "MeasuredSuite", "Suite", "SuiteFamily", "SuiteTask"]

SETTINGS: tuple[str, ...] = (
    "cameras",
    "image_size",
    "depth",
    "object_state",
    "controller_pose",
    "control_mode",
    "settle_steps",
    "placement_shift",
    "unsafe_channels",
    "safety_limits",
    "terminate_on_unsafe",
)
"""What an evaluation makes an environment with: the plan's environment settings, and what a policy looks at."""


@dataclass(frozen=True)
class SuiteTask:
    """One task of a suite.

    Attributes:
        name: The name in plans, tables and scene seeds; unique in the suite.
        instruction: The instruction, word for word.
        init_states: Number of initial states, and so the largest number of episodes of a condition.
        other_names: Further names that plans may use.
        details: What `roep-gym tasks --json` also prints, such as files.
    """

    name: str
    instruction: str
    init_states: int
    other_names: tuple[str, ...] = ()
    details: Mapping[str, JSON] = field(default_factory=dict)


@runtime_checkable
class Suite(Protocol):
    """Tasks, and how to make their environments.

    An environment has a Dict or Box observation and a Box or Discrete action. Its `reset` takes `options["episode"]`
    (`roep_gym.episode.EpisodeIdentity`): what follows is a function of `scene_seed`, `init_state` and the actions,
    whatever ran before. `init_state` is an index, or "sampled" for a scene that follows from its seed alone. The `info`
    of `reset` has `instruction` and `scene_hash`, 63 bits that differ where the scene does; the `info` of `step` has
    `is_success`, and `unsafe` by channel where the suite has unsafe channels. No step limit is built in: the
    evaluation gives one.

    Attributes:
        name: The name in plans, tables and scene seeds, without slash or colon.
        step_budget: Control steps of an episode where the plan says nothing.
        settings: Those of `SETTINGS` that its environments have; a plan that sets another is refused.
        unsafe_channels: Channels of unsafe attempts that its environments observe.
        needs_renderer: Whether frames are drawn off screen, so that the machine's renderer is checked before a run.
        robot_type: The robot, as datasets name it; None where there is none.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def step_budget(self) -> int: ...  # noqa: D102

    @property
    def settings(self) -> Sequence[str]: ...  # noqa: D102

    @property
    def unsafe_channels(self) -> Sequence[str]: ...  # noqa: D102

    @property
    def needs_renderer(self) -> bool: ...  # noqa: D102

    @property
    def robot_type(self) -> str | None: ...  # noqa: D102

    def tasks(self) -> Sequence[SuiteTask]:
        """Return the tasks in a fixed order, without starting a simulator."""

    def shield_fields(self, task: str) -> Sequence[str]:
        """Return the names of the entries of the observation `proprio` that a shield may read; empty: none."""

    def make_environment(self, task: str, **settings: Any) -> gym.Env[Any, Any]:
        """Return the environment of a task.

        Args:
            task: Name of the task.
            settings: The suite's `settings`. `placement_shift`, `unsafe_channels` and `safety_limits` are passed only
                where the plan sets them, `controller_pose` only where the policy asks for it, the others always.
        """


@runtime_checkable
class MeasuredSuite(Protocol):
    """A suite of environments that nobody has tested against `Suite`: before a run, it is measured what they repeat."""

    def measure(self, task: str, **settings: Any) -> Mapping[str, JSON]:
        """Return whether the environment of a task repeats its episodes, as `roep_gym.suites.determinism.measure`."""


class SuiteFamily(Protocol):
    """Suites of one origin, whose names begin with the name of the family and an underscore.

    A family of this package that has `split(text)`, which parts suite and task, is named before a colon instead.
    """

    def names(self) -> Sequence[str]:
        """Return the names of the suites that are complete."""

    def suite(self, name: str, **arguments: JSON) -> Suite:
        """Return a suite, with the plan's arguments for it; whether it exists shows when its tasks are asked for."""

    def find_task(self, suite: str | None, text: str) -> tuple[str, str]:
        """Return suite and name of the task that a text names, in one suite or in those that need no naming."""
