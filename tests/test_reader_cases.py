"""Logs and tables as people have them, through the command: the right values, or one sentence of what is wrong."""

from __future__ import annotations

import copy
import json
import re
import textwrap
from pathlib import Path

import pandas as pd
import pytest

from roep_gym.cli.main import dispatch
from roep_gym.error import InvalidInputError, RoepError
from roep_gym.evaluate.importers import IMPORTERS

LOGS = Path(__file__).parent / "data" / "logs"
DRAWER, STOVE = "open the middle drawer of the cabinet", "turn on the stove"
MILK = "pick up the milk and place it in the basket"
JSON_SAMPLES = {
    "lerobot": "eval_info.json",
    "vla-eval": "LIBEROBenchmark_libero_goal_aggregate.json",
    "inspect": "libero-goal_31a2b7c8.json",
}


def run(tmp_path, *files, tool="", **options):
    """Import files and return the lines of the written episodes.csv."""
    out = tmp_path / "run"
    argv = [*map(str, files), "--out", str(out)]
    argv += ["--from", tool, "--model", "m"] if tool else []
    argv += [text for name, value in options.items() for text in (f"--{name}", value)]
    assert dispatch(["import", *argv]) == 0
    return pd.read_csv(out / "episodes.csv", keep_default_na=False, dtype=str)


def outcomes(lines):
    """Return (suite, reasons by task)."""
    (suite,) = lines["suite"].unique()
    return suite, {task: list(group["reason"]) for task, group in lines.groupby("task", sort=False)}


# Files: name, tool, options, suite, outcomes by task, what the import must say


S, T = "success", "timeout"
FILES = [
    ("remark_after_suite.txt", "openvla-oft", {}, "libero_goal", {STOVE: [S, S, T]},
     ["step budget of libero_goal was 300", "'libero_goal, targeting Task ID: 7'"]),
    ("remark_after_suite.txt", "openvla-oft", {"suite": "libero_10"}, "libero_10", {STOVE: [S, S, T]},
     ["step budget of libero_10 was 520", "suite 'libero_10' (--suite) says more"]),
    ("count_after_suite.txt", "openvla-oft", {}, "libero_goal", {DRAWER: [S, S], STOVE: [T, S]},
     ["step budget of libero_goal was 300", "'libero_goal, task_num: 10'"]),
    ("terminal_copy.txt", "openvla-oft", {}, "libero_object", {MILK: [T, S]}, []),
    ("openpi_two_tasks.log", "openpi", {}, "libero_goal", {DRAWER: [S, T], STOVE: [S, S]}, []),
    ("colours.log", "openpi", {}, "libero_goal", {DRAWER: [S], STOVE: [T]}, []),
    ("prompt_after_task.log", "openpi", {}, "libero_goal", {DRAWER: [S, T]},
     ["begins again under another text", "| Prompt: "]),
    ("byte_order_mark.txt", "openvla-oft", {}, "libero_goal", {DRAWER: [S, T]}, []),
    ("byte_order_mark.json", "lerobot", {}, "libero_10", {"task 3": [S, T, T, S, S]}, []),
    ("safety_lines.txt", "openvla-oft", {}, "libero_goal", {DRAWER: [S, S]},
     ["Lines on safety: 4, the first is 'Safety violated: True'; they were not read"]),
    ("sixty_trials.txt", "openvla-oft", {}, "libero_goal", {STOVE: [S] * 60},
     ["left empty beyond the 50 that LIBERO stores"]),
]  # fmt: skip


@pytest.mark.parametrize(("file", "tool", "options", "suite", "by_task", "said"), FILES)
def test_right_values(tmp_path, capsys, file, tool, options, suite, by_task, said):
    lines = run(tmp_path, LOGS / file, tool=tool, **options)
    assert outcomes(lines) == (suite, by_task)
    printed = capsys.readouterr().out
    for text in said:
        assert text in printed


def test_initial_states_beyond_the_stored_ones_are_empty(tmp_path):
    lines = run(tmp_path, LOGS / "sixty_trials.txt", tool="openvla-oft")
    assert list(lines["init_state"]) == [*map(str, range(50)), *[""] * 10]


@pytest.mark.parametrize(
    "line", ["Initial states were shuffled", "Using initial states from mine.json", "init_state_idx: 7"]
)
def test_a_line_on_initial_states_leaves_them_empty(tmp_path, line):
    (tmp_path / "log.txt").write_text((LOGS / "safety_lines.txt").read_text() + f"{line}\n")
    assert set(run(tmp_path, tmp_path / "log.txt", tool="openvla-oft")["init_state"]) == {""}


REFUSED = [
    ("length_nan.json", "inspect", "Expected a whole number as samples[0].epochs[0].episode_length, got nan;"),
    ("length_fractional.json", "inspect", "whole number as samples[0].epochs[0].episode_length, got 23.7;"),
    ("contradicting_score.json", "lerobot", "Expected 75 as overall.pc_success, which its episodes give, got 50;"),
    ("shard_0_of_2.json", "vla-eval", "Expected at most the step budget 300 as tasks[0].episodes[0].steps, got 900;"),
]  # fmt: skip


@pytest.mark.parametrize(("file", "tool", "message"), REFUSED)
def test_refused_with_place_and_numbers(tmp_path, file, tool, message):
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        run(tmp_path, LOGS / file, tool=tool, suite="libero_goal")


# What carries a console log to a file changes nothing


PLAIN = (LOGS / "openpi_two_tasks.log").read_text()
BAR = "\r 50%|#####     | 1/2 [00:11<00:12,  4.10s/it]"


def each(write):
    """Return the log with every line written by `write(number, line)`."""
    return "\n".join(write(k, line) for k, line in enumerate(PLAIN.splitlines())) + "\n"


def logged(layout):
    """Return the log behind another logging format; a message's second line has none."""
    return each(lambda k, line: layout.format(k, line[10:]) if line.startswith("INFO:root:") else line)


def rich(path):
    """Return the log as rich's handler prints it on a narrow console: columns, wrapped messages, times once."""
    records = [m.replace("INFO:root:", "") for m in re.split(r"\n(?=INFO:root:)", PLAIN.strip())]
    lines = []
    for k, record in enumerate(records):
        pieces = [w for part in record.split("\n") for w in textwrap.wrap(part, 30) or [""]]
        head = f"[10:15:{k // 5:02d}] " if k % 5 == 0 else " " * 11
        first = (
            (f"{head}INFO     {pieces[0]}".ljust(60) + f"main.py:{80 + k}")
            if path
            else f"{head}INFO     {pieces[0]}"
        )
        lines += [first, *(" " * 20 + piece for piece in pieces[1:])]
    return "\n".join(lines) + "\n"


CARRIED = {
    "docker compose": each(lambda k, line: f"runtime-1        | {line}"),
    "docker compose, colours": each(lambda k, line: f"\x1b[36mruntime_1  |\x1b[0m {line}"),
    "docker compose, times": each(lambda k, line: f"runtime-1  | 2026-11-03T10:15:42.118{k}Z {line}"),
    "docker, JSON lines": each(lambda k, line: json.dumps({"log": f"{line}\n", "stream": "stderr"})),
    "kubectl": each(lambda k, line: f"2026-11-03T10:15:42.118Z {line}"),
    "kubectl, pods": each(lambda k, line: f"[pod/eval-7f/runtime] {line}"),
    "stern": each(lambda k, line: f"eval-7f9c runtime {line}"),
    "srun": each(lambda k, line: f"12: {line}"),
    "mpirun": each(lambda k, line: f"[1,0]<stdout>:{line}"),
    "torchrun": each(lambda k, line: f"[default0]:{line}"),
    "ray": each(lambda k, line: f"(EvalWorker pid=3123, ip=10.0.0.1) {line}"),
    "ts": each(lambda k, line: f"Nov 03 10:15:{k:02d} {line}"),
    "ts of seconds": each(lambda k, line: f"1762164942.{k:06d} {line}"),
    "journald": each(lambda k, line: f"Nov 03 10:15:{k:02d} gpu-node7 python[31337]: {line}"),
    "journald, JSON lines": each(lambda k, line: json.dumps({"PRIORITY": "6", "MESSAGE": line})),
    "syslog": each(lambda k, line: f"<14>Nov  3 10:15:{k:02d} myhost eval: {line}"),
    "GNU parallel": each(lambda k, line: f"libero_goal pi0\t{line}"),
    "pdsh": each(lambda k, line: f"node7: {line}"),
    "W&B": each(lambda k, line: f"ERROR 2026-11-03T10:16:01.{k:06d} {line}"),
    "rich": rich(path=True),
    "rich without paths": rich(path=False),
    "logging with names": logged("2026-11-03 10:15:42,118 - root - INFO - {1}"),
    "loguru": logged("2026-11-03 10:15:42.118 | INFO     | __main__:eval_libero:{0} - {1}"),
    "absl": logged("I1103 10:15:42.118000 140 main.py:{0}] {1}"),
    "pytest": logged("INFO     root:main.py:{0} {1}"),
    "logfmt": logged('time="2026-11-03T10:15:42Z" level=info msg="{1}"'),
    "CRLF": PLAIN.replace("\n", "\r\n"),
    "script": "Script started on 2026-11-03\r\n\x1b[?2004h$ python main.py\r\n" + PLAIN.replace("\n", "\r\n"),
    "tmux": PLAIN.replace("\n", "          \n"),
    "colours in caret form": PLAIN.replace("INFO", "^[[32mINFO").replace("root:", "root:^[[0m"),
    "colours without escape": each(lambda k, line: f"[32m{line}[0m"),
    "colours of syslog": each(lambda k, line: f"#033[32m{line}#033[0m"),
    "links": each(lambda k, line: f"\x1b]8;;file:///x\x1b\\{line}\x1b]8;;\x1b\\"),
    "bars": PLAIN.replace("INFO:root:\n", f"{BAR}INFO:root:\n"),
    "bars with cursor moves": PLAIN.replace("INFO:root:\n", f"\n{BAR}\x1b[A{BAR}\x1b[A\x1b[2KINFO:root:\n"),
    "bars with text": PLAIN.replace("INFO:root:\n", "\rEval:  50%|\u2588\u258c  | 1/2 [00:11<00:12, ok=1]INFO:root:\n"),
}  # fmt: skip


@pytest.mark.parametrize("carrier", CARRIED)
def test_a_carried_log_reads_as_the_plain_one(tmp_path, carrier):
    (tmp_path / "log").write_text(CARRIED[carrier], newline="")
    log = IMPORTERS.find("openpi")(tmp_path / "log", "")
    plain = IMPORTERS.find("openpi")(LOGS / "openpi_two_tasks.log", "")
    assert log.episodes == plain.episodes
    assert log.notes == plain.notes


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("big_endian", [False, True])
def test_a_byte_order_mark_is_accepted_for_every_tool(tmp_path, encoding, big_endian):
    name = encoding if encoding == "utf-8-sig" or not big_endian else f"{encoding}-be"
    mark = "\ufeff" if name.endswith("-be") else ""
    for tool, sample in {**JSON_SAMPLES, "openpi": "openpi_clean.log"}.items():
        (tmp_path / "file").write_bytes((mark + (LOGS / sample).read_text()).encode(name))
        read = IMPORTERS.find(tool)
        assert read(tmp_path / "file", "").episodes == read(LOGS / sample, "").episodes


def test_utf16_without_a_mark_is_named(tmp_path):
    (tmp_path / "file").write_bytes(PLAIN.encode("utf-16-le"))
    with pytest.raises(
        InvalidInputError, match="looks like UTF-16 without a byte-order mark; save it as UTF-8"
    ):
        run(tmp_path, tmp_path / "file", tool="openpi")


# Names come from the log's grammar, never from free text


@pytest.mark.parametrize(
    ("text", "suite"),
    [
        ("libero_goal (10 tasks)", "libero_goal"),
        ("libero_goal | seed 7", "libero_goal"),
        ("libero_goal/task-7", "libero_goal"),
        ("'libero_goal'", "libero_goal"),
        ("my_suite", "my_suite"),
        ("my_suite, 3 tasks", None),
        ("libero goal", None),
        ("libero_goal and libero_10", None),
    ],
)
def test_the_suite_is_a_name_or_asked_for(tmp_path, capsys, text, suite):
    log = tmp_path / "log.txt"
    log.write_text((LOGS / "safety_lines.txt").read_text().replace("libero_goal", text))
    if suite is None:
        message = f"log.txt: Expected the name of a task suite, got {text!r}; name it with --suite."
        with pytest.raises(InvalidInputError, match=re.escape(message)):
            run(tmp_path, log, tool="openvla-oft")
        assert set(run(tmp_path, log, tool="openvla-oft", suite="libero_90")["suite"]) == {"libero_90"}
    else:
        assert set(run(tmp_path, log, tool="openvla-oft")["suite"]) == {suite}
        assert ("none of the suites of these scripts" in capsys.readouterr().out) == (suite == "my_suite")


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("x y | Prompt: please x y", "x y"),
        ("x y (task_id=3)", "x y"),
        ("x y [3/10]", "x y"),
        ("x y -> prompt: z", "x y"),
        ("x y {'seed': 3}", "x y"),
        ("x y\u2588\u2588\u258c   | 1/2 [02:10<02:10, 130.98s/it]", "x y"),
        ("x y####5     | 1/2 [02:10<02:10, 130.98s/it]", "x y"),
        ("x the red mug, then y", "x the red mug, then y"),
    ],
)
def test_the_task_is_what_precedes_a_remark(tmp_path, text, task):
    log = tmp_path / "log.txt"
    log.write_text((LOGS / "safety_lines.txt").read_text().replace(DRAWER, text))
    assert set(run(tmp_path, log, tool="openvla-oft")["task"]) == {task}


@pytest.mark.parametrize(
    "prose", ["Current Task: other", "Loaded policy. Task suite: libero_10", "the Success: True"]
)
def test_prose_is_no_message(tmp_path, prose):
    text = (LOGS / "safety_lines.txt").read_text()
    (tmp_path / "log.txt").write_text(text.replace("Starting", f"{prose}\nStarting"))
    lines = run(tmp_path, tmp_path / "log.txt", tool="openvla-oft")
    assert outcomes(lines) == ("libero_goal", {DRAWER: [S, S]})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Total episodes: 3", "Expected 2 episodes at this place, got 3 in the log;"),
        ("Total successes: 1", "Expected 2 successes at this place, got 1 in the log;"),
        ("Total success rate: 0.5", "Expected 1 as 'Total success rate', which its episodes give, got 0.5;"),
        ("Final results: 1/2 (Rate: 0.5)", "Expected 2 successes at this place, got 1 in the log;"),
        (
            "# successes: 2 (50.0%)",
            "Expected 100 as '# successes: 2 (50.0%)', which its episodes give, got 50;",
        ),
    ],
)
def test_totals_of_a_console_log_are_validated(tmp_path, line, message):
    (tmp_path / "log.txt").write_text((LOGS / "safety_lines.txt").read_text() + f"{line}\n")
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        run(tmp_path, tmp_path / "log.txt", tool="openvla-oft")


# JSON: every reader validates alike


def changed(tmp_path, tool, change):
    content = json.loads((LOGS / JSON_SAMPLES[tool]).read_text())
    content = change(content) or content
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(content))
    return path


def _places(value, place=()):
    yield place
    items = (
        value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    )
    for key, inner in items:
        yield from _places(inner, (*place, key))


@pytest.mark.parametrize("tool", JSON_SAMPLES)
def test_any_value_of_another_type_is_read_or_refused_in_one_sentence(tmp_path, tool):
    base = json.loads((LOGS / JSON_SAMPLES[tool]).read_text())
    path = tmp_path / "mutated.json"
    read, sentences = IMPORTERS.find(tool), []
    others = [
        None,
        True,
        -1,
        1.5,
        float("nan"),
        float("inf"),
        -0.0,
        "84",
        "",
        "a\0b",
        [],
        {},
        10**400,
        [[[]]],
    ]
    for place in _places(base):
        for other in others if place else ():
            content = copy.deepcopy(base)
            holder = content
            for key in place[:-1]:
                holder = holder[key]
            holder[place[-1]] = other
            path.write_text(json.dumps(content))
            try:
                read(path, "")
            except RoepError as error:
                sentences.append(str(error))
    assert len(sentences) > 100
    assert not [text for text in sentences if "\n" in text or len(text) > 600]


@pytest.mark.parametrize("tool", JSON_SAMPLES)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 20_000, "got values nested more than 64 deep;"),
        ('{"a":' * 500 + "1" + "}" * 500, "got values nested more than 64 deep;"),
        ('{"a": 1, "a": 2}', "the key 'a' appears twice in one object;"),
        ('{"a": ' + "9" * 5000 + "}", "Exceeds the limit (4300 digits)"),
    ],
)
def test_json_is_bounded(tmp_path, tool, text, message):
    (tmp_path / "file.json").write_text(text)
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        run(tmp_path, tmp_path / "file.json", tool=tool)


def _score(content, **values):
    content["samples"][0]["epochs"][1].update(values)


CONTRADICTIONS = [
    ("lerobot", lambda c: c["per_group"]["libero_object"].update(pc_success=50.0),
     "Expected 66.6667 as per_group.libero_object.pc_success, which its episodes give, got 50;"),
    ("lerobot", lambda c: c["per_group"]["libero_object"].update(n_episodes=5), "Expected 6 as per_group"),
    ("lerobot", lambda c: c["per_task"][0]["metrics"]["sum_rewards"].pop(), "Expected 3 as number of entries"),
    ("lerobot", lambda c: {"a": c, "b": c}, "Expected one evaluation, got several: 'a', 'b';"),
    ("vla-eval", lambda c: c.update(mean_success=0.5), "Expected 0.666667 or 0.8 as mean_success, which"),
    ("vla-eval", lambda c: c["tasks"][0].update(num_episodes=4), "Expected 3 as tasks[0].num_episodes, which"),
    ("vla-eval", lambda c: c.update(num_errors=0), "Expected 1 as num_errors, which its episodes give, got 0;"),
    ("vla-eval", lambda c: c["config"].update(max_steps=95),
     "Expected at most the step budget 95 as tasks[0].episodes[1].steps, got 99;"),
    ("vla-eval", lambda c: c["tasks"][0]["episodes"][0]["metrics"].update(success=1),
     "Expected true or false as tasks[0].episodes[0].metrics.success, got 1;"),
    ("inspect", lambda c: c["results"].update(total_trials=7), "Expected 6 as results.total_trials, which"),
    ("inspect", lambda c: c["eval"].update(max_steps=200),
     "Expected at most the step budget 200 as samples[0].epochs[1].episode_length, got 280"),
    ("inspect", lambda c: _score(c, success_at_end=1.0), "Expected 0 as samples[0].epochs[1].success_at_end, since"),
    ("inspect", lambda c: c["samples"][0].update(operator_judgements=[1, None]),
     "Expected text as samples[0].operator_judgements[0], got 1;"),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "change", "message"), CONTRADICTIONS)
def test_what_contradicts_the_episodes_is_refused_with_both_numbers(tmp_path, tool, change, message):
    path = changed(tmp_path, tool, lambda c: found if isinstance(found := change(c), dict) else None)
    with pytest.raises(
        InvalidInputError, match=re.escape(f"changed.json: {message}" if message[0] == "E" else message)
    ):
        run(tmp_path, path, tool=tool)


def test_a_judgement_that_overrules_a_score_is_noted(tmp_path, capsys):
    path = changed(tmp_path, "inspect", lambda c: c["samples"][0].update(operator_judgements=[None, "pass"]))
    run(tmp_path, path, tool="inspect")
    assert (
        "overrule a score: 1, the first is success_at_end 0 against the judgement 'pass'"
        in capsys.readouterr().out
    )


def test_a_key_around_the_results_of_lerobot_is_looked_through(tmp_path):
    path = changed(tmp_path, "lerobot", lambda c: {"eval_info": c, "config": {"seed": 7}})
    read = IMPORTERS.find("lerobot")
    assert read(path, "").episodes == read(LOGS / JSON_SAMPLES["lerobot"], "").episodes


def merged(content):
    """Make of a result of vla-eval 0.8 a merged file of 0.0.4."""
    content.update(harness_version="0.0.4.dev8+g3e4c63d37")
    episodes = 0
    for task in content["tasks"]:
        task["episodes"] = [row for row in task["episodes"] if "failure_reason" not in row]
        for row in task["episodes"]:
            row["success"] = row.pop("metrics")["success"]
            row["episode_id"] = f"{task['task']}_ep{row['episode_id']}"
            del row["episode_idx"]
        for name in ("mean_success", "num_errors", "num_episodes"):
            task.pop(name, None)
        episodes += len(task["episodes"])
    for name in ("mean_success", "num_errors", "num_episodes_total"):
        del content[name]
    content["overall_success_rate"] = 0.8
    content["merge_info"] = {"num_shards": 30, "shards_missing": [3], "total_episodes": episodes}


def test_merged_files_of_early_vla_eval(tmp_path, capsys):
    lines = run(tmp_path, changed(tmp_path, "vla-eval", merged), tool="vla-eval")
    assert outcomes(lines) == ("libero_goal", {DRAWER: [S, S, T], STOVE: [S, S]})
    assert list(lines["init_state"]) == ["0", "1", "2", "0", "2"]
    assert "Shards that were not merged: 3." in capsys.readouterr().out


def early(content):
    """Make of a log of Inspect Robots 0.60 one of 0.7."""
    content["eval"]["inspect_robots_version"] = "0.7.0"
    del content["eval"]["max_steps"]
    for sample in content["samples"]:
        del sample["termination_reasons"]


def test_early_inspect_robots_logs_are_read_as_far_as_they_say(tmp_path):
    message = (
        "how epoch 1 of the sample 'scene-0' ended (termination_reasons), got a log of Inspect Robots 0.7.0"
    )
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        run(tmp_path, changed(tmp_path, "inspect", early), tool="inspect")
    path = changed(tmp_path, "inspect", lambda c: (early(c), _score(c, success_at_end=1.0))[2:])
    assert outcomes(run(tmp_path, path, tool="inspect"))[1] == {STOVE: [S] * 4, DRAWER: ["aborted", S]}


# Several files


def shards(tmp_path, *numbers, seed=7):
    """Write shards of one run of three, each with the episodes of its number."""
    paths = []
    for number in numbers:
        content = json.loads((LOGS / "shard_0_of_2.json").read_text())
        content["shard"] = {"id": number, "total": 3}
        content["config"]["params"]["seed"] = seed
        rows = [{"episode_id": number, "metrics": {"success": True}, "steps": 92}]
        content["tasks"] = [{"task": STOVE, "episodes": rows}]
        paths.append(tmp_path / f"seed{seed}_shard{number}.json")
        paths[-1].write_text(json.dumps(content))
    return paths


def test_shards_of_a_run_are_one_seed_group(tmp_path, capsys):
    files = shards(tmp_path, 0, 1, 2) + shards(tmp_path, 0, 2, seed=8)
    lines = run(tmp_path, *files, tool="vla-eval")
    assert list(zip(lines["seed_group"], lines["episode"], strict=True)) == [
        ("0", "0"), ("0", "1"), ("0", "2"), ("1", "0"), ("1", "2"),
    ]  # fmt: skip
    assert "Shards of a run of 3 that were not given: 1." in capsys.readouterr().out


def test_equal_recordings_are_accepted_with_a_note_and_one_file_is_not(tmp_path, capsys):
    for folder in ("seed7", "seed17"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "eval.txt").write_text((LOGS / "safety_lines.txt").read_text())
    first, second = (tmp_path / folder / "eval.txt" for folder in ("seed7", "seed17"))
    lines = run(tmp_path, f"baseline={first}", f"baseline_clone={second}", tool="openvla-oft")
    assert lines.groupby("condition").size().to_dict() == {"baseline": 2, "baseline_clone": 2}
    assert set(lines["log"]) == {str(first), str(second)}, "files of one name go by their path"
    assert f"{second} has the content of {first}; that both are recordings is" in capsys.readouterr().out
    (tmp_path / "again").symlink_to(first)
    with pytest.raises(
        InvalidInputError, match="the file already given for 'baseline'; a condition, a clone"
    ):
        run(tmp_path / "x", f"baseline={first}", f"baseline_clone={tmp_path / 'again'}", tool="openvla-oft")


def test_messages_name_the_users_file_and_no_table(tmp_path):
    path = changed(tmp_path, "vla-eval", lambda c: c["tasks"][0].update(task="a\x1bb"))
    message = r"changed.json, episode 0 of 'a\x1bb': Expected task without control characters, got"
    with pytest.raises(InvalidInputError, match="^" + re.escape(message)):
        run(tmp_path, path, tool="vla-eval")


# Tables

EPISODES = (
    "model,suite,task,condition,run_id,seed_group,episode,init_state,env_seed,success,reason,steps,max_abs_action,"
    "intervention_steps,unsafe_attempts,refusals\n"
    "pi0,libero_goal,stove,baseline,r0,0,0,0,11,1,success,90,0.9,,,\n"
    "pi0,libero_goal,stove,baseline,r0,0,1,1,12,1,success,90,0.9,,,\n"
)
ROWS = (
    "model,suite,task,shield_status,shield_tau,risk_positive_episodes,risk_label_source,shield_reason,contract_status,"
    "contract_note\npi0,libero_goal,stove,none,,,,none,match,\n"
)


def tables(tmp_path, episodes=EPISODES, rows=ROWS, encoding="utf-8"):
    for name, text in (("episodes.csv", episodes), ("rows.csv", rows)):
        (tmp_path / name).write_bytes(text.encode(encoding))
    return run(tmp_path, tmp_path / "episodes.csv", tmp_path / "rows.csv")


def with_column(name, *cells, at_end=False):
    lines = EPISODES.splitlines()
    added = [
        f"{line},{cell}" if at_end else f"{cell},{line}"
        for cell, line in zip((name, *cells), lines, strict=True)
    ]
    return "\n".join(added) + "\n"


@pytest.mark.parametrize(
    ("episodes", "kept"),
    [
        (with_column("", "", "", at_end=True), []),
        (with_column(",,", ",,", ",,", at_end=True), []),
        (with_column(" ", " ", " ", at_end=True), []),
        (with_column("\u200b", "", "", at_end=True), []),
        (with_column("", 0, 1), []),
        (with_column("", 7, 7), []),
        (with_column("Unnamed: 0", 0, 1), []),
        (with_column('Unnamed: 0.1,Unnamed: 0', "0,0", "1,1"), []),
        (with_column("", "a", "b"), ["column 1"]),
        (with_column("", "a", "", at_end=True), ["column 17"]),
    ],
)  # fmt: skip
def test_a_column_without_a_name(tmp_path, capsys, episodes, kept):
    lines = tables(tmp_path, episodes)
    assert [name for name in lines.columns if "column" in name or "Unnamed" in name] == kept
    assert ("has no name in the file" in capsys.readouterr().out) == bool(kept)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_tables_with_a_byte_order_mark(tmp_path, encoding):
    assert len(tables(tmp_path, EPISODES.replace("\n", "\r\n"), encoding=encoding)) == 2


@pytest.mark.parametrize(
    ("column", "old", "new"),
    [
        ("env_seed", ",11,", ",2.02611E+14,"),
        ("env_seed", ",11,", ",1.1e1,"),
        ("init_state", ",0,11,", ",0E+00,11,"),
        ("episode", ",r0,0,0,", ",r0,0,0e0,"),
        ("seed_group", ",r0,0,0,", ",r0,0E+00,0,"),
        ("run_id", ",r0,", ",1.23457E+14,"),
    ],
)
def test_an_exponent_in_an_identity_has_lost_digits(tmp_path, column, old, new):
    message = rf"^episodes\.csv, line 2: Expected every digit of {column}, got '"
    with pytest.raises(InvalidInputError, match=message):
        tables(tmp_path, EPISODES.replace(old, new, 1))


@pytest.mark.parametrize(
    "cell", ["\uff11\uff11", "1_1", "11\u00a0", "11\u200b", "\u0661", "0x0b", "TRUE", "Infinity"]
)
def test_only_plain_digits_are_a_number(tmp_path, cell):
    for old, column in ((",11,", "env_seed"), (",90,", "steps")):
        with pytest.raises(InvalidInputError, match=f"line 2: Expected {column} to be an integer"):
            tables(tmp_path, EPISODES.replace(old, f",{cell},", 1))


@pytest.mark.parametrize(
    ("episodes", "rows", "message"),
    [
        ("stove ", "stove", "the row 'pi0', 'libero_goal', 'stove ' has no line in rows.csv, where the closest is "
         "'pi0', 'libero_goal', 'stove';"),
        ("O\u0308ffne", "\u00d6ffne", r"the row 'pi0', 'libero_goal', 'O\u0308ffne' has no line in rows.csv, where the "
         r"closest is 'pi0', 'libero_goal', '\xd6ffne';"),
        ("turn\u00a0on", "turn on", r"'turn\xa0on' has no line"),
        ("sto\u200bve", "stove", r"'sto\u200bve' has no line"),
        ("st\uff4fve", "stove", r"'st\uff4fve' has no line"),
    ],
)  # fmt: skip
def test_names_that_differ_invisibly_are_shown(tmp_path, episodes, rows, message):
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        tables(tmp_path, EPISODES.replace("stove", episodes), ROWS.replace("stove", rows))


def test_rows_that_differ_invisibly_are_refused(tmp_path):
    twice = ROWS + ROWS.splitlines()[1].replace("stove", "stove ") + "\n"
    with pytest.raises(InvalidInputError, match=r"rows\.csv, line 3: Expected rows that differ visibly"):
        tables(tmp_path, rows=twice)


def test_a_column_that_only_looks_right_is_shown(tmp_path):
    with pytest.raises(InvalidInputError, match=r"missing: env_seed; 'env_seed\\xa0' only look like them"):
        tables(tmp_path, EPISODES.replace("env_seed", "env_seed\u00a0"))


def test_tables_of_one_name_go_by_their_path(tmp_path):
    for folder, text in (("a", EPISODES.replace(",90,", ",-1,")), ("b", ROWS)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "t.csv").write_text(text)
    with pytest.raises(
        InvalidInputError, match="^" + re.escape(f"{tmp_path / 'a' / 't.csv'}, line 2: Expected steps")
    ):
        run(tmp_path, tmp_path / "a" / "t.csv", tmp_path / "b" / "t.csv")
