"""Training of the risk model (protocol section 6, model; Eq. 12).

`class_weights` are those of the weighted BCE, `constant_loss` is what a model must beat, `train_risk_model` runs Adam
with early stopping. Equal samples and settings give equal bits: the randomness is keyed and never torch's own, one
thread computes, and the caller's thread count is restored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roep_gym import seeding
from roep_gym.shields.config import ShieldConfig
from roep_gym.shields.model import Layer, ZScore, fit_zscore
from roep_gym.typing import Array

if TYPE_CHECKING:
    import torch

__all__ = ["Samples", "TrainedNetwork", "class_weights", "constant_loss", "train_risk_model"]


class Samples(NamedTuple):
    """Labelled steps: float32 features (steps, features) and labels (steps,), 1 for risk and 0 for safe."""

    features: NDArray[np.float32]
    labels: NDArray[np.int8]


class TrainedNetwork(NamedTuple):
    """What training leaves.

    Attributes:
        zscore: Statistics of the training part.
        layers: Weights of the best epoch.
        epochs: Epochs that ran.
        best_epoch: Epoch whose weights were kept, from 1; 0 when no loss was finite.
        loss: Class-weighted loss of that epoch on the validation part; infinite when no loss was finite.
        constant_loss: That loss of `constant_loss`, a risk that is the same at every step.
    """

    zscore: ZScore
    layers: tuple[Layer, ...]
    epochs: int
    best_epoch: int
    loss: float
    constant_loss: float


def class_weights(labels: Array) -> tuple[float, float]:
    """Return w_y = N / (2 N_y) of the safe and of the risk class (Eq. 12); both classes must be present."""
    risk = int(np.count_nonzero(labels))
    return len(labels) / (2 * (len(labels) - risk)), len(labels) / (2 * risk)


def train_risk_model(train: Samples, validation: Samples, config: ShieldConfig) -> TrainedNetwork:
    """Train the MLP by Adam on the class-weighted BCE.

    The weights of the lowest validation loss are kept, and training stops after `patience` epochs without a lower
    one. Both parts have both classes, in canonical order, and validation is weighted as the training steps are.
    """
    import torch

    zscore, weights = fit_zscore(train.features), class_weights(train.labels)
    parameters = [
        torch.from_numpy(array.copy()).requires_grad_()
        for layer in _initial_layers(train.features.shape[1], config)
        for array in layer
    ]
    optimizer = torch.optim.Adam(parameters, lr=config.learning_rate)
    train_batch, validation_batch = (_tensors(part, zscore, weights) for part in (train, validation))
    best_epoch, best_loss, best, epoch = 0, math.inf, _to_layers(parameters), 0
    with _single_thread(), torch.enable_grad():
        for epoch in range(1, config.max_epochs + 1):
            order = seeding.generator("shield", "batches", config.seed, epoch).permutation(len(train.labels))
            for start in range(0, len(order), config.batch_size):
                rows = torch.from_numpy(order[start : start + config.batch_size])
                optimizer.zero_grad()
                loss = _weighted_loss(parameters, *(tensor[rows] for tensor in train_batch))
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
            with torch.no_grad():
                current = _weighted_loss(parameters, *validation_batch).item()
            if current < best_loss:
                best_epoch, best_loss, best = epoch, current, _to_layers(parameters)
            elif epoch - best_epoch >= config.patience:
                break
    constant = constant_loss(validation.labels, weights)
    return TrainedNetwork(zscore, best, epoch, best_epoch, best_loss, constant)


def constant_loss(labels: Array, weights: tuple[float, float]) -> float:
    """Return the weighted loss of a risk of 0.5 at every step.

    It is the best constant on the training part, whose classes the weights (safe, risk) balance.
    """
    return math.log(2.0) * float(np.where(labels == 1, weights[1], weights[0]).mean())


def _initial_layers(input_size: int, config: ShieldConfig) -> list[Layer]:
    """Draw weights and biases uniformly within 1 / sqrt(inputs), the usual start of a linear layer."""
    widths, layers = (input_size, *config.hidden_sizes, 1), []
    for i, (into, out) in enumerate(pairwise(widths)):
        rng, bound = seeding.generator("shield", "initial weights", config.seed, i), 1.0 / math.sqrt(into)
        weight, bias = rng.uniform(-bound, bound, (out, into)), rng.uniform(-bound, bound, out)
        layers.append(Layer(weight.astype(np.float32), bias.astype(np.float32)))
    return layers


def _tensors(
    samples: Samples, zscore: ZScore, weights: tuple[float, float]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return standardised features, labels and step weights."""
    import torch

    scaled = (samples.features.astype(np.float64) - zscore.mean) / zscore.scale
    step_weights = np.where(samples.labels == 1, weights[1], weights[0])
    arrays = (scaled, samples.labels, step_weights)
    features, labels, weight = (torch.from_numpy(np.asarray(array).astype(np.float32)) for array in arrays)
    return features, labels, weight


def _weighted_loss(
    parameters: list[torch.Tensor], features: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor
) -> torch.Tensor:
    from torch.nn import functional

    values = features
    for i in range(0, len(parameters) - 2, 2):
        values = functional.linear(values, parameters[i], parameters[i + 1]).relu()
    logits = functional.linear(values, parameters[-2], parameters[-1]).squeeze(-1)
    return functional.binary_cross_entropy_with_logits(logits, labels, weight=weights)


def _to_layers(parameters: list[torch.Tensor]) -> tuple[Layer, ...]:
    arrays = [parameter.detach().numpy().copy() for parameter in parameters]
    return tuple(Layer(weight, bias) for weight, bias in zip(arrays[::2], arrays[1::2], strict=True))


@contextmanager
def _single_thread() -> Iterator[None]:
    """Compute on one torch thread, since sums over several depend on their number, and restore the setting."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
