"""`roep-gym gate`: judge a stored run and print the claim table.

It reads records alone, ours or another tool's, and needs no simulator.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.text import Text

from roep_gym.atomic_file import write_atomically
from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.judging import claim_table
from roep_gym.evaluate.judging.gate import LABELS, Judgement, judge
from roep_gym.evaluate.store.storage import DATASET, read_run

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["GateArguments", "print_claims", "run"]

Format = Literal["table", "csv", "json", "markdown", "latex"]
Label = Literal[
    "clean_not_admitted", "inconclusive_low_support", "recovery_blocked_with_cause", "recovery_ready"
]

EXIT_FALLS_SHORT = 1

_FORMATS: Mapping[str, Callable[[Judgement], str]] = {
    "csv": claim_table.claims_csv,
    "json": claim_table.verdicts_json,
    "markdown": claim_table.markdown,
    "latex": claim_table.latex,
}


@dataclass(frozen=True)
class GateArguments:
    """Judge a stored run and print the claim table.

    Exit status: 0 when judged, whatever the verdicts; 1 when a row falls short of --require; 2 for bad input.
    """

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of a run, or a folder with episodes.csv, rows.csv and optionally manifest.csv."""
    format: Format = "table"
    """How the claims are printed."""
    require: Label | None = None
    """Make the exit status 1 when a row does not reach this label."""
    config: Path | None = None
    """JSON file with gate settings, which flags override."""
    gate: Annotated[GateConfig, tyro.conf.arg(name="")] = field(default_factory=GateConfig)
    """Thresholds and budgets."""


def run(argv: Sequence[str]) -> int:
    """Judge a run, store verdicts in its folder, print the claims, and return the exit status."""
    default = GateArguments(run=tyro.MISSING, gate=_stored_config(argv))
    arguments = tyro.cli(
        GateArguments, args=argv, default=default, prog="roep-gym gate", description=GateArguments.__doc__
    )
    judgement = judge(read_run(arguments.run, arguments.gate), arguments.gate)
    if arguments.format == "table":
        _print_table(judgement)
    else:
        sys.stdout.write(_FORMATS[arguments.format](judgement))
    # Where the output is read by a program, the sentences for people go elsewhere.
    if arguments.format in ("csv", "json"):
        print(claim_table.status_summary(judgement), file=sys.stderr)
    print(_store(judgement, arguments.run), file=sys.stdout if arguments.format == "table" else sys.stderr)
    return _exit_status(judgement, arguments.require)


def print_claims(folder: Path, console: Console | None = None, config: GateConfig | None = None) -> Judgement:
    """Judge a run, store verdicts in its folder, print the claim table on a console, and return the judgement."""
    from rich.console import Console

    console = console or Console(highlight=False)
    judgement = judge(read_run(folder, config), config)
    _print_table(judgement, console)
    console.print(_store(judgement, folder), markup=False, soft_wrap=True)
    return judgement


def _stored_config(argv: Sequence[str]) -> GateConfig:
    """Return the settings of the file that --config names, which flags then override."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", type=Path)
    path = parser.parse_known_args(list(argv))[0].config
    return GateConfig() if path is None else GateConfig.from_file(path)


def _print_table(judgement: Judgement, console: Console | None = None) -> None:
    """Print the claim table; into a pipe at its full width, so that nothing is folded or cut."""
    from rich import box
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table

    console = console or Console(highlight=False)
    table = Table(box=box.SIMPLE_HEAD, title="Claims")
    for heading in ("Task", "Clean SR", "Medium SR", "Delta SR, floor", "Claim status", "Limiting factor"):
        table.add_column(heading, overflow="fold")
    group = ""
    for cells in claim_table.claim_rows(judgement):
        if group != (group := f"{cells['Model']}, {cells['Suite']}"):
            table.add_section()
            table.add_row(Text(group, style="bold"))
        table.add_row(*map(Text, _table_cells(cells)))
    if not console.is_terminal:
        wide = console.options.update(max_width=100_000)
        console = Console(
            file=console.file, highlight=False, width=Measurement.get(console, wide, table).maximum
        )
    console.print(table)
    console.print(Text(claim_table.status_summary(judgement)))
    console.print(Text(claim_table.WORDING))


def _table_cells(cells: Mapping[str, str]) -> tuple[str, ...]:
    """Return a row of the printed table, which must fit a terminal."""
    effect = cells["Delta SR"]
    if cells["Floor"] != "N/A":
        effect += f" {'above' if cells['Effect'] == 'distinguishable' else 'within'} {cells['Floor']}"
    factor = cells["Limiting factor"]
    if cells["Checks behind it"] != "-":
        factor += f"\ncheck {cells['Checks behind it']}"
    return (
        f"  {cells['Task']}",
        cells["Clean SR"],
        cells["Medium SR"],
        effect,
        cells["Claim status"],
        factor,
    )


def _store(judgement: Judgement, folder: Path) -> str:
    """Write `verdicts.json` and `claims.csv` into a run's folder, and return the sentence that says so."""
    if not (folder / DATASET).exists():
        return "Nothing stored: the folder holds flat tables only (roep-gym import makes a run of them)."
    if not os.access(folder, os.W_OK):
        return f"Nothing stored: {folder} is read-only."
    write_atomically(folder / "verdicts.json", claim_table.verdicts_json(judgement).encode())
    write_atomically(folder / "claims.csv", claim_table.claims_csv(judgement).encode())
    return f"Verdicts: {folder / 'verdicts.json'}; claims: {folder / 'claims.csv'}"


def _exit_status(judgement: Judgement, require: Label | None) -> int:
    """Return 1 when a row does not get as far in the gate as the required label."""
    if require is None:
        return 0
    reached = [LABELS.index(label) for label in judgement.verdicts["trace_label"].values]
    short = sum(level < LABELS.index(require) for level in reached)
    if short:
        print(f"{short} of {len(reached)} rows fall short of {require}.", file=sys.stderr)
    return EXIT_FALLS_SHORT if short else 0
