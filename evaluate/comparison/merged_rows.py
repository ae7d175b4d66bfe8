"""The rows of a merged run: what several runs say about one row, as one.

`merged_row` takes the variables of a row from every run that holds it; what contradicts itself is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

from roep_gym.error import InvalidInputError
from roep_gym.evaluate.schema import CONDITIONS, ROW_VARIABLES
from roep_gym.evaluate.store.dataset import contract_entries, observed_value

__all__ = ["Share", "extra_variables", "merged_row", "shield_share"]

_SHIELD = tuple(name for name in ROW_VARIABLES if name.startswith(("shield_", "risk_")))
_CONTRACT = ("contract_status", "contract_unresolved", "contract_note", "action_mode", "contract")


@dataclass(frozen=True)
class Share:
    """What one run holds of a row.

    Attributes:
        folder: Folder of the run.
        data: Its Dataset.
        row: The row's number in it.
        conditions: Conditions in which it planned the row.
    """

    folder: Path
    data: xr.Dataset
    row: int
    conditions: tuple[str, ...]

    @property
    def label(self) -> str:
        """Model, suite and task in one string."""
        return "/".join(str(self.value(name)) for name in ("model", "suite", "task"))

    def value(self, name: str) -> Any:
        """Return a variable of the row."""
        return self.data[name].values[self.row]

    def values(self, names: Sequence[str]) -> dict[str, Any]:
        """Return variables of the row."""
        return {name: self.value(name) for name in names}


def merged_row(shares: Sequence[Share]) -> dict[str, Any]:
    """Return the variables of a row that one or more runs hold.

    Raises:
        InvalidInputError: Two runs contradict each other.
    """
    plain = [name for name in ROW_VARIABLES if name not in (*_SHIELD, *_CONTRACT)]
    return {
        **{name: _agreed(name, shares) for name in plain},
        **shield_share(shares).values(_SHIELD),
        **_contract(shares),
    }


def shield_share(shares: Sequence[Share]) -> Share:
    """Return what holds the row's shield: the run that trained it, else one that planned shielded conditions.

    Raises:
        InvalidInputError: Two runs trained different shields.
    """
    tried = [share for share in shares if share.value("shield_status") != "none"]
    for other in tried[1:]:
        _refuse_unequal(tried[0], other, ["shield_status", "shield_digest", "shield_reason"])
    planned = [share for share in shares if any(CONDITIONS[name].shielded for name in share.conditions)]
    return (tried or planned or list(shares))[0]


def extra_variables(data: xr.Dataset, dimension: str) -> dict[str, str]:
    """Return the variables along a dimension that the schema does not name: their names by their column."""
    return {
        str(variable.attrs.get("column", name)): str(name)
        for name, variable in data.variables.items()
        if str(name).startswith(f"{dimension}_extra_")
    }


def _agreed(name: str, shares: Sequence[Share]) -> Any:
    """Return the one value that is recorded of a variable."""
    fill = ROW_VARIABLES[name].fill
    known = [share for share in shares if share.value(name) != fill]
    for other in known[1:]:
        _refuse_unequal(known[0], other, [name])
    return known[0].value(name) if known else fill


def _refuse_unequal(first: Share, second: Share, names: Sequence[str]) -> None:
    for name in names:
        values = [share.value(name) for share in (first, second)]
        if values[0] != values[1]:
            raise InvalidInputError(
                f"Expected one {name} of the row {first.label}, got {values[0]!r} in {first.folder} and {values[1]!r} "
                f"in {second.folder}; merge runs that agree."
            )


def _contract(shares: Sequence[Share]) -> Mapping[str, Any]:
    """Return the variables of the runtime contract; a field may have been observed with other values in other runs."""
    first = shares[0].values(_CONTRACT)
    if all(share.values(_CONTRACT) == first for share in shares[1:]):
        return first
    # A run in which nothing of the row was recorded knows neither what was declared nor what ran.
    told = [share for share in shares if _says_something(share)] or list(shares)
    if len(told) == 1:
        return told[0].values(_CONTRACT)
    for other in told[1:]:
        if not _lines(other) or not _lines(told[0]):
            _refuse_unequal(told[0], other, _CONTRACT)
    declared = {name: line["declared"] for name, line in _lines(told[0]).items()}
    ran: dict[str, list[Any]] = {}
    accepted: dict[str, str] = {}
    for share in told:
        for name, line in _lines(share).items():
            if line["declared"] != declared[name]:
                raise InvalidInputError(
                    f"Expected one runtime contract of the row {share.label}, but {name} is declared as "
                    f"{declared[name]!r} in {told[0].folder} and {line['declared']!r} in {share.folder}; name the two "
                    "policies differently."
                )
            if line["observed"] is not None and line["observed"] not in ran.setdefault(name, []):
                ran[name].append(line["observed"])
            if line["resolution"]:
                accepted.setdefault(name, line["resolution"])
    return contract_entries(
        declared, {name: observed_value(values) for name, values in ran.items() if values}, accepted
    )


def _says_something(share: Share) -> bool:
    lines = _lines(share)
    return not lines or any(line["observed"] is not None for line in lines.values())


def _lines(share: Share) -> dict[str, dict[str, Any]]:
    return {line["name"]: line for line in json.loads(str(share.value("contract")))}
