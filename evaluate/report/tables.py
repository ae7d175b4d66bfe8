"""Every table of a run by name, and finding tables by name.

A new table is a function from a `Run` to a `Table` in the module of its subject, and one line in `TABLES`:
`claim_tables` (the gate), `outcome_tables` (rates, effects, harm), `severity_tables`,
`provenance_tables` (contract, shields). Tables that take further settings are in `statistics_tables`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from roep_gym.error import unknown_name
from roep_gym.evaluate.report import claim_tables, outcome_tables, provenance_tables, severity_tables
from roep_gym.evaluate.report.records import Run
from roep_gym.evaluate.report.table import Table

__all__ = ["TABLES", "make_tables"]

TABLES: Mapping[str, Callable[[Run], Table]] = {
    "claims": claim_tables.claims,
    "checks": claim_tables.checks,
    "2": claim_tables.semantics,
    "3": outcome_tables.outcomes,
    "4": outcome_tables.aggregates,
    "A1": claim_tables.gate_rules,
    "A2": provenance_tables.provenance,
    "A3": claim_tables.statuses,
    "A4": outcome_tables.harm,
    "A5": provenance_tables.shield_bootstrap,
    "A6a": severity_tables.severity_by_model,
    "A6b": severity_tables.severity_by_suite,
    "severity": severity_tables.severity,
    "contract": provenance_tables.contract_fields,
    "effects": outcome_tables.effects,
    "success": outcome_tables.success,
    "failures": outcome_tables.failures,
}
"""Every table by name: those of the paper under its numbers, further ones under a word."""


def make_tables(run: Run, names: Sequence[str] = ()) -> list[Table]:
    """Return tables by name, in the order of `TABLES`; "A6" is both of its panels, no name is all of them.

    Raises:
        UnknownNameError: A name is not a table's.
    """
    chosen = set()
    for name in names or TABLES:
        panels = {name.lower(), f"{name}a".lower(), f"{name}b".lower()}
        found = {known for known in TABLES if known.lower() in panels}
        if not found:
            raise unknown_name("table", name, TABLES)
        chosen |= found
    return [make(run) for name, make in TABLES.items() if name in chosen]
