"""roep-gym: evaluate robot-manipulation policies under the ROEP protocol.

Importing the package loads nothing heavy. It registers the environments `roep_gym/Libero-v0` and
`roep_gym/Tabletop-v0` with Gymnasium: at once when Gymnasium is loaded, otherwise as soon as it gets imported.
"""

from __future__ import annotations

from roep_gym.envs.registration import register_with_gymnasium

__all__ = ["__version__"]

__version__ = "0.1.0"

register_with_gymnasium()
