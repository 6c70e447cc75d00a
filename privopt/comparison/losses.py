"""Problem classes of losses with a name, for records and labels of norm at most 1."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from privopt.arguments import member, positive_number
from privopt.convex import Hinge, Huber, Linear, Logistic, ScalarLoss, Squared
from privopt.spec import ProblemClass

LOSSES: Mapping[str, ScalarLoss | None] = MappingProxyType(
    {
        "linear": Linear(),
        "logistic": Logistic(),
        "hinge": Hinge(),
        "squared": Squared(),
        "absolute": Huber(),
        "huber": Huber(0.1),
        "squared_distance": None,
    }
)
"""Losses of one linear prediction for ``|x| <= 1`` and ``|y| <= 1``; ``huber`` is rounded over 0.1.

``squared_distance`` is ``|w - x|^2/2``, a loss of no prediction; its minimiser is the mean.
"""


def problem_class_of(
    loss: str, *, n: int, dim: int, radius: float, sparsity: int | None = None
) -> ProblemClass:
    """Return the class of a named loss for ``|x| <= 1``, ``|y| <= 1`` and ``|w| <= radius``.

    ``L`` and ``H`` are the largest slope and curvature in the prediction. The slope of a squared
    loss on the ball is ``R + 1``. ``sparsity`` is the number of non-zero features; gradients
    inherit it.

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
    """Return :attr:`Problem.provides` of problems with this loss."""
    if LOSSES[loss] is None:
        return frozenset({"ball", "mean", "unit_modulus"})
    features = {"ball", "smoothing"}
    if problem_class.smoothness is not None:
        features.add("linear_model")
    if isinstance(LOSSES[loss], Squared):
        features.add("squares")
    return frozenset(features)
