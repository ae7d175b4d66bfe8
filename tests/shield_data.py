"""Hand-made bootstrap episodes with a risk region that can be learned: timeouts end far out along x."""

from __future__ import annotations

import numpy as np

from roep_gym import seeding
from roep_gym.shields.labels import BootstrapEpisode

FIELDS = ("eef_pos_x", "eef_pos_y", "eef_pos_z", "constant")


def make_episode(
    identifier: str, reason: str, steps: int = 40, unsafe: tuple[int, ...] = ()
) -> BootstrapEpisode:
    rng = seeding.generator("test episode", identifier)
    low = rng.normal(0.0, 0.2, (steps, len(FIELDS))).astype(np.float32)
    actions = np.clip(rng.normal(0.0, 0.3, (steps, 7)), -1, 1).astype(np.float32)
    low[:, 3] = 0.25
    actions[:, 6] = -1.0
    if reason in ("timeout", "unsafe_attempt"):
        low[-8:, 0] += 2.0
        actions[-8:, 0] = 1.0
    flags = np.zeros(steps, dtype=np.bool_)
    flags[list(unsafe)] = True
    return BootstrapEpisode(identifier, reason, FIELDS, low, actions, flags)


def make_episodes(successes: int = 40, timeouts: int = 20, attempts: int = 0) -> list[BootstrapEpisode]:
    episodes = [make_episode(f"success/{i}", "success") for i in range(successes)]
    episodes += [make_episode(f"timeout/{i}", "timeout") for i in range(timeouts)]
    return episodes + [make_episode(f"unsafe/{i}", "unsafe_attempt", unsafe=(39,)) for i in range(attempts)]
