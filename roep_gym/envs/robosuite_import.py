"""The import of robosuite without its log file and its advice.

robosuite opens `/tmp/robosuite.log` when it is imported, which fails for the second user of a machine, and prints how
to make a private macro file.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
from pathlib import Path
from types import ModuleType

from roep_gym.error import DependencyNotInstalledError

__all__ = ["import_robosuite"]


def import_robosuite() -> ModuleType:
    """Import robosuite, with the log file that it writes by default turned off.

    Raises:
        DependencyNotInstalledError: It is not installed.
    """
    if "robosuite" in sys.modules:
        return sys.modules["robosuite"]
    package = importlib.util.find_spec("robosuite")
    if package is None or package.origin is None:
        raise DependencyNotInstalledError(
            "robosuite is not installed in this environment; run pip install robosuite==1.4.0"
        )
    # Its logger takes the settings from this module, which the package's own import would load too late to change.
    spec = importlib.util.spec_from_file_location(
        "robosuite.macros", Path(package.origin).with_name("macros.py")
    )
    assert spec is not None
    assert spec.loader is not None
    macros = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(macros)
    macros.FILE_LOGGING_LEVEL = None  # type: ignore[attr-defined]
    sys.modules["robosuite.macros"] = macros
    logger = logging.getLogger("robosuite_logs")
    disabled, logger.disabled = logger.disabled, True
    try:
        import robosuite
    finally:
        logger.disabled = disabled
    robosuite.macros = macros
    module: ModuleType = robosuite
    return module
