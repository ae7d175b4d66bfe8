"""Suites: which tasks there are, how their environments are made, and what a suite of your own needs.

`Suite` is the protocol, `SUITES` the registry, `SuiteContractTests` tests any suite against the protocol, and
`find_suite` and `find_tasks` find what a plan names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roep_gym.lazy import lazy_names

if TYPE_CHECKING:
    from roep_gym.suites.base import Suite, SuiteFamily, SuiteTask
    from roep_gym.suites.contract_suite import SuiteContractTests
    from roep_gym.suites.registry import SUITES, find_suite, find_tasks
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "SUITES",
    "Suite",
    "SuiteContractTests",
    "SuiteFamily",
    "SuiteTask",
    "find_suite",
    "find_tasks",
]
