"""LIBERO's control step with the same bits and less work.

In each of the 25 substeps of a control step robosuite evaluates the whole dynamics three times: before the
controller, in the controller, and in the integration. Only the controls change in between, but in MuJoCo 3.3.2
each evaluation starts the constraint solver where the last one ended, so that leaving one out changes the last
bits of the state. `FastStep` keeps the three solutions and leaves out what they have in common: positions and
velocities are computed once. In newer MuJoCo, where only a step moves the solver's start, the last solution
suffices.

Everything else is about Python: names are looked up once, observables are sampled when they are due instead of
asked in each substep, and reward and observation dictionaries that nobody reads are not built.
`tests/test_libero_fast_step.py` compares every step with stock LIBERO.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np

from roep_gym.error import InfrastructureError
from roep_gym.typing import Array, FloatArray

__all__ = ["FastStep", "forward_moves_warm_start"]

_SIDE_EFFECTS = frozenset({"turnon", "turnoff"})  # these predicates also light a stove


class FastStep:
    """The control step of a LIBERO problem, from one reset to the next.

    Args:
        domain: A robosuite environment with one Panda under a fixed-impedance operational-space controller.

    Raises:
        InfrastructureError: The problem has another robot, controller, integrator or sampling than LIBERO's.
    """

    def __init__(self, domain: Any) -> None:
        self._domain = domain
        self._model, self._data = domain.sim.model._model, domain.sim.data._data
        self._substeps = int(domain.control_timestep / domain.model_timestep)
        self._arm = _Arm(domain.robots[0], self._model, self._data)
        self._gripper = _Gripper(domain.robots[0], self._model, self._data)
        self._observables = [o for o in domain._observables.values() if o.is_enabled()]
        self._period = self._observables[0]._sampling_timestep
        clocks = {(o._sampling_timestep, o._current_delay, *_clock(o)) for o in self._observables}
        _require(
            clocks == {(self._period, 0.0, *_clock(self._observables[0]))},
            "one sampling time for all observables",
        )
        _require(self._model.opt.integrator == mujoco.mjtIntegrator.mjINT_EULER, "the Euler integrator")
        self._forward_moves_warm_start = forward_moves_warm_start()
        goal = domain.parsed_problem["goal_state"]
        self._lights = any(predicate[0] in _SIDE_EFFECTS for predicate in goal)

    def step(self, action: FloatArray) -> bool:
        """Run one control step and tell whether the task's goal holds."""
        model, data, domain = self._model, self._data, self._domain
        arm, gripper = self._arm, self._gripper
        if not arm.controller.new_update:
            # The first step after a reset: the controller begins with what it saw before the state was set.
            return bool(domain.step(action)[2])
        time, sampled = _clock(self._observables[0])
        dimension = arm.controller.control_dim
        gripper.command(action[dimension:])
        for substep in range(self._substeps):
            mujoco.mj_step1(model, data)
            if self._forward_moves_warm_start:
                mujoco.mj_fwdActuation(model, data)
                mujoco.mj_fwdAcceleration(model, data)
                mujoco.mj_fwdConstraint(model, data)
                mujoco.mj_fwdConstraint(model, data)  # the controller's evaluation, with the same controls
            if substep == 0:
                arm.set_goal(action[:dimension])
            arm.control()
            gripper.control()
            mujoco.mj_step2(model, data)
            time += domain.model_timestep
            if not sampled and self._period >= time:
                self._sample()
                sampled = True
            if time >= self._period:
                if not sampled:
                    self._sample()
                time %= self._period
                sampled = False
        for observable in self._observables:
            observable._time_since_last_sample, observable._sampled = time, sampled
        gripper.finish()
        domain.timestep += 1
        domain.cur_time += domain.control_timestep
        if self._lights:
            domain._check_success()  # as the reward does
        domain._post_process()
        return bool(domain._check_success())

    def _sample(self) -> None:
        for observable in self._observables:
            observable.update(timestep=0.0, obs_cache=self._domain._obs_cache, force=True)


class _Arm:
    """Robosuite's operational-space controller, with the same floating-point operations in the same order."""

    def __init__(self, robot: Any, model: Any, data: Any) -> None:
        from roep_gym.envs.operational_space import control_terms

        controller = robot.controller
        _require(
            controller.name == "OSC_POSE"
            and controller.impedance_mode == "fixed"
            and controller.uncoupling
            and controller.interpolator_pos is None
            and controller.interpolator_ori is None,
            "a fixed-impedance, uncoupled OSC_POSE controller without interpolation",
        )
        self.controller = controller
        self._model, self._data, self._control_terms = model, data, control_terms
        self._site = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_SITE, controller.eef_name)
        self._position, self._rotation = data.site_xpos[self._site], data.site_xmat[self._site].reshape(3, 3)
        joints, dofs = _run(controller.qpos_index), _run(controller.qvel_index)
        self._joint_pos, self._joint_vel = data.qpos[joints], data.qvel[dofs]
        self._bias, self._velocity = data.qfrc_bias[dofs], data.qvel
        self._torques = data.ctrl[_run(robot._ref_joint_actuator_indexes)]
        self._low, self._high = robot.torque_limits
        self._gains = np.array([controller.kp, controller.kd])
        size = len(controller.qvel_index)
        self._jacobian = np.zeros((2, 3, model.nv))
        self._jacobian_pos, self._jacobian_ori = self._jacobian
        self._first, self._velocities = dofs.start, np.zeros((2, 3))
        # Robosuite's matrices are in Fortran order, on which the order of summation in BLAS depends.
        self._j_pos, self._j_ori = np.zeros((3, size), order="F"), np.zeros((3, size), order="F")
        self._j_full = np.zeros((6, size), order="F")
        self._mass = np.zeros((size, size), order="F")
        self._inertia, self._entries = _inertia(model, data, dofs)
        self._lambda, self._wrench = np.zeros((2, 3, 3)).transpose(0, 2, 1), np.zeros((2, 3))
        self._decoupled, self._null = np.zeros((2, 3)), np.zeros(size)
        self._flat = self._decoupled.reshape(6)

    def set_goal(self, action: FloatArray) -> None:
        """Take a new action as the goal, by the controller itself."""
        self.controller.ee_pos, self.controller.ee_ori_mat = self._position.copy(), self._rotation.copy()
        self.controller.new_update = False
        self.controller.set_goal(action)
        self.controller.new_update = True

    def control(self) -> None:
        """Write the torques of this substep."""
        controller = self.controller
        mujoco.mj_jacSite(self._model, self._data, self._jacobian_pos, self._jacobian_ori, self._site)
        # Products that robosuite takes with NumPy stay with NumPy: Numba brings another BLAS.
        np.dot(self._jacobian_pos, self._velocity, out=self._velocities[0])
        np.dot(self._jacobian_ori, self._velocity, out=self._velocities[1])
        self._inertia.take(self._entries, out=self._mass.T, mode="clip")
        self._control_terms(
            self._jacobian,
            self._first,
            self._mass,
            self._j_full,
            self._j_pos,
            self._j_ori,
            controller.goal_pos,
            controller.goal_ori,
            self._position,
            self._rotation,
            self._velocities,
            self._gains,
            controller.initial_joint,
            self._joint_pos,
            self._joint_vel,
            self._lambda,
            self._wrench,
            self._null,
        )
        np.dot(self._lambda[0], self._wrench[0], out=self._decoupled[0])
        np.dot(self._lambda[1], self._wrench[1], out=self._decoupled[1])
        torques = np.dot(self._j_full.T, self._flat) + self._bias
        torques += self._null
        np.minimum(np.maximum(torques, self._low), self._high, out=self._torques)


class _Gripper:
    """The two fingers' position commands, which move by a constant amount in each substep."""

    def __init__(self, robot: Any, model: Any, data: Any) -> None:
        from robosuite.models.grippers import PandaGripper

        _require(type(robot.gripper) is PandaGripper, "the Panda gripper")
        self._gripper = robot.gripper
        self._control = data.ctrl
        self._actuators = [int(i) for i in robot._ref_joint_gripper_actuator_indexes]
        ranges = model.actuator_ctrlrange[self._actuators]
        self._middle: list[float] = (0.5 * (ranges[:, 1] + ranges[:, 0])).tolist()
        self._half: list[float] = (0.5 * (ranges[:, 1] - ranges[:, 0])).tolist()

    def command(self, action: FloatArray) -> None:
        change = np.array([-1.0, 1.0]) * self._gripper.speed * np.sign(action)
        self._change: list[float] = change.tolist()
        self._current: list[float] = np.broadcast_to(self._gripper.current_action, 2).tolist()

    def control(self) -> None:
        for finger, actuator in enumerate(self._actuators):
            current = min(max(self._current[finger] + self._change[finger], -1.0), 1.0)
            self._current[finger] = current
            self._control[actuator] = self._middle[finger] + self._half[finger] * current

    def finish(self) -> None:
        self._gripper.current_action = np.array(self._current)


def _clock(observable: Any) -> tuple[float, bool]:
    return observable._time_since_last_sample, observable._sampled


@functools.cache
def forward_moves_warm_start() -> bool:
    """Tell whether this MuJoCo keeps each solution as the next one's start, or (newer) only that of a step."""
    falling = "<mujoco><worldbody><body><freejoint/><geom size='1'/></body></worldbody></mujoco>"
    model = mujoco.MjModel.from_xml_string(falling)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return bool(data.qacc_warmstart.any())


def _inertia(model: Any, data: Any, dofs: slice) -> tuple[FloatArray, Array]:
    """Return MuJoCo's sparse inertia and where it holds the entries of the arm's block."""
    dense = np.zeros((model.nv, model.nv))
    if hasattr(data, "qM"):
        inertia = data.qM
        mujoco.mj_fullM(model, dense, np.arange(1.0, len(inertia) + 1))  # expands the numbers of the entries
    else:  # newer MuJoCo: compressed rows of the lower triangle
        inertia = data.M
        for row, (start, count) in enumerate(zip(model.M_rowadr, model.M_rownnz, strict=True)):
            columns, numbers = model.M_colind[start : start + count], np.arange(start, start + count) + 1
            dense[row, columns] = dense[columns, row] = numbers
    block = dense[dofs, dofs]
    _require(bool(block.all()), "a serial arm")
    return inertia, block.astype(np.intp) - 1


def _run(indices: Sequence[int]) -> slice:
    """Return consecutive indices as a slice, whose views follow the simulation without a copy."""
    first, last = int(indices[0]), int(indices[-1])
    _require([int(i) for i in indices] == list(range(first, last + 1)), "consecutive joints")
    return slice(first, last + 1)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise InfrastructureError(
            f"Expected {what} in a LIBERO scene, got another; this version is not supported."
        )
