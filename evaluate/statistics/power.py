"""How many episodes show a drop of the success rate, and which drop a number of episodes shows.

`mcnemar_power` is the power of the exact McNemar test, `paired_episodes` and `unpaired_episodes` the numbers of
episodes that a drop needs, `minimum_detectable_drop` the drop that a number of pairs shows, `power_table` all of it for
planning. Everything here is about distinct episodes: a second, identical execution adds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import xarray as xr

from roep_gym.error import InvalidInputError
from roep_gym.typing import IntArray

__all__ = [
    "LARGEST_PLAN",
    "independent_gain",
    "mcnemar_power",
    "minimum_detectable_drop",
    "paired_episodes",
    "power_table",
    "unpaired_episodes",
]

LARGEST_PLAN = 100_000
"""Numbers of episodes are sought up to this one."""


def mcnemar_power(drop: float, gained: float, n: int, *, alpha: float = 0.05) -> float:
    r"""Return the chance that the exact two-sided McNemar test of n pairs reports a drop.

    .. math:: \sum_m \mathrm{Bin}(m; n, \psi) \, P(B \le c_m \lor B \ge m - c_m), \quad
        B \sim \mathrm{Bin}(m, (d + g) / \psi), \quad \psi = d + 2 g

    where c_m is the largest count with a p-value of at most alpha among m discordant pairs.

    Args:
        drop: True drop d of the success rate, in 0..1.
        gained: Share g of pairs whose base fails and whose comparison succeeds; d + g is the share of the reverse.
        n: Number of pairs.
        alpha: Level of the test.

    Raises:
        InvalidInputError: The shares do not fit into one, or the level is not between 0 and 1.

    References:
        Duffy, S. W. (1984). Asymptotic and exact power for the McNemar test and its analogue with R controls per
        case. Biometrics, 40(4), 1005-1015. https://doi.org/10.2307/2531151

    Example:
        With 6 pairs that all lose the test rejects (p = 2/64); with 5 it does not (p = 2/32):

        >>> mcnemar_power(1.0, 0.0, 6), mcnemar_power(1.0, 0.0, 5)
        (1.0, 0.0)
    """
    from scipy.stats import binom

    discordant = drop + 2 * gained
    if drop < 0 or gained < 0 or discordant > 1 + 1e-12 or not 0 < alpha < 1:
        raise InvalidInputError(
            "Expected a drop and a gained share with drop + 2 gained in 0..1 and a level in 0..1, got "
            f"{drop}, {gained} and {alpha}."
        )
    if discordant == 0:
        return 0.0
    discordant = min(discordant, 1.0)
    # Numbers of discordant pairs beyond these have no weight that a double could show.
    fewest, most = binom.ppf([1e-15, 1 - 1e-15], n, discordant)
    m = np.arange(max(0, int(fewest)), int(most) + 1)
    critical = _critical_counts(m, alpha)
    lost = (drop + gained) / discordant
    rejects = binom.cdf(critical, m, lost) + binom.sf(m - critical - 1, m, lost)
    power: float = float(np.sum(binom.pmf(m, n, discordant) * np.where(critical >= 0, rejects, 0)))
    return min(1.0, power)


def _critical_counts(m: IntArray, alpha: float) -> IntArray:
    """Return the largest smaller count whose doubled tail is at most alpha among m pairs; -1 where there is none."""
    from scipy.stats import binom

    count = np.maximum(binom.ppf(alpha / 2, m, 0.5).astype(int), 0)
    # The quantile is the first count whose tail reaches alpha / 2; the one before it is below, unless equal.
    return np.asarray(np.where(2 * binom.cdf(count, m, 0.5) <= alpha * (1 + 1e-12), count, count - 1))


def independent_gain(base_rate: float, drop: float) -> float:
    """Return the share of pairs that gain when partners have nothing in common but the task: (1 - p)(p - d)."""
    return (1 - base_rate) * (base_rate - drop)


def paired_episodes(drop: float, gained: float, *, power: float = 0.8, alpha: float = 0.05) -> int:
    """Return the smallest number of pairs from which on the exact McNemar test shows a drop.

    The power of an exact test is a saw over n: this is the first n that suffices with all of the next 20.

    Args:
        drop: True drop of the success rate, above 0.
        gained: Share of pairs whose base fails and whose comparison succeeds.
        power: Wanted chance of reporting the drop.
        alpha: Level of the test.

    Raises:
        InvalidInputError: The drop is not above 0, the power is not between 0 and 1, or more than `LARGEST_PLAN` pairs
            would be needed.
    """
    _check_wanted(drop, power)

    def suffices(n: int) -> bool:
        return mcnemar_power(drop, gained, n, alpha=alpha) >= power

    high = 1
    while not suffices(high):
        high *= 2
        if high > LARGEST_PLAN:
            raise InvalidInputError(
                f"Expected a drop that at most {LARGEST_PLAN} pairs show, but {drop:g} needs more; use a larger one."
            )
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    # The saw: bisection may have ended on a tooth.
    n, since = max(1, high - 20), 0
    while since <= 20:
        since = since + 1 if suffices(n) else 0
        n += 1
    return n - since


def unpaired_episodes(base_rate: float, drop: float, *, power: float = 0.8, alpha: float = 0.05) -> int:
    r"""Return the number of episodes of each condition that shows a drop when episodes are no partners.

    .. math:: n = \frac{n'}{4} \left(1 + \sqrt{1 + \frac{4}{n' d}}\right)^2, \quad
        n' = \frac{(z_{\alpha/2} \sqrt{2 \bar p \bar q} + z_\beta \sqrt{p_1 q_1 + p_2 q_2})^2}{d^2}

    The continuity correction makes it the number that Fisher's exact test needs, to a few per cent.

    Args:
        base_rate: Success rate p1 of the base.
        drop: True drop d; p2 = p1 - d.
        power: Wanted chance of reporting the drop.
        alpha: Level of the two-sided test.

    Raises:
        InvalidInputError: The drop is not above 0 or exceeds the rate, or the power is not between 0 and 1.

    References:
        Fleiss, J. L., Tytun, A., & Ury, H. K. (1980). A simple approximation for calculating sample sizes for
        comparing independent proportions. Biometrics, 36(2), 343-346. https://doi.org/10.2307/2529990

    Example:
        >>> unpaired_episodes(0.6, 0.1), unpaired_episodes(0.4, 0.15, power=0.9)
        (408, 216)
    """
    _check_wanted(drop, power)
    if not drop <= base_rate <= 1 or not 0 < alpha < 1:
        raise InvalidInputError(
            f"Expected a base rate between the drop {drop:g} and 1 and a level in 0..1, got {base_rate:g} and "
            f"{alpha:g}."
        )
    other = base_rate - drop
    mean = (base_rate + other) / 2
    z_alpha, z_beta = NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(power)
    spread = z_alpha * math.sqrt(2 * mean * (1 - mean)) + z_beta * math.sqrt(
        base_rate * (1 - base_rate) + other * (1 - other)
    )
    uncorrected = (spread / drop) ** 2
    return math.ceil(uncorrected / 4 * (1 + math.sqrt(1 + 4 / (uncorrected * drop))) ** 2)


def minimum_detectable_drop(
    n: int, base_rate: float, gained: float, *, power: float = 0.8, alpha: float = 0.05
) -> float:
    """Return the smallest drop that the exact McNemar test of n pairs reports with the wanted power, to 1e-4.

    Args:
        n: Number of pairs.
        base_rate: Success rate of the base: no more than this can be lost.
        gained: Share of pairs whose base fails and whose comparison succeeds.
        power: Wanted chance of reporting the drop.
        alpha: Level of the test.

    Returns:
        A drop in 0..1; NaN where even the loss of every success would not be reported so often.
    """
    _check_wanted(1.0, power)
    largest = min(base_rate - gained, 1 - 2 * gained)
    if n < 1 or largest <= 0 or mcnemar_power(largest, gained, n, alpha=alpha) < power:
        return math.nan
    low, high = 0.0, largest
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (
            (low, middle) if mcnemar_power(middle, gained, n, alpha=alpha) >= power else (middle, high)
        )
    return high


def power_table(
    drops: Sequence[float],
    base_rates: Sequence[float],
    *,
    power: float = 0.8,
    alpha: float = 0.05,
    tests: int = 1,
) -> xr.Dataset:
    """Return the numbers of episodes that drops of the success rate need.

    Args:
        drops: True drops, above 0.
        base_rates: Success rates of the base.
        power: Wanted chance of reporting a drop.
        alpha: Level, for all tests together.
        tests: Number of rows that are tested together: each is planned at Holm's first step, alpha / tests.

    Returns:
        A Dataset along (`base_rate`, `success_drop`), in episodes of each condition: `paired_best` (pairs; nothing is
        gained, every discordant pair is a loss), `paired_independent` (pairs whose outcomes have only their rates in
        common) and `unpaired`. Real pairs lie between the first two. NaN where the drop exceeds the rate.
    """
    if tests < 1:
        raise InvalidInputError(f"Expected at least 1 test, got {tests}.")
    designs = ("paired_best", "paired_independent", "unpaired")
    episodes = np.full((len(designs), len(base_rates), len(drops)), np.nan)
    level = alpha / tests
    for i, rate in enumerate(base_rates):
        for j, drop in enumerate(drops):
            if drop > rate + 1e-12:
                continue
            gain = max(0.0, independent_gain(rate, drop))
            episodes[:, i, j] = (
                paired_episodes(drop, 0.0, power=power, alpha=level),
                paired_episodes(drop, gain, power=power, alpha=level),
                unpaired_episodes(rate, drop, power=power, alpha=level),
            )
    dims = ("base_rate", "success_drop")
    return xr.Dataset(
        {
            name: (dims, values, {"long_name": f"episodes of each condition, {name}"})
            for name, values in zip(designs, episodes, strict=True)
        },
        coords={"base_rate": list(base_rates), "success_drop": list(drops)},
        attrs={"power": power, "alpha": alpha, "tests": tests},
    )


def _check_wanted(drop: float, power: float) -> None:
    if not drop > 0:
        raise InvalidInputError(f"Expected a drop above 0, got {drop:g}.")
    if not 0 < power < 1:
        raise InvalidInputError(f"Expected a power between 0 and 1, got {power:g}.")
