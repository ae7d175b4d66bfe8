"""The capacity model: what bounds the rate, and costs as a run measured them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from judging_data import drop, evaluation

from roep_gym.cli.main import main
from roep_gym.error import InvalidInputError
from roep_gym.evaluate.run.capacity import EpisodeCost, capacity, measured_cost
from roep_gym.evaluate.store.storage import save_dataset


@pytest.mark.parametrize(
    ("workers", "devices", "expected"),
    [
        (1, 0, (900, "workers")),
        (10, 0, (9000, "workers")),
        (10, 1, (3600, "devices")),
        (3, 1, (2700, "workers")),
        (10, 4, (9000, "workers")),
        (100_000, 0, (7_200_000, "journal")),
    ],
)
def test_the_scarcest_thing_bounds_the_rate(workers: int, devices: int, expected: tuple[float, str]) -> None:
    assert capacity(EpisodeCost(4.0, 1.0), workers, devices) == expected


def test_devices_bound_nothing_for_a_policy_that_takes_no_time() -> None:
    assert capacity(EpisodeCost(4.0, 0.0), 8, 1).bound == "workers"


@pytest.mark.parametrize(
    ("cost", "workers", "devices"),
    [
        ((4, 1), 0, 0),
        ((4, 1), 1, -1),
        ((0, 0), 1, 0),
        ((1, 2), 1, 0),
        ((1, -1), 1, 0),
        ((float("nan"), 0), 1, 0),
    ],
)
def test_impossible_numbers_are_refused(cost: tuple[float, float], workers: int, devices: int) -> None:
    with pytest.raises(InvalidInputError, match="Expected"):
        capacity(EpisodeCost(*cost), workers, devices)


def timed():
    data = evaluation(records="native")
    data["wall_time"].values[:] = np.where(np.arange(data.sizes["episode"]) % 2, 3.0, 5.0)
    data["policy_latency"].values[:] = 0.1
    data["decisions"].values[:] = 10
    drop(data, "full")
    data["wall_time"].values[-1] = 1e9  # of an episode that did not run
    return data


def test_costs_are_the_means_of_what_ran() -> None:
    assert measured_cost(timed()) == pytest.approx((4.0, 1.0))


def test_a_run_without_times_is_refused() -> None:
    with pytest.raises(
        InvalidInputError, match=re.escape("Expected a run whose episodes were timed, got none")
    ):
        measured_cost(evaluation())


def test_the_command_prints_a_line_for_each_number_of_workers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_dataset(timed(), tmp_path / "episodes.nc")
    assert (
        main(["capacity", str(tmp_path), "--workers", "2", "100", "--devices", "2", "--episodes", "18000"])
        == 0
    )
    assert capsys.readouterr().out.splitlines() == [
        "An episode takes 4 s, 1 s of them in decisions.",
        "",
        "| workers | episodes/h | 18,000 episodes | bound by |",
        "|---|---|---|---|",
        "| 2 | 1,800 | 10.0 h | workers |",
        "| 100 | 7,200 | 2.5 h | devices |",
    ]
