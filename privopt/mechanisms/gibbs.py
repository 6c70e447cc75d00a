"""The Gibbs law of a risk: the exponential mechanism over a convex set, drawn exactly."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from dp_accounting import DpEvent, GaussianDpEvent, NonPrivateDpEvent
from jax import Array

from privopt.arguments import positive_number, shown
from privopt.convex import (
    MAX_SAMPLER_DIM,
    Draw,
    EmpiricalRisk,
    ValueAndGradient,
    enough_proposals,
    norm,
    sample_log_concave,
)
from privopt.mechanisms.calibration import drawable
from privopt.mechanisms.clipped_risk import ClippedRisk
from privopt.privacy import gaussian_noise_multiplier, pure_event, round_up
from privopt.release import release
from privopt.spec import Budget, Premises, Relation

DIVISION_ROUND_OFF = 1.0 + 2.0**-50  # more than two divisions round by
MAX_FAILURE = 2.0**-64  # probability that all proposals are rejected
FAILURE_SHARE = 2.0**-30  # of delta, for that
LOSS_RESOLUTION = 2.0**-20  # of a record's loss, in units of the temperature
SUM_ROUND_OFF = 2.0**-46  # of products with features and of sums, in units of the largest loss


class GibbsMechanism(NamedTuple):
    """A draw from the density proportional to ``exp(-k (F(w) + (m/2) |w - c|^2))`` on ``W``.

    ``query`` is ``F``, whose difference between neighbours is ``G``-Lipschitz and so of range
    ``2 R G``; ``temperature`` is ``1/k``, in units of ``F`` and representable in float32;
    ``regularisation`` is ``m >= 0`` and ``c`` the centre of the constraint set. After so many
    ``proposals`` of the sampler the draw is ``c``.

    Formal guarantee
    ----------------
    With ``m = 0``: ``2 R G k``-DP under each relation, ``G = query.sensitivity(relation)``. The
    density ratio of neighbours is ``exp(k (F' - F))`` over its own mean, so only the range of
    ``F' - F`` counts, and a constant between ``F`` and ``F'`` does not. With ``m > 0``:
    ``G sqrt(k/m)``-Gaussian DP, if every loss is convex; attained by linear losses without
    constraint, where the draws are Gaussians of variance ``1/(k m)`` whose means differ by
    ``G/m``.

    *Proposals.* On every data set all are rejected with a probability ``b <= 2^-64`` at most, so
    that the law differs from the exact one by no more in total variation, and for every event

        P(S) - e^epsilon P'(S)  <=  delta(epsilon) + (1 + e^epsilon) b,

    ``delta(epsilon)`` that of the exact laws. With ``m > 0`` the budget pays for it: the noise is
    calibrated to a delta smaller by ``2^-30`` of it, and ``(1 + e^epsilon) b`` is below that share.
    Pure differential privacy leaves nothing to pay with: it holds but for ``2^-64``.

    *Arithmetic.* The draw is exact for the potential as it is computed, so the range is all that
    pure privacy rests on, and it holds whatever the records are. Gaussian DP needs convexity too,
    which the computed potential has but for ``2^-20`` and the round-off of sums: that is not
    charged.

    Source: McSherry and Talwar 2007, Theorem 6, through the range; Gopi, Lee and Liu 2022,
    "Private convex optimization via exponential mechanism" (COLT).

    Examples
    --------
    >>> from privopt.spec import ProblemClass
    >>> query = ClippedRisk.of(ProblemClass(n=1000, dim=2, lipschitz=1.0, radius=1.0))
    >>> budget = Budget(epsilon=1.0, delta=0.0, relation="replace_one")
    >>> round(GibbsMechanism.pure(query, budget).temperature, 6)
    0.004
    """

    query: ClippedRisk
    temperature: float
    regularisation: float
    proposals: int

    @classmethod
    def pure(cls, query: ClippedRisk, budget: Budget) -> GibbsMechanism:
        """The lowest temperature within ``budget.epsilon``, without a regulariser.

        ``range/epsilon``, rounded up.
        """
        temperature = round_up(query.range(budget.relation) / budget.epsilon * DIVISION_ROUND_OFF)
        return cls(query, temperature, 0.0, enough_proposals(query.gradient.dim, MAX_FAILURE))

    @classmethod
    def regularised(
        cls, query: ClippedRisk, budget: Budget, regularisation: float
    ) -> GibbsMechanism:
        """The lowest temperature within ``budget``: ``1/k = G^2/(m mu^2)``."""
        regularisation = round_up(regularisation)
        left = drawable(budget)
        share = FAILURE_SHARE * left.delta
        exact = replace(left, delta=left.delta - share)
        noise = gaussian_noise_multiplier(exact) / budget.relation.multiple  # 1 / mu
        width = query.sensitivity(budget.relation) * noise
        temperature = round_up(width**2 / regularisation * (1.0 + 1e-12))
        failure = min(MAX_FAILURE, share * math.exp(-budget.epsilon) / 2.0)
        proposals = enough_proposals(query.gradient.dim, failure)
        return cls(query, temperature, regularisation, proposals)

    def event(self, relation: Relation) -> DpEvent:
        """What one release does to privacy; none of it where proposals may all be rejected."""
        positive_number("temperature", self.temperature)
        if not 0.0 <= self.regularisation < math.inf:
            raise ValueError(
                f"regularisation must be at least 0 and finite, got {shown(self.regularisation)}"
            )
        dim = self.query.gradient.dim
        if not 1 <= dim <= MAX_SAMPLER_DIM:
            raise ValueError(f"dim must be from 1 to {MAX_SAMPLER_DIM}, got {dim}")
        if not self.proposals >= enough_proposals(dim, MAX_FAILURE):
            return NonPrivateDpEvent()
        if self.regularisation == 0.0:
            return pure_event(
                math.nextafter(self.query.range(relation) / self.temperature, math.inf)
            )
        spread = math.sqrt(self.temperature * self.regularisation) * (1.0 - 2.0**-50)
        return GaussianDpEvent(
            Relation(relation).multiple * spread / self.query.sensitivity(relation)
        )

    def premises(self, relation: Relation) -> Premises:
        """Those of the query; and that pure privacy holds but for the sampler's failure."""
        failure = "no draw exhausts its proposals, which has a probability below 2^-64"
        unpaid = (failure,) if self.regularisation == 0.0 else ()
        return self.query.premises(relation) & Premises(besides=unpaid)

    def draw(self, key: Array, objective: EmpiricalRisk, *, dim: int) -> Draw:
        """The release with its diagnostics, exact; ``dim`` at most 3."""
        constraint = objective.constraint
        centre = constraint.centre_point(dim, objective.dtype)
        reach = norm(centre) + self.query.radius
        rounded = SUM_ROUND_OFF * self.query.gradient.clip * reach / self.temperature
        drawn = sample_log_concave(
            key,
            self.potential(objective, centre),
            constraint,
            dim=dim,
            radius=self.query.radius,
            proposals=self.proposals,
            error=LOSS_RESOLUTION + rounded,
        )
        return drawn._replace(point=release("answer", drawn.point))

    def potential(self, objective: EmpiricalRisk, centre: Array) -> ValueAndGradient:
        """``w -> k (F(w) - F(c) + (m/2) |w - c|^2)`` and its gradient."""
        risk = self.query.risk_of(objective, centre, LOSS_RESOLUTION * self.temperature)

        def potential(point: Array) -> tuple[Array, Array]:
            value, gradient = risk(point)
            away = point - centre
            value = value + 0.5 * self.regularisation * (away @ away)
            gradient = gradient + self.regularisation * away
            return value / self.temperature, gradient / self.temperature

        return potential
