"""Other tools' logs as runs: one reader a tool, `combine` joins logs into one run, `find_gaps` says what they lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roep_gym.lazy import lazy_names

if TYPE_CHECKING:
    from roep_gym.evaluate.importers.combination import ConditionLog, combine
    from roep_gym.evaluate.importers.episode_log import EpisodeLog, LoggedEpisode
    from roep_gym.evaluate.importers.gaps import Gap, find_gaps
    from roep_gym.evaluate.importers.inspect_robots import read_inspect_log
    from roep_gym.evaluate.importers.lerobot import read_eval_info
    from roep_gym.evaluate.importers.openpi import read_openpi_log
    from roep_gym.evaluate.importers.openvla_oft import read_openvla_oft_log
    from roep_gym.evaluate.importers.vla_eval import read_vla_eval_result
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "combination": ["ConditionLog", "combine"],
            "episode_log": ["EpisodeLog", "LoggedEpisode"],
            "gaps": ["Gap", "find_gaps"],
            "inspect_robots": ["read_inspect_log"],
            "lerobot": ["read_eval_info"],
            "openpi": ["read_openpi_log"],
            "openvla_oft": ["read_openvla_oft_log"],
            "vla_eval": ["read_vla_eval_result"],
        },
    )

__all__ = [
    "ConditionLog",
    "EpisodeLog",
    "Gap",
    "LoggedEpisode",
    "combine",
    "find_gaps",
    "read_eval_info",
    "read_inspect_log",
    "read_openpi_log",
    "read_openvla_oft_log",
    "read_vla_eval_result",
]
