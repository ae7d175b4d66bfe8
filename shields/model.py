"""The risk model as the runtime holds it: z-score, MLP and sigmoid in NumPy.

`RiskModel.risk` is r = sigmoid(f(zscore(x))) (protocol section 6, Eq. 11), `fit_zscore` gives the statistics,
`calibrate` and `threshold` the risk from which a shield intervenes. The forward pass multiplies and adds without BLAS,
so its bits depend neither on a thread count nor on a BLAS kernel, and calibration calls the same function on the same
single rows as the runtime.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from roep_gym.error import InvalidInputError
from roep_gym.typing import Array

__all__ = ["Layer", "RiskModel", "ZScore", "calibrate", "fit_zscore", "threshold"]


class Layer(NamedTuple):
    """A linear layer: float32 weight (outputs, inputs) and bias (outputs,)."""

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]


class ZScore(NamedTuple):
    """Mean and divisor of each feature, float64."""

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]


def fit_zscore(features: Array) -> ZScore:
    """Return the z-score statistics of training features, shape (steps, features), steps >= 1.

    A feature that is constant, up to the resolution of float32, gets the divisor 1.
    """
    values = np.asarray(features, dtype=np.float64)
    mean, std = values.mean(axis=0), values.std(axis=0)
    constant = std <= 1e-7 * np.abs(mean)
    return ZScore(mean, np.where(constant, 1.0, std))


@dataclass(frozen=True, eq=False)
class RiskModel:
    """An MLP with ReLU between its layers and one logit.

    Attributes:
        zscore: Statistics of the training part.
        layers: Linear layers, from the input on.

    Raises:
        InvalidInputError: Shapes do not chain to one output, or a number is not finite, or a divisor not positive.
    """

    zscore: ZScore
    layers: tuple[Layer, ...]

    def __post_init__(self) -> None:
        widths = [len(self.zscore.mean), *(len(layer.bias) for layer in self.layers)]
        shapes = [layer.weight.shape for layer in self.layers]
        expected = [(out, into) for into, out in pairwise(widths)]
        if self.zscore.scale.shape != self.zscore.mean.shape or shapes != expected or widths[-1:] != [1]:
            raise InvalidInputError(
                f"Expected risk model layers from {widths[0]} features to one logit, got weight shapes {shapes}."
            )
        finite = all(np.isfinite(array).all() for array in self.arrays().values())
        if not finite or not (self.zscore.scale > 0).all():
            raise InvalidInputError(
                "Expected finite numbers and positive divisors in a risk model, got others."
            )

    @cached_property
    def _wide_layers(self) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """The layers in float64, converted once."""
        return [(weight.astype(np.float64), bias.astype(np.float64)) for weight, bias in self.layers]

    @property
    def input_size(self) -> int:
        """Number of features."""
        return len(self.zscore.mean)

    def logit(self, features: Array) -> float:
        """Return f(zscore(x)) of one feature vector, shape (features,), in float64."""
        values = (np.asarray(features, dtype=np.float64) - self.zscore.mean) / self.zscore.scale
        *hidden, (last_weight, last_bias) = self._wide_layers
        for weight, bias in hidden:
            values = np.maximum(np.add.reduce(weight * values, axis=1) + bias, 0.0)
        return float(np.add.reduce(last_weight[0] * values) + last_bias[0])

    def risk(self, features: Array) -> float:
        """Return the risk in [0, 1] of one feature vector; NaN when it holds a value that is not finite."""
        # An infinite feature could saturate to a finite risk, which would fail open.
        if not np.isfinite(features).all():
            return math.nan
        logit = self.logit(features)
        if logit >= 0:
            return 1.0 / (1.0 + math.exp(-logit))
        growth = math.exp(logit)
        return growth / (1.0 + growth)

    def arrays(self) -> dict[str, Array]:
        """Return every array by name, for storage and hashing."""
        named: dict[str, Array] = {"zscore_mean": self.zscore.mean, "zscore_scale": self.zscore.scale}
        for i, layer in enumerate(self.layers):
            named |= {f"weight_{i}": layer.weight, f"bias_{i}": layer.bias}
        return named

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> RiskModel:
        """Return the model whose `arrays` these are; a missing one raises `KeyError`."""
        count = sum(name.startswith("weight_") for name in arrays)
        layers = tuple(Layer(arrays[f"weight_{i}"], arrays[f"bias_{i}"]) for i in range(count))
        return cls(ZScore(arrays["zscore_mean"], arrays["zscore_scale"]), layers)


def threshold(scores: Array, alpha: float) -> float:
    """Return tau (Eq. 13), the empirical (1 - alpha) quantile of risk scores (steps,) by NumPy's method "higher".

    About a share alpha, in (0, 1), of the safe calibration steps reaches tau, by construction.
    """
    if len(scores) == 0 or not np.isfinite(scores).all():
        raise InvalidInputError(f"Expected at least one risk score, all finite, got {len(scores)} scores.")
    return float(np.quantile(scores, 1.0 - alpha, method="higher"))


def calibrate(model: RiskModel, features: Array, alpha: float) -> float:
    """Return tau from the features of safe calibration steps, shape (steps, features)."""
    return threshold(np.array([model.risk(row) for row in features]), alpha)
