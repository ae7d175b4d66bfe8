"""The identity of an episode, and how it travels through `reset`.

`EpisodeIdentity` is what `reset(seed=..., options={"episode": {...}})` carries. Its `info` has the identity under
`episode_identity`, since `episode` belongs to Gymnasium's `RecordEpisodeStatistics`. `EpisodeTracker` gives an
environment or wrapper the identity of the episode that begins, also in training, where nobody passes one.
`SAMPLED` is the initial state that is none of the stored ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from roep_gym import seeding
from roep_gym.arguments import read_integer
from roep_gym.error import InvalidInputError

__all__ = [
    "SAMPLED",
    "EpisodeIdentity",
    "EpisodeTracker",
    "InitState",
    "bootstrap_scene_seed",
    "policy_seed",
    "scene_seed",
]

InitState = int | Literal["sampled"]
SAMPLED: Literal["sampled"] = "sampled"
"""The initial state of an episode whose scene follows from its scene seed alone."""


@dataclass(frozen=True)
class EpisodeIdentity:
    """What makes an episode the same episode: its run and its place in the plan.

    Attributes:
        run_id: Names one execution of one condition; a clone has its own.
        seed_group: Seed group, from 0.
        episode: Episode index within the seed group, from 0.
        init_state: Index of the stored initial state, from 0; "sampled": none, the scene seed places everything; None
            lets the environment draw one.
        scene_seed: Seed of the scene's random placements; None lets the environment draw one.
        profile: Name of the perturbation profile of the condition.
    """

    run_id: str
    seed_group: int
    episode: int
    init_state: InitState | None = None
    scene_seed: int | None = None
    profile: str = "clean"

    @property
    def key(self) -> tuple[str, int, int]:
        """The part that random streams are keyed by: (run id, seed group, episode)."""
        return (self.run_id, self.seed_group, self.episode)

    def to_info(self) -> dict[str, Any]:
        """Return the entry of `info` that tells the identity."""
        return {"episode_identity": asdict(self)}

    def to_options(self) -> dict[str, Any]:
        """Return the `options` for `reset`."""
        return {"episode": asdict(self)}

    @classmethod
    def from_options(cls, options: Mapping[str, Any] | None) -> EpisodeIdentity | None:
        """Return the identity inside reset options, None when there is none.

        Raises:
            InvalidInputError: The entry is not a mapping, or has unknown, missing or wrongly typed fields.
        """
        if options is None or options.get("episode") is None:
            return None
        fields = options["episode"]
        if not isinstance(fields, Mapping):
            raise InvalidInputError(
                f"Expected options['episode'] to be a mapping, got {type(fields).__name__}."
            )
        try:
            identity = cls(**fields)
        except TypeError as error:
            raise InvalidInputError(
                f"Expected options['episode'] with the fields {list(cls.__dataclass_fields__)}, got {sorted(fields)}."
            ) from error
        integers: dict[str, Any] = {"seed_group": identity.seed_group, "episode": identity.episode}
        if identity.init_state is not None and identity.init_state != SAMPLED:
            integers["init_state"] = identity.init_state
        if identity.scene_seed is not None:
            integers["scene_seed"] = identity.scene_seed
        read = {name: read_integer(f"options['episode'][{name!r}]", n, 0) for name, n in integers.items()}
        return cls(**{**asdict(identity), **read})


class EpisodeTracker:
    """Tells which episode a reset begins.

    With `options["episode"]` the answer is that identity. Without it (training, autoreset, `check_env`) it is
    derived from the last seed and the number of episodes since, so that a seeded sequence of resets repeats. Without a
    seed it differs between environments, as Gymnasium's own generators do.

    Args:
        run_id: Name of the training run; a seed is appended to it, so that runs with other seeds have other episodes.
        seed_group: Index of the environment among those that run side by side.
        first: Number of the episode that counting begins with.
    """

    def __init__(self, run_id: str = "", seed_group: int = 0, first: int = 0) -> None:
        self._run_id, self._seed_group, self._first = run_id, seed_group, first
        self._seed: int | None = None
        self._episodes = first

    def begin(
        self, seed: int | None, options: Mapping[str, Any] | None, entropy: int | None = None
    ) -> EpisodeIdentity:
        """Return the identity of the episode that a `reset(seed=seed, options=options)` begins.

        `entropy` tells an environment without run id and seed from all others: Gymnasium's `np_random_seed`, the same
        in every wrapper of the environment.
        """
        if seed is not None:
            self._seed, self._episodes = int(seed), self._first
        identity = EpisodeIdentity.from_options(options)
        if identity is None:
            seed_name = "" if self._seed is None else f"seed-{self._seed}"
            run_id = "/".join(filter(None, (self._run_id, seed_name))) or f"unseeded-{entropy}"
            identity = EpisodeIdentity(run_id, self._seed_group, self._episodes)
        self._episodes += 1
        return identity


def scene_seed(suite: str, task: str, seed_group: int, episode: int) -> int:
    """Return the scene seed (31 bits): a function of task and episode alone, equal in every condition.

    Args:
        suite: LIBERO suite.
        task: The task as plans and tables name it: the paper's id where it has one, else LIBERO's name.
        seed_group: Seed group.
        episode: Episode index within the seed group.
    """
    return seeding.seed("scene", suite, task, seed_group, episode)


def bootstrap_scene_seed(suite: str, task: str, seed_group: int, episode: int) -> int:
    """Return the scene seed (31 bits) of a bootstrap episode, which no evaluated episode has; see `scene_seed`."""
    return seeding.seed("bootstrap scene", suite, task, seed_group, episode)


def policy_seed(identity: EpisodeIdentity) -> int:
    """Return the policy's seed (31 bits); it depends on the run id, so that clones of stochastic policies differ."""
    return seeding.seed("policy", *identity.key)
