"""The published numbers as package data, and a run beside them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from judging_data import evaluation, failures, join

from roep_gym.error import UnknownNameError
from roep_gym.evaluate.comparison.published import PUBLISHED_TABLES, beside_published, published_table
from roep_gym.evaluate.judging.gate import judge
from roep_gym.evaluate.store.storage import read_run

REPLAY = Path(__file__).parent / "data" / "replay"
HALF_UNIT = 0.0005 + 1e-9


@pytest.mark.parametrize("name", PUBLISHED_TABLES)
def test_every_table_is_there(name):
    assert len(published_table(name)) >= 3


def test_an_unknown_table_is_refused():
    with pytest.raises(UnknownNameError, match="Did you mean 'table3_outcomes'"):
        published_table("table3_outcome")


def test_the_means_of_table_4_are_those_of_table_3():
    outcomes, means = published_table("table3_outcomes"), published_table("table4_aggregates")
    outcomes["clean"] = outcomes["clean_successes"] / outcomes["episodes"]
    outcomes["medium"] = outcomes["perturb_successes"] / outcomes["episodes"]
    outcomes["delta"] = outcomes["clean"] - outcomes["medium"]
    outcomes["effect"] = outcomes["delta"].abs()
    ours = outcomes.groupby(["model", "suite"], sort=False).mean(numeric_only=True).reset_index()
    assert ours["model"].tolist() == means["model"].tolist()
    for name, published in {
        "clean": "mean_clean_sr",
        "medium": "mean_perturb_sr",
        "delta": "mean_signed_delta_sr",
        "effect": "mean_abs_effect_sr",
        "perturb_timeout_rate": "mean_perturb_timeout_rate",
    }.items():
        np.testing.assert_allclose(ours[name], means[published], atol=HALF_UNIT, err_msg=name)


def test_the_replay_is_the_paper():
    beside = beside_published(judge(read_run(REPLAY)))
    assert len(beside) == 24
    assert (beside["model"] == beside["published_model"]).all()
    for name in ("clean_sr", "perturb_sr", "delta_sr", "timeout_rate"):
        np.testing.assert_allclose(beside[name], beside[f"published_{name}"], atol=1e-9)
    for name in ("claim_status", "limiting_factor"):
        assert beside[name].tolist() == beside[f"published_{name}"].tolist()
    assert (beside["clean_difference_low"] < 0).all()


def test_a_model_of_the_paper_is_known_by_any_spelling():
    row = {"model": "vla adapter", "task": "goal_stove"}
    (line,) = beside_published(judge(evaluation({"perturb": failures(10)}, rows=row))).to_dict("records")
    assert (line["published_model"], line["published_clean_sr"], line["published_perturb_sr"]) == (
        "VLA-Adapter",
        0.96,
        1,
    )
    assert line["clean_difference"] == pytest.approx(0.04)
    assert line["perturb_difference"] == pytest.approx(-0.2)
    assert line["perturb_difference_high"] < 0


def test_another_model_stands_beside_each_of_the_paper():
    data = join(
        evaluation(rows={"model": "mine", "task": "goal_stove"}),
        evaluation(rows={"model": "mine", "task": "x"}),
    )
    beside = beside_published(judge(data))
    assert beside["published_model"].tolist() == ["OpenVLA", "X-VLA", "VLA-Adapter", ""]
    unknown = beside.iloc[3]
    assert np.isnan(unknown["published_clean_sr"])
    assert np.isnan(unknown["clean_difference_low"])
    assert unknown["published_claim_status"] == ""
