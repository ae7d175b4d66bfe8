"""Whether the episodes of an environment follow from their scenes and actions, measured before a run relies on it.

`measure` runs one episode in a new environment, again after another one, and in another process, each time with the
same scene and actions, and says what differed. The process runs this module.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from roep_gym import seeding
from roep_gym.episode import SAMPLED, EpisodeIdentity, InitState
from roep_gym.suites.base import Suite
from roep_gym.suites.registry import find_suite
from roep_gym.typing import JSON

__all__ = ["measure"]

_STEPS = 60
_SCENE, _OTHER_SCENE = 7, 8
_SECONDS = 300
"""After this long the other process is given up."""


def measure(
    source: str, arguments: Mapping[str, JSON], task: str, settings: Mapping[str, Any]
) -> dict[str, JSON]:
    """Return how an environment repeats an episode.

    Args:
        source: The suite, as `find_suite` takes it.
        arguments: The suite's arguments.
        task: Name of the task.
        settings: What the environment is made with.

    Returns:
        `steps` that were compared; `after_another_episode` and `in_another_process`: "equal", or in words from which
        step on the episode differed, or why that could not be measured; and `packages`, the versions of the packages
        that the environment comes from.

    Raises:
        RoepError: The environment cannot be made, or refuses its first steps.
    """
    suite = find_suite(source, arguments)
    steps = min(_STEPS, suite.step_budget)
    env = suite.make_environment(task, **settings)
    try:
        first = _episode(env, _SCENE, 0, steps)
        _episode(env, _OTHER_SCENE, SAMPLED, steps // 3)
        np.random.seed(1)  # noqa: NPY002 (what must not matter)
        again = _episode(env, _SCENE, 0, steps)
        packages = _packages(env)
    finally:
        env.close()
    request = {"source": source, "arguments": arguments, "task": task, "settings": settings, "steps": steps}
    return {
        "steps": len(first) - 1,
        "after_another_episode": _compared(first, again),
        "in_another_process": _elsewhere(first, request),
        "packages": packages,
    }


def _episode(env: Any, scene: int, init_state: InitState, steps: int) -> list[str]:
    """Return a digest of the reset and of each step."""
    identity = EpisodeIdentity("determinism", 0, 0, init_state, scene)
    if env.has_wrapper_attr("request_frames"):
        env.get_wrapper_attr("request_frames")(True)
    observation, info = env.reset(seed=scene, options=identity.to_options())
    digests = [_digest(observation, info["scene_hash"])]
    if env.has_wrapper_attr("request_frames"):
        env.get_wrapper_attr("request_frames")(False)  # one frame shows whether they are drawn alike
    env.action_space.seed(seeding.seed("determinism", scene))
    for _ in range(steps):
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        digests.append(_digest(observation, float(reward), terminated, truncated, bool(info["is_success"])))
        if terminated or truncated:
            break
    return digests


def _digest(observation: Any, *rest: object) -> str:
    parts = observation if isinstance(observation, Mapping) else {"": observation}
    state = hashlib.blake2b(repr(rest).encode(), digest_size=8)
    for name in sorted(parts):
        state.update(np.ascontiguousarray(parts[name]).tobytes())
    return state.hexdigest()


def _compared(first: Sequence[str], second: Sequence[str]) -> str:
    if first == second:
        return "equal"
    shorter = min(len(first), len(second))
    step = next((i for i in range(shorter) if first[i] != second[i]), shorter)
    return "the reset differs" if step == 0 else f"differs from step {step} on"


def _elsewhere(first: Sequence[str], request: Mapping[str, Any]) -> str:
    """Return how the episode of another process compares."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__],
            input=json.dumps(request),
            env=environment,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"not measured: the other process took more than {_SECONDS} s"
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return f"not measured: {reason}"
    return _compared(first, json.loads(done.stdout.splitlines()[-1]))


def _packages(env: Any) -> dict[str, JSON]:
    """Return the versions of the packages that the environment's classes come from, Gymnasium's included."""
    inner = getattr(env.unwrapped, "inner", env.unwrapped)
    roots = {kind.__module__.partition(".")[0] for kind in type(inner).__mro__}
    owners = importlib.metadata.packages_distributions()
    names = sorted({name for root in roots for name in owners.get(root, ())})
    return {name: importlib.metadata.version(name) for name in names}


def _answer() -> None:
    """Run the episode that the parent process asks for on standard input, and print its digests."""
    request = json.load(sys.stdin)
    suite: Suite = find_suite(request["source"], request["arguments"])
    env = suite.make_environment(request["task"], **request["settings"])
    print(json.dumps(_episode(env, _SCENE, 0, request["steps"])))
    env.close()


if __name__ == "__main__":
    _answer()
