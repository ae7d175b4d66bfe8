"""The earlier arrays that a profile may give in the place of the present ones.

`FrameHistory` tells which frames may be given later, although nobody looks at them now, and keeps these. Both follow
from keys alone, so that what is given never depends on which other frames were drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roep_gym.error import InvalidInputError
from roep_gym.typing import Array
from roep_gym.wrappers.operators.base import Metadata, Modality
from roep_gym.wrappers.profiles import Earlier, Profile

__all__ = ["FrameHistory"]


class FrameHistory:
    """The clean arrays of an episode that are needed later, by key and step."""

    def __init__(self, modalities: Mapping[str, Modality], fields: Mapping[str, Sequence[str]]) -> None:
        """Take the modality of each array that is perturbed, and the names of the entries of vectors."""
        self._modalities, self._fields = modalities, fields
        self._profile: Profile
        self._stream: tuple[str, int, int]
        self._kept: dict[str, dict[int, Array]] = {}

    def begin(self, profile: Profile, stream: tuple[str, int, int]) -> None:
        """Forget the last episode."""
        self._profile, self._stream = profile, stream
        self._kept = {key: {} for key, modality in self._modalities.items() if profile.max_age(modality, key)}

    def needs_frames(self, step: int) -> bool:
        """Tell whether a frame of a step may be given later."""
        return any(
            self._modalities[key] != "vector"
            and self._profile.is_needed(self._modalities[key], self._stream, step, key)
            for key in self._kept
        )

    def keep(self, key: str, clean: Array, step: int) -> None:
        """Keep a copy of an array where it is needed later; called for every array that exists."""
        kept = self._kept.get(key)
        if kept is None:
            return
        modality = self._modalities[key]
        if self._profile.is_needed(modality, self._stream, step, key):
            kept[step] = clean.copy()
        oldest = step - self._profile.max_age(modality, key)
        for old in [number for number in kept if number < oldest]:
            del kept[old]

    def describe(self, key: str, step: int) -> list[Metadata]:
        """Return the metadata of what is given in the place of an array, which need not exist."""
        return [earlier.metadata for earlier in self._earlier(key, step)]

    def recall(self, key: str, clean: Array, step: int) -> Array:
        """Return the clean array that is given in the place of another; not to be written.

        Raises:
            InvalidInputError: The environment did not draw a frame that it was asked for.
        """
        given = clean
        for earlier in self._earlier(key, step):
            if earlier.step == step:
                past = clean
            elif earlier.step in self._kept[key]:
                past = self._kept[key][earlier.step]
            else:
                raise InvalidInputError(
                    f"Expected the frame {key!r} of step {earlier.step}, which is given at step {step}, but it was not "
                    "drawn; the environment's `request_frames` has to draw what it is asked for."
                )
            if earlier.entries is None:
                given = past
            else:
                given = given.copy()
                given[earlier.entries] = past[earlier.entries]
        return given

    def _earlier(self, key: str, step: int) -> Sequence[Earlier]:
        if key not in self._kept:
            return ()
        return self._profile.earlier(
            self._modalities[key], self._stream, step, key, self._fields.get(key, ())
        )
