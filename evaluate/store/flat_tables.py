"""Flat tables: the interchange format of outcomes (`episodes.csv`, `rows.csv`, optional `manifest.csv`).

`read_tables` makes a Dataset of the files, `tables_of_lines` of the same lines in memory, `write_tables` the files of a
Dataset. What contradicts itself is refused with file and line (`roep_gym.evaluate.store.csv_columns`); columns that the
format does not name are kept as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from roep_gym import escape
from roep_gym.atomic_file import replacing
from roep_gym.error import InvalidInputError
from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.schema import (
    CONDITIONS,
    EPISODE_VARIABLES,
    NOT_RUN,
    REASONS,
    ROW_VARIABLES,
    UNSAFE_CHANNELS,
    empty_dataset,
)
from roep_gym.evaluate.store.csv_columns import CsvColumn, CsvTable, Line, check_lines, read_csv
from roep_gym.evaluate.store.given_files import absent_names, appearance, beside, file_labels
from roep_gym.typing import Array

__all__ = ["EPISODES", "MANIFEST", "ROWS", "read_tables", "tables_of_lines", "write_tables"]

EPISODES, ROWS, MANIFEST = "episodes.csv", "rows.csv", "manifest.csv"

_ROW_KEY = ["model", "suite", "task"]
_SLOT = ["row_index", "condition_index", "seed_group", "episode"]
_KEY = [*_SLOT, "init_state", "env_seed"]
_NAMES = list(CONDITIONS)
_ABORTED = "aborted"


def _integer(dtype: str, *, low: int = 0, optional: bool = False, identity: bool = False) -> CsvColumn:
    """Return the column of an integer variable, within what its type holds."""
    high, wide = np.iinfo(dtype).max, dtype == "int64"
    return CsvColumn("integer", low=low, high=high, optional=optional, wide=wide, identity=identity or wide)


_IDENTITY = {
    **{name: CsvColumn("name", identity=True) for name in _ROW_KEY},
    "condition": CsvColumn("name", known=tuple(CONDITIONS)),
    "run_id": CsvColumn("name", identity=True),
    **{name: _integer("int32", identity=True) for name in ("seed_group", "episode")},
    "init_state": _integer("int32", optional=True, identity=True),
    "env_seed": _integer("int64", optional=True),
}
_EPISODE_COLUMNS = {
    **_IDENTITY,
    "success": CsvColumn("integer", low=0, high=1, optional=True),
    "reason": CsvColumn("name", known=(*REASONS, _ABORTED)),
    "steps": _integer("int32", optional=True),
    "max_abs_action": CsvColumn("number", low=0),
    "intervention_steps": _integer("int32", optional=True),
    "unsafe_attempts": _integer("int32", optional=True),
    "refusals": _integer("int32", optional=True),
}
_FURTHER_EPISODE_COLUMNS = {
    name: CsvColumn("number")
    if spec.dtype == "float64"
    else _integer(spec.dtype, low=spec.fill, optional=spec.fill == NOT_RUN)
    for name, spec in EPISODE_VARIABLES.items()
    if name not in {*_EPISODE_COLUMNS, "row_index", "condition_index", "episode_index"}
} | {f"unsafe_{name}": _integer("int32", low=NOT_RUN, optional=True) for name in UNSAFE_CHANNELS}
"""Columns that a native run adds to `episodes.csv`; another tool may leave any of them out."""

_ROW_COLUMNS = {
    **{name: _IDENTITY[name] for name in _ROW_KEY},
    "shield_status": CsvColumn("name", known=("trained", "failed", "none")),
    "shield_tau": CsvColumn("number", low=0, high=1),
    "risk_positive_episodes": _integer("int32", optional=True),
    "risk_label_source": CsvColumn("text", known=("", "unsafe_attempt", "timeout_tail")),
    "shield_reason": CsvColumn("text"),
    "contract_status": CsvColumn("name", known=("match", "mismatch", "unknown")),
    "contract_note": CsvColumn("text"),
}
_FURTHER_ROW_COLUMNS = {
    name: _integer(spec.dtype) if spec.dtype == "int32" else CsvColumn("text")
    for name, spec in ROW_VARIABLES.items()
    if name not in _ROW_COLUMNS
}
_MANIFEST_COLUMNS = {name: column for name, column in _IDENTITY.items() if name != "run_id"}


def read_tables(
    episodes: Path, rows: Path, manifest: Path | None = None, *, config: GateConfig | None = None
) -> xr.Dataset:
    """Read flat tables into a Dataset of `roep_gym.evaluate.schema` with `attrs["records"] = "flat"`.

    Without a manifest the plan is the configured budget: every seed group and episode of the four unshielded main
    conditions, of `recovery` and `full` where a shield was trained, and of every further condition with a line
    (bootstrap conditions, whose size is free, as they stand). A line with the reason `aborted` counts as not run.
    What was not recorded stays empty: without `init_state` or `env_seed` an episode has no partner in any other
    condition, and without `steps` the logs are not complete.

    Columns that the format does not name are variables `episode_extra_0`, ... and `row_extra_0`, ... of text, with the
    name of their column in the attribute `column`.

    Raises:
        InvalidInputError: A file cannot be read, lacks a column, or holds a line that contradicts itself, the
            other files or the plan; the message names file and line.
    """
    names = file_labels([episodes, rows, *([manifest] if manifest else [])])
    row_table = read_csv(rows, _ROW_COLUMNS, _FURTHER_ROW_COLUMNS, name=names[1])
    table = read_csv(episodes, _EPISODE_COLUMNS, _FURTHER_EPISODE_COLUMNS, name=names[0])
    plan = None
    if manifest is not None:
        plan = read_csv(manifest, _MANIFEST_COLUMNS, {"run_id": CsvColumn("text")}, name=names[2])
    return _validated(table, row_table, plan, config or GateConfig())


def tables_of_lines(
    episodes: Sequence[Line], rows: Sequence[Line], source: str, *, config: GateConfig
) -> xr.Dataset:
    """Make a Dataset of the lines of `episodes.csv` and `rows.csv` in memory, as `read_tables` does of files.

    `source` names what the lines come from, for messages that concern no single line.
    """
    row_table = check_lines(source, rows, _ROW_COLUMNS, _FURTHER_ROW_COLUMNS)
    table = check_lines(source, episodes, _EPISODE_COLUMNS, _FURTHER_EPISODE_COLUMNS)
    return _validated(table, row_table, None, config)


def _validated(table: CsvTable, row_table: CsvTable, plan: CsvTable | None, config: GateConfig) -> xr.Dataset:
    """Return the Dataset of tables whose columns were checked, after validating their lines against each other."""
    if row_table.frame.empty:
        raise InvalidInputError(
            f"{row_table.name}: Expected one line per row, but the file has none; add the rows."
        )
    row_table.refuse(
        row_table.frame.duplicated(_ROW_KEY), "the row {model}, {suite}, {task} appears twice; keep one line"
    )
    _refuse_look_alikes(row_table)
    _locate(table, row_table)
    _refuse_contradictions(table)
    run_ids = _run_ids(table, len(row_table.frame))
    if plan is None:
        planned = _budget(table, row_table, config)
    else:
        planned = _manifest_keys(table, row_table, plan)
        if "run_id" in plan.frame:
            run_ids = _run_ids(plan, len(row_table.frame))
            frame = table.frame
            table.refuse(
                frame["run_id"].astype(object).to_numpy()
                != run_ids[frame["row_index"], frame["condition_index"]],
                f"the run id {{run_id!r}} of {{condition!r}} is not the one that {plan.name} plans",
            )
    return _assemble(table, row_table, planned.sort_values(_SLOT, ignore_index=True), run_ids)


def _refuse_look_alikes(row_table: CsvTable) -> None:
    """Refuse two rows whose names differ only invisibly, by a blank or a Unicode form."""
    seen: dict[tuple[str, ...], tuple[str, ...]] = {}
    for at, row in enumerate(row_table.frame[_ROW_KEY].astype(object).itertuples(index=False, name=None)):
        other = seen.setdefault(tuple(map(appearance, row)), row)
        if other != row:
            mine, others = beside(row, other)
            raise InvalidInputError(
                f"{row_table.place(at)}: Expected rows that differ visibly, got {mine} beside {others}; correct one of "
                "the two."
            )


def _locate(table: CsvTable, row_table: CsvTable) -> None:
    """Add `row_index` and `condition_index` (into `CONDITIONS`) to a table."""
    frame = table.frame
    known = pd.MultiIndex.from_frame(row_table.frame[_ROW_KEY].astype(object))
    # Many lines, few rows: look up each combination once.
    group = frame.groupby(_ROW_KEY, observed=True, sort=False).ngroup().to_numpy()
    first = np.unique(group, return_index=True)[1]
    frame["row_index"] = known.get_indexer(
        pd.MultiIndex.from_frame(frame[_ROW_KEY].iloc[first].astype(object))
    )[group]
    absent = frame["row_index"].to_numpy() < 0
    if absent.any():
        at = int(absent.argmax())
        row = tuple(frame[_ROW_KEY].iloc[at])
        raise InvalidInputError(f"{table.place(at)}: the row {absent_names(row, known, row_table.name)}.")
    frame["condition_index"] = _codes(frame["condition"], _NAMES)
    table.refuse(
        frame.duplicated(_SLOT),
        "seed group {seed_group}, episode {episode} of {condition!r} appears twice; keep one outcome (the optional "
        "column aborts counts attempts that were aborted before it)",
    )


def _refuse_contradictions(table: CsvTable) -> None:
    """Refuse lines whose values cannot all be true."""
    frame = table.frame
    reason = frame["reason"].astype(object)
    aborted = (reason == _ABORTED).to_numpy()
    success, steps = frame["success"].to_numpy(), frame["steps"].to_numpy()
    table.refuse(
        ~aborted & (success == NOT_RUN), "success is empty; fill it in, or give the reason 'aborted'"
    )
    table.refuse(
        (success == 1) != (reason == "success").to_numpy(),
        "success {success} contradicts the reason {reason!r}; correct one of the two",
    )
    table.refuse(
        ~aborted & (steps == 0) & (reason != "invalid_execution").to_numpy(),
        "steps 0 is impossible for the reason {reason!r}; expected at least 1",
    )
    for name in ("intervention_steps", "unsafe_attempts"):
        table.refuse(
            ~aborted & (steps != NOT_RUN) & (frame[name].to_numpy() > steps),
            f"{name} {{{name}}} exceeds steps {{steps}}; expected at most that",
        )
    interventions, refusals = frame["intervention_steps"].to_numpy(), frame["refusals"].to_numpy()
    table.refuse(
        (interventions != NOT_RUN) & (refusals > interventions),
        "refusals {refusals} exceeds intervention_steps {intervention_steps}, which includes them",
    )
    shielded = np.array([CONDITIONS[name].shielded for name in _NAMES])[frame["condition_index"].to_numpy()]
    table.refuse(
        ~shielded & ((interventions > 0) | (refusals > 0) | (reason == "safe_refusal").to_numpy()),
        "a shield action in {condition!r}, which runs without a shield; correct the line",
    )


def _run_ids(table: CsvTable, rows: int) -> Array:
    """Return the run id of each (row, condition); empty where nothing was recorded."""
    frame = table.frame
    codes, names = pd.factorize(frame["run_id"])
    cell = frame["row_index"].to_numpy() * len(_NAMES) + frame["condition_index"].to_numpy()
    cells, first = np.unique(cell, return_index=True)
    code_of = np.full(rows * len(_NAMES), -1)
    code_of[cells] = codes[first]
    table.refuse(
        codes != code_of[cell],
        "a second run id {run_id!r} in {condition!r}; one execution of a condition has one run id",
    )
    labels = np.append(np.asarray(names, dtype=object), "")
    by_row = np.asarray(labels[code_of.reshape(rows, -1)], dtype=object)
    for clone, base in ((c.name, c.clone_of) for c in CONDITIONS.values() if c.clone_of):
        mine, other = _NAMES.index(clone), _NAMES.index(base)
        # A planned condition that never ran has no run id yet.
        copied = (by_row[:, mine] != "") & (by_row[:, mine] == by_row[:, other])
        table.refuse(
            copied[frame["row_index"]] & (frame["condition_index"].to_numpy() == mine),
            f"the run id {{run_id!r}} of {clone!r} is that of {base!r}; a clone is a run of its own",
        )
    return by_row


def _manifest_keys(table: CsvTable, row_table: CsvTable, plan: CsvTable) -> pd.DataFrame:
    """Return the keys of a manifest, which must name every recorded episode."""
    _locate(plan, row_table)
    planned = plan.frame[_KEY]
    wanted = pd.MultiIndex.from_frame(planned)
    table.refuse(
        ~np.asarray(pd.MultiIndex.from_frame(table.frame[_KEY]).isin(wanted)),
        f"seed group {{seed_group}}, episode {{episode}} (init_state {{init_state}}, env_seed {{env_seed}}) of "
        f"{{condition!r}} is not planned in {plan.name}",
    )
    return planned


def _budget(table: CsvTable, row_table: CsvTable, config: GateConfig) -> pd.DataFrame:
    """Return the configured budget as planned keys, with the initial states and seeds that the lines name."""
    frame, rows = table.frame, len(row_table.frame)
    free = np.array([CONDITIONS[name].role == "bootstrap" for name in _NAMES])
    is_free = free[frame["condition_index"].to_numpy()]
    beyond = (frame["seed_group"] >= config.seed_groups) | (frame["episode"] >= config.episodes_per_group)
    table.refuse(
        ~is_free & beyond.to_numpy(),
        f"seed group {{seed_group}}, episode {{episode}} lies outside the plan of {config.seed_groups} seed groups x "
        f"{config.episodes_per_group} episodes, both counted from 0; name the plan in {MANIFEST}, "
        "or state the budget with --seed-groups and --episodes-per-group",
    )
    used = np.zeros((rows, len(_NAMES)), dtype=bool)
    used[frame["row_index"], frame["condition_index"]] = True
    trained = (row_table.frame["shield_status"].astype(object) == "trained").to_numpy()
    for k, condition in enumerate(CONDITIONS.values()):
        if condition.role == "main":
            used[:, k] |= trained if condition.shielded else True
    row, code = np.nonzero(used & ~free)
    numbers = np.arange(config.seed_groups * config.episodes_per_group)
    groups, episodes = np.divmod(numbers, config.episodes_per_group)
    budget = pd.DataFrame(
        {
            "row_index": np.repeat(row, groups.size),
            "condition_index": np.repeat(code, groups.size),
            "seed_group": np.tile(groups, row.size),
            "episode": np.tile(episodes, row.size),
        }
    )
    recorded = pd.MultiIndex.from_frame(frame[_SLOT])
    budget = budget[~np.asarray(pd.MultiIndex.from_frame(budget).isin(recorded))]
    # An absent episode has the key that its row's other conditions give it.
    episode_of_row = ["row_index", "seed_group", "episode"]
    known = frame.drop_duplicates(episode_of_row)[[*episode_of_row, "init_state", "env_seed"]]
    absent = budget.merge(known, on=episode_of_row, how="left").fillna(NOT_RUN).astype(np.int64)
    return pd.concat([frame[_KEY], absent[_KEY]], ignore_index=True)


def _assemble(table: CsvTable, row_table: CsvTable, planned: pd.DataFrame, run_ids: Array) -> xr.Dataset:
    """Return the Dataset of checked tables."""
    used = np.unique(planned["condition_index"])
    conditions = [_NAMES[code] for code in used]
    columns = {name: planned[name].to_numpy() for name in _KEY}
    columns["condition_index"] = np.searchsorted(used, columns["condition_index"])
    columns["episode_index"] = columns.pop("episode")
    rows = {name: row_table.frame[name].tolist() for name in row_table.frame if name in ROW_VARIABLES}
    for name in _FURTHER_ROW_COLUMNS:
        if name in rows:
            rows[name] = [ROW_VARIABLES[name].fill if value == "" else value for value in rows[name]]
    contracts = zip(rows["contract_status"], rows["contract_note"], strict=True)
    unresolved = [int(status != "match" and not note.strip()) for status, note in contracts]
    rows.setdefault("contract_unresolved", unresolved)
    data = empty_dataset(
        rows=rows,
        conditions=conditions,
        planned=columns,
        run_ids=run_ids[:, used].tolist(),
        attrs={"records": "flat"},
    )
    at = pd.MultiIndex.from_frame(planned[_SLOT]).get_indexer(pd.MultiIndex.from_frame(table.frame[_SLOT]))
    aborted = (table.frame["reason"].astype(object) == _ABORTED).to_numpy()
    ended, lines = at[~aborted], table.frame[~aborted]
    for name in EPISODE_VARIABLES:
        if name in lines and name not in _KEY and name != "reason":
            data[name].values[ended] = lines[name]
    data["reason"].values[ended] = _codes(lines["reason"], list(REASONS))
    for k, name in enumerate(UNSAFE_CHANNELS):
        if f"unsafe_{name}" in lines:
            data["unsafe_channel_attempts"].values[ended, k] = lines[f"unsafe_{name}"]
    attempts = table.frame["aborts"].to_numpy()[aborted] if "aborts" in table.frame else 0
    data["aborts"].values[at[aborted]] = np.maximum(attempts, 1)
    for k, name in enumerate(table.extra):
        values = np.full(len(planned), "", dtype=object)
        values[at] = table.frame[name].to_numpy()
        data[f"episode_extra_{k}"] = ("episode", values, {"column": name})
    for k, name in enumerate(row_table.extra):
        data[f"row_extra_{k}"] = ("row", row_table.frame[name].to_numpy(dtype=object), {"column": name})
    return data


def write_tables(data: xr.Dataset, directory: Path) -> None:
    """Write `episodes.csv`, `rows.csv` and `manifest.csv` of a Dataset; reading them gives it back.

    Episodes that did not run have no line in `episodes.csv`, aborted ones a line with the reason `aborted`. Variables
    beyond the named columns are written where they hold a value.
    """
    labels = np.asarray(data["condition"].values, dtype=object)
    condition = data["condition_index"].values
    row = data["row_index"].values
    identity: dict[str, Any] = {name: _category(row, data[name].values) for name in _ROW_KEY}
    identity["condition"] = _category(condition, labels)
    cell = row.astype(np.int64) * labels.size + condition
    identity["run_id"] = _category(cell, data["run_id"].values.ravel())
    for name in ("seed_group", "episode", "init_state", "env_seed"):
        identity[name] = data["episode_index" if name == "episode" else name].values
    episodes = pd.DataFrame(identity)
    for name in ("init_state", "env_seed"):
        episodes[name] = _blank_where_not_recorded(episodes[name])
    manifest = episodes.copy()
    for name in _EPISODE_COLUMNS:
        if name not in _IDENTITY:
            episodes[name] = data[name].values
    aborted = (data["success"].values == NOT_RUN) & (data["aborts"].values > 0)
    code = np.where(aborted, len(REASONS), data["reason"].values)
    episodes["reason"] = pd.Categorical.from_codes(code, [*REASONS, _ABORTED])
    for name in _FURTHER_EPISODE_COLUMNS:
        values = _variable(data, name)
        fill = EPISODE_VARIABLES[name].fill if name in EPISODE_VARIABLES else NOT_RUN
        if not (np.isnan(values) if fill != fill else values == fill).all():
            episodes[name] = _blank_where_not_recorded(pd.Series(values)) if fill == NOT_RUN else values
    for name, values in _extra(data, "episode_extra_").items():
        episodes[name] = values
    present = (data["success"].values != NOT_RUN) | aborted
    episodes = episodes[present]
    for name, column in _EPISODE_COLUMNS.items():
        if column.optional and name not in _IDENTITY:
            episodes[name] = _blank_where_not_recorded(episodes[name])

    rows = pd.DataFrame({name: data[name].values for name in _ROW_COLUMNS})
    rows["risk_positive_episodes"] = _blank_where_not_recorded(rows["risk_positive_episodes"])
    for name in _FURTHER_ROW_COLUMNS:
        if (data[name].values != ROW_VARIABLES[name].fill).any():
            rows[name] = data[name].values
    for name, values in _extra(data, "row_extra_").items():
        rows[name] = values
    for file, frame in ((EPISODES, episodes), (ROWS, rows), (MANIFEST, manifest)):
        with replacing(directory / file) as temporary:
            _escaped(frame).to_csv(temporary, index=False, lineterminator="\n")


def _escaped(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose texts no spreadsheet takes for formulas; `read_csv` reads them as they were."""
    texts = {}
    for name, values in frame.items():
        if isinstance(values.dtype, pd.CategoricalDtype):
            texts[name] = values.cat.rename_categories(escape.csv)
        elif values.dtype == object or isinstance(values.dtype, pd.StringDtype):
            texts[name] = values.map(escape.csv)
    return frame.assign(**texts).rename(columns=escape.csv)


def _blank_where_not_recorded(values: pd.Series) -> pd.Series:
    """Return integers in which `NOT_RUN` becomes an empty cell."""
    return values.astype("Int64").mask(values == NOT_RUN)


def _variable(data: xr.Dataset, column: str) -> Array:
    """Return the episode variable behind a further column."""
    channel = column.removeprefix("unsafe_")
    if channel in UNSAFE_CHANNELS:
        return np.asarray(data["unsafe_channel_attempts"].sel(unsafe_channel=channel).values)
    return np.asarray(data[column].values)


def _extra(data: xr.Dataset, prefix: str) -> Mapping[str, Array]:
    """Return the extra columns of a Dataset by their name in the file."""
    return {
        data[name].attrs["column"]: data[name].values
        for name in data.variables
        if str(name).startswith(prefix)
    }


def _category(codes: Array, labels: Array) -> pd.Categorical:
    """Return labels[codes] as a categorical, also where labels repeat."""
    names, inverse = np.unique(np.asarray(labels, dtype=object), return_inverse=True)
    return pd.Categorical.from_codes(inverse[codes], list(names))


def _codes(values: pd.Series, names: list[str]) -> Array:
    """Return the position in `names` of each value of a categorical column."""
    of_category = np.array(
        [names.index(c) if c in names else -1 for c in values.cat.categories], dtype=np.int64
    )
    return np.asarray(of_category[values.cat.codes.to_numpy()])
