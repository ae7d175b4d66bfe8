"""Text logs of OpenVLA-OFT's (and OpenVLA's) `experiments/robot/libero/run_libero_eval.py`.

Looked at: the script of openvla/openvla (commit 7ea27426) and of OpenVLA-OFT in a public copy (commit
69ca45a4). Both write `EVAL-SUITE-FAMILY-DATE.txt` with bare lines; OpenVLA-OFT prints the same lines on the console
behind `DATE [INFO] `, which is read too. An exception reads `Episode error: ...` (OpenVLA-OFT) or `Caught exception:
...` (OpenVLA). `Starting episode N...` sets the stored initial state N - 1, unless `Using initial states from FILE`
says otherwise.

Not in the log: steps, actions, the seed. The simulator is seeded once a task, so the scene of an episode depends on
the resets before it: no scene seed.
"""

from __future__ import annotations

import re
from pathlib import Path

from roep_gym.evaluate.importers.console_log import ConsoleFormat, read_console_log
from roep_gym.evaluate.importers.episode_log import EpisodeLog, read_text

__all__ = ["read_openvla_oft_log"]

_FORMAT = ConsoleFormat(
    tool="OpenVLA-OFT",
    crash=("Episode error: ", "Caught exception: "),
    begins="Starting episode 1...",
    remedy="give the file EVAL-*.txt of run_libero_eval.py, or check --from",
)
# A progress bar may stand before the prefix.
_PREFIX = re.compile(r"^.*?\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2},\d{3} \[[A-Z]+\] ")


def read_openvla_oft_log(path: Path, suite: str = "") -> EpisodeLog:
    """Read a text log of `run_libero_eval.py`.

    Args:
        path: The log.
        suite: Suite, where the log does not name it.

    Raises:
        InvalidInputError: It is not such a log, or lines are missing.
    """
    lines = read_text(path, "OpenVLA-OFT").splitlines()
    return read_console_log(path, (_PREFIX.sub("", line) for line in lines), _FORMAT, suite)
