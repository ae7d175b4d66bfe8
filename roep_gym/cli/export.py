"""`roep-gym export`: turn the records of a run into a dataset to train on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from roep_gym.cli.terminal import say
from roep_gym.error import InvalidInputError
from roep_gym.evaluate.export.settings import ActionChoice, ExportSettings, FrameSource, Rate

if TYPE_CHECKING:
    from roep_gym.evaluate.export.run_export import RunExport

__all__ = ["ExportArguments", "run"]

_Repeated = Annotated[tuple[str, ...], tyro.conf.UseAppendAction]


@dataclass(frozen=True)
class ExportArguments:
    """Turn the episodes of a run into a Minari or a LeRobot dataset, so that rollouts train the next policy."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of a run of `roep-gym evaluate`."""
    to: Literal["minari", "lerobot"]
    """Format: a Minari dataset, or LeRobot's format v3."""
    out: Path
    """Minari: folder of datasets, in which the new one lies by its name. LeRobot: folder of the dataset."""
    name: str = ""
    """Minari: id of the dataset; default: NAME-v0 by the name of the evaluation."""
    model: _Repeated = ()
    """Only this model; give the flag once for each."""
    task: _Repeated = ()
    """Only this task, as the run names it, as suite/task or by its instruction; give the flag once for each."""
    condition: _Repeated = ()
    """Only this condition; give the flag once for each."""
    success_only: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Only episodes that succeeded."""
    action: ActionChoice = "executed"
    """Action that was executed, or that the policy proposed before a shield changed it."""
    frames: FrameSource = "given"
    """Frames that the policy was given, the same before the perturbation, or none."""
    depth: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Minari: depth as well."""
    rate: Rate = "steps"
    """One row a control step, or one a decision with all actions until the next decision."""


def run(argv: Sequence[str]) -> int:
    """Write the dataset and return 0."""
    arguments = tyro.cli(
        ExportArguments, args=argv, prog="roep-gym export", description=ExportArguments.__doc__
    )
    if arguments.name and arguments.to != "minari":
        raise InvalidInputError(
            f"Expected --name with --to minari alone, got {arguments.name!r}; a LeRobot dataset is named by its folder."
        )
    from roep_gym.evaluate.export.run_export import RunExport

    export = RunExport(
        arguments.run,
        ExportSettings(
            models=arguments.model,
            tasks=arguments.task,
            conditions=arguments.condition,
            success_only=arguments.success_only,
            action=arguments.action,
            frames=arguments.frames,
            depth=arguments.depth,
            rate=arguments.rate,
        ),
    )
    say(_to_minari(export, arguments) if arguments.to == "minari" else _to_lerobot(export, arguments))
    return 0


def _to_minari(export: RunExport, arguments: ExportArguments) -> str:
    from roep_gym.evaluate.export.minari_dataset import write_minari

    written = write_minari(export, arguments.out, arguments.name)
    return (
        f"{_counts(export, written.episodes, written.rows)} in {written.folder}; load them with "
        f"MINARI_DATASETS_PATH={arguments.out.resolve()} and minari.load_dataset({written.dataset_id!r})."
    )


def _to_lerobot(export: RunExport, arguments: ExportArguments) -> str:
    from roep_gym.evaluate.export.lerobot_dataset import write_lerobot

    written = write_lerobot(export, arguments.out)
    return (
        f"{_counts(export, written.episodes, written.rows)} in {written.folder}; load them with "
        f"LeRobotDataset({arguments.out.name!r}, root={str(arguments.out)!r})."
    )


def _counts(export: RunExport, episodes: int, rows: int) -> str:
    """Return what was written, and how many episodes were left out because they have no row."""
    left_out = len(export) - episodes
    remark = f" ({left_out} left out, too short)" if left_out else ""
    return f"{episodes} episodes{remark} with {rows} {export.settings.rate}"
