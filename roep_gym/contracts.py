"""Runtime contracts: what a policy was built for, against what really ran (protocol section 9, Table A2).

`RuntimeContract` is what a policy declares, `compare` sets it against the observed values field by field,
`contract_status` sums up to the C_fid of clean admission.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, NamedTuple

from roep_gym.arguments import check_names
from roep_gym.error import InvalidInputError

__all__ = [
    "FIELDS",
    "ContractField",
    "RuntimeContract",
    "Verdict",
    "compare",
    "contract_status",
    "unresolved",
]

Verdict = Literal["match", "mismatch", "unknown"]
ContractValue = str | int | float | bool | list[str] | None


@dataclass(frozen=True)
class RuntimeContract:
    """The runtime a policy was built for; None means not declared, "n/a" that the field does not apply.

    Attributes:
        checkpoint_source: Where the weights come from (path, hub id, "built-in").
        checkpoint_revision: Revision or content hash of the weights.
        runtime_bridge: How the policy is reached ("in-process", "openpi-websocket").
        cameras: Cameras, in the order the policy takes them.
        resolution: Height and width of the rendered frames, in pixels.
        rotation: Orientation of the frames the policy was trained on ("upright", "rotated_180").
        crop: Crop ("none", "center_0.9").
        resize: Resize filter and size ("none", "lanczos3_224", "pad_bilinear_224").
        encoding: Image coding before the network ("none", "jpeg").
        prompt_format: Template of the prompt, with {instruction}.
        proprio_layout: Fields of the proprioception the policy takes.
        control_mode: "relative" or "absolute".
        action_scale: Scale between network output and environment action ("none").
        action_clip: Clipping on the policy's side ("none", "[-1, 1]").
        unnorm_key: Key of the un-normalisation statistics.
        gripper_sign: Sign convention ("-1 open, +1 close").
        eef_orientation: Representation of rotation in actions ("axis_angle").
        chunk_length: Actions in a chunk.
        executed_steps: Actions of a chunk that are executed before the next decision.
        replan_after_intervention: Whether the rest of a chunk is dropped after a shield intervention.
        precision: Numeric precision of inference ("float32", "bfloat16").
        settle_steps: Settling steps before the first decision.
        suite: The LIBERO suite the checkpoint was tuned for ("any").
        mujoco: Version of MuJoCo.
        robosuite: Version of robosuite.
    """

    checkpoint_source: str | None = None
    checkpoint_revision: str | None = None
    runtime_bridge: str | None = None
    cameras: list[str] | str | None = None
    resolution: int | str | None = None
    rotation: str | None = None
    crop: str | None = None
    resize: str | None = None
    encoding: str | None = None
    prompt_format: str | None = None
    proprio_layout: str | None = None
    control_mode: str | None = None
    action_scale: str | None = None
    action_clip: str | None = None
    unnorm_key: str | None = None
    gripper_sign: str | None = None
    eef_orientation: str | None = None
    chunk_length: int | None = None
    executed_steps: int | None = None
    replan_after_intervention: bool | None = None
    precision: str | None = None
    settle_steps: int | None = None
    suite: str | None = None
    mujoco: str | None = None
    robosuite: str | None = None

    @classmethod
    def applicable(cls, **values: Any) -> RuntimeContract:
        """Return a contract of the given fields; every other field does not apply ("n/a")."""
        return cls(**{**dict.fromkeys(FIELDS, "n/a"), **values})

    def replaced(self, values: Mapping[str, Any] | None) -> RuntimeContract:
        """Return the contract with some fields replaced.

        Raises:
            UnknownNameError: There is no such field.
        """
        check_names("contract field", values or {}, FIELDS)
        return replace(self, **(values or {}))

    def to_dict(self) -> dict[str, ContractValue]:
        """Return the contract as a JSON-native mapping."""
        return asdict(self)


FIELDS: tuple[str, ...] = tuple(f.name for f in fields(RuntimeContract))


class ContractField(NamedTuple):
    """One line of Table A2: a field as declared and as observed, its verdict, and why a departure is accepted."""

    name: str
    declared: ContractValue
    observed: ContractValue
    verdict: Verdict
    resolution: str


def compare(
    declared: RuntimeContract, observed: Mapping[str, Any], *, accepted: Mapping[str, str] | None = None
) -> list[ContractField]:
    """Set a declared contract against what ran.

    Args:
        declared: What the policy was built for.
        observed: What ran, by field name; a missing field was not observed.
        accepted: Reasons, by field name, why a mismatch or an unknown is accepted.

    Returns:
        One `ContractField` for each field. A value that is None on either side is "unknown"; "any" and "n/a"
        on the declared side match everything.

    Raises:
        InvalidInputError: A reason is empty, or names a field that does not exist.
    """
    accepted = accepted or {}
    check_names("contract field", accepted, FIELDS)
    for name, reason in accepted.items():
        if not reason.strip():
            raise InvalidInputError(
                f"Expected a written reason to accept the contract field {name!r}, got none."
            )
    lines = []
    for name in FIELDS:
        want, got = getattr(declared, name), observed.get(name)
        verdict: Verdict
        if want in ("any", "n/a"):
            verdict = "match"
        elif want is None or got is None:
            verdict = "unknown"
        else:
            verdict = "match" if want == got else "mismatch"
        lines.append(
            ContractField(name, want, got, verdict, "" if verdict == "match" else accepted.get(name, ""))
        )
    return lines


def unresolved(lines: Sequence[ContractField]) -> list[ContractField]:
    """Return the fields that close C_fid: mismatches and unknowns without a written reason."""
    return [line for line in lines if line.verdict != "match" and not line.resolution]


def contract_status(lines: Sequence[ContractField]) -> Verdict:
    """Return the compact status of a row: mismatch before unknown before match."""
    verdicts = {line.verdict for line in lines}
    return "mismatch" if "mismatch" in verdicts else "unknown" if "unknown" in verdicts else "match"
