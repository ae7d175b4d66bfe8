"""`roep-gym capacity`: how many episodes an hour more workers and devices would give, from what a run measured."""

from __future__ import annotations

from dataclasses import dataclass

from roep_gym.cli.arguments import Folder
from roep_gym.cli.terminal import say
from roep_gym.evaluate.run.capacity import capacity, measured_cost
from roep_gym.evaluate.store.storage import read_run

__all__ = ["Arguments", "run"]


@dataclass(frozen=True)
class Arguments:
    """Print how many episodes an hour numbers of workers would give, as an upper bound."""

    run: Folder
    """Folder of a run whose episodes are like those to come; measure with one worker."""
    workers: tuple[int, ...] = (1, 8, 64, 512)
    """Numbers of workers, each with a core of its own."""
    devices: int = 0
    """Devices that all decisions share, as behind `roep-gym serve`; 0: the policy decides inside the workers."""
    episodes: int = 1_000_000
    """Episodes whose time is told."""


def run(arguments: Arguments) -> None:
    """Print the capacities."""
    cost = measured_cost(read_run(arguments.run))
    say(f"An episode takes {cost.worker:.3g} s, {cost.decisions:.3g} s of them in decisions.\n")
    say(f"| workers | episodes/h | {arguments.episodes:,} episodes | bound by |\n|---|---|---|---|")
    for workers in arguments.workers:
        rate, bound = capacity(cost, workers, arguments.devices)
        say(f"| {workers} | {rate:,.0f} | {arguments.episodes / rate:,.1f} h | {bound} |")
