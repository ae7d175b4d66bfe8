"""What an export takes from a run: `ExportSettings`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from roep_gym.error import InvalidInputError
from roep_gym.mapping_reader import check_fields

__all__ = ["ActionChoice", "ExportSettings", "FrameSource", "Rate"]

ActionChoice = Literal["executed", "proposed"]
FrameSource = Literal["given", "clean", "none"]
Rate = Literal["steps", "decisions"]


@dataclass(frozen=True)
class ExportSettings:
    """Which episodes are exported, and what of them.

    Attributes:
        models: Models; empty: all.
        tasks: Tasks as the run names them, as "suite/task", or as the instruction; empty: all.
        conditions: Conditions; empty: all.
        success_only: Whether episodes without success are left out.
        action: "executed", what was sent to the environment, or "proposed", what the policy answered.
        frames: "given", what the policy was given, "clean", the same before the perturbation, or "none".
        depth: Whether depth goes along with the images.
        rate: "steps", one row a control step, or "decisions", one row a decision with all actions until the next one.
    """

    models: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    success_only: bool = False
    action: ActionChoice = "executed"
    frames: FrameSource = "given"
    depth: bool = False
    rate: Rate = "steps"

    def __post_init__(self) -> None:
        check_fields(self, "export")
        if self.depth and self.frames == "none":
            raise InvalidInputError("Expected frames along with depth, got frames 'none'; leave depth out.")
