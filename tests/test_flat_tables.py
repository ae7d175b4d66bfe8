"""Flat tables: round trips, and every refusal with file and line."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from judging_data import evaluation, failures

from roep_gym.error import InvalidInputError
from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.judging.gate import judge
from roep_gym.evaluate.schema import check_dataset
from roep_gym.evaluate.store.flat_tables import read_tables, write_tables

REPLAY = Path(__file__).parent / "data" / "replay"
CONDITIONS = ("baseline", "baseline_clone", "perturb", "perturb_clone", "recovery", "full")
SMALL = GateConfig(seed_groups=2, episodes_per_group=2)

EPISODE = {
    "model": "m", "suite": "s", "task": "t", "condition": "baseline", "run_id": "run", "seed_group": 0, "episode": 0,
    "init_state": 0, "env_seed": 0, "success": 1, "reason": "success", "steps": 80, "max_abs_action": 0.5,
    "intervention_steps": 0, "unsafe_attempts": 0, "refusals": 0,
}  # fmt: skip
ROW = {
    "model": "m", "suite": "s", "task": "t", "shield_status": "trained", "shield_tau": 0.5, "risk_positive_episodes": 3,
    "risk_label_source": "timeout_tail", "shield_reason": "", "contract_status": "match", "contract_note": "",
}  # fmt: skip


class Tables:
    """Two flat tables of one row with 2 x 2 episodes in six conditions; line n of episodes.csv is entry n - 2."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        lines = [
            EPISODE
            | {"condition": c, "run_id": f"run-{c}", "seed_group": g, "episode": e, "init_state": 2 * g + e}
            for c in CONDITIONS
            for g in range(2)
            for e in range(2)
        ]
        self.episodes = pd.DataFrame(lines).astype(object)
        self.rows = pd.DataFrame([ROW]).astype(object)
        self.manifest: pd.DataFrame | None = None

    def change(self, line: int, **values: object) -> Tables:
        for name, value in values.items():
            self.episodes.loc[line - 2, name] = value
        return self

    def with_manifest(self) -> Tables:
        names = [
            "model",
            "suite",
            "task",
            "condition",
            "run_id",
            "seed_group",
            "episode",
            "init_state",
            "env_seed",
        ]
        self.manifest = self.episodes[names].copy()
        return self

    def read(self, config: GateConfig = SMALL) -> xr.Dataset:
        self.episodes.to_csv(self.folder / "episodes.csv", index=False)
        self.rows.to_csv(self.folder / "rows.csv", index=False)
        manifest = None
        if self.manifest is not None:
            manifest = self.folder / "manifest.csv"
            self.manifest.to_csv(manifest, index=False)
        return read_tables(self.folder / "episodes.csv", self.folder / "rows.csv", manifest, config=config)

    def refuses(self, message: str) -> None:
        with pytest.raises(InvalidInputError, match="^" + re.escape(message)) as caught:
            self.read()
        assert "\n" not in str(caught.value)


@pytest.fixture
def tables(tmp_path):
    return Tables(tmp_path)


def reread(data, folder):
    write_tables(data, folder)
    return read_tables(folder / "episodes.csv", folder / "rows.csv", folder / "manifest.csv")


def test_tables_become_a_dataset_of_the_schema(tables):
    data = tables.read()
    check_dataset(data)
    assert data.attrs["records"] == "flat"
    assert data.sizes == {"row": 1, "episode": 24, "condition": 6, "unsafe_channel": 5}
    assert data["condition"].values.tolist() == list(CONDITIONS)
    assert data["run_id"].values.tolist() == [[f"run-{c}" for c in CONDITIONS]]
    assert (data["recorded_steps"] == -1).all()


def test_replay_survives_the_round_trip(tmp_path):
    data = read_tables(REPLAY / "episodes.csv", REPLAY / "rows.csv")
    xr.testing.assert_identical(reread(data, tmp_path), data)


def test_native_run_survives_the_round_trip_as_attested(tmp_path):
    data = evaluation(
        {"full": failures(3, reason="safe_refusal"), "perturb": ["", *failures(2, 49)]}, records="native"
    )
    rng = np.random.Generator(np.random.Philox(3))
    data["max_abs_action"].values[:] = rng.random(data.sizes["episode"]) * (data["success"].values >= 0)
    data["max_abs_action"].values[data["success"].values < 0] = np.nan
    data["scene_hash"].values[data["success"].values >= 0] = 2**62 + 1
    data["env_seed"].values[:] += 2**62
    data["unsafe_channel_attempts"].values[:5, 1] = 3
    data["aborts"].values[:2] = 1
    data["aborts"].values[np.flatnonzero(data["success"].values < 0)] = 3
    data["wall_time"].values[3] = 1 / 3
    # What an episode that did not run left behind is not kept: it has no outcome.
    data["fingerprint"].values[data["success"].values < 0] = -1
    back = reread(data, tmp_path)
    assert back.attrs["records"] == "flat"
    xr.testing.assert_equal(back, data)


def test_flat_and_native_judgements_agree(tmp_path):
    data = evaluation({"recovery": failures(5)}, records="native")
    flat = judge(reread(data, tmp_path)).verdicts
    assert flat["limiting_factor"].values.tolist() == judge(data).verdicts["limiting_factor"].values.tolist()


def test_unknown_columns_are_kept_as_text(tables, tmp_path):
    tables.episodes["robot/arm"] = [f"00{k}" for k in range(24)]
    tables.rows["row_index"] = "007"
    data = tables.read()
    assert data["episode_extra_0"].attrs["column"] == "robot/arm"
    assert data["episode_extra_0"].values[:2].tolist() == ["000", "001"]
    assert data["row_extra_0"].values.tolist() == ["007"]
    write_tables(data, tmp_path / "again")
    assert pd.read_csv(tmp_path / "again" / "episodes.csv", dtype=str)["robot/arm"].tolist() == [
        f"00{k}" for k in range(24)
    ]
    assert pd.read_csv(tmp_path / "again" / "rows.csv", dtype=str)["row_index"].tolist() == ["007"]


def test_names_that_look_like_numbers_or_nothing_stay_names(tables):
    for frame in (tables.episodes, tables.rows):
        frame["model"], frame["task"] = "NA", "007"
    data = tables.read()
    assert (data["model"].values[0], data["task"].values[0]) == ("NA", "007")


def test_empty_lines_spreadsheet_marks_and_line_order_do_not_matter(tables, tmp_path):
    expected = tables.read()
    head, *lines = (tmp_path / "episodes.csv").read_text().splitlines()
    text = "\r\n".join([head, "", *reversed(lines), "", ""])
    (tmp_path / "episodes.csv").write_text("\ufeff" + text, encoding="utf-8")
    again = read_tables(tmp_path / "episodes.csv", tmp_path / "rows.csv", config=SMALL)
    xr.testing.assert_identical(again, expected)


def test_line_numbers_count_empty_lines(tables, tmp_path):
    tables.read()
    lines = (tmp_path / "episodes.csv").read_text().splitlines()
    lines[3] = lines[3].replace(",80,", ",-80,")
    (tmp_path / "episodes.csv").write_text("\n".join([*lines[:2], "", *lines[2:]]) + "\n")
    with pytest.raises(
        InvalidInputError, match=re.escape("episodes.csv, line 5: Expected steps to be a number in 0..")
    ):
        read_tables(tmp_path / "episodes.csv", tmp_path / "rows.csv", config=SMALL)


def test_absent_episode_is_planned_with_the_key_of_its_row(tables):
    tables.episodes = tables.episodes.drop(index=2)
    data = tables.read()
    assert data.sizes["episode"] == 24
    at = int(np.flatnonzero(data["success"].values == -1)[0])
    assert [int(data[n][at]) for n in ("seed_group", "episode_index", "init_state", "steps")] == [1, 0, 2, -1]
    assert np.isnan(data["max_abs_action"][at])


def test_what_was_not_recorded_stays_empty_and_closes_its_check(tables, tmp_path):
    data = tables.change(2, steps="", init_state="").change(3, env_seed="").read()
    assert [int(data[n][0]) for n in ("success", "steps", "init_state", "env_seed")] == [1, -1, -1, 0]
    assert int(data["env_seed"][1]) == -1
    judged = judge(data)
    assert (
        judged.admission["why"].sel(requirement="C_log").item() == "1 baseline episodes without a step count"
    )
    # Each of the two keys stands alone, and so does what it left behind in the other conditions.
    assert judged.integrity["support"].sel(pair="perturb given baseline").item() == 2
    assert judged.integrity["mismatched_keys"].sel(pair="perturb given baseline").item() == 4
    write_tables(data, tmp_path / "again")
    again = read_tables(*(tmp_path / "again" / name for name in ("episodes.csv", "rows.csv", "manifest.csv")))
    assert again.identical(data)


def test_equal_keys_without_a_scene_seed_are_no_pairs(tables):
    tables.episodes["env_seed"] = ""
    judged = judge(tables.read())
    assert (judged.integrity["support"] == 0).all()
    assert judged.integrity["mismatched_keys"].sel(pair="full given perturb").item() == 4


def test_manifest_plans_conditions_that_never_ran(tables, tmp_path):
    tables.episodes = tables.episodes[tables.episodes["condition"] == "baseline"]
    data = tables.read()
    write_tables(data, tmp_path / "again")
    again = read_tables(*(tmp_path / "again" / name for name in ("episodes.csv", "rows.csv", "manifest.csv")))
    assert again.identical(data)


def test_condition_without_a_line_is_planned_where_it_must_run(tables):
    tables.episodes = tables.episodes[~tables.episodes["condition"].isin(["baseline_clone", "recovery"])]
    assert tables.read()["condition"].values.tolist() == list(CONDITIONS)
    tables.rows["shield_status"] = "failed"
    assert tables.read()["condition"].values.tolist() == [c for c in CONDITIONS if c != "recovery"]


def test_bootstrap_conditions_have_any_size(tables):
    line = EPISODE | {"condition": "bootstrap_clean", "run_id": "b", "seed_group": 30, "episode": 70}
    tables.episodes = pd.concat([tables.episodes, pd.DataFrame([line])], ignore_index=True)
    assert tables.read().sizes["episode"] == 25


def test_only_a_header_leaves_every_row_without_a_clean_run(tables):
    tables.episodes = tables.episodes.iloc[:0]
    tables.rows["shield_status"] = "none"
    assert judge(tables.read()).verdicts["trace_label"].values.tolist() == ["clean_not_admitted"]


def test_aborted_line_counts_as_not_run(tables, tmp_path):
    data = tables.change(3, reason="aborted", success="", steps="", max_abs_action="").read()
    assert int(data["success"][1]) == -1
    assert int(data["aborts"][1]) == 1
    back = reread(data, tmp_path / "again")
    xr.testing.assert_identical(back, data)
    assert judge(data).admission["failed"].values.tolist() == ["C_log"]


@pytest.mark.parametrize("value", ["nan", "NaN", "", "inf"])
def test_largest_action_that_is_not_finite_is_read_and_closes_c_act(tables, value):
    data = tables.change(2, max_abs_action=value).read()
    assert not np.isfinite(data["max_abs_action"][0])
    assert judge(data).admission["failed"].values.tolist() == ["C_act"]


def test_counts_that_were_not_recorded_stay_unknown(tables):
    data = tables.change(2, unsafe_attempts="", intervention_steps="", refusals="").read()
    assert [int(data[n][0]) for n in ("unsafe_attempts", "intervention_steps", "refusals")] == [-1, -1, -1]
    assert data["unsafe_attempts"].dtype == np.int32


@pytest.mark.parametrize(
    ("status", "note", "unresolved"),
    [("match", "", 0), ("unknown", "", 1), ("mismatch", " ", 1), ("mismatch", "why", 0)],
)
def test_contract_note_resolves(tables, status, note, unresolved):
    tables.rows["contract_status"], tables.rows["contract_note"] = status, note
    assert int(tables.read()["contract_unresolved"][0]) == unresolved


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"condition": "basline"}, "Unknown condition 'basline'. Did you mean 'baseline'"),
        ({"reason": "crash"}, "Unknown reason 'crash'."),
        ({"reason": "sucess"}, "Unknown reason 'sucess'. Did you mean 'success'?"),
        ({"success": 0}, "success 0 contradicts the reason 'success'; correct one of the two."),
        ({"reason": "timeout"}, "success 1 contradicts the reason 'timeout'; correct one of the two."),
        ({"reason": "aborted"}, "success 1 contradicts the reason 'aborted'; correct one of the two."),
        ({"success": 2}, "Expected success to be a number in 0..1, got 2."),
        ({"success": True}, "Expected success to be an integer, got 'True'."),
        ({"success": ""}, "success is empty; fill it in, or give the reason 'aborted'."),
        ({"steps": 0}, "steps 0 is impossible for the reason 'success'; expected at least 1."),
        ({"steps": -5}, "Expected steps to be a number in 0..2147483647, got -5."),
        ({"steps": 3e9}, "Expected steps to be a number in 0..2147483647, got 3000000000."),
        ({"steps": 80.5}, "Expected steps to be an integer, got 80.5."),
        ({"steps": "eighty"}, "Expected steps to be an integer, got 'eighty'."),
        ({"steps": "inf"}, "Expected steps to be an integer, got inf."),
        ({"max_abs_action": -0.1}, "Expected max_abs_action to be a number >= 0, got -0.1."),
        ({"max_abs_action": "big"}, "Expected max_abs_action to be a number, got 'big'."),
        ({"unsafe_attempts": 81}, "unsafe_attempts 81 exceeds steps 80; expected at most that."),
        ({"seed_group": ""}, "Expected seed_group to be an integer, got an empty cell."),
        ({"seed_group": -1}, "Expected seed_group to be a number in 0..2147483647, got -1."),
        ({"env_seed": 2**63}, "Expected env_seed to be an integer of at most 63 bits, got '9223372036854775808'."),
        ({"run_id": ""}, "Expected run_id to be a name, got an empty cell."),
        ({"run_id": "other"}, "a second run id 'other' in 'baseline'; one execution of a condition has one run id."),
        ({"task": "u"}, "the row m, s, u has no line in rows.csv; add its line."),
        ({"episode": 0}, "seed group 0, episode 0 of 'baseline' appears twice; keep one outcome"),
        ({"episode": 2}, "seed group 0, episode 2 lies outside the plan of 2 seed groups x 2 episodes"),
        ({"intervention_steps": 3}, "a shield action in 'baseline', which runs without a shield; correct the line."),
    ],
)  # fmt: skip
def test_refused_episodes(tables, values, message):
    tables.change(3, **values).refuses(f"episodes.csv, line 3: {message}")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"intervention_steps": 81}, "intervention_steps 81 exceeds steps 80; expected at most that."),
        (
            {"refusals": 2, "intervention_steps": 1},
            "refusals 2 exceeds intervention_steps 1, which includes them.",
        ),
    ],
)
def test_refused_shielded_episodes(tables, values, message):
    tables.change(25, **values).refuses(f"episodes.csv, line 25: {message}")


def test_clone_with_the_run_id_of_its_base_is_refused(tables):
    for line in range(6, 10):
        tables.change(line, run_id="run-baseline")
    tables.refuses(
        "episodes.csv, line 6: the run id 'run-baseline' of 'baseline_clone' is that of 'baseline'; "
        "a clone is a run of its own."
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"shield_status": "train"}, "Unknown shield_status 'train'. Did you mean 'trained'?"),
        ({"shield_tau": 1.5}, "Expected shield_tau to be a number in 0..1, got 1.5."),
        (
            {"risk_positive_episodes": -2},
            "Expected risk_positive_episodes to be a number in 0..2147483647, got -2.",
        ),
        (
            {"risk_label_source": "timeouts"},
            "Unknown risk_label_source 'timeouts'. Did you mean 'timeout_tail'?",
        ),
        ({"contract_status": ""}, "Expected contract_status to be a name, got an empty cell."),
        ({"contract_status": "ok"}, "Unknown contract_status 'ok'."),
    ],
)
def test_refused_rows(tables, values, message):
    for name, value in values.items():
        tables.rows[name] = value
    tables.refuses(f"rows.csv, line 2: {message}")


def test_row_that_stands_twice_is_refused(tables):
    tables.rows = pd.concat([tables.rows, tables.rows])
    tables.refuses("rows.csv, line 3: the row m, s, t appears twice; keep one line.")


def test_rows_without_a_line_are_refused(tables):
    tables.rows = tables.rows.iloc[:0]
    tables.refuses("rows.csv: Expected one line per row, but the file has none; add the rows.")


def test_missing_and_repeated_columns_are_refused(tables, tmp_path):
    tables.episodes = tables.episodes.drop(columns=["steps", "reason"])
    tables.refuses("episodes.csv, line 1: Expected the columns model, suite, task, condition, run_id")
    with pytest.raises(InvalidInputError, match="missing: reason, steps"):
        tables.read()
    text = (tmp_path / "rows.csv").read_text()
    (tmp_path / "rows.csv").write_text(
        "\n".join(line + ",x" for line in text.splitlines()).replace(",x", ",task", 1)
    )
    with pytest.raises(InvalidInputError, match="line 1: Expected each column once; given twice: task"):
        read_tables(tmp_path / "episodes.csv", tmp_path / "rows.csv")


def test_files_that_cannot_be_read_are_refused(tables, tmp_path):
    tables.read()
    episodes, rows = tmp_path / "episodes.csv", tmp_path / "rows.csv"
    with pytest.raises(
        InvalidInputError, match=r"Expected a readable CSV file at .*none\.csv, but reading it failed"
    ):
        read_tables(tmp_path / "none.csv", rows)
    text = episodes.read_text().splitlines()
    for broken, message in {
        "\n".join([*text[:3], text[3] + ",1,2", *text[4:]]): "Expected 16 fields in line 4, saw 18",
        "\n".join(
            [text[0], *(line + ",1" for line in text[1:])]
        ): "line 2: Expected 16 fields as in the header, got more",
    }.items():
        episodes.write_text(broken)
        with pytest.raises(InvalidInputError, match=message):
            read_tables(episodes, rows, config=SMALL)
    episodes.write_bytes(b"model,suite\xff\xfe\n")
    with pytest.raises(InvalidInputError, match="reading it failed"):
        read_tables(episodes, rows)
    episodes.write_text("")
    with pytest.raises(InvalidInputError, match=re.escape("episodes.csv, line 1: Expected the columns")):
        read_tables(episodes, rows)
    whole = "\n".join(text) + "\n"
    for content, message in (
        (
            whole.replace("run", "\xe4").encode("latin-1"),
            "save it as UTF-8 (spreadsheets may write Latin-1).",
        ),
        (whole.encode("utf-16-le"), "the file looks like UTF-16, save it as UTF-8."),
        (whole.replace(",", ";").encode(), "the cells are separated by ';', save the file with commas."),
        (whole.replace(",", "\t").encode(), "the cells are separated by tabs, save the file with commas."),
    ):
        episodes.write_bytes(content)
        with pytest.raises(InvalidInputError, match=r"^episodes\.csv.*" + re.escape(message)):
            read_tables(episodes, rows, config=SMALL)


@pytest.mark.parametrize("cells", [1, 11, 15])
def test_a_line_that_is_cut_off_is_refused(tables, tmp_path, cells):
    tables.read()
    episodes = tmp_path / "episodes.csv"
    *lines, last = episodes.read_text().splitlines()
    episodes.write_text("\n".join([*lines, ",".join(last.split(",")[:cells])]))
    message = f"episodes.csv, line 25: Expected 16 fields as in the header, got {cells}; complete the line"
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        read_tables(episodes, tmp_path / "rows.csv", config=SMALL)


@pytest.mark.parametrize("character", ["\0", "\x1b", "\n"])
def test_names_with_control_characters_are_refused(tables, character):
    tables.change(5, run_id=f"run{character}a")
    message = f"episodes.csv, line 5: Expected run_id without control characters, got {f'run{character}a'!r}."
    tables.refuses(message)


def test_texts_may_have_line_breaks_but_no_nul(tables):
    tables.rows["contract_note"] = "one\nother"
    assert tables.read()["contract_note"].values.tolist() == ["one\nother"]
    tables.rows["contract_note"] = "one\0other"
    tables.refuses("rows.csv, line 2: Expected contract_note without control characters")
    tables.rows["contract_note"] = ""
    tables.episodes["operator"] = "a\0b"
    tables.refuses("episodes.csv, line 2: Expected operator without control characters")


def test_integers_that_were_not_recorded_are_written_as_empty_cells(tables, tmp_path):
    tables.episodes["scene_hash"] = [2**62 + 1, *[-1] * 23]
    tables.episodes["unsafe_workspace"] = [*[""] * 23, 4]
    data = tables.read()
    write_tables(data, tmp_path / "out")
    written = pd.read_csv(tmp_path / "out" / "episodes.csv", dtype=str, keep_default_na=False)
    assert sorted(set(written["scene_hash"])) == ["", str(2**62 + 1)]
    assert sorted(set(written["unsafe_workspace"])) == ["", "4"]
    xr.testing.assert_equal(reread(data, tmp_path), data)


def test_manifest_is_the_plan(tables):
    tables.with_manifest()
    tables.episodes = tables.episodes.drop(index=[3, 23])
    data = tables.read(GateConfig())
    assert data.sizes["episode"] == 24
    assert int((data["success"] == -1).sum()) == 2


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"episode": 7},
            "seed group 0, episode 7 (init_state 1, env_seed 0) of 'baseline' is not planned in manifest.csv",
        ),
        (
            {"init_state": 9},
            "seed group 0, episode 1 (init_state 9, env_seed 0) of 'baseline' is not planned",
        ),
    ],
)
def test_episodes_outside_the_manifest_are_refused(tables, values, message):
    tables.with_manifest().change(3, **values).refuses(f"episodes.csv, line 3: {message}")


def test_run_id_other_than_planned_is_refused(tables):
    tables.with_manifest()
    for line in range(2, 6):
        tables.change(line, run_id="other")
    tables.refuses(
        "episodes.csv, line 2: the run id 'other' of 'baseline' is not the one that manifest.csv plans."
    )


def test_manifest_lines_are_checked(tables):
    tables.with_manifest()
    tables.manifest.loc[0, "condition"] = "nominal"
    tables.refuses("manifest.csv, line 2: Unknown condition 'nominal'.")


def test_manifest_without_run_ids_is_accepted(tables):
    tables.with_manifest()
    tables.manifest = tables.manifest.drop(columns="run_id")
    assert tables.read()["run_id"].values[0, 0] == "run-baseline"
