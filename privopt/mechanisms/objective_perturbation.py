"""Objective perturbation: a random linear term in the objective, and its noise scales."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from dp_accounting import DpEvent, NonPrivateDpEvent
from jax import Array

from privopt.arguments import instance
from privopt.convex import EmpiricalRisk
from privopt.mechanisms.additive import GaussianNoise, NormLaplaceNoise
from privopt.mechanisms.calibration import noise_multiplier
from privopt.mechanisms.minimisers import InexactMinimiser, steps_to_gain
from privopt.mechanisms.queries import ClippedGradient
from privopt.privacy import ObjectivePerturbationDpEvent, gaussian_mu, pure_event
from privopt.spec import Assumptions, Budget, ProblemClass, Relation

_ROUND_OFF = 1.0 + 2.0**-48
_RESOLUTION = 1e-13  # relative to L/lambda, the sensitivity of a minimiser


class PerturbedMinimiser(NamedTuple):
    """Minimiser ``argmin_W F(w) + (lambda/2)|w - c|^2 + <t, w>`` for a given linear term ``t``.

    ``F`` is the mean of generalised linear losses with slopes clipped so that every gradient norm
    is at most ``L``: a convex loss of one prediction with a clipped slope is again convex, with at
    most the same curvature. The answer is within ``error`` of the exact minimiser, for all data
    and linear terms (:class:`InexactMinimiser`), and that distance is charged.

    Attributes
    ----------
    gradient : ClippedGradient
        The query of ``F``; its ``size`` is the public divisor ``n``.
    regularisation : float
        ``lambda > 0``, in every coordinate, including an intercept.
    smoothness : float
        ``H`` of the loss of every record: ``f'' |x|^2``, the squared norm of the record included.
    radius : float
        ``R``: the constraint set is in a ball of this radius.
    error, steps
        ``tau``, and the steps of accelerated descent that guarantee it.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0, smoothness=0.25)
    >>> query = PerturbedMinimiser.of(facts, regularisation=0.1)
    >>> round(query.jacobian, 6)
    0.002497
    """

    gradient: ClippedGradient
    regularisation: float
    smoothness: float
    radius: float
    error: float
    steps: int

    @classmethod
    def of(
        cls,
        problem_class: ProblemClass,
        *,
        regularisation: float,
        relative_error: float | None = None,
    ) -> PerturbedMinimiser:
        """Return the query for a problem class, solved to ``relative_error`` of ``L/(lambda n)``.

        The default is ``1e-5/n``: the noise for the error is then smaller than the linear term by
        orders of magnitude. At least ``1e-12 L/lambda``, the resolution of float64.
        """
        instance("problem_class", problem_class, ProblemClass)
        if problem_class.smoothness is None:
            raise ValueError(
                "smoothness must be declared: a kink holds the minimiser for a range of linear "
                "terms, and reveals its record; got None"
            )
        lipschitz, n = problem_class.lipschitz, problem_class.n
        if relative_error is None:
            relative_error = 1e-5 / n
        error = max(relative_error / n, _RESOLUTION) * lipschitz / regularisation
        gradient, radius = ClippedGradient.of(problem_class), problem_class.radius
        query = cls(gradient, regularisation, problem_class.smoothness, radius, error, 1)
        return query._replace(steps=max(1, math.ceil(query.needed_steps)))

    @property
    def needed_steps(self) -> float:
        """Number of steps that end within ``tau`` for all data and linear terms; may be infinite.

        Proof: :ref:`Perturbation, Theorem 7 <theory-perturbation-7>`.
        """
        if not (self.regularisation > 0.0 and self.error > 0.0 and self.radius > 0.0):
            return math.inf
        lipschitz = self.gradient.clip_norm
        distance = min(2.0 * self.radius, lipschitz / self.regularisation)
        ratio = 2.0 * lipschitz * distance / (self.regularisation * self.error**2)
        smoothness = self.smoothness + self.regularisation
        return steps_to_gain(math.log(ratio), self.regularisation, smoothness)

    @property
    def jacobian(self) -> float:
        """``ln(1 + H / (lambda n))``, the largest log ratio of volumes of neighbours, rounded up.

        Infinite if clipping does not preserve convexity.
        """
        positive = self.regularisation > 0.0 and self.smoothness >= 0.0
        if not positive or not self.gradient.preserves_convexity:
            return math.inf
        return math.log1p(self.smoothness / (self.regularisation * self.gradient.size)) * _ROUND_OFF

    def sensitivity(self, relation: Relation) -> float:
        """Return ``2 tau`` under every relation: the sensitivity given the exact minimisers.

        Each computed minimiser is within ``tau`` of the exact one. Infinite for too few steps.
        """
        del relation
        return 2.0 * self.error if self.needed_steps <= self.steps else math.inf

    def assumptions(self, relation: Relation) -> Assumptions:
        """Return the assumptions: convex losses of a linear prediction, with ``H``."""
        return self.gradient.assumptions(relation) & Assumptions(
            convex=True,
            smoothness=self.smoothness,
            radius=self.radius,
            n=self.gradient.size,
            requires=frozenset({"linear_model"}),
        )

    def minimiser_of(self, objective: EmpiricalRisk) -> Callable[[Array, Array], Array]:
        """Return ``(centre, linear_term) -> minimiser`` on the device."""
        minimisation = InexactMinimiser(
            self.regularisation,
            self.regularisation,
            self.smoothness + self.regularisation,
            self.error,
            self.steps,
        )
        return lambda centre, linear_term: minimisation.solve(
            self.gradient, objective, centre, linear_term
        )


class GaussianObjectivePerturbation(GaussianNoise[PerturbedMinimiser]):
    """Gaussian linear term ``t ~ N(0, sigma^2 I)``; ``scale`` is in units of the mean gradient.

    Formal guarantee
    ----------------
    See :class:`privopt.privacy.ObjectivePerturbationDpEvent`, for the exact minimiser.
    """

    __slots__ = ()

    query: PerturbedMinimiser  # the type that ``check_fields`` requires

    def event(self, relation: Relation) -> ObjectivePerturbationDpEvent:
        """Return the event of one exact minimiser."""
        record_sensitivity = self.query.gradient.sensitivity(relation) / Relation(relation).multiple
        return ObjectivePerturbationDpEvent(
            noise_multiplier(self.scale, record_sensitivity), self.query.jacobian
        )


class NormLaplaceObjectivePerturbation(NormLaplaceNoise[PerturbedMinimiser]):
    """Linear term ``t`` with density ``~ exp(-|t|_2/beta)``; ``scale`` as for Gaussian terms.

    Formal guarantee
    ----------------
    ``ln(1 + H / (lambda n)) + s/beta``-DP, ``s`` the sensitivity of the mean gradient, for the
    exact minimiser: the determinants as in :class:`privopt.privacy.ObjectivePerturbationDpEvent`,
    the density by the triangle inequality. Source: Chaudhuri, Monteleoni and Sarwate 2011, Theorem
    9, which counts the determinant twice.
    """

    __slots__ = ()

    query: PerturbedMinimiser  # the type that ``check_fields`` requires

    def event(self, relation: Relation) -> DpEvent:
        """Return the event of one exact minimiser."""
        sensitivity = self.query.gradient.sensitivity(relation)
        if noise_multiplier(self.scale, sensitivity) == 0.0 or self.query.jacobian == math.inf:
            return NonPrivateDpEvent()
        return pure_event((self.query.jacobian + sensitivity / self.scale) * _ROUND_OFF)


class ObjectivePerturbationAnalysis(NamedTuple):
    """Noise scale of a theorem about the exact minimiser of a perturbed objective.

    It is only a proposal. The guarantee is always computed by the accountants from the noise that
    is added. The older proposals are kept as baselines.

    Attributes
    ----------
    pure : bool or None
        True for pure DP and norm-Laplace noise, False for Gaussian noise, None for both.
    scale : callable
        ``(query, budget) -> scale`` of the noise, in units of the mean gradient; infinite if no
        noise suffices.
    least : callable
        ``(problem_class, budget) -> lambda``, the smallest regularisation of the theorem.
    """

    pure: bool | None
    scale: Callable[[PerturbedMinimiser, Budget], float]
    least: Callable[[ProblemClass, Budget], float]


def _tight(query: PerturbedMinimiser, budget: Budget, determinants: float = 1.0) -> float:
    """Solve ``2 delta_G(epsilon - J; s/sigma) = delta`` or ``J + s/beta = epsilon``.

    ``J`` is the jacobian, times the number of determinants that an analysis counts.
    """
    remaining = budget.epsilon - determinants * query.jacobian
    if not remaining > 0.0:
        return math.inf
    sensitivity = query.gradient.sensitivity(budget.relation)
    return sensitivity / (
        remaining if budget.delta == 0.0 else gaussian_mu(remaining, 0.5 * budget.delta)
    )


def _tight_least(problem_class: ProblemClass, budget: Budget, determinants: float = 1.0) -> float:
    """Solve ``J = epsilon``."""
    return _curvature(problem_class) / math.expm1(min(budget.epsilon / determinants, 700.0))


def _kifer(query: PerturbedMinimiser, budget: Budget) -> float:
    """Return ``sigma = (L/n) sqrt(8 ln(2/delta) + 4 epsilon) / epsilon``, for one record or none.

    Replacing a record is a removal and an addition: half of epsilon, ``delta / (1 +
    e^(epsilon/2))``.
    """
    epsilon, delta = budget.epsilon, budget.delta
    if budget.relation is Relation.REPLACE_ONE:
        epsilon, delta = 0.5 * epsilon, delta / (1.0 + math.exp(min(0.5 * epsilon, 600.0)))
    record_sensitivity = query.gradient.sensitivity(budget.relation) / budget.relation.multiple
    return record_sensitivity * math.sqrt(8.0 * math.log(2.0 / delta) + 4.0 * epsilon) / epsilon


def _kifer_least(problem_class: ProblemClass, budget: Budget) -> float:
    """Return ``lambda n = 2 H / epsilon``, with the epsilon of one record."""
    return 2.0 * _curvature(problem_class) * budget.relation.multiple / budget.epsilon


def _iyengar(query: PerturbedMinimiser, budget: Budget) -> float:
    """Return ``sigma = s (1 + sqrt(2 ln(1/delta))) / (epsilon - e)``, ``e`` for the determinant."""
    sensitivity = query.gradient.sensitivity(budget.relation)
    remaining = budget.epsilon - _determinant_share(budget)
    return sensitivity * (1.0 + math.sqrt(-2.0 * math.log(budget.delta))) / remaining


def _iyengar_least(problem_class: ProblemClass, budget: Budget) -> float:
    """Return ``lambda n = 2 H / e``."""
    return 2.0 * _curvature(problem_class) / _determinant_share(budget)


def _determinant_share(budget: Budget) -> float:
    """Return ``e = min(epsilon, 1)/2``; the theorem allows every value below 1 and epsilon."""
    return 0.5 * min(budget.epsilon, 1.0)


def _curvature(problem_class: ProblemClass) -> float:
    """Return ``H/n``; 0 if ``H`` is not declared, which the query rejects."""
    return (problem_class.smoothness or 0.0) / problem_class.n


OBJECTIVE_PERTURBATION_ANALYSES: Mapping[str, ObjectivePerturbationAnalysis] = MappingProxyType(
    {
        "tight": ObjectivePerturbationAnalysis(None, _tight, _tight_least),
        "chaudhuri": ObjectivePerturbationAnalysis(
            True, partial(_tight, determinants=2.0), partial(_tight_least, determinants=2.0)
        ),
        "kifer": ObjectivePerturbationAnalysis(False, _kifer, _kifer_least),
        "iyengar": ObjectivePerturbationAnalysis(False, _iyengar, _iyengar_least),
    }
)
"""By name: ``tight`` of ``ObjectivePerturbationDpEvent``; Chaudhuri, Monteleoni and Sarwate 2011,
Theorem 9; Kifer, Smith and Thakurta 2012; Iyengar et al. 2019."""
