"""One episode of a policy on real LIBERO, without frames."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from roep_gym.policies.base import Policy, PolicyEpisode, PolicyInput
from roep_gym.typing import FloatArray

STEP_BUDGET = 280


class Outcome(NamedTuple):
    """Success, the unsafe channels that fired, and the executed actions (steps, 7)."""

    success: bool
    unsafe: set[str]
    actions: FloatArray


def rollout(suite: str, task: str, init_state: int, policy: Policy) -> Outcome:
    """Run one episode that starts from a stored initial state."""
    from roep_gym.envs.libero_env import LiberoEnv
    from roep_gym.episode import EpisodeIdentity, policy_seed, scene_seed

    env = LiberoEnv(task, suite=suite, cameras=[], object_state=True)
    identity = EpisodeIdentity("test", 0, init_state, init_state, scene_seed(suite, task, 0, init_state))
    observation, _ = env.reset(options=identity.to_options())
    policy.begin(
        PolicyEpisode("one", suite, task, env.instruction, policy_seed(identity), env.observation_fields)
    )
    success, unsafe, executed = False, set(), []
    while len(executed) < STEP_BUDGET and not success:
        given = PolicyInput("one", len(executed), env.instruction, observation)
        for action in policy.act([given])[0][: STEP_BUDGET - len(executed)]:
            observation, _, success, _, info = env.step(action)
            executed.append(action)
            unsafe |= {channel for channel, fired in info["unsafe"].items() if fired}
            if success:
                break
    policy.end("one")
    env.close()
    return Outcome(success, unsafe, np.array(executed))
