"""What a control step without frames costs, side by side with stock LIBERO, for each suite.

    python benchmarks/step_speed.py [--tasks 2] [--steps 120]

Both replay the same actions from the same state and are measured in turn, step by step; the table gives medians
over the steps of the first tasks of each suite, and the ratio of the medians. The needed time is that of the calls
into MuJoCo and of the controller's inverses, without which the bits would differ; it bounds the ratio.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import mujoco
import numpy as np
from paired_ratio import HEADING, paired_ratio
from robosuite.utils.control_utils import opspace_matrices

from roep_gym import seeding
from roep_gym.envs.fast_step import forward_moves_warm_start
from roep_gym.envs.libero_env import LiberoEnv
from roep_gym.envs.libero_simulation import SETTLE_ACTION
from roep_gym.envs.task_catalog import LIBERO_SUITES, Task, initial_states, tasks


class Bound:
    """What no step with the same bits can do without, repeated on a copy of the state with the controls held.

    These are the calls into MuJoCo and the inverses of the controller, both 25 times.
    """

    _EVERYTHING = mujoco.mjtState.mjSTATE_INTEGRATION

    def __init__(self, env: LiberoEnv) -> None:
        assert env._simulation is not None
        controller = env._simulation.domain.robots[0].controller
        self._controller = controller.mass_matrix, controller.J_full, controller.J_pos, controller.J_ori
        self._model, self._data = env._simulation.model._model, env._simulation.data._data
        self._copy = mujoco.MjData(self._model)
        self._state = np.empty(mujoco.mj_stateSize(self._model, self._EVERYTHING))

    def remember(self) -> None:
        mujoco.mj_getState(self._model, self._data, self._state, self._EVERYTHING)

    def seconds(self) -> float:
        """Return the seconds of the control step from the remembered state."""
        model, data = self._model, self._copy
        mujoco.mj_setState(model, data, self._state, self._EVERYTHING)
        data.ctrl[:] = self._data.ctrl
        started = time.perf_counter()
        for _ in range(25):
            mujoco.mj_step1(model, data)
            if forward_moves_warm_start():
                mujoco.mj_fwdActuation(model, data)
                mujoco.mj_fwdAcceleration(model, data)
                mujoco.mj_fwdConstraint(model, data)
                mujoco.mj_fwdConstraint(model, data)
            opspace_matrices(*self._controller)
            mujoco.mj_step2(model, data)
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
    actions = seeding.generator("step speed", f"{task.suite}/{task.name}").uniform(-1, 1, (steps, 7))
    actions[:, 2] -= 0.3  # towards the table, so that there are contacts
    times = []
    bound = Bound(ours)
    for action in np.clip(actions, -1, 1):
        bound.remember()
        started = time.perf_counter()
        ours.step(action)
        between = time.perf_counter()
        stock.step(action)
        ended = time.perf_counter()
        times.append((between - started, ended - between, bound.seconds()))
    ours.close()
    stock.close()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=120)
    arguments = parser.parse_args()
    print(
        f"| suite | roep-gym | stock LIBERO | {HEADING} | needed | bound of the ratio |\n|---|---|---|---|---|---|"
    )
    for suite in LIBERO_SUITES:
        times = [once for task in tasks(suite)[: arguments.tasks] for once in measure(task, arguments.steps)]
        own, theirs, needed = zip(*times, strict=True)
        print(
            f"| {suite} | {1000 * median(own):.2f} ms | {1000 * median(theirs):.2f} ms | {paired_ratio(theirs, own)} "
            f"| {1000 * median(needed):.2f} ms | {median(theirs) / median(needed):.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
