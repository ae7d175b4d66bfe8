"""The servers that policies ask: asked before a run, and waited for when they are gone during one."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from functools import partial

from roep_gym.error import InfrastructureError, InvalidInputError
from roep_gym.evaluate.plan import ModelSpec
from roep_gym.policies.base import AsksServer
from roep_gym.policies.registry import POLICIES, make_policy

__all__ = ["check_servers", "wait_for_server"]

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0
_BEAT_SECONDS = 1.0
_LOGGER = logging.getLogger(__name__)


def check_servers(models: Iterable[ModelSpec]) -> None:
    """Ask the server of every model that has one; no other policy is built for it.

    Raises:
        InfrastructureError: A server does not answer, is not ready, or is another one; the message names the model.
        InvalidInputError: A server asks for something else than the arguments declare.
    """
    for model in filter(_has_server, models):
        policy = make_policy(model.policy, **model.arguments)
        try:
            if isinstance(policy, AsksServer):
                policy.ask_server()
        except (InfrastructureError, InvalidInputError) as error:
            raise type(error)(f"The server of the model {model.name!r}: {error}") from error
        finally:
            if not model.is_object:  # an object is its maker's to close
                policy.close()


def wait_for_server(
    model: ModelSpec,
    heartbeat: Callable[[], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Wait until the server of a model answers again, asking it after longer and longer pauses.

    Args:
        model: The model.
        heartbeat: Called at least once a second while it waits.
        clock: Seconds that pass.
        sleep: Waits for some seconds.

    Returns:
        Whether it answers; False after the model's `lost_timeout`, and where it has no server.
    """
    if not _has_server(model):
        return False
    policy = make_policy(model.policy, **model.arguments)
    try:
        if not isinstance(policy, AsksServer):
            return False
        _LOGGER.warning(
            "%s: server gone, waiting for it, %g s at most; start it again.", model.name, policy.lost_timeout
        )
        deadline, pause = clock() + policy.lost_timeout, _FIRST_PAUSE
        while True:
            heartbeat()
            try:
                policy.ask_server()
            except InfrastructureError as error:
                if clock() + pause > deadline:
                    _LOGGER.warning("%s: server still gone, no longer waiting. %s", model.name, error)
                    return False
            except InvalidInputError as error:  # another server; waiting changes nothing
                _LOGGER.warning("%s: another server came back. %s", model.name, error)
                return False
            else:
                _LOGGER.warning("%s: server back.", model.name)
                return True
            until = clock() + pause
            while (left := until - clock()) > 0.0:
                sleep(min(left, _BEAT_SECONDS))
                heartbeat()
            pause = min(2.0 * pause, _LONGEST_PAUSE)
    finally:
        if not model.is_object:
            policy.close()


def _has_server(model: ModelSpec) -> bool:
    """Tell from the class of a policy, or from the object, whether it asks a server; building it may load a network."""
    part = POLICIES.find(model.policy) if isinstance(model.policy, str) else model.policy
    return hasattr(part.func if isinstance(part, partial) else part, "ask_server")
