"""Evaluation logs of Inspect Robots, which follow Inspect AI's.

Looked at: Inspect Robots 0.60.0, log schema version 1, by running it. A log holds `version`, `eval` (`task`,
`policy`, `max_steps`, ...) and `samples`, one per scene, with the parallel lists `epochs` (scores of each trial, empty
for a trial that errored or was cancelled), `termination_reasons` and `operator_judgements`. Inspect AI's own logs
hold model transcripts and no robot episodes; they are refused. Early logs, such as those of 0.7, lack
`termination_reasons`: their successes are read, and a failure is refused, since nothing says how it ended.

A row is the eval's task as the suite and a scene's instruction as the task; trials are counted over scenes and epochs
in the order of the log. A trial succeeded if its operator (or grader) judged so, or, without a judgement, if it ended
with `success`. `max_steps` without success is a timeout. Any other end without success is refused: the protocol needs
to know whether it was unsafe, and the log does not say.

Not in the log: proposed actions, scene seeds, initial states. Steps are there if the scorer `episode_length` ran.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from roep_gym.evaluate.importers.episode_log import (
    ABORTED,
    EpisodeLog,
    LoggedEpisode,
    aborted_note,
    refuse,
)
from roep_gym.evaluate.importers.json_file import Field, read_json

__all__ = ["read_inspect_log"]

_SCHEMA = 1
_AFFIRMATIVE = frozenset({"success", "pass", "yes", "y", "1", "true"})
"""Verdicts that Inspect Robots reads as success, upper and lower case alike."""


class _Trial(NamedTuple):
    """What a log says of one trial, whose place is `where`: scores, how it ended and how it was judged."""

    scores: Field
    ended: str | None
    judged: str | None
    where: str
    version: str
    """Version that wrote the log, where it lacks the ends of its trials; empty otherwise."""


def read_inspect_log(path: Path, suite: str = "") -> EpisodeLog:
    """Read an evaluation log of Inspect Robots.

    Args:
        path: The log.
        suite: Suite; empty takes the eval's task.

    Raises:
        InvalidInputError: It has another shape, contradicts itself, or a trial ended in a way that the protocol has no
            reason for.
    """
    content = read_json(path, "Inspect Robots")
    run = content["eval"]
    run.object()
    if "inspect_robots_version" not in run:
        raise refuse(
            path,
            "an Inspect Robots log ('inspect_robots_version' of eval)",
            "none",
            "Inspect AI's own logs hold no robot episodes; check --from",
        )
    version = run["inspect_robots_version"].text()
    if content["version"].shown() != str(_SCHEMA):
        remedy = f"Inspect Robots {version} wrote it, bring the outcomes as tables"
        raise content["version"].wrong(f"log schema version {_SCHEMA}", remedy)
    named = suite or run["task"].text()
    budget = next((stated.integer(1) for stated in run.find("max_steps")), None)
    counted: Counter[str] = Counter()
    episodes: list[LoggedEpisode] = []
    disputed: list[str] = []
    scenes = content["samples"].list()
    for scene in scenes:
        episodes += _trials(scene, named, budget, version, counted, disputed)
    if not episodes:
        raise refuse(path, "trials", "none", "give the log of an evaluation that ran")
    for results in content.find("results"):
        results.check_totals("total_scenes", read=[len(scenes)])
        results.check_totals("total_trials", read=[len(episodes)])
        results.check_totals("errored_trials", read=[sum(e.reason == ABORTED for e in episodes)])
    return EpisodeLog(
        path,
        tuple(episodes),
        step_budgets={} if budget is None else {named: budget},
        notes=_notes(episodes, content, disputed),
    )


def _trials(
    scene: Field,
    suite: str,
    budget: int | None,
    version: str,
    counted: Counter[str],
    disputed: list[str],
) -> list[LoggedEpisode]:
    """Return the trials of one scene, count them by task, and add judgements that overrule a score."""
    name = scene["scene_id"].text()
    instruction = next((text.text() for text in scene.find("instruction")), "")
    error = next((text.text() for text in scene.find("error")), "not scored")
    epochs = scene["epochs"].list()
    early = "termination_reasons" not in scene
    absent = [Field(scene.path, "", None)] * len(epochs)
    reasons = absent if early else scene["termination_reasons"].list()
    judgements = (
        absent if early and "operator_judgements" not in scene else scene["operator_judgements"].list()
    )
    if not len(epochs) == len(reasons) == len(judgements):
        raise refuse(
            scene.path,
            f"one termination reason and judgement per trial of the sample {name!r}",
            f"{len(reasons)} and {len(judgements)} for {len(epochs)}",
            "logs before Inspect Robots 0.60 lack them; bring the outcomes as tables",
        )
    task = instruction or name
    trials = []
    for epoch, (scores, ended, judged) in enumerate(zip(epochs, reasons, judgements, strict=True)):
        scored = bool(scores.value is not None and scores.object())
        trial = _Trial(
            scores,
            None if ended.value is None else ended.text(),
            None if judged.value is None else judged.text().strip().lower(),
            f"epoch {epoch} of the sample {name!r}",
            version if early else "",
        )
        lengths = (length.steps(budget, whole=True) for length in scores.find("episode_length"))
        steps = next(lengths, None)
        reason = _reason(trial, disputed) if scored else ABORTED
        trials.append(
            LoggedEpisode(
                suite=suite,
                task=task,
                episode=counted[task],
                reason=reason,
                instruction=instruction,
                steps=steps,
                detail=f"{name}, epoch {epoch}" + ("" if scored else f": {error}"),
            )
        )
        counted[task] += 1
    return trials


def _reason(trial: _Trial, disputed: list[str]) -> str:
    """Return the protocol's reason of a scored trial."""
    judged = None if trial.judged is None else trial.judged in _AFFIRMATIVE
    scored = {
        name: value
        for name in trial.scores.object()
        if "success" in name and (value := trial.scores[name].number()) in (0.0, 1.0)
    }
    if judged is not None:
        success = judged
    elif trial.version and trial.ended is None:
        success = bool(scored) and min(scored.values()) == 1.0
    else:
        success = trial.ended == "success"
    for name, value in scored.items():
        if (value == 1.0) != success:
            if judged is None:
                raise refuse(
                    trial.scores.path,
                    f"{int(success)} as {trial.scores.place}.{name}, since {trial.where} ended with {trial.ended!r}",
                    f"{value:g}",
                    "the log contradicts itself; bring the outcomes as tables",
                )
            disputed.append(f"{name} {value:g} against the judgement {trial.judged!r} of {trial.where}")
    if success:
        return "success"
    if trial.ended == "max_steps":
        return "timeout"
    if trial.version:
        raise refuse(
            trial.scores.path,
            f"how {trial.where} ended (termination_reasons)",
            f"a log of Inspect Robots {trial.version}, which does not say",
            "evaluate with version 0.60.0 or bring the outcomes as tables with a reason",
        )
    raise refuse(
        trial.scores.path,
        f"success, a judged success or 'max_steps' as the end of {trial.where}",
        repr(trial.ended),
        "the protocol has no reason for it without knowing whether it was unsafe; bring the outcomes as tables",
    )


def _notes(episodes: list[LoggedEpisode], content: Field, disputed: list[str]) -> tuple[str, ...]:
    notes = list(aborted_note(episodes, "errored or were cancelled, and Inspect Robots scores none of them"))
    if disputed:
        notes.append(f"Judgements that overrule a score: {len(disputed)}, the first is {disputed[0]}.")
    if content["status"].value != "success":
        notes.append(f"The log's own status is {content['status'].shown()}.")
    return tuple(notes)
