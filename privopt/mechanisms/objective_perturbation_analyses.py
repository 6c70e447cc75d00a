"""How much noise a tilt needs: one theorem each, the sharp one and those before it.

A theorem here only proposes. What is promised is always what the accountants prove of the noise
that was really added; the older proposals are kept to be compared with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from privopt.mechanisms.objective_perturbation import PerturbedMinimiser
from privopt.privacy import gaussian_mu
from privopt.spec import Budget, ProblemClass, Relation


class ObjectivePerturbationAnalysis(NamedTuple):
    """A theorem about the exact minimiser of a tilted objective.

    Attributes
    ----------
    pure : bool or None
        Whether it speaks of pure DP and norm-Laplace tilts, or of Gaussian ones; None: of both.
    scale : callable
        ``(query, budget) -> scale`` of the tilt, in units of the mean gradient; infinite where
        no noise suffices.
    least : callable
        ``(problem_class, budget) -> lambda`` below which the theorem says nothing.

    Examples
    --------
    >>> {name: each.pure for name, each in OBJECTIVE_PERTURBATION_ANALYSES.items()}
    {'tight': None, 'chaudhuri': True, 'kifer': False, 'iyengar': False}
    """

    pure: bool | None
    scale: Callable[[PerturbedMinimiser, Budget], float]
    least: Callable[[ProblemClass, Budget], float]


def _tight(query: PerturbedMinimiser, budget: Budget) -> float:
    """``2 delta_G(epsilon - c; s/sigma) = delta`` or ``c + s/beta = epsilon``, c the jacobian."""
    left = budget.epsilon - query.jacobian
    if not left > 0.0:
        return math.inf
    moved = query.gradient.sensitivity(budget.relation)
    return moved / (left if budget.delta == 0.0 else gaussian_mu(left, 0.5 * budget.delta))


def _tight_least(problem_class: ProblemClass, budget: Budget) -> float:
    """``ln(1 + H/(lambda n)) = epsilon``."""
    return _curvature(problem_class) / math.expm1(min(budget.epsilon, 700.0))


def _chaudhuri(query: PerturbedMinimiser, budget: Budget) -> float:
    """``beta = s / (epsilon - 2 ln(1 + H/(lambda n)))``: the determinant counts twice."""
    left = budget.epsilon - 2.0 * query.jacobian
    return query.gradient.sensitivity(budget.relation) / left if left > 0.0 else math.inf


def _chaudhuri_least(problem_class: ProblemClass, budget: Budget) -> float:
    """Where nothing is left for the noise."""
    return _curvature(problem_class) / math.expm1(min(0.5 * budget.epsilon, 700.0))


def _kifer(query: PerturbedMinimiser, budget: Budget) -> float:
    """``sigma = (L/n) sqrt(8 ln(2/delta) + 4 epsilon) / epsilon``, for one record present or not.

    A record replaced is removed and added: half of epsilon, ``delta / (1 + e^(epsilon/2))``.
    """
    epsilon, delta = budget.epsilon, budget.delta
    if budget.relation is Relation.REPLACE_ONE:
        epsilon, delta = 0.5 * epsilon, delta / (1.0 + math.exp(min(0.5 * epsilon, 600.0)))
    contribution = query.gradient.sensitivity(budget.relation) / budget.relation.multiple
    return contribution * math.sqrt(8.0 * math.log(2.0 / delta) + 4.0 * epsilon) / epsilon


def _kifer_least(problem_class: ProblemClass, budget: Budget) -> float:
    """``lambda n = 2 H / epsilon``, with the epsilon of one record."""
    return 2.0 * _curvature(problem_class) * budget.relation.multiple / budget.epsilon


def _iyengar(query: PerturbedMinimiser, budget: Budget) -> float:
    """``sigma = s (1 + sqrt(2 ln(1/delta))) / (epsilon - e)``, ``e`` for the determinant."""
    moved = query.gradient.sensitivity(budget.relation)
    left = budget.epsilon - _determinant_share(budget)
    return moved * (1.0 + math.sqrt(-2.0 * math.log(budget.delta))) / left


def _iyengar_least(problem_class: ProblemClass, budget: Budget) -> float:
    """``lambda n = 2 H / e``."""
    return 2.0 * _curvature(problem_class) / _determinant_share(budget)


def _determinant_share(budget: Budget) -> float:
    """``e = min(epsilon, 1)/2``; the theorem allows whatever is below 1 and epsilon."""
    return 0.5 * min(budget.epsilon, 1.0)


def _curvature(problem_class: ProblemClass) -> float:
    """``H/n``; 0 where no ``H`` is declared, which the query refuses."""
    return (problem_class.smoothness or 0.0) / problem_class.n


OBJECTIVE_PERTURBATION_ANALYSES: Mapping[str, ObjectivePerturbationAnalysis] = MappingProxyType(
    {
        "tight": ObjectivePerturbationAnalysis(None, _tight, _tight_least),
        "chaudhuri": ObjectivePerturbationAnalysis(True, _chaudhuri, _chaudhuri_least),
        "kifer": ObjectivePerturbationAnalysis(False, _kifer, _kifer_least),
        "iyengar": ObjectivePerturbationAnalysis(False, _iyengar, _iyengar_least),
    }
)
"""By name: ``tight`` of ``ObjectivePerturbationDpEvent``; Chaudhuri, Monteleoni and Sarwate 2011,
Theorem 9; Kifer, Smith and Thakurta 2012; Iyengar et al. 2019."""
