"""`python -m roep_gym`, and the command `roep-gym`: Ctrl-C ends it with one line, also while modules are imported."""

from __future__ import annotations

import sys

__all__ = ["run"]


def run() -> int:
    """Run the command line of the process and return the exit status."""
    try:
        from roep_gym.cli.main import main

        return main()
    except KeyboardInterrupt:  # before `main` could answer it
        sys.stderr.write("roep-gym: interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(run())
