"""What a problem has beyond gradients and projection, for algorithms that ask for more."""

from __future__ import annotations

import math
from typing import Any

from privopt.convex import EmpiricalRisk, GeneralisedLinear, L2Ball
from privopt.problems.parameter import Shaped

__all__ = ["has_mean", "provided"]


def provided(risk: EmpiricalRisk) -> frozenset[str]:
    """Names that ``Plan.requires`` may hold: see :attr:`privopt.problems.Problem.provides`."""
    loss: Any = risk.loss
    linear = isinstance(loss, GeneralisedLinear)
    scalar = loss.scalar if linear else loss.loss if isinstance(loss, Shaped) else loss
    found = {"smoothing"} if hasattr(scalar, "smoothed") else set()
    if linear and math.isfinite(getattr(scalar, "curvature", math.inf)):
        found.add("linear_model")
    if isinstance(risk.constraint, L2Ball):
        found.add("ball")
    if has_mean(risk):
        found.add("mean")
        if float(loss.modulus) <= 1.0:
            found.add("unit_modulus")
    return frozenset(found)


def has_mean(risk: EmpiricalRisk) -> bool:
    """Whether the minimiser is the projection of the mean of the records."""
    return risk.points is not None and risk.public is None
