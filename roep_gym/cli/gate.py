"""`roep-gym gate`: judge a stored run and print the claim table.

It reads records alone, ours or another tool's, and needs no simulator.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from roep_gym.atomic_file import write_atomically
from roep_gym.cli.arguments import Folder, gate_settings
from roep_gym.cli.terminal import print_tables, say
from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.judging.gate import LABELS
from roep_gym.evaluate.judging.verdict_document import status_summary, verdicts_json
from roep_gym.evaluate.report.claim_tables import claims
from roep_gym.evaluate.report.records import Run, open_run
from roep_gym.evaluate.report.render import csv_text
from roep_gym.evaluate.store.storage import DATASET

__all__ = ["Arguments", "defaults", "print_claims", "run"]

Format = Literal["table", "csv", "json", "markdown", "latex"]
Label = Literal[
    "clean_not_admitted", "inconclusive_low_support", "recovery_blocked_with_cause", "recovery_ready"
]


@dataclass(frozen=True)
class Arguments:
    """Judge a stored run and print the claim table.

    Exit status: 0 when judged, whatever the verdicts; 1 when a row falls short of --require; 2 for bad input.
    """

    run: Folder
    """Folder of a run, or a folder with episodes.csv, rows.csv and optionally manifest.csv."""
    format: Format = "table"
    """How the claims are printed."""
    require: Label | None = None
    """Make the exit status 1 when a row does not reach this label."""
    config: Path | None = None
    """JSON file with gate settings, which flags override."""
    gate: Annotated[GateConfig, tyro.conf.arg(name="")] = field(default_factory=GateConfig)
    """Thresholds and budgets."""


def defaults(argv: Sequence[str]) -> Arguments:
    """Return the settings of the file that --config names, which flags then override."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", type=Path)
    known, _ = parser.parse_known_args(list(argv))
    return Arguments(run=tyro.MISSING, gate=gate_settings(known.config))


def run(arguments: Arguments) -> int:
    """Judge a run, store verdicts in its folder, print the claims, and return the exit status."""
    opened = open_run(arguments.run, arguments.gate)
    if (form := arguments.format) == "json":
        sys.stdout.write(verdicts_json(opened.judgement))
    else:
        print_tables([claims(opened)], form)
    # Where the output is read by a program, the sentences for people go elsewhere.
    if form in ("csv", "json"):
        say(status_summary(opened.judgement), sys.stderr)
    say(_store(opened), sys.stdout if form == "table" else sys.stderr)
    if arguments.require is None:
        return 0
    required = LABELS.index(arguments.require)
    reached = [LABELS.index(label) for label in opened.judgement.verdicts["trace_label"].values]
    short = sum(level < required for level in reached)
    if short:
        say(f"{short} of {len(reached)} rows fall short of {arguments.require}.", sys.stderr)
    return 1 if short else 0


def print_claims(folder: Path) -> None:
    """Judge a run, store verdicts in its folder, and print the claim table."""
    opened = open_run(folder)
    print_tables([claims(opened)], "table")
    say(_store(opened))


def _store(opened: Run) -> str:
    """Write `verdicts.json` and `claims.csv` into a run's folder, and return the sentence that says so."""
    folder = opened.folder
    if not (folder / DATASET).exists():
        return "Nothing stored: the folder holds flat tables only (roep-gym import makes a run of them)."
    if not os.access(folder, os.W_OK):
        return f"Nothing stored: {folder} is read-only."
    write_atomically(folder / "verdicts.json", verdicts_json(opened.judgement).encode())
    write_atomically(folder / "claims.csv", csv_text(claims(opened)).encode())
    return f"Verdicts: {folder / 'verdicts.json'}; claims: {folder / 'claims.csv'}"
