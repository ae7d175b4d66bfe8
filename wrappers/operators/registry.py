"""The perturbation operators by name.

`OPERATORS` is the registry, `register_operator` adds to it, `find_operator` makes an operator of a name, and `rebuild`
makes a perturbed array again from the clean one and the metadata of the application.
"""

from __future__ import annotations

from functools import cache

from roep_gym.error import InvalidInputError
from roep_gym.registry import Registry
from roep_gym.seeding import Key
from roep_gym.typing import Array
from roep_gym.wrappers.operators.base import HistoryOperator, Metadata, ObservationOperator, Operator

__all__ = ["OPERATORS", "find_operator", "rebuild", "register_operator"]

OPERATORS = Registry(
    "perturbation operator",
    "roep_gym.operators",
    {
        "rgb_occlusion": "roep_gym.wrappers.operators.rgb_occlusion:RgbOcclusion",
        "depth_dropout": "roep_gym.wrappers.operators.depth_dropout:DepthDropout",
        "gaussian_noise": "roep_gym.wrappers.operators.noise:GaussianNoise",
        "shot_noise": "roep_gym.wrappers.operators.noise:ShotNoise",
        "impulse_noise": "roep_gym.wrappers.operators.noise:ImpulseNoise",
        "speckle_noise": "roep_gym.wrappers.operators.noise:SpeckleNoise",
        "gaussian_blur": "roep_gym.wrappers.operators.blur:GaussianBlur",
        "defocus_blur": "roep_gym.wrappers.operators.blur:DefocusBlur",
        "motion_blur": "roep_gym.wrappers.operators.blur:MotionBlur",
        "zoom_blur": "roep_gym.wrappers.operators.blur:ZoomBlur",
        "glass_blur": "roep_gym.wrappers.operators.blur:GlassBlur",
        "fog": "roep_gym.wrappers.operators.weather:Fog",
        "brightness": "roep_gym.wrappers.operators.colour:Brightness",
        "contrast": "roep_gym.wrappers.operators.colour:Contrast",
        "gamma": "roep_gym.wrappers.operators.colour:Gamma",
        "colour_temperature": "roep_gym.wrappers.operators.colour:ColourTemperature",
        "saturation": "roep_gym.wrappers.operators.colour:Saturation",
        "jpeg_compression": "roep_gym.wrappers.operators.compression:JpegCompression",
        "pixelate": "roep_gym.wrappers.operators.compression:Pixelate",
        "lasting_occlusion": "roep_gym.wrappers.operators.occlusion:LastingOcclusion",
        "moving_occlusion": "roep_gym.wrappers.operators.occlusion:MovingOcclusion",
        "dead_camera": "roep_gym.wrappers.operators.occlusion:DeadCamera",
        "frame_delay": "roep_gym.wrappers.operators.frames:FrameDelay",
        "frozen_frames": "roep_gym.wrappers.operators.frames:FrozenFrames",
        "dropped_frames": "roep_gym.wrappers.operators.frames:DroppedFrames",
        "vector_delay": "roep_gym.wrappers.operators.frames:VectorDelay",
        "depth_scale": "roep_gym.wrappers.operators.depth:DepthScale",
        "depth_offset": "roep_gym.wrappers.operators.depth:DepthOffset",
        "depth_holes": "roep_gym.wrappers.operators.depth:DepthHoles",
        "depth_quantisation": "roep_gym.wrappers.operators.depth:DepthQuantisation",
        "depth_edge_noise": "roep_gym.wrappers.operators.depth:DepthEdgeNoise",
        "vector_noise": "roep_gym.wrappers.operators.vector:VectorNoise",
        "vector_bias": "roep_gym.wrappers.operators.vector:VectorBias",
        "vector_drift": "roep_gym.wrappers.operators.vector:VectorDrift",
        "vector_dropout": "roep_gym.wrappers.operators.vector:VectorDropout",
        "action_noise": "roep_gym.wrappers.operators.action:ActionNoise",
        "action_bias": "roep_gym.wrappers.operators.action:ActionBias",
        "action_gain": "roep_gym.wrappers.operators.action:ActionGain",
        "action_latency": "roep_gym.wrappers.operators.action:ActionLatency",
        "action_hold": "roep_gym.wrappers.operators.action:ActionHold",
        "action_drop": "roep_gym.wrappers.operators.action:ActionDrop",
        "paraphrase": "roep_gym.wrappers.operators.language:Paraphrase",
        "typos": "roep_gym.wrappers.operators.language:Typos",
        "letter_case": "roep_gym.wrappers.operators.language:LetterCase",
        "word_dropout": "roep_gym.wrappers.operators.language:WordDropout",
        "wrong_object": "roep_gym.wrappers.operators.language:WrongObject",
    },
)
"""A part is a subclass of `Operator`."""


def register_operator(name: str, operator: type[Operator]) -> None:
    """Name an operator of your own for profiles in this process; worker processes do not see it.

    Raises:
        InvalidInputError: The name is empty, has a colon, or is taken by another operator.
    """
    OPERATORS.register(name, operator)


@cache  # asked for at every array of every step
def find_operator(name: str) -> Operator:
    """Return the operator of a name or of a place `module:attribute`."""
    kind = OPERATORS.find(name)
    if not isinstance(kind, type) or not issubclass(kind, Operator):
        raise InvalidInputError(f"Expected a subclass of Operator at {name!r}, got {kind!r}.")
    try:
        return kind(name)
    except TypeError as error:  # an abstract method is missing
        raise InvalidInputError(f"Expected an operator at {name!r}, got: {error}.") from error


def rebuild(clean: Array, metadata: Metadata, key: tuple[Key, ...]) -> Array:
    """Return the perturbed array of one application from its clean array, its metadata and its key."""
    operator = find_operator(metadata["operator"])
    if isinstance(operator, HistoryOperator):
        raise InvalidInputError(
            f"Expected an operator that changes an array, but {operator.name!r} gives that of step "
            f"{metadata['source_step']}; take the clean array of this step for `clean`."
        )
    if not isinstance(operator, ObservationOperator):
        raise InvalidInputError(
            f"Expected an operator on observations, but {operator.name!r} acts on {operator.target}s."
        )
    entries = metadata.get("entries")
    if entries is None:
        return operator.rebuild(clean, metadata, key)
    perturbed = clean.copy()
    perturbed[entries] = operator.rebuild(clean[entries], metadata, key)
    return perturbed
