"""From bootstrap episodes to a shield, or to the reason why there is none (protocol section 6).

`train_shield` labels, splits, trains and calibrates. A bootstrap that cannot give a shield is a status with its
reason, not an exception: it withholds the recovery claim and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np

from roep_gym.array_digest import arrays_digest
from roep_gym.episode_record import REASONS
from roep_gym.error import InvalidInputError
from roep_gym.shields.config import ShieldConfig
from roep_gym.shields.features import assemble, feature_names, field_indices
from roep_gym.shields.labels import (
    LABEL_SOURCES,
    RISK,
    SAFE,
    UNLABELLED,
    BootstrapEpisode,
    LabelSource,
    classify,
    label_steps,
)
from roep_gym.shields.model import RiskModel, calibrate
from roep_gym.shields.shield import Shield, pose_fields, with_pose_fields
from roep_gym.shields.split import PARTS, Part, SceneSupport, needs, split_scenes
from roep_gym.shields.training import Samples, train_risk_model
from roep_gym.typing import IntArray

__all__ = ["NO_RISK_SUPPORT", "TrainingOutcome", "train_shield"]

NO_RISK_SUPPORT = "no risk-positive support"
_RECORDED_SETTINGS = (
    *("learning_rate", "batch_size", "max_epochs", "patience", "hidden_sizes", "alpha", "tail_horizon"),
    *("prefix_support", "min_risk_episodes", "min_safe_episodes", "seed"),
)


@dataclass(frozen=True)
class TrainingOutcome:
    """What a bootstrap gave.

    Attributes:
        status: "trained" or "failed".
        reason: Why it failed; empty when trained.
        shield: The shield; None when failed.
        metadata: JSON-native record of data, labels, split and training: `label_source` (empty without a risk
            episode), `risk_positive_episodes` (of the training part), `episode_counts` by reason, `counts` by part and
            class, `data_fingerprint`, `feature_names` and the settings of the training; when it ran, also `epochs`,
            `best_epoch`, `validation_loss` and `constant_loss`; when it succeeded, `tau`. A trained shield carries the
            same.
    """

    status: Literal["trained", "failed"]
    reason: str
    shield: Shield | None
    metadata: Mapping[str, Any]


class _PartData(NamedTuple):
    """The labelled steps of one part, and which of them calibration may see."""

    samples: Samples
    calibrating: np.ndarray[Any, np.dtype[np.bool_]]
    counts: dict[str, int]


def train_shield(episodes: Sequence[BootstrapEpisode], config: ShieldConfig | None = None) -> TrainingOutcome:
    """Train and calibrate a shield on bootstrap episodes.

    The result depends on the set of episodes and the settings alone, not on the order of the episodes, and is
    equal to the bit when repeated on the same machine.

    Args:
        episodes: Unshielded episodes of one row (paper: 100), complete ones only.
        config: Settings; None takes the defaults.

    Raises:
        InvalidInputError: Two episodes share an identifier, or episodes differ in fields, action size or
            control mode.
        UnknownNameError: `config.fields`, or in absolute control the measured pose, names a field that the episodes do
            not have.
    """
    config = ShieldConfig() if config is None else config
    ordered = _canonical(episodes)
    reasons, settings = Counter(episode.reason for episode in ordered), config.to_dict()
    metadata: dict[str, Any] = {
        "label_source": "",
        "risk_positive_episodes": 0,
        "episode_counts": {reason: reasons[reason] for reason in REASONS},
        "data_fingerprint": _fingerprint(ordered),
        **{name: settings[name] for name in _RECORDED_SETTINGS},
    }
    if not ordered:
        return TrainingOutcome("failed", "no bootstrap episodes", None, metadata)
    fields, action_size = config.fields or ordered[0].fields, ordered[0].actions.shape[1]
    columns, mode = field_indices(fields, ordered[0].fields), ordered[0].control_mode
    # Refuses, before training, what lacks the pose.
    field_indices(pose_fields(config, mode), ordered[0].fields)
    parts: dict[Part, _PartData] = {}
    failure = ""
    for source in LABEL_SOURCES:
        members = _split(ordered, source, config)
        parts = {part: _collect(members[part], source, columns, action_size, config) for part in PARTS}
        counts = {part: data.counts for part, data in parts.items()}
        metadata |= {
            "label_source": source if any(count["risk_episodes"] for count in counts.values()) else "",
            "risk_positive_episodes": counts["train"]["risk_episodes"],
            "counts": counts,
            "feature_names": list(feature_names(fields, action_size)),
        }
        failure = _missing_support(counts, config)
        if not failure:
            break
    else:
        return TrainingOutcome("failed", failure, None, metadata)

    network = train_risk_model(parts["train"].samples, parts["validation"].samples, config)
    metadata |= {
        "epochs": network.epochs,
        "best_epoch": network.best_epoch,
        "constant_loss": network.constant_loss,
    }
    weights = [array for layer in network.layers for array in (layer.weight, layer.bias)]
    if not all(np.isfinite(array).all() for array in (np.array(network.loss), *weights)):
        reason = "training diverged: the loss or a weight is not finite"
        return TrainingOutcome("failed", reason, None, metadata)
    metadata |= {"validation_loss": network.loss}
    if network.loss >= network.constant_loss:
        reason = (
            f"the risk model learned nothing: its validation loss {network.loss:.4g} does not beat "
            f"{network.constant_loss:.4g}, that of a constant risk"
        )
        return TrainingOutcome("failed", reason, None, metadata)
    model = RiskModel(network.zscore, network.layers)
    held_out = parts["calibration"]
    tau = calibrate(model, held_out.samples.features[held_out.calibrating], config.alpha)
    metadata |= {"tau": tau}
    shield = Shield(model, tau, with_pose_fields(fields, config, mode), action_size, config, mode, metadata)
    return TrainingOutcome("trained", "", shield, metadata)


def _split(
    ordered: Sequence[BootstrapEpisode], source: LabelSource, config: ShieldConfig
) -> dict[Part, list[BootstrapEpisode]]:
    """Return the episodes of each part, in their order."""
    support = {episode.scene: Counter[str]() for episode in ordered}
    for episode in ordered:
        support[episode.scene][classify(episode, source)] += 1
    scenes = [SceneSupport(scene, kinds["risk"], kinds["safe"]) for scene, kinds in support.items()]
    part_of = split_scenes(scenes, config)
    return {part: [e for e in ordered if part_of[e.scene] == part] for part in PARTS}


def _canonical(episodes: Sequence[BootstrapEpisode]) -> list[BootstrapEpisode]:
    """Return the episodes in the order of their identifiers, after checking that they belong together."""
    ordered = sorted(episodes, key=lambda episode: episode.identifier)
    for before, after in pairwise(ordered):
        if before.identifier == after.identifier:
            raise InvalidInputError(f"Expected each bootstrap episode once, got {after.identifier!r} twice.")
        kinds = [(e.fields, e.actions.shape[1], e.control_mode) for e in (before, after)]
        if kinds[0] != kinds[1]:
            raise InvalidInputError(
                "Expected bootstrap episodes with equal fields, action size and control mode, but "
                f"{before.identifier!r} and {after.identifier!r} differ; train one shield for each kind."
            )
    return ordered


def _collect(
    episodes: Sequence[BootstrapEpisode],
    source: LabelSource,
    columns: IntArray,
    action_size: int,
    config: ShieldConfig,
) -> _PartData:
    """Label the episodes of one part and join their labelled steps."""
    # The empty first entries give a part without labelled steps its shape.
    features = [np.empty((0, len(columns) + action_size), dtype=np.float32)]
    labels, calibrating = [np.empty(0, dtype=np.int8)], [np.empty(0, dtype=np.bool_)]
    counts = Counter[str](episodes=len(episodes))
    for episode in episodes:
        kind, step_labels = classify(episode, source), label_steps(episode, source, config)
        used = step_labels != UNLABELLED
        features.append(assemble(episode.low[:, columns], episode.actions)[used])
        labels.append(step_labels[used])
        calibrating.append(np.full(int(used.sum()), kind == "safe"))
        safe, risk = int((step_labels == SAFE).sum()), int((step_labels == RISK).sum())
        counts["safe_episodes"] += kind == "safe" and safe > 0
        counts["risk_episodes"] += risk > 0
        counts["safe_steps"] += safe if kind == "safe" else 0
        counts["weak_safe_steps"] += safe if kind == "risk" else 0
        counts["risk_steps"] += risk
    names = ("episodes", "safe_episodes", "risk_episodes", "safe_steps", "weak_safe_steps", "risk_steps")
    samples = Samples(np.concatenate(features), np.concatenate(labels))
    return _PartData(samples, np.concatenate(calibrating), {name: int(counts[name]) for name in names})


def _missing_support(counts: Mapping[Part, Mapping[str, int]], config: ShieldConfig) -> str:
    """Return why the labelled data cannot give a shield; empty when they can."""
    if not any(count["risk_episodes"] for count in counts.values()):
        return NO_RISK_SUPPORT
    for part, kind, least in needs(config):
        found = counts[part][f"{kind}_episodes"]
        if found < least:
            every = sum(count[f"{kind}_episodes"] for count in counts.values())
            name = "training" if part == "train" else part
            return (
                f"too few {kind} episodes for the {name} part: {found} of {every}, at least {least} "
                "needed; the episodes of one scene belong to one part"
            )
    return ""


def _fingerprint(ordered: Sequence[BootstrapEpisode]) -> str:
    """Return a hash, 32 hexadecimal digits, of everything that training reads of the episodes."""
    arrays = {
        f"{episode.identifier}\0{name}": np.asarray(getattr(episode, name), dtype=kind)
        for episode in ordered
        for name, kind in (("low", "<f4"), ("actions", "<f4"), ("unsafe", "|b1"))
    }
    return arrays_digest(arrays, repr([(e.identifier, e.reason, e.fields) for e in ordered]))
