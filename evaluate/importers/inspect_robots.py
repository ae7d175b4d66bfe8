"""Evaluation logs of Inspect Robots, which follow Inspect AI's.

Looked at: Inspect Robots 0.60.0, log schema version 1, by running it. A log holds `version`, `eval` (`task`,
`policy`, `max_steps`, ...) and `samples`, one a scene, with the parallel lists `epochs` (scores of each trial, empty
for a trial that errored or was cancelled), `termination_reasons` and `operator_judgements`. Inspect AI's own logs
hold model transcripts and no robot episodes; they are refused.

A row is the eval's task as the suite and a scene's instruction as the task; trials are counted over scenes and epochs
in the order of the log. A trial succeeded if its operator (or grader) judged so, or, without a judgement, if it ended
with `success`. `max_steps` without success is a timeout. Any other end without success is refused: the protocol needs
to know whether it was unsafe, and the log does not say.

Not in the log: proposed actions, scene seeds, initial states. Steps are there if the scorer `episode_length` ran.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from roep_gym.evaluate.importers.episode_log import (
    ABORTED,
    EpisodeLog,
    LoggedEpisode,
    aborted_note,
    entry,
    objects,
    read_object,
    refuse,
)

__all__ = ["read_inspect_log"]

_SCHEMA = 1
_AFFIRMATIVE = frozenset({"success", "pass", "yes", "y", "1", "true"})
"""Verdicts that Inspect Robots reads as success, upper and lower case alike."""


def read_inspect_log(path: Path, suite: str = "") -> EpisodeLog:
    """Read an evaluation log of Inspect Robots.

    Args:
        path: The log.
        suite: Suite; empty takes the eval's task.

    Raises:
        InvalidInputError: It has another shape, or a trial ended in a way that the protocol has no reason for.
    """
    content = read_object(path, "Inspect Robots")
    run = entry(path, content, "eval", dict, "the file")
    if "inspect_robots_version" not in run:
        raise refuse(
            path,
            "an Inspect Robots log ('inspect_robots_version' of eval)",
            "none",
            "Inspect AI's own logs hold no robot episodes; check --from",
        )
    if content.get("version") != _SCHEMA:
        raise refuse(
            path,
            f"log schema version {_SCHEMA}",
            repr(content.get("version")),
            "bring the outcomes as tables",
        )
    named = suite or entry(path, run, "task", str, "eval")
    counted: Counter[str] = Counter()
    episodes: list[LoggedEpisode] = []
    for scene in objects(path, content, "samples", "the file"):
        episodes += _trials(path, scene, named, counted)
    if not episodes:
        raise refuse(path, "trials", "none", "give the log of an evaluation that ran")
    budget = run.get("max_steps")
    return EpisodeLog(
        path,
        tuple(episodes),
        step_budgets={named: budget} if isinstance(budget, int) else {},
        notes=_notes(episodes, content),
    )


def _trials(path: Path, scene: Mapping[str, Any], suite: str, counted: Counter[str]) -> list[LoggedEpisode]:
    """Return the trials of one scene, and count them by task."""
    name = entry(path, scene, "scene_id", str, "a sample")
    where = f"the sample {name!r}"
    instruction = scene.get("instruction") or ""
    task = instruction or name
    epochs = entry(path, scene, "epochs", list, where)
    reasons = entry(path, scene, "termination_reasons", list, where)
    judgements = entry(path, scene, "operator_judgements", list, where)
    if not len(epochs) == len(reasons) == len(judgements):
        raise refuse(
            path,
            f"one termination reason and judgement a trial of {where}",
            f"{len(reasons)} and {len(judgements)} for {len(epochs)}",
            "logs before Inspect Robots 0.60 lack them; bring the outcomes as tables",
        )
    trials = []
    for epoch, (scores, ended, judged) in enumerate(zip(epochs, reasons, judgements, strict=True)):
        length = (scores or {}).get("episode_length")
        trials.append(
            LoggedEpisode(
                suite=suite,
                task=task,
                episode=counted[task],
                reason=_reason(path, scores, ended, judged, f"epoch {epoch} of {where}"),
                instruction=instruction,
                steps=None if length is None else int(length),
                detail=f"{name}, epoch {epoch}"
                + ("" if scores else f": {scene.get('error') or 'not scored'}"),
            )
        )
        counted[task] += 1
    return trials


def _reason(path: Path, scores: Any, ended: str | None, judged: str | None, where: str) -> str:
    """Return the protocol's reason of a trial."""
    if not scores:
        return ABORTED
    if ended == "success" if judged is None else judged.strip().lower() in _AFFIRMATIVE:
        return "success"
    if ended == "max_steps":
        return "timeout"
    raise refuse(
        path,
        f"success, a judged success or 'max_steps' as the end of {where}",
        repr(ended),
        "the protocol has no reason for it without knowing whether it was unsafe; bring the outcomes as tables",
    )


def _notes(episodes: list[LoggedEpisode], content: dict[str, Any]) -> tuple[str, ...]:
    notes = list(aborted_note(episodes, "errored or were cancelled, and Inspect Robots scores none of them"))
    if content.get("status") != "success":
        notes.append(f"The log's own status is {content.get('status')!r}.")
    return tuple(notes)
