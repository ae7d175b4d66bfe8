"""`roep-gym import`: make a run of another tool's outcomes, from tables or from its logs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
import xarray as xr

from roep_gym.cli.arguments import given
from roep_gym.cli.terminal import say
from roep_gym.error import InvalidInputError, unknown_name
from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.importers.combination import IMPORTERS, ConditionLog, combine, notes
from roep_gym.evaluate.importers.gaps import find_gaps
from roep_gym.evaluate.schema import CONDITIONS, NOT_RUN
from roep_gym.evaluate.store.csv_columns import is_unnamed
from roep_gym.evaluate.store.flat_tables import read_tables
from roep_gym.evaluate.store.storage import DATASET, write_records

__all__ = ["Arguments", "run"]


@dataclass(frozen=True)
class Arguments:
    """Make a run of another tool's outcomes, which `roep-gym gate` then judges.

    Tables hold everything that judging needs. Logs hold less: what is missing stays missing and is named, with what to
    record next time.
    """

    files: Annotated[tuple[str, ...], tyro.conf.Positional]
    """episodes.csv, rows.csv and optionally manifest.csv; or logs, each as FILE or CONDITION=FILE, those of one
    condition being its seed groups."""
    out: Path
    """Folder of the run; it must not hold one yet."""
    source: Annotated[
        str, tyro.conf.arg(name="from", metavar="{tables,openpi,openvla-oft,lerobot,vla-eval,inspect,...}")
    ] = "tables"
    """Tool that wrote the files, `tables` or a log format; `module:function` names a reader of your own."""
    model: str = ""
    """Name of the model, for logs."""
    suite: str = ""
    """Task suite, for logs that do not name it."""
    condition: str = "baseline"
    """Condition of the logs that are given without one."""
    seed_groups: int | None = None
    """Planned seed groups. Tables without a manifest: 5; logs: those that they hold."""
    episodes_per_group: int | None = None
    """Planned episodes of a seed group. Tables without a manifest: 10; logs: what they hold, and at least a support
    budget of 50 in all."""


def run(arguments: Arguments) -> None:
    """Write the run."""
    taken = [name for name in (DATASET, "plan.json", "journal.sqlite") if (arguments.out / name).exists()]
    if taken:
        raise InvalidInputError(
            f"Expected a folder without a run, but {arguments.out} holds {taken[0]}; choose another."
        )
    data, remarks = _from_tables(arguments) if arguments.source == "tables" else _from_logs(arguments)
    write_records(data, arguments.out)
    recorded = int((data["success"].values != NOT_RUN).sum())
    say(
        f"{arguments.out}: {data.sizes['row']} rows, {recorded} of {data.sizes['episode']} planned episodes recorded. "
        f"Judge it with: roep-gym gate {arguments.out}"
    )
    for remark in remarks:
        say(f"- {remark}")


def _from_tables(arguments: Arguments) -> tuple[xr.Dataset, list[str]]:
    if len(arguments.files) not in (2, 3):
        raise InvalidInputError(
            f"Expected episodes.csv, rows.csv and optionally manifest.csv, got {len(arguments.files)} files; for logs "
            f"name their tool with --from {'|'.join(IMPORTERS.names())}."
        )
    stated = [name for name in ("model", "suite") if getattr(arguments, name)]
    if stated:
        raise InvalidInputError(
            f"Expected no --{stated[0]} with tables, which name it themselves; leave it out."
        )
    config = GateConfig(**given(arguments, "seed_groups", "episodes_per_group"))
    episodes, rows, *manifest = map(Path, arguments.files)
    data = read_tables(episodes, rows, *manifest, config=config)
    extra = [str(data[name].attrs["column"]) for name in data.variables if "column" in data[name].attrs]
    return data, [
        f"The {name} has no name in the file; it is kept under its position."
        for name in extra
        if is_unnamed(name)
    ]


def _from_logs(arguments: Arguments) -> tuple[xr.Dataset, list[str]]:
    """Read logs of a tool, and say what a reader of the outcomes must know."""
    if not arguments.files:
        raise InvalidInputError(f"Expected logs of {arguments.source}, got none; name them.")
    read, logs = IMPORTERS.find(arguments.source), []
    for file in arguments.files:
        condition, path = _condition_and_path(file, arguments.condition)
        logs.append(ConditionLog(condition, read(path, arguments.suite)))
    data = combine(
        logs,
        tool=arguments.source,
        model=arguments.model,
        seed_groups=arguments.seed_groups,
        episodes_per_group=arguments.episodes_per_group,
    )
    return data, [*notes(logs), *(gap.sentence() for gap in find_gaps(data))]


def _condition_and_path(file: str, default: str) -> tuple[str, Path]:
    """Split CONDITION=FILE; a file whose own name holds "=" is a file."""
    condition, separator, path = file.partition("=")
    if not separator or (condition not in CONDITIONS and Path(file).exists()):
        return default, Path(file)
    if condition not in CONDITIONS:
        raise unknown_name("condition", condition, CONDITIONS, "Logs are given as FILE or CONDITION=FILE.")
    return condition, Path(path)
