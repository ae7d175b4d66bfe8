"""The learned shield at runtime: `Shield.assess` scores a proposed action and, from the threshold on, replaces it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from roep_gym.array_digest import arrays_digest
from roep_gym.error import InvalidInputError
from roep_gym.shields.base import Assessment
from roep_gym.shields.config import ShieldConfig
from roep_gym.shields.features import assemble, feature_names
from roep_gym.shields.model import RiskModel
from roep_gym.shields.projection import check_proposed_action, project
from roep_gym.typing import Array

__all__ = ["Shield"]


@dataclass(frozen=True, eq=False)
class Shield:
    """A trained shield with its threshold, fixed during a rollout.

    Attributes:
        model: The risk model.
        threshold: tau, finite.
        fields: Entries of the low-dimensional observation that the model takes.
        action_size: Number of entries of an action.
        config: The settings it was trained with; `config.projection` acts at runtime.
        metadata: What the training recorded, JSON-native.

    Raises:
        InvalidInputError: The threshold is not finite, or fields and action do not make the model's input.
    """

    model: RiskModel
    threshold: float
    fields: tuple[str, ...]
    action_size: int
    config: ShieldConfig
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not math.isfinite(self.threshold):
            raise InvalidInputError(f"Expected a shield with a finite threshold, got {self.threshold}.")
        features = len(self.fields) + self.action_size
        if features != self.model.input_size:
            raise InvalidInputError(
                f"Expected a risk model of {features} features ({len(self.fields)} fields and {self.action_size} "
                f"action entries), got one of {self.model.input_size}."
            )
        layout = self.config.projection
        if max(layout.translation + layout.gripper) >= self.action_size:
            raise InvalidInputError(
                f"Expected projection indices below the action size {self.action_size}, got translation "
                f"{list(layout.translation)} and gripper {list(layout.gripper)}; set them in ProjectionConfig."
            )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the model's inputs."""
        return feature_names(self.fields, self.action_size)

    @property
    def action_bounds(self) -> tuple[float, float]:
        """Lower and upper bound of every action entry."""
        return self.config.projection.action_low, self.config.projection.action_high

    @property
    def control_mode(self) -> str:
        """The projection is defined for relative control, where a zero translation holds still."""
        return "relative"

    def risk(self, low: Array, action: Array) -> float:
        """Return the risk r_t in [0, 1] (Eq. 11); NaN when an input is not finite."""
        return self.model.risk(assemble(low, action))

    def assess(self, low: Array, action: Array) -> Assessment:
        """Return the shield tuple of a proposed action.

        Below the threshold the action passes through as the very object it was. A risk that is not finite
        intervenes.

        Args:
            low: The entries named by `fields`, shape (fields,).
            action: Proposed action, shape (action size,).

        Raises:
            PolicyOutputError: The action is wrongly shaped or not finite; the shield never rescues it.
            InvalidInputError: The observation has another shape.
        """
        check_proposed_action(action, self.action_size)
        if np.shape(low) != (len(self.fields),):
            raise InvalidInputError(
                f"Expected a low-dimensional observation of shape ({len(self.fields)},), got {np.shape(low)}."
            )
        risk = self.risk(low, action)
        if risk < self.threshold:
            return Assessment(risk, self.threshold, False, "below_threshold", "none", action, False)
        reason = "threshold_reached" if math.isfinite(risk) else "risk_not_finite"
        projection = project(
            action, risk, self.threshold, lambda a: self.risk(low, a), self.config.projection
        )
        refused = projection.kind != "projected"
        return Assessment(risk, self.threshold, True, reason, projection.kind, projection.action, refused)

    def description(self) -> str:
        """Return everything but the arrays as canonical JSON."""
        content = {
            "threshold": self.threshold,
            "fields": list(self.fields),
            "action_size": self.action_size,
            "config": self.config.to_dict(),
            "metadata": dict(self.metadata),
        }
        return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @cached_property
    def digest(self) -> str:
        """Content hash in 32 hexadecimal digits, of arrays and description alone: the same wherever it is stored."""
        return arrays_digest(self.model.arrays(), self.description())
