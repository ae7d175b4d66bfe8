"""Settings, features, labels and split of a shield."""

from __future__ import annotations

import dataclasses
import json
import re

import numpy as np
import pytest
from shield_data import FIELDS, make_episode

from roep_gym.error import InvalidInputError, UnknownNameError
from roep_gym.mapping_reader import read_mapping
from roep_gym.shields import BootstrapEpisode, ProjectionConfig, ShieldConfig
from roep_gym.shields.features import assemble, feature_names, field_indices
from roep_gym.shields.labels import RISK, SAFE, UNLABELLED, classify, label_steps
from roep_gym.shields.split import PARTS, SceneSupport, needs, split_scenes


def test_defaults_are_the_papers() -> None:
    config = ShieldConfig()
    assert (config.tail_horizon, config.hidden_sizes, config.learning_rate) == (5, (128, 64, 32), 1e-3)
    assert (config.batch_size, config.max_epochs, config.patience, config.alpha) == (256, 40, 7, 0.05)
    assert (config.train_fraction, config.validation_fraction, config.calibration_fraction) == (0.8, 0.1, 0.1)
    assert (config.fields, config.min_risk_episodes, config.prefix_support) == (None, 1, "all")


def test_config_round_trips_through_json() -> None:
    config = ShieldConfig(
        fields=("a", "b"),
        prefix_support=3,
        hidden_sizes=(8,),
        projection=ProjectionConfig(scale=0.25, vertical=None),
    )
    assert read_mapping(ShieldConfig, json.loads(json.dumps(config.to_dict())), "shield") == config
    assert read_mapping(ShieldConfig, {}, "shield") == ShieldConfig()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tail_horizon": 0}, "Expected shield.tail_horizon to be an integer >= 1, got 0."),
        ({"patience": True}, "Expected shield.patience to be an integer, got True."),
        ({"prefix_support": "some"}, "prefix_support to be one of 'all', 'none' or an integer, got 'some'."),
        ({"prefix_support": -1}, "shield.prefix_support"),
        ({"alpha": 0.0}, "shield.alpha to be between 0 and 1, both excluded, got 0.0"),
        ({"alpha": float("nan")}, "shield.alpha to be a finite number, got nan"),
        ({"train_fraction": 0.9}, "the three fractions sum to 1, got 1.1"),
        (
            {"train_fraction": 0.9, "validation_fraction": 0.0},
            "shield.validation_fraction to be > 0, since every part is used, got 0.0",
        ),
        ({"hidden_sizes": [8, 0]}, "shield.hidden_sizes"),
        ({"learning_rate": 0.0}, "shield.learning_rate to be > 0"),
        ({"fields": ["a", "a"]}, "shield.fields to be null or a list of distinct field names"),
        ({"projection": {"scale": 1.5}}, "shield.projection.scale to be a finite number in 0..1, got 1.5"),
        ({"projection": {"vertical": 5}}, "shield.projection.vertical to be None or one of"),
        ({"projection": {"gripper": [2]}}, "shield.projection.gripper to be disjoint"),
        ({"projection": {"action_low": 0.5}}, "shield.projection.action_low"),
        ({"projection": 3}, "Expected shield.projection to be a mapping, got 3."),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        read_mapping(ShieldConfig, settings, "shield")


def test_unknown_setting_names_the_closest_one() -> None:
    with pytest.raises(
        UnknownNameError, match=re.escape("Unknown field of shield 'alhpa'. Did you mean 'alpha'?")
    ):
        read_mapping(ShieldConfig, {"alhpa": 0.1}, "shield")


def test_features_are_named_fields_then_the_action() -> None:
    columns = field_indices(("c", "a"), ("a", "b", "c"))
    assert columns.tolist() == [2, 0]
    assert feature_names(("c", "a"), 2) == ("c", "a", "action_0", "action_1")
    row = assemble(np.array([3.0, 1.0]), np.array([0.5, -0.5]))
    assert row.dtype == np.float32
    assert row.tolist() == [3.0, 1.0, 0.5, -0.5]
    assert assemble(np.zeros((4, 2)), np.zeros((4, 7))).shape == (4, 9)
    with pytest.raises(UnknownNameError, match=re.escape("Unknown observation field 'eef_pos'")):
        field_indices(("eef_pos",), FIELDS)
    with pytest.raises(InvalidInputError, match="distinct observation field names"):
        field_indices(("a",), ("a", "a"))


def test_success_is_safe_and_tails_are_risk() -> None:
    config = ShieldConfig()
    success, timeout = make_episode("s", "success", 8), make_episode("t", "timeout", 8)
    assert label_steps(success, "timeout_tail", config).tolist() == [SAFE] * 8
    assert label_steps(timeout, "timeout_tail", config).tolist() == [SAFE] * 3 + [RISK] * 5
    short = make_episode("u", "unsafe_attempt", 3)
    assert label_steps(short, "unsafe_attempt", config).tolist() == [RISK] * 3


@pytest.mark.parametrize(
    ("support", "prefix"),
    [
        ("all", [SAFE] * 4),
        ("none", [UNLABELLED] * 4),
        (0, [UNLABELLED] * 4),
        (3, [SAFE] * 3 + [UNLABELLED]),
        (9, [SAFE] * 4),
    ],
)
def test_prefix_support(support: str | int, prefix: list[int]) -> None:
    config = ShieldConfig(prefix_support=support, tail_horizon=4)  # type: ignore[arg-type]
    labels = label_steps(make_episode("t", "timeout", 8), "timeout_tail", config)
    assert labels.tolist() == [*prefix, *[RISK] * 4]


def test_unsafe_attempts_come_before_the_timeout_fallback() -> None:
    config = ShieldConfig()
    timeout, unsafe = make_episode("t", "timeout"), make_episode("u", "timeout", unsafe=(10,))
    assert classify(timeout, "unsafe_attempt") == "unused"
    assert set(label_steps(timeout, "unsafe_attempt", config).tolist()) == {UNLABELLED}
    # Also under the fallback an unsafe attempt is never safe support.
    assert classify(unsafe, "timeout_tail") == classify(unsafe, "unsafe_attempt") == "risk"


def test_success_with_an_unsafe_attempt_is_a_risk_episode_whose_end_is_no_risk() -> None:
    episode = make_episode("s", "success", 12, unsafe=(3, 6))
    assert classify(episode, "timeout_tail") == "risk"
    labels = label_steps(episode, "unsafe_attempt", ShieldConfig())
    assert labels.tolist() == [SAFE] * 2 + [RISK] * 5 + [SAFE] * 5


def test_invalid_execution_supports_nothing_but_keeps_its_unsafe_attempt() -> None:
    low, actions = np.zeros((6, 1)), np.zeros((6, 7))
    actions[-1] = np.nan
    plain = BootstrapEpisode("i", "invalid_execution", ("x",), low, actions, np.zeros(6, np.bool_))
    assert classify(plain, "timeout_tail") == "unused"
    attempted = dataclasses.replace(plain, unsafe=np.arange(6) == 2)
    assert label_steps(attempted, "unsafe_attempt", ShieldConfig()).tolist() == [
        SAFE,
        *[RISK] * 4,
        UNLABELLED,
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"identifier": ""}, "non-empty identifier"),
        ({"reason": "aborted"}, "Unknown termination reason of bootstrap episode 's' 'aborted'"),
        ({"unsafe": np.zeros(40, np.int8)}, "boolean unsafe flags, got dtype int8"),
        ({"actions": np.zeros((39, 7))}, "got (40, 4), (39, 7) and (40,)"),
        ({"fields": ("x",)}, "low (steps, 1)"),
        ({"low": np.full((40, 4), np.nan)}, "a non-finite one at step 0"),
    ],
)
def test_bad_episodes_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        dataclasses.replace(make_episode("s", "success"), **change)  # type: ignore[arg-type]


def scenes(risk: int, safe: int, twins: int = 0) -> list[SceneSupport]:
    """Return scenes with one risk episode, with two safe ones, and with one of each."""
    return [
        *(SceneSupport(f"risk/{i}", 1, 0) for i in range(risk)),
        *(SceneSupport(f"safe/{i}", 0, 2) for i in range(safe)),
        *(SceneSupport(f"twin/{i}", 1, 1) for i in range(twins)),
    ]


def support(given: list[SceneSupport], config: ShieldConfig) -> dict[tuple[str, str], int]:
    part_of = split_scenes(given, config)
    assert set(part_of) == {scene.scene for scene in given}
    return {
        (part, kind): sum(getattr(s, kind) for s in given if part_of[s.scene] == part)
        for part in PARTS
        for kind in ("risk", "safe")
    }


def test_split_has_the_shares_of_each_class_whatever_the_order() -> None:
    given, config = scenes(200, 300, 100), ShieldConfig()
    found = support(given, config)
    assert [found[part, "risk"] for part in PARTS] == [240, 30, 30]
    assert [found[part, "safe"] for part in PARTS] == [560, 70, 70]
    assert split_scenes(given[::-1], config) == split_scenes(given, config)


def test_split_does_not_change_between_versions() -> None:
    # Written down once: a change would give stored bootstraps other shields.
    part_of = split_scenes(scenes(3, 9), ShieldConfig())
    held_out = {name: part for name, part in part_of.items() if part != "train"}
    assert held_out == {"risk/2": "validation", "safe/1": "validation", "safe/5": "calibration"}


@pytest.mark.parametrize("given", [scenes(2, 3), scenes(2, 40), scenes(0, 0, 3), scenes(1, 2, 1)])
@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.4])
def test_every_part_has_its_minimum_support_where_the_scenes_suffice(
    given: list[SceneSupport], fraction: float
) -> None:
    config = ShieldConfig(
        train_fraction=1 - 2 * fraction, validation_fraction=fraction, calibration_fraction=fraction
    )
    found = support(given, config)
    assert all(found[part, kind] >= least for part, kind, least in needs(config))


def test_minimum_support_is_that_of_the_settings() -> None:
    config = ShieldConfig(min_risk_episodes=3, min_safe_episodes=4)
    found = support(scenes(6, 6), config)
    assert (found["train", "risk"], found["validation", "risk"]) == (3, 3)
    assert min(found[part, "safe"] for part in PARTS) == 4
