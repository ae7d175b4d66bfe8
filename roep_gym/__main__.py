"""`python -m roep_gym`: the same as the command `roep-gym`."""

from __future__ import annotations

import sys

from roep_gym.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
