"""A worker: keeps one environment and its policies, and turns work items into results."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np

from roep_gym import contracts, fingerprint
from roep_gym.arguments import check_names
from roep_gym.envs.numeric_probe import numeric_probe
from roep_gym.episode_record import EpisodeRecord
from roep_gym.error import InvalidInputError, RoepError, ServerGoneError, SimulationUnstableError, bounded
from roep_gym.evaluate.plan import ModelSpec, ResolvedPlan, Row
from roep_gym.evaluate.run.environment_stack import environment_arguments, make_environment, wrap
from roep_gym.evaluate.run.rollout import chunk_settings, run_episode
from roep_gym.evaluate.run.servers import wait_for_server
from roep_gym.evaluate.run.work import WorkItem, WorkResult
from roep_gym.evaluate.schema import CONDITIONS
from roep_gym.evaluate.store.packed_record import pack_record
from roep_gym.policies.base import Policy, one_process
from roep_gym.policies.registry import make_policy
from roep_gym.typing import JSON

__all__ = ["EpisodeWorker"]

_ANSWERED = {
    "cameras": "cameras",
    "resolution": "image_size",
    "control_mode": "control_mode",
    "settle_steps": "settle_steps",
    "suite": "suite",
}
"""Attribute of the environment that answers for a field of the runtime contract."""


class EpisodeWorker:
    """Runs episodes of a plan, one after another.

    The environment of the last row is kept, so that its scene is not built anew for each episode; after an abort
    environment and policy are thrown away, since nothing is known of their state. Where a policy's server is gone, it
    is waited for before the abort is reported; one that did not come back in time is not waited for again.
    `heartbeat` is called at every stage and step, so that an observer can tell a hang from work. Without `find_policy`
    policies are built here, without `probe`, what `numeric_probe` gives on this machine, it is computed with the first
    episode.
    """

    def __init__(
        self,
        plan: ResolvedPlan,
        heartbeat: Callable[[], None] = lambda: None,
        find_policy: Callable[[ModelSpec], Policy] | None = None,
        *,
        probe: Mapping[str, str] | None = None,
    ) -> None:
        self._plan = plan
        self._heartbeat, self._find_policy, self._probe = heartbeat, find_policy, probe
        self._policies: dict[int, Policy] = {}
        self._lost: set[int] = set()
        """Models whose server did not come back."""
        self._built_for: tuple[str, str, dict[str, Any]] | None = None
        self._env: gym.Env[Any, Any] | None = None

    def run(self, item: WorkItem) -> WorkResult:
        """Run one episode; whatever fails on the way is the cause of an abort."""
        try:
            with one_process():
                return WorkResult(item, pack_record(self._run(item)))
        except Exception as error:  # noqa: BLE001 (user policies and simulators raise anything; it is reported)
            self.discard()
            if isinstance(error, ServerGoneError):
                self._wait_for_server(self._plan.rows[item.planned.row].model)
            message = bounded(str(error)).strip() or "no message"
            text = message if isinstance(error, RoepError) else f"{type(error).__name__}: {message}"
            text = text if text.endswith((".", "?", "!")) else f"{text}."
            trace = bounded(traceback.format_exc())
            return WorkResult(item, None, text, trace, isinstance(error, SimulationUnstableError))

    def discard(self) -> None:
        """Close the environment and all policies; the next episode builds them anew."""
        env, self._env, self._built_for = self._env, None, None
        policies, self._policies = self._policies, {}
        if env is not None:
            env.close()
        for index, policy in policies.items():
            if not self._plan.plan.models[index].is_object:  # an object is its maker's to close
                policy.close()

    def _wait_for_server(self, model: ModelSpec) -> None:
        index = self._plan.model_index(model)
        if index not in self._lost and not wait_for_server(model, self._heartbeat):
            self._lost.add(index)

    def _run(self, item: WorkItem) -> EpisodeRecord:
        row = self._plan.rows[item.planned.row]
        condition = CONDITIONS[item.planned.condition]
        policy = self._policy(row)
        self._heartbeat()
        env = self._environment(row, policy)
        self._heartbeat()
        stack = wrap(
            env,
            profile=self._plan.profiles[condition.profile],
            shield=item.shield if condition.shielded else None,
            step_budget=row.step_budget,
            frames=self._plan.plan.frames,
            replan=chunk_settings(policy).replan_after_intervention,
            terminate_on_refusal=self._plan.plan.shield.terminate_on_refusal,
        )
        record = run_episode(
            stack,
            policy,
            self._plan.identity(item.planned),
            diverged_before=item.diverged_before,
            heartbeat=self._heartbeat,
        )
        renderer = getattr(env.unwrapped, "renderer_name", lambda: "numpy")()
        details = fingerprint.fingerprint(renderer, numeric_probe() if self._probe is None else self._probe)
        return replace(
            record,
            summary=replace(record.summary, fingerprint=fingerprint.fingerprint_hash(details)),
            attributes=replace(
                record.attributes,
                fingerprint=details,
                declared=policy.contract.for_suite(row.suite).to_dict(),
                observed=self._observed(env, policy, record.attributes.longest_chunk),
            ),
        )

    def _policy(self, row: Row) -> Policy:
        index, model = self._plan.model_index(row.model), row.model
        if index not in self._policies:
            find = self._find_policy
            self._policies[index] = find(model) if find else make_policy(model.policy, **model.arguments)
        return self._policies[index]

    def _environment(self, row: Row, policy: Policy) -> gym.Env[Any, Any]:
        arguments = environment_arguments(row, self._plan.plan.environment, policy)
        built_for = (row.suite_source, row.task, arguments)
        if self._env is None or built_for != self._built_for:
            if self._env is not None:
                self._env.close()
            self._env, self._built_for = make_environment(row, arguments), built_for
        return self._env

    def _observed(self, env: gym.Env[Any, Any], policy: Policy, longest_chunk: int) -> Mapping[str, JSON]:
        """Return what really ran, by field of the runtime contract.

        What the evaluation measures itself is never taken from the policy; what neither measured is missing or None.
        """
        own, settings, inner = policy.observed(), chunk_settings(policy), env.unwrapped
        check_names("field in what the policy observed", own, contracts.FIELDS)
        installed = fingerprint.versions()
        conventions: Mapping[str, JSON] = getattr(inner, "conventions", {})
        ran = {
            # Frames as the environment gives them; a policy that turns them says so.
            "rotation": conventions.get("rotation") if getattr(inner, "cameras", ()) else None,
            **own,
            **{field: getattr(inner, name, None) for field, name in _ANSWERED.items()},
            **{field: conventions.get(field) for field in ("gripper_sign", "eef_orientation")},
            "replan_after_intervention": settings.replan_after_intervention,
            "mujoco": installed.get("mujoco"),
            "robosuite": installed.get("robosuite"),
            # What came back and was executed; an episode without a chunk shows nothing.
            "chunk_length": longest_chunk or None,
            "executed_steps": min(settings.executed_steps or longest_chunk, longest_chunk) or None,
        }
        observed: dict[str, JSON] = json.loads(json.dumps(ran, default=_plain))
        return observed


def _plain(value: Any) -> Any:
    """Return a NumPy scalar or array as JSON has it."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise InvalidInputError(f"Expected what a policy observes to be JSON-native, got {value!r}.")
