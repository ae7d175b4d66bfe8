"""Console logs of openpi's `examples/libero/main.py`.

Looked at: `examples/libero/main.py` at commit 04a8d0c9, and its console output in public notes. The script writes no
file: its log is what it prints on standard error (`python examples/libero/main.py 2> log`). Lines carry the prefix
`INFO:root:` or `ERROR:root:` of `logging.basicConfig`, and tqdm's bars stand between and before them. `Starting
episode N...` sets the stored initial state N - 1.

Not in the log: steps, actions, `--seed`. The simulator is seeded once a task, so the scene of an episode depends on
the resets before it: no scene seed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from roep_gym.evaluate.importers.console_log import ConsoleFormat, read_console_log
from roep_gym.evaluate.importers.episode_log import EpisodeLog, read_text

__all__ = ["read_openpi_log"]

_FORMAT = ConsoleFormat(
    tool="openpi",
    crash=("Caught exception: ",),
    begins="INFO:root:Starting episode 1...",
    remedy="record standard error of examples/libero/main.py (2> FILE), or check --from",
)
_RECORD = re.compile(r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):root:(.*)")


def read_openpi_log(path: Path, suite: str = "") -> EpisodeLog:
    """Read a console log of openpi's LIBERO script.

    Args:
        path: The log.
        suite: Suite, where the log does not name it.

    Raises:
        InvalidInputError: It is not such a log, or lines are missing.
    """
    return read_console_log(path, _messages(read_text(path, "openpi")), _FORMAT, suite)


def _messages(text: str) -> Iterator[str]:
    """Yield the messages of a log, which share its lines with progress bars."""
    for line in re.split(r"[\r\n]+", text):
        if found := _RECORD.search(line):
            yield found[1]
        elif line.startswith("Task: "):
            # The message begins with a line break.
            yield line
