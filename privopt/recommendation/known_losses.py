"""The losses whose constants are known for records of norm at most 1, by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from privopt.arguments import member, positive_number
from privopt.convex import Hinge, Huber, Linear, Logistic, ScalarLoss, Squared
from privopt.spec import ProblemClass

_MEAN = "squared_distance"
_OF_A_MEAN = frozenset({"ball", "mean", "unit_modulus"})
_OF_A_PREDICTION = frozenset({"ball", "smoothing"})
LOSSES: Mapping[str, ScalarLoss | None] = MappingProxyType(
    {
        "linear": Linear(),
        "logistic": Logistic(),
        "hinge": Hinge(),
        "squared": Squared(),
        "absolute": Huber(),
        "huber": Huber(0.1),
        _MEAN: None,
    }
)
"""Losses of one linear prediction, ``|x| <= 1`` and ``|y| <= 1``; ``huber`` is rounded over 0.1.

``squared_distance``, ``|w - x|^2/2``, is no such loss; its minimiser is the mean of the records.
"""


def problem_class_of(
    loss: str, *, n: int, dim: int, radius: float, sparsity: int | None = None
) -> ProblemClass:
    """The class of a loss by its name, for ``|x| <= 1``, ``|y| <= 1`` and ``|w| <= radius``.

    ``L`` and ``H`` are the largest slope and curvature in the prediction; a squared loss has slope
    ``R + 1`` on the ball. ``sparsity`` is that of the features, which gradients inherit.

    Examples
    --------
    >>> facts = problem_class_of("squared", n=1000, dim=5, radius=2.0)
    >>> facts.lipschitz, facts.smoothness
    (3.0, 1.0)
    """
    member("loss", loss, LOSSES)
    radius, scalar = positive_number("radius", radius), LOSSES[loss]
    slope = math.inf if scalar is None else scalar.slope_bound
    curvature = 1.0 if scalar is None else scalar.curvature
    return ProblemClass(
        n=n,
        dim=dim,
        lipschitz=slope if math.isfinite(slope) else radius + 1.0,
        radius=radius,
        smoothness=curvature if math.isfinite(curvature) else None,
        strong_convexity=1.0 if scalar is None else 0.0,
        sparsity=sparsity,
    )


def provided(loss: str, problem_class: ProblemClass) -> frozenset[str]:
    """What problems of that loss have beyond gradients, as :attr:`Problem.provides` says it."""
    if LOSSES[loss] is None:
        return _OF_A_MEAN
    smooth = {"linear_model"} if problem_class.smoothness is not None else set()
    squares = {"squares"} if isinstance(LOSSES[loss], Squared) else set()
    return _OF_A_PREDICTION | smooth | squares
