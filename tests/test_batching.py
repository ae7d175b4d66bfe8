"""The batcher: what is asked together, whose episode an error reaches, and that a client's end is a policy."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from batched_policies import Torch

from roep_gym.contracts import RuntimeContract
from roep_gym.error import InvalidInputError
from roep_gym.policies.base import ObservationRequest, Policy, PolicyEpisode, PolicyInput
from roep_gym.policies.batching import BatchedPolicy, BatchLimits, PolicyBatcher
from roep_gym.policies.contract_suite import PolicyContractTests


class Recording:
    """Answers with the step; remembers what it was asked, in which thread, and raises for the step 13."""

    contract = RuntimeContract(executed_steps=1)
    observations = ObservationRequest()

    def __init__(self, hold: Callable[[], Any] = lambda: None) -> None:
        self.hold = hold
        self.batches: list[list[tuple[str, int]]] = []
        self.threads: set[int] = set()
        self.open: set[str] = set()
        self.closed = 0

    def observed(self) -> dict[str, Any]:
        return {"precision": "float32"}

    def begin(self, episode: PolicyEpisode) -> None:
        assert episode.key not in self.open
        self.open.add(episode.key)

    def act(self, inputs: Sequence[PolicyInput]) -> list[Any]:
        self.threads.add(threading.get_ident())
        self.batches.append([(given.episode, given.step) for given in inputs])
        self.hold()
        if any(given.step == 13 for given in inputs):
            raise ValueError("thirteen")
        return [np.full((1, 7), float(given.step)) for given in inputs if given.step != 99]

    def end(self, episode: str) -> None:
        self.open.remove(episode)

    def close(self) -> None:
        self.closed += 1


def make(policy: Any, *, renew: bool = False, **limits: Any) -> PolicyBatcher:
    return PolicyBatcher(lambda: policy, BatchLimits(**limits), renew=renew)


def episode(key: str) -> PolicyEpisode:
    return PolicyEpisode(key, "tabletop", "carry", "carry the disc", 1)


def ask(client: BatchedPolicy, key: str, step: int) -> float:
    return float(client.act([PolicyInput(key, step, "", {})])[0][0, 0])


def clients(batcher: PolicyBatcher, names: str) -> dict[str, BatchedPolicy]:
    made = {name: batcher.connect() for name in names}
    for name, client in made.items():
        client.begin(episode(name))
    return made


def ask_all(asked: dict[str, BatchedPolicy], step: int = 0) -> dict[str, float | BaseException]:
    """Ask every client at the same time."""
    with ThreadPoolExecutor(len(asked)) as pool:
        futures = {name: pool.submit(ask, client, name, step) for name, client in asked.items()}
        return {name: future.exception() or future.result() for name, future in futures.items()}


class TestClientOfABatcher(PolicyContractTests):
    def make_policy(self) -> Policy:
        return PolicyBatcher(Torch, BatchLimits(), renew=True).connect()


def test_all_open_episodes_that_wait_are_asked_at_once_and_nobody_waits_longer():
    policy = Recording()
    batcher = make(policy, max_wait=3600.0)  # beyond pytest's own limit: waiting for it would fail
    asked = clients(batcher, "abcd")
    for step in range(3):
        assert ask_all(asked, step) == dict.fromkeys("abcd", step)
    batcher.close()
    assert batcher.batch_sizes == {4: 3}
    assert [sorted(batch) for batch in policy.batches] == [[(n, step) for n in "abcd"] for step in range(3)]
    assert len(policy.threads) == 1
    assert threading.get_ident() not in policy.threads


def test_a_decision_waits_for_others_no_longer_than_stated():
    batcher = make(Recording(), max_wait=0.3)
    asked = clients(batcher, "ab")
    assert ask(asked["a"], "a", 1) == 1  # waiting for the other one would never end
    batcher.close()
    assert batcher.batch_sizes == {1: 1}


def test_no_batch_is_larger_than_stated():
    batcher = make(Recording(), max_batch=2, max_wait=30.0)
    assert ask_all(clients(batcher, "abcdef"), 5) == dict.fromkeys("abcdef", 5)
    batcher.close()
    assert max(batcher.batch_sizes) == 2
    assert sum(size * count for size, count in batcher.batch_sizes.items()) == 6


def test_what_arrives_during_a_call_is_asked_in_the_next():
    held, going = threading.Event(), threading.Event()
    policy = Recording(lambda: (held.set(), going.wait(10)))
    batcher = make(policy, max_wait=0.0)
    asked = clients(batcher, "abcd")
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(ask, asked["a"], "a", 0)
        assert held.wait(10)
        others = [pool.submit(ask, asked[name], name, 0) for name in "bcd"]
        while len(batcher._questions) < 3:
            time.sleep(0.01)
        going.set()
        assert [first.result(), *(other.result() for other in others)] == [0, 0, 0, 0]
    batcher.close()
    assert batcher.batch_sizes == {1: 1, 3: 1}


def test_an_error_reaches_those_who_asked_together_and_then_each_is_asked_alone():
    policy = Recording()
    batcher = make(policy, max_wait=30.0)
    asked = clients(batcher, "abc")
    with ThreadPoolExecutor(3) as pool:
        futures = [
            pool.submit(ask, asked[name], name, step) for name, step in (("a", 13), ("b", 1), ("c", 1))
        ]
        assert [str(future.exception()) for future in futures] == ["thirteen"] * 3
    for name in "abc":
        asked[name].end(name)
        asked[name].begin(episode(name))
    with ThreadPoolExecutor(3) as pool:
        futures = [
            pool.submit(ask, asked[name], name, step) for name, step in (("a", 13), ("b", 1), ("c", 1))
        ]
        assert str(futures[0].exception()) == "thirteen"
        assert [future.result() for future in futures[1:]] == [1, 1]
    batcher.close()
    assert [len(batch) for batch in policy.batches] == [3, 1, 1, 1]


def test_a_policy_that_raised_is_replaced_when_its_open_episodes_have_ended():
    made: list[Recording] = []

    def make_policy() -> Recording:
        made.append(Recording())
        return made[-1]

    batcher = PolicyBatcher(make_policy, BatchLimits(), renew=True)
    asked = clients(batcher, "ab")
    with pytest.raises(ValueError, match="thirteen"):
        ask(asked["a"], "a", 13)
    asked["a"].end("a")
    with ThreadPoolExecutor(1) as pool:
        again = pool.submit(asked["a"].begin, episode("a"))
        time.sleep(0.1)
        assert not again.done(), "the episode b is still open"
        assert ask(asked["b"], "b", 2) == 2, "and goes on with the old policy"
        asked["b"].end("b")
        again.result(10)
    assert ask(asked["a"], "a", 3) == 3
    assert [policy.closed for policy in made] == [1, 0]
    batcher.close()
    assert made[1].closed == 1


def test_a_policy_that_raised_stays_where_it_shall_not_be_replaced():
    policy = Recording()
    batcher = make(policy)
    asked = clients(batcher, "ab")
    with pytest.raises(ValueError, match="thirteen"):
        ask(asked["a"], "a", 13)
    batcher.connect().begin(episode("c"))
    assert policy.open == set("abc")
    batcher.close()


def test_a_key_is_begun_again_only_when_the_client_that_is_leaving_has_ended_it():
    policy = Recording()
    batcher = make(policy)
    old, new = batcher.connect(), batcher.connect()
    old.begin(episode("a"))
    with ThreadPoolExecutor(1) as pool:
        begun = pool.submit(new.begin, episode("a"))
        time.sleep(0.1)
        assert not begun.done()
        old.close()
        begun.result(10)
    assert policy.open == {"a"}
    batcher.close()


def test_a_client_that_closes_ends_its_own_episodes_only():
    policy = Recording()
    batcher = make(policy)
    asked = clients(batcher, "ab")
    asked["a"].close()
    assert policy.open == {"b"}
    batcher.close()
    assert policy.closed == 1


def test_too_few_answers_are_refused():
    batcher = make(Recording())
    with pytest.raises(InvalidInputError, match="Expected one chunk for each of the 1 inputs, got 0"):
        ask(clients(batcher, "a")["a"], "a", 99)
    batcher.close()


def test_what_building_raises_reaches_the_caller():
    def make_policy() -> Policy:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        PolicyBatcher(make_policy, BatchLimits())


def test_a_closed_batcher_refuses():
    batcher = make(Recording())
    client = batcher.connect()
    batcher.close()
    batcher.close()
    for refused in (client.observed, lambda: client.begin(episode("a")), lambda: ask(client, "a", 0)):
        with pytest.raises(RuntimeError, match="it was closed"):
            refused()


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_batch": 0}, "Expected max_batch to be an integer >= 1, got 0."),
        ({"max_wait": -0.1}, "Expected max_wait to be a finite number >= 0, got -0.1."),
        ({"max_wait": float("nan")}, "Expected max_wait to be a finite number >= 0, got nan."),
    ],
)
def test_limits_outside_their_range_are_refused(limits: dict[str, Any], message: str):
    with pytest.raises(InvalidInputError) as caught:
        BatchLimits(**limits)
    assert str(caught.value) == message
