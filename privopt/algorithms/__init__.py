"""One file an algorithm. ``ALGORITHMS`` lists them by name."""

from collections.abc import Mapping
from types import MappingProxyType

from privopt.algorithms.approximate_minima_perturbation import APPROXIMATE_MINIMA_PERTURBATION
from privopt.algorithms.dp_gd import DP_GD
from privopt.algorithms.dp_sgd import DP_SGD
from privopt.algorithms.dp_svrg import DP_SVRG
from privopt.algorithms.exponential_mechanism import EXPONENTIAL_MECHANISM
from privopt.algorithms.gradient_descent import GRADIENT_DESCENT
from privopt.algorithms.noisy_adam import NOISY_ADAM
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
            DP_SGD,
            DP_SVRG,
            NOISY_ADAM,
            OUTPUT_PERTURBATION,
            OBJECTIVE_PERTURBATION,
            APPROXIMATE_MINIMA_PERTURBATION,
            EXPONENTIAL_MECHANISM,
        )
    }
)
