"""The risk model, the projection and the shield at runtime."""

from __future__ import annotations

import dataclasses
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roep_gym.error import InvalidInputError, PolicyOutputError
from roep_gym.shields import (
    PROJECTIONS,
    SHIELD_REASONS,
    ProjectionConfig,
    RuntimeShield,
    Shield,
    ShieldConfig,
    load_shield,
    save_shield,
)
from roep_gym.shields.model import Layer, RiskModel, ZScore
from roep_gym.shields.projection import Pose, hold_still, measured_pose, project, reduce_motion

ACTION = np.array([1.0, -1.0, 0.5, 0.3, -0.2, 0.1, -1.0], dtype=np.float32)


def make_shield(
    weights: dict[int, float], bias: float = 0.0, threshold: float = 0.5, **projection: Any
) -> Shield:
    """Return a shield of one field and seven action entries with a linear risk: logit = bias + weights . x."""
    weight = np.zeros((1, 8), np.float32)
    for i, value in weights.items():
        weight[0, i] = value
    model = RiskModel(ZScore(np.zeros(8), np.ones(8)), (Layer(weight, np.array([bias], np.float32)),))
    config = ShieldConfig(projection=ProjectionConfig(**projection))
    return Shield(model, threshold, ("x",), 7, config)


def test_risk_by_hand() -> None:
    layers = (
        Layer(np.array([[1, 0], [-1, 2]], np.float32), np.array([0, 1], np.float32)),
        Layer(np.array([[2, -1]], np.float32), np.array([0.5], np.float32)),
    )
    model = RiskModel(ZScore(np.array([1.0, 0.0]), np.array([2.0, 1.0])), layers)
    # z = (1, 3); hidden = relu(1, -1 + 6 + 1) = (1, 6); logit = 2 - 6 + 0.5
    assert model.logit(np.array([3.0, 3.0])) == -3.5
    assert model.risk(np.array([3.0, 3.0])) == pytest.approx(1 / (1 + math.exp(3.5)), rel=1e-15)
    # z = (-1, 0); hidden = relu(-1, 1 + 1) = (0, 2); logit = -2 + 0.5
    assert model.logit(np.array([-1.0, 0.0])) == -1.5


def test_risk_saturates_without_overflow_and_is_nan_for_anything_not_finite() -> None:
    model = make_shield({0: 1.0}).model
    assert model.risk(np.array([1e6, *[0] * 7])) == 1.0
    assert model.risk(np.array([-1e6, *[0] * 7])) == 0.0
    for bad in (np.nan, np.inf, -np.inf):
        assert math.isnan(model.risk(np.array([bad, *[0] * 7])))


def test_model_refuses_shapes_that_do_not_chain() -> None:
    good = make_shield({}).model
    with pytest.raises(InvalidInputError, match="from 8 features to one logit"):
        RiskModel(good.zscore, (Layer(np.zeros((1, 7), np.float32), np.zeros(1, np.float32)),))
    with pytest.raises(InvalidInputError, match="finite numbers and positive divisors"):
        RiskModel(good.zscore._replace(scale=np.zeros(8)), good.layers)


def test_below_the_threshold_the_very_object_passes() -> None:
    shield = make_shield({0: 1.0}, bias=-1.0)
    for action in (ACTION, ACTION.astype(np.float64), ACTION.tolist()):
        result = shield.assess(np.array([0.9]), action)
        assert result.action is action
        assert (result.intervene, result.refused) == (False, False)
        assert (result.reason, result.projection) == ("below_threshold", "none")


def test_equality_with_the_threshold_intervenes() -> None:
    result = make_shield({}, threshold=0.5).assess(np.zeros(1), ACTION)
    assert result.risk == result.threshold == 0.5
    assert (result.intervene, result.reason) == (True, "threshold_reached")


def test_projection_by_hand() -> None:
    # Half of (1, -1, 0.5), raised by 0.1, has the norm sqrt(0.6225) > 0.5 and is scaled to 0.5.
    config = ProjectionConfig()
    reduced = reduce_motion(ACTION, config)
    expected = np.array([0.5, -0.5, 0.35]) * 0.5 / math.sqrt(0.6225)
    np.testing.assert_allclose(reduced[:3], expected, rtol=1e-6)
    np.testing.assert_array_equal(reduced[3:], ACTION[3:])
    assert reduced.dtype == np.float32
    free = reduce_motion(ACTION, ProjectionConfig(max_translation_norm=2.0))
    np.testing.assert_allclose(free[:3], [0.5, -0.5, 0.35], rtol=1e-6)
    assert ACTION.tolist() == np.array([1.0, -1.0, 0.5, 0.3, -0.2, 0.1, -1.0], dtype=np.float32).tolist()


def test_projection_respects_bounds_but_never_touches_the_gripper() -> None:
    action = np.array([9.0, 0, 0, 3.0, -3.0, 0, 0.123456789])
    reduced = reduce_motion(action, ProjectionConfig(max_translation_norm=5.0, lift=4.0))
    assert reduced[:6].tolist() == [1.0, 0.0, 1.0, 1.0, -1.0, 0.0]
    assert reduced[6] == 0.123456789
    for gripper in (-1.0, 0.3, 1.0, 1.7):
        proposed = np.array([0.5] * 6 + [gripper])
        for scale in (0.0, 0.5):
            assert reduce_motion(proposed, ProjectionConfig(scale=scale))[6] == gripper
        assert hold_still(proposed, ProjectionConfig()).tolist() == [0.0] * 6 + [gripper]


def test_projection_without_a_vertical_axis_or_gripper() -> None:
    config = ProjectionConfig(translation=(0, 1), vertical=None, gripper=())
    assert reduce_motion(np.array([0.4, -0.2]), config).tolist() == [0.2, -0.1]


def test_an_intervention_that_lowers_the_risk_projects() -> None:
    result = make_shield({1: 4.0}, bias=-1.0).assess(np.zeros(1), ACTION)
    assert (result.intervene, result.refused, result.projection) == (True, False, "projected")
    np.testing.assert_array_equal(result.action, reduce_motion(ACTION, ProjectionConfig()))
    assert result.risk == pytest.approx(1 / (1 + math.exp(-3)))


def test_a_risk_that_does_not_fall_is_refused() -> None:
    result = make_shield({0: 1.0}).assess(np.ones(1), ACTION)
    assert (result.intervene, result.refused, result.projection) == (True, True, "refused_not_reduced")
    assert result.action.tolist() == [0.0] * 6 + [-1.0]


@pytest.mark.parametrize(
    ("remaining", "kind"), [(0.49, "projected"), (0.72, "projected"), (0.73, "refused_not_reduced")]
)
def test_sufficient_reduction(remaining: float, kind: str) -> None:
    # Sufficient: below the threshold 0.5, or at most 0.9 of the risk 0.8.
    assert project(ACTION, 0.8, 0.5, lambda _: remaining, ProjectionConfig()).kind == kind


def test_a_projection_that_is_not_finite_is_refused() -> None:
    broken = ACTION.copy()
    broken[0] = np.nan
    result = project(broken, 0.8, 0.5, lambda _: 0.0, ProjectionConfig())
    assert result.kind == "refused_not_finite"
    assert result.action.tolist() == [0.0] * 6 + [-1.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_risk_that_is_not_finite_intervenes_and_refuses(bad: float) -> None:
    # The weight of the field is negative: +inf would otherwise pass as a risk of 0.
    result = make_shield({0: -1.0}, threshold=1.0).assess(np.array([bad]), ACTION)
    assert math.isnan(result.risk)
    assert (result.intervene, result.refused) == (True, True)
    assert (result.reason, result.projection) == ("risk_not_finite", "refused_not_finite")


def test_reasons_and_projections_are_the_listed_ones() -> None:
    shields = (make_shield({0: 1.0}, bias=-9.0), make_shield({1: 4.0}), make_shield({}))
    seen = [shield.assess(np.array([x]), ACTION) for shield in shields for x in (0.0, np.nan)]
    assert {r.reason for r in seen} == set(SHIELD_REASONS)
    assert {r.projection for r in seen} == set(PROJECTIONS)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (np.full(7, np.nan), "a proposed action of finite numbers, got [nan"),
        (np.array([0.0] * 6 + [np.inf]), "a proposed action of finite numbers"),
        (np.zeros(6), "a proposed action of shape (7,), got (6,)"),
        (np.zeros((1, 7)), "a proposed action of shape (7,), got (1, 7)"),
        ([[0.0], [0.0, 1.0]], "a proposed action of shape (7,), got a ragged one"),
        (np.array(["a"] * 7), "a proposed action of finite numbers"),
    ],
)
def test_a_bad_action_is_never_rescued(action: Any, message: str) -> None:
    for threshold in (0.0, 1.0):
        with pytest.raises(PolicyOutputError, match=re.escape(message)):
            make_shield({}, threshold=threshold).assess(np.zeros(1), action)


def test_huge_finite_actions_are_assessed_without_a_warning() -> None:
    with np.errstate(all="raise"):
        result = make_shield({}, threshold=1.0).assess(np.zeros(1), np.array([1e300] + [0.0] * 6))
    assert (result.intervene, result.reason) == (True, "risk_not_finite")
    assert np.isfinite(result.action).all()


def test_shield_refuses_what_does_not_fit() -> None:
    shield = make_shield({})
    with pytest.raises(InvalidInputError, match=re.escape("shape (1,), got (2,)")):
        shield.assess(np.zeros(2), ACTION)
    with pytest.raises(InvalidInputError, match="finite threshold, got nan"):
        dataclasses.replace(shield, threshold=math.nan)
    with pytest.raises(InvalidInputError, match="risk model of 9 features"):
        dataclasses.replace(shield, fields=("x", "y"))
    with pytest.raises(InvalidInputError, match="projection indices below the action size 6"):
        dataclasses.replace(shield, fields=("x", "y"), action_size=6)


def test_shield_satisfies_its_protocol() -> None:
    assert isinstance(make_shield({}), RuntimeShield)


def test_the_runtime_imports_no_torch() -> None:
    code = (
        "import sys; import roep_gym.shields, roep_gym.shields.storage, roep_gym.shields.registry;"
        "print(sorted({'torch', 'gymnasium', 'xarray'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


POSE_FIELDS = ("eef_pos_x", "eef_pos_y", "eef_pos_z", "eef_quat_x", "eef_quat_y", "eef_quat_z", "eef_quat_w")
NO_TURN = (0.0, 0.0, 0.0, 1.0)


def absolute_shield(bias: float, **projection: Any) -> Shield:
    """Return a shield of absolute control whose risk depends on one field, which is no part of the pose."""
    relative = make_shield({1: 0.0}, bias=bias, quaternion_offset=NO_TURN, **projection)
    return dataclasses.replace(relative, fields=("x", *POSE_FIELDS), control_mode="absolute")


def low_of(position: list[float], quaternion: list[float]) -> np.ndarray:
    return np.array([0.0, *position, *quaternion], dtype=np.float32)


def test_absolute_refusal_commands_the_measured_pose() -> None:
    half = math.radians(50) / 2
    low = low_of([0.1, -0.2, 0.9], [0.0, math.sin(half), 0.0, math.cos(half)])
    answer = absolute_shield(5.0, min_risk_reduction=1.0).assess(low, ACTION)
    assert (answer.refused, answer.projection) == (True, "refused_not_reduced")
    expected = [0.1, -0.2, 0.9, 0.0, math.radians(50), 0.0, ACTION[6]]
    np.testing.assert_allclose(answer.action, expected, atol=1e-6)
    assert answer.action[6] == ACTION[6]


def test_absolute_projection_scales_the_way_from_the_measured_position_by_hand() -> None:
    config = ProjectionConfig()
    pose = Pose(np.array([0.5, 0.0, 1.0]), np.zeros(3))
    # 2 cm along x and down by 1 cm are 0.4 and -0.2 units; halved 0.2 and -0.1; raised by 0.1: 0.2 and 0.
    action = np.array([0.52, 0.0, 0.99, 3.0, 0.1, 0.2, 1.0])
    np.testing.assert_allclose(
        reduce_motion(action, config, pose), [0.51, 0.0, 1.0, 3.0, 0.1, 0.2, 1.0], atol=1e-9
    )
    # However far the command, the way is at most half a unit, 2.5 cm.
    far = reduce_motion(np.array([-2.0, 2.0, 2.0, 0.0, 0.0, 0.0, 1.0]), config, pose)
    assert np.linalg.norm(far[:3] - pose.position) == pytest.approx(0.025)
    # From the origin, in units of one metre, it is the relative projection.
    unit = dataclasses.replace(config, metres_per_unit=1.0)
    origin = Pose(np.zeros(3), np.zeros(3))
    np.testing.assert_array_equal(reduce_motion(ACTION, unit, origin)[:3], reduce_motion(ACTION, unit)[:3])


@pytest.mark.parametrize("degrees", [0.0, 1e-9, 30.0, 179.9, 180.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_measured_orientation_is_the_short_rotation_of_either_quaternion(degrees: float, sign: float) -> None:
    axis, half = np.array([2.0, -1.0, 2.0]) / 3.0, math.radians(degrees) / 2
    quaternion = sign * np.array([*(axis * math.sin(half)), math.cos(half)])
    rotation = measured_pose(np.zeros(3), quaternion, ProjectionConfig(quaternion_offset=NO_TURN)).rotation
    assert np.linalg.norm(rotation) == pytest.approx(math.radians(degrees), abs=1e-12)
    if 0 < degrees < 180:
        np.testing.assert_allclose(rotation, axis * math.radians(degrees), atol=1e-12)


def test_absolute_shield_stores_its_mode_and_takes_pose_fields_beyond_those_of_the_model(
    tmp_path: Path,
) -> None:
    shield = absolute_shield(5.0)
    assert shield.feature_names == ("x", *(f"action_{i}" for i in range(7)))
    assert load_shield(save_shield(shield, tmp_path / "shield.npz")).control_mode == "absolute"
    assert shield.digest != dataclasses.replace(shield, fields=("x",), control_mode="relative").digest
    for change, message in (
        ({"fields": ("x",)}, "Unknown observation field 'eef_pos_x'"),
        ({"fields": ("x", *POSE_FIELDS, "y")}, "Expected a risk model of"),
        ({"control_mode": "joint"}, "one of the control modes ['relative', 'absolute'], got 'joint'"),
        (
            {"config": ShieldConfig(projection=ProjectionConfig(gripper=(5,)))},
            "Expected distinct projection indices",
        ),
    ):
        with pytest.raises(InvalidInputError, match=re.escape(message)):
            dataclasses.replace(shield, **change)
    with pytest.raises(InvalidInputError, match="Expected a risk model of 9 features"):
        dataclasses.replace(make_shield({}), fields=("x", "eef_pos_x"))
