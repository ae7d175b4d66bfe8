"""The learned shield, and one that remembers, keep the contract of shields; each of its tests finds its fault."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from roep_gym.error import ShieldError
from roep_gym.shields import (
    Assessment,
    ProjectionConfig,
    RuntimeShield,
    Shield,
    ShieldConfig,
    ShieldContractTests,
)
from roep_gym.shields.model import Layer, RiskModel, ZScore


class TestLearnedShield(ShieldContractTests):
    """Random weights, so that some actions are let through, some reduced and some refused."""

    def make_shield(self) -> RuntimeShield:
        draw = np.random.default_rng(5)
        layers = (
            Layer(draw.normal(0, 1, (6, 9)).astype(np.float32), np.zeros(6, np.float32)),
            Layer(draw.normal(0, 1, (1, 6)).astype(np.float32), np.zeros(1, np.float32)),
        )
        model = RiskModel(ZScore(np.zeros(9), np.ones(9)), layers)
        return Shield(model, 0.5, ("x", "y"), 7, ShieldConfig(projection=ProjectionConfig()))

    def test_the_inputs_reach_every_branch(self) -> None:
        shield = self.make_shield()
        kinds = {
            shield.assess(self.make_low(i), self.make_action(i)).projection for i in range(self.decisions)
        }
        assert kinds == {"none", "projected", "refused_not_reduced"}


class Impatient:
    """Halves every second action of an episode."""

    fields = ("x",)
    action_size = 7
    action_bounds = (-1.0, 1.0)
    control_mode = "relative"

    def __init__(self) -> None:
        self.seen = 0

    def reset(self) -> None:
        self.seen = 0

    def assess(self, low: Any, action: Any) -> Assessment:
        self.seen += 1
        if self.seen % 2 and np.isfinite(low).all():
            return Assessment(0.1, 0.5, False, "below_threshold", "none", action, False)
        return Assessment(0.9, 0.5, True, "threshold_reached", "projected", action * np.float32(0.5), False)


class TestImpatient(ShieldContractTests):
    def make_shield(self) -> RuntimeShield:
        return Impatient()


def shout(self: Any, low: Any, action: Any) -> Assessment:
    return Impatient.assess(self, low, action)._replace(action=action * 3)


def overwrite(self: Any, low: Any, action: Any) -> Assessment:
    low[:] = 0
    return Impatient.assess(self, low, action)


def copy(self: Any, low: Any, action: Any) -> Assessment:
    return Impatient.assess(self, low, action.copy())


def blind(self: Any, low: Any, action: Any) -> Assessment:
    answer = Impatient.assess(self, np.zeros(1), action)
    return answer if answer.intervene else answer._replace(risk=float(low[0]))


FAULTS = {
    "test_is_a_shield": {"action_bounds": (1.0, -1.0)},
    "test_every_answer_can_be_executed_and_recorded": {"assess": blind},
    "test_without_an_intervention_the_proposed_object_passes": {"assess": copy},
    "test_what_it_is_given_is_never_written": {"assess": overwrite},
    "test_nothing_survives_an_episode": {"reset": lambda self: None, "decisions": 5},
}


@pytest.mark.parametrize("test", FAULTS)
def test_each_test_of_the_contract_finds_its_fault(test: str) -> None:
    changes = dict(FAULTS[test])
    suite = {"decisions": changes.pop("decisions", 40), "make_shield": lambda self: faulty()}
    faulty = type("Faulty", (Impatient,), changes)
    with pytest.raises((AssertionError, ShieldError)):
        getattr(type("Tests", (ShieldContractTests,), suite)(), test)()
    assert set(FAULTS) == {name for name in dir(ShieldContractTests) if name.startswith("test_")}


def test_an_intervention_beyond_the_bounds_is_found() -> None:
    faulty = type("Faulty", (Impatient,), {"assess": shout})
    suite = type("Tests", (ShieldContractTests,), {"make_shield": lambda self: faulty()})()
    with pytest.raises((AssertionError, ShieldError)):
        suite.test_every_answer_can_be_executed_and_recorded()
