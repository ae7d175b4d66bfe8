"""roep-gym: evaluate robot-manipulation policies under the ROEP protocol.

Importing the package loads nothing heavy. It registers the environments `roep_gym/Libero-v0` and
`roep_gym/Tabletop-v0` with Gymnasium: at once when Gymnasium is loaded, otherwise as soon as it gets imported.
"""

from __future__ import annotations

from roep_gym.envs.registration import register_with_gymnasium

__all__ = ["__version__"]

register_with_gymnasium()


def __getattr__(name: str) -> str:
    """Look up the version of the installed package when it is asked for."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("roep-gym")
