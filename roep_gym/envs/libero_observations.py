"""What a LIBERO observation consists of, known from the problem file before anything is built.

`PROPRIO` is the layout of the proprioception, `CONTROLLER_FIELDS` that of the controller's pose, `SceneEntities` names
what `object_state` holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from roep_gym.envs.libero_simulation import LiberoSimulation
from roep_gym.envs.task_catalog import WORKSPACES
from roep_gym.error import InfrastructureError
from roep_gym.typing import Array

__all__ = [
    "CONTROLLER_FIELDS",
    "POSE_AXES",
    "PROPRIO",
    "PROPRIO_FIELDS",
    "SceneEntities",
    "controller_pose",
    "object_state",
    "proprio",
    "read_entities",
]

PROPRIO: tuple[tuple[str, int], ...] = (
    ("joint_pos", 7),
    ("joint_vel", 7),
    ("eef_pos", 3),
    ("eef_quat", 4),
    ("gripper_qpos", 2),
    ("gripper_qvel", 2),
)
"""Parts of `proprio` in order, robosuite's `robot0_*`: radians, radians/s, metres, quaternion xyzw, metres, m/s."""

_AXES = {"eef_pos": "xyz", "eef_quat": "xyzw"}
PROPRIO_FIELDS: tuple[str, ...] = tuple(
    f"{name}_{_AXES[name][i] if name in _AXES else i}" for name, size in PROPRIO for i in range(size)
)
CONTROLLER_FIELDS: tuple[str, ...] = tuple(
    f"{part}_{axis}" for part in ("pos", "x_axis", "y_axis") for axis in "xyz"
)
"""Entries of `controller_pose`."""
POSE_AXES = ("pos_x", "pos_y", "pos_z", "quat_x", "quat_y", "quat_z", "quat_w")
"""Entries of a pose in `object_state`."""


@dataclass(frozen=True)
class SceneEntities:
    """The movable objects, the fixtures and the fixtures' regions of a problem, by LIBERO's names."""

    objects: tuple[str, ...]
    fixtures: tuple[str, ...]
    regions: tuple[str, ...]
    of_interest: tuple[str, ...]

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """Names of the entries of `object_state`: a pose each, position in metres and quaternion xyzw."""
        return tuple(
            f"{name}_{axis}" for name in self.objects + self.fixtures + self.regions for axis in POSE_AXES
        )


def read_entities(bddl_file: Path) -> SceneEntities:
    """Read the entities of a problem file.

    Regions of a table are left out: they say where objects start, not where something is.
    """
    from bddl.parsing import scan_tokens

    sections: dict[str, list[Any]] = {
        group[0]: group[1:] for group in scan_tokens(filename=str(bddl_file))[1:]
    }
    objects, fixtures = _instances(sections[":objects"]), _instances(sections[":fixtures"], skip=WORKSPACES)
    regions = []
    for region, *attributes in sections.get(":regions", []):
        target = next(a[1] for a in attributes if a[0] == ":target")
        if target in objects + fixtures:
            regions.append(f"{target}_{region}")
    return SceneEntities(objects, fixtures, tuple(regions), tuple(sections.get(":obj_of_interest", ())))


def _instances(tokens: list[str], skip: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Return the names of a typed list such as ["a", "b", "-", "bowl"], without those of the types in `skip`."""
    names: list[str] = []
    pending: list[str] = []
    stream = iter(tokens)
    for token in stream:
        if token == "-":
            if next(stream) not in skip:
                names += pending
            pending = []
        else:
            pending.append(token)
    return tuple(names + pending)


def proprio(simulation: LiberoSimulation) -> Array:
    """Return the proprioception, float32 in the order of `PROPRIO_FIELDS`."""
    return np.concatenate([simulation.observe(f"robot0_{name}") for name, _ in PROPRIO]).astype(np.float32)


def controller_pose(simulation: LiberoSimulation) -> Array:
    """Return the pose of the site that the controller moves, float64 in the order of `CONTROLLER_FIELDS`.

    Position in metres, and the first two columns of the rotation matrix. It is what robosuite's `controller.ee_pos` and
    `controller.ee_ori_mat` hold after a control step: the pose before the last of its substeps.
    """
    site = simulation.model.site_name2id(simulation.domain.robots[0].controller.eef_name)
    matrix = simulation.data.site_xmat[site].reshape(3, 3)
    return np.concatenate([simulation.data.site_xpos[site], matrix[:, 0], matrix[:, 1]]).astype(np.float64)


def object_state(simulation: LiberoSimulation, entities: SceneEntities) -> Array:
    """Return the privileged poses, float64 in the order of `entities.fields`.

    Objects are read from robosuite's observables, hence as old as the proprioception; fixtures and regions, which
    robosuite does not observe, at the end of the control step.
    """
    model, data, domain = simulation.model, simulation.data, simulation.domain
    poses: list[Array] = []
    for name in entities.objects:
        poses += [simulation.observe(f"{name}_pos"), simulation.observe(f"{name}_quat")]
    for name in entities.fixtures:
        body = domain.obj_body_id[name]
        poses += [data.body_xpos[body], data.body_xquat[body][[1, 2, 3, 0]]]
    for name in entities.regions:
        if name not in domain.object_sites_dict:
            raise InfrastructureError(
                f"Expected the region {name!r} of the problem file to have a site in the scene."
            )
        site = model.site_name2id(name)
        poses += [data.site_xpos[site], _quaternion(data.site_xmat[site])]
    return np.concatenate(poses).astype(np.float64)


def _quaternion(matrix: Array) -> Array:
    import mujoco

    quaternion = np.empty(4)
    mujoco.mju_mat2Quat(quaternion, np.ascontiguousarray(matrix, dtype=np.float64).ravel())
    return quaternion[[1, 2, 3, 0]]
