"""Runtime contracts: what a policy was built for, against what really ran (protocol section 9, Table A2).

`RuntimeContract` is what a policy declares, checked when it is written; `compare` sets it against the observed values
field by field, `contract_status` sums up to the C_fid of clean admission.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, NamedTuple

from roep_gym.arguments import check_names
from roep_gym.error import InvalidInputError
from roep_gym.mapping_reader import check_fields
from roep_gym.typing import JSON

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
AnyValue = Literal["n/a", "any"]
"""No particular value: the field does not apply, or every value is right."""

_SMALLEST: Mapping[str, int] = {"resolution": 1, "chunk_length": 1, "executed_steps": 1, "settle_steps": 0}
_ACTED_ON = (
    "cameras",
    "resolution",
    "control_mode",
    "executed_steps",
    "replan_after_intervention",
    "settle_steps",
)
"""Fields that an evaluation acts on, so that they are the same for all suites of a policy."""


@dataclass(frozen=True)
class RuntimeContract:
    """The runtime a policy was built for; None means not declared, "n/a" that the field does not apply.

    Every value is checked when the contract is made: its type, and that a number is not below its smallest value.

    Attributes:
        checkpoint_source: Where the weights come from (path, hub id, "built-in").
        checkpoint_revision: Revision or content hash of the weights.
        runtime_bridge: How the policy is reached ("in-process", "openpi-websocket").
        cameras: Cameras, in the order the policy takes them.
        resolution: Height and width of the rendered frames, in pixels.
        rotation: Orientation of the frames the policy was trained on, for all cameras or one for each ("upright",
            "rotated_180", "raw", "upside_down").
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
        by_suite: Fields that differ by suite, such as `checkpoint_source` where a checkpoint was tuned for each.
    """

    checkpoint_source: str | None = None
    checkpoint_revision: str | None = None
    runtime_bridge: str | None = None
    cameras: list[str] | AnyValue | None = None
    resolution: int | AnyValue | None = None
    rotation: list[str] | str | None = None
    crop: str | None = None
    resize: str | None = None
    encoding: str | None = None
    prompt_format: str | None = None
    proprio_layout: str | None = None
    control_mode: Literal["relative", "absolute"] | AnyValue | None = None
    action_scale: str | None = None
    action_clip: str | None = None
    unnorm_key: str | None = None
    gripper_sign: str | None = None
    eef_orientation: str | None = None
    chunk_length: int | AnyValue | None = None
    executed_steps: int | AnyValue | None = None
    replan_after_intervention: bool | AnyValue | None = None
    precision: str | None = None
    settle_steps: int | AnyValue | None = None
    suite: str | None = None
    mujoco: str | None = None
    robosuite: str | None = None
    by_suite: Mapping[str, Mapping[str, JSON]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fields(self, "contract")
        for name, smallest in _SMALLEST.items():
            value = getattr(self, name)
            if isinstance(value, int) and value < smallest:
                raise InvalidInputError(f"Expected contract.{name} to be at least {smallest}, got {value}.")
        if self.cameras == []:
            raise InvalidInputError(
                'Expected contract.cameras to name a camera, or "n/a", got an empty list.'
            )
        for suite, given in self.by_suite.items():
            for name in given:
                if name in _ACTED_ON:
                    raise InvalidInputError(
                        f"Expected contract.by_suite to leave {name!r} alone, which is the same in every suite, got it "
                        f"for {suite!r}; declare it outside by_suite."
                    )
            replace(self, by_suite={}).replaced(given)

    @classmethod
    def applicable(cls, **values: Any) -> RuntimeContract:
        """Return a contract of the given fields; every other field does not apply ("n/a")."""
        return cls(**{**dict.fromkeys(FIELDS, "n/a"), **values})

    def replaced(self, values: Mapping[str, Any] | None) -> RuntimeContract:
        """Return the contract with some fields replaced, in every suite.

        Raises:
            UnknownNameError: There is no such field.
            InvalidInputError: A value does not fit its field.
        """
        values = values or {}
        check_names("contract field", values, FIELDS)
        kept = {
            suite: {name: value for name, value in given.items() if name not in values}
            for suite, given in self.by_suite.items()
        }
        return replace(self, by_suite=kept, **values)

    def for_suite(self, suite: str) -> RuntimeContract:
        """Return the contract in one suite; a suite such as libero_goal_swap has the fields of libero_goal."""
        known = [name for name in self.by_suite if suite == name or suite.startswith(f"{name}_")]
        given = self.by_suite[max(known, key=len)] if known else {}
        return replace(self, by_suite={}, **given)

    def to_dict(self) -> dict[str, ContractValue]:
        """Return the fields of Table A2 as a JSON-native mapping, without `by_suite`."""
        return {name: getattr(self, name) for name in FIELDS}


FIELDS: tuple[str, ...] = tuple(f.name for f in fields(RuntimeContract) if f.name != "by_suite")
"""The fields of Table A2."""


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
