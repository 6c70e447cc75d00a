"""From events to Rényi divergences: what each kind of release costs at each order."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import dp_accounting as dp
import numpy as np
import numpy.typing as npt
from scipy.special import erf

from privopt.privacy.events import BoundedRangeDpEvent, ObjectivePerturbationDpEvent
from privopt.privacy.leaves import leaves
from privopt.privacy.parameters import is_batch, is_count, is_noise, is_rate, tree_nodes
from privopt.privacy.renyi.orders import check_orders
from privopt.privacy.renyi.pure import bounded_range, laplace, pure, randomised_response
from privopt.privacy.renyi.repeat import best_of_many
from privopt.privacy.renyi.sampled import fixed_size_gaussian, poisson_gaussian
from privopt.privacy.selection import repetitions_of
from privopt.privacy.sums import SMALLEST, half_square, root, times
from privopt.spec import Relation

__all__ = ["Curve", "gaussian_shift", "renyi_curve", "renyi_divergence"]

Array = npt.NDArray[np.float64]
Curve = Callable[[Array], Array]

_UP = 1.0 + 2.0**-50


def renyi_divergence(
    event: dp.DpEvent, relation: Relation, orders: npt.ArrayLike
) -> npt.NDArray[np.float64] | None:
    """Upper bounds of the Rényi divergences of ``event`` between neighbours, in either order.

    Parameters
    ----------
    event : dp_accounting.DpEvent
        A release, or any composition of releases; divergences of one order add up.
    relation : Relation or str
        The neighbouring relation.
    orders : array_like
        Real, increasing, above one.

    Returns
    -------
    array or None
        ``D_alpha``, rounding included, in ``[0, inf]``; None where no theorem covers a part of
        the event under the relation.

    Formal guarantee
    ----------------
    Every mechanism that ``event`` describes has at most these divergences under ``relation``.

    - Gaussian: ``alpha (m/z)^2 / 2``, with ``m = relation.multiple``; a tree aggregation, where a
      record takes part at most once, ``floor(log2 T) + 1`` times that (``replace_one`` and
      ``zero_out``: removing a record from a stream may move the others).
    - Objective perturbation: ``c + alpha s^2 / 2 + ln[2 Phi((alpha - 1) s)] / (alpha - 1)``,
      ``s = m/z``, from the bound of its loss.
    - Laplace (scalar), randomised response, discrete Laplace, bounded range: see ``pure``.
    - Gaussian releases from one Poisson sample, every relation; from one sample without
      replacement, under ``replace_one``. Several from the *same* sample are one with the root of
      the summed squared shifts.
    - ``ZCDpEvent``: ``xi + rho alpha``, or that of any pure release if ``rho = 0``;
      ``RepeatAndSelectDpEvent`` over any of these.

    Source: Mironov, "Rényi differential privacy", CSF 2017 (arXiv:1702.07476), Propositions 1
    and 7, for composition and the Gaussian; the rest is cited where it is computed.

    Raises
    ------
    ValueError
        If the orders are not increasing, finite and above one, or ``relation`` is unknown.
    """
    curve = renyi_curve(event, Relation(relation))
    return None if curve is None else curve(check_orders(orders))


def renyi_curve(event: dp.DpEvent, relation: Relation) -> Curve | None:
    """The divergences of ``event`` as a function of the orders; None where not supported."""
    parts = []
    for leaf, count in leaves(event):
        curve = _leaf_curve(leaf, relation)
        if curve is None:
            return None
        parts.append((curve, times(count, _UP)))

    def composition(orders: Array) -> Array:
        total = np.zeros_like(orders)
        with np.errstate(over="ignore"):
            for curve, count in parts:
                each = curve(orders)
                total[each > 0.0] += each[each > 0.0] * count
            return np.asarray(total * _UP)

    return composition


def gaussian_shift(event: dp.DpEvent) -> float | None:
    """``sqrt(sum 1/z^2)`` of a composition of Gaussian releases, rounded up; None for any other."""
    parts = list(leaves(event))
    if not all(
        isinstance(leaf, dp.GaussianDpEvent) and is_noise(leaf.noise_multiplier)
        for leaf, _ in parts
    ):
        return None
    shifts = (root(count) * _inverse(leaf.noise_multiplier) for leaf, count in parts)
    return math.hypot(*shifts) * _UP


def _leaf_curve(leaf: dp.DpEvent, relation: Relation) -> Curve | None:
    multiple = float(relation.multiple)
    match leaf:
        case dp.GaussianDpEvent(noise_multiplier=z) if is_noise(z):
            return partial(_gaussian, multiple * _inverse(z), 1)
        case dp.SingleEpochTreeAggregationDpEvent(noise_multiplier=z, step_counts=steps):
            nodes = tree_nodes(steps)
            if nodes is None or not is_noise(z) or relation is Relation.ADD_OR_REMOVE_ONE:
                return None
            return partial(_gaussian, multiple * _inverse(z), nodes)
        case ObjectivePerturbationDpEvent(noise_multiplier=z, jacobian=c) if is_noise(
            z
        ) and is_noise(c):
            return partial(_objective, multiple * _inverse(z), float(c))
        case dp.LaplaceDpEvent(noise_multiplier=b) if is_noise(b):
            return partial(laplace, multiple * _inverse(b))
        case dp.RandomizedResponseDpEvent(noise_parameter=p, num_buckets=k):
            if is_rate(p) and is_count(k) and k >= 2:
                return partial(randomised_response, float(p), int(k))
        case dp.dp_event.DiscreteLaplaceDpEvent(noise_parameter=a, sensitivity=bound):
            if is_noise(a) and is_count(bound) and 0.0 < float(a) < math.inf:
                return partial(pure, float(a) * int(bound) * multiple * _UP)
        case BoundedRangeDpEvent(epsilon=span) if is_noise(span):
            return partial(bounded_range, float(span))
        case dp.ZCDpEvent(rho=rho, xi=xi) if is_noise(rho) and is_noise(xi):
            if rho == 0.0:
                return partial(pure, float(xi))
            return partial(_concentrated, float(rho), float(xi))
        case dp.PoissonSampledDpEvent(sampling_probability=q, event=inner) if is_rate(q):
            return _sampled(float(q), inner, replace=relation is Relation.REPLACE_ONE)
        case dp.SampledWithoutReplacementDpEvent(source_dataset_size=n, sample_size=m, event=inner):
            if is_batch(n, m) and relation is Relation.REPLACE_ONE:
                rate = math.nextafter(int(m) / int(n), 1.0) if m else 0.0
                return _sampled(rate, inner, replace=None)
        case dp.dp_event.RepeatAndSelectDpEvent(event=inner):
            base, repetitions = renyi_curve(inner, relation), repetitions_of(leaf)
            if base is not None and repetitions is not None:
                return partial(best_of_many, base, repetitions)
    return None


def _sampled(q: float, inner: dp.DpEvent, *, replace: bool | None) -> Curve | None:
    shift = gaussian_shift(inner)
    if shift is None:
        return None
    least = SMALLEST if q > 0.0 and shift > 0.0 else 0.0

    def curve(orders: Array) -> Array:
        key = tuple(orders.tolist())
        if replace is None:
            return np.maximum(fixed_size_gaussian(q, 2.0 * shift, key), least)
        return np.maximum(poisson_gaussian(q, shift, key, replace=replace), least)

    return curve


def _gaussian(shift: float, nodes: int, orders: Array) -> Array:
    if nodes == 0:
        return np.zeros_like(orders)
    return orders * (half_square(shift) * nodes * _UP)


def _objective(s: float, c: float, orders: Array) -> Array:
    """``ln E e^((alpha - 1) U) / (alpha - 1)``, of which ``E e^(t |Z|) = 2 e^(t^2 / 2) Phi(t)``."""
    power = orders - 1.0
    folded = np.log1p(erf(power * s / math.sqrt(2.0)) * _UP) / power
    return np.asarray((c + 0.5 * s * s * orders + folded) * _UP)


def _concentrated(rho: float, xi: float, orders: Array) -> Array:
    return (xi + rho * orders) * _UP


def _inverse(x: float) -> float:
    return 1.0 / float(x) if x > 0.0 else math.inf
