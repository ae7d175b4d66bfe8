"""Why an episode ended, told from the `info` of its last step."""

from __future__ import annotations

from roep_gym.typing import Info

__all__ = ["termination_reason"]


def termination_reason(info: Info, *, truncated: bool) -> str:
    """Return `info["termination"]`, or what else the last step tells: `success`, `timeout` or `unknown`."""
    if "termination" in info:
        return str(info["termination"])
    if info.get("is_success"):
        return "success"
    return "timeout" if truncated else "unknown"
