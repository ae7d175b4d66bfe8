"""A test suite that any policy can inherit.

Derive a test class from `PolicyContractTests`, override `make_policy`, and pytest checks the whole protocol of
`roep_gym.policies.base`:

    class TestMyPolicy(PolicyContractTests):
        def make_policy(self) -> Policy:
            return MyPolicy()
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import closing

import numpy as np

from roep_gym import seeding
from roep_gym.contracts import FIELDS, RuntimeContract
from roep_gym.envs.libero_observations import POSE_AXES, PROPRIO_FIELDS
from roep_gym.policies.base import ObservationRequest, Policy, PolicyEpisode, PolicyInput
from roep_gym.typing import Array

__all__ = ["PolicyContractTests"]


class PolicyContractTests(ABC):
    """What every policy must satisfy.

    Attributes:
        suite: Suite of the episodes that are opened.
        task: Their task.
        objects: Objects whose poses `object_state` holds.
        action_dimension: Entries of an action.
        decisions: Decisions of an episode.
        batch_sizes: Sizes of the batches that are compared with single calls.
    """

    suite = "libero_goal"
    task = "put_the_bowl_on_the_plate"
    objects: tuple[str, ...] = ("akita_black_bowl_1", "plate_1")
    action_dimension = 7
    decisions = 4
    batch_sizes: tuple[int, ...] = (2, 3, 8)

    @abstractmethod
    def make_policy(self) -> Policy:
        """Return a new policy."""

    def make_episode(self, number: int) -> PolicyEpisode:
        """Return the `number`-th episode."""
        poses = tuple(f"{name}_{axis}" for name in self.objects for axis in POSE_AXES)
        return PolicyEpisode(
            key=f"suite/0/{number}",
            suite=self.suite,
            task=self.task,
            instruction=self.task.replace("_", " "),
            seed=1000 + number,
            fields={"proprio": PROPRIO_FIELDS, "object_state": poses},
        )

    def make_input(self, request: ObservationRequest, episode: PolicyEpisode, decision: int) -> PolicyInput:
        """Return a decision of an episode; its observation depends on episode and decision alone."""
        draw = seeding.generator("contract suite", episode.key, decision)
        shape = (request.image_size, request.image_size)
        observation: dict[str, Array] = {
            "proprio": draw.uniform(0.1, 1.0, len(episode.fields["proprio"])).astype(np.float32)
        }
        for camera in request.cameras:
            observation[f"{camera}_image"] = draw.integers(0, 256, (*shape, 3), dtype=np.uint8)
            if request.depth:
                observation[f"{camera}_depth"] = draw.uniform(0.2, 2.0, (*shape, 1)).astype(np.float32)
        if request.object_state:
            observation["object_state"] = draw.uniform(0.1, 1.0, len(episode.fields["object_state"]))
        if request.controller_pose:
            observation["controller_pose"] = draw.uniform(0.1, 1.0, 9)
        for entry in observation.values():
            entry.flags.writeable = False
        return PolicyInput(episode.key, decision, episode.instruction, observation)

    def test_is_a_policy(self) -> None:
        """It has every member of the protocol, of the right type."""
        with closing(self.make_policy()) as policy:
            assert isinstance(policy, Policy)
            assert isinstance(policy.contract, RuntimeContract)
            assert isinstance(policy.observations, ObservationRequest)

    def test_contract_is_constant_and_json_native(self) -> None:
        """The contract survives a round trip through JSON and does not change while the policy runs."""
        with closing(self.make_policy()) as policy:
            before = policy.contract.to_dict()
            assert json.loads(json.dumps(before)) == before
            self._run(policy, [0])
            assert policy.contract.to_dict() == before

    def test_observed_names_contract_fields(self) -> None:
        """What the policy observes is JSON-native and named as in the contract."""
        with closing(self.make_policy()) as policy:
            self._run(policy, [0])
            observed = dict(policy.observed())
            assert set(observed) <= set(FIELDS)
            assert json.loads(json.dumps(observed)) == observed

    def test_chunks_are_finite_and_shaped(self) -> None:
        """Each answer is a finite (steps, action dimension) array, as long as the contract says."""
        with closing(self.make_policy()) as policy:
            declared = policy.contract.chunk_length
            for chunk in self._run(policy, [0])[0]:
                assert chunk.ndim == 2
                assert chunk.shape[0] >= 1
                assert chunk.shape[1] == self.action_dimension
                assert np.isfinite(np.asarray(chunk, dtype=np.float64)).all()
                assert not isinstance(declared, int) or len(chunk) == declared

    def test_interleaved_episodes_answer_as_alone(self) -> None:
        """Two open episodes do not influence each other."""
        alone = [self._run_new([number])[0] for number in (0, 1)]
        self._assert_equal(alone, self._run_new([0, 1]))

    def test_nothing_survives_an_episode(self) -> None:
        """An episode that is run again, after others and after an abandoned attempt, gets the same chunks."""
        with closing(self.make_policy()) as policy:
            first = self._run(policy, [0])
            self._run(policy, [1])
            episode = self.make_episode(0)
            policy.begin(episode)
            policy.act([self.make_input(policy.observations, episode, 0)])
            again = self._run(policy, [0])
            self._assert_equal(first, again)

    def test_batch_equals_single_calls(self) -> None:
        """Episodes that are asked about in one call get what they get one by one, bit for bit, in a batch of any size.

        A policy that passes gives the same records with shared inference as with one policy in each worker.
        """
        for size in self.batch_sizes:
            numbers = range(size)
            self._assert_equal(self._run_new(numbers), self._run_new(numbers, batched=True))

    def test_no_inputs_no_chunks(self) -> None:
        """An empty call is answered by nothing."""
        with closing(self.make_policy()) as policy:
            assert list(policy.act([])) == []

    def test_close_twice(self) -> None:
        """Closing is idempotent, also with an episode open."""
        policy = self.make_policy()
        policy.begin(self.make_episode(0))
        policy.close()
        policy.close()

    def _run_new(self, numbers: Sequence[int], *, batched: bool = False) -> list[list[Array]]:
        """Run episodes side by side on a policy of their own."""
        with closing(self.make_policy()) as policy:
            return self._run(policy, numbers, batched=batched)

    def _run(self, policy: Policy, numbers: Sequence[int], *, batched: bool = False) -> list[list[Array]]:
        """Run episodes side by side and return the chunks of each."""
        episodes = [self.make_episode(number) for number in numbers]
        stated = policy.contract.executed_steps
        steps = stated if isinstance(stated, int) else 1
        chunks: list[list[Array]] = [[] for _ in episodes]
        for episode in episodes:
            policy.begin(episode)
        for decision in range(self.decisions):
            inputs = [self.make_input(policy.observations, episode, decision * steps) for episode in episodes]
            answers = policy.act(inputs) if batched else [policy.act([given])[0] for given in inputs]
            for kept, answer in zip(chunks, answers, strict=True):
                kept.append(np.array(answer))
        for episode in episodes:
            policy.end(episode.key)
        return chunks

    @staticmethod
    def _assert_equal(left: Sequence[Sequence[Array]], right: Sequence[Sequence[Array]]) -> None:
        for one, other in zip(left, right, strict=True):
            for a, b in zip(one, other, strict=True):
                np.testing.assert_array_equal(a, b)
