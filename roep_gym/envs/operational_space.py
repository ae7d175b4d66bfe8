"""The compiled part of the operational-space controller: robosuite's kernels in one call.

Imports Numba and robosuite, and is compiled at its first use; Numba keeps the result on disk, as it does for
robosuite's kernels.
"""

from __future__ import annotations

import numba
from robosuite.utils.control_utils import nullspace_torques, opspace_matrices, orientation_error

from roep_gym.typing import FloatArray

__all__ = ["control_terms"]


@numba.njit(cache=True)  # without fastmath: every operation is rounded as NumPy rounds it
def control_terms(
    jacobian: FloatArray,
    first: int,
    mass: FloatArray,
    j_full: FloatArray,
    j_pos: FloatArray,
    j_ori: FloatArray,
    goal_pos: FloatArray,
    goal_ori: FloatArray,
    position: FloatArray,
    rotation: FloatArray,
    velocities: FloatArray,
    gains: FloatArray,
    initial_joint: FloatArray,
    joint_pos: FloatArray,
    joint_vel: FloatArray,
    lambdas: FloatArray,
    wrench: FloatArray,
    null: FloatArray,
) -> None:
    """Compute the terms of the torques, into the last three arguments.

    Args:
        jacobian: Of the end effector's position and orientation, (2, 3, degrees of freedom).
        first: The arm's first degree of freedom.
        mass: Inertia of the arm, (7, 7), Fortran order like the next three.
        j_full: Room for the arm's Jacobian, (6, 7), which is filled in.
        j_pos: Room for its position part, (3, 7).
        j_ori: Room for its orientation part, (3, 7).
        goal_pos: Goal position in metres, (3,).
        goal_ori: Goal orientation, (3, 3).
        position: Position of the end effector, (3,).
        rotation: Orientation of the end effector, (3, 3).
        velocities: Linear and angular velocity of the end effector, (2, 3).
        gains: Stiffness and damping, (2, 6).
        initial_joint: Joint angles that the null space pulls to, (7,).
        joint_pos: Joint angles, (7,).
        joint_vel: Joint velocities, (7,).
        lambdas: Operational-space inertias of position and orientation, (2, 3, 3).
        wrench: Desired force and torque before decoupling, (2, 3).
        null: Torques in the null space, (7,).
    """
    for row in range(3):
        for joint in range(j_pos.shape[1]):
            linear, angular = jacobian[0, row, first + joint], jacobian[1, row, first + joint]
            j_pos[row, joint] = j_full[row, joint] = linear
            j_ori[row, joint] = j_full[3 + row, joint] = angular
    turn = orientation_error(goal_ori, rotation)
    for axis in range(3):
        error = goal_pos[axis] - position[axis]
        wrench[0, axis] = error * gains[0, axis] + -velocities[0, axis] * gains[1, axis]
        wrench[1, axis] = turn[axis] * gains[0, 3 + axis] + -velocities[1, axis] * gains[1, 3 + axis]
    _, lambdas[0], lambdas[1], nullspace = opspace_matrices(mass, j_full, j_pos, j_ori)
    null[:] = nullspace_torques(mass, nullspace, initial_joint, joint_pos, joint_vel)
