"""The trace of an episode while it runs, and the record that it becomes (protocol section 8).

`TraceLayout` says how wide the columns are, `EpisodeTrace` collects observations and actions and turns them into an
`EpisodeRecord`, `termination_reason` says why an episode ended. Row t of every step array holds what belongs to action
t: the observation it acted on, with its perturbation, and what the step did.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from roep_gym.arguments import check_names
from roep_gym.episode import EpisodeIdentity
from roep_gym.episode_record import NOT_RUN, UNSAFE_CHANNELS, EpisodeAttributes, EpisodeRecord, EpisodeSummary
from roep_gym.shields import PROJECTIONS, SHIELD_REASONS
from roep_gym.typing import JSON, Array, FloatArray, Info

__all__ = ["FRAME_CHOICES", "EpisodeTrace", "FrameChoice", "TraceLayout", "termination_reason"]

FrameChoice = Literal["none", "looked", "all"]
FRAME_CHOICES: tuple[FrameChoice, ...] = ("none", "looked", "all")
_MISSING: Mapping[str, Any] = {}


def termination_reason(info: Info, *, truncated: bool) -> str:
    """Return `info["termination"]`, or what else the last step tells: `success`, `timeout` or `unknown`."""
    if "termination" in info:
        return str(info["termination"])
    if info.get("is_success"):
        return "success"
    return "timeout" if truncated else "unknown"


@dataclass(frozen=True)
class TraceLayout:
    """Columns of the step arrays of one environment, whose unsafe channels are those that it declares active.

    `proprio_key` is the key of the low-dimensional observation, None where there is none. `actions_perturbed` says
    whether what is executed may be another action than the one that the shield let pass.
    """

    action_low: FloatArray
    action_high: FloatArray
    proprio_key: str | None
    proprio_size: int
    image_keys: tuple[str, ...]
    depth_keys: tuple[str, ...]
    unsafe_channels: tuple[str, ...] = ()
    actions_perturbed: bool = False


class EpisodeTrace:
    """Collects one episode.

    Call `observe` for the observation of the reset, then `act` and `observe` in turn for each step, and `finish` once.
    """

    def __init__(
        self,
        layout: TraceLayout,
        frames: FrameChoice,
        episode: EpisodeIdentity,
        reset_info: Info,
        *,
        proprio: tuple[str, ...],
        profile: Mapping[str, JSON] | None,
    ) -> None:
        """Begin an episode without steps, with the names of its `proprio` and the profile that acts, if any."""
        self.episode = episode
        self._layout, self._frames, self._reset_info = layout, frames, reset_info
        self._proprio, self._profile = proprio, profile
        self._columns = _columns(layout)
        self._rows: dict[str, list[Any]] = {name: [] for name in self._columns}
        self._observed: dict[str, Any] = {}
        self._observations = 0
        self._frames_given = self._frames_perturbed = 0
        self._crossings = self._refusals = self._intervention_steps = self._nonfinite = 0
        self._kept: dict[str, list[Any]] = {}

    @property
    def steps(self) -> int:
        """Number of actions so far."""
        return len(self._rows["reward"])

    def observe(self, observation: Mapping[str, Array], info: Info, *, looked: bool) -> None:
        """Take the next observation, arrays by key, and whether its frames were asked for."""
        layout = self._layout
        report = info.get("perturbation", _MISSING)
        metadata, changed = report.get("metadata", _MISSING), report.get("changed", _MISSING)
        proprio = np.empty(0) if layout.proprio_key is None else observation[layout.proprio_key]
        frame_keys = layout.image_keys + layout.depth_keys
        rendered = bool(frame_keys) and bool(info.get("frames_rendered", True))
        given = [changed.get(key, False) for key in frame_keys] if looked and rendered else []
        self._observed = {
            "proprio": np.array(proprio, dtype=np.float32),
            "looked": looked,
            "patch": [_patch(metadata.get(key, ())) for key in layout.image_keys],
            "dropped_fraction": [_dropped_fraction(metadata.get(key, ())) for key in layout.depth_keys],
            "given": given,
        }
        if rendered and (self._frames == "all" or (self._frames == "looked" and looked)):
            clean = info.get("clean_frames", _MISSING)
            self._kept.setdefault("step", []).append(self._observations)
            for key in frame_keys:
                self._kept.setdefault(f"given_{key}", []).append(observation[key].copy())
                self._kept.setdefault(f"clean_{key}", []).append(clean.get(key, observation[key]).copy())
        self._observations += 1

    def act(self, proposed: FloatArray, reward: float, info: Info) -> None:
        """Take an action that was executed, float32 and finite as the policy gave it, with the `info` of its step.

        Raises:
            UnknownNameError: The shield's reason or projection is not among the known ones.
        """
        shielded = np.array(info.get("executed_action", proposed), dtype=np.float32).ravel()
        executed = np.array(info.get("actuated_action", shielded), dtype=np.float32).ravel()
        unsafe = info.get("unsafe", _MISSING)
        shield = info.get("shield")
        outcome = {
            "proposed_action": proposed,
            "executed_action": executed,
            "shielded_action": shielded,
            "reward": reward,
            "unsafe": [int(unsafe.get(channel, NOT_RUN)) for channel in UNSAFE_CHANNELS],
        }
        if shield is not None:
            outcome |= {
                "risk": shield["risk"],
                "intervened": int(shield["intervened"]),
                "shield_reason": _code("shield reason", shield["reason"], SHIELD_REASONS),
                "projection": _code("projection", shield["projection"], PROJECTIONS),
            }
            self._crossings += bool(shield["risk"] >= shield["threshold"])
            self._refusals += bool(shield["refused"])
            self._intervention_steps += bool(shield["refused"]) or not np.array_equal(shielded, proposed)
        self._append(outcome)

    def refuse(self, proposed: FloatArray | None) -> None:
        """Take an action that was not executed: not finite, or None where its shape is wrong; NaN stands for it."""
        self._nonfinite += 1
        nothing = np.full(len(self._layout.action_low), np.nan, dtype=np.float32)
        self._append({
            "proposed_action": nothing if proposed is None else proposed,
            "executed_action": nothing,
            "shielded_action": nothing,
            "reward": 0.0,
            # Nothing was executed, so nothing was attempted; what is not active stays unobserved.
            "unsafe": [0 if c in self._layout.unsafe_channels else NOT_RUN for c in UNSAFE_CHANNELS],
        })  # fmt: skip

    def finish(self, reason: str, cause: str = "") -> EpisodeRecord:
        """Return the record of the episode, which ended for a reason, with a cause where that does not say it."""
        n, layout = self.steps, self._layout
        steps = {
            name: np.array(self._rows[name], dtype=dtype).reshape(n, *shape)
            for name, (dtype, shape) in self._columns.items()
        }
        # An observation that was looked at after the last action reached no policy.
        if self._frames == "looked" and self._kept.get("step", [])[-1:] == [n]:
            for stored in self._kept.values():
                stored.pop()
        return EpisodeRecord(
            summary=self._summary(steps, reason),
            attributes=EpisodeAttributes(
                episode=self.episode,
                instruction=self._reset_info.get("instruction", ""),
                profile=self._profile,
                proprio=self._proprio,
                image_keys=layout.image_keys,
                depth_keys=layout.depth_keys,
                unsafe_channels=UNSAFE_CHANNELS,
                shield_reasons=SHIELD_REASONS,
                projections=PROJECTIONS,
                cause=cause,
            ),
            steps=steps,
            frames={name: np.array(stored) for name, stored in self._kept.items() if stored},
        )

    def _append(self, outcome: Mapping[str, Any]) -> None:
        row = {**self._observed, **_WITHOUT_SHIELD, **outcome}
        for name, values in self._rows.items():
            values.append(row[name])
        self._frames_given += len(row["given"])
        self._frames_perturbed += sum(row["given"])

    def _summary(self, steps: Mapping[str, Array], reason: str) -> EpisodeSummary:
        layout, proposed, unsafe = self._layout, steps["proposed_action"], steps["unsafe"]
        finite = np.abs(proposed[np.isfinite(proposed)])
        active = (unsafe != NOT_RUN).any(axis=0)
        attempts = (unsafe == 1).sum(axis=0)
        return EpisodeSummary(
            success=NOT_RUN if reason == "unknown" else int(reason == "success"),
            reason=reason,
            steps=self.steps,
            recorded_steps=self.steps,
            max_abs_action=float(finite.max()) if finite.size else math.nan,
            nonfinite_actions=self._nonfinite,
            intervention_steps=self._intervention_steps,
            refusals=self._refusals,
            risk_steps=int(np.isfinite(steps["risk"]).sum()),
            interventions=int((steps["intervened"] == 1).sum()),
            crossings=self._crossings,
            unsafe_attempts=int((unsafe == 1).any(axis=1).sum()) if active.any() else NOT_RUN,
            unsafe_channel_attempts={
                channel: int(attempts[i]) if active[i] else NOT_RUN
                for i, channel in enumerate(UNSAFE_CHANNELS)
            },
            repeated_actions=int((proposed[1:] == proposed[:-1]).all(axis=1).sum()),
            clipped_actions=int(
                ((proposed < layout.action_low) | (proposed > layout.action_high)).any(axis=1).sum()
            ),
            # Adding 0 makes -0.0 and 0.0 the same bytes.
            unique_actions=len({action.tobytes() for action in proposed + np.float32(0.0)}),
            frames_given=self._frames_given,
            frames_perturbed=self._frames_perturbed,
            scene_hash=int(self._reset_info.get("scene_hash", NOT_RUN)),
            settle_displacement=float(self._reset_info.get("settle_displacement", math.nan)),
        )


_WITHOUT_SHIELD = {"risk": math.nan, **dict.fromkeys(("intervened", "shield_reason", "projection"), NOT_RUN)}


def _columns(layout: TraceLayout) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Return the dtype and the shape of a row of each step array."""
    actions = len(layout.action_low)
    return {
        "proposed_action": (np.float32, (actions,)),
        "executed_action": (np.float32, (actions,)),
        **({"shielded_action": (np.float32, (actions,))} if layout.actions_perturbed else {}),
        "reward": (np.float32, ()),
        "proprio": (np.float32, (layout.proprio_size,)),
        "looked": (np.int8, ()),
        "unsafe": (np.int8, (len(UNSAFE_CHANNELS),)),
        "risk": (np.float64, ()),
        "intervened": (np.int8, ()),
        "shield_reason": (np.int8, ()),
        "projection": (np.int8, ()),
        "patch": (np.int32, (len(layout.image_keys), 3)),
        "dropped_fraction": (np.float32, (len(layout.depth_keys),)),
    }


def _patch(applications: Any) -> tuple[int, int, int]:
    """Return row, column and side of the occlusion among an image's operators; side 0 where there is none."""
    for done in applications:
        if done["operator"] == "rgb_occlusion":
            return done["row"], done["column"], done["side"]
    return 0, 0, 0


def _dropped_fraction(applications: Any) -> float:
    """Return the dropped fraction among a depth array's operators."""
    return float(sum(done["fraction"] for done in applications if done["operator"] == "depth_dropout"))


def _code(kind: str, name: str, known: tuple[str, ...]) -> int:
    check_names(kind, [name], known)
    return known.index(name)
