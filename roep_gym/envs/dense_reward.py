"""A dense reward for LIBERO, made of the goal predicates of the task's problem file.

`GoalPotential` says how far a scene is on its way to the goal, from 0 to 1. `shaped_reward` adds its discounted
difference to the sparse reward (Ng, Harada and Russell 1999), which leaves the order of policies as it was.
`docs/reward.md` explains the stages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mujoco
import numpy as np

from roep_gym.arguments import check_names
from roep_gym.envs.libero_simulation import LiberoSimulation
from roep_gym.error import InfrastructureError
from roep_gym.typing import Array, FloatArray

__all__ = ["PREDICATES", "GoalPotential", "check_goal", "shaped_reward"]

PREDICATES: tuple[str, ...] = ("in", "on", "open", "close", "turnon", "turnoff")
"""Goal predicates that have a potential: all that the 130 tasks of LIBERO use."""

_REACH, _GRASP, _LIFT, _CARRY = 0.25, 0.10, 0.15, 0.30
"""Shares of the stages of placing an object; they end at 0.8, from where lowering it leads to 0.95."""
_OVER, _LOWER = 0.80, 0.15
_TOUCH, _MOVE = 0.30, 0.65
"""Shares of the stages of moving a joint; what is missing to 1 comes when the predicate holds."""

_REACH_SCALE, _HEIGHT_SCALE, _CARRY_SCALE = 0.2, 0.1, 0.2
"""Distances at which a quarter of a stage is done, in metres."""
_CLEARANCE = 0.12
"""Height above its place at which an object is carried, in metres."""
_OBJECT_HALF_WIDTH = 0.02
"""Half the width of the square over an object's origin where something lies on it; LIBERO asks for less than 3 cm."""
_KNOB_RADIUS = 0.06
"""A hinged part whose geoms lie within this distance of the axis is a knob, held from above, in metres."""


def shaped_reward(sparse: float, before: float, after: float, discount: float) -> float:
    """Return the sparse reward plus `discount * after - before` (Ng et al. 1999, equation 2).

    Args:
        sparse: The reward of the step without shaping.
        before: Potential of the state in which the action was taken.
        after: Potential of the state that it led to; 0 where an episode ends without success.
        discount: Discount factor of the learner.
    """
    return sparse + discount * after - before


def check_goal(goal: Sequence[Sequence[str]]) -> None:
    """Refuse a goal, as LIBERO parses it ([["on", "bowl_1", "plate_1"]]), with a predicate that has no potential.

    Raises:
        UnknownNameError: A predicate has no potential.
    """
    names = [name.lower() for name, *_ in goal]
    remedy = "Use reward='sparse' for this task."
    check_names("goal predicate of the dense reward", names, PREDICATES, remedy)


class GoalPotential:
    """The potential of the scene as it is now, a function of the simulator's state alone.

    Predicates that hold count 1, the next one counts its progress, and the mean over all is the potential. The order
    in which they are worked on is: open, then the rest, then what is put on something that is moved itself, then close.

    Args:
        simulation: The simulation after a reset; each reset needs a new potential.

    Raises:
        UnknownNameError: A predicate of the goal has no potential.
        InfrastructureError: LIBERO's predicate on a joint does not change within the joint's range.
    """

    def __init__(self, simulation: LiberoSimulation) -> None:
        self._domain = simulation.domain
        goal = self._domain.parsed_problem["goal_state"]
        check_goal(goal)
        moved = {predicate[1] for predicate in goal if len(predicate) == 3}
        scene = _Scene(simulation)
        self._goal = [(p, _stages(scene, p)) for p in sorted(goal, key=lambda p: _rank(p, moved))]

    def __call__(self) -> float:
        """Return the potential in [0, 1]; 1 if and only if the goal holds."""
        pending = [stages for predicate, stages in self._goal if not self._domain._eval_predicate(predicate)]
        done = len(self._goal) - len(pending)
        return (done + (pending[0].progress() if pending else 0.0)) / len(self._goal)


def _rank(predicate: Sequence[str], moved: set[str]) -> int:
    name = predicate[0].lower()
    if name in ("open", "close"):
        return 0 if name == "open" else 3
    return 2 if len(predicate) == 3 and predicate[2] in moved else 1


def _stages(scene: _Scene, predicate: Sequence[str]) -> _Place | _MoveJoints:
    """Return the stages of a predicate; their `progress` is in [0, 1) while it does not hold."""
    name, subject, *place = predicate
    if place:
        return _Place(scene, subject, place[0], on_top=name.lower() == "on")
    return _MoveJoints(scene, name.lower(), subject)


class _Scene:
    """Where hand, objects and regions are."""

    def __init__(self, simulation: LiberoSimulation) -> None:
        self.domain = simulation.domain
        self.model, self.data = simulation.model._model, simulation.data._data
        self.names = simulation.model
        robot = self.domain.robots[0]
        self._hand = self.data.site_xpos[robot.eef_site_id]
        geoms = robot.gripper.important_geoms
        self._fingers = [self._geoms(geoms[f"{side}_finger"]) for side in ("left", "right")]

    def distance_to_hand(self, point: FloatArray) -> float:
        """Return the distance of a point (3,) from between the finger tips, in metres."""
        return float(np.linalg.norm(point - self._hand))

    def body(self, name: str) -> FloatArray:
        """Return the position (3,) of an object, which follows the simulation."""
        position: FloatArray = self.data.xpos[self.domain.obj_body_id[name]]
        return position

    def contact_geoms(self, name: str) -> Array:
        """Return the numbers of an object's geoms that can be touched."""
        return self._geoms(self.domain.get_object(name).contact_geoms)

    def held(self, geoms: Array) -> bool:
        """Return whether both fingers touch any of the geoms."""
        pairs = self.data.contact.geom
        touching = np.isin(pairs, geoms)
        others = pairs[touching.any(axis=1)]
        return all(bool(np.isin(others, finger).any()) for finger in self._fingers)

    def _geoms(self, names: Sequence[str]) -> Array:
        return np.array([self.names.geom_name2id(name) for name in names], dtype=np.intp)


class _Place:
    """Reach an object, grasp it, lift and carry it over its place, lower it."""

    def __init__(self, scene: _Scene, item: str, place: str, *, on_top: bool) -> None:
        self._scene, self._on_top = scene, on_top
        self._item, self._geoms = scene.body(item), scene.contact_geoms(item)
        self._is_region = place in scene.domain.object_sites_dict
        if self._is_region:
            self._site = int(scene.names.site_name2id(place))
            self._size = np.asarray(scene.domain.object_sites_dict[place].size, dtype=np.float64)
        else:
            self._support = scene.body(place)

    def progress(self) -> float:
        place, half = self._place()
        offset = self._item - place
        beside = float(np.linalg.norm(np.maximum(np.abs(offset[:2]) - half[:2], 0.0)))
        if beside == 0.0 and offset[2] > -half[2]:
            return _OVER + _LOWER * _closeness(abs(float(offset[2])), _HEIGHT_SCALE)
        if not self._scene.held(self._geoms):
            return _REACH * _closeness(self._scene.distance_to_hand(self._item), _REACH_SCALE)
        lift = _closeness(max(_CLEARANCE - float(offset[2]), 0.0), _HEIGHT_SCALE)
        return _REACH + _GRASP + lift * (_LIFT + _CARRY * _closeness(beside, _CARRY_SCALE))

    def _place(self) -> tuple[FloatArray, FloatArray]:
        """Return where the object belongs (3,) and half the extent (3,) of that place along the world's axes."""
        if not self._is_region:
            return self._support, np.array([_OBJECT_HALF_WIDTH, _OBJECT_HALF_WIDTH, 0.02])
        data = self._scene.data
        half = np.abs(data.site_xmat[self._site].reshape(3, 3) @ self._size)
        height = half[2] if self._on_top else 0.0
        return data.site_xpos[self._site] + [0.0, 0.0, height], half


class _MoveJoints:
    """Reach the handle of a drawer, door or knob, and move it until the predicate holds."""

    def __init__(self, scene: _Scene, predicate: str, name: str) -> None:
        region = scene.domain.object_sites_dict.get(name)
        part = scene.domain.get_object(name if region is None else region.parent_name)
        joints = [scene.names.joint_name2id(joint) for joint in (part if region is None else region).joints]
        lights = dict(part.object_properties["vis_site_names"])
        holds = getattr(part, _METHODS[predicate])
        self._scene = scene
        self._travels = [_travel(scene, joint, holds) for joint in joints]
        self._worst = np.argmin if predicate in _OF_ALL_JOINTS else np.argmax
        part.object_properties["vis_site_names"].update(lights)  # asking about a stove's knob also lights it

    def progress(self) -> float:
        done = [travel.done(self._scene) for travel in self._travels]
        decisive = int(self._worst(done))
        handle = self._scene.data.geom_xpos[self._travels[decisive].grip]
        return (
            _TOUCH * _closeness(self._scene.distance_to_hand(handle), _REACH_SCALE) + _MOVE * done[decisive]
        )


_METHODS = {"open": "is_open", "close": "is_close", "turnon": "turn_on", "turnoff": "turn_off"}
_OF_ALL_JOINTS = ("close", "turnoff")


@dataclass(frozen=True)
class _Travel:
    """The way of one joint to where a predicate holds.

    Attributes:
        address: Place of the joint in qpos.
        threshold: Joint position from which the predicate holds.
        span: Signed distance from the far end of the joint's range to the threshold.
        grip: Geom that the hand holds.
    """

    address: int
    threshold: float
    span: float
    grip: int

    def done(self, scene: _Scene) -> float:
        """Return how much of the way is done, in [0, 1]."""
        return float(np.clip(1.0 - (self.threshold - scene.data.qpos[self.address]) / self.span, 0.0, 1.0))


def _travel(scene: _Scene, joint: int, holds: Callable[[float], bool]) -> _Travel:
    """Find out between which joint positions a predicate of LIBERO changes."""
    model = scene.model
    low, high = model.jnt_range[joint]
    slack = 0.05 * (high - low)  # a limit is soft, and some predicates hold only beyond it
    outside, inside = (low - slack, high + slack) if holds(high + slack) else (high + slack, low - slack)
    if holds(outside) or not holds(inside):
        raise InfrastructureError(
            f"Expected a goal that a movement of the joint {model.joint(joint).name!r} reaches, got one that holds "
            "everywhere or nowhere."
        )
    start = outside
    for _ in range(50):
        middle = 0.5 * (outside + inside)
        outside, inside = (outside, middle) if holds(middle) else (middle, inside)
    return _Travel(int(model.jnt_qposadr[joint]), inside, inside - start, _grip_geom(scene, joint))


def _grip_geom(scene: _Scene, joint: int) -> int:
    """Return the geom to hold: a drawer's foremost, a door's farthest from the hinge, a knob's highest."""
    model, data = scene.model, scene.data
    geoms = np.flatnonzero(model.geom_bodyid == model.jnt_bodyid[joint])
    lever, axis = data.geom_xpos[geoms] - data.xanchor[joint], data.xaxis[joint]
    along = lever @ axis
    if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_SLIDE:
        low, high = model.jnt_range[joint]
        return int(geoms[np.argmax(along if high > -low else -along)])
    radius = np.linalg.norm(lever - np.outer(along, axis), axis=1)
    return int(geoms[np.argmax(lever[:, 2] if radius.max() < _KNOB_RADIUS else radius)])


def _closeness(distance: float, scale: float) -> float:
    """Return 1 at no distance, falling to 0."""
    return 1.0 - float(np.tanh(distance / scale))
