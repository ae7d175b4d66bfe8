"""One policy for many clients: what waits is asked in one call.

`PolicyBatcher` keeps a policy in a thread of its own. `connect` gives a client a `BatchedPolicy`, which is used like
the policy itself; the decisions of all clients that wait at the same time are answered by one call of `act`.
`BatchLimits` says how long a decision may wait for others, and how many go into a call.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

from roep_gym.arguments import read_integer, read_number
from roep_gym.contracts import RuntimeContract
from roep_gym.error import InvalidInputError
from roep_gym.policies.base import ObservationRequest, Policy, PolicyEpisode, PolicyInput, one_process
from roep_gym.typing import Array

__all__ = ["BatchLimits", "BatchedPolicy", "PolicyBatcher"]


@dataclass(frozen=True)
class BatchLimits:
    """When a batch is complete.

    Attributes:
        max_batch: Decisions that are answered by one call at most; 1: every decision is asked alone.
        max_wait: Seconds that a decision waits for others; none waits when every open episode is waiting.
    """

    max_batch: int = 16
    max_wait: float = 0.01

    def __post_init__(self) -> None:
        read_integer("max_batch", self.max_batch, 1)
        read_number("max_wait", self.max_wait, 0.0)


class _Call(NamedTuple):
    """Something else to ask of the policy than a decision."""

    function: Callable[[Policy], Any]
    begins: bool
    result: Future[Any]


class _Question(NamedTuple):
    """A decision that waits for its answer."""

    given: PolicyInput
    asked: float
    result: Future[Any]


class PolicyBatcher:
    """Asks a policy for many clients, from one thread.

    Whatever the policy raises reaches all clients whose request failed with it. Since a failed batch does not tell
    whose decision made it fail, its episodes are asked alone from then on, also when they begin again.

    Args:
        make_policy: Builds the policy; called in the thread that will ask it.
        limits: When a batch is complete.
        renew: Whether a policy that raised is replaced: the open episodes go on, the next one that begins waits until
            all have ended, and gets a newly built policy.
        watch: Called with True before and with False after each use of the policy, so that an observer can tell a hang
            from idleness.

    Raises:
        Exception: What `make_policy` raises.
    """

    def __init__(
        self,
        make_policy: Callable[[], Policy],
        limits: BatchLimits,
        *,
        renew: bool = False,
        watch: Callable[[bool], None] = lambda busy: None,
    ) -> None:
        self._make_policy, self._limits, self._renew, self._watch = make_policy, limits, renew, watch
        self._policy: Policy | None = None
        self._failed = self._closed = False
        self._changed = threading.Condition()
        self._calls: deque[_Call] = deque()
        self._questions: deque[_Question] = deque()
        self._open: dict[str, BatchedPolicy] = {}
        self._alone: set[str] = set()
        self.batch_sizes: Counter[int] = Counter()
        """How many batches there were of each size."""
        self._thread = threading.Thread(target=self._run, name="policy", daemon=True)
        self._thread.start()
        try:
            self.contract: RuntimeContract = self.call(lambda policy: policy.contract)
            """The contract of the policy."""
            self.observations: ObservationRequest = self.call(lambda policy: policy.observations)
            """What the policy looks at."""
        except BaseException:
            self.close()
            raise

    def connect(self) -> BatchedPolicy:
        """Return the policy for one more client."""
        return BatchedPolicy(self)

    def close(self) -> None:
        """Answer what waits, close the policy and end its thread; may be called twice."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def begin(self, client: BatchedPolicy, episode: PolicyEpisode) -> None:
        """Open an episode of a client.

        It waits while another client, which then is about to end, still has an episode with this key.
        """

        def may_begin() -> bool:
            renewing = self._renew and self._failed and bool(self._open)
            return self._closed or (self._open.get(episode.key, client) is client and not renewing)

        with self._changed:
            self._changed.wait_for(may_begin)
            self._check_open()
            self._open[episode.key] = client
        try:
            self.call(lambda policy: policy.begin(episode), begins=True)
        except BaseException:
            self._forget(episode.key)
            raise

    def act(self, inputs: Sequence[PolicyInput]) -> list[Any]:
        """Return the policy's answer to each input, when all have been asked."""
        questions = [_Question(given, time.monotonic(), Future()) for given in inputs]
        with self._changed:
            self._check_open()
            self._questions.extend(questions)
            self._changed.notify_all()
        return [question.result.result() for question in questions]

    def end(self, episode: str) -> None:
        """Let the policy forget an episode."""
        try:
            self.call(lambda policy: policy.end(episode))
        finally:
            self._forget(episode)

    def call(self, function: Callable[[Policy], Any], *, begins: bool = False) -> Any:
        """Return what a function of the policy returns, called in the policy's thread."""
        call = _Call(function, begins, Future())
        with self._changed:
            self._check_open()
            self._calls.append(call)
            self._changed.notify_all()
        return call.result.result()

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Expected an open batcher, but it was closed.")

    def _forget(self, episode: str) -> None:
        with self._changed:
            self._open.pop(episode, None)
            self._changed.notify_all()

    def _run(self) -> None:
        while (work := self._next()) is not None:
            results = [work.result] if isinstance(work, _Call) else [question.result for question in work]
            self._watch(True)
            try:
                with one_process():
                    answers = [self._do(work)] if isinstance(work, _Call) else self._ask(work)
            except BaseException as error:  # noqa: BLE001 (policies raise anything, also SystemExit; the clients get it)
                self._note_failure()
                for result in results:
                    result.set_exception(error)
            else:
                for result, answer in zip(results, answers, strict=True):
                    result.set_result(answer)
            self._watch(False)
        if self._policy is not None:
            self._policy.close()

    def _next(self) -> _Call | list[_Question] | None:
        """Wait for a call or a complete batch; None: closed."""
        with self._changed:
            while True:
                if self._calls:
                    return self._calls.popleft()
                if not self._questions:
                    if self._closed:
                        return None
                    self._changed.wait()
                    continue
                first = self._questions[0]
                left = first.asked + self._limits.max_wait - time.monotonic()
                alone = first.given.episode in self._alone
                enough = 1 if alone else min(self._limits.max_batch, len(self._open))
                if self._closed or left <= 0.0 or len(self._questions) >= enough:
                    return self._take_batch()
                self._changed.wait(left)

    def _take_batch(self) -> list[_Question]:
        batch = [self._questions.popleft()]
        if batch[0].given.episode in self._alone:
            return batch
        others: deque[_Question] = deque()
        for question in self._questions:
            fits = len(batch) < self._limits.max_batch and question.given.episode not in self._alone
            (batch if fits else others).append(question)
        self._questions = others
        return batch

    def _do(self, call: _Call) -> Any:
        if self._policy is None or (self._renew and self._failed and call.begins):
            policy, self._policy = self._policy, None
            if policy is not None:
                policy.close()
            self._policy = self._make_policy()
            with self._changed:
                self._failed = False
                self._changed.notify_all()
        return call.function(self._policy)

    def _ask(self, batch: Sequence[_Question]) -> Sequence[Any]:
        assert self._policy is not None
        self.batch_sizes[len(batch)] += 1
        try:
            answers = self._policy.act([question.given for question in batch])
            if len(answers) != len(batch):
                raise InvalidInputError(
                    f"Expected one chunk for each of the {len(batch)} inputs, got {len(answers)} from the policy."
                )
        except BaseException:
            if len(batch) > 1:
                self._alone.update(question.given.episode for question in batch)
            raise
        return answers

    def _note_failure(self) -> None:
        with self._changed:
            self._failed = self._policy is not None
            self._changed.notify_all()


class BatchedPolicy:
    """A client's end of a batcher: a policy like the one behind it."""

    def __init__(self, batcher: PolicyBatcher) -> None:
        self._batcher = batcher
        self.contract, self.observations = batcher.contract, batcher.observations
        self._episodes: set[str] = set()

    def observed(self) -> Mapping[str, Any]:
        """Return what the policy behind it observes of its runtime."""
        return dict(self._batcher.call(lambda policy: policy.observed()))

    def begin(self, episode: PolicyEpisode) -> None:
        """Open an episode."""
        self._batcher.begin(self, episode)
        self._episodes.add(episode.key)

    def act(self, inputs: Sequence[PolicyInput]) -> list[Array]:
        """Return one chunk for each input; others' inputs may be asked in the same call."""
        return self._batcher.act(inputs)

    def end(self, episode: str) -> None:
        """Forget an episode."""
        self._episodes.discard(episode)
        self._batcher.end(episode)

    def close(self) -> None:
        """End the episodes that this client has open; the policy itself stays."""
        episodes, self._episodes = self._episodes, set()
        with ExitStack() as stack:  # an episode that fails to end does not keep the others open
            for episode in episodes:
                stack.callback(self._batcher.end, episode)
