"""The split of bootstrap scenes into training, validation and calibration (protocol section 6).

`split_scenes` gives every scene to one part, so that a clean and a perturbed episode of one scene are never in two;
`needs` is the support that each part must have. The split meets the needs first, then fills the parts to their shares,
class by class. The order is that of a keyed hash of the scene, so that it depends neither on the order of the episodes
nor on the machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Literal, NamedTuple

from roep_gym import seeding
from roep_gym.shields.config import ShieldConfig

__all__ = ["PARTS", "Need", "Part", "SceneSupport", "needs", "split_scenes"]

Part = Literal["train", "validation", "calibration"]
PARTS: tuple[Part, ...] = ("train", "validation", "calibration")


class SceneSupport(NamedTuple):
    """A scene with the number of its risk and of its safe episodes."""

    scene: str
    risk: int
    safe: int


class Need(NamedTuple):
    """A part with the episodes of a class that it must have."""

    part: Part
    kind: Literal["risk", "safe"]
    least: int


def needs(config: ShieldConfig) -> tuple[Need, ...]:
    """Return the minimum support: training and validation use both classes, calibration uses the safe one."""
    risk, safe = config.min_risk_episodes, config.min_safe_episodes
    return (
        Need("train", "risk", risk),
        Need("validation", "risk", risk),
        Need("calibration", "safe", safe),
        Need("validation", "safe", safe),
        Need("train", "safe", safe),
    )


def split_scenes(scenes: Sequence[SceneSupport], config: ShieldConfig) -> dict[str, Part]:
    """Return the part of every scene.

    Where the scenes do not suffice for every need, the parts come as near to it as they can; `train_shield` refuses
    such a split.
    """
    free = sorted(scenes, key=lambda s: (seeding.seed("shield", "split", s.scene, bits=64), s.scene))
    chosen: dict[str, Part] = {}
    for part, kind, least in needs(config):
        found = sum(getattr(s, kind) for s in free if chosen.get(s.scene) == part)
        # Safe support comes from scenes without risk first: those with risk are scarce.
        for scene in sorted(free, key=lambda s: kind == "safe" and s.risk > 0):
            if found >= least:
                break
            if scene.scene not in chosen and getattr(scene, kind):
                chosen[scene.scene] = part
                found += getattr(scene, kind)
    for classes in product((True, False), repeat=2):
        members = [s.scene for s in free if (s.risk > 0, s.safe > 0) == classes]
        quotas = _quotas(len(members), config)
        left = Counter(quotas) - Counter(chosen[name] for name in members if name in chosen)
        held_out: tuple[Part, ...] = ("validation", "calibration")
        for name in members:
            if name not in chosen:
                chosen[name] = next((part for part in held_out if left[part]), "train")
                left[chosen[name]] -= 1
    return chosen


def _quotas(count: int, config: ShieldConfig) -> dict[Part, int]:
    """Return how many of `count` scenes each part gets: the shares, rounded by the largest remainder."""
    shares: dict[Part, float] = {part: getattr(config, f"{part}_fraction") * count for part in PARTS}
    quotas = {part: int(share + 1e-9) for part, share in shares.items()}
    rest = sorted(PARTS, key=lambda part: round(quotas[part] - shares[part], 9))
    for part in rest[: count - sum(quotas.values())]:
        quotas[part] += 1
    return quotas
