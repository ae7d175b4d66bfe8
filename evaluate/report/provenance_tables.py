"""The tables of what the claims rest on: runtime contracts (A2) and shields (A5).

Each function makes one table of a run; `roep_gym.evaluate.report.tables.TABLES` lists them all.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from roep_gym.evaluate.report.cells import ROW_COLUMNS, Field, row_cells, row_table, words
from roep_gym.evaluate.report.records import Run
from roep_gym.evaluate.report.table import Cell, Column, Table, count, missing, number, text
from roep_gym.typing import JSON

__all__ = ["contract_fields", "provenance", "shield_bootstrap"]

_NO_CONTRACT = "the records hold no runtime contract (flat tables name its status only)"
_SHOWN_FIELDS: Mapping[str, str] = {
    "checkpoint_source": "Checkpoint",
    "checkpoint_revision": "Revision",
    "runtime_bridge": "Runtime bridge",
    "cameras": "Cameras",
    "control_mode": "Control mode",
    "executed_steps": "Executed steps of a chunk",
    "precision": "Precision",
    "mujoco": "MuJoCo",
    "robosuite": "robosuite",
}

_GROUPS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "image_preprocessing": (
        "Image preprocessing",
        {
            "resolution": "resolution",
            "rotation": "rotation",
            "crop": "crop",
            "resize": "resize",
            "encoding": "encoding",
        },
    ),
    "action_convention": (
        "Action convention",
        {
            "action_scale": "scale",
            "action_clip": "clip",
            "unnorm_key": "un-normalisation key",
            "gripper_sign": "gripper sign",
            "eef_orientation": "orientation",
        },
    ),
}
"""Fields that people read in one cell and programs in columns of their own."""


def _contract(run: Run, row: int) -> list[dict[str, Any]]:
    fields: list[dict[str, Any]] = json.loads(str(run.data["contract"].values[row]))
    return fields


def provenance(run: Run) -> Table:
    """Table A2: what each row ran with and how far that is what its policy was built for."""

    def verdicts(name: str) -> Callable[[int], Cell]:
        def counted(row: int) -> Cell:
            fields = _contract(run, row)
            return count(sum(f["verdict"] == name for f in fields)) if fields else missing(_NO_CONTRACT)

        return counted

    def ran_with(name: str) -> Callable[[int], Cell]:
        return lambda row: _ran_with(next((f for f in _contract(run, row) if f["name"] == name), None))

    def group(members: Mapping[str, str]) -> Callable[[int], Cell]:
        def summed_up(row: int) -> Cell:
            if not _contract(run, row):
                return missing(_NO_CONTRACT)
            cells = {word: ran_with(name)(row) for name, word in members.items()}
            return text("; ".join(f"{word} {cell.text}" for word, cell in cells.items()))

        return summed_up

    fields = (
        Field(
            Column("contract_status", "Contract", "left"),
            lambda row: text(run.data["contract_status"].values[row]),
        ),
        *(
            Field(Column(name, f"Fields: {name}"), verdicts(name))
            for name in ("match", "mismatch", "unknown")
        ),
        Field(
            Column("unresolved", "Unresolved"),
            lambda row: count(int(run.data["contract_unresolved"].values[row])),
        ),
        Field(
            Column("accepted", "Accepted because", "left"),
            lambda row: text(str(run.data["contract_note"].values[row]).strip()),
        ),
        *(Field(Column(name, heading, "left"), ran_with(name)) for name, heading in _SHOWN_FIELDS.items()),
        *(
            Field(Column(name, heading, "left", reader="people"), group(members))
            for name, (heading, members) in _GROUPS.items()
        ),
        *(
            Field(Column(name, "", reader="programs"), ran_with(name))
            for _, members in _GROUPS.values()
            for name in members
        ),
    )
    notes = (
        "What ran is shown, or, marked (declared), what the policy declares where nothing was observed.",
        "A mismatch or an unknown that nobody has resolved with a written reason closes C_fid.",
    )
    return row_table(run, "A2", "Provenance and fidelity", fields, notes)


def _ran_with(line: Mapping[str, JSON] | None) -> Cell:
    if line is None:
        return missing(_NO_CONTRACT)
    if line["observed"] is not None:
        return text(_plain(line["observed"]))
    if line["declared"] is None:
        return missing("neither declared nor observed")
    return text(f"{_plain(line['declared'])} (declared)")


def _plain(value: JSON) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def contract_fields(run: Run) -> Table:
    """Every field of every row's runtime contract: declared, observed, verdict and written resolution."""
    columns = words(
        field="Field",
        declared="Declared",
        observed="Observed",
        verdict="Verdict",
        resolution="Accepted because",
    )
    rows: list[tuple[Cell, ...]] = []
    for row in range(run.rows):
        fields = _contract(run, row)
        if not fields:
            rows.append((*row_cells(run, row), *[missing(_NO_CONTRACT)] * len(columns)))
        for line in fields:
            sides = [
                missing(f"not {side}") if line[side] is None else text(_plain(line[side]))
                for side in ("declared", "observed")
            ]
            verdict = map(text, (line["verdict"], line["resolution"]))
            rows.append((*row_cells(run, row), text(line["name"]), *sides, *verdict))
    notes = ('A declared "any" or "n/a" matches everything.',)
    title = "Runtime contract, field by field"
    return Table("contract", title, (*ROW_COLUMNS, *columns), tuple(rows), notes)


def shield_bootstrap(run: Run) -> Table:
    """Table A5: the bootstrap behind each row's shield, and what the shield did."""
    data, applied = run.data, run.judgement.interventions.sel(condition="full")

    def of_row(name: str) -> Callable[[int], Cell]:
        return lambda row: text(data[name].values[row])

    def episodes(reason: str) -> Callable[[int], Cell]:
        return lambda row: _bootstrap_episodes(run, row, reason)

    def samples(part: str) -> Callable[[int], Cell]:
        return lambda row: _samples(
            json.loads(str(data["shield_metadata"].values[row])), part, run.no_shield(row)
        )

    def activity(name: str) -> Callable[[int], Cell]:
        why = "some episode of 'full' lacks its intervention count"
        return lambda row: number(float(applied[name].values[row]), ".2f", run.absent(row, "full") or why)

    def limitation(row: int) -> Cell:
        return text(
            data["shield_reason"].values[row] or run.judgement.verdicts["limiting_factor"].values[row]
        )

    fields = (
        Field(Column("bootstrap_status", "Shield", "left"), of_row("shield_status")),
        Field(Column("episodes_success", "Bootstrap successes"), episodes("success")),
        Field(Column("episodes_timeout", "Bootstrap timeouts"), episodes("timeout")),
        Field(Column("episodes_unsafe", "Bootstrap unsafe ends"), episodes("unsafe_attempt")),
        Field(Column("train_samples", "Training steps"), samples("train")),
        Field(Column("val_samples", "Validation steps"), samples("validation")),
        Field(Column("calib_samples", "Safe calibration steps"), samples("calibration")),
        Field(
            Column("tau", "tau"),
            lambda row: number(float(data["shield_tau"].values[row]), ".3g", run.no_shield(row)),
        ),
        Field(
            Column("risk_positive_episodes", "Risk episodes"),
            lambda row: count(int(data["risk_positive_episodes"].values[row])),
        ),
        Field(Column("risk_label_source", "Risk labels from", "left"), of_row("risk_label_source")),
        Field(
            Column("full_mean_intervention_steps", "Mean intervention steps, full"),
            activity("mean_recovery_action_applied_steps"),
            True,
        ),
        Field(Column("full_intervention_rate", "Intervention rate, full"), activity("recovery_rate"), True),
        Field(Column("main_limitation", "Main limitation", "left"), limitation),
    )
    notes = ("Interventions are activity of the shield; they say nothing about its benefit.",)
    return row_table(run, "A5", "Shield bootstrap and activity", fields, notes)


def _bootstrap_episodes(run: Run, row: int, reason: str) -> Cell:
    conditions = ("bootstrap_clean", "bootstrap_perturb")
    absent = [run.absent(row, condition) for condition in conditions]
    if all(absent):
        return missing("; ".join(absent))
    ended = [run.outcomes(row, condition)["reason"] for condition in conditions]
    return count(sum(int((reasons == reason).sum()) for reasons in ended))


def _samples(metadata: Mapping[str, JSON], part: str, no_shield: str) -> Cell:
    """Return the number of steps of a part; calibration uses its safe steps alone."""
    if "counts" not in metadata:
        return missing("the records hold no training metadata" if not metadata else no_shield)
    steps = metadata["counts"][part]
    names = ("safe_steps",) if part == "calibration" else ("safe_steps", "risk_steps", "weak_safe_steps")
    return count(sum(int(steps[name]) for name in names))
