"""The plan of an evaluation: fixed, complete and stored before the first rollout.

`EvaluationPlan` is what people write (in YAML, as flags or in Python), `resolve` makes it a `ResolvedPlan` with every
row, run id and planned episode. Two equal plans plan equal episodes, so the plan's digest names the evaluation.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Any, NamedTuple

from roep_gym import contracts, seeding
from roep_gym.arguments import check_names, plain, read_integer
from roep_gym.episode import SAMPLED, EpisodeIdentity, InitState, bootstrap_scene_seed, scene_seed
from roep_gym.episode_record import UNSAFE_CHANNELS
from roep_gym.error import InvalidInputError, shown, unknown_name
from roep_gym.evaluate.schema import CONDITIONS, MAIN_PROFILE, MAX_CLONES, Condition, clones_of
from roep_gym.mapping_reader import check_fields, read_json_value, read_mapping
from roep_gym.policies.remote.address import REACHING
from roep_gym.shields.config import ShieldConfig
from roep_gym.suites.base import Suite, SuiteTask
from roep_gym.suites.registry import NamedTask, find_suite, find_tasks
from roep_gym.typing import JSON
from roep_gym.wrappers.episode_trace import FrameChoice
from roep_gym.wrappers.profiles import PROFILES, named_profile

__all__ = [
    "CONDITION_SETS",
    "OBJECT_MARK",
    "STEP_BUDGET",
    "EnvironmentSettings",
    "EvaluationPlan",
    "ModelSpec",
    "PlannedEpisode",
    "ResolvedPlan",
    "Row",
    "check_bootstrap_scenes",
    "plan_from_mapping",
    "resolve",
]

CONDITION_SETS: Mapping[str, tuple[str, ...]] = {
    "quick": ("baseline",),
    "main": tuple(c.name for c in CONDITIONS.values() if c.role in ("main", "bootstrap")),
    "all": tuple(c.name for c in CONDITIONS.values() if c.role != "clone"),
}
"""Named sets of conditions: `quick` gives plain success rates, `main` the claims, `all` adds the severity sweep."""

OBJECT_MARK = "Python object "
"""What the policy of a stored plan begins with where it was an object and no name."""

_NO_POLICY = (bool, int, float, list, tuple, dict, bytes, set, date)
"""What YAML can give in place of a policy's name."""

STEP_BUDGET = 280
"""The protocol's step budget, where neither the plan nor the suite gives another."""


@dataclass(frozen=True)
class ModelSpec:
    """A policy under evaluation.

    Attributes:
        name: The model's label in every table; several entries may share it, with a checkpoint for each suite, as long
            as no task has two.
        policy: Registered policy ("visuomotor", "sb3", "openpi", ...) or "module:attribute"; in Python also a policy or
            a function, which only this process can run: files hold a mark in its place, and no run continues from it.
        arguments: Arguments of the policy; what JSON does not store exactly is refused, tuples included.
        tasks: Tasks of this model; empty: those of the plan.
        by_suite: Arguments by suite, such as the port of the server that has its checkpoint; if given, it names every
            suite of the model's tasks.
        accept: Written reasons, by contract field, why a mismatch or an unknown is accepted.
    """

    name: str
    policy: Any
    arguments: Mapping[str, JSON] = field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    accept: Mapping[str, str] = field(default_factory=dict)
    by_suite: Mapping[str, Mapping[str, JSON]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self, "model")
        if isinstance(self.policy, str):
            read_json_value(self.policy, "model.policy")
        elif self.policy is None or isinstance(self.policy, _NO_POLICY):
            raise InvalidInputError(
                f"Expected the name of a policy, a policy or a function, got {shown(self.policy)}."
            )
        check_names("contract field", self.accept, contracts.FIELDS)

    @property
    def is_object(self) -> bool:
        """Whether the policy is a Python object and no name."""
        return not isinstance(self.policy, str)

    @property
    def policy_name(self) -> str:
        """The policy as files hold it: its name, or the mark of a Python object."""
        if not self.is_object:
            return str(self.policy)
        part = self.policy if hasattr(self.policy, "__qualname__") else type(self.policy)
        return f"{OBJECT_MARK}{part.__module__}.{part.__qualname__}"


@dataclass(frozen=True)
class EnvironmentSettings:
    """What every row's environment is built with; None takes what the policy asks for.

    Attributes:
        cameras: Cameras that are drawn at every decision.
        image_size: Height and width of the frames, in pixels.
        depth: Whether every camera also gives depth.
        control_mode: "relative" or "absolute".
        settle_steps: Settling steps before the first decision.
        placement_shift: Distance by which every object is moved from its place in the initial state, in metres.
        unsafe_channels: Active unsafe channels.
        safety_limits: Replaces some limits of the unsafe channels.
        terminate_on_unsafe: Whether an unsafe attempt ends the episode.
    """

    cameras: tuple[str, ...] | None = None
    image_size: int | None = None
    depth: bool | None = None
    control_mode: str | None = None
    settle_steps: int | None = None
    placement_shift: float = 0.0
    unsafe_channels: tuple[str, ...] | None = None
    safety_limits: Mapping[str, float] = field(default_factory=dict)
    terminate_on_unsafe: bool = False

    def __post_init__(self) -> None:
        check_fields(self, "environment")
        check_names("unsafe channel", self.unsafe_channels or (), UNSAFE_CHANNELS)

    def given(self) -> dict[str, JSON]:
        """Return the settings that differ from their defaults, JSON-native."""
        defaults = EnvironmentSettings()
        return {
            name: plain(value) for name, value in asdict(self).items() if value != getattr(defaults, name)
        }


@dataclass(frozen=True)
class EvaluationPlan:
    """What to evaluate.

    Attributes:
        name: Name of the evaluation; part of every run id, so another name draws other perturbations.
        models: Policies under evaluation.
        tasks: Tasks: "suite/task", a suite for all its tasks, or a task of LIBERO: its instruction, name or paper's id.
            A suite of your own is named "module:attribute", a registered Gymnasium environment "gym:ENV_ID".
        conditions: Names of conditions or of `CONDITION_SETS`.
        clones: Number of clones of each planned condition that has one, or of single conditions by name
            (`{perturb: 3}`); the paper's rule uses the first, the calibrated verdict beside it uses all.
        seed_groups: Seed groups of each condition.
        episodes: Episodes of each seed group.
        step_budget: Control steps an episode may take; None: what the suite says, which is 280 in the built-in ones.
        suite_step_budgets: Step budgets of single suites.
        suites: Arguments of suites, by how `tasks` refers to them; for "gym:ENV_ID" the description of the environment.
        environment: Settings of every environment.
        shield: Training and behaviour of the shield.
        frames: Frames to keep: "none", "looked" (clean and given frames of every decision) or "all".
        profiles: Perturbation profiles of this plan by name, each a mapping with `operators`.
        perturbation: The profile that the claims are about: one of `profiles`, or a built-in one.
    """

    name: str = "evaluation"
    models: tuple[ModelSpec, ...] = ()
    tasks: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ("main",)
    clones: int | Mapping[str, int] = 1
    seed_groups: int = 5
    episodes: int = 10
    step_budget: int | None = None
    suite_step_budgets: Mapping[str, int] = field(default_factory=dict)
    suites: Mapping[str, Mapping[str, JSON]] = field(default_factory=dict)
    environment: EnvironmentSettings = EnvironmentSettings()
    shield: ShieldConfig = field(default_factory=ShieldConfig)
    frames: FrameChoice = "none"
    profiles: Mapping[str, JSON] = field(default_factory=dict)
    perturbation: str = MAIN_PROFILE

    def __post_init__(self) -> None:
        check_fields(self, "plan")
        for name, value in self.clone_counts().items():
            read_integer(f"the number of clones of {name!r}", value, 1, MAX_CLONES)
        read_integer("seed_groups", self.seed_groups, 1)
        read_integer("episodes", self.episodes, 1)
        if self.step_budget is not None:
            read_integer("step_budget", self.step_budget, 1)
        for name, value in self.suite_step_budgets.items():
            read_integer(f"the step budget of {name!r}", value, 1)
        if not self.name or any(c in self.name for c in "/\\\n\0"):
            raise InvalidInputError(
                f"Expected a plan name without slashes or line breaks, got {self.name!r}."
            )
        if not self.models:
            raise InvalidInputError("Expected at least one model in the plan, got none.")
        for model in self.models:
            if not model.name or "/" in model.name:
                raise InvalidInputError(f"Expected model names without slashes, got {model.name!r}.")

    def clone_counts(self) -> dict[str, int]:
        """Return the number of clones of each condition that can have some.

        Raises:
            UnknownNameError: A number is given for a condition that has no clone.
        """
        cloned = [name for name in CONDITIONS if clones_of(name)]
        if not isinstance(self.clones, Mapping):
            return dict.fromkeys(cloned, self.clones)
        check_names("condition with clones", self.clones, cloned)
        return {**dict.fromkeys(cloned, 1), **self.clones}

    def to_json(self) -> str:
        """Return the canonical JSON text of the plan."""
        return json.dumps(self._stored(), sort_keys=True, indent=1)

    def content(self) -> dict[str, Any]:
        """Return what decides the episodes.

        Left out are the reasons why departures from a contract are accepted, and how a model's server is reached.
        """
        content = self._stored()
        for model in content["models"]:
            del model["accept"]
            for arguments in (model["arguments"], *model.get("by_suite", {}).values()):
                for name in REACHING:
                    arguments.pop(name, None)
        return content

    def _stored(self) -> dict[str, Any]:
        """Return the plan as files hold it; a policy that is an object is neither copied nor kept."""
        named = tuple(replace(model, policy=model.policy_name) for model in self.models)
        content = asdict(replace(self, models=named))
        for model in content["models"]:
            if not model["by_suite"]:  # plans that do not use it keep their digest
                del model["by_suite"]
        if not content["suites"]:
            del content["suites"]
        if not self.profiles and self.perturbation == MAIN_PROFILE:
            del content["profiles"], content["perturbation"]
        return content


@dataclass(frozen=True)
class Row:
    """One model on one task, with its index in the plan and the control steps that an episode may take.

    `task` is the task as its suite names it, `suite_source` how the plan refers to the suite: its name, or
    `module:attribute`, and `suite_arguments` what the plan gives it.
    """

    index: int
    model: ModelSpec
    suite: str
    task: str
    instruction: str
    step_budget: int
    suite_source: str
    suite_arguments: Mapping[str, JSON] = field(default_factory=dict)

    def find_suite(self) -> Suite:
        """Return the suite."""
        return find_suite(self.suite_source, self.suite_arguments)

    @property
    def label(self) -> str:
        """Model, suite and task in one string."""
        return f"{self.model.name}/{self.suite}/{self.task}"


class PlannedEpisode(NamedTuple):
    """One planned episode: its row, its condition and its place in the seed groups."""

    row: int
    condition: str
    seed_group: int
    episode: int


@dataclass(frozen=True)
class ResolvedPlan:
    """A plan with its rows resolved; everything else about it is derived.

    Attributes:
        plan: The plan.
        rows: Rows in canonical order: model, then task.
        conditions: Conditions in the order of the protocol.
        profiles: Perturbation profiles by what conditions call them, with their parameters (`Profile.to_spec`);
            "medium" is the one that the claims are about.
    """

    plan: EvaluationPlan
    rows: tuple[Row, ...]
    conditions: tuple[Condition, ...]
    profiles: Mapping[str, dict[str, JSON]]

    @cached_property
    def digest(self) -> str:
        """Hexadecimal digest of the plan and of what its names were resolved to."""
        resolved = [(row.label, row.instruction, row.step_budget) for row in self.rows]
        content = json.dumps(self.plan.content(), sort_keys=True)
        profiles = json.dumps(self.profiles, sort_keys=True)
        return seeding.digest(content, json.dumps(resolved), profiles).hex()

    def model_index(self, model: ModelSpec) -> int:
        """Return the position of a row's model in the plan; it tells apart entries that share a name."""
        return next(index for index, other in enumerate(self.plan.models) if other is model)

    def run_id(self, row: Row, condition: Condition | str) -> str:
        """Return the run id of a condition of a row; a clone has its own."""
        name = condition if isinstance(condition, str) else condition.name
        return f"{self.plan.name}/{row.label}/{name}"

    def episodes(self) -> Iterator[PlannedEpisode]:
        """Yield every planned episode in canonical order: row, condition, seed group, episode."""
        for row in self.rows:
            for condition in self.conditions:
                for group in range(self.plan.seed_groups):
                    for episode in range(self.plan.episodes):
                        yield PlannedEpisode(row.index, condition.name, group, episode)

    def identity(self, planned: PlannedEpisode) -> EpisodeIdentity:
        """Return the identity of a planned episode.

        The pairing key in it is equal in every condition of the row, save those of the bootstrap: their episodes, on
        which the shield is trained, share scenes with each other and with no evaluated one.
        """
        row, condition = self.rows[planned.row], CONDITIONS[planned.condition]
        bootstrap = condition.role == "bootstrap"
        seed_of = bootstrap_scene_seed if bootstrap else scene_seed
        number = planned.seed_group * self.plan.episodes + planned.episode
        return EpisodeIdentity(
            run_id=self.run_id(row, planned.condition),
            seed_group=planned.seed_group,
            episode=planned.episode,
            init_state=SAMPLED if bootstrap else number,
            scene_seed=seed_of(row.suite, row.task, planned.seed_group, planned.episode),
            profile=self.plan.perturbation if condition.profile == MAIN_PROFILE else condition.profile,
        )


def check_bootstrap_scenes(plan: ResolvedPlan) -> None:
    """Refuse a plan in which a bootstrap episode has scene seed and initial state of an evaluated one of its row."""
    scenes: dict[tuple[int, bool], set[tuple[int | None, InitState | None]]] = {}
    for planned in plan.episodes():
        identity = plan.identity(planned)
        place = planned.row, CONDITIONS[planned.condition].role == "bootstrap"
        scenes.setdefault(place, set()).add((identity.scene_seed, identity.init_state))
    for row in plan.rows:
        shared = scenes.get((row.index, True), set()) & scenes.get((row.index, False), set())
        if shared:
            raise InvalidInputError(
                f"Expected bootstrap scenes of their own in {row.label!r}, got {len(shared)} that are also evaluated."
            )


def resolve(plan: EvaluationPlan) -> ResolvedPlan:
    """Resolve the names of a plan.

    Raises:
        InvalidInputError: A task or condition is unknown or ambiguous, a model has no task, shielded conditions are
            planned without the bootstrap conditions, or a task has fewer initial states than episodes are planned.
    """
    names = [name for entry in plan.conditions for name in CONDITION_SETS.get(entry, (entry,))]
    for name in names:
        if name not in CONDITIONS:
            raise unknown_name("condition", name, [*CONDITIONS, *CONDITION_SETS])
    if not names:
        raise InvalidInputError("Expected at least one condition in the plan, got none.")
    for base, count in plan.clone_counts().items():
        first, *further = clones_of(base)
        if first in names:
            names += further[: count - 1]
    conditions = tuple(condition for name, condition in CONDITIONS.items() if name in names)
    if any(c.shielded for c in conditions) and not any(c.role == "bootstrap" for c in conditions):
        raise InvalidInputError(
            "Expected 'bootstrap_clean' or 'bootstrap_perturb' beside the shielded conditions, which need a trained "
            "shield; add them or take the set 'main'."
        )
    if any(model.by_suite for model in plan.models):
        plan = replace(plan, models=tuple(e for model in plan.models for e in _suite_models(model, plan)))
    named = [(model, task) for model in plan.models for task in _named_tasks(model, plan)]
    plan = _with_budgets(plan, [task.suite for _, task in named])
    rows: list[Row] = []
    for model, (suite, source, task) in named:
        _check_task(suite, task, plan, conditions)
        budget = plan.suite_step_budgets.get(suite.name, plan.step_budget or STEP_BUDGET)
        arguments = plan.suites.get(source, {})
        rows.append(Row(len(rows), model, suite.name, task.name, task.instruction, budget, source, arguments))
    counted = Counter(row.label for row in rows)
    for row in rows:
        if counted[row.label] > 1:
            raise InvalidInputError(
                f"Expected one entry of the model {row.model.name!r} for the task {row.suite}/{row.task}, got "
                f"{counted[row.label]}; give each entry tasks of its own, or another name."
            )
    planned = {row.suite for row in rows}
    check_names("suite with a step budget of its own", plan.suite_step_budgets, planned)
    check_names("suite with arguments", plan.suites, {row.suite_source for row in rows})
    chosen = named_profile(plan.perturbation, plan.profiles)
    if not chosen.modalities() & {"image", "depth"}:
        raise InvalidInputError(
            "Expected a perturbation of images or depth, which the records show to have reached the policy, got "
            f"{plan.perturbation!r}, which changes neither; add an operator on frames."
        )
    acting = {c.profile: chosen if c.profile == MAIN_PROFILE else PROFILES[c.profile] for c in conditions}
    profiles = {name: profile.to_spec() for name, profile in acting.items()}
    return ResolvedPlan(plan, tuple(rows), conditions, profiles)


def _named_tasks(model: ModelSpec, plan: EvaluationPlan) -> list[NamedTask]:
    """Return the tasks of a model, each once."""
    texts = model.tasks or plan.tasks
    if not texts:
        raise InvalidInputError(f"Expected at least one task for the model {model.name!r}, got none.")
    found: dict[tuple[str, str], NamedTask] = {}
    for text in texts:
        for task in find_tasks(text, plan.suites):
            found.setdefault((task.suite.name, task.task.name), task)
    return list(found.values())


def _suite_models(model: ModelSpec, plan: EvaluationPlan) -> list[ModelSpec]:
    """Return a model as one entry for each suite of its tasks, where its arguments differ by suite."""
    if not model.by_suite:
        return [model]
    tasks: dict[str, list[str]] = {}
    for suite, source, task in _named_tasks(model, plan):
        tasks.setdefault(suite.name, []).append(f"{source}/{task.name}")
    for suite_name in tasks:
        if suite_name not in model.by_suite:
            raise InvalidInputError(
                f"Expected by_suite of the model {model.name!r} to name every suite of its tasks, got none for "
                f"{suite_name!r}; add its arguments, or evaluate only tasks of {', '.join(model.by_suite)}."
            )
    return [
        replace(
            model,
            arguments={**model.arguments, **model.by_suite[suite_name]},
            tasks=tuple(names),
            by_suite={},
        )
        for suite_name, names in tasks.items()
    ]


def _with_budgets(plan: EvaluationPlan, suites: Sequence[Suite]) -> EvaluationPlan:
    """Return the plan with every step budget that it leaves to the suites."""
    if plan.step_budget is not None:
        return plan
    own = {suite.name: suite.step_budget for suite in suites if suite.step_budget != STEP_BUDGET}
    return replace(plan, step_budget=STEP_BUDGET, suite_step_budgets={**own, **plan.suite_step_budgets})


def _check_task(suite: Suite, task: SuiteTask, plan: EvaluationPlan, conditions: Sequence[Condition]) -> None:
    """Refuse what a suite or its task does not have."""
    if plan.seed_groups * plan.episodes > task.init_states:
        raise InvalidInputError(
            f"Expected at most {task.init_states} episodes a condition, as many as {task.name!r} has initial states, "
            f"got {plan.seed_groups} x {plan.episodes}."
        )
    for name, value in plan.environment.given().items():
        if name not in suite.settings:
            raise InvalidInputError(
                f"Expected no {name} for tasks of {suite.name}, which has no such setting, got {value!r}; leave it "
                "out, or evaluate these tasks in a plan of their own."
            )
    channels = plan.environment.unsafe_channels or ()
    check_names(f"unsafe channel of {suite.name}", channels, suite.unsafe_channels)
    if plan.shield.fields is not None and any(condition.shielded for condition in conditions):
        readable = suite.shield_fields(task.name)
        check_names(f"entry that a shield may read on {suite.name}", plan.shield.fields, readable)


def plan_from_mapping(source: Any) -> EvaluationPlan:
    """Build a plan from nested mappings and lists, as YAML and JSON give them.

    Raises:
        InvalidInputError: A field is unknown (the message offers the closest), missing or has the wrong type.
    """
    return read_mapping(EvaluationPlan, source, "plan")
