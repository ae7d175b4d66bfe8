"""The numeric fingerprint: it tells processes apart whose bits differ, whatever their versions and names."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys

import numpy as np
import pytest

from roep_gym.envs.numeric_probe import NOT_AVAILABLE, PARTS, numeric_probe
from roep_gym.fingerprint import fingerprint, fingerprint_hash, versions

X86 = platform.machine() in ("x86_64", "AMD64")
PRODUCT = (
    "import numpy as np; a = np.random.Generator(np.random.Philox(0)).random((40, 40)); "
    "print((a @ a).tobytes().hex())"
)


def probe_under(**variables: str) -> dict[str, str]:
    code = "import json; from roep_gym.envs.numeric_probe import numeric_probe; print(json.dumps(numeric_probe()))"
    return json.loads(python(code, **variables))


def python(code: str, **variables: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, check=True
    ).stdout.splitlines()[-1]


def test_every_part_is_computed_here() -> None:
    assert set(numeric_probe()) == set(PARTS)
    assert NOT_AVAILABLE not in numeric_probe().values()


def test_another_process_computes_the_same() -> None:
    assert probe_under(OMP_NUM_THREADS="2") == dict(numeric_probe())


@pytest.mark.skipif(not X86, reason="OpenBLAS and torch name their kernels by x86 extensions")
def test_other_kernels_are_another_fingerprint_though_all_versions_are_equal() -> None:
    variables = {"OPENBLAS_CORETYPE": "Prescott", "ATEN_CPU_CAPABILITY": "default"}
    assert python(PRODUCT) != python(PRODUCT, **variables)
    here, other = numeric_probe(), probe_under(**variables)
    assert {part for part in PARTS if here[part] != other[part]} >= {"blas", "torch"}
    assert here["physics"] == other["physics"]
    assert fingerprint_hash(fingerprint("none", here)) != fingerprint_hash(fingerprint("none", other))


def test_names_of_processor_and_kernel_do_not_decide() -> None:
    details = fingerprint("none", numeric_probe())
    assert set(versions()) < set(details)
    assert fingerprint_hash({**details, "processor": "another", "blas": "another"}) == fingerprint_hash(
        details
    )


@pytest.mark.parametrize("name", ["renderer", "numpy", *(f"probe_{part}" for part in PARTS)])
def test_everything_else_decides(name: str) -> None:
    details = fingerprint("none", numeric_probe())
    assert fingerprint_hash({**details, name: "another"}) != fingerprint_hash(details)
    assert 0 <= fingerprint_hash(details) < 2**63
    assert np.int64(fingerprint_hash(details)) == fingerprint_hash(details)


def test_a_process_that_dies_leaves_the_parts_it_had_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Died:
        def __init__(self, command: list[str], **_: object) -> None:
            self.first = command[3]

        def communicate(self, timeout: float = 0.0) -> tuple[str, None]:
            return f'["{self.first}", "1234"]\nlibrary: a line of somebody else\n', None

    monkeypatch.setattr(subprocess, "Popen", Died)
    found = numeric_probe.__wrapped__()
    assert found == {**dict.fromkeys(PARTS, NOT_AVAILABLE), "torch": "1234", PARTS[0]: "1234"}
