"""What a status depends on: each threshold, the success-rate floor, and the number of episodes.

`break_points` says at which value of each threshold a row's status changes, `floor_statuses` what other floors of clean
admission give, `subsample_statuses` how often the status holds with fewer episodes. All of them let the gate itself
decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import xarray as xr

from roep_gym.error import InvalidInputError
from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.judging.admission import admit, largest_clean_action
from roep_gym.evaluate.judging.checks import Evidence
from roep_gym.evaluate.judging.gate import LABELS, collect_evidence, decide
from roep_gym.evaluate.judging.metrics import ratio
from roep_gym.evaluate.judging.pairing import GATE_PAIRS, pairing_keys
from roep_gym.evaluate.judging.tables import ROW, planned_in, table
from roep_gym.evaluate.schema import EPISODE_VARIABLES
from roep_gym.mapping_reader import read_mapping
from roep_gym.seeding import generator
from roep_gym.typing import Array, FloatArray, IntArray

__all__ = [
    "FLOORS",
    "SIZES",
    "THRESHOLDS",
    "Threshold",
    "break_points",
    "floor_statuses",
    "subsample_statuses",
]

FLOORS: tuple[float, ...] = (0.05, 0.10, 0.20)
"""Floors of the clean success rate."""

SIZES: tuple[int, ...] = (10, 20, 30)
"""Numbers of episodes per condition."""

_LARGE = 10**9


@dataclass(frozen=True)
class Threshold:
    """A threshold of `GateConfig` and what is compared with it.

    Attributes:
        name: Field of the configuration.
        passes: Which recorded values satisfy it: "at_least", "above" or "at_most".
        recorded: Returns the recorded value of every row, NaN where there is none.
        largest: Largest value that the configuration accepts; the smallest is 0.
    """

    name: str
    passes: Literal["at_least", "above", "at_most"]
    recorded: Callable[[Evidence], FloatArray]
    largest: float = 1.0


def _value_of(check: str) -> Callable[[Evidence], FloatArray]:
    return lambda evidence: np.asarray(decide(evidence)["value"].sel(check=check).values, dtype=float)


def _baseline_success(name: str) -> Callable[[Evidence], FloatArray]:
    at = {"condition": "baseline", "outcome": "success"}
    return lambda evidence: np.asarray(evidence.rates[name].sel(at).values, dtype=float)


def _risk_positive(evidence: Evidence) -> FloatArray:
    return np.where(evidence.shield, evidence.data["risk_positive_episodes"].values, np.nan)


THRESHOLDS: tuple[Threshold, ...] = (
    Threshold("min_clean_successes", "at_least", _baseline_success("count"), _LARGE),
    Threshold("min_clean_success_rate", "at_least", _baseline_success("rate")),
    Threshold("min_abs_action", "above", lambda evidence: largest_clean_action(evidence.data), _LARGE),
    Threshold("max_mismatched_keys", "at_most", _value_of("pairing_integrity"), _LARGE),
    Threshold("min_paired_support", "at_least", _value_of("paired_support"), _LARGE),
    Threshold("min_risk_positive_episodes", "at_least", _risk_positive, _LARGE),
    Threshold("min_intervention_steps", "at_least", _value_of("recovery_activity"), _LARGE),
    Threshold("max_clean_harm", "at_most", _value_of("clean_recovery_harm")),
    Threshold("max_clean_unsafe_harm", "at_most", _value_of("clean_unsafe_harm")),
    Threshold("max_unsafe_increase", "at_most", _value_of("medium_unsafe_attempts")),
    Threshold("max_success_drop", "at_most", _value_of("full_vs_perturb_effect")),
    Threshold("max_medium_unsafe_harm", "at_most", _value_of("medium_unsafe_harm")),
)
"""Every threshold of the gate, in the order of its checks."""


def break_points(data: xr.Dataset, config: GateConfig | None = None) -> xr.Dataset:
    """Return the value of each threshold at which each row's status changes, the other thresholds as configured.

    A check compares one recorded value with its threshold, so a status can change at that value and nowhere else; the
    gate is asked at both ends of the threshold's range whether it does.

    Args:
        data: A Dataset of `roep_gym.evaluate.schema`.
        config: Thresholds; None takes the paper's.

    Returns:
        A Dataset along (`row`, `threshold`): `strict_label` and `lenient_label`, the trace labels at the two ends,
        `break_at`, the recorded value between them (NaN where the status never changes; equality passes, except that
        the largest action must exceed its threshold), and `margin`: how far the configured value lies on the lenient
        side of it, negative on the strict side. Also `configured` along `threshold` and `trace_label` along `row`.

    Raises:
        InvalidInputError: The Dataset is not of the schema, or holds an episode twice.
    """
    evidence = collect_evidence(data, config or GateConfig())
    ends: list[tuple[Array, Array]] = []
    for threshold in THRESHOLDS:
        low, high = (_labels(evidence, threshold.name, value) for value in (0, threshold.largest))
        ends.append((low, high) if threshold.passes == "at_most" else (high, low))
    strict_label, lenient_label = (np.stack(labels, axis=1) for labels in zip(*ends, strict=True))
    recorded = np.stack([threshold.recorded(evidence) for threshold in THRESHOLDS], axis=1)
    at = np.where(strict_label == lenient_label, np.nan, recorded)
    configured = np.array([float(getattr(evidence.config, t.name)) for t in THRESHOLDS])
    sign = np.array([1 if t.passes == "at_most" else -1 for t in THRESHOLDS])
    margin = sign * (configured - at)
    margin[np.abs(margin) <= evidence.config.tolerance] = 0.0
    dims = ("row", "threshold")
    return table(
        {
            "strict_label": (dims, strict_label, "trace label at the strictest threshold"),
            "lenient_label": (dims, lenient_label, "trace label at the most lenient threshold"),
            "break_at": (dims, at, "threshold at which the trace label changes"),
            "margin": (dims, margin, "configured threshold beyond the break, to the lenient side"),
            "configured": ("threshold", configured, "configured threshold"),
            "trace_label": ("row", decide(evidence)["trace_label"].values, "trace label"),
        },
        data,
        threshold=[t.name for t in THRESHOLDS],
    ).assign_attrs(config=evidence.config.to_json())


def floor_statuses(
    data: xr.Dataset, config: GateConfig | None = None, *, floors: Sequence[float] = FLOORS
) -> xr.Dataset:
    """Return the trace label of every row under other floors of the clean success rate.

    Args:
        data: A Dataset of `roep_gym.evaluate.schema`.
        config: The other thresholds; None takes the paper's.
        floors: Smallest clean success rates that admit a row.

    Returns:
        A Dataset with `trace_label` along (`row`, `floor`).

    Raises:
        InvalidInputError: A floor is no rate, or the Dataset is not of the schema.
    """
    evidence = collect_evidence(data, config or GateConfig())
    labels = np.stack([_labels(evidence, "min_clean_success_rate", floor) for floor in floors], axis=1)
    return table({"trace_label": (("row", "floor"), labels, "trace label")}, data, floor=floors)


def _labels(evidence: Evidence, name: str, value: float) -> Array:
    """Return the trace labels (row,) with one threshold set to a value."""
    config = read_mapping(GateConfig, {**evidence.config.to_dict(), name: value}, "gate")
    changed = replace(evidence, config=config, admission=admit(evidence.data, evidence.rates, config))
    return np.asarray(decide(changed)["trace_label"].values)


def subsample_statuses(
    data: xr.Dataset,
    config: GateConfig | None = None,
    *,
    sizes: Sequence[int] = SIZES,
    subsets: int = 100,
) -> xr.Dataset:
    """Judge random subsets of every row's episodes.

    A subset takes the same pairing keys in every condition, drawn without replacement by a generator that is keyed by
    row and size. A subset is judged like a row that was planned with these episodes; thresholds that are counts, such
    as the paired support, keep their values.

    Args:
        data: A Dataset of `roep_gym.evaluate.schema`.
        config: Thresholds; None takes the paper's.
        sizes: Numbers of keys in a subset.
        subsets: Number of subsets per row and size.

    Returns:
        A Dataset along (`row`, `size`): `subsets` (0 where the row has no more keys than the size), `label_count` along
        `trace_label`, `same_share`, the share of subsets with the label of the whole row (NaN without subsets). Also
        `trace_label_of_all` and `keys` along `row`.

    Raises:
        InvalidInputError: A size or the number of subsets is below 1, or the Dataset is not of the schema.
    """
    if subsets < 1 or any(size < 1 for size in sizes):
        raise InvalidInputError(f"Expected sizes and subsets of at least 1, got {list(sizes)} and {subsets}.")
    config = config or GateConfig()
    whole = decide(collect_evidence(data, config))["trace_label"].values
    gated = data.isel(episode=planned_in(data, *{name for pair in GATE_PAIRS for name in pair}))
    keys = pairing_keys(gated)
    keys_of_row = np.bincount(gated["row_index"].values[keys.first], minlength=data.sizes["row"])
    ends = np.cumsum(np.bincount(keys.code))
    episodes_of_key = np.split(np.argsort(keys.code, kind="stable"), ends[:-1])
    count = np.zeros((data.sizes["row"], len(sizes), len(LABELS)), dtype=np.int64)
    for column, size in enumerate(sizes):
        for batch in _batches(gated, keys_of_row, episodes_of_key, size, subsets):
            labels = decide(collect_evidence(batch, config))["trace_label"].values
            codes = np.array([LABELS.index(label) for label in labels])
            np.add.at(count[:, column], (batch["origin"].values, codes), 1)
    total = count.sum(axis=-1)
    own = count[np.arange(len(whole)), :, [LABELS.index(label) for label in whole]]
    dims = ("row", "size")
    return table(
        {
            "label_count": ((*dims, "trace_label"), count, "subsets with the label"),
            "subsets": (dims, total, "subsets judged"),
            "same_share": (dims, ratio(own, total), "share of subsets with the label of the whole row"),
            "keys": ("row", keys_of_row, "pairing keys of the row"),
            "trace_label_of_all": ("row", whole, "trace label of the whole row"),
        },
        data,
        size=sizes,
        trace_label=LABELS,
    )


_BATCH_EPISODES = 400_000
"""Episodes of a batch, which bounds memory."""


def _batches(
    data: xr.Dataset, keys_of_row: IntArray, episodes_of_key: Sequence[IntArray], size: int, subsets: int
) -> Iterator[xr.Dataset]:
    """Draw the subsets of one size, all rows' in turn, and yield some as rows of a Dataset, with their `origin`."""
    names = [data[name].values for name in ROW]
    rows = np.flatnonzero(keys_of_row > size)
    first_key = np.cumsum(keys_of_row) - keys_of_row
    chosen: list[IntArray] = []
    for row in rows:
        rng = generator("subsample", *(str(name[row]) for name in names), size)
        order = rng.random((subsets, keys_of_row[row])).argpartition(size - 1, axis=1)[:, :size]
        chosen.extend(first_key[row] + order)
    origin = np.repeat(rows, subsets)
    per_batch = max(1, _BATCH_EPISODES // (size * data.sizes["condition"]))
    for begin in range(0, origin.size, per_batch):
        part = slice(begin, begin + per_batch)
        drawn = [episodes_of_key[key] for keys in chosen[part] for key in keys]
        subset = np.repeat(np.arange(len(drawn)) // size, [episodes.size for episodes in drawn])
        episodes = data[list(EPISODE_VARIABLES)].isel(episode=np.concatenate(drawn)).reset_coords(drop=False)
        # Every subset has the row variables of its origin.
        by_row = data.drop_dims("episode").isel(row=origin[part]).assign(origin=("row", origin[part]))
        yield by_row.merge(episodes.assign(row_index=("episode", subset.astype(np.int32))))
