"""Scenes whose objects stand elsewhere than in LIBERO's stored initial states.

`shift_placement` moves every object of a scene by a stated distance, in a direction of its own; `is_at_rest` tells
whether the scene that came out is a physically valid one. The official states of a task differ by a centimetre or
two, so a policy that always aims at the mean pose can solve them: only shifted scenes show that images are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from roep_gym import seeding
from roep_gym.envs.libero_observations import SceneEntities
from roep_gym.envs.libero_simulation import LiberoSimulation
from roep_gym.typing import FloatArray

__all__ = ["MAX_SETTLE_DISPLACEMENT", "displace", "is_at_rest", "shift_placement"]

MAX_SETTLE_DISPLACEMENT = 0.01
"""An object that moves farther sideways while it settles, in metres, was pushed or fell over."""


def shift_placement(
    simulation: LiberoSimulation, entities: SceneEntities, distance: float, key: Sequence[seeding.Key]
) -> None:
    """Move every object by `distance` in a drawn direction, and so the fixtures that the task is about.

    Called right after a reset. What lies on or in something else moves with it. `distance` is horizontal, in metres;
    the directions are a pure function of the key, for example of scene seed and initial state.
    """
    supports = _supports(simulation.domain.parsed_problem["initial_state"], entities)
    displacements = {}
    for name in entities.objects + entities.fixtures:
        root = _root(name, supports)
        if root in entities.fixtures and root not in entities.of_interest:
            continue
        direction = seeding.generator("placement shift", *key, root).uniform(0.0, 2.0 * np.pi)
        displacements[name] = distance * np.array([np.cos(direction), np.sin(direction)])
    displace(simulation, displacements)


def displace(simulation: LiberoSimulation, displacements: Mapping[str, FloatArray]) -> None:
    """Move objects and fixtures, with whatever that leads to: nothing is asked about contacts.

    `displacements` are horizontal, (2,) in metres, by LIBERO's name of the object or fixture.
    """
    domain, model, data = simulation.domain, simulation.model, simulation.data
    for name, displacement in displacements.items():
        if name in domain.objects_dict:
            joint = domain.objects_dict[name].joints[-1]
            pose = np.array(data.get_joint_qpos(joint))
            pose[:2] += displacement
            data.set_joint_qpos(joint, pose)
        else:
            model.body_pos[model.body_name2id(domain.fixtures_dict[name].root_body), :2] += displacement
    domain.sim.forward()


def is_at_rest(simulation: LiberoSimulation, entities: SceneEntities, settle_displacement: float) -> bool:
    """Return whether a shifted scene is valid once it has settled: nothing was pushed aside, fell over or onto another.

    `settle_displacement` is the farthest that an object moved sideways while settling, in metres.
    """
    if settle_displacement > MAX_SETTLE_DISPLACEMENT:
        return False
    supports = _supports(simulation.domain.parsed_problem["initial_state"], entities)
    return all(_root(a, supports) == _root(b, supports) for a, b in _touching(simulation, entities))


def _supports(initial_state: Sequence[Sequence[str]], entities: SceneEntities) -> Mapping[str, str]:
    """Return what each thing lies on or in, for those that do not stand on the table or the floor."""
    names = entities.objects + entities.fixtures
    supports = {}
    for predicate, *arguments in initial_state:
        if predicate.lower() in ("on", "in") and len(arguments) == 2:
            thing, place = arguments
            under = [n for n in names if n != thing and (place == n or place.startswith(f"{n}_"))]
            if under:
                supports[thing] = max(under, key=len)
    return supports


def _root(name: str, supports: Mapping[str, str]) -> str:
    while name in supports:
        name = supports[name]
    return name


def _touching(simulation: LiberoSimulation, entities: SceneEntities) -> Iterator[tuple[str, str]]:
    """Yield the pairs of things that touch; a pair of fixtures is none."""
    domain, model, data = simulation.domain, simulation.model, simulation.data
    owner = {int(domain.obj_body_id[name]): name for name in entities.objects + entities.fixtures}
    for geoms in data._data.contact.geom.tolist():
        first, second = (owner.get(_top_body(model, geom, owner)) for geom in geoms)
        if first and second and first != second and {first, second} & set(entities.objects):
            yield first, second


def _top_body(model: Any, geom: int, owner: Mapping[int, str]) -> int:
    """Return the nearest ancestor of a geom's body that belongs to a named thing, 0 (the world) without one."""
    body = int(model.geom_bodyid[geom])
    while body and body not in owner:
        body = int(model.body_parentid[body])
    return body
