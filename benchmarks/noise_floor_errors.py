"""How often rows without any effect are called distinguishable: by the paper's floor, and by the calibrated test.

Rows of 50 episodes are simulated in which perturbing changes nothing: every execution of an episode succeeds with the
episode's own chance. Prints the error rates, and the power where the perturbation lowers every chance.
"""

from __future__ import annotations

import argparse

import numpy as np

from roep_gym.evaluate.judging.calibrated_effect import ERROR_RATE
from roep_gym.evaluate.statistics.intervals import stratified_exact

EPISODES = 50
# Mean success rate of the rows, and how unlike their episodes are (Beta concentration).
ROWS = ((0.95, 2.0), (0.8, 2.0), (0.6, 2.0), (0.6, 0.5), (0.3, 2.0))


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4000, help="simulated rows of each kind")
    rows = parser.parse_args().rows
    draw = np.random.default_rng(0)
    print(
        "success | concentration | drop | paper's floor | calibrated, clones: 1 | 2 | 3 | 3 medium, clean replicated"
    )
    for mean, concentration in ROWS:
        for drop in (0.0, 0.2):
            above = 0
            called = np.zeros(4, dtype=int)
            for _ in range(rows):
                chance = draw.beta(mean * concentration, (1 - mean) * concentration, EPISODES)
                clean = draw.binomial(1, chance, (4, EPISODES))
                medium = draw.binomial(1, chance * (1 - drop), (4, EPISODES))
                rate, other = clean.mean(axis=1), medium.mean(axis=1)
                floor = max(abs(rate[0] - rate[1]), abs(other[0] - other[1]))
                above += abs(rate[0] - other[0]) > floor + 1e-9
                for k, (c, p) in enumerate(((2, 2), (3, 3), (4, 4), (1, 4))):
                    n, m = np.full(EPISODES, c), np.full(EPISODES, p)
                    p_value = stratified_exact(clean[:c].sum(axis=0), n, medium[:p].sum(axis=0), m)
                    called[k] += p_value <= ERROR_RATE
            shares = " | ".join(f"{share:.3f}" for share in called / rows)
            print(
                f"{mean:.2f} | {concentration:.1f} | {drop:.2f} | {above / rows:.3f} | {shares}", flush=True
            )


if __name__ == "__main__":
    main()
