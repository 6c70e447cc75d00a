"""One file an algorithm. ``ALGORITHMS`` lists them by name."""

from collections.abc import Mapping
from types import MappingProxyType

from privopt.algorithms.approximate_minima_perturbation import APPROXIMATE_MINIMA_PERTURBATION
from privopt.algorithms.dp_gd import DP_GD
from privopt.algorithms.gradient_descent import GRADIENT_DESCENT
from privopt.algorithms.objective_perturbation import OBJECTIVE_PERTURBATION
from privopt.algorithms.output_perturbation import OUTPUT_PERTURBATION
from privopt.core import Algorithm

__all__ = ["ALGORITHMS"]

ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType(
    {
        a.name: a
        for a in (
            GRADIENT_DESCENT,
            DP_GD,
            OUTPUT_PERTURBATION,
            OBJECTIVE_PERTURBATION,
            APPROXIMATE_MINIMA_PERTURBATION,
        )
    }
)
