"""All there is in a LIBERO simulation, by name, so that two of them can be compared bit for bit.

As a script it plays one episode with stock LIBERO in a process that has done nothing else:
`python tests/libero_states.py SUITE TASK SCENE_SEED INIT_STATE` prints what `record_episode` returns, as JSON.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from roep_gym import seeding
from roep_gym.envs.libero_simulation import _DERIVED_OBSERVATIONS as DERIVED_OBSERVATIONS
from roep_gym.envs.task_catalog import find_task, initial_states
from roep_gym.typing import FloatArray

SIZE, STEPS = 64, 30
CAMERAS = ["agentview", "robot0_eye_in_hand"]

_ASSETS = ("bvh_", "mesh_", "tex_")
_UNUSED = ("H", "dof_island", "efc_AR", "efc_J_col", "efc_J_row", "efc_JT", "efc_island", "island_")
"""Rooms that the solver need not fill in these scenes, so that leftovers of other memory stand there: the problems are
small and not sparse, the contacts (H) mostly far from the edge of the friction cone."""
_BOOKKEEPING = ("maxuse_", "parena", "pbase", "pstack", "signature", "threadpool", "timer")
_FOREIGN = ("robosuite.utils.binding_utils", "xml.", "mujoco", "roep_gym.")

Facts = dict[str, str]


def digest(*values: Any) -> str:
    state = hashlib.sha256()
    for value in values:
        state.update(np.ascontiguousarray(value).tobytes())
    return state.hexdigest()[:16]


def physics(sim: Any) -> Facts:
    """Return a digest of every array and number of a robosuite simulation's model, data and contacts.

    The model's large arrays are left out, see `assets`.
    """
    model, data = sim.model._model, sim.data._data
    facts: Facts = {}
    for part, owner in (("model", model), ("option", model.opt), ("data", data), ("contact", data.contact)):
        for name in dir(owner):
            if not name.startswith(("_", *_UNUSED, *_BOOKKEEPING, *_ASSETS)):
                value = getattr(owner, name)
                if isinstance(value, np.ndarray | int | float):
                    facts[f"{part}.{name}"] = digest(value)
    return facts


def assets(sim: Any) -> Facts:
    """Return a digest of every array of the model that holds meshes or textures."""
    model = sim.model._model
    return {name: digest(getattr(model, name)) for name in dir(model) if name.startswith(_ASSETS)}


def python_state(owner: Any) -> Facts:
    """Return every attribute of a robosuite object and of the objects it consists of."""
    return dict(_leaves(owner, type(owner).__name__, ()))


def _leaves(value: Any, path: str, above: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    if id(value) in above or type(value).__module__.startswith(_FOREIGN):
        return
    above = (*above, id(value))
    if isinstance(value, str | bool | int | float | None | np.generic):
        yield path, repr(value)
    elif isinstance(value, np.ndarray):
        yield path, f"{value.dtype} {value.shape} {value.tolist()}"
    elif isinstance(value, Mapping):
        yield path, str(len(value))
        for key, item in value.items():
            yield from _leaves(item, f"{path}[{key!r}]", above)
    elif isinstance(value, list | tuple):
        yield path, str(len(value))
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}[{index}]", above)
    elif isinstance(value, set | frozenset):
        yield path, repr(sorted(value))
    elif hasattr(value, "__dict__") and not callable(value):
        yield path, type(value).__name__
        for name, item in vars(value).items():
            yield from _leaves(item, f"{path}.{name}", above)


def actions(seed: int) -> FloatArray:
    """Return actions that go down to the table, close there, and drag."""
    generator = seeding.generator("restore actions", seed)
    chosen = generator.uniform(-0.5, 0.5, (STEPS, 7))
    chosen[: STEPS // 2, 2], chosen[:, 6] = -1.0, np.where(np.arange(STEPS) < STEPS // 2, -1, 1)
    return chosen


def record_episode(domain: Any, step: Callable[[FloatArray], bool], seed: int) -> Facts:
    """Record the scene that a reset left, and what becomes of it under actions.

    Args:
        domain: The robosuite environment after the state was set and the observables were updated.
        step: Executes an action and tells whether the goal holds.
        seed: Of the actions.
    """
    facts = python_state(domain.robots[0]) | _scene(domain)
    for number, action in enumerate(actions(seed)):
        success, data = step(action), domain.sim.data
        facts[f"step {number}"] = digest(data.qpos, data.qvel, data.qacc_warmstart, data.ctrl, success)
    return facts | {f"last {name}": value for name, value in _scene(domain).items()}


def _scene(domain: Any) -> Facts:
    return physics(domain.sim) | _observed(domain) | {"frames": _frames(domain.sim)}


def _observed(domain: Any) -> Facts:
    """Return values and clocks of the observables that are not functions of others."""
    return {
        f"observable {name}": repr((o.obs, o._time_since_last_sample, o._sampled))
        for name, o in domain._observables.items()
        if not name.endswith((*DERIVED_OBSERVATIONS, "_image"))
    }


def _frames(sim: Any) -> str:
    sim._render_context_offscreen.gl_ctx.make_current()
    drawn = [sim.render(camera_name=camera, width=SIZE, height=SIZE, depth=True) for camera in CAMERAS]
    return digest(*(part for pair in drawn for part in pair))


def start_stock_episode(suite: str, task: str, scene_seed: int, init_state: int) -> subprocess.Popen[str]:
    """Start the script; `read_episode` waits for it."""
    command = [sys.executable, __file__, suite, task, str(scene_seed), str(init_state)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def read_episode(process: subprocess.Popen[str]) -> Facts:
    output, _ = process.communicate()
    facts: Facts = json.loads(output.splitlines()[-1])
    return facts


def _play_stock(suite: str, name: str, scene_seed: int, init_state: int) -> Facts:
    from roep_gym.envs.libero_install import isolate_libero

    isolate_libero()
    from libero.libero.envs import OffScreenRenderEnv

    task = find_task(suite, name)
    env = OffScreenRenderEnv(bddl_file_name=str(task.bddl_file), use_camera_obs=False)
    env.seed(scene_seed)
    env.reset()
    env.set_init_state(initial_states(task)[init_state])
    played = record_episode(env.env, lambda action: bool(env.step(action)[2]), scene_seed)
    scene = assets(env.sim)
    env.close()
    return played | scene


if __name__ == "__main__":
    print(json.dumps(_play_stock(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
