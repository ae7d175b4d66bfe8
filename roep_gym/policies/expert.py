"""A scripted expert that reads privileged object poses and solves the paper's eight tasks.

`ExpertPolicy` moves the hand through the legs of `expert_skills.SKILLS`; `expert_motion.plan` writes its chunks,
so that it may be asked every step or every eighth. It can be made to fail at a chosen rate
(`failure_rate`) or to tremble (`noise`), as a pure function of the episode's seed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roep_gym import seeding
from roep_gym.contracts import RuntimeContract
from roep_gym.error import InvalidInputError, unknown_name
from roep_gym.policies import expert_motion, expert_skills
from roep_gym.policies.base import ObservationRequest, PolicyEpisode, PolicyInput
from roep_gym.policies.expert_motion import HandPose, PlannedMotion
from roep_gym.policies.expert_skills import SKILLS, missing
from roep_gym.policies.revision import source_revision
from roep_gym.typing import Array, FloatArray

__all__ = ["ExpertPolicy"]


@dataclass
class _Episode:
    """An open episode."""

    motion: PlannedMotion
    fields: Mapping[str, tuple[str, ...]]
    seed: int


class ExpertPolicy:
    """Position control through the legs of a scripted skill, on privileged object poses.

    A leg ends when the hand is near enough, or after its most steps; after the last one the expert holds still.

    Args:
        chunk: Actions in a chunk, all of them meant to be executed.
        failure_rate: Probability that an episode is made to fail: the hand closes in the air, above the object
            and beside it, touches nothing, and the episode times out. Keyed by the episode's seed, which
            depends on the run id, so clones fail in other episodes.
        noise: Standard deviation of Gaussian noise on the six motion entries of each action.

    Raises:
        InvalidInputError: An argument is outside its range.
    """

    def __init__(self, chunk: int = 1, failure_rate: float = 0.0, noise: float = 0.0) -> None:
        if not isinstance(chunk, int) or isinstance(chunk, bool) or chunk < 1:
            raise InvalidInputError(f"Expected chunk to be an integer >= 1, got {chunk!r}.")
        if not 0.0 <= failure_rate <= 1.0:
            raise InvalidInputError(f"Expected failure_rate in [0, 1], got {failure_rate!r}.")
        if not 0.0 <= noise < np.inf:
            raise InvalidInputError(f"Expected noise to be finite and >= 0, got {noise!r}.")
        self._chunk, self._failure_rate, self._noise = chunk, failure_rate, noise
        self._revision = source_revision(sys.modules[__name__], expert_motion, expert_skills)
        self._episodes: dict[str, _Episode] = {}

    @property
    def contract(self) -> RuntimeContract:
        """The runtime that the expert was written for; what concerns pixels, prompts and weights does not apply."""
        return RuntimeContract(
            checkpoint_source="n/a",
            checkpoint_revision=self._revision,
            runtime_bridge="any",
            cameras="n/a",
            resolution="n/a",
            rotation="n/a",
            crop="n/a",
            resize="n/a",
            encoding="n/a",
            prompt_format="n/a",
            proprio_layout="n/a",
            control_mode="relative",
            action_scale="n/a",
            action_clip="n/a",
            unnorm_key="n/a",
            gripper_sign="-1 open, +1 close",
            eef_orientation="axis_angle",
            chunk_length=self._chunk,
            executed_steps=self._chunk,
            replan_after_intervention=False,
            precision="n/a",
            settle_steps=10,
            suite="any",
            mujoco="any",
            robosuite="any",
        )

    def observed(self) -> Mapping[str, Any]:
        """Return the hash of the code."""
        return {"checkpoint_revision": self._revision}

    @property
    def observations(self) -> ObservationRequest:
        """No frames, the object poses."""
        return ObservationRequest(object_state=True)

    def begin(self, episode: PolicyEpisode) -> None:
        """Open an episode.

        Raises:
            UnknownNameError: There is no skill for the task.
            InvalidInputError: The episode does not name the entries of proprio and object_state.
        """
        skill = (episode.suite, episode.task)
        if skill not in SKILLS:
            raise unknown_name("task of the scripted expert", "/".join(skill), ["/".join(s) for s in SKILLS])
        if not {"proprio", "object_state"} <= set(episode.fields):
            raise InvalidInputError(
                f"Expected the observations proprio and object_state, got {sorted(episode.fields)}; "
                "make the environment with object_state=True."
            )
        phases = SKILLS[skill]
        draw = seeding.generator("expert", "failure", episode.seed)
        if draw.random() < self._failure_rate:
            phases = missing(phases, direction=float(draw.uniform(0.0, 2.0 * np.pi)))
        self._episodes[episode.key] = _Episode(PlannedMotion(phases), episode.fields, episode.seed)

    def act(self, inputs: Sequence[PolicyInput]) -> list[Array]:
        """Return one chunk (chunk, 7) float32 in [-1, 1] for each input."""
        return [self._chunk_of(self._episodes[decision.episode], decision) for decision in inputs]

    def end(self, episode: str) -> None:
        """Forget an episode."""
        self._episodes.pop(episode, None)

    def close(self) -> None:
        """Forget all episodes."""
        self._episodes.clear()

    def _chunk_of(self, episode: _Episode, decision: PolicyInput) -> FloatArray:
        def tremble(step: int) -> FloatArray:
            draw = seeding.generator("expert", "noise", episode.seed, decision.step + step)
            return self._noise * draw.standard_normal(6)

        return episode.motion.chunk(
            decision.step,
            HandPose.from_proprio(_named(episode, decision, "proprio")),
            _named(episode, decision, "object_state"),
            self._chunk,
            tremble if self._noise else None,
        )


def _named(episode: _Episode, decision: PolicyInput, observation: str) -> dict[str, float]:
    """Return the entries of a vector observation by field name."""
    return dict(zip(episode.fields[observation], decision.observation[observation].tolist(), strict=True))
