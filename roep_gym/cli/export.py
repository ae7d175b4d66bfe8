"""`roep-gym export`: turn the records of a run into a dataset to train on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from roep_gym.cli.arguments import Flag, Folder, Repeated
from roep_gym.cli.terminal import say
from roep_gym.error import InvalidInputError
from roep_gym.evaluate.export.settings import ActionChoice, ExportSettings, FrameSource, Rate

if TYPE_CHECKING:
    from roep_gym.evaluate.export.lerobot_dataset import LeRobotExport
    from roep_gym.evaluate.export.minari_dataset import MinariExport

__all__ = ["Arguments", "run"]


@dataclass(frozen=True)
class Arguments:
    """Turn the episodes of a run into a Minari or a LeRobot dataset, so that rollouts train the next policy."""

    run: Folder
    """Folder of a run of `roep-gym evaluate`."""
    to: Literal["minari", "lerobot"]
    """Format: a Minari dataset, or LeRobot's format v3."""
    out: Path
    """Minari: folder of datasets, in which the new one lies by its name. LeRobot: folder of the dataset."""
    name: str = ""
    """Minari: id of the dataset; default: NAME-v0 by the name of the evaluation."""
    model: Repeated = ()
    """Only this model; give the flag once for each."""
    task: Repeated = ()
    """Only this task, as the run names it, as suite/task or by its instruction; give the flag once for each."""
    condition: Repeated = ()
    """Only this condition; give the flag once for each."""
    success_only: Flag = False
    """Only episodes that succeeded."""
    action: ActionChoice = "executed"
    """Action that was executed, or that the policy proposed before a shield changed it."""
    frames: FrameSource = "given"
    """Frames that the policy was given, the same before the perturbation, or none."""
    depth: Flag = False
    """Minari: depth as well."""
    rate: Rate = "steps"
    """One row a control step, or one a decision with all actions until the next decision."""


def run(arguments: Arguments) -> None:
    """Write the dataset."""
    if arguments.name and arguments.to != "minari":
        raise InvalidInputError(
            f"Expected --name with --to minari alone, got {arguments.name!r}; a LeRobot dataset is named by its folder."
        )
    from roep_gym.evaluate.export.lerobot_dataset import write_lerobot
    from roep_gym.evaluate.export.minari_dataset import write_minari
    from roep_gym.evaluate.export.run_export import RunExport

    settings = ExportSettings(
        models=arguments.model,
        tasks=arguments.task,
        conditions=arguments.condition,
        success_only=arguments.success_only,
        action=arguments.action,
        frames=arguments.frames,
        depth=arguments.depth,
        rate=arguments.rate,
    )
    export, out = RunExport(arguments.run, settings), arguments.out
    written: MinariExport | LeRobotExport
    if arguments.to == "minari":
        written = write_minari(export, out, arguments.name)
        load = f"MINARI_DATASETS_PATH={out.resolve()} and minari.load_dataset({written.dataset_id!r})"
    else:
        written = write_lerobot(export, out)
        load = f"LeRobotDataset({out.name!r}, root={str(out)!r})"
    left_out = len(export) - written.episodes
    say(
        f"{written.episodes} episodes{f' ({left_out} left out, too short)' if left_out else ''} with {written.rows} "
        f"{arguments.rate} in {written.folder}; load them with {load}."
    )
