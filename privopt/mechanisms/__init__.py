"""Noise on the device beside the event it emits, and the bounded queries it is added to."""

from privopt.mechanisms.clipping import (
    HasSlope,
    HasValue,
    clipped_gradient_sum,
    clipped_linear_gradient_sum,
    clipped_linear_loss_sum,
    clipped_loss_sum,
)
from privopt.mechanisms.exponential import ExponentialMechanism
from privopt.mechanisms.gaussian import GaussianMechanism
from privopt.mechanisms.norm_laplace import NormLaplaceMechanism
from privopt.mechanisms.queries import (
    BoundedQuery,
    ClippedGradient,
    ClippedRisk,
    RegularisedMinimiser,
)

__all__ = [
    "BoundedQuery",
    "ClippedGradient",
    "ClippedRisk",
    "ExponentialMechanism",
    "GaussianMechanism",
    "HasSlope",
    "HasValue",
    "NormLaplaceMechanism",
    "RegularisedMinimiser",
    "clipped_gradient_sum",
    "clipped_linear_gradient_sum",
    "clipped_linear_loss_sum",
    "clipped_loss_sum",
]
