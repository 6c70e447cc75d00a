"""Exponential mechanism over a convex set: exact samples from the Gibbs law of a clipped risk."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from dp_accounting import DpEvent, GaussianDpEvent, NonPrivateDpEvent
from jax import Array
from jaxtyping import Float, Key

from privopt.arguments import instance, positive_number, shown
from privopt.convex import (
    MAX_SAMPLER_DIM,
    Draw,
    EmpiricalRisk,
    ScalarLoss,
    ValueAndGradient,
    enough_proposals,
    norm,
    sample_log_concave,
)
from privopt.convex.arrays import Number
from privopt.mechanisms.calibration import drawable
from privopt.mechanisms.clipping import bounded_records, is_exact
from privopt.mechanisms.queries import ClippedGradient
from privopt.privacy import gaussian_noise_multiplier, pure_event, round_up
from privopt.release import Pytree, release
from privopt.spec import Assumptions, Budget, ProblemClass, Relation

_HALVINGS = 64
_ROUND_OFF = 16.0  # of a loss, in units of its last place


def loss_difference_sum(
    risk: EmpiricalRisk,
    clip_norm: Number,
    centre: Float[Array, " d"],
    radius: Number,
    resolution: Number,
) -> ValueAndGradient:
    """Return ``w -> (sum_i m_i (loss(w; x_i) - loss(c; x_i)), its gradient)``, clipped at ``C``.

    For ``|w - c| <= R``. The loss difference of a record is clipped to the interval between the
    tangents at both points:

        <g(c), w - c>  <=  loss(w) - loss(c)  <=  <g(w), w - c>,    |g| <= C.

    The contribution of a record is at most ``C |w - c|`` for any computed difference
    (:ref:`Perturbation, Theorem 8 <theory-perturbation-8>`). If the round-off of the two losses
    exceeds ``resolution``, the loss is replaced by its tangent at ``c``. Non-finite records
    contribute zero. A generalised linear loss is extended by lines of slope ``+-C/|x_i|`` from the
    points at which its own slope exceeds these bounds, found by bisection among the predictions of
    ``|w - c| <= R``; its gradient is that of :func:`privopt.mechanisms.clipped_gradient_sum`. Any
    other loss is assumed to be ``C``-Lipschitz.
    """
    if risk.linear is None:
        return _general(risk, clip_norm, centre, resolution)
    loss = risk.linear.scalar
    records = bounded_records(risk.linear, clip_norm)
    features, labels, bound = records.features, records.labels, records.bounds
    norms = jnp.nan_to_num(records.norms, nan=0.0)
    matvec, rmatvec = features.products()
    origin = matvec(centre)

    def slopes(prediction: Array) -> Array:
        slope = loss.slope(prediction, labels)
        return jnp.where(jnp.isnan(slope), 0.0, jnp.clip(slope, -bound, bound))

    low, high = _ends(loss, labels, bound, norms * (norm(centre) + radius))
    base = jnp.clip(origin, low, high)
    anchor_loss = loss.value(base, labels)
    is_resolved = _resolved(anchor_loss, resolution)
    first, first_clipped = slopes(origin), slopes(base)

    def loss_and_gradient(point: Array) -> tuple[Array, Array]:
        step = matvec(point - centre)
        prediction = origin + step
        last = jnp.where(is_resolved, slopes(prediction), first)
        clipped = jnp.clip(prediction, low, high)
        inner = loss.value(clipped, labels) - anchor_loss
        inner = _between_tangents(inner, first_clipped, slopes(clipped), clipped - base)
        outer = jnp.abs(prediction - clipped) - jnp.abs(origin - base)
        outer = jnp.where(outer == 0.0, 0.0, bound * outer)
        losses = _between_tangents(inner + outer, first, last, step)
        weights = jnp.ones_like(losses) if risk.counts is None else risk.counts
        return weights @ losses, rmatvec(weights * last)

    return loss_and_gradient


def _general(
    risk: EmpiricalRisk, clip_norm: Number, centre: Array, resolution: Number
) -> ValueAndGradient:
    def clipped(point: Array, example: Pytree) -> tuple[Array, Array]:
        value, gradient = jax.value_and_grad(risk.loss)(point, example)
        size = norm(gradient)
        shrink = clip_norm / size
        shrunk = jnp.minimum(1.0, shrink) * gradient
        return value, jnp.where(is_exact(size, shrink) & (size > 0.0), shrunk, 0.0)

    each = jax.vmap(clipped, (None, 0))
    anchor_loss, first = each(centre, risk.data)
    is_resolved = _resolved(anchor_loss, resolution)

    def loss_and_gradient(point: Array) -> tuple[Array, Array]:
        values, last = each(point, risk.data)
        last = jnp.where(is_resolved[:, None], last, first)
        offset = point - centre
        rise = first @ offset
        losses = _between_tangents(values - anchor_loss, rise, last @ offset, jnp.ones_like(rise))
        weights = jnp.ones_like(losses) if risk.counts is None else risk.counts
        return weights @ losses, weights @ last

    return loss_and_gradient


def _ends(loss: ScalarLoss, labels: Array, bound: Array, reach: Array) -> tuple[Array, Array]:
    """Return the interval of predictions up to ``reach`` with slopes within the bound."""
    # Bisection in the inverse hyperbolic sine: magnitudes may span 300 decades.
    ends = jnp.arcsinh(jnp.minimum(reach, jnp.finfo(reach.dtype).max))

    def halve(_: int, brackets: tuple[Array, Array, Array, Array]) -> tuple[Array, ...]:
        lowest, low, high, highest = brackets
        first, second = 0.5 * (lowest + low), 0.5 * (high + highest)
        rising = loss.slope(jnp.sinh(first), labels) >= -bound
        still = loss.slope(jnp.sinh(second), labels) <= bound
        return (
            jnp.where(rising, lowest, first),
            jnp.where(rising, first, low),
            jnp.where(still, second, high),
            jnp.where(still, highest, second),
        )

    _, low, high, _ = jax.lax.fori_loop(0, _HALVINGS, halve, (-ends, ends, -ends, ends))
    low = jnp.where(loss.slope(jnp.sinh(-ends), labels) >= -bound, -jnp.inf, jnp.sinh(low))
    high = jnp.where(loss.slope(jnp.sinh(ends), labels) <= bound, jnp.inf, jnp.sinh(high))
    return low, jnp.maximum(low, high)


def _resolved(losses: Array, resolution: Number) -> Array:
    return _ROUND_OFF * jnp.finfo(losses.dtype).eps * jnp.abs(losses) <= resolution


def _between_tangents(rise: Array, first: Array, last: Array, step: Array) -> Array:
    """Clip ``rise`` over a step to the interval of the slopes at its ends; the first if NaN."""
    least, most = first * step, last * step
    clipped = jnp.clip(jnp.where(jnp.isnan(rise), least, rise), least, most)
    return jnp.where(jnp.isfinite(clipped), clipped, 0.0)


class ClippedRisk(NamedTuple):
    """Clipped risk as a function of the parameter: every loss is ``C``-Lipschitz; public ``n``.

    ``gradient`` is the query of its gradients; the constraint set is in a ball of ``radius``
    ``R``.

    Examples
    --------
    >>> risk = ClippedRisk.of(ProblemClass(n=1000, dim=2, lipschitz=1.0, radius=3.0))
    >>> round(risk.range(Relation.REPLACE_ONE), 6)
    0.012
    """

    gradient: ClippedGradient
    radius: float

    @classmethod
    def of(cls, problem_class: ProblemClass) -> ClippedRisk:
        """Return the query for a problem class of finite radius."""
        instance("problem_class", problem_class, ProblemClass)
        if math.isinf(problem_class.radius):
            raise ValueError("radius must be finite, got inf")
        return cls(ClippedGradient.of(problem_class), round_up(problem_class.radius))

    def sensitivity(self, relation: Relation) -> float:
        """Return ``G``: the difference of the risks of two neighbours is ``G``-Lipschitz.

        ``2L/n`` under ``replace_one``: the difference of two losses over ``n``. ``L/n`` under
        ``zero_out`` and under ``add_or_remove_one``, with the public design size ``n``: a single
        loss over ``n``. Clipping enforces it for generalised linear losses and all data; it is
        assumed for other losses.
        """
        return self.gradient.sensitivity(relation)

    def range(self, relation: Relation) -> float:
        """Return ``2 R G``, the range of that difference over the constraint set.

        It holds for every computed loss and all data: a record contributes at most ``L |w - c|``.
        """
        if not self.radius > 0.0:
            raise ValueError(f"radius must be positive, got {shown(self.radius)}")
        return 2.0 * self.radius * self.sensitivity(relation)

    def assumptions(self, relation: Relation) -> Assumptions:
        """Return the assumptions: convex, ``L``-Lipschitz losses over the ball of that radius."""
        return self.gradient.assumptions(relation) & Assumptions(
            convex=True,
            lipschitz=self.gradient.clip_norm,
            radius=self.radius,
            n=self.gradient.size,
        )

    def risk_of(
        self, objective: EmpiricalRisk, centre: Float[Array, " d"], resolution: Number
    ) -> ValueAndGradient:
        """Return ``w -> (F(w) - F(c), gradient)``; losses are convex up to ``resolution``."""
        clip_norm, size = self.gradient.clip_norm, self.gradient.size
        total = loss_difference_sum(objective, clip_norm, centre, self.radius, resolution)

        def risk(point: Array) -> tuple[Array, Array]:
            value, gradient = total(point)
            return value / size, gradient / size

        return risk


DIVISION_ROUND_OFF = 1.0 + 2.0**-50  # upper bound for two divisions
MAX_FAILURE = 2.0**-64  # probability that all proposals are rejected
FAILURE_SHARE = 2.0**-30  # fraction of delta that pays for MAX_FAILURE
LOSS_RESOLUTION = 2.0**-20  # of the loss of a record, in units of the temperature
SUM_ROUND_OFF = 2.0**-46  # of products with features and of sums, in units of the largest loss


class GibbsMechanism(NamedTuple):
    """Sample from the density proportional to ``exp(-k (F(w) + (m/2) |w - c|^2))`` on ``W``.

    ``query`` is ``F``, whose difference between neighbours is ``G``-Lipschitz and so of range ``2
    R G``. ``temperature`` is ``1/k``, in units of ``F`` and representable in float32.
    ``regularisation`` is ``m >= 0`` and ``c`` is the centre of the constraint set. If the sampler
    rejects all ``proposals``, the result is ``c``.

    Formal guarantee
    ----------------
    With ``m = 0``: ``2 R G k``-DP under each relation, ``G = query.sensitivity(relation)``. With
    ``m > 0``: ``G sqrt(k/m)``-Gaussian DP, if every loss is convex.

    A sampler that rejects all proposals, with probability ``b <= 2^-64``, adds ``(1 + e^epsilon)
    b`` to delta. With ``m > 0`` the budget pays for it; pure DP holds with probability ``1 -
    2^-64``. The sample is exact for the computed potential, whose range holds for all records. It
    is convex up to ``2^-20`` and the round-off of sums, which is not charged. Proof:
    :ref:`Perturbation, Theorem 8 <theory-perturbation-8>`.

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
        """Return the mechanism of temperature ``range/epsilon`` without a regulariser."""
        temperature = round_up(query.range(budget.relation) / budget.epsilon * DIVISION_ROUND_OFF)
        return cls(query, temperature, 0.0, enough_proposals(query.gradient.dim, MAX_FAILURE))

    @classmethod
    def regularised(
        cls, query: ClippedRisk, budget: Budget, regularisation: float
    ) -> GibbsMechanism:
        """Return the mechanism of the lowest temperature: ``1/k = G^2/(m mu^2)``."""
        regularisation = round_up(regularisation)
        spendable = drawable(budget)
        share = FAILURE_SHARE * spendable.delta
        exact = replace(spendable, delta=spendable.delta - share)
        noise = gaussian_noise_multiplier(exact) / budget.relation.multiple  # 1 / mu
        width = query.sensitivity(budget.relation) * noise
        temperature = round_up(width**2 / regularisation * (1.0 + 1e-12))
        failure = min(MAX_FAILURE, share * math.exp(-budget.epsilon) / 2.0)
        proposals = enough_proposals(query.gradient.dim, failure)
        return cls(query, temperature, regularisation, proposals)

    def event(self, relation: Relation) -> DpEvent:
        """Return the event of one release; no privacy if there are too few proposals."""
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

    def assumptions(self, relation: Relation) -> Assumptions:
        """Return the assumptions of the query; for pure privacy, also that the sampler succeeds."""
        failure = "no draw exhausts its proposals, which has a probability below 2^-64"
        assumed = (failure,) if self.regularisation == 0.0 else ()
        return self.query.assumptions(relation) & Assumptions(besides=assumed)

    def draw(self, key: Key[Array, ""], objective: EmpiricalRisk, *, dim: int) -> Draw:
        """Return an exact sample with its diagnostics; ``dim`` is at most 3."""
        constraint = objective.constraint
        centre = constraint.centre_point(dim, objective.dtype)
        reach = norm(centre) + self.query.radius
        rounded = SUM_ROUND_OFF * self.query.gradient.clip_norm * reach / self.temperature
        sample = sample_log_concave(
            key,
            self.potential(objective, centre),
            constraint,
            dim=dim,
            radius=self.query.radius,
            proposals=self.proposals,
            error=LOSS_RESOLUTION + rounded,
        )
        return sample._replace(point=release("answer", sample.point))

    def potential(self, objective: EmpiricalRisk, centre: Float[Array, " d"]) -> ValueAndGradient:
        """Return ``w -> k (F(w) - F(c) + (m/2) |w - c|^2)`` and its gradient."""
        risk = self.query.risk_of(objective, centre, LOSS_RESOLUTION * self.temperature)

        def potential(point: Array) -> tuple[Array, Array]:
            value, gradient = risk(point)
            offset = point - centre
            value = value + 0.5 * self.regularisation * (offset @ offset)
            gradient = gradient + self.regularisation * offset
            return value / self.temperature, gradient / self.temperature

        return potential
