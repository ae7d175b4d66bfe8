"""What `import roep_gym` and the packages with public names may load."""

from __future__ import annotations

import subprocess
import sys

import pytest
from api_names import FACADES

CODE = """
import sys
before = set(sys.modules)
import {package}
loaded = {{name.split(".")[0] for name in set(sys.modules) - before}}
print(*sorted(loaded - {{"roep_gym"}} - sys.stdlib_module_names))
"""


@pytest.mark.parametrize("package", FACADES)
def test_import_loads_the_standard_library_alone(package: str) -> None:
    code = CODE.format(package=package)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == []
