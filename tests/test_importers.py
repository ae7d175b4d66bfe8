"""Other tools' logs: what each importer reads, every refusal, the status that comes out and the advice."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from roep_gym.cli.main import dispatch
from roep_gym.error import InvalidInputError, UnknownNameError
from roep_gym.evaluate.importers.combination import IMPORTERS, ConditionLog, combine, notes
from roep_gym.evaluate.importers.gaps import find_gaps
from roep_gym.evaluate.judging.gate import judge
from roep_gym.evaluate.store.flat_tables import read_tables
from roep_gym.evaluate.store.storage import read_run

LOGS = Path(__file__).parent / "data" / "logs"
REPLAY = Path(__file__).parent / "data" / "replay"
SAMPLES = {
    "openpi": "openpi_clean.log",
    "openvla-oft": "EVAL-libero_goal-openvla-2025_11_03-10_15_42.txt",
    "lerobot": "eval_info.json",
    "vla-eval": "LIBEROBenchmark_libero_goal_aggregate.json",
    "inspect": "libero-goal_31a2b7c8.json",
}
DRAWER, STOVE = "open the middle drawer of the cabinet", "turn on the stove"


def sample(tool, condition="baseline"):
    return ConditionLog(condition, IMPORTERS.find(tool)(LOGS / SAMPLES[tool], ""))


def outcomes(log):
    """Return the reasons of a log, a task."""
    found = {}
    for episode in log.episodes:
        found.setdefault(episode.task, []).append(episode.reason)
    return found


def changed(tmp_path, tool, *changes):
    """Return a copy of a text sample in which each (old, new) was replaced once."""
    text = (LOGS / SAMPLES[tool]).read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = tmp_path / SAMPLES[tool]
    path.write_text(text)
    return path


def changed_json(tmp_path, tool, change):
    """Return a copy of a JSON sample after `change(content)`."""
    content = json.loads((LOGS / SAMPLES[tool]).read_text())
    change(content)
    path = tmp_path / SAMPLES[tool]
    path.write_text(json.dumps(content))
    return path


def refuses(tool, path, message, suite=""):
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        IMPORTERS.find(tool)(path, suite)


# What each importer reads


def test_openpi_log_with_progress_bars_and_a_stale_success():
    log = sample("openpi").log
    assert list(outcomes(log).values()) == [
        ["success", "success", "aborted", "success"],
        ["success", "timeout", "success", "success"],
    ]
    assert {e.suite for e in log.episodes} == {"libero_spatial"}
    assert [e.init_state for e in log.episodes[:4]] == [0, 1, 2, 3]
    assert all(e.steps is None for e in log.episodes)
    assert log.episodes[2].detail == "Caught exception: no close frame received or sent"
    assert log.step_budgets == {"libero_spatial": 220}
    assert log.notes == (
        "Aborted episodes: 1 of 8. They ended in an exception, which openpi counts as a failure, or with the log; here "
        "they enter no rate.",
        "Aborted episodes printed as successes, which is the stale outcome of the episode before: 1.",
    )


def test_openpi_log_copied_from_a_terminal_where_bars_overwrote_lines(tmp_path):
    text = (
        (LOGS / SAMPLES["openpi"])
        .read_text()
        .replace("INFO:root:\nTask", "INFO:root:####| 1/4 [03:48<00:13]\nTask")
    )
    (tmp_path / "log").write_text(text.replace("\r", "").replace("Success: True", "Success: True#####"))
    assert outcomes(IMPORTERS.find("openpi")(tmp_path / "log", "")) == outcomes(sample("openpi").log)


@pytest.mark.parametrize("prefix", ["", "2025-11-03 10:16:01,482 [INFO] "])
def test_openvla_oft_log_as_file_and_from_the_console(tmp_path, prefix):
    lines = (LOGS / SAMPLES["openvla-oft"]).read_text().splitlines()
    # On the console the line break that begins a message follows its prefix.
    lines = [prefix if not line else line if line.startswith("Task: ") else prefix + line for line in lines]
    (tmp_path / "log.txt").write_text("\n".join(lines) + "\n")
    log = IMPORTERS.find("openvla-oft")(tmp_path / "log.txt", "")
    assert outcomes(log) == {DRAWER: ["success"] * 3, STOVE: ["success", "aborted", "timeout"]}
    assert [e.init_state for e in log.episodes] == [0, 1, 2, 0, 1, 2]
    assert "CUDA out of memory" in log.episodes[4].detail


def test_openvla_log_names_the_exception_in_its_own_way(tmp_path):
    path = changed(tmp_path, "openvla-oft", ("Episode error: ", "Caught exception: "))
    path.write_text(path.read_text().replace("Using default initial states\n", ""))
    assert IMPORTERS.find("openvla-oft")(path, "").episodes[4].reason == "aborted"


def test_initial_states_of_the_users_own_are_not_known(tmp_path):
    path = changed(
        tmp_path,
        "openvla-oft",
        ("Using default initial states", "Using initial states from mine.json"),
        (f"{DRAWER}\n", f"{DRAWER}\nSkipping task 0 episode 0 due to failed expert demo!\n\nTask: {DRAWER}\n"),
    )  # fmt: skip
    own = "Using initial states from"
    path.write_text(
        path.read_text().replace(own, f"  0%|  | 0/10 [00:00<?]2025-11-03 10:16:01,482 [INFO] {own}")
    )
    log = IMPORTERS.find("openvla-oft")(path, "")
    assert [e.init_state for e in log.episodes[:3]] == [None, None, None]
    assert (
        log.notes[-1]
        == "Episodes that the script skipped, as the demonstration of their initial state failed: 1."
    )


def test_an_episode_that_the_log_ends_in_is_aborted(tmp_path):
    text = (LOGS / SAMPLES["openpi"]).read_text()
    (tmp_path / "log").write_text(text[: text.rindex("INFO:root:Success")])
    log = IMPORTERS.find("openpi")(tmp_path / "log", "")
    assert (log.episodes[-1].reason, log.episodes[-1].detail) == (
        "aborted",
        "the log ends before its outcome",
    )


def test_two_tasks_with_one_instruction_are_two_tasks(tmp_path):
    text = (LOGS / SAMPLES["openvla-oft"]).read_text().replace(STOVE, DRAWER)
    (tmp_path / "log.txt").write_text(text)
    assert list(outcomes(IMPORTERS.find("openvla-oft")(tmp_path / "log.txt", ""))) == [
        DRAWER,
        f"{DRAWER} (2)",
    ]


def test_lerobot_results():
    log = sample("lerobot").log
    assert outcomes(log) == {
        "task 0": ["success", "success", "timeout"],
        "task 1": ["success", "timeout", "success"],
    }
    assert {(e.suite, e.init_state, e.steps, e.instruction) for e in log.episodes} == {
        ("libero_object", None, None, "")
    }
    assert (log.planned, log.step_budgets) == (3, {"libero_object": 280})


def test_vla_eval_aggregate_and_collector_result(tmp_path):
    log = sample("vla-eval").log
    assert outcomes(log) == {
        DRAWER: ["success", "success", "timeout"],
        STOVE: ["success", "aborted", "success"],
    }
    assert [e.steps for e in log.episodes] == [92, 99, 300, 92, None, 106]
    assert [e.init_state for e in log.episodes] == [0, 1, 2, 0, 1, 2]
    assert log.step_budgets == {"libero_goal": 300}

    def collector(content):
        content["config"]["throughput_mode"] = True
        for task in content["tasks"]:
            for row in task["episodes"]:
                for name in ("sid", "eid", "name", "suite", "task_id", "episode_idx", "task_idx"):
                    del row[name]

    wrapped = IMPORTERS.find("vla-eval")(changed_json(tmp_path, "vla-eval", collector), "")
    assert outcomes(wrapped) == outcomes(log)
    assert {e.init_state for e in wrapped.episodes} == {None}


def test_vla_eval_says_what_is_peculiar(tmp_path):
    path = changed_json(
        tmp_path, "vla-eval", lambda c: c.update(partial=True, mode="live", harness_version="0.7.2")
    )
    assert IMPORTERS.find("vla-eval")(path, "").notes[1:] == (
        "The file says that the evaluation was not completed.",
        "It ran in the mode 'live', in which the environment does not wait.",
        "It was written by vla-eval 0.7.2; this importer was checked against 0.8.0.",
    )


def test_inspect_log_counts_trials_over_scenes_and_epochs():
    log = sample("inspect").log
    assert outcomes(log) == {
        STOVE: ["success", "timeout", "success", "success"],
        DRAWER: ["aborted", "success"],
    }
    assert [e.episode for e in log.episodes] == [0, 1, 2, 3, 0, 1]
    assert [e.steps for e in log.episodes] == [84, 280, 84, 84, None, 84]
    assert log.episodes[4].detail == "scene-2, epoch 0: PolicyError: server gone"


def test_inspect_operator_decides_over_the_termination(tmp_path):
    def judged(content):
        content["samples"][0]["operator_judgements"] = ["failure", "Success "]
        content["samples"][0]["termination_reasons"] = ["max_steps", "operator_end"]
        content["status"] = "error"

    log = IMPORTERS.find("inspect")(changed_json(tmp_path, "inspect", judged), "my_suite")
    assert [e.reason for e in log.episodes[:2]] == ["timeout", "success"]
    assert log.episodes[0].suite == "my_suite"
    assert log.notes[-1] == "The log's own status is 'error'."


# Refusals


@pytest.mark.parametrize("tool", IMPORTERS.names())
def test_every_importer_refuses_every_other_tools_log(tool):
    for other, name in SAMPLES.items():
        if other != tool:
            with pytest.raises(InvalidInputError, match=re.escape(name) + ".*Expected .*, (got|but) .*;"):
                IMPORTERS.find(tool)(LOGS / name, "")


@pytest.mark.parametrize("tool", IMPORTERS.names())
def test_every_importer_refuses_what_it_cannot_read(tool, tmp_path):
    refuses(tool, tmp_path / "absent", "but reading it failed: [Errno 2]")
    (tmp_path / "zip").write_bytes(b"PK\x03\x04\xff\xfe")
    refuses(tool, tmp_path / "zip", "but reading it failed")
    (tmp_path / "empty").write_text("")
    refuses(tool, tmp_path / "empty", "empty: Expected")


OPENPI_CASES = {
    "head missing": (
        ("INFO:root:Starting episode 1...", "INFO:root:Starting episode 7..."),
        "Expected episode 1 of 'pick up the black bowl between the plate and the ramekin and place it on the plate' "
        "first, got episode 7; give the whole log of one evaluation.",
    ),
    "counter": (
        ("# episodes completed so far: 2", "# episodes completed so far: 3"),
        "Expected 2 episodes at this place, got 3 in the log; give the whole log of one evaluation.",
    ),
    "successes": (("# successes: 2 (", "# successes: 1 ("), "Expected 2 successes at this place, got 1 in the log;"),
    "outcome missing": (
        ("INFO:root:Success: True\n", ""),
        "Expected 0 episodes at this place, got 1 in the log;",
    ),
    "two outcomes": (
        ("INFO:root:Success: True\n", "INFO:root:Success: True\nINFO:root:Success: True\n"),
        "Expected the start of an episode before its outcome, got none;",
    ),
    "two starts": (
        ("INFO:root:Starting episode 1...\n", "INFO:root:Starting episode 1...\nINFO:root:Starting episode 2...\n"),
        "Expected the outcome of episode 1 of 'pick up",
    ),
    "two evaluations": (
        ("INFO:root:Total episodes: 8", "INFO:root:Task suite: libero_goal"),
        "Expected one evaluation, got a second 'Task suite:' line; split the file there.",
    ),
    "no suite": (
        ("INFO:root:Task suite: libero_spatial\n", ""),
        "Expected the name of the task suite, got none in the log; name it with --suite.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", OPENPI_CASES)
def test_console_logs_with_missing_lines_are_refused(tmp_path, case):
    change, message = OPENPI_CASES[case]
    refuses("openpi", changed(tmp_path, "openpi", change), f"openpi_clean.log: {message}")


def test_a_stated_suite_fills_in_and_never_overrules(tmp_path):
    path = changed(tmp_path, "openpi", ("INFO:root:Task suite: libero_spatial\n", ""))
    assert IMPORTERS.find("openpi")(path, "libero_spatial").episodes[0].suite == "libero_spatial"
    for tool in ("openpi", "openvla-oft", "lerobot", "vla-eval"):
        refuses(
            tool,
            LOGS / SAMPLES[tool],
            "Expected episodes of 'libero_90' (--suite), got 'libero_",
            "libero_90",
        )


JSON_CASES = [
    ("lerobot", lambda c: (c.pop("per_task"), c.update(per_episode=[])), "got 'per_episode' of a single environment"),
    ("lerobot", lambda c: c.pop("overall"), "Expected an object as overall, got none;"),
    ("lerobot", lambda c: [c["per_task"][0]["metrics"][k].pop() for k in ("successes", "sum_rewards", "max_rewards")],
     "Expected the 6 episodes of 'overall', got 5"),
    ("lerobot", lambda c: c["per_task"][0].update(task_group="easy"),
     "Expected a LIBERO suite as per_task[0].task_group, got 'easy'"),
    ("lerobot", lambda c: c["per_task"][0]["metrics"].update(successes=[1, 0, 1]),
     "Expected true or false as per_task[0].metrics.successes[0], got 1;"),
    ("lerobot", lambda c: c["per_task"][0].update(task_id=True),
     "Expected an integer as per_task[0].task_id, got True"),
    ("lerobot", lambda c: c["per_task"].append("x"), "Expected an object as per_task[2], got 'x'"),
    ("vla-eval", lambda c: c.pop("harness_version"), "Expected text as harness_version, got none;"),
    ("vla-eval", lambda c: c["config"].update(benchmark="vla_eval.benchmarks.calvin.benchmark:CALVINBenchmark"),
     "got 'vla_eval.benchmarks.calvin.benchmark:CALVINBenchmark'"),
    ("vla-eval", lambda c: c["tasks"][0]["episodes"][2].update(steps=57),
     "Expected a failure of tasks[0].episodes[2] at the step budget 300, got 57 steps;"),
    ("vla-eval", lambda c: c["tasks"][0]["episodes"][0]["metrics"].pop("success"),
     "Expected true or false as tasks[0].episodes[0].metrics.success, got none;"),
    ("vla-eval", lambda c: c["config"]["params"].update(suite="my_suite"),
     "Expected a step budget ('max_steps' of config)"),
    ("vla-eval", lambda c: c.update(tasks=[]), "Expected episodes, got none;"),
    ("inspect", lambda c: c["eval"].pop("inspect_robots_version"), "Inspect AI's own logs hold no robot episodes"),
    ("inspect", lambda c: c.update(version=2), "Expected log schema version 1 as version, got 2;"),
    ("inspect", lambda c: c["samples"][0].update(termination_reasons=[]),
     "got 0 and 2 for 2; logs before Inspect Robots 0.60"),
    ("inspect", lambda c: c["samples"][0].update(termination_reasons=["success", "collision"]),
     "as the end of epoch 1 of the sample 'scene-0', got 'collision';"),
    ("inspect", lambda c: c.update(samples=[]), "Expected trials, got none;"),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "change", "message"), JSON_CASES)
def test_unknown_shapes_are_refused(tmp_path, tool, change, message):
    refuses(tool, changed_json(tmp_path, tool, change), message)


def test_a_json_file_that_is_no_object_is_refused(tmp_path):
    (tmp_path / "list.json").write_text("[1]")
    refuses(
        "lerobot", tmp_path / "list.json", "Expected one JSON object of lerobot-eval, got list; check --from."
    )


# Several logs as one run


def test_logs_of_two_conditions_are_one_run():
    perturbed = ConditionLog("perturb", IMPORTERS.find("openpi")(LOGS / "openpi_perturbed.log", ""))
    data = combine([sample("openpi"), perturbed], tool="openpi", model="pi0")
    assert data["condition"].values.tolist() == ["baseline", "baseline_clone", "perturb", "perturb_clone"]
    assert data.sizes["episode"] == 2 * 4 * 50, "one seed group of the whole support budget"
    judged = judge(data)
    success = judged.rates.sel(outcome="success")
    assert success["count"].sel(condition="baseline").values.tolist() == [3, 3]
    assert success["count"].sel(condition="perturb").values.tolist() == [2, 2]
    assert success["n"].sel(condition="baseline").values.tolist() == [3, 4], "the crash is in no rate"
    assert (judged.integrity["support"] == 0).all(), "no scene seeds, no pairs"
    assert (
        data["run_id"].sel(condition="baseline").values[0]
        != data["run_id"].sel(condition="perturb").values[0]
    )
    logs = json.loads(data.attrs["provenance"])["logs"]
    assert [(log["file"], log["condition"]) for log in logs] == [
        ("openpi_clean.log", "baseline"), ("openpi_perturbed.log", "perturb"),
    ]  # fmt: skip


def test_logs_of_one_condition_are_its_seed_groups(tmp_path):
    other = changed(tmp_path, "openvla-oft", ("CUDA out of memory", "cuDNN error"))
    logs = [
        sample("openvla-oft"),
        ConditionLog("baseline", IMPORTERS.find("openvla-oft")(other, "")),
        sample("openpi"),
    ]
    data = combine(logs, tool="openvla-oft", model="oft")
    ran = data["success"].values >= 0
    suite = data["suite"].values[data["row_index"].values]
    goal, spatial = suite == "libero_goal", suite == "libero_spatial"
    assert sorted(set(data["seed_group"].values[ran & goal])) == [0, 1]
    assert sorted(set(data["seed_group"].values[ran & spatial])) == [0], "another suite is no seed group"
    assert data["episode_index"].values.max() == 24, "50 episodes in two seed groups"


def test_the_plan_is_never_smaller_than_what_the_log_says_was_planned(tmp_path):
    path = changed_json(tmp_path, "vla-eval", lambda c: c["config"].update(episodes_per_task=60))
    data = combine(
        [ConditionLog("baseline", IMPORTERS.find("vla-eval")(path, ""))], tool="vla-eval", model="pi0"
    )
    assert data["episode_index"].values.max() == 59


def test_the_same_log_in_two_roles_is_refused():
    with pytest.raises(
        InvalidInputError, match="already given for 'baseline'; a condition, a clone and a seed group"
    ):
        combine([sample("openpi"), sample("openpi", "baseline_clone")], tool="openpi", model="pi0")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"model": " "},
            "Expected the name of the model, got none; logs do not hold it, name it with --model.",
        ),
        ({"episodes_per_group": 3}, "with 3 episodes a task, got log 1, episode 4 of 'pick up"),
        ({"seed_groups": 0}, "seed_groups"),
    ],
)
def test_combining_refuses(arguments, message):
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        combine([sample("openpi")], **{"tool": "openpi", "model": "pi0", **arguments})


def test_a_log_in_which_an_episode_stands_twice_is_refused(tmp_path):
    path = changed_json(tmp_path, "vla-eval", lambda c: c["tasks"][0]["episodes"][1].update(episode_id=0))
    with pytest.raises(InvalidInputError, match=f"Expected episode 0 of '{DRAWER}' once, got it twice"):
        combine(
            [ConditionLog("baseline", IMPORTERS.find("vla-eval")(path, ""))], tool="vla-eval", model="pi0"
        )


def test_unknown_and_shielded_conditions_are_refused():
    with pytest.raises(UnknownNameError, match="Unknown condition 'basline'"):
        sample("openpi", "basline")
    with pytest.raises(InvalidInputError, match="Expected a condition without a shield, got 'recovery'"):
        sample("openpi", "recovery")


# The status that comes out, and the advice


@pytest.mark.parametrize(
    ("tool", "row", "failed"),
    [
        ("openpi", 1, "C_log, C_act, C_fid"),
        ("openpi", 0, "C_log, C_act, C_fid"),
        ("openvla-oft", 0, "C_log, C_act, C_fid"),
        ("lerobot", 0, "C_log, C_act, C_fid"),
        ("vla-eval", 0, "C_act, C_fid"),
        ("vla-eval", 1, "C_log, C_act, C_fid"),
        ("inspect", 0, "C_act, C_fid"),
        ("inspect", 1, "C_log, C_act, C_fid"),
    ],
)
def test_status_of_a_log_is_that_of_its_gaps(tool, row, failed):
    """In the second row of vla-eval and Inspect Robots, which log steps, an aborted episode closes C_log."""
    longest = max(e.episode for e in sample(tool).log.episodes) + 1
    data = combine([sample(tool)], tool=tool, model="m", episodes_per_group=longest)
    judged = judge(data)
    assert set(judged.verdicts["claim_status"].values) == {"Clean prerequisite not met"}
    assert judged.admission["failed"].values[row] == failed


def test_a_perturbed_log_alone_has_no_clean_source():
    log = IMPORTERS.find("openpi")(LOGS / "openpi_perturbed.log", "")
    data = combine([ConditionLog("perturb", log)], tool="openpi", model="pi0")
    why = judge(data).admission["why"].sel(requirement="C_src").values
    assert set(why) == {"no baseline episode was recorded"}
    assert find_gaps(data)[0].sentence() == (
        "no clean episode: C_src cannot hold; next time, run the policy unperturbed and give that log as baseline=FILE."
    )


def test_filling_in_all_but_the_keys_is_insufficient_evidence(tmp_path, capsys):
    """The tables that an import writes can be completed by hand; each gap that is closed moves the status on."""
    named = {"baseline": "openpi_clean.log", "perturb": "openpi_perturbed.log"}
    files = [f"{condition}={LOGS / name}" for condition, name in named.items()]
    out = tmp_path / "run"
    flags = ["--from", "openpi", "--model", "pi0", "--episodes-per-group", "4", "--out", str(out)]
    assert dispatch(["import", *files, *flags]) == 0
    episodes, rows = pd.read_csv(out / "episodes.csv"), pd.read_csv(out / "rows.csv")
    episodes = episodes[~episodes["task"].str.contains("between")].assign(max_abs_action=1.0, steps=100)
    rows = rows[~rows["task"].str.contains("between")].assign(
        contract_note="looked at by hand", contract_unresolved=0
    )
    keys = {"init_state": episodes["episode"], "env_seed": episodes["episode"]}
    for clones, identity, status, factor in [
        (False, {}, "Insufficient evidence", "Pair mismatch"),
        (True, {}, "Insufficient evidence", "Pair mismatch"),
        (True, keys, "Insufficient evidence", "Clean paired-support denominator"),
    ]:
        table = episodes.assign(**identity)
        if clones:
            copies = table.assign(condition=table["condition"] + "_clone", run_id=table["run_id"] + "-again")
            table = pd.concat([table, copies])
        table.to_csv(tmp_path / "episodes.csv", index=False)
        rows.to_csv(tmp_path / "rows.csv", index=False)
        flags = [
            "--seed-groups",
            "1",
            "--episodes-per-group",
            "4",
            "--out",
            str(tmp_path / f"{clones}{len(identity)}"),
        ]
        assert dispatch(["import", str(tmp_path / "episodes.csv"), str(tmp_path / "rows.csv"), *flags]) == 0
        verdicts = judge(read_run(Path(flags[-1]))).verdicts
        assert verdicts["claim_status"].item() == status
        assert verdicts["limiting_factor"].item() == factor


def test_advice_names_every_gap_of_a_log_once():
    sentences = [gap.sentence() for gap in find_gaps(combine([sample("openpi")], tool="openpi", model="pi0"))]
    assert [sentence.split("; next time, ")[0] for sentence in sentences] == [
        "aborted clean episodes: 1: C_log cannot hold",
        "absent clean episodes: 92 of 100 planned: C_log cannot hold",
        "no step counts in 7 of 7 clean episodes: C_log cannot hold",
        "no actions in 7 of 7 clean episodes: C_act cannot hold",
        "no runtime contract: C_fid cannot hold",
        "no scene seeds in 7 of 7 episodes: check 2 (pairing) cannot hold",
        "no episode of perturb, baseline_clone, perturb_clone: check 2 (pairing) cannot hold",
        "no shield: check 4 (shield support) cannot hold",
        "unsafe attempts were not observed: checks 7, 8 and 10 cannot hold",
    ]
    assert all(re.search("; next time, [a-z].*[^.]\\.$", sentence) for sentence in sentences)


def test_a_complete_run_has_no_gap_but_the_failed_shields():
    data = read_tables(REPLAY / "episodes.csv", REPLAY / "rows.csv")
    assert [gap.bars for gap in find_gaps(data)] == ["check 4 (shield support)"]


def test_another_step_budget_and_the_stated_condition_are_told():
    assert list(notes([sample("vla-eval", "mild")]))[1:] == [
        "The step budget of libero_goal was 300, the protocol's is 280: its success and timeout rates are not "
        "comparable with those of the other budget.",
        "The logs do not name a condition; that they recorded mild is your statement.",
    ]
    assert len(list(notes([sample("lerobot")]))) == 1, "280 steps in libero_object are the protocol's"


# The command


@pytest.mark.parametrize("tool", IMPORTERS.names())
def test_command_imports_and_gate_judges(tool, tmp_path, capsys):
    out = tmp_path / "run"
    assert (
        dispatch(["import", str(LOGS / SAMPLES[tool]), "--from", tool, "--model", "m", "--out", str(out)])
        == 0
    )
    printed = capsys.readouterr().out
    assert printed.splitlines()[0].endswith(f"Judge it with: roep-gym gate {out}")
    assert "- no actions in " in printed
    assert dispatch(["gate", str(out)]) == 0
    assert "2 not admitted" in capsys.readouterr().out
    tables = read_tables(out / "episodes.csv", out / "rows.csv", out / "manifest.csv")
    stored = read_run(out)
    assert tables.drop_attrs().identical(stored.drop_attrs()), "the tables say what the Dataset says"


def test_a_file_name_with_an_equals_sign_is_a_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("seed=7.log").write_text((LOGS / SAMPLES["openpi"]).read_text())
    flags = ["--from", "openpi", "--model", "m", "--condition", "perturb"]
    assert dispatch(["import", "seed=7.log", *flags, "--out", "run"]) == 0
    assert "that they recorded perturb is your statement" in capsys.readouterr().out
    with pytest.raises(UnknownNameError, match=r"Unknown condition 'basline'.*CONDITION=FILE"):
        dispatch(["import", "basline=seed=7.log", *flags, "--out", "other"])


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["a.csv"],
            "Expected episodes.csv, rows.csv and optionally manifest.csv, got 1 files; for logs name their tool",
        ),
        (
            ["a", "b", "--model", "m"],
            "Expected no --model with tables, which name it themselves; leave it out.",
        ),
        (["--from", "openpi"], "Expected logs of openpi, got none; name them."),
    ],
)
def test_command_refuses(argv, message, tmp_path):
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        dispatch(["import", *argv, "--out", str(tmp_path / "run")])
    assert not (tmp_path / "run").exists()
