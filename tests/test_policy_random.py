"""The random policy."""

from __future__ import annotations

import numpy as np
import pytest

from roep_gym.error import InvalidInputError
from roep_gym.policies.base import Policy, PolicyInput
from roep_gym.policies.contract_suite import PolicyContractTests
from roep_gym.policies.random import RandomPolicy
from roep_gym.policies.registry import make_policy


class TestRandomPolicy(PolicyContractTests):
    def make_policy(self) -> Policy:
        return make_policy("random", chunk=3)

    def test_fills_the_bounds(self) -> None:
        policy = RandomPolicy()
        policy.begin(self.make_episode(0))
        actions = np.concatenate([policy.act([PolicyInput("suite/0/0", t, "", {})])[0] for t in range(400)])
        assert actions.dtype == np.float32
        assert -1.0 <= actions.min() < -0.98
        assert 0.98 < actions.max() <= 1.0
        assert abs(float(actions.mean())) < 0.05

    def test_steps_of_a_chunk_do_not_depend_on_its_length(self) -> None:
        chunks = {}
        for chunk in (1, 4):
            policy = RandomPolicy(chunk=chunk)
            policy.begin(self.make_episode(0))
            chunks[chunk] = np.concatenate(
                [policy.act([PolicyInput("suite/0/0", t, "", {})])[0] for t in range(0, 8, chunk)]
            )
        np.testing.assert_array_equal(chunks[1], chunks[4])

    def test_seeds_differ(self) -> None:
        policy = RandomPolicy()
        drawn = []
        for number in (0, 1):
            policy.begin(self.make_episode(number))
            drawn.append(policy.act([PolicyInput(f"suite/0/{number}", 0, "", {})])[0])
        assert not np.array_equal(drawn[0], drawn[1])


@pytest.mark.parametrize("arguments", [{"chunk": 0}, {"chunk": True}, {"action_dimension": 1.5}])
def test_refuses_arguments(arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError, match="to be an integer >= 1"):
        RandomPolicy(**arguments)  # type: ignore[arg-type]
