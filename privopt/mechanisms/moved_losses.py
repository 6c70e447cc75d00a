"""Sums of loss differences ``loss(w) - loss(c)`` from a public centre, each clipped to a range.

The difference of a record is clipped to lie between the tangents at both points:

    <g(c), w - c>  <=  loss(w) - loss(c)  <=  <g(w), w - c>,    |g| <= C.

For a convex loss with these gradients that changes nothing, and whatever arithmetic did to the
difference, no record contributes more than ``C |w - c|``. Where round-off of
the two losses exceeds the resolution asked for, the loss is replaced by its tangent at ``c``.
Values are the integrals of the gradients that are returned with them.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from privopt.convex import EmpiricalRisk, LinearRecords, ScalarLoss, ValueAndGradient, norm
from privopt.convex.vectors import Number
from privopt.mechanisms.clipping import bounded_records, is_exact
from privopt.release import Pytree

_HALVINGS = 64
_ROUND_OFF = 16.0  # of a loss, in units in its last place


def moved_loss_sum(
    risk: EmpiricalRisk, clip: Number, centre: Array, radius: Number, resolution: Number
) -> ValueAndGradient:
    """``w -> (sum_i m_i (loss(w; x_i) - loss(c; x_i)), its gradient)``, gradients clipped at ``C``.

    For ``|w - c| <= R``, and no record's value beyond ``C |w - c|``. Non-finite records contribute
    zero.

    *Generalised linear losses* are continued by lines of slope ``+-C/|x_i|`` from where their own
    slopes leave these bounds: for every convex ``phi`` and all data the losses are then convex, and
    ``C``-Lipschitz as functions of ``w``. Where they leave them is found once, by bisection among
    the predictions of ``|w - c| <= R``. The gradient is that of
    :func:`privopt.mechanisms.clipped_gradient_sum`.

    *Any other loss* keeps its range too. Gradients of a loss that is not ``C``-Lipschitz are no
    longer those of a convex function when they are clipped: that it is, is assumed. A record whose
    gradient at ``c`` is not finite contributes zero.

    Parameters
    ----------
    risk : EmpiricalRisk
    clip, radius : Array
        ``C`` and ``R``.
    centre : Array
        ``c``, shape ``(dim,)``.
    resolution : Array
        The computed loss of a record may be so far from a convex function; one whose round-off is
        more is taken to be linear.

    Examples
    --------
    >>> from privopt.convex import WholeSpace
    >>> records = jnp.array([[3.0, 4.0], [0.0, 0.5]])
    >>> risk = EmpiricalRisk(lambda w, x: w @ x, records, None, WholeSpace())
    >>> value, gradient = moved_loss_sum(risk, 1.0, jnp.zeros(2), 1.0, 1e-3)(jnp.array([1.0, 0.0]))
    >>> print(value.round(2), gradient.round(2))
    0.6 [0.6 1.3]
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
