"""A test suite that any suite of tasks can inherit.

Derive a test class from `SuiteContractTests`, override `make_suite`, and pytest checks the protocol of
`roep_gym.suites.base`:

    class TestMySuite(SuiteContractTests):
        def make_suite(self) -> Suite:
            return MySuite()
"""

from __future__ import annotations

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import closing
from typing import Any, ClassVar, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from roep_gym import seeding
from roep_gym.episode import SAMPLED, EpisodeIdentity, InitState
from roep_gym.episode_record import UNSAFE_CHANNELS
from roep_gym.error import UnknownNameError
from roep_gym.suites.base import SETTINGS, Suite, SuiteTask
from roep_gym.suites.registry import find_task

__all__ = ["SuiteContractTests"]


class _Trajectory(NamedTuple):
    """What an episode showed: the hash of its scene, its first observation, and everything after, as bytes."""

    scene_hash: int
    first: tuple[bytes, ...]
    rest: tuple[Any, ...]


class SuiteContractTests(ABC):
    """What every suite must satisfy.

    Attributes:
        task: Name of the task that is tried; empty: the first.
        settings: Settings that its environment is made with; small frames make the tests quick.
        steps: Control steps of the episodes that are compared.
        limit_episodes: Episodes in which a hidden step limit is looked for; each runs to the step budget.
    """

    task: str = ""
    settings: ClassVar[Mapping[str, Any]] = {}
    steps: int = 12
    limit_episodes: int = 3

    @abstractmethod
    def make_suite(self) -> Suite:
        """Return the suite."""

    def test_is_a_suite(self) -> None:
        """It has every member of the protocol, and names only settings, channels and fields that exist."""
        suite = self.make_suite()
        assert isinstance(suite, Suite)
        assert suite.name
        assert not set("/:\n") & set(suite.name)
        assert suite.step_budget >= 1
        assert set(suite.settings) <= set(SETTINGS)
        assert set(suite.unsafe_channels) <= set(UNSAFE_CHANNELS)
        inspect.signature(suite.make_environment).bind("task", **dict.fromkeys(suite.settings))

    def test_tasks_are_named_once_and_stay(self) -> None:
        """Tasks have a name, an instruction and an initial state, in the same order whenever they are asked for."""
        suite = self.make_suite()
        tasks = suite.tasks()
        assert tasks
        assert list(tasks) == list(suite.tasks())
        names = [name for task in tasks for name in (task.name, *task.other_names)]
        assert len(set(names)) == len(names)
        for task in tasks:
            assert task.name
            assert task.instruction
            assert task.init_states >= 1
            assert json.loads(json.dumps(dict(task.details))) == task.details
            assert find_task(suite, task.name) == task

    def test_an_unknown_task_is_answered_with_the_closest(self) -> None:
        """A name with a letter too many is refused, and the message has the right one."""
        suite = self.make_suite()
        name = self._task(suite).name
        answer = ""
        try:
            find_task(suite, f"{name}x")
        except UnknownNameError as error:
            answer = str(error)
        assert repr(name) in answer

    def test_spaces_hold_what_comes(self) -> None:
        """Observations lie in a Dict or Box space, and actions are a Box or Discrete."""
        env = self._environment()
        assert isinstance(env.observation_space, spaces.Dict | spaces.Box)
        assert isinstance(env.action_space, spaces.Box | spaces.Discrete)
        observation, _ = env.reset(options=self._options(0, 0))
        assert env.observation_space.contains(observation)
        for action in self._actions(env, 0):
            observation, reward, terminated, truncated, _ = env.step(action)
            assert env.observation_space.contains(observation)
            assert np.isfinite(float(reward))
            if terminated or truncated:
                break
        env.close()
        env.close()

    def test_info_says_what_an_evaluation_needs(self) -> None:
        """`reset` tells instruction and scene, `step` success and the unsafe channels."""
        suite = self.make_suite()
        with closing(self._environment()) as env:
            _, info = env.reset(options=self._options(0, 0))
            assert info["instruction"] == self._task(suite).instruction
            assert isinstance(info["scene_hash"], int)
            assert 0 <= info["scene_hash"] < 2**63
            *_, info = env.step(self._actions(env, 0)[0])
            assert isinstance(info["is_success"], bool | np.bool_)
            assert set(info.get("unsafe", {})) <= set(suite.unsafe_channels)

    def test_shield_fields_name_entries_of_proprio(self) -> None:
        """What a shield may read is in the observation, under names that belong to its entries."""
        suite = self.make_suite()
        with closing(self._environment()) as env:
            readable = suite.shield_fields(self._task(suite).name)
            if readable:
                named = env.get_wrapper_attr("observation_fields")["proprio"]
                observation, _ = env.reset(options=self._options(0, 0))
                assert set(readable) <= set(named)
                assert np.shape(observation["proprio"]) == (len(named),)

    def test_a_reset_is_a_function_of_scene_seed_and_initial_state(self) -> None:
        """An episode is the same after others, after one that was cut short, and in a new environment.

        The identity's other fields and the seed of `reset` do not matter, nor does NumPy's global stream.
        """
        keys: list[tuple[int, InitState]] = [
            (11, 0),
            (12, self._task(self.make_suite()).init_states - 1),
            (13, SAMPLED),
        ]
        with closing(self._environment()) as env:
            first = {key: self._run(env, *key, history=0) for key in keys}
            env.reset(options=self._options(99, 0))
            env.step(self._actions(env, 5)[0])
            again = {key: self._run(env, *key, history=1) for key in reversed(keys)}
        with closing(self._environment()) as env:
            alone = {key: self._run(env, *key, history=2) for key in reversed(keys)}
        for key in keys:
            assert again[key] == first[key], f"scene seed and initial state {key} differ after other episodes"
            assert alone[key] == first[key], f"scene seed and initial state {key} differ in a new environment"

    def test_equal_scene_hashes_mean_equal_scenes(self) -> None:
        """Where two first observations differ, so do the hashes."""
        env = self._environment()
        states = min(self._task(self.make_suite()).init_states, 3)
        seen: dict[int, tuple[bytes, ...]] = {}
        for seed in range(3):
            for state in range(states):
                run = self._run(env, seed, state, history=0, steps=0)
                assert seen.setdefault(run.scene_hash, run.first) == run.first
        env.close()

    def test_no_step_limit_is_hidden(self) -> None:
        """No episode is truncated within the step budget, and not all end without success at one same step."""
        budget = self.make_suite().step_budget
        with closing(self._environment()) as env:
            ends = [self._end(env, number, budget) for number in range(self.limit_episodes)]
        early = {end for end in ends if end < budget}
        assert len(early) != 1 or budget in ends, f"every episode ends at step {early}"

    def _task(self, suite: Suite) -> SuiteTask:
        return find_task(suite, self.task) if self.task else suite.tasks()[0]

    def _environment(self) -> gym.Env[Any, Any]:
        suite = self.make_suite()
        return suite.make_environment(self._task(suite).name, **self.settings)

    def _options(self, scene_seed: int, init_state: InitState, history: int = 0) -> dict[str, Any]:
        identity = EpisodeIdentity(f"contract-{history}", history, history, init_state, scene_seed)
        return identity.to_options()

    def _actions(self, env: gym.Env[Any, Any], number: int, steps: int | None = None) -> list[Any]:
        """Return actions that depend on the episode's number alone."""
        env.action_space.seed(seeding.seed("contract suite", number))
        return [env.action_space.sample() for _ in range(self.steps if steps is None else steps)]

    def _run(
        self,
        env: gym.Env[Any, Any],
        scene_seed: int,
        init_state: InitState,
        history: int,
        steps: int | None = None,
    ) -> _Trajectory:
        np.random.seed(history)  # noqa: NPY002 (what must not matter)
        observation, info = env.reset(seed=history, options=self._options(scene_seed, init_state, history))
        first, rest = _as_bytes(observation), list[Any]()
        for action in self._actions(env, scene_seed, steps):
            observation, reward, terminated, truncated, info_step = env.step(action)
            success = bool(info_step["is_success"])
            rest.append((_as_bytes(observation), float(reward), terminated, truncated, success))
            if terminated or truncated:
                break
        return _Trajectory(info["scene_hash"], first, tuple(rest))

    def _end(self, env: gym.Env[Any, Any], number: int, budget: int) -> int:
        """Return the step at which an episode ended without success; the budget where it did not."""
        states = self._task(self.make_suite()).init_states
        env.reset(options=self._options(number, number % states))
        for step, action in enumerate(self._actions(env, number, budget), 1):
            _, _, terminated, truncated, info = env.step(action)
            assert not truncated or step >= budget, f"truncated after {step} of {budget} steps"
            if info["is_success"]:
                return budget
            if terminated:
                return step
        return budget


def _as_bytes(observation: Any) -> tuple[bytes, ...]:
    parts = observation if isinstance(observation, Mapping) else {"": observation}
    return tuple(np.asarray(parts[key]).tobytes() for key in sorted(parts))
