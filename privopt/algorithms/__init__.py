"""Algorithms: one module each, with the function of the same name that returns a plan.

``privopt.dp_sgd(problem_class, budget, steps=200)`` is ``ALGORITHMS["dp_sgd"].plan(...)``.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType

from privopt.algorithms.accelerated_dp_gd import ACCELERATED_DP_GD, accelerated_dp_gd
from privopt.algorithms.approximate_minima_perturbation import (
    APPROXIMATE_MINIMA_PERTURBATION,
    approximate_minima_perturbation,
)
from privopt.algorithms.bias_reduced_sgd import BIAS_REDUCED_SGD, bias_reduced_sgd
from privopt.algorithms.descent import Batching, Descent
from privopt.algorithms.dp_ftrl import DP_FTRL, dp_ftrl
from privopt.algorithms.dp_gd import DP_GD, dp_gd
from privopt.algorithms.dp_sgd import DP_SGD, dp_sgd
from privopt.algorithms.dp_svrg import DP_SVRG, dp_svrg
from privopt.algorithms.exponential_mechanism import EXPONENTIAL_MECHANISM, exponential_mechanism
from privopt.algorithms.gradient_descent import GRADIENT_DESCENT, gradient_descent
from privopt.algorithms.l1_recovery import L1_RECOVERY, l1_recovery
from privopt.algorithms.linf_output_perturbation import (
    LINF_OUTPUT_PERTURBATION,
    linf_output_perturbation,
)
from privopt.algorithms.noisy_adam import NOISY_ADAM, noisy_adam
from privopt.algorithms.objective_perturbation import OBJECTIVE_PERTURBATION, objective_perturbation
from privopt.algorithms.output_perturbation import OUTPUT_PERTURBATION, output_perturbation
from privopt.algorithms.phased_sgd import PHASED_SGD, phased_sgd
from privopt.algorithms.projection_mechanism import PROJECTION_MECHANISM, projection_mechanism
from privopt.algorithms.sufficient_statistics import SUFFICIENT_STATISTICS, sufficient_statistics
from privopt.arguments import Catalogue, instance, shown
from privopt.core import Algorithm

__all__ = [
    "ALGORITHMS",
    "Batching",
    "Descent",
    "accelerated_dp_gd",
    "approximate_minima_perturbation",
    "bias_reduced_sgd",
    "dp_ftrl",
    "dp_gd",
    "dp_sgd",
    "dp_svrg",
    "exponential_mechanism",
    "gradient_descent",
    "l1_recovery",
    "linf_output_perturbation",
    "noisy_adam",
    "objective_perturbation",
    "output_perturbation",
    "phased_sgd",
    "projection_mechanism",
    "register",
    "sufficient_statistics",
]


_REGISTERED = Catalogue(
    "algorithm",
    (
        (a.name, a)
        for a in (
            GRADIENT_DESCENT,
            DP_GD,
            ACCELERATED_DP_GD,
            DP_SGD,
            DP_SVRG,
            BIAS_REDUCED_SGD,
            DP_FTRL,
            NOISY_ADAM,
            PHASED_SGD,
            OUTPUT_PERTURBATION,
            LINF_OUTPUT_PERTURBATION,
            OBJECTIVE_PERTURBATION,
            APPROXIMATE_MINIMA_PERTURBATION,
            EXPONENTIAL_MECHANISM,
            PROJECTION_MECHANISM,
            L1_RECOVERY,
            SUFFICIENT_STATISTICS,
        )
    ),
)

ALGORITHMS: Mapping[str, Algorithm] = MappingProxyType(_REGISTERED)
"""Algorithms by name, including those added by :func:`register`."""


def register(algorithm: Algorithm) -> Algorithm:
    """Add an algorithm to ``ALGORITHMS`` for this session, so that experiments find it by name.

    A registered algorithm of the same name is replaced; the built-in algorithms cannot be replaced.
    Results are stored with the code of their algorithm and computed again when that code changes.
    """
    instance("algorithm", algorithm, Algorithm)
    if algorithm.name in BUILT_IN:
        raise ValueError(f"name must not be one of {', '.join(sorted(BUILT_IN))}")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", algorithm.name):
        raise ValueError(
            "name must consist of lower-case letters, digits and underscores, got "
            f"{shown(algorithm.name)}"
        )
    _REGISTERED[algorithm.name] = algorithm
    return algorithm


BUILT_IN = frozenset(_REGISTERED)
