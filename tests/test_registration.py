"""`import roep_gym` registers the environments in any import order."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys

import pytest

MAKE = "env = gym.make('roep_gym/Tabletop-v0', image_size=16); env.reset(seed=0); print(sorted(gym.registry)[-2:])"


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    "imports",
    [
        "import roep_gym; import gymnasium as gym",
        "import gymnasium as gym; import roep_gym",
        "import roep_gym; from gymnasium import spaces; import gymnasium as gym",
        "import roep_gym; import stable_baselines3; import gymnasium as gym",
        "import roep_gym, importlib.util as u; u.find_spec('gymnasium'); import gymnasium as gym",
        "import gymnasium as gym, roep_gym.envs.registration as r; r.register_environments()",
        "import roep_gym, importlib; importlib.reload(roep_gym); import gymnasium as gym; importlib.reload(roep_gym)",
    ],
)
def test_ids_are_registered_in_any_import_order(imports: str) -> None:
    code = f"{imports}; import sys; ids = [i for i in gym.registry if i.startswith('roep_gym/')]; {MAKE}; print(ids)"
    assert run(code).endswith(
        str([f"roep_gym/{name}-v0" for name in ("Gymnasium", "Libero", "Robosuite", "Tabletop")])
    )


def test_gymnasium_is_left_as_its_own_import_makes_it() -> None:
    code = (
        "import sys\n{}import gymnasium\n"
        "print(type(gymnasium.__loader__).__name__, gymnasium.__loader__ is gymnasium.__spec__.loader,\n"
        "      [type(finder).__name__ for finder in sys.meta_path if 'Gymnasium' in type(finder).__name__])"
    )
    assert run(code.format("import roep_gym\n")) == run(code.format("")) == "SourceFileLoader True []"


def test_a_missing_gymnasium_is_an_ordinary_import_error_and_a_later_import_still_registers() -> None:
    code = (
        "import sys, roep_gym\n"
        "path, sys.path[:] = sys.path[:], []\n"
        "try:\n    import gymnasium\nexcept ModuleNotFoundError as error:\n    print(error)\n"
        "sys.path[:] = path\n"
        "import gymnasium\nprint('roep_gym/Tabletop-v0' in gymnasium.registry)"
    )
    assert run(code).splitlines() == ["No module named 'gymnasium'", "True"]


def test_unknown_attributes_are_refused() -> None:
    import roep_gym.envs
    import roep_gym.wrappers

    for module in (roep_gym.envs, roep_gym.wrappers):
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            module.nothing  # noqa: B018


def _steps() -> int:
    import gymnasium as gym

    import roep_gym  # noqa: F401

    env = gym.make("roep_gym/Tabletop-v0", image_size=16)
    return int(env.reset(seed=0)[0]["agentview_image"].shape[0])


def test_a_spawned_worker_makes_the_environment() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_steps) == 16


def test_the_version_is_that_of_the_installed_package() -> None:
    from importlib.metadata import version

    import roep_gym

    assert roep_gym.__version__ == version("roep-gym")
