"""A golden computation whose bits tell whether two processes compute alike.

Names and versions do not decide that: two machines with equal ones gave different bits. `numeric_probe` computes what
an evaluation computes (NumPy and BLAS, robosuite's compiled controller, physics, torch, one frame) in a child process
with one thread, and returns a hash of each part. Run as a script, this file is that child.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

__all__ = ["NOT_AVAILABLE", "PARTS", "numeric_probe"]

NOT_AVAILABLE = "not available"
"""The hash of a part whose library is not installed or fails, such as a frame where nothing can be drawn."""

_STEPS = 300
_TIMEOUT_SECONDS = 300
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

# An arm with three motors sweeps a pile of unlike bodies: contacts, friction, damping; shadow, texture, reflection.
_MODEL = """
<mujoco>
  <option timestep="0.002" cone="elliptic" impratio="20"/>
  <asset>
    <texture name="grid" type="2d" builtin="checker" rgb1=".3 .4 .5" rgb2=".8 .7 .6" width="64" height="64"/>
    <material name="grid" texture="grid" texrepeat="5 5" reflectance=".2"/>
  </asset>
  <worldbody>
    <light pos="1 1 3" dir="-.3 -.3 -1"/>
    <camera name="side" pos="0 -1.4 1" xyaxes="1 0 0 0 .6 .8"/>
    <geom type="plane" size="2 2 .1" material="grid"/>
    <body pos="-.4 0 .1">
      <joint name="turn" axis="0 0 1" damping="1"/><geom type="capsule" size=".04" fromto="0 0 0 .25 0 0"/>
      <body pos=".25 0 0">
        <joint name="lift" axis="0 1 0" damping="1"/><geom type="capsule" size=".03" fromto="0 0 0 .2 0 0"/>
        <body pos=".2 0 0">
          <joint name="bend" axis="0 1 0" damping="1"/><geom type="capsule" size=".03" fromto="0 0 0 .15 0 0"/>
        </body>
      </body>
    </body>
    <body pos=".05 .02 .1"><freejoint/><geom type="box" size=".06 .05 .04" rgba=".9 .2 .1 1"/></body>
    <body pos=".08 .01 .22" euler="10 20 30"><freejoint/><geom type="cylinder" size=".05 .06" rgba=".1 .7 .3 1"/></body>
    <body pos=".02 -.02 .36"><freejoint/><geom type="ellipsoid" size=".05 .06 .04" rgba=".2 .3 .9 1"/></body>
  </worldbody>
  <actuator>
    <motor joint="turn" gear="3"/><motor joint="lift" gear="3"/><motor joint="bend" gear="2"/>
  </actuator>
</mujoco>
"""


@cache
def numeric_probe() -> Mapping[str, str]:
    """Return the hash of each part of the golden computation on this machine, with these libraries.

    Computed once per process, in some seconds, most of them for importing torch.

    Returns:
        A short hexadecimal hash, or `NOT_AVAILABLE`, for each name in `PARTS`.
    """
    environment = {**os.environ, **dict.fromkeys(_THREADS, "1")}
    if sys.platform == "linux":
        environment.setdefault("MUJOCO_GL", "egl")
    # -P keeps the folder of this file out of the path. Importing torch takes as long as all the rest: side by side.
    command = [sys.executable, "-P", __file__]
    rest = [part for part in PARTS if part != "torch"]
    children = [
        subprocess.Popen(
            [*command, *parts], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        for parts in (["torch"], rest)
    ]
    found: dict[str, str] = {}
    for child in children:
        try:
            printed, _ = child.communicate(timeout=_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            printed, _ = child.communicate()
        # A graphics driver may kill the child: what it had printed until then counts.
        found |= dict(json.loads(line) for line in printed.splitlines() if line.startswith("["))
    return {part: found.get(part, NOT_AVAILABLE) for part in PARTS}


def _blas() -> Iterator[Any]:
    """Yield products, decompositions and elementary functions, whose kernels NumPy chooses by processor."""
    for dtype in (np.float32, np.float64):
        wide: Any
        tall: Any
        square: Any
        draw = np.random.Generator(np.random.Philox(0))
        wide, tall = (draw.random(shape).astype(dtype) for shape in ((37, 61), (61, 23)))
        square = draw.random((7, 7)).astype(dtype)
        np.fill_diagonal(square, 7)
        yield from (wide @ tall, wide @ tall[:, 0], np.linalg.inv(square), np.linalg.pinv(wide[:6, :7]))
        yield np.linalg.svd(square)[1]
        angles = 8 * wide - 4
        yield from (np.exp(angles), np.sin(angles), np.cos(angles), np.arctan2(angles, wide), np.tanh(angles))
        yield from (np.sqrt(wide), np.log1p(wide), wide.sum(), wide.mean(axis=0))


def _controller() -> Iterator[Any]:
    """Yield what robosuite's compiled operational-space control makes of fixed matrices."""
    from roep_gym.envs.robosuite_import import import_robosuite

    import_robosuite()
    from robosuite.utils.control_utils import nullspace_torques, opspace_matrices, orientation_error

    draw = np.random.Generator(np.random.Philox(1))
    for _ in range(20):
        root, jacobian = draw.random((7, 7)), draw.random((6, 7)) - 0.5
        mass = root @ root.T + np.eye(7)
        terms = opspace_matrices(mass, jacobian, jacobian[:3], jacobian[3:])
        yield from terms
        yield nullspace_torques(mass, terms[3], draw.random(7), draw.random(7), draw.random(7))
        yield orientation_error(np.linalg.qr(draw.random((3, 3)))[0], np.linalg.qr(draw.random((3, 3)))[0])


def _settled_scene() -> Iterator[Any]:
    """Yield the model and data of the golden scene after each 50 steps."""
    import mujoco

    model = mujoco.MjModel.from_xml_string(_MODEL)
    data = mujoco.MjData(model)
    for step in range(_STEPS):
        data.ctrl[:] = (0.6 - step / 200, 0.5 - step / 100, 0.25)
        mujoco.mj_step(model, data)
        if step % 50 == 49:
            yield model, data


def _physics() -> Iterator[Any]:
    """Yield states while the arm sweeps the pile."""
    for _, data in _settled_scene():
        yield from (data.qpos, data.qvel, data.qacc, data.sensordata, data.qfrc_constraint)


def _torch() -> Iterator[Any]:
    """Yield activations of a small network: convolution, normalisation, product, softmax, attention."""
    import torch

    torch.set_num_threads(1)
    draw = np.random.Generator(np.random.Philox(2))

    def tensor(*shape: int) -> torch.Tensor:
        return torch.from_numpy(draw.random(shape).astype(np.float32) - 0.5)

    functional = torch.nn.functional
    with torch.inference_mode():
        image = functional.conv2d(tensor(2, 3, 64, 64), tensor(16, 3, 5, 5), stride=2, padding=2)
        image = functional.conv2d(functional.relu(image), tensor(32, 16, 3, 3), padding=1)
        yield image.numpy()
        tokens = functional.layer_norm(image.flatten(2).transpose(1, 2)[:, :64], (32,))
        yield functional.scaled_dot_product_attention(tokens, tokens, tokens).numpy()
        hidden = functional.gelu(tokens @ tensor(32, 48))
        yield from (hidden.numpy(), functional.softmax(hidden, -1).numpy(), torch.tanh(hidden).numpy())


def _frame() -> Iterator[Any]:
    """Yield a frame of the settled scene, colours and depth."""
    import mujoco

    model, data = [*_settled_scene()][-1]
    renderer = mujoco.Renderer(model, 128, 128)
    renderer.update_scene(data, camera="side")
    yield renderer.render()
    renderer.enable_depth_rendering()
    yield renderer.render()
    renderer.close()


_COMPUTATIONS: Mapping[str, Callable[[], Iterator[Any]]] = {
    "blas": _blas,
    "controller": _controller,
    "physics": _physics,
    "torch": _torch,
    "frame": _frame,  # last, since a graphics driver may end the process
}
PARTS: tuple[str, ...] = tuple(_COMPUTATIONS)


def _main(parts: Sequence[str]) -> None:
    """Print the hash of each part as soon as it is computed."""
    for name in parts:
        computation = _COMPUTATIONS[name]
        state = hashlib.blake2b(digest_size=8)
        try:
            for value in computation():
                array = np.ascontiguousarray(value)
                state.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
        except Exception as error:  # noqa: BLE001 (libraries and drivers raise anything; the part is named as absent)
            print(f"{name}: {error}", file=sys.stderr)
            continue
        print(json.dumps([name, state.hexdigest()]), flush=True)


if __name__ == "__main__":
    _main(sys.argv[1:])
