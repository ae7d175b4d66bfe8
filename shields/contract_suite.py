"""A test suite that any shield can inherit.

Derive a test class from `ShieldContractTests`, override `make_shield`, and pytest checks what
`roep_gym.shields.base` asks for:

    class TestMyShield(ShieldContractTests):
        def make_shield(self) -> RuntimeShield:
            return MyShield()
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from roep_gym import seeding
from roep_gym.shields.base import Assessment, RuntimeShield, check_assessment, reset_shield
from roep_gym.typing import Array

__all__ = ["ShieldContractTests"]


class ShieldContractTests(ABC):
    """What every shield must satisfy.

    Attributes:
        decisions: Observations and actions that are tried.
    """

    decisions = 40

    @abstractmethod
    def make_shield(self) -> RuntimeShield:
        """Return a new shield."""

    def make_low(self, decision: int) -> Array:
        """Return the entries of a decision's observation, float32, shape (fields,); override it where units matter."""
        draw = seeding.generator("contract suite", "observation", decision)
        return draw.normal(0.0, 1.0, len(self.make_shield().fields)).astype(np.float32)

    def make_action(self, decision: int) -> Array:
        """Return the proposed action of a decision, float32 within the shield's bounds, shape (action size,)."""
        shield, draw = self.make_shield(), seeding.generator("contract suite", "action", decision)
        return draw.uniform(*shield.action_bounds, shield.action_size).astype(np.float32)

    def test_is_a_shield(self) -> None:
        """It has every member of the protocol, with a value that can be."""
        shield = self.make_shield()
        assert isinstance(shield, RuntimeShield)
        assert all(isinstance(name, str) for name in shield.fields)
        assert len(set(shield.fields)) == len(shield.fields)
        assert shield.action_size >= 1
        low, high = shield.action_bounds
        assert -math.inf < low < high < math.inf
        assert shield.control_mode in ("relative", "absolute")

    def test_every_answer_can_be_executed_and_recorded(self) -> None:
        """No answer is refused, also where the observation is not finite; what intervenes keeps to the bounds."""
        shield = self.make_shield()
        low_bound, high_bound = shield.action_bounds
        reset_shield(shield)
        for decision in range(self.decisions):
            low, action = self.make_low(decision), self.make_action(decision)
            for wrong in (None, np.nan, np.inf):
                seen = low if wrong is None else np.full_like(low, wrong)
                answer = check_assessment(shield.assess(seen, action), action.copy(), type(shield).__name__)
                executed = np.asarray(answer.action)
                assert not answer.intervene or ((executed >= low_bound) & (executed <= high_bound)).all()
                assert answer.intervene or not answer.refused

    def test_without_an_intervention_the_proposed_object_passes(self) -> None:
        """An action that is let through is the very object that was proposed, and the risk is below the threshold."""
        shield = self.make_shield()
        reset_shield(shield)
        for decision in range(self.decisions):
            action = self.make_action(decision)
            answer = shield.assess(self.make_low(decision), action)
            if not answer.intervene:
                assert answer.action is action
                assert answer.risk < answer.threshold
                assert (answer.reason, answer.projection) == ("below_threshold", "none")
            else:
                assert not answer.risk < answer.threshold
                assert answer.reason != "below_threshold"
                assert answer.projection != "none"

    def test_what_it_is_given_is_never_written(self) -> None:
        """Observation and proposed action stay as they are, and what intervenes has memory of its own."""
        shield = self.make_shield()
        reset_shield(shield)
        for decision in range(self.decisions):
            low, action = self.make_low(decision), self.make_action(decision)
            before = low.tobytes(), action.tobytes()
            answer = shield.assess(low, action)
            assert (low.tobytes(), action.tobytes()) == before
            assert not (answer.intervene and np.shares_memory(answer.action, action))

    def test_nothing_survives_an_episode(self) -> None:
        """A reset or a new shield gives an episode the same answers; without a `reset`, they come in any order."""
        shield, decisions = self.make_shield(), range(self.decisions)
        first = self._run(shield, decisions)
        self._run(shield, reversed(decisions[: self.decisions // 2]))
        assert self._run(shield, decisions) == first
        assert self._run(self.make_shield(), decisions) == first
        if not hasattr(shield, "reset"):
            assert self._run(shield, reversed(decisions)) == first[::-1]

    def _run(self, shield: RuntimeShield, decisions: Any) -> list[tuple[object, ...]]:
        """Return the answers in an episode, in a form that can be compared bit for bit."""
        reset_shield(shield)
        return [
            _comparable(shield.assess(self.make_low(decision), self.make_action(decision)))
            for decision in decisions
        ]


def _comparable(answer: Assessment) -> tuple[object, ...]:
    values = answer._asdict()
    action = np.asarray(values.pop("action"))
    return (repr(values), action.dtype.str, action.tobytes())
