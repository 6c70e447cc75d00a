"""Tilts: noise inside the objective, of which the minimiser is released; and how much they need."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from dp_accounting import DpEvent, NonPrivateDpEvent
from jax import Array
from jax.typing import DTypeLike

from privopt import draws
from privopt.arguments import instance
from privopt.convex import EmpiricalRisk
from privopt.mechanisms.calibration import noise_multiplier
from privopt.mechanisms.minimisers import InexactMinimiser, steps_to_gain
from privopt.mechanisms.queries import ClippedGradient
from privopt.privacy import ObjectivePerturbationDpEvent, gaussian_mu, pure_event
from privopt.release import release
from privopt.spec import Budget, Premises, ProblemClass, Relation

_ROUND_OFF = 1.0 + 2.0**-48
_RESOLUTION = 1e-13  # of the distance L/lambda that data can move a minimiser


class PerturbedMinimiser(NamedTuple):
    """``argmin_W F(w) + (lambda/2)|w - c|^2 + <t, w>`` for a given tilt ``t``.

    ``F`` is the mean of generalised linear losses with slopes clipped so that no gradient exceeds
    ``L``: clipping the slope of a convex loss of one prediction gives another, no more curved.
    The answer is within ``error`` of the exact minimiser, for all data and tilts
    (:class:`InexactMinimiser`), and that distance is charged.

    Attributes
    ----------
    gradient : ClippedGradient
        Of ``F``; its ``size`` is the public divisor ``n``.
    regularisation : float
        ``lambda > 0``, in every coordinate: no intercept goes without.
    smoothness : float
        ``H`` of every record's loss: ``f'' |x|^2``, the square of the record's norm included.
    radius : float
        ``R``: the constraint set lies in a ball of this radius.
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
        """The query for a class of problems, solved to ``relative_error`` of ``L/(lambda n)``.

        By default to ``1e-5/n`` of it: the noise that hides the error then costs less than the
        tilt by orders of magnitude. No smaller than ``1e-12 L/lambda``, which float64 resolves.
        """
        instance("problem_class", problem_class, ProblemClass)
        if problem_class.smoothness is None:
            raise ValueError(
                "smoothness must be declared: a kink holds the minimiser where it is, whatever "
                "the tilt, and shows the record it belongs to; got None"
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
        """The steps that end within ``tau`` for all data and tilts; infinite where none do.

        The start ``w_0`` and the minimiser ``w*`` are ``r <= min(2R, L/lambda)`` apart, and what
        the linear rate of :func:`privopt.convex.accelerated_descent` starts from is at most
        ``F(w_0) - F(w*) <= L r``, since ``w_0`` minimises the rest; it must end below
        ``lambda tau^2 / 2``.
        """
        if not (self.regularisation > 0.0 and self.error > 0.0 and self.radius > 0.0):
            return math.inf
        lipschitz = self.gradient.clip
        reach = min(2.0 * self.radius, lipschitz / self.regularisation)
        ratio = 2.0 * lipschitz * reach / (self.regularisation * self.error**2)
        whole = self.smoothness + self.regularisation
        return steps_to_gain(math.log(ratio), self.regularisation, whole)

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
        """``2 tau`` under every relation: between neighbours, given where both should have been.

        Given the exact minimiser, each computed one is within ``tau`` of it; wherever, after too
        few steps.
        """
        del relation
        return 2.0 * self.error if self.needed_steps <= self.steps else math.inf

    def premises(self, relation: Relation) -> Premises:
        """Convex losses of one linear prediction, with ``H``; clipping enforces ``L``."""
        return self.gradient.premises(relation) & Premises(
            convex=True,
            smoothness=self.smoothness,
            radius=self.radius,
            n=self.gradient.size,
            requires=frozenset({"linear_model"}),
        )

    def minimiser_of(self, objective: EmpiricalRisk) -> Callable[[Array, Array], Array]:
        """``(centre, tilt) -> minimiser`` on the device."""
        minimisation = InexactMinimiser(
            self.regularisation,
            self.regularisation,
            self.smoothness + self.regularisation,
            self.error,
            self.steps,
        )
        return lambda centre, tilt: minimisation.solve(self.gradient, objective, centre, tilt)


class GaussianObjectivePerturbation(NamedTuple):
    """``t ~ N(0, sigma^2 I)``.

    ``scale`` is ``sigma``, in units of the mean gradient and representable in float32.

    Formal guarantee
    ----------------
    That of :class:`privopt.privacy.ObjectivePerturbationDpEvent`, for the exact minimiser.
    """

    query: PerturbedMinimiser
    scale: float

    def event(self, relation: Relation) -> ObjectivePerturbationDpEvent:
        """What one exact minimiser does to privacy."""
        moved = self.query.gradient.sensitivity(relation) / Relation(relation).multiple
        return ObjectivePerturbationDpEvent(
            noise_multiplier(self.scale, moved), self.query.jacobian
        )

    def draw(self, key: Array, dim: int, dtype: DTypeLike) -> Array:
        """A tilt, shape ``(dim,)``."""
        return release("noise", self.scale * draws.normal(key, (dim,), dtype))

    def second_moment(self, dim: int) -> float:
        """``E |t|^2 = d sigma^2``."""
        return dim * self.scale**2


class NormLaplaceObjectivePerturbation(NamedTuple):
    """``t`` with density proportional to ``exp(-|t|_2 / beta)``.

    ``scale`` is ``beta``, in units of the mean gradient and representable in float32.

    Formal guarantee
    ----------------
    ``ln(1 + H / (lambda n)) + s/beta``-DP, ``s`` the sensitivity of the mean gradient, for the
    exact minimiser: the determinants as in
    :class:`privopt.privacy.ObjectivePerturbationDpEvent`, the density by the triangle inequality.
    Source: Chaudhuri, Monteleoni and Sarwate 2011, Theorem 9, which counts the determinant twice.
    """

    query: PerturbedMinimiser
    scale: float

    def event(self, relation: Relation) -> DpEvent:
        """What one exact minimiser does to privacy."""
        moved = self.query.gradient.sensitivity(relation)
        if noise_multiplier(self.scale, moved) == 0.0 or self.query.jacobian == math.inf:
            return NonPrivateDpEvent()
        return pure_event((self.query.jacobian + moved / self.scale) * _ROUND_OFF)

    def draw(self, key: Array, dim: int, dtype: DTypeLike) -> Array:
        """A tilt, shape ``(dim,)``: uniform direction, radius ``Gamma(d, beta)``."""
        return release("noise", self.scale * draws.norm_laplace(key, dim, dtype))

    def second_moment(self, dim: int) -> float:
        """``E |t|^2 = d (d + 1) beta^2``."""
        return dim * (dim + 1.0) * self.scale**2


class ObjectivePerturbationAnalysis(NamedTuple):
    """A theorem about the exact minimiser of a tilted objective: how much noise a tilt needs.

    It only proposes. What is promised is always what the accountants prove of the noise that was
    added; the older proposals are kept to be compared with.

    Attributes
    ----------
    pure : bool or None
        Whether it speaks of pure DP and norm-Laplace tilts, or of Gaussian ones; None: of both.
    scale : callable
        ``(query, budget) -> scale`` of the tilt, in units of the mean gradient; infinite where
        no noise suffices.
    least : callable
        ``(problem_class, budget) -> lambda`` below which the theorem says nothing.
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
