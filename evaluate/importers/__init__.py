"""Other tools' logs as runs: `IMPORTERS` reads a log, `combine` joins several, `find_gaps` says what they lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roep_gym.lazy import lazy_names

if TYPE_CHECKING:
    from roep_gym.evaluate.importers.combination import IMPORTERS, ConditionLog, combine, notes
    from roep_gym.evaluate.importers.episode_log import EpisodeLog, LoggedEpisode
    from roep_gym.evaluate.importers.gaps import Gap, find_gaps
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "IMPORTERS",
    "ConditionLog",
    "EpisodeLog",
    "Gap",
    "LoggedEpisode",
    "combine",
    "find_gaps",
    "notes",
]
