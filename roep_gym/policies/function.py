"""A function, or an object with `infer`, as a policy: what needs no class of its own to be evaluated."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from roep_gym.contracts import RuntimeContract
from roep_gym.error import InvalidInputError
from roep_gym.mapping_reader import read_mapping
from roep_gym.policies.base import ObservationRequest, PolicyEpisode, PolicyInput
from roep_gym.typing import JSON, Array

if TYPE_CHECKING:
    from roep_gym.policies.presets.preset import ModelPreset

__all__ = ["FunctionPolicy", "InferPolicy"]


class FunctionPolicy:
    """Asks a function for each decision; it remembers nothing but which episodes are open.

    Args:
        function: Takes the observation, or the observation and the instruction, or those and the names of the entries
            of each vector observation (`PolicyEpisode.fields`). It returns an action, shape (action dimension,), or a
            chunk, shape (steps, action dimension); a number is an action of one entry.
        observations: What the function looks at, for an evaluation that builds its environment from it; None: no camera
            and no object state. An environment of your own gives what it gives. A mapping of the fields will do.
        contract: The runtime it was made for; None: "n/a" in all fields but the cameras and their resolution,
            which claims nothing. A mapping replaces some of these.

    Raises:
        UnknownNameError: A mapping has an unknown field.
        InvalidInputError: The function does not take one to three arguments, or a mapping has a wrong value.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        observations: ObservationRequest | Mapping[str, Any] | None = None,
        contract: RuntimeContract | Mapping[str, Any] | None = None,
    ) -> None:
        self._function, self._takes = function, _positional_arguments(function)
        if not isinstance(observations, ObservationRequest):
            observations = read_mapping(ObservationRequest, observations or {}, "observations")
        self.observations: ObservationRequest = observations
        self.contract = _contract(contract, _silent_contract(observations))
        self._episodes: dict[str, PolicyEpisode] = {}

    def observed(self) -> Mapping[str, Any]:
        """Return nothing: nobody can measure what a function does inside."""
        return {}

    def begin(self, episode: PolicyEpisode) -> None:
        """Open an episode."""
        self._episodes[episode.key] = episode

    def act(self, inputs: Sequence[PolicyInput]) -> list[Array]:
        """Return one chunk for each input.

        Raises:
            InvalidInputError: The function looks up an observation that the environment does not give.
        """
        answers = [np.asarray(self._ask(self._episodes[given.episode], given)) for given in inputs]
        return [np.atleast_2d(answer) for answer in answers]

    def end(self, episode: str) -> None:
        """Forget an episode."""
        self._episodes.pop(episode, None)

    def close(self) -> None:
        """Forget all episodes."""
        self._episodes.clear()

    def _ask(self, episode: PolicyEpisode, given: PolicyInput) -> Any:
        arguments = (given.observation, given.instruction, episode.fields)[: self._takes]
        try:
            return self._function(*arguments)
        except KeyError as error:
            name = error.args[0] if error.args else None
            if name in given.observation or not _is_observation(name):
                raise
            raise InvalidInputError(
                f"Expected the observation {name!r}, which the policy looks up, got {sorted(given.observation)}; "
                "say in observations=ObservationRequest(...) what it looks at."
            ) from error


class InferPolicy(FunctionPolicy):
    """Asks an object with `infer(request)`, such as a policy or a client of openpi, in this process.

    The answer is an array as that of a function, or a mapping with the array under "actions". An object with `reset()`
    keeps the state of one episode: it is reset when an episode begins, and the episode before is over then.

    Args:
        policy: The object.
        observations: What it looks at; None: what the preset shows, else as for `FunctionPolicy`.
        contract: The runtime it was made for; None: that of the preset without its bridge, else as for
            `FunctionPolicy`.
        preset: Name of a preset, whose requests `infer` is then given, with "pi05" as openpi's LIBERO client sends
            them; empty: our observation, with the instruction under "prompt".

    Raises:
        UnknownNameError: The preset is unknown.
    """

    def __init__(
        self,
        policy: Any,
        observations: ObservationRequest | Mapping[str, Any] | None = None,
        contract: RuntimeContract | Mapping[str, Any] | None = None,
        preset: str = "",
    ) -> None:
        self._policy = policy
        self._preset: ModelPreset | None = None
        self._measured: dict[str, JSON] = {}
        if preset:
            from roep_gym.policies.presets.preset import find_preset

            self._preset = find_preset(preset)
            observations = observations or self._preset.observations
            contract = _contract(contract, replace(self._preset.contract, runtime_bridge="n/a"))
        super().__init__(policy.infer, observations, contract)
        self._resets = callable(getattr(policy, "reset", None))

    def observed(self) -> Mapping[str, Any]:
        """Return what the first request of a preset was seen to hold."""
        return self._measured

    def begin(self, episode: PolicyEpisode) -> None:
        """Open an episode; an object with `reset()` is reset, and has no other episode open."""
        if self._resets:
            self._episodes.clear()
            self._policy.reset()
        super().begin(episode)

    def act(self, inputs: Sequence[PolicyInput]) -> list[Array]:
        """Return one chunk for each input.

        Raises:
            InvalidInputError: The episode is over, since another one began on an object that keeps one at a time; or
                the answer has no "actions".
        """
        for given in inputs:
            if given.episode not in self._episodes:
                raise InvalidInputError(
                    f"Expected a decision of {list(self._episodes)}, got one of {given.episode!r}: an object with "
                    "reset() keeps one episode at a time; give each worker its own, without shared inference."
                )
        return super().act(inputs)

    def _ask(self, episode: PolicyEpisode, given: PolicyInput) -> Any:
        preset = self._preset
        sent = given.observation if preset is None else preset.prepare(episode, given)
        request = {**sent, "prompt": given.instruction}
        if preset is not None and not self._measured:
            self._measured = preset.measure(episode, given, request, request["prompt"])
        answer = self._policy.infer(request)
        if isinstance(answer, Mapping):
            if "actions" not in answer:
                raise InvalidInputError(
                    f"Expected the entry 'actions' in what infer returns, got {sorted(map(str, answer))}."
                )
            answer = answer["actions"]
        return answer if preset is None else preset.actions(np.asarray(answer))


def _contract(given: RuntimeContract | Mapping[str, Any] | None, default: RuntimeContract) -> RuntimeContract:
    return given if isinstance(given, RuntimeContract) else default.replaced(given)


def _silent_contract(observations: ObservationRequest) -> RuntimeContract:
    known: dict[str, Any] = {}
    if observations.cameras:
        known = {"cameras": list(observations.cameras), "resolution": observations.image_size}
    return RuntimeContract.applicable(**known)


def _positional_arguments(function: Callable[..., Any]) -> int:
    """Return how many of (observation, instruction, fields) a function takes: those without a default."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # some functions written in C have no signature
        return 1
    for count in (1, 2, 3):
        with suppress(TypeError):
            signature.bind(*[None] * count)
            return count
    raise InvalidInputError(
        "Expected a function of (observation), (observation, instruction) or (observation, instruction, fields), "
        f"got one of {signature}."
    )


def _is_observation(name: Any) -> bool:
    return isinstance(name, str) and (
        name.endswith(("_image", "_depth")) or name in ("object_state", "proprio")
    )
