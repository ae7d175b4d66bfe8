"""The skills of the scripted expert: which way-points solve a task.

`Phase` is one leg of a motion, `pick_and_place` and `turn_knob` write the legs of the two kinds of task, and
`SKILLS` holds the legs of the paper's eight tasks by (suite, task). `missing` makes legs that fail. `anchors` tells
what a skill is about. `hand_target` turns the object poses of an observation into the point that a leg aims at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from roep_gym.error import InvalidInputError
from roep_gym.typing import FloatArray

__all__ = ["SKILLS", "Phase", "anchors", "hand_target", "missing", "pick_and_place", "turn_knob"]

OPEN, CLOSED = -1.0, 1.0
_MISS_DISTANCE = 0.03
TABLE = 0.90
"""Height of the table top of libero_goal, in metres; the floor of libero_object lies at 0."""


@dataclass(frozen=True)
class Phase:
    """One leg of a motion; it ends within its tolerances, or after its most steps.

    Attributes:
        name: Name of the leg.
        height: Height of the hand, in metres.
        most_steps: The leg ends after so many steps at the latest.
        gripper: Gripper command, -1 open, +1 close.
        anchor: Object, fixture or site above which the hand goes; None keeps the last point.
        offset: Offset (x, y) from the anchor, in metres.
        tolerance_xy: Horizontal distance that ends the leg, in metres; None: any.
        tolerance_z: Vertical distance that ends the leg, in metres; None: the leg takes its most steps.
        yaw: Turn of the hand about the vertical, in radians.
        confirmed: Whether the leg ends on an observation alone, not on the predicted motion within a chunk.
    """

    name: str
    height: float
    most_steps: int
    gripper: float
    anchor: str | None = None
    offset: tuple[float, float] = (0.0, 0.0)
    tolerance_xy: float | None = None
    tolerance_z: float | None = None
    yaw: float = 0.0
    confirmed: bool = False

    def reached(self, distance: FloatArray) -> bool:
        """Return whether the leg ends at this distance (3,) between hand and target, in metres."""
        if self.tolerance_z is None:
            return False
        near = self.tolerance_xy is None or float(np.hypot(distance[0], distance[1])) < self.tolerance_xy
        return near and abs(float(distance[2])) < self.tolerance_z


def pick_and_place(
    item: str,
    receptacle: str,
    *,
    grasp: float,
    hover: float,
    lift: float,
    place: float,
    surface: float = 0.0,
    grasp_offset: tuple[float, float] = (0.0, 0.0),
    place_offset: tuple[float, float] = (0.0, 0.0),
) -> tuple[Phase, ...]:
    """Return the legs that bring an item to a receptacle.

    Args:
        item: Object to grasp.
        receptacle: Object or site to release it over.
        grasp: Height of the hand at the grasp, above `surface`, as are `hover`, `lift` and `place`, in metres.
        hover: Height above the item before the descent.
        lift: Height of the transport.
        place: Height of the release.
        surface: Height of the table or floor.
        grasp_offset: Offset (x, y) of the hand from the item's origin at the grasp.
        place_offset: Offset (x, y) of the hand from the receptacle's origin at the release.
    """
    grasp, hover, lift, place = surface + grasp, surface + hover, surface + lift, surface + place
    return (
        Phase("hover", hover, 60, OPEN, item, grasp_offset, 0.01, 0.02, confirmed=True),
        Phase("descend", grasp, 40, OPEN, tolerance_xy=0.008, tolerance_z=0.006, confirmed=True),
        Phase("close", grasp, 12, CLOSED),
        Phase("lift", lift, 40, CLOSED, tolerance_z=0.03),
        Phase("move", lift, 70, CLOSED, receptacle, place_offset, 0.012, 0.04),
        Phase("lower", place, 40, CLOSED, tolerance_xy=0.01, tolerance_z=0.008),
        Phase("open", place, 10, OPEN),
        Phase("retreat", lift, 30, OPEN, tolerance_z=0.02),
    )


def turn_knob(
    fixture: str,
    *,
    grasp: float,
    hover: float,
    yaw: float,
    turn: float,
    surface: float,
    offset: tuple[float, float],
) -> tuple[Phase, ...]:
    """Return the legs that grasp a knob from above and turn it.

    The hand comes from the front, since the knob lies close to the robot, where an overshoot folds the arm up.

    Args:
        fixture: Fixture whose origin is the knob.
        grasp: Height of the hand at the grasp, above `surface`, as is `hover`, in metres.
        hover: Height above the knob before the descent.
        yaw: Turn of the hand at the grasp, in radians; it keeps the arm away from the limits of its joints.
        turn: Turn of the knob, in radians.
        surface: Height of the table.
        offset: Offset (x, y) of the hand from the fixture's origin.
    """
    grasp, hover = surface + grasp, surface + hover
    before = (offset[0] + 0.07, offset[1])
    return (
        Phase("approach", hover + 0.04, 60, OPEN, fixture, before, 0.03, 0.03, yaw, confirmed=True),
        Phase("hover", hover, 40, OPEN, fixture, offset, 0.01, 0.02, yaw, confirmed=True),
        Phase("descend", grasp, 40, OPEN, tolerance_xy=0.008, tolerance_z=0.008, yaw=yaw, confirmed=True),
        Phase("close", grasp, 6, CLOSED, yaw=yaw),
        Phase("turn", grasp, 40, CLOSED, yaw=yaw + turn),
        Phase("open", grasp, 10, OPEN, yaw=yaw + turn),
        Phase("retreat", hover, 30, OPEN, tolerance_z=0.02, yaw=yaw + turn),
    )


_RIM = (0.0, 0.05)
"""The bowl is held at its rim, so the hand stays this far from the bowl's centre at both ends."""

SKILLS: Mapping[tuple[str, str], tuple[Phase, ...]] = {
    ("libero_goal", "put_the_cream_cheese_in_the_bowl"): pick_and_place(
        "cream_cheese_1", "akita_black_bowl_1", surface=TABLE, grasp=0.010, hover=0.10, lift=0.20, place=0.07,
        grasp_offset=(0.0, 0.006), place_offset=(0.0, 0.006),
    ),
    ("libero_goal", "put_the_bowl_on_top_of_the_cabinet"): pick_and_place(
        "akita_black_bowl_1", "wooden_cabinet_1_top_side", surface=TABLE, grasp=0.025, hover=0.12, lift=0.38,
        place=0.28, grasp_offset=_RIM, place_offset=_RIM,
    ),
    ("libero_goal", "turn_on_the_stove"): turn_knob(
        "flat_stove_1", surface=TABLE, grasp=0.060, hover=0.10, yaw=0.6, turn=1.0, offset=(0.01, 0.0)
    ),
    ("libero_goal", "put_the_bowl_on_the_plate"): pick_and_place(
        "akita_black_bowl_1", "plate_1", surface=TABLE, grasp=0.025, hover=0.12, lift=0.20, place=0.045,
        grasp_offset=_RIM, place_offset=_RIM,
    ),
    ("libero_object", "pick_up_the_bbq_sauce_and_place_it_in_the_basket"): pick_and_place(
        "bbq_sauce_1", "basket_1", grasp=0.075, hover=0.17, lift=0.28, place=0.19
    ),
    ("libero_object", "pick_up_the_cream_cheese_and_place_it_in_the_basket"): pick_and_place(
        "cream_cheese_1", "basket_1", grasp=0.010, hover=0.10, lift=0.25, place=0.15, grasp_offset=(-0.012, 0.004)
    ),
    ("libero_object", "pick_up_the_salad_dressing_and_place_it_in_the_basket"): pick_and_place(
        "salad_dressing_1", "basket_1", grasp=0.113, hover=0.21, lift=0.28, place=0.20
    ),
    ("libero_object", "pick_up_the_tomato_sauce_and_place_it_in_the_basket"): pick_and_place(
        "tomato_sauce_1", "basket_1", grasp=0.045, hover=0.15, lift=0.27, place=0.17
    ),
}  # fmt: skip
"""The legs that solve the paper's eight tasks, by (suite, LIBERO's task name)."""


def anchors(suite: str, task: str) -> tuple[str, str]:
    """Return what a task's skill aims at: the object and the receptacle, or twice the fixture of a knob."""
    named = [phase.anchor for phase in SKILLS[suite, task] if phase.anchor is not None]
    return named[0], named[-1]


def missing(phases: tuple[Phase, ...], direction: float) -> tuple[Phase, ...]:
    """Return legs that touch nothing: never below the first leg's height, and aimed 3 cm beside the object.

    Args:
        phases: Legs of a task; the first one approaches the object.
        direction: Direction of the offset, in radians.
    """
    first = phases[0]
    shift = _MISS_DISTANCE * np.array([np.cos(direction), np.sin(direction)])
    legs = []
    for phase in phases:
        x, y = phase.offset + shift if phase.anchor == first.anchor else phase.offset
        legs.append(replace(phase, height=max(phase.height, first.height), offset=(float(x), float(y))))
    return tuple(legs)


def hand_target(phase: Phase, poses: Mapping[str, float], last: tuple[float, float]) -> tuple[float, float]:
    """Return the point (x, y) that a leg aims at, in metres.

    Args:
        phase: The leg.
        poses: Entries of `object_state` by field name.
        last: The point of the leg before.

    Raises:
        InvalidInputError: The observation has no pose of the leg's anchor.
    """
    if phase.anchor is None:
        return last
    try:
        x, y = poses[f"{phase.anchor}_pos_x"], poses[f"{phase.anchor}_pos_y"]
    except KeyError:
        raise InvalidInputError(
            f"Expected the pose of {phase.anchor!r} in the observation object_state, got "
            f"{sorted(name[: -len('_pos_x')] for name in poses if name.endswith('_pos_x'))}; "
            "make the environment with object_state=True."
        ) from None
    return x + phase.offset[0], y + phase.offset[1]
