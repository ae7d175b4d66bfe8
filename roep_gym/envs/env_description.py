"""What an evaluation must be told of a registered Gymnasium environment, since nothing in the environment says it.

`EnvDescription` is the whole description, `SuccessRule` says what a success is, `TaskVariant` makes several tasks of
one environment, and `WrapperEntry` names a wrapper as `env.spec` does. `StepOutcome` is what a rule goes by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from roep_gym.error import InvalidInputError, shown
from roep_gym.mapping_reader import check_fields
from roep_gym.registry import load_place
from roep_gym.typing import JSON

__all__ = ["EnvDescription", "StepOutcome", "SuccessRule", "TaskVariant", "WrapperEntry"]

_RULES = ("info", "return_at_least", "length_at_least", "terminated", "function")
_ENDING = ("info", "terminated", "function")
"""Rules that end the episode where they hold, unless `when` says otherwise."""


class StepOutcome(NamedTuple):
    """What a step gave, and the episode so far; observation and `info` are the environment's own."""

    observation: Any
    action: Any
    reward: float
    terminated: bool
    truncated: bool
    info: Mapping[str, Any]
    episode_return: float
    """Sum of the rewards so far."""
    length: int
    """Steps so far."""


@dataclass(frozen=True)
class SuccessRule:
    """When an episode is a success: exactly one rule, and when it is asked.

    Attributes:
        info: Entry of `info` that every step has, true or false (1 or 0); dots lead into nested mappings.
        return_at_least: Least sum of rewards.
        length_at_least: Least number of steps.
        terminated: True: an episode that the environment ends by itself is a success.
        function: `module:function` that takes a `StepOutcome` and returns True or False.
        when: "first": the first step at which the rule holds ends the episode; "end": the last step decides. None:
            "end" for return and length, "first" for the others.

    Raises:
        InvalidInputError: There is no rule, or more than one, or a value is out of its range.
    """

    info: str | None = None
    return_at_least: float | None = None
    length_at_least: int | None = None
    terminated: Literal[True] | None = None
    function: str | None = None
    when: Literal["first", "end"] | None = None

    def __post_init__(self) -> None:
        check_fields(self, "success")
        given = [name for name in _RULES if getattr(self, name) is not None]
        if len(given) != 1:
            raise InvalidInputError(
                f"Expected one success rule ({', '.join(_RULES)}), got {' and '.join(given) or 'none'}; "
                "write for example success: {info: is_success}."
            )
        if self.length_at_least is not None and self.length_at_least < 1:
            raise InvalidInputError(
                f"Expected success.length_at_least to be at least 1, got {self.length_at_least}."
            )
        if self.function is not None and ":" not in self.function:
            raise InvalidInputError(
                f"Expected success.function to be 'module:function', got {shown(self.function)}."
            )

    @property
    def ends_episode(self) -> bool:
        """Whether the first step at which the rule holds ends the episode."""
        if self.when is not None:
            return self.when == "first"
        return any(getattr(self, name) is not None for name in _ENDING)

    def judge(self, env_id: str) -> Callable[[StepOutcome], bool]:
        """Return what tells whether the rule holds after a step.

        Args:
            env_id: The environment, for messages.

        Raises:
            InvalidInputError: There is nothing to call at `function`. The returned function raises it too, where `info`
                lacks the entry, or where the entry or the function's answer is neither true nor false.
        """
        if self.function is not None:
            function, place = load_place(self.function, "success function"), self.function
            if not callable(function):
                raise InvalidInputError(f"Expected a success function at {place!r}, got {shown(function)}.")
            return lambda outcome: _truth(function(outcome), f"the answer of the success function {place!r}")
        if self.info is not None:
            path = self.info
            return lambda outcome: _truth(_look_up(outcome.info, path, env_id), f"info[{path!r}] of {env_id}")
        if self.return_at_least is not None:
            least = self.return_at_least
            return lambda outcome: outcome.episode_return >= least
        if self.length_at_least is not None:
            steps = self.length_at_least
            return lambda outcome: outcome.length >= steps
        return lambda outcome: outcome.terminated


@dataclass(frozen=True)
class WrapperEntry:
    """A wrapper, with the fields that `additional_wrappers` of `env.spec.to_json()` has.

    Attributes:
        entry_point: The wrapper as `module:Class`.
        kwargs: Its arguments.
        name: Its name, which nothing depends on.
    """

    entry_point: str
    kwargs: Mapping[str, JSON] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        check_fields(self, "wrapper")
        if ":" not in self.entry_point:
            raise InvalidInputError(
                f"Expected the entry_point of a wrapper to be 'module:Class', got {shown(self.entry_point)}."
            )
        if self.entry_point.endswith(":TimeLimit"):
            raise InvalidInputError(
                "Expected wrappers without a step limit, got TimeLimit; give the limit as step_budget."
            )


@dataclass(frozen=True)
class TaskVariant:
    """One of several tasks of an environment.

    Attributes:
        arguments: Keyword arguments of `gymnasium.make`, beside those of the description.
        instruction: The instruction; empty: that of the description.
    """

    arguments: Mapping[str, JSON] = field(default_factory=dict)
    instruction: str = ""

    def __post_init__(self) -> None:
        check_fields(self, "task")


@dataclass(frozen=True)
class EnvDescription:
    """A registered environment, as an evaluation needs to know it.

    An entry of the observation is named by its key, with dots where mappings are nested ("arm.joints"); an observation
    that is no mapping is the entry "observation".

    Attributes:
        success: What a success is; no environment is made without.
        arguments: Keyword arguments of `gymnasium.make`.
        wrappers: Wrappers around the environment, from the inside out.
        tasks: Several tasks of the environment by name; empty: one, called "default".
        instruction: What policies are told to do; empty: the environment's id.
        images: The entry that holds the image of a camera, by the camera's name; uint8 of three axes.
        depths: The entry that holds the depth of a camera, likewise; floats of one channel.
        render_camera: Name of a camera whose image `render()` draws; empty: nothing is drawn.
        shield_inputs: Entries that make up `proprio`, which is recorded and which a shield may read; None: all vectors.
        field_names: Names of the numbers in an entry, by entry; by default they are numbered.
        reset_options: Options of every reset.
        rebuild: Whether the environment is made anew for every episode, for one that its past follows.
        control_mode: "relative", where an action of zeros holds still, or "absolute", where it names a target.
        step_budget: Control steps of an episode; None: the registered limit, or 280 where there is none.
        init_states: Number of initial states, each a seed of its own, and so the most episodes of a condition.
        robot_type: The robot, as exported datasets name it.
    """

    success: SuccessRule | None = None
    arguments: Mapping[str, JSON] = field(default_factory=dict)
    wrappers: tuple[WrapperEntry, ...] = ()
    tasks: Mapping[str, TaskVariant] = field(default_factory=dict)
    instruction: str = ""
    images: Mapping[str, str] = field(default_factory=dict)
    depths: Mapping[str, str] = field(default_factory=dict)
    render_camera: str = ""
    shield_inputs: tuple[str, ...] | None = None
    field_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reset_options: Mapping[str, JSON] = field(default_factory=dict)
    rebuild: bool = False
    control_mode: Literal["relative", "absolute"] = "relative"
    step_budget: int | None = None
    init_states: int = 1000
    robot_type: str | None = None

    def __post_init__(self) -> None:
        check_fields(self, "description")
        for name, value in (("step_budget", self.step_budget), ("init_states", self.init_states)):
            if value is not None and value < 1:
                raise InvalidInputError(f"Expected {name} to be at least 1, got {value}.")
        for name in self.tasks:
            if not name or "/" in name:
                raise InvalidInputError(f"Expected names of tasks without slashes, got {shown(name)}.")
        if self.render_camera and self.render_camera in self.images:
            raise InvalidInputError(
                f"Expected another name for the render_camera than for an image, got {self.render_camera!r} twice."
            )
        for camera in self.depths:
            if camera not in self.images and camera != self.render_camera:
                raise InvalidInputError(
                    f"Expected the depth of a camera that has an image, got one of {camera!r} alone; name its image."
                )

    @property
    def cameras(self) -> tuple[str, ...]:
        """Names of the cameras."""
        return (*sorted(self.images), *([self.render_camera] if self.render_camera else []))

    def task_names(self) -> tuple[str, ...]:
        """Return the names of the tasks."""
        return tuple(sorted(self.tasks)) or ("default",)

    def task(self, name: str) -> TaskVariant:
        """Return a task with all its arguments."""
        own = self.tasks.get(name, TaskVariant())
        return TaskVariant({**self.arguments, **own.arguments}, own.instruction or self.instruction)


def _look_up(info: Mapping[str, Any], path: str, env_id: str) -> Any:
    """Return an entry of `info`, under the whole path or under its parts in turn."""
    if path in info:
        return info[path]
    found: Any = info
    for part in path.split("."):
        if not isinstance(found, Mapping) or part not in found:
            raise InvalidInputError(
                f"Expected info[{path!r}] from step() of {env_id}, which the success rule reads, got only "
                f"{sorted(map(str, info))}; name an entry that every step has, or write a success function."
            )
        found = found[part]
    return found


def _truth(value: Any, what: str) -> bool:
    """Return a flag as an environment may have it: a bool, or 0 or 1, of Python or NumPy."""
    number = np.asarray(value)
    if number.size == 1 and number.dtype.kind in "biuf" and number.item() in (0, 1):
        return bool(number.item())
    raise InvalidInputError(
        f"Expected {what} to be true or false, or 1 or 0, got {shown(value)}; "
        "write a success function that compares it."
    )
