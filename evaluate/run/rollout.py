"""The one loop that runs a policy through an episode.

`run_episode` is the loop, `check_observations` compares an environment with what the policy looks at, and
`chunk_settings` says how chunks are executed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from roep_gym.episode import EpisodeIdentity, policy_seed
from roep_gym.episode_record import EpisodeRecord
from roep_gym.error import InfrastructureError, InvalidInputError, SimulationUnstableError
from roep_gym.policies.base import ObservationRequest, Policy, PolicyEpisode, PolicyInput, one_process
from roep_gym.typing import Array
from roep_gym.wrappers.record_episode import RecordEpisode
from roep_gym.wrappers.stack_order import find_attribute

__all__ = ["ChunkSettings", "check_observations", "chunk_settings", "run_episode"]


class ChunkSettings(NamedTuple):
    """How chunks are executed: steps before the next decision (0: the whole chunk), and replanning."""

    executed_steps: int
    replan_after_intervention: bool


def chunk_settings(policy: Policy) -> ChunkSettings:
    """Return what a policy's contract says about executing its chunks."""
    steps = policy.contract.executed_steps
    return ChunkSettings(
        executed_steps=steps if isinstance(steps, int) else 0,
        replan_after_intervention=policy.contract.replan_after_intervention is True,
    )


def check_observations(space: spaces.Space[Any], request: ObservationRequest) -> None:
    """Refuse observations that lack a frame of the size, a depth array or a vector that a policy looks at."""
    parts = space.spaces if isinstance(space, spaces.Dict) else {}
    found = {key: part.shape or () for key, part in parts.items()}
    size = (request.image_size, request.image_size)
    wanted: dict[str, tuple[int, int] | None] = {f"{camera}_image": size for camera in request.cameras}
    if request.depth:
        wanted |= {f"{camera}_depth": size for camera in request.cameras}
    wanted |= {name: None for name in ("object_state", "controller_pose") if getattr(request, name)}
    for key, shape in wanted.items():
        if key not in found:
            got = f"only {', '.join(found)}" if found else str(space)
        elif shape is not None and found[key][:2] != shape:
            got = f"it in the shape {found[key]}"
        else:
            continue
        pixels = "" if shape is None else f" of {shape[0]} x {shape[1]} pixels"
        raise InvalidInputError(
            f"Expected observations with {key!r}{pixels}, which the policy looks at, got {got}; change the settings of "
            "the environment or the arguments of the policy."
        )


def run_episode(
    env: RecordEpisode,
    policy: Policy,
    identity: EpisodeIdentity,
    *,
    diverged_before: bool = False,
    heartbeat: Callable[[], None] = lambda: None,
) -> EpisodeRecord:
    """Run one episode and return its record.

    Args:
        env: A stack whose outermost wrapper is `RecordEpisode` and which ends every episode.
        policy: The policy; it is asked whenever its last chunk is used up.
        identity: The episode.
        diverged_before: Whether the simulation diverged in an earlier attempt; when it does again, the policy's actions
            break it, and the episode ends as `invalid_execution`.
        heartbeat: Called at every step and decision, so that an observer can tell a hang from work.

    Returns:
        The record, with `wall_time`, `policy_latency` and `decisions` in its summary.

    Raises:
        InvalidInputError: The observations are not what the policy looks at, or `info` lacks the `instruction` at a
            reset or `is_success` at a step.
        Exception: Whatever the environment or the policy raises; it is an infrastructure failure.
    """
    check_observations(env.observation_space, policy.observations)
    started = time.perf_counter()
    settings = chunk_settings(policy)
    request_frames = env.get_wrapper_attr("request_frames")
    request_frames(True)
    observation, info = env.reset(seed=identity.scene_seed, options=identity.to_options())
    frames_rendered = info.get("frames_rendered", True)
    heartbeat()
    episode = PolicyEpisode(
        key="/".join(map(str, identity.key)),
        suite=find_attribute(env, "suite", ""),
        task=find_attribute(env, "task", ""),
        instruction=_entry(env, info, "instruction", "reset"),
        seed=policy_seed(identity),
        fields=find_attribute(env, "observation_fields", {}),
    )
    policy.begin(episode)
    record: EpisodeRecord | None = None
    try:
        pending: list[Array] = []
        latency, decisions, longest, step = 0.0, 0, 0, 0
        while record is None:
            if not pending:
                if not frames_rendered:
                    raise InfrastructureError(
                        f"Expected the frames of step {step} for a decision, but they were not drawn; "
                        "a frame that was not drawn never reaches a policy."
                    )
                asked = time.perf_counter()
                with one_process():
                    chunks = policy.act([PolicyInput(episode.key, step, episode.instruction, observation)])
                latency += time.perf_counter() - asked
                decisions += 1
                if len(chunks) != 1:
                    raise InvalidInputError(
                        f"Expected one chunk for the one input, got {len(chunks)} from the policy."
                    )
                pending, length = _actions(chunks[0], settings.executed_steps, env.action_space)
                longest = max(longest, length)
                heartbeat()
            action = pending.pop(0)
            request_frames(not pending)
            try:
                observation, _, terminated, truncated, info = env.step(action)
            except SimulationUnstableError as error:
                if not diverged_before:
                    raise
                record = env.end_episode("invalid_execution", str(error))
                continue
            heartbeat()
            _entry(env, info, "is_success", "step")
            frames_rendered = info.get("frames_rendered", True)
            step += 1
            if terminated or truncated:
                record = info["episode_record"]
            elif settings.replan_after_intervention and info.get("shield", {}).get("intervened"):
                pending.clear()
    finally:
        policy.end(episode.key)
    summary = replace(
        record.summary,
        decisions=decisions,
        policy_latency=latency / decisions,
        wall_time=time.perf_counter() - started,
    )
    return replace(record, summary=summary, attributes=replace(record.attributes, longest_chunk=longest))


def _entry(env: gym.Env[Any, Any], info: Mapping[str, Any], key: str, method: str) -> Any:
    """Return an entry of `info` that every environment must give, lest its lack be taken for an outcome."""
    if key not in info:
        name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        task = "/".join(filter(None, (find_attribute(env, "suite"), find_attribute(env, "task"))))
        name = f"{name} ({task})" if task else name
        raise InvalidInputError(
            f"Expected info[{key!r}] from {method}() of {name}, got only {sorted(info)}; "
            "wrap the environment so that it says so."
        )
    return info[key]


def _actions(answer: Any, executed_steps: int, space: spaces.Space[Any]) -> tuple[list[Array], int]:
    """Return the actions of a chunk that are executed, and the chunk's length; a Discrete action is its one entry.

    An answer that is no (steps, action) array of numbers becomes one malformed action, which the recorder ends the
    episode on: what a policy returns is the policy's own doing.
    """
    try:
        given = np.asarray(answer)
    except ValueError:  # ragged
        given = np.empty(0)
    if given.ndim != 2 or len(given) == 0 or given.dtype.kind not in "fiu":
        return [np.empty(0, dtype=np.float32)], 0
    with np.errstate(over="ignore"):  # too large a number becomes infinite, which is refused
        chunk = given.astype(np.float32)
    if isinstance(space, spaces.Discrete) and chunk.shape[1] == 1:
        chunk = chunk[:, 0]
    return list(chunk[: executed_steps or None]), len(chunk)
