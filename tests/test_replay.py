"""The gate on the replay of the published outcomes gives the published statuses and numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from roep_gym.evaluate.judging.gate import Judgement, judge
from roep_gym.evaluate.judging.summaries import harm_support, model_suite_summary, status_counts
from roep_gym.evaluate.store.storage import read_run

DATA = Path(__file__).parent / "data"
PUBLISHED = Path(__file__).parents[1] / "evaluate" / "comparison" / "reference"
HALF_UNIT = 0.0005 + 1e-9


@pytest.fixture(scope="module")
def judgement() -> Judgement:
    return judge(read_run(DATA / "replay"))


def table(name: str) -> pd.DataFrame:
    folder = DATA if name.startswith("replay/") else PUBLISHED
    return pd.read_csv(folder / name, keep_default_na=False)


def test_statuses_and_limiting_factors_of_all_rows(judgement):
    expected, verdicts = table("replay/expected.csv"), judgement.verdicts
    for name in ("model", "suite", "task", "trace_label", "limiting_factor"):
        assert verdicts[name].values.tolist() == expected[name].tolist()


def test_outcome_matrix_of_table_3(judgement):
    expected = table("table3_outcomes.csv")
    counts = judgement.rates["count"]
    assert (
        counts.sel(condition="baseline", outcome="success").values.tolist()
        == expected["clean_successes"].tolist()
    )
    assert (
        counts.sel(condition="perturb", outcome="success").values.tolist()
        == expected["perturb_successes"].tolist()
    )
    timeouts = judgement.rates["rate"].sel(condition="perturb", outcome="timeout")
    np.testing.assert_allclose(timeouts, expected["perturb_timeout_rate"], atol=1e-9)
    np.testing.assert_allclose(
        judgement.floor["signed_effect"].sel(outcome="success"), expected["delta_sr"], atol=1e-9
    )
    assert judgement.verdicts["claim_status"].values.tolist() == expected["claim_status"].tolist()


def test_noise_floors(judgement):
    floors = judgement.floor["floor"].sel(outcome="success")
    np.testing.assert_allclose(floors, table("replay/expected.csv")["noise_floor_sr"], atol=1e-9)


def test_aggregates_of_table_4(judgement):
    expected, summary = table("table4_aggregates.csv"), model_suite_summary(judgement)
    for ours, published in {
        "clean_sr": "mean_clean_sr",
        "perturb_sr": "mean_perturb_sr",
        "signed_delta_sr": "mean_signed_delta_sr",
        "abs_effect_sr": "mean_abs_effect_sr",
        "noise_floor_sr": "mean_noise_floor_sr",
        "perturb_timeout_rate": "mean_perturb_timeout_rate",
        "hr_unsafe": "mean_hr_unsafe",
    }.items():
        np.testing.assert_allclose(summary[ours], expected[published], atol=HALF_UNIT, err_msg=ours)
    above = [
        f"{k}/{n}"
        for k, n in zip(summary["rows_effect_above_floor"].values, summary["tasks"].values, strict=True)
    ]
    assert above == expected["rows_effect_above_floor"].tolist()


def test_model_means(judgement):
    rate = judgement.rates["rate"]
    means = {
        name: rate.sel(condition=condition, outcome=outcome).groupby("model").mean()
        for name, condition, outcome in (
            ("clean", "baseline", "success"), ("medium", "perturb", "success"), ("timeout", "perturb", "timeout"),
        )
    }  # fmt: skip
    published = {
        "OpenVLA": (0.708, 0.473, 0.527),
        "X-VLA": (0.992, 0.963, 0.037),
        "VLA-Adapter": (0.933, 0.542, 0.458),
    }
    for model, numbers in published.items():
        np.testing.assert_allclose(
            [float(m.sel(model=model)) for m in means.values()], numbers, atol=HALF_UNIT
        )


def test_status_counts_of_table_a3(judgement):
    expected, counts = table("tableA3_status_counts.csv"), status_counts(judgement)
    for label in counts["trace_label"].values:
        assert counts["rows"].sel(trace_label=label).values.tolist() == expected[label].tolist()
    assert counts["rows"].sum("group").values.tolist() == [0, 1, 7, 16]


def test_harm_support_of_table_a4(judgement):
    expected, support = table("tableA4_harm_support.csv"), harm_support(judgement)
    support = support.isel(row=np.flatnonzero((support["task"] == "object_cream_cheese").values))
    assert support["model"].values.tolist() == expected["model"].tolist()
    assert support["paired_support"].values.tolist() == expected["paired_support"].tolist()
    assert support["low_support"].values.tolist() == [True, False, True]
    for ours, published in {
        "clean_sr": "clean_sr",
        "perturb_sr": "perturb_sr",
        "perturb_timeout_rate": "perturb_timeout_rate",
        "nominal_clone_difference": "nominal_clone_sr_delta",
        "perturbed_clone_difference": "perturb_clone_sr_delta",
    }.items():
        np.testing.assert_allclose(support[ours], expected[published], atol=1e-9, err_msg=ours)
    # The published column mixes the aggregations: X-VLA's 0.043 is pooled (2/47), VLA-Adapter's 0.667 seed-macro.
    for ours, published in {"hr_total": "hr_full_vs_perturb_seed_macro", "hr_timeout": "hr_timeout"}.items():
        either = np.abs(
            support[ours].transpose("row", "aggregation").values - expected[published].to_numpy()[:, None]
        )
        assert (either.min(axis=1) <= HALF_UNIT).all()
    assert support["hr_unsafe"].values.max() == 0


def test_row_without_shield_is_withheld_for_its_bootstrap(judgement):
    verdicts = judgement.verdicts
    at = int(np.flatnonzero((verdicts["limiting_factor"] == "Shield bootstrap support").values)[0])
    assert verdicts["verdict"].values[at].tolist() == ["pass"] * 3 + ["fail"] + ["not computable"] * 6
    assert verdicts["value"].values[at, 2] == 46
