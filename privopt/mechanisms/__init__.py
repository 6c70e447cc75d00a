"""Noise on the device beside the event it emits, and the bounded queries it is added to."""

from privopt.mechanisms.clipping import (
    HasSlope,
    clipped_gradient_sum,
    clipped_linear_gradient_sum,
)
from privopt.mechanisms.gaussian import GaussianMechanism
from privopt.mechanisms.norm_laplace import NormLaplaceMechanism
from privopt.mechanisms.queries import BoundedQuery, ClippedGradient, RegularisedMinimiser
from privopt.mechanisms.tilt_analyses import TILT_ANALYSES, TiltAnalysis
from privopt.mechanisms.tilted import GaussianTilt, NormLaplaceTilt, TiltedMinimiser

__all__ = [
    "TILT_ANALYSES",
    "BoundedQuery",
    "ClippedGradient",
    "GaussianMechanism",
    "GaussianTilt",
    "HasSlope",
    "NormLaplaceMechanism",
    "NormLaplaceTilt",
    "RegularisedMinimiser",
    "TiltAnalysis",
    "TiltedMinimiser",
    "clipped_gradient_sum",
    "clipped_linear_gradient_sum",
]
