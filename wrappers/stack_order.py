"""What stands in a stack of wrappers, and in which order.

`find_wrapper` and `find_attribute` look for something below, `check_order` refuses a wrapper in a place where its work
would not be recorded, or would be done twice.
"""

from __future__ import annotations

from typing import Any, TypeVar

import gymnasium as gym

from roep_gym.error import InvalidInputError

__all__ = ["check_order", "find_attribute", "find_wrapper"]

_Wrapper = TypeVar("_Wrapper", bound=gym.Wrapper[Any, Any, Any, Any])


def find_wrapper(env: gym.Env[Any, Any], kind: type[_Wrapper]) -> _Wrapper | None:
    """Return the outermost wrapper of a kind in an environment's stack, None when there is none."""
    while isinstance(env, gym.Wrapper):
        if isinstance(env, kind):
            return env
        env = env.env
    return None


def find_attribute(env: gym.Env[Any, Any], name: str, default: Any = None) -> Any:
    """Return an attribute of the outermost in an environment's stack that has it, else the default."""
    return env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else default


def check_order(
    env: gym.Env[Any, Any], kind: type[gym.Wrapper[Any, Any, Any, Any]], *, once: bool = True
) -> None:
    """Refuse a wrapper around the recorder and, where it may stand only `once`, around another of its kind."""
    # Imported here because the recorder checks its own place as well.
    from roep_gym.wrappers.record_episode import RecordEpisode

    if find_wrapper(env, RecordEpisode) is not None:
        raise InvalidInputError(
            f"Expected RecordEpisode outermost, got {kind.__name__} around it, whose effect no record would show; "
            "stack PerturbObservation, ShieldAction, StepBudget and RecordEpisode from the inside out."
        )
    if once and find_wrapper(env, kind) is not None:
        raise InvalidInputError(
            f"Expected one {kind.__name__} in a stack, got a second one around the first; give one all its arguments."
        )
