"""Several finished runs as one: other rows side by side, or further conditions of the same rows.

`merge_runs` writes the folder, `merged_dataset` makes its Dataset. What is recorded twice, and what was run under
premises that differ, is refused; other numeric fingerprints are not, since the gate notes the pairs across them.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from roep_gym import seeding
from roep_gym.atomic_file import new_folder
from roep_gym.error import InvalidInputError
from roep_gym.evaluate.comparison.merged_rows import Share, extra_variables, merged_row, shield_share
from roep_gym.evaluate.comparison.premises import (
    DIFFERS,
    FINGERPRINTS,
    FULL_KEYS,
    STEP_BUDGETS,
    Premise,
    pair_keys,
    planned_episodes,
    provenance_of,
    row_premises,
    setting_premises,
)
from roep_gym.evaluate.judging.tables import ROW
from roep_gym.evaluate.schema import (
    CONDITIONS,
    EPISODE_VARIABLES,
    NOT_RUN,
    PAIRING_KEY,
    ROW_VARIABLES,
    check_dataset,
    empty_dataset,
)
from roep_gym.evaluate.store.flat_tables import EPISODES, MANIFEST, ROWS, read_tables
from roep_gym.evaluate.store.run_directory import RunDirectory
from roep_gym.evaluate.store.storage import load_dataset, read_run, save_dataset, write_records
from roep_gym.typing import JSON, Array

__all__ = ["merge_runs", "merged_dataset"]

_TOLERATED = (FULL_KEYS, FINGERPRINTS)
"""Premises of a comparison that the gate judges itself, pair by pair."""


class _Source(NamedTuple):
    folder: Path
    data: xr.Dataset

    @property
    def provenance(self) -> Mapping[str, JSON]:
        return provenance_of(self.data)

    def shares(self) -> dict[tuple[str, ...], Share]:
        """Return what the run holds of each row, by model, suite and task."""
        names, shares = self.data["condition"].values, {}
        for row, label in enumerate(zip(*(map(str, self.data[name].values) for name in ROW), strict=True)):
            planned = np.unique(self.data["condition_index"].values[self.data["row_index"].values == row])
            conditions = tuple(str(names[code]) for code in planned)
            shares[label] = Share(self.folder, self.data, row, conditions)
        return shares


def merge_runs(runs: Sequence[Path | str], out: Path | str) -> Path:
    """Make one run of several: native runs with their steps, frames and shields, or flat tables.

    Args:
        runs: Folders of two or more runs of one kind.
        out: Folder of the new run, which must not exist; it can be judged, reported, exported and compared, not
            continued.

    Returns:
        The new folder.

    Raises:
        InvalidInputError: A folder holds no run, `out` exists, a condition of a row is in two runs, or the runs differ
            in what must be equal; the message names both.
        RoepError: The folder cannot be written.
    """
    sources = [_opened(Path(folder)) for folder in runs]
    data = merged_dataset({str(source.folder): source.data for source in sources})
    with new_folder(Path(out)) as temporary:
        write_records(data, temporary)
        if data.attrs["records"] == "flat":
            _check_tables(temporary)
        for row, shares in enumerate(_by_row(sources).values()):
            for share in shares:
                _take_steps_and_frames(share, RunDirectory(temporary), row)
            _take_shield(shield_share(shares), RunDirectory(temporary), row)
    return Path(out)


def merged_dataset(runs: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """Return the Dataset of several runs.

    Args:
        runs: Datasets of `roep_gym.evaluate.schema` by the folders of their runs.

    Raises:
        InvalidInputError: As `merge_runs`.
    """
    sources = [_Source(Path(folder), data) for folder, data in runs.items()]
    if len(sources) < 2:
        raise InvalidInputError(f"Expected two runs or more to merge, got {', '.join(runs) or 'none'}.")
    for first, second in combinations(sources, 2):
        _check_pair(first, second)
    rows = _by_row(sources)
    labels = list(rows)
    used = {name for shares in rows.values() for share in shares for name in share.conditions}
    conditions = [name for name in CONDITIONS if name in used]
    row = np.concatenate([_renumbered(s, "row_index", list(s.shares()), labels) for s in sources])
    condition = np.concatenate(
        [_renumbered(s, "condition_index", s.data["condition"].values.tolist(), conditions) for s in sources]
    )
    columns = {
        name: np.concatenate([s.data[name].values for s in sources])
        for name in (*EPISODE_VARIABLES, "unsafe_channel_attempts")
    }
    columns |= {"row_index": row, "condition_index": condition}
    order = np.lexsort((columns["episode_index"], columns["seed_group"], condition, row))
    columns = {name: values[order] for name, values in columns.items()}
    entries = [merged_row(shares) for shares in rows.values()]
    data = empty_dataset(
        rows={name: [entry[name] for entry in entries] for name in ROW_VARIABLES},
        conditions=conditions,
        planned={name: columns[name] for name in ("row_index", "condition_index", *PAIRING_KEY)},
        run_ids=[[_run_id(shares, name) for name in conditions] for shares in rows.values()],
        attrs={**sources[0].data.attrs, **_attributes(sources)},
    )
    for name, values in columns.items():
        data[name].values[:] = values
    _add_extras(data, sources, rows, order)
    _add_action_variance(data, rows)
    check_dataset(data)
    return data


def _opened(folder: Path) -> _Source:
    try:
        return _Source(folder, read_run(folder))
    except InvalidInputError as error:
        raise InvalidInputError(f"Expected a run that can be merged at {folder}, got: {error}") from error


def _check_tables(folder: Path) -> None:
    """Refuse flat tables that contradict each other: rows that look alike, or a clone with the run id of its base."""
    try:
        read_tables(folder / EPISODES, folder / ROWS, folder / MANIFEST)
    except InvalidInputError as error:
        raise InvalidInputError(
            f"Expected tables that make one run, but in the merged ones: {error}"
        ) from error


def _check_pair(first: _Source, second: _Source) -> None:
    """Refuse two runs that hold the same, or that were run under premises that differ."""
    both = f"{first.folder} and {second.folder}"
    kinds = [source.data.attrs["records"] for source in (first, second)]
    if kinds[0] != kinds[1]:
        raise InvalidInputError(
            f"Expected runs of one kind, got {kinds[0]} and {kinds[1]} records in {both}; merge each kind by itself."
        )
    others = second.shares()
    for label, share in first.shares().items():
        twice = [name for name in share.conditions if label in others and name in others[label].conditions]
        if twice:
            raise InvalidInputError(
                f"Expected each condition of a row in one run, but {', '.join(twice)} of {share.label} is in both "
                f"{both}; leave one out."
            )
    for premise in _premises(first, second):
        if premise.verdict == DIFFERS and premise.name not in _TOLERATED:
            place = "/".join(filter(None, (premise.suite, premise.task)))
            raise InvalidInputError(
                f"Expected runs under equal premises, but in {both}{' for ' if place else ''}{place} {premise.detail}; "
                "run the same plan for both."
            )


def _premises(first: _Source, second: _Source) -> Iterator[Premise]:
    """Yield what must be equal in two runs of which no condition of a row is in both."""
    plans = [source.provenance.get("plan", {}) for source in (first, second)]
    for name in ("seed_groups", "episodes"):
        values = [plan.get(name) for plan in plans]
        if None not in values and values[0] != values[1]:
            yield Premise("", "", name, DIFFERS, f"{name} differ: {values[0]} and {values[1]}")
    known = [set(source.provenance.get("profiles") or {}) for source in (first, second)]
    planned = [
        str(name)
        for source in (first, second)
        for name in source.data["condition"].values
        if CONDITIONS[str(name)].profile in known[0] & known[1]
    ]
    suites = [{suite for _, suite, _ in source.shares()} for source in (first, second)]
    for suite in sorted(suites[0] & suites[1]) or [""]:
        for premise in setting_premises(suite, "", planned, first.data, second.data):
            if suite or premise.name != STEP_BUDGETS:  # only of suites that both ran
                yield premise
    others = second.shares()
    for label, share in first.shares().items():
        if label in others:
            yield from _row_premises(label, share, others[label])


def _row_premises(label: tuple[str, ...], first: Share, second: Share) -> Iterator[Premise]:
    """Yield what must be equal in two runs that hold other conditions of one row."""
    model, suite, task = label
    specs = [_model_entries(share, model) for share in (first, second)]
    if all(specs) and not set(specs[0]) & set(specs[1]):
        detail = f"the policies called {model} differ: {specs[0]} and {specs[1]}"
        yield Premise(suite, task, "policies", DIFFERS, detail)
    sides = []
    for share in (first, second):
        evaluated = [name for name in share.conditions if CONDITIONS[name].role != "bootstrap"]
        if not evaluated:  # its scenes are its own
            return
        here = planned_episodes(share.data, model)
        here = here[(here["suite"] == suite) & (here["task"] == task) & here["condition"].isin(evaluated)]
        recorded = (here["success"] != NOT_RUN).groupby(here["condition"]).sum()
        # The keys and scenes of a row are those of all its evaluated conditions; the fullest one tells most.
        sides.append(here[here["condition"] == recorded.idxmax()].assign(condition=evaluated[0]))
    sides[1] = sides[1].assign(condition=sides[0]["condition"].iloc[0])
    for premise in row_premises(suite, task, pair_keys(*sides), first.data, second.data):
        if premise.name != "profiles":  # of the whole runs
            yield premise


def _model_entries(share: Share, model: str) -> list[str]:
    """Return the plan's entries of a model, without what does not decide its episodes."""
    return [
        json.dumps({name: value for name, value in entry.items() if name not in ("accept", "tasks")})
        for entry in provenance_of(share.data).get("plan", {}).get("models", ())
        if entry["name"] == model
    ]


def _by_row(sources: Sequence[_Source]) -> dict[tuple[str, ...], list[Share]]:
    """Return what the runs hold of each row, rows in the order of the runs."""
    rows: dict[tuple[str, ...], list[Share]] = {}
    for source in sources:
        for label, share in source.shares().items():
            rows.setdefault(label, []).append(share)
    return rows


def _renumbered(source: _Source, name: str, old: Sequence[Any], new: Sequence[Any]) -> Array:
    numbers = np.array([new.index(label) if label in new else NOT_RUN for label in old])
    return np.asarray(numbers[source.data[name].values])


def _run_id(shares: Sequence[Share], condition: str) -> str:
    for share in shares:
        if condition in share.conditions:
            at = share.data["condition"].values.tolist().index(condition)
            return str(share.data["run_id"].values[share.row, at])
    return ""


def _add_extras(
    data: xr.Dataset,
    sources: Sequence[_Source],
    rows: Mapping[tuple[str, ...], Sequence[Share]],
    order: Array,
) -> None:
    """Add the columns that flat tables have beyond the schema; a run without one has empty text there."""
    held = [extra_variables(source.data, "episode") for source in sources]
    for number, column in enumerate(dict.fromkeys(chain.from_iterable(held))):
        parts = [
            source.data[names[column]].values if column in names else [""] * source.data.sizes["episode"]
            for source, names in zip(sources, held, strict=True)
        ]
        values = np.concatenate([np.asarray(part, dtype=object) for part in parts])
        data[f"episode_extra_{number}"] = ("episode", values[order], {"column": column})
    held = [extra_variables(source.data, "row") for source in sources]
    for number, column in enumerate(dict.fromkeys(chain.from_iterable(held))):
        texts = []
        for shares in rows.values():
            names = (extra_variables(share.data, "row").get(column) for share in shares)
            said = [str(share.value(name)) for share, name in zip(shares, names, strict=True) if name]
            texts.append("; ".join(dict.fromkeys(filter(None, said))))
        data[f"row_extra_{number}"] = ("row", np.array(texts, dtype=object), {"column": column})


def _add_action_variance(data: xr.Dataset, rows: Mapping[tuple[str, ...], Sequence[Share]]) -> None:
    """Add the variance of the clean run's actions, from the run that holds the clean run."""
    name, found = "clean_action_variance", {}
    for row, shares in enumerate(rows.values()):
        for share in shares:
            if name in share.data and "baseline" in share.conditions:
                found[row] = share.data[name][share.row]
    if found:
        values = np.full((len(rows), max(variance.size for variance in found.values())), np.nan)
        for row, variance in found.items():
            values[row, : variance.size] = variance.values
        data[name] = (("row", "action_entry"), values, next(iter(found.values())).attrs)


def _attributes(sources: Sequence[_Source]) -> dict[str, str]:
    """Return title and provenance of a merged run: readable as those of one run, with those of all inside."""
    members: list[Mapping[str, JSON]] = []
    for source in sources:
        provenance = source.provenance
        name = provenance.get("plan", {}).get("name", source.folder.resolve().name)
        members += provenance.get("merged") or [{"name": name, **provenance}]
    merged: dict[str, JSON] = {"merged": members}
    plans = [member["plan"] for member in members if "plan" in member]
    if len(plans) == len(members):
        merged["plan"] = _merged_plan(plans, sources)
        merged["plan_digest"] = seeding.digest(*(str(member["plan_digest"]) for member in members)).hex()
        merged["fingerprints"] = {k: v for member in members for k, v in member["fingerprints"].items()}
        merged["versions"] = _texts([member["versions"] for member in members])
        if all("profiles" in member for member in members):
            merged["profiles"] = {k: v for member in members for k, v in member["profiles"].items()}
    if published := [note for source in sources for note in source.provenance.get("published", ())]:
        merged["published"] = published
    names = {"title": f"ROEP evaluation {merged['plan']['name']!r}"} if "plan" in merged else {}
    return {**names, "provenance": json.dumps(merged, sort_keys=True)}


def _merged_plan(plans: Sequence[Mapping[str, JSON]], sources: Sequence[_Source]) -> dict[str, JSON]:
    """Return the plans as one; a field that differs and cannot be joined says so."""
    merged: dict[str, JSON] = {
        name: value if all(plan.get(name) == value for plan in plans) else
        f"varied: {[plan.get(name) for plan in plans]}"
        for name, value in plans[0].items()
    }  # fmt: skip
    for name in ("models", "tasks", "conditions"):
        joined = [entry for plan in plans for entry in plan[name]]
        merged[name] = [entry for k, entry in enumerate(joined) if entry not in joined[:k]]
    merged["name"] = " + ".join(dict.fromkeys(str(plan["name"]) for plan in plans))
    merged["step_budget"] = plans[0]["step_budget"]
    merged["suite_step_budgets"] = {}
    for source in sources:
        plan = source.provenance["plan"]
        own = {suite: plan["step_budget"] for _, suite, _ in source.shares()}
        own = {suite: budget for suite, budget in own.items() if budget != merged["step_budget"]}
        merged["suite_step_budgets"] |= {**own, **plan["suite_step_budgets"]}
    return merged


def _texts(versions: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return the versions of all runs by name, several where they differ."""
    names = dict.fromkeys(name for held in versions for name in held)
    return {name: ", ".join(dict.fromkeys(held[name] for held in versions if name in held)) for name in names}


def _take_steps_and_frames(share: Share, target: RunDirectory, row: int) -> None:
    """Take the step and frame files of a row under its new number."""
    source = RunDirectory(share.folder)
    for condition in share.conditions:
        name = f"{share.row:04d}-{condition}"
        steps = source.steps / f"{name}.nc"
        if steps.exists() and row == share.row:
            _take(steps, target.steps / steps.name)
        elif steps.exists():
            # Its title holds the row's number.
            renamed = load_dataset(steps).assign_attrs(title=f"steps of row {row}, condition {condition}")
            save_dataset(renamed, target.steps / f"{row:04d}-{condition}.nc")
        for frames in sorted(source.frames.glob(f"{name}-*.npz")):
            _take(frames, target.frames / f"{row:04d}{frames.name[4:]}")


def _take_shield(share: Share, target: RunDirectory, row: int) -> None:
    source = RunDirectory(share.folder)
    digest = str(share.data["shield_digest"].values[share.row])
    for old, new in ((f"{share.row}.json", f"{row}.json"), (f"{digest}.npz", f"{digest}.npz")):
        if (source.shields / old).exists() and not (target.shields / new).exists():
            _take(source.shields / old, target.shields / new)


def _take(source: Path, target: Path) -> None:
    """Link a file, or copy it where the file system of the target is another one."""
    target.parent.mkdir(exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
