"""Scenes of real LIBERO with known places, to learn localisation from.

`collect` rolls the scripted expert out on sampled placements, which no evaluation uses, and draws the camera that
the policy will look at; until the object is held, it also draws the same moment with everything moved elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from roep_gym import seeding
from roep_gym.envs.libero_env import LiberoEnv
from roep_gym.envs.libero_simulation import LiberoSimulation
from roep_gym.envs.placement import displace
from roep_gym.policies.base import PolicyEpisode, PolicyInput
from roep_gym.policies.expert import ExpertPolicy
from roep_gym.policies.expert_skills import CLOSED, anchors
from roep_gym.policies.visuomotor.network import CAMERA, IMAGE_SIZE
from roep_gym.typing import Array, FloatArray

__all__ = ["CollectionConfig", "Scenes", "collect", "load", "save"]

_MOST_STEPS = 220


@dataclass(frozen=True)
class CollectionConfig:
    """How scenes are collected.

    Attributes:
        rollouts: Expert rollouts a task, each on a placement of its own.
        interval: Steps between two frames of a rollout.
        moved_frames: Further frames, with everything moved, beside each frame before the grasp.
        most_shift: Radius of the disc from which displacements are drawn, in metres.
        noise: Standard deviation of the noise on the expert's actions in every second rollout.
        seed: Names the collection; another seed draws other placements.
    """

    rollouts: int = 40
    interval: int = 4
    moved_frames: int = 3
    most_shift: float = 0.06
    noise: float = 0.2
    seed: int = 0


class Scenes(NamedTuple):
    """Frames and what they show.

    Attributes:
        images: uint8 (n, size, size, 3), upright.
        places: float32 (n, 4), x and y of the object and x and y of the receptacle, in metres.
        points: float32 (n, 2, 2), row and column of object and receptacle in the image, from -1 (top, left) to 1.
        held: bool (n,), whether the hand has closed on the object, whose place nobody asks for any more.
        rollouts: int32 (n,), the rollout of each frame.
    """

    images: Array
    places: FloatArray
    points: FloatArray
    held: Array
    rollouts: Array


class _Frame(NamedTuple):
    image: Array
    places: FloatArray
    points: FloatArray
    held: bool


def collect(suite: str, task: str, config: CollectionConfig) -> Scenes:
    """Collect the scenes of one task of LIBERO; a pure function of its arguments."""
    env = LiberoEnv(
        task, suite, cameras=[], object_state=True, initial_states="sampled", render_mode="rgb_array"
    )
    frames: list[_Frame] = []
    rollouts: list[int] = []
    try:
        for rollout in range(config.rollouts):
            frames += _roll_out(env, rollout, config)
            rollouts += [rollout] * (len(frames) - len(rollouts))
    finally:
        env.close()
    images, places, points, held = zip(*frames, strict=True)
    return Scenes(
        np.array(images),
        np.array(places, dtype=np.float32),
        np.array(points, dtype=np.float32),
        np.array(held),
        np.array(rollouts, dtype=np.int32),
    )


def save(path: Path, scenes: Scenes) -> None:
    """Write scenes to a NumPy archive."""
    np.savez(path, **scenes._asdict())


def load(path: Path) -> Scenes:
    """Read scenes from a NumPy archive."""
    with np.load(path) as archive:
        return Scenes(*(archive[name] for name in Scenes._fields))


def _roll_out(env: LiberoEnv, rollout: int, config: CollectionConfig) -> Iterator[_Frame]:
    key: tuple[seeding.Key, ...] = ("visuomotor", "collect", config.seed, env.suite, env.task, rollout)
    random = seeding.generator(*key)
    env.placement_shift = config.most_shift * float(np.sqrt(random.uniform()))
    observation, _ = env.reset(seed=seeding.seed(*key))
    expert = ExpertPolicy(noise=config.noise if rollout % 2 else 0.0)
    seed = seeding.seed(*key, "expert")
    expert.begin(PolicyEpisode("rollout", env.suite, env.task, env.instruction, seed, env.observation_fields))
    targets = anchors(env.suite, env.task)
    simulation = env._built()
    held = False
    for step in range(_MOST_STEPS):
        (chunk,) = expert.act([PolicyInput("rollout", step, env.instruction, observation)])
        held = held or chunk[0, 6] == CLOSED
        if step % config.interval == 0:
            yield _frame(simulation, targets, held)
            if not held:
                for _ in range(config.moved_frames):
                    yield _moved_frame(env, simulation, targets, config.most_shift, random)
        observation, _, terminated, _, _ = env.step(chunk[0])
        if terminated:
            break


def _moved_frame(
    env: LiberoEnv,
    simulation: LiberoSimulation,
    targets: tuple[str, str],
    most_shift: float,
    random: np.random.Generator,
) -> _Frame:
    """Return a frame of the present moment with objects and fixtures moved; the simulation is as before afterwards."""
    data, model = simulation.data, simulation.model
    positions, body_positions = data.qpos.copy(), model.body_pos.copy()
    displacements = {}
    for name in env._entities.objects + env._entities.fixtures:
        direction, radius = random.uniform(0.0, 2.0 * np.pi), most_shift * np.sqrt(random.uniform())
        displacements[name] = radius * np.array([np.cos(direction), np.sin(direction)])
    displace(simulation, displacements)
    seen = _frame(simulation, targets, held=False)
    data.qpos[:], model.body_pos[:] = positions, body_positions
    simulation.domain.sim.forward()
    return seen


def _frame(simulation: LiberoSimulation, targets: tuple[str, str], held: bool) -> _Frame:
    positions = [_position(simulation, name) for name in targets]
    return _Frame(
        simulation.render(CAMERA, IMAGE_SIZE),
        np.concatenate([position[:2] for position in positions]),
        np.array([_point(simulation, position) for position in positions]),
        held,
    )


def _point(simulation: LiberoSimulation, position: FloatArray) -> FloatArray:
    """Return row and column of a position in the camera's image, from -1 to 1 within it."""
    model, data = simulation.model, simulation.data
    camera = model.camera_name2id(CAMERA)
    right, up, backward = data.cam_xmat[camera].reshape(3, 3).T @ (position - data.cam_xpos[camera])
    extent = -backward * np.tan(np.deg2rad(model.cam_fovy[camera]) / 2.0)
    return np.array([-up / extent, right / extent])


def _position(simulation: LiberoSimulation, name: str) -> FloatArray:
    body = simulation.domain.obj_body_id.get(name)
    if body is not None:
        return np.array(simulation.data.body_xpos[body])
    return np.array(simulation.data.site_xpos[simulation.model.site_name2id(name)])
