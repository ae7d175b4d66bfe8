"""The tables of what the claims rest on: runtime contracts (A2) and shields (A5)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from roep_gym.evaluate.report.cells import ROW_COLUMNS, row_cells, row_table, texts, words
from roep_gym.evaluate.report.records import Run
from roep_gym.evaluate.report.table import Cell, Field, Table, count, missing, number, text
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
_IMAGE_PREPROCESSING: Mapping[str, str] = {
    name: name for name in ("resolution", "rotation", "crop", "resize", "encoding")
}
_ACTION_CONVENTION: Mapping[str, str] = {
    "action_scale": "scale",
    "action_clip": "clip",
    "unnorm_key": "un-normalisation key",
    "gripper_sign": "gripper sign",
    "eef_orientation": "orientation",
}
"""Fields, with the words for them, that people read in one cell and programs in columns of their own."""


def _contract(run: Run, row: int) -> list[dict[str, Any]]:
    fields: list[dict[str, Any]] = json.loads(str(run.data["contract"].values[row]))
    return fields


def provenance(run: Run) -> Table:
    """Table A2: what each row ran with and how far that is what its policy was built for."""

    def verdicts(name: str, row: int) -> Cell:
        fields = _contract(run, row)
        return count(sum(f["verdict"] == name for f in fields)) if fields else missing(_NO_CONTRACT)

    def ran_with(name: str, row: int) -> Cell:
        line = next((f for f in _contract(run, row) if f["name"] == name), None)
        if line is None:
            return missing(_NO_CONTRACT)
        if line["observed"] is not None:
            return text(_plain(line["observed"]))
        if line["declared"] is None:
            return missing("neither declared nor observed")
        return text(f"{_plain(line['declared'])} (declared)")

    def group(members: Mapping[str, str], row: int) -> Cell:
        if not _contract(run, row):
            return missing(_NO_CONTRACT)
        return text("; ".join(f"{word} {ran_with(name, row).text}" for name, word in members.items()))

    def accepted(row: int) -> Cell:
        return text(str(run.data["contract_note"].values[row]).strip())

    def for_people(name: str, heading: str, members: Mapping[str, str]) -> Field:
        return Field(name, heading, "left", reader="people", cell=partial(group, members))

    unresolved = run.data["contract_unresolved"].values
    fields = (
        *texts(run.data, contract_status="Contract"),
        *(
            Field(name, f"Fields: {name}", cell=partial(verdicts, name))
            for name in ("match", "mismatch", "unknown")
        ),
        Field("unresolved", "Unresolved", cell=lambda row: count(int(unresolved[row]))),
        Field("accepted", "Accepted because", "left", cell=accepted),
        *(
            Field(name, heading, "left", cell=partial(ran_with, name))
            for name, heading in _SHOWN_FIELDS.items()
        ),
        for_people("image_preprocessing", "Image preprocessing", _IMAGE_PREPROCESSING),
        for_people("action_convention", "Action convention", _ACTION_CONVENTION),
        *(
            Field(name, "", reader="programs", cell=partial(ran_with, name))
            for name in (*_IMAGE_PREPROCESSING, *_ACTION_CONVENTION)
        ),
    )
    notes = (
        "What ran is shown, or, marked (declared), what the policy declares where nothing was observed.",
        "A mismatch or an unknown that nobody has resolved with a written reason closes C_fid.",
    )
    return row_table(run, "A2", "Provenance and fidelity", fields, notes)


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
            sides = (
                missing(f"not {side}") if line[side] is None else text(_plain(line[side]))
                for side in ("declared", "observed")
            )
            verdict = map(text, (line["verdict"], line["resolution"]))
            rows.append((*row_cells(run, row), text(line["name"]), *sides, *verdict))
    notes = ('A declared "any" or "n/a" matches everything.',)
    title = "Runtime contract, field by field"
    return Table("contract", title, (*ROW_COLUMNS, *columns), tuple(rows), notes)


def shield_bootstrap(run: Run) -> Table:
    """Table A5: the bootstrap behind each row's shield, and what the shield did."""
    data, applied = run.data, run.judgement.interventions.sel(condition="full")

    def episodes(reason: str, row: int) -> Cell:
        conditions = ("bootstrap_clean", "bootstrap_perturb")
        absent = [run.absent(row, condition) for condition in conditions]
        if all(absent):
            return missing("; ".join(absent))
        ended = [run.outcomes(row, condition)["reason"] for condition in conditions]
        return count(sum(int((reasons == reason).sum()) for reasons in ended))

    def steps(part: str, kinds: tuple[str, ...], row: int) -> Cell:
        metadata = json.loads(str(data["shield_metadata"].values[row]))
        if "counts" not in metadata:
            return missing(run.no_shield(row) if metadata else "the records hold no training metadata")
        return count(sum(int(metadata["counts"][part][kind]) for kind in kinds))

    def tau(row: int) -> Cell:
        return number(float(data["shield_tau"].values[row]), ".3g", run.no_shield(row))

    def risk_episodes(row: int) -> Cell:
        return count(int(data["risk_positive_episodes"].values[row]))

    def activity(name: str, row: int) -> Cell:
        why = run.absent(row, "full") or "some episode of 'full' lacks its intervention count"
        return number(float(applied[name].values[row]), ".2f", why)

    def limitation(row: int) -> Cell:
        factors = run.judgement.verdicts["limiting_factor"].values
        return text(data["shield_reason"].values[row] or factors[row])

    every_kind = ("safe_steps", "risk_steps", "weak_safe_steps")
    applied_steps = partial(activity, "mean_recovery_action_applied_steps")
    rate = partial(activity, "recovery_rate")
    fields = (
        Field("bootstrap_status", "Shield", "left", cell=lambda row: text(data["shield_status"].values[row])),
        Field("episodes_success", "Bootstrap successes", cell=partial(episodes, "success")),
        Field("episodes_timeout", "Bootstrap timeouts", cell=partial(episodes, "timeout")),
        Field("episodes_unsafe", "Bootstrap unsafe ends", cell=partial(episodes, "unsafe_attempt")),
        Field("train_samples", "Training steps", cell=partial(steps, "train", every_kind)),
        Field("val_samples", "Validation steps", cell=partial(steps, "validation", every_kind)),
        Field("calib_samples", "Safe calibration steps", cell=partial(steps, "calibration", ("safe_steps",))),
        Field("tau", "tau", cell=tau),
        Field("risk_positive_episodes", "Risk episodes", cell=risk_episodes),
        *texts(data, risk_label_source="Risk labels from"),
        Field(
            "full_mean_intervention_steps",
            "Mean intervention steps, full",
            cell=applied_steps,
            downstream=True,
        ),
        Field("full_intervention_rate", "Intervention rate, full", cell=rate, downstream=True),
        Field("main_limitation", "Main limitation", "left", cell=limitation),
    )
    notes = ("Interventions are activity of the shield; they say nothing about its benefit.",)
    return row_table(run, "A5", "Shield bootstrap and activity", fields, notes)
