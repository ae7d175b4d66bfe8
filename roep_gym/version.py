"""The version of the package: `__version__`."""

from __future__ import annotations

from importlib.metadata import version

__all__ = ["__version__"]

__version__ = version("roep-gym")
"""Version of the installed package."""
