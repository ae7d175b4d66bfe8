"""Scenes beyond the stored initial states, on the real simulator."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from roep_gym.envs.libero_env import LiberoEnv
from roep_gym.envs.placement import MAX_SETTLE_DISPLACEMENT
from roep_gym.error import InvalidInputError

pytestmark = pytest.mark.libero

SHIFT = 0.03


@pytest.fixture(scope="module")
def env() -> Iterator[LiberoEnv]:
    """The stove task, whose fixture must move too; the state-only mode."""
    made = LiberoEnv("goal_stove", cameras=[], object_state=True)
    yield made
    made.close()


def places(env: LiberoEnv, observation: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    poses = dict(zip(env.observation_fields["object_state"], observation["object_state"], strict=True))
    names = env._entities.objects + env._entities.fixtures
    return {name: np.array([poses[f"{name}_pos_x"], poses[f"{name}_pos_y"]]) for name in names}


def reset(env: LiberoEnv, shift: float, init_state: int = 2, seed: int = 5, mode: str = "official"):
    env.placement_shift, env.initial_states = shift, mode
    return env.reset(seed=seed, options={"init_state": init_state})


def test_everything_that_matters_moves_by_the_stated_distance(env: LiberoEnv) -> None:
    before = places(env, reset(env, 0.0)[0])
    observation, info = reset(env, SHIFT)
    after = places(env, observation)
    moved = {name: np.linalg.norm(after[name] - before[name]) for name in before}
    for name in (*env._entities.objects, "flat_stove_1"):
        assert moved[name] == pytest.approx(SHIFT, abs=2e-3), name
    for name in ("wooden_cabinet_1", "wine_rack_1"):  # fixtures that the task is not about
        assert moved[name] == 0.0, name
    directions = {tuple(np.round((after[n] - before[n]) / SHIFT, 1)) for n in env._entities.objects}
    assert len(directions) > 1
    assert info["settle_displacement"] <= MAX_SETTLE_DISPLACEMENT


def test_the_shift_is_a_function_of_the_scene_alone(env: LiberoEnv) -> None:
    first, _ = reset(env, SHIFT)
    other, _ = reset(env, SHIFT, init_state=7)
    again, _ = reset(env, SHIFT)
    np.testing.assert_array_equal(first["object_state"], again["object_state"])
    assert not np.array_equal(first["object_state"], other["object_state"])


def test_no_shift_leaves_no_trace(env: LiberoEnv) -> None:
    before, told = reset(env, 0.0)
    reset(env, SHIFT)
    after, retold = reset(env, 0.0)
    assert told["scene_hash"] == retold["scene_hash"]
    for name, entry in before.items():
        np.testing.assert_array_equal(entry, after[name])


def test_sampled_placements_are_not_the_stored_ones(env: LiberoEnv) -> None:
    stored = places(env, reset(env, 0.0, init_state=0)[0])
    sampled = [places(env, reset(env, 0.0, init_state=0, seed=s, mode="sampled")[0]) for s in (1, 2, 1)]
    bowl = "akita_black_bowl_1"
    np.testing.assert_array_equal(sampled[0][bowl], sampled[2][bowl])
    assert np.linalg.norm(sampled[0][bowl] - sampled[1][bowl]) > 1e-3
    assert np.linalg.norm(sampled[0][bowl] - stored[bowl]) > 1e-3


@pytest.mark.parametrize("shift", [-0.01, 0.2, float("nan"), True])
def test_a_shift_out_of_range_is_refused(shift: float) -> None:
    with pytest.raises(InvalidInputError, match="placement_shift"):
        LiberoEnv("goal_stove", placement_shift=shift)


def test_an_unknown_choice_of_initial_states_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="initial states"):
        LiberoEnv("goal_stove", initial_states="random")  # type: ignore[arg-type]
