"""Runs as datasets to train on: `RunExport` reads the records, `write_lerobot` and `write_minari` write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roep_gym.lazy import lazy_names

if TYPE_CHECKING:
    from roep_gym.evaluate.export.lerobot_dataset import LeRobotExport, write_lerobot
    from roep_gym.evaluate.export.minari_dataset import MinariExport, write_minari
    from roep_gym.evaluate.export.run_export import ExportEpisode, RunExport
    from roep_gym.evaluate.export.settings import ExportSettings
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "ExportEpisode",
    "ExportSettings",
    "LeRobotExport",
    "MinariExport",
    "RunExport",
    "write_lerobot",
    "write_minari",
]
