"""Servers of policies during an evaluation: asked before it, waited for during it, no part of its identity."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import policy_servers
import pytest
from evaluation_runs import equal, make_plan

from roep_gym.error import InfrastructureError, InvalidInputError, ServerGoneError
from roep_gym.evaluate.plan import ModelSpec, ResolvedPlan
from roep_gym.evaluate.run.driver import SilentObserver, evaluate
from roep_gym.evaluate.run.servers import check_servers, wait_for_server
from roep_gym.policies.random import RandomPolicy
from roep_gym.policies.registry import make_policy


class Served(RandomPolicy):
    """Answers `ask_server` with the next of some errors; None: the server answers."""

    lost_timeout = 60.0

    def __init__(self, *answers: Exception | None) -> None:
        super().__init__()
        self.asked, self._answers = 0, list(answers)

    def ask_server(self) -> None:
        self.asked += 1
        if (answer := self._answers.pop(0)) is not None:
            raise answer


class Clock:
    """Time that passes only where it is slept, and who is told of it."""

    def __init__(self) -> None:
        self.now, self.beats, self.asleep = 0.0, 0, list[float]()

    def sleep(self, seconds: float) -> None:
        assert 0.0 < seconds <= 1.0
        self.now += seconds
        self.asleep.append(self.now)

    def beat(self) -> None:
        self.beats += 1


def wait(policy: Any, clock: Clock) -> bool:
    return wait_for_server(ModelSpec("m", policy), clock.beat, clock=lambda: clock.now, sleep=clock.sleep)


def test_a_server_that_comes_back_is_waited_for_with_longer_and_longer_pauses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gone, clock = ServerGoneError("gone"), Clock()
    policy = Served(gone, gone, gone, InfrastructureError("it loads"), None)
    with caplog.at_level(logging.WARNING):
        assert wait(policy, clock)
    assert clock.now == pytest.approx(0.5 + 1.0 + 2.0 + 4.0)
    assert clock.beats >= len(clock.asleep), "who waits must not count as hung"
    assert "m: server gone, waiting for it, 60 s at most" in caplog.text
    assert caplog.messages[-1] == "m: server back."


def test_a_server_that_stays_away_is_given_up_after_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    clock, policy = Clock(), Served(*[ServerGoneError("gone")] * 20)
    with caplog.at_level(logging.WARNING):
        assert not wait(policy, clock)
    assert 50.0 < clock.now <= 60.0
    assert "no longer waiting. gone" in caplog.text


def test_another_server_in_its_place_ends_the_waiting() -> None:
    clock, policy = Clock(), Served(ServerGoneError("gone"), InvalidInputError("other demands"))
    assert not wait(policy, clock)
    assert policy.asked == 2


def test_a_policy_without_a_server_is_not_waited_for() -> None:
    assert not wait(RandomPolicy(), Clock())


def test_the_check_names_the_model() -> None:
    first, second = Served(None), Served(ServerGoneError("Nobody answers."))
    models = [ModelSpec("a", first), ModelSpec("plain", RandomPolicy()), ModelSpec("b", second)]
    with pytest.raises(ServerGoneError, match=r"The server of the model 'b': Nobody answers\."):
        check_servers(models)
    assert (first.asked, second.asked) == (1, 1)


def served_plan(port: int, **changes: Any) -> ResolvedPlan:
    arguments = {"port": port, "image_size": 24, **changes.pop("arguments", {})}
    models = [{"name": "served", "policy": "vla-eval", "arguments": arguments}]
    return make_plan(
        **{
            "models": models,
            "conditions": ["baseline"],
            "seed_groups": 1,
            "episodes": 3,
            "step_budget": 6,
            **changes,
        }
    )


def test_a_server_that_is_not_there_ends_the_evaluation_before_a_simulator_is_built(tmp_path: Path) -> None:
    with policy_servers.vla_eval() as asked:
        port = asked.port

    def executor(plan: ResolvedPlan) -> Any:
        raise AssertionError("an executor was made")

    with pytest.raises(ServerGoneError, match="The server of the model 'served': Expected a model server"):
        evaluate(served_plan(port), tmp_path / "run", executor)
    with (
        policy_servers.openpi() as asked,
        pytest.raises(InfrastructureError, match="but an openpi policy server answers there"),
    ):
        evaluate(served_plan(asked.port), tmp_path / "other", executor)


def test_a_server_that_is_restarted_costs_a_retry_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with policy_servers.vla_eval() as asked:
        port = asked.port
        evaluate(served_plan(port), tmp_path / "whole")
    with ExitStack() as stack:
        server = stack.enter_context(ExitStack())
        server.enter_context(policy_servers.vla_eval(port=port))

        class Killer(SilentObserver):
            def recorded(self, *arguments: Any, **named: Any) -> None:
                server.close()

        def restart(seconds: float) -> None:
            server.close()
            server.enter_context(policy_servers.vla_eval(port=port))

        monkeypatch.setattr(
            "roep_gym.evaluate.run.worker.wait_for_server", partial(wait_for_server, sleep=restart)
        )
        summary = evaluate(served_plan(port), tmp_path / "interrupted", observer=Killer())
    assert (summary.recorded, summary.incomplete) == (3, ())
    assert len(summary.aborts) == 2
    equal(tmp_path / "whole", tmp_path / "interrupted")


def test_how_a_server_is_reached_is_no_part_of_a_plan() -> None:
    plan = served_plan(8000)
    other = served_plan(
        9000,
        arguments={"host": "elsewhere", "connect_timeout": 1.0, "infer_timeout": 2.0, "lost_timeout": 3.0},
    )
    assert plan.digest == other.digest
    assert plan.plan.to_json() != other.plan.to_json(), "but it is kept with the run"
    assert plan.digest != served_plan(8000, arguments={"image_format": "jpeg"}).digest
    by_suite = [
        served_plan(
            1,
            models=[{"name": "m", "policy": "vla-eval", "by_suite": {"tabletop": {"port": port}}}],
        ).digest
        for port in (1, 2)
    ]
    assert by_suite[0] == by_suite[1]


def test_clients_ask_their_server_as_the_evaluation_needs_it() -> None:
    from roep_gym.policies.base import AsksServer

    for name in ("openvla-oft", "pi05", "roboeval", "vla-eval", "x-vla"):
        policy = make_policy(name, port=9)
        assert isinstance(policy, AsksServer)
        assert policy.lost_timeout == 300.0
        policy.close()
    assert not isinstance(make_policy("random"), AsksServer)
