"""What a control step without frames costs, side by side with stock LIBERO, for each suite.

    python benchmarks/step_speed.py [--tasks 2] [--steps 120]

Both replay the same actions from the same state and are measured in turn, step by step; the table gives medians
over the steps of the first tasks of each suite, and the ratio of the medians. "Physics" is what remains when only
the calls into MuJoCo are made that the same bits need; it bounds the ratio.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import mujoco
import numpy as np

from roep_gym import seeding
from roep_gym.envs.libero_env import LiberoEnv
from roep_gym.envs.libero_simulation import SETTLE_ACTION
from roep_gym.envs.task_catalog import LIBERO_SUITES, Task, initial_states, tasks


def physics_seconds(env: LiberoEnv) -> float:
    """Return the seconds of a control step's calls into MuJoCo, from the present state with constant controls."""
    assert env._simulation is not None
    model, data = env._simulation.model._model, env._simulation.data._data
    started = time.perf_counter()
    for _ in range(25):
        mujoco.mj_step1(model, data)
        mujoco.mj_fwdActuation(model, data)
        mujoco.mj_fwdAcceleration(model, data)
        mujoco.mj_fwdConstraint(model, data)
        mujoco.mj_fwdConstraint(model, data)
        mujoco.mj_fwdActuation(model, data)
        mujoco.mj_fwdAcceleration(model, data)
        mujoco.mj_fwdConstraint(model, data)
        mujoco.mj_Euler(model, data)
    return time.perf_counter() - started


def measure(task: Task, steps: int) -> list[tuple[float, float, float]]:
    """Return the seconds of each step: ours, stock LIBERO's, and those of the physics."""
    from libero.libero.envs.env_wrapper import ControlEnv

    ours = LiberoEnv(task.name, suite=task.suite, cameras=[])
    ours.reset(
        options={
            "episode": {"run_id": "bench", "seed_group": 0, "episode": 0, "init_state": 0, "scene_seed": 0}
        }
    )
    stock = ControlEnv(str(task.bddl_file), use_camera_obs=False, has_offscreen_renderer=False)
    with seeding.preserved_numpy_state():
        stock.seed(0)
        stock.reset()
    stock.set_init_state(initial_states(task)[0])
    for _ in range(10):
        stock.step(np.array(SETTLE_ACTION))
    actions = seeding.generator("step speed", task.label).uniform(-1, 1, (steps, 7))
    actions[:, 2] -= 0.3  # towards the table, so that there are contacts
    times = []
    for action in np.clip(actions, -1, 1):
        started = time.perf_counter()
        ours.step(action)
        between = time.perf_counter()
        stock.step(action)
        ended = time.perf_counter()
        times.append((between - started, ended - between))
    physics = median(physics_seconds(ours) for _ in range(20))
    ours.close()
    stock.close()
    return [(own, theirs, physics) for own, theirs in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=120)
    arguments = parser.parse_args()
    print("| suite | roep-gym | stock LIBERO | ratio | physics |\n|---|---|---|---|---|")
    for suite in LIBERO_SUITES:
        times = [once for task in tasks(suite)[: arguments.tasks] for once in measure(task, arguments.steps)]
        own, theirs, physics = (median(column) for column in zip(*times, strict=True))
        print(
            f"| {suite} | {1000 * own:.2f} ms | {1000 * theirs:.2f} ms | {theirs / own:.2f} "
            f"| {1000 * physics:.2f} ms |",
            flush=True,
        )


if __name__ == "__main__":
    main()
