"""A reset that restores the scene and one that builds it: the same bits, whatever was done before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from libero_states import (
    CAMERAS,
    SIZE,
    Facts,
    assets,
    digest,
    physics,
    python_state,
    read_episode,
    record_episode,
    start_stock_episode,
)

from roep_gym.envs.libero_env import LiberoEnv
from roep_gym.envs.libero_simulation import LiberoSimulation
from roep_gym.envs.task_catalog import LIBERO_SUITES, Task, find_task, initial_states, tasks

pytestmark = pytest.mark.libero

EPISODES = ((11, 4), (12, None), (12, 7), (11, 4))
"""Scene seeds and initial states, in this order; without a state the placement is the seed's."""

SAMPLED = (
    (None, "goal_stove"),  # fixtures move with the scene seed, and the stove lights up
    ("libero_10", "put the black bowl in the bottom drawer of the cabinet and close it"),  # a joint is drawn
    ("libero_object", "object_bbq_sauce"),  # a floor without fixtures
)


def simulate(task: Task, *, build: bool = False) -> LiberoSimulation:
    simulation = LiberoSimulation(task.bddl_file, cameras=CAMERAS, image_size=SIZE, renderer=True)
    simulation._stock_reset = build
    return simulation


def reset(simulation: LiberoSimulation, task: Task, scene_seed: int, init_state: int | None) -> Facts:
    """Reset, and return what was drawn and placed before a stored state was set."""
    domain, placed = simulation.domain, {}
    reset_once = type(domain).reset

    def watched() -> None:
        reset_once(domain)
        _, keys, position, *_ = np.random.get_state()
        placed.update({f"placed {name}": value for name, value in physics(domain.sim).items()})
        placed["random stream"] = digest(keys, position)

    domain.reset = watched
    simulation.reset(scene_seed, None if init_state is None else initial_states(task)[init_state])
    del domain.reset
    return placed


def play(simulation: LiberoSimulation, seed: int) -> Facts:
    simulation.refresh(frames=False)
    return record_episode(simulation.domain, lambda action: simulation.step(action, frames=False), seed)


def disturb(simulation: LiberoSimulation) -> None:
    """Leave behind everything that an episode, a placement shift or a perturbation of the scene can."""
    model, data = simulation.model, simulation.data
    for stock_step in (False, True):
        simulation._stock_step = stock_step
        simulation.step(np.ones(7), frames=False)
    simulation._stock_step = False
    data.qpos[:] += 1.0  # opens drawers, lights stoves
    data.qfrc_applied[:], data.xfrc_applied[:], data.ctrl[:] = 1.0, 2.0, 3.0
    simulation.set_absolute_control()
    simulation.domain.sim.forward()
    simulation.domain._check_success()
    simulation.domain._post_process()
    model.body_pos[:] += 0.1
    model.site_rgba[:] = 0.5
    model.geom_friction[:] *= 2
    model.light_diffuse[:] = 0.1
    model.cam_pos[:] += 0.1


def differences(one: Facts, other: Facts) -> dict[str, tuple[str | None, str | None]]:
    return {
        name: (one.get(name), other.get(name)) for name in one | other if one.get(name) != other.get(name)
    }


def assert_same_domain(restored: Any, built: Any) -> None:
    """Compare all attributes of the robosuite environments."""
    names = differences(python_state(restored), python_state(built))
    # LIBERO lists these sites once more whenever it loads the model.
    assert {name.split(".")[1].split("[")[0] for name in names} <= {"hard_reset", "visualization_sites_list"}


def assert_restored_is_built(task: Task) -> None:
    """Compare restored resets with ones that build the scene, and the last with stock LIBERO in a fresh process."""
    scene_seed, init_state = EPISODES[-1]
    stock = start_stock_episode(task.suite, task.name, scene_seed, init_state)
    restored, built = simulate(task), simulate(task, build=True)
    played: list[Facts] = []
    try:
        for episode in EPISODES:
            assert not differences(reset(restored, task, *episode), reset(built, task, *episode))
            assert_same_domain(restored.domain, built.domain)
            played = [play(simulation, episode[0]) for simulation in (restored, built)]
            assert not differences(*played)
            disturb(restored)
        scene = assets(restored.domain.sim)
    finally:
        restored.close()
        built.close()
        expected = read_episode(stock)
    assert not differences(played[0] | scene, expected)


@pytest.mark.parametrize(("suite", "name"), SAMPLED)
def test_restored_is_built(suite: str | None, name: str) -> None:
    assert_restored_is_built(find_task(suite, name))


def test_a_failed_placement_is_tried_again_with_the_same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    from robosuite.utils.errors import RandomizationError
    from robosuite.utils.placement_samplers import SequentialCompositeSampler

    sample, failures = SequentialCompositeSampler.sample, [0]

    def fail_at_first(*arguments: Any, **options: Any) -> Any:
        placements = sample(*arguments, **options)
        if failures[0]:
            failures[0] -= 1
            raise RandomizationError("Cannot place all objects")
        return placements

    monkeypatch.setattr(SequentialCompositeSampler, "sample", fail_at_first)
    task = find_task(*SAMPLED[1])
    restored, built = simulate(task), simulate(task, build=True)
    try:
        at_once = reset(restored, task, *EPISODES[0])
        placed = []
        for simulation in (restored, built):
            failures[0] = 2
            placed.append(reset(simulation, task, *EPISODES[0]))
        assert not differences(*placed)
        assert differences(placed[0], at_once)
    finally:
        restored.close()
        built.close()


def test_shifted_and_sampled_placements_are_those_of_a_built_scene() -> None:
    env = LiberoEnv("goal_stove", cameras=[], object_state=True)
    scenes: list[list[Facts]] = [[], []]
    try:
        env.reset(seed=0)
        for build, facts in enumerate(scenes):
            env._simulation._stock_reset = bool(build)
            for seed, env.placement_shift, env.initial_states in (
                (1, 0.03, "official"),
                (2, 0.0, "sampled"),
                (1, 0.0, "official"),
                (2, 0.03, "sampled"),
            ):
                observation, info = env.reset(seed=seed)
                values = {name: digest(value) for name, value in observation.items()}
                facts.append(physics(env._simulation.domain.sim) | values | {"info": repr(info)})
    finally:
        env.close()
    for restored, built in zip(*scenes, strict=True):
        assert not differences(restored, built)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("suite", LIBERO_SUITES)
def test_every_task(suite: str) -> None:
    for task in tasks(suite):
        assert_restored_is_built(task)
