"""Profiles: the paper's four, and custom ones from JSON-native mappings."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from roep_gym.error import InvalidInputError, UnknownNameError
from roep_gym.evaluate.schema import CONDITIONS
from roep_gym.wrappers.profiles import PROFILES, Profile

STREAM = ("run", 2, 3)


@pytest.mark.parametrize(
    ("name", "alpha", "probability"),
    [("clean", 0, 0), ("mild", 0.10, 0.10), ("medium", 0.30, 0.20), ("strong", 0.50, 0.30)],
)
def test_the_built_in_profiles_are_the_papers(name: str, alpha: float, probability: float) -> None:
    severities = {setting.operator: setting.severity for setting in Profile.from_spec(name).settings}
    assert severities == {"rgb_occlusion": alpha, "depth_dropout": probability}


def test_every_condition_names_a_built_in_profile() -> None:
    assert {condition.profile for condition in CONDITIONS.values()} == set(PROFILES)


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_survives_json(name: str) -> None:
    profile = PROFILES[name]
    assert Profile.from_spec(json.loads(json.dumps(profile.to_spec()))) == profile


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("medum", "Unknown perturbation profile 'medum'. Did you mean 'medium'?"),
        (
            {"name": "x"},
            "Expected a profile's name or a mapping with 'name' and 'operators', got {'name': 'x'}.",
        ),
        ({"name": "x", "operators": "rgb_occlusion"}, "Expected 'operators' of a profile to be a list"),
        ({"name": "x", "operators": [{"alpha": 0.1}]}, "Expected an operator of a profile as"),
        (
            {"name": "x", "operators": [{"operator": "rgb_oclusion", "alpha": 0.1}]},
            "Did you mean 'rgb_occlusion'",
        ),
        ({"name": "x", "operators": [{"operator": "rgb_occlusion", "alfa": 0.1}]}, "Did you mean 'alpha'?"),
        (
            {"name": "x", "operators": [{"operator": "rgb_occlusion"}]},
            "'alpha' of 'rgb_occlusion', but it is missing",
        ),
        (
            {"name": "x", "operators": [{"operator": "rgb_occlusion", "alpha": 2}]},
            "to be a finite number in 0..1, got 2.",
        ),
        (
            {"name": "medium", "operators": []},
            "Expected another name than that of the built-in profile 'medium'.",
        ),
        (
            {"name": "x", "operators": [{"operator": "rgb_occlusion", "alpha": 0.1}] * 2},
            "Expected each operator once",
        ),
        (3, "Expected a profile's name or a mapping"),
    ],
)
def test_a_malformed_profile_is_refused(spec: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        Profile.from_spec(spec)


def test_an_unknown_name_is_its_own_error() -> None:
    with pytest.raises(UnknownNameError):
        Profile.from_spec("hard")


def test_metadata_of_a_frame_that_was_never_rendered_equals_that_of_the_rendered_one() -> None:
    profile = PROFILES["medium"]
    image, depth = np.full((48, 64, 3), 9, np.uint8), np.full((48, 64, 1), 2.0, np.float32)
    for step in (0, 7):
        _, rendered = profile.perturb(image, "image", STREAM, step, "a_image")
        assert profile.describe(image.shape, "image", STREAM, step, "a_image") == rendered
        _, rendered = profile.perturb(depth, "depth", STREAM, step, "a_depth")
        assert profile.describe(depth.shape, "depth", STREAM, step, "a_depth") == rendered


def test_cameras_steps_and_runs_have_their_own_draws() -> None:
    def patch(stream: tuple[str, int, int], step: int, key: str) -> Any:
        return tuple(PROFILES["medium"].describe((256, 256, 3), "image", stream, step, key)[0].values())

    seen = {
        patch(stream, step, key)
        for stream in (STREAM, ("clone", 2, 3), ("run", 3, 3), ("run", 2, 4))
        for step in (0, 1)
        for key in ("a_image", "b_image")
    }
    assert len(seen) == 16


def test_profiles_need_no_gymnasium() -> None:
    code = "import sys, roep_gym.wrappers.profiles; assert 'gymnasium' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
