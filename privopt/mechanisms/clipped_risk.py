"""The risk as a bounded query: differences of its values, with every record clipped."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from privopt.arguments import instance, shown
from privopt.convex import EmpiricalRisk, LinearRecords, ScalarLoss, ValueAndGradient, norm
from privopt.convex.vectors import Number
from privopt.mechanisms.clip_factors import is_exact
from privopt.mechanisms.clipping import bounded_records
from privopt.mechanisms.queries import ClippedGradient
from privopt.privacy import round_up
from privopt.release import Pytree
from privopt.spec import Premises, ProblemClass, Relation

_HALVINGS = 64
_ROUND_OFF = 16.0  # of a loss, in units in its last place


def moved_loss_sum(
    risk: EmpiricalRisk, clip: Number, centre: Array, radius: Number, resolution: Number
) -> ValueAndGradient:
    """``w -> (sum_i m_i (loss(w; x_i) - loss(c; x_i)), its gradient)``, gradients clipped at ``C``.

    For ``|w - c| <= R``. The difference of a record is clipped to lie between the tangents at both
    points:

        <g(c), w - c>  <=  loss(w) - loss(c)  <=  <g(w), w - c>,    |g| <= C.

    For a convex loss with these gradients that changes nothing, and whatever arithmetic did to the
    difference, no record contributes more than ``C |w - c|``. Where round-off of the two losses
    exceeds ``resolution``, the loss is replaced by its tangent at ``c``. Values are the integrals
    of the gradients that are returned with them. Non-finite records contribute zero.

    *Generalised linear losses* are continued by lines of slope ``+-C/|x_i|`` from where their own
    slopes leave these bounds: for every convex ``phi`` and all data the losses are then convex, and
    ``C``-Lipschitz as functions of ``w``. Where they leave them is found once, by bisection among
    the predictions of ``|w - c| <= R``. The gradient is that of
    :func:`privopt.mechanisms.clipped_gradient_sum`.

    *Any other loss* keeps its range too. Clipped gradients of a loss that is not ``C``-Lipschitz
    are no longer those of a convex function: that it is, is assumed. A record whose gradient at
    ``c`` is not finite contributes zero.
    """
    if risk.linear is not None:
        return _linear(risk.linear, risk.counts, clip, centre, radius, resolution)
    return _general(risk.loss, risk.data, risk.counts, clip, centre, resolution)


def _linear(
    records: LinearRecords,
    counts: Array | None,
    clip: Number,
    centre: Array,
    radius: Number,
    resolution: Number,
) -> ValueAndGradient:
    loss = records.scalar
    features, labels, bound, norms = bounded_records(records, clip)
    matvec, rmatvec = features.products()
    origin = matvec(centre)

    def slopes(prediction: Array) -> Array:
        found = loss.slope(prediction, labels)
        return jnp.where(jnp.isnan(found), 0.0, jnp.clip(found, -bound, bound))

    low, high = _ends(loss, labels, bound, norms * (norm(centre) + radius))
    base = jnp.clip(origin, low, high)
    anchored = loss.value(base, labels)
    resolved = _resolved(anchored, resolution)
    first, first_held = slopes(origin), slopes(base)

    def moved(point: Array) -> tuple[Array, Array]:
        step = matvec(point - centre)
        prediction = origin + step
        last = jnp.where(resolved, slopes(prediction), first)
        held = jnp.clip(prediction, low, high)
        inside = loss.value(held, labels) - anchored
        inside = _between_tangents(inside, first_held, slopes(held), held - base)
        outside = jnp.abs(prediction - held) - jnp.abs(origin - base)
        outside = jnp.where(outside == 0.0, 0.0, bound * outside)
        losses = _between_tangents(inside + outside, first, last, step)
        weights = jnp.ones_like(losses) if counts is None else counts
        return weights @ losses, rmatvec(weights * last)

    return moved


def _general(
    loss: Callable[[Array, Pytree], Array],
    data: Pytree,
    counts: Array | None,
    clip: Number,
    centre: Array,
    resolution: Number,
) -> ValueAndGradient:
    def clipped(point: Array, example: Pytree) -> tuple[Array, Array]:
        value, gradient = jax.value_and_grad(loss)(point, example)
        size = norm(gradient)
        shrink = clip / size
        shrunk = jnp.minimum(1.0, shrink) * gradient
        return value, jnp.where(is_exact(size, shrink) & (size > 0.0), shrunk, 0.0)

    each = jax.vmap(clipped, (None, 0))
    anchored, first = each(centre, data)
    resolved = _resolved(anchored, resolution)

    def moved(point: Array) -> tuple[Array, Array]:
        values, last = each(point, data)
        last = jnp.where(resolved[:, None], last, first)
        away = point - centre
        rise = first @ away
        losses = _between_tangents(values - anchored, rise, last @ away, jnp.ones_like(rise))
        weights = jnp.ones_like(losses) if counts is None else counts
        return weights @ losses, weights @ last

    return moved


def _ends(loss: ScalarLoss, labels: Array, bound: Array, reach: Array) -> tuple[Array, Array]:
    """Between which predictions of size ``reach`` at most the slope keeps within the bound."""
    # By inverse hyperbolic sines: magnitudes may span three hundred decades.
    ends = jnp.arcsinh(jnp.minimum(reach, jnp.finfo(reach.dtype).max))

    def halve(_: int, brackets: tuple[Array, Array, Array, Array]) -> tuple[Array, ...]:
        below, low, high, above = brackets
        first, second = 0.5 * (below + low), 0.5 * (high + above)
        rising = loss.slope(jnp.sinh(first), labels) >= -bound
        still = loss.slope(jnp.sinh(second), labels) <= bound
        return (
            jnp.where(rising, below, first),
            jnp.where(rising, first, low),
            jnp.where(still, second, high),
            jnp.where(still, above, second),
        )

    _, low, high, _ = jax.lax.fori_loop(0, _HALVINGS, halve, (-ends, ends, -ends, ends))
    low = jnp.where(loss.slope(jnp.sinh(-ends), labels) >= -bound, -jnp.inf, jnp.sinh(low))
    high = jnp.where(loss.slope(jnp.sinh(ends), labels) <= bound, jnp.inf, jnp.sinh(high))
    return low, jnp.maximum(low, high)


def _resolved(losses: Array, resolution: Number) -> Array:
    return _ROUND_OFF * jnp.finfo(losses.dtype).eps * jnp.abs(losses) <= resolution


def _between_tangents(rise: Array, first: Array, last: Array, step: Array) -> Array:
    """``rise`` over a step, kept within what the slopes at its ends allow; the first if NaN."""
    least, most = first * step, last * step
    kept = jnp.clip(jnp.where(jnp.isnan(rise), least, rise), least, most)
    return jnp.where(jnp.isfinite(kept), kept, 0.0)


class ClippedRisk(NamedTuple):
    """The risk as a function of the parameter, every record's loss ``C``-Lipschitz, over public n.

    ``gradient`` is the query whose answers are the gradients of this one; the constraint set lies
    in a ball of ``radius`` ``R``.

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
        """The query for a class of problems of finite radius."""
        instance("problem_class", problem_class, ProblemClass)
        if math.isinf(problem_class.radius):
            raise ValueError("radius must be finite, got inf")
        return cls(ClippedGradient.of(problem_class), round_up(problem_class.radius))

    def sensitivity(self, relation: Relation) -> float:
        """``G``: the difference of two neighbours' risks is ``G``-Lipschitz in the parameter.

        ``2L/n`` under ``replace_one``: the difference of two losses over ``n``. ``L/n`` under
        ``zero_out`` and under ``add_or_remove_one``, where ``n`` is the public design size: a
        single loss over ``n``. Clipping enforces it for generalised linear losses, whatever
        the data; of any other loss it is assumed.
        """
        return self.gradient.sensitivity(relation)

    def range(self, relation: Relation) -> float:
        """``2 R G``: largest minus smallest value of that difference over the constraint set.

        For every loss and all data, as computed: no record contributes more than ``L |w - c|``.
        """
        if not self.radius > 0.0:
            raise ValueError(f"radius must be positive, got {shown(self.radius)}")
        return 2.0 * self.radius * self.sensitivity(relation)

    def premises(self, relation: Relation) -> Premises:
        """Convex, ``L``-Lipschitz losses over the ball of that radius."""
        return self.gradient.premises(relation) & Premises(
            convex=True,
            lipschitz=self.gradient.clip,
            radius=self.radius,
            n=self.gradient.size,
        )

    def risk_of(
        self, objective: EmpiricalRisk, centre: Array, resolution: Number
    ) -> ValueAndGradient:
        """``w -> (F(w) - F(c), gradient)``, each record's loss within ``resolution`` of convex."""
        clip, size = self.gradient.clip, self.gradient.size
        total = moved_loss_sum(objective, clip, centre, self.radius, resolution)

        def risk(point: Array) -> tuple[Array, Array]:
            value, gradient = total(point)
            return value / size, gradient / size

        return risk
