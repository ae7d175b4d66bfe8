"""How the scripted expert turns legs into actions.

`plan` writes the next actions from one look at the hand and the objects, with position control on the predicted
motion of the hand. `MotionState` is all that is carried from one step to the next, `PlannedMotion` carries it from
chunk to chunk. The constants describe robosuite's OSC_POSE controller at 20 Hz as LIBERO configures it, and were
fitted to rollouts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from roep_gym.policies.expert_skills import Phase, hand_target
from roep_gym.typing import FloatArray

__all__ = ["HandPose", "MotionState", "Plan", "PlannedMotion", "plan"]

METRES_PER_ACTION, RADIANS_PER_ACTION = 0.05, 0.5
"""What a full action asks of the controller."""
_TERMINAL_SPEED = np.array([0.011, 0.013, 0.013, 0.1, 0.1, 0.1])
"""What the hand covers in one step under a full action once it is up to speed, in metres and radians."""
_ACCELERATION = np.array([0.33, 0.43, 0.45, 0.4, 0.4, 0.4])
"""Share of the way to the commanded speed that one step covers."""
_GAIN = 2.0
"""Commanded translation for each metre of distance, in metres."""
_BRAKING_STEPS = 2
_TILT = 0.04
"""Rotations below this angle, in radians, are not commanded: the controller then holds the orientation itself."""
_POINTING_DOWN = Rotation.from_quat([1.0, 0.0, 0.0, 0.0])


class HandPose(NamedTuple):
    """Position (3,) in metres and orientation of the hand."""

    position: FloatArray
    rotation: Rotation

    @classmethod
    def from_proprio(cls, proprio: Mapping[str, float]) -> HandPose:
        """Return the pose that the entries of `proprio` tell, by field name."""
        return cls(
            np.array([proprio[f"eef_pos_{axis}"] for axis in "xyz"]),
            Rotation.from_quat([proprio[f"eef_quat_{axis}"] for axis in "xyzw"]),
        )


class MotionState(NamedTuple):
    """The leg, the steps spent in it, the point (x, y) it aims at, and the hand's predicted velocity (6,)."""

    phase: int = 0
    elapsed: int = 0
    aim: tuple[float, float] = (0.0, 0.0)
    velocity: tuple[float, ...] = (0.0,) * 6


class Plan(NamedTuple):
    """Actions (steps, 7) float32 in [-1, 1], and the state before each of them and after the last."""

    actions: FloatArray
    states: list[MotionState]


class PlannedMotion:
    """The motion of one episode; where only a part of a chunk was executed, the next chunk goes on from that part.

    Args:
        phases: The legs of the task.
    """

    def __init__(self, phases: Sequence[Phase]) -> None:
        self._phases = phases
        self._states, self._planned = (
            [MotionState()],
            0,
        )  # the states from the step on at which they were planned

    def chunk(
        self,
        step: int,
        hand: HandPose,
        poses: Mapping[str, float],
        steps: int,
        disturb: Callable[[int], FloatArray] | None = None,
    ) -> FloatArray:
        """Return the next actions (steps, 7) float32 in [-1, 1].

        Args:
            step: The step of the episode at which the first of them is executed.
            hand: The hand at this step.
            poses: As `plan` takes them, and so `disturb`.
            steps: Number of actions.
            disturb: Noise on the actions.
        """
        executed = min(step - self._planned, len(self._states) - 1)
        actions, self._states = plan(self._phases, self._states[executed], hand, poses, steps, disturb)
        self._planned = step
        return actions


def plan(
    phases: Sequence[Phase],
    state: MotionState,
    hand: HandPose,
    poses: Mapping[str, float],
    steps: int,
    disturb: Callable[[int], FloatArray] | None = None,
) -> Plan:
    """Return the next actions.

    Args:
        phases: The legs of the task.
        state: The state now.
        hand: The hand now.
        poses: Object poses by field name.
        steps: Number of actions.
        disturb: Gives the noise (6,) that is added to the motion of the i-th action.
    """
    states, actions = [state], []
    for step in range(steps):
        state, action = _advance(phases, state, hand, poses, seen=step == 0, coming=steps - step)
        if disturb is not None:
            action[:6] = np.clip(action[:6] + disturb(step), -1.0, 1.0)
        velocity = np.asarray(state.velocity)
        velocity = velocity + _ACCELERATION * (action[:6] * _TERMINAL_SPEED - velocity)
        hand = HandPose(hand.position + velocity[:3], Rotation.from_rotvec(velocity[3:]) * hand.rotation)
        state = state._replace(velocity=tuple(velocity.tolist()))
        states.append(state)
        actions.append(action)
    return Plan(np.asarray(actions, dtype=np.float32), states)


def _advance(
    phases: Sequence[Phase],
    state: MotionState,
    hand: HandPose,
    poses: Mapping[str, float],
    *,
    seen: bool,
    coming: int,
) -> tuple[MotionState, FloatArray]:
    """Return the state after one step, and its action (7,).

    `seen` says that the hand was observed and not predicted, `coming` how many actions the chunk still has.
    A confirmed leg ends on an observation alone, and brakes at the end of a chunk: a hand at rest is
    where it was predicted to be.
    """
    while True:
        if state.phase == len(phases):
            return state, np.array([0.0] * 6 + [phases[-1].gripper])
        phase = phases[state.phase]
        aim = hand_target(phase, poses, state.aim)
        distance = np.array([*aim, phase.height]) - hand.position
        ended = phase.reached(distance) and (seen or not phase.confirmed)
        if state.elapsed < phase.most_steps and not ended:
            break
        state = state._replace(phase=state.phase + 1, elapsed=0, aim=aim)
    action = np.zeros(7)
    action[6] = phase.gripper
    if seen or not phase.confirmed or coming > _BRAKING_STEPS:
        turn = (Rotation.from_euler("z", phase.yaw) * _POINTING_DOWN * hand.rotation.inv()).as_rotvec()
        action[:3] = _GAIN * distance / METRES_PER_ACTION
        action[3:6] = turn / RADIANS_PER_ACTION if np.linalg.norm(turn) > _TILT else 0.0
    return state._replace(elapsed=state.elapsed + 1, aim=aim), np.clip(action, -1.0, 1.0)
