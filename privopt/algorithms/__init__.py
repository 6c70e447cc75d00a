"""One file an algorithm. ``ALGORITHMS`` lists them by name."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from privopt.algorithms.approximate_minima_perturbation import APPROXIMATE_MINIMA_PERTURBATION
from privopt.algorithms.bias_reduced_sgd import BIAS_REDUCED_SGD
from privopt.algorithms.dp_ftrl import DP_FTRL
from privopt.algorithms.dp_gd import DP_GD
from privopt.algorithms.dp_sgd import DP_SGD
from privopt.algorithms.dp_svrg import DP_SVRG
from privopt.algorithms.exponential_mechanism import EXPONENTIAL_MECHANISM
from privopt.algorithms.gradient_descent import GRADIENT_DESCENT
from privopt.algorithms.l1_recovery import L1_RECOVERY
from privopt.algorithms.linf_output_perturbation import LINF_OUTPUT_PERTURBATION
from privopt.algorithms.noisy_adam import NOISY_ADAM
from privopt.algorithms.objective_perturbation import OBJECTIVE_PERTURBATION
from privopt.algorithms.output_perturbation import OUTPUT_PERTURBATION
from privopt.algorithms.phased_sgd import PHASED_SGD
from privopt.algorithms.projection_mechanism import PROJECTION_MECHANISM
from privopt.algorithms.sufficient_statistics import SUFFICIENT_STATISTICS
from privopt.arguments import Catalogue, instance, shown
from privopt.core import Algorithm

__all__ = ["ALGORITHMS", "register"]


_REGISTERED = Catalogue(
    "algorithm",
    (
        (a.name, a)
        for a in (
            GRADIENT_DESCENT,
            DP_GD,
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
"""Every algorithm by its name, those that you registered among them."""


def register(algorithm: Algorithm) -> Algorithm:
    """List an algorithm of your own, so that experiments of this session know it by its name.

    One that was registered before is replaced, as a notebook's cell is run again; privopt's own
    are not. Cells are recorded under the code of their algorithm: one that changes is run again.
    """
    instance("algorithm", algorithm, Algorithm)
    if algorithm.name in BUILT_IN:
        raise ValueError(f"name must not be one of {', '.join(sorted(BUILT_IN))}")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", algorithm.name):
        raise ValueError(
            f"name must be of small letters and underscores, got {shown(algorithm.name)}"
        )
    _REGISTERED[algorithm.name] = algorithm
    return algorithm


BUILT_IN = frozenset(_REGISTERED)
