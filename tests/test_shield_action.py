"""The wrapper that lets a shield act."""

from __future__ import annotations

import inspect
import json
import re
import threading
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env

from roep_gym.error import (
    InfrastructureError,
    InvalidInputError,
    PolicyOutputError,
    ShieldError,
    UnknownNameError,
)
from roep_gym.shields import Assessment, ProjectionConfig, Shield, ShieldConfig, save_shield
from roep_gym.shields.model import Layer, RiskModel, ZScore
from roep_gym.shields.registry import SHIELDS
from roep_gym.wrappers.record_episode import RecordEpisode
from roep_gym.wrappers.shield_action import ShieldAction

FIELDS = ("x", "y", "z")


class PointEnv(gym.Env[Any, Any]):
    """A point that actions move; the observation buffer is reused and the action is overwritten, on purpose."""

    observation_fields: dict[str, tuple[str, ...]]

    def __init__(
        self, kind: str = "dict", control_mode: str = "relative", bound: float = 1.0, reuse: bool = True
    ) -> None:
        self.kind, self.control_mode, self.reuse = kind, control_mode, reuse
        vector = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        image = spaces.Box(0, 255, (4, 4, 3), np.uint8)
        self.observation_space = (
            spaces.Dict({"proprio": vector, "agentview_image": image}) if kind == "dict" else vector
        )
        self.action_space = spaces.Box(-bound, bound, (7,), np.float32)
        self.observation_fields = {"proprio": FIELDS}
        self.position = np.zeros(3, np.float32)
        self.received: list[Any] = []
        self.frames_wanted = True

    def request_frames(self, wanted: bool) -> None:
        self.frames_wanted = wanted

    def _observe(self) -> Any:
        position = self.position if self.reuse else self.position.copy()
        return (
            position
            if self.kind == "box"
            else {"proprio": position, "agentview_image": np.zeros((4, 4, 3), np.uint8)}
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.position[:] = self.np_random.uniform(-0.1, 0.1, 3)
        self.received = []
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.received.append(action)
        self.position += np.asarray(action[:3], np.float32)
        success = bool(self.position[1] > 5)
        info: dict[str, Any] = {"frames_rendered": self.frames_wanted}
        return self._observe(), 0.0, success, False, info | ({"termination": "success"} if success else {})


@pytest.fixture(autouse=True)
def _registered() -> Any:
    gym.register("ShieldTest/Point-v0", entry_point=f"{__name__}:PointEnv", disable_env_checker=True)
    yield
    gym.registry.pop("ShieldTest/Point-v0")


def make_shield(
    x_weight: float = 0.0, action_weight: float = 0.0, threshold: float = 0.5, bias: float = 0.0
) -> Shield:
    """Return a shield whose logit is bias + x_weight * z + action_weight * action_0; it takes the fields (z, x)."""
    weight = np.zeros((1, 9), np.float32)
    weight[0, 0], weight[0, 2] = x_weight, action_weight
    model = RiskModel(ZScore(np.zeros(9), np.ones(9)), (Layer(weight, np.array([bias], np.float32)),))
    return Shield(model, threshold, ("z", "x"), 7, ShieldConfig(projection=ProjectionConfig(lift=0.0)))


def stored(tmp_path: Path, **settings: float) -> str:
    return str(save_shield(make_shield(**settings), tmp_path / "shield.npz"))


class ForeignShield:
    """A shield of another maker, which halves every action."""

    fields = ("y",)
    action_size = 7
    action_bounds = (-1.0, 1.0)
    control_mode = "relative"

    def assess(self, low: Any, action: Any) -> Assessment:
        return Assessment(0.9, 0.5, True, "threshold_reached", "projected", np.asarray(action) / 2, False)


def foreign_shield() -> ForeignShield:
    return ForeignShield()


def not_a_shield() -> str:
    return "shield"


def make_shield_of(risk: float) -> ForeignShield:
    return ForeignShield()


def raising_shield() -> ForeignShield:
    raise SystemExit(3)


class Scripted(ForeignShield):
    """A shield that answers with what it was given, and counts its resets."""

    def __init__(self, answer: Any = None) -> None:
        self.answer, self.resets, self.lock = answer, 0, threading.Lock()

    def reset(self) -> None:
        self.resets += 1

    def assess(self, low: Any, action: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer(action) if callable(self.answer) else self.answer


def actions(count: int = 30) -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).uniform(-1, 1, (count, 7)).astype(np.float32)


@pytest.mark.parametrize("kind", ["dict", "box"])
def test_a_shield_above_every_risk_changes_no_bit(tmp_path: Path, kind: str) -> None:
    path = stored(tmp_path, x_weight=1.0, action_weight=1.0, threshold=1.5)
    plain, shielded = PointEnv(kind), ShieldAction(PointEnv(kind), path)
    first, _ = plain.reset(seed=4)
    second, _ = shielded.reset(seed=4)
    for action in actions():
        first, *_ = plain.step(action)
        second, *_, info = shielded.step(action)
        assert shielded.unwrapped.received[-1] is action
        pair = (first, second) if kind == "box" else (first["proprio"], second["proprio"])
        assert pair[0].tobytes() == pair[1].tobytes()
        assert info["shield"]["intervened"] is False
        assert info["executed_action"].tobytes() == action.tobytes()


def test_the_risk_is_that_of_the_observation_acted_on(tmp_path: Path) -> None:
    env = ShieldAction(PointEnv(), stored(tmp_path, x_weight=1.0, threshold=2.0))
    observation, _ = env.reset(seed=0)
    for action in actions(5):
        z = float(observation["proprio"][2])
        observation, *_, info = env.step(action)
        assert info["shield"]["risk"] == pytest.approx(1 / (1 + np.exp(-z)), rel=1e-12)


def test_info_of_an_intervention(tmp_path: Path) -> None:
    env = ShieldAction(PointEnv(), stored(tmp_path, action_weight=4.0, bias=-2.0))
    env.reset(seed=0)
    action = np.array([1.0, 0, 0, 0.5, 0, 0, 1.0], np.float32)
    *_, info = env.step(action)
    assert info["shield"] == {
        "risk": pytest.approx(1 / (1 + np.exp(-2.0))), "threshold": 0.5, "intervened": True,
        "reason": "threshold_reached", "projection": "projected", "refused": False,
    }  # fmt: skip
    assert info["executed_action"].tolist() == [0.5, 0, 0, 0.5, 0, 0, 1.0]
    assert info["executed_action"].dtype == np.float32
    assert env.unwrapped.received[-1].tolist() == [0.5, 0, 0, 0.5, 0, 0, 1.0]
    assert action.tolist() == [1.0, 0, 0, 0.5, 0, 0, 1.0]
    json.dumps(info["shield"])
    env.step(np.zeros(7, np.float32))
    assert info["executed_action"].tolist() == [0.5, 0, 0, 0.5, 0, 0, 1.0]


def test_refusal_holds_still_and_ends_the_episode_only_where_configured(tmp_path: Path) -> None:
    path, action = stored(tmp_path), np.full(7, 0.5, np.float32)
    env = ShieldAction(PointEnv(), path)
    before = env.reset(seed=0)[0]["proprio"].copy()
    observation, _, terminated, _, info = env.step(action)
    np.testing.assert_array_equal(observation["proprio"], before)
    assert info["executed_action"].tolist() == [0.0] * 6 + [0.5]
    assert (terminated, info["shield"]["refused"], info["shield"]["projection"]) == (
        False,
        True,
        "refused_not_reduced",
    )
    assert "termination" not in info
    env = ShieldAction(PointEnv(), path, terminate_on_refusal=True)
    env.reset(seed=0)
    _, _, terminated, truncated, info = env.step(action)
    assert (terminated, truncated, info["termination"]) == (True, False, "safe_refusal")


def test_the_reason_of_the_environment_comes_first(tmp_path: Path) -> None:
    env = ShieldAction(PointEnv(), stored(tmp_path), terminate_on_refusal=True)
    env.reset(seed=0)
    env.unwrapped.position[1] = 9
    *_, terminated, _, info = env.step(np.zeros(7, np.float32))
    assert (terminated, info["termination"], info["shield"]["refused"]) == (True, "success", True)


@pytest.mark.parametrize("threshold", [0.0, 2.0])
def test_a_bad_action_raises_and_never_reaches_the_environment(tmp_path: Path, threshold: float) -> None:
    env = ShieldAction(PointEnv(), stored(tmp_path, threshold=threshold))
    env.reset(seed=0)
    for bad in (np.full(7, np.nan), np.zeros(6), None):
        with pytest.raises(PolicyOutputError, match="a proposed action"):
            env.step(bad)
    assert env.unwrapped.received == []


def test_an_observation_that_is_not_finite_intervenes(tmp_path: Path) -> None:
    env = ShieldAction(PointEnv(), stored(tmp_path, threshold=2.0))
    env.reset(seed=0)
    env.unwrapped.position[2] = np.nan
    _, *_, before = env.step(np.zeros(7, np.float32))
    # The buffer changed after the observation was returned: what was acted on is still the finite one.
    assert before["shield"]["intervened"] is False
    *_, info = env.step(np.ones(7, np.float32))
    assert (info["shield"]["reason"], info["shield"]["refused"]) == ("risk_not_finite", True)


@pytest.mark.parametrize("widened", [False, True])
def test_frames_after_an_intervention_are_drawn_where_configured(tmp_path: Path, widened: bool) -> None:
    path = stored(tmp_path, action_weight=4.0, bias=-2.0)
    env = ShieldAction(PointEnv(), path, frames_on_intervention=widened)
    env.reset(seed=0)
    for first, intervenes in ((1.0, True), (0.0, False)):
        env.get_wrapper_attr("request_frames")(False)
        *_, info = env.step(np.array([first] + [0.0] * 6, np.float32))
        assert info["shield"]["intervened"] is intervenes
        assert info["frames_rendered"] is (widened and intervenes)
    with pytest.raises(InvalidInputError, match="`frames_on_intervention` to be True or False, got 'yes'"):
        ShieldAction(PointEnv(), path, frames_on_intervention="yes")  # type: ignore[arg-type]


def test_step_before_reset(tmp_path: Path) -> None:
    with pytest.raises(ResetNeeded, match="Expected `reset` before the first `step`"):
        ShieldAction(PointEnv(), stored(tmp_path)).step(np.zeros(7))


def test_every_argument_is_recorded_and_the_stack_is_rebuilt(tmp_path: Path) -> None:
    settings = {
        "shield": stored(tmp_path, action_weight=1.0),
        "observation_key": "proprio",
        "field_names": ["z", "x", "y"],
        "terminate_on_refusal": True,
        "frames_on_intervention": True,
    }
    env = ShieldAction(gym.make("ShieldTest/Point-v0"), **settings)
    assert set(settings) == set(inspect.signature(ShieldAction.__init__).parameters) - {"self", "env"}
    assert env.spec is not None
    recorded = env.spec.additional_wrappers[-1]
    assert (recorded.entry_point, recorded.kwargs) == (
        "roep_gym.wrappers.shield_action:ShieldAction",
        settings,
    )
    rebuilt = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert type(rebuilt) is ShieldAction
    assert rebuilt.spec == env.spec
    env.reset(seed=7)
    rebuilt.reset(seed=7)
    for action in actions(10):
        one, other = env.step(action), rebuilt.step(action)
        assert one[0]["proprio"].tobytes() == other[0]["proprio"].tobytes()
        assert one[4]["shield"] == other[4]["shield"]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_gymnasium_checks_pass(tmp_path: Path) -> None:
    env = gym.make("ShieldTest/Point-v0", disable_env_checker=True, reuse=False)
    check_env(ShieldAction(env, stored(tmp_path, action_weight=1.0)), skip_render_check=True)


def test_a_shield_of_another_maker(tmp_path: Path) -> None:
    env = ShieldAction(PointEnv(), f"{__name__}:foreign_shield")
    env.reset(seed=0)
    *_, info = env.step(np.ones(7, np.float32))
    assert info["executed_action"].tolist() == [0.5] * 7
    with pytest.raises(InvalidInputError, match=r"Expected a shield as a file, .*, got 'shield'."):
        ShieldAction(PointEnv(), f"{__name__}:not_a_shield")
    for name in ("no_such_module:f", f"{__name__}:no_such_name"):
        with pytest.raises(InvalidInputError, match="Expected a shield at"):
            ShieldAction(PointEnv(), name)


class FieldlessEnv(PointEnv):
    """The same without names for its observation's entries."""

    def __init__(self, kind: str = "box") -> None:
        super().__init__(kind)
        del self.observation_fields


def test_field_names_of_an_environment_without_them(tmp_path: Path) -> None:
    path = stored(tmp_path, x_weight=1.0, threshold=2.0)
    env = ShieldAction(FieldlessEnv(), path, field_names=["x", "y", "z"])
    position, _ = env.reset(seed=0)
    z = float(position[2])
    *_, info = env.step(np.zeros(7, np.float32))
    assert info["shield"]["risk"] == pytest.approx(1 / (1 + np.exp(-z)))
    with pytest.raises(UnknownNameError, match="Unknown observation field 'z'"):
        ShieldAction(FieldlessEnv(), path)


def test_what_does_not_fit_is_refused_at_construction(tmp_path: Path) -> None:
    path = stored(tmp_path)
    cases: list[tuple[gym.Env[Any, Any], dict[str, Any], str]] = [
        (PointEnv(), {"shield": ""}, "action_bounds, control_mode and assess, got ''"),
        (PointEnv(), {"shield": ForeignShield}, "control_mode and assess, got <class"),
        (PointEnv(), {"shield": "careful"}, "Unknown shield 'careful'."),
        (PointEnv(), {"shield": f"{__name__}:actions"}, "fields, action_size, action_bounds"),
        (PointEnv(), {"shield": f"{__name__}:make_shield_of"}, "Expected arguments that fit the shield"),
        (PointEnv(), {"shield": f"{__name__}:raising_shield"}, "to be built, got SystemExit: 3."),
        (PointEnv(), {"shield": "missing.npz"}, "Expected a shield file at missing.npz, found none"),
        (PointEnv(), {"terminate_on_refusal": 1}, "`terminate_on_refusal` to be True or False, got 1"),
        (PointEnv(), {"field_names": [1, 2, 3]}, "`field_names` to be None or a list of names"),
        (PointEnv(), {"field_names": ["z", "x"]}, "3 field names for the observation 'proprio', got 2"),
        (PointEnv(), {"observation_key": "propio"}, "Unknown observation key 'propio'. Did you mean 'proprio'?"),
        (PointEnv(), {"observation_key": "agentview_image"}, "to be a Box of one axis"),
        (PointEnv(control_mode="absolute", bound=2.0), {}, "the control mode 'relative' for this shield, got"),
        (PointEnv(bound=2.0), {}, "the action bounds [-1.0, 1.0] of this shield"),
        (gym.make("CartPole-v1"), {}, "a Box action space of shape (7,) for this shield, got Discrete(2)"),
    ]  # fmt: skip
    for env, settings, message in cases:
        with pytest.raises(InvalidInputError, match=re.escape(message)):
            ShieldAction(env, **{"shield": path, **settings})


SOUND = Assessment(0.9, 0.5, True, "threshold_reached", "projected", np.zeros(7, np.float32), False)


def write_into(action: Any) -> Assessment:
    action[:] = 0.25
    return Assessment(0.1, 0.5, False, "below_threshold", "none", action, False)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "an Assessment, got None"),
        (np.zeros(7), "an Assessment, got array"),
        (SOUND._replace(action=np.full(7, np.nan)), "an action of finite numbers, got array([nan"),
        (SOUND._replace(action=np.full(7, np.inf)), "an action of finite numbers, got array([inf"),
        (SOUND._replace(action=np.full(7, 1e300)), "an action of finite numbers, got"),
        (SOUND._replace(action=None), "an action of 7 numbers, got None"),
        (SOUND._replace(action=np.zeros(6)), "an action of 7 numbers, got"),
        (SOUND._replace(action=np.zeros((1, 7))), "an action of 7 numbers, got"),
        (SOUND._replace(action=[[0.0], 1.0]), "an action of shape (7,), got"),
        (SOUND._replace(action=["0"] * 7), "an action of 7 numbers, got"),
        (SOUND._replace(intervene=False), "the proposed action [1.0, 1.0"),
        (write_into, "the proposed action [1.0, 1.0"),
        (SOUND._replace(risk=None), "a number as its risk, got None"),
        (SOUND._replace(threshold=np.nan), "a finite threshold, got nan"),
        (lambda a: SOUND._replace(risk=np.nan, intervene=False, action=a), "an intervention, since its risk"),
        (SOUND._replace(intervene="yes"), "True or False as intervene, got 'yes'"),
        (SOUND._replace(refused=None), "True or False as refused, got None"),
        (SOUND._replace(reason="threshold"), "or 'threshold_reached'?"),
        (SOUND._replace(projection="projcted"), "Did you mean 'projected'?"),
        (ZeroDivisionError("by zero"), "to assess an action, but it raised ZeroDivisionError: by zero"),
        (PolicyOutputError("not mine"), "but it raised PolicyOutputError: not mine"),
    ],
)  # fmt: skip
def test_a_broken_shield_is_its_own_failure_and_nothing_is_executed(answer: Any, message: str) -> None:
    env = RecordEpisode(ShieldAction(PointEnv(), Scripted(answer)))
    env.reset(seed=0)
    with pytest.raises(ShieldError, match="(?s)he shield Scripted .*" + re.escape(message)) as caught:
        env.step(np.ones(7, np.float32))
    assert isinstance(caught.value, InfrastructureError)
    assert env.unwrapped.received == []


def test_what_a_sound_shield_answers_is_executed() -> None:
    env = ShieldAction(PointEnv(), Scripted(SOUND))
    env.reset(seed=0)
    env.step(np.ones(7, np.float32))
    assert env.unwrapped.received[-1] is SOUND.action


def test_a_shield_is_reset_at_each_episode() -> None:
    shield = Scripted(SOUND)
    env = ShieldAction(PointEnv(), shield)
    for episode in range(3):
        env.reset(seed=0)
        assert shield.resets == episode + 1
    shield.reset = lambda: 1 / 0  # type: ignore[method-assign,assignment]
    with pytest.raises(
        ShieldError, match="Expected the shield Scripted to be reset, but it raised ZeroDivisionError"
    ):
        env.reset(seed=0)
    with pytest.raises(ResetNeeded):
        env.step(np.zeros(7, np.float32))


def test_an_object_is_used_as_it_is_and_has_no_json_form() -> None:
    shield = Scripted(SOUND)
    env = ShieldAction(gym.make("ShieldTest/Point-v0"), shield)
    assert env.shield is shield
    with pytest.warns(
        UserWarning, match="Expected a shield by file, name or 'module:attribute' in `env.spec`"
    ):
        spec = env.spec
    assert spec is not None
    assert spec.additional_wrappers[-1].kwargs["shield"] is shield


def test_a_registered_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SHIELDS, "_parts", {})
    SHIELDS.register("halving", ForeignShield)
    env = ShieldAction(gym.make("ShieldTest/Point-v0"), "halving")
    assert isinstance(env.shield, ForeignShield)
    rebuilt = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert isinstance(rebuilt.get_wrapper_attr("shield"), ForeignShield)
    with pytest.raises(UnknownNameError, match="Did you mean 'halving'"):
        ShieldAction(PointEnv(), "halfing")
