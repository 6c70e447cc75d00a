"""Fourier accountant: certified lower and upper bounds for any composition.

The privacy-loss distribution of each release is discretised from above and from below, tilted, and
composed by the fast Fourier transform. All errors are included in the bounds: discretisation,
truncation, wrap-around, rounding.

Sources: Koskela, Jälkö and Honkela 2020 (arXiv:1906.03049), for the method; Gopi, Lee and Wutschitz
2021 (arXiv:2106.02848), for two-sided bounds; Doroshenko et al., PoPETs 2022 (arXiv:2207.04380),
for the lattice from above. The lattice from below and the certificates are derived in
``privopt.privacy.fourier``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import dp_accounting as dp
import numpy as np

from privopt.arguments import shown
from privopt.privacy.flatten import bounding_events, combine_bounds, distinct_bounds
from privopt.privacy.fourier.search import (
    AtDelta,
    AtEpsilon,
    NeighbourOrder,
    Parts,
    bounds,
    estimate,
    infinite_mass,
    largest_loss,
    upper_curve,
)
from privopt.privacy.mechanisms.base import collect
from privopt.privacy.numbers import Array, Interval, real
from privopt.privacy.pairs import NOTHING, GaussianPair, Pair
from privopt.spec import Relation

_ROUNDING = 2.0**-40  # relative; sums of a few products
_LAST_PLACES = 2.0**-50  # relative error of a root of a sum of squares
_REVEALED = "everything may be revealed with a probability not below delta"
_CURVE = 1e-3  # accuracy of a trade-off curve
_BEYOND = 1e-12  # of delta: largest probability of losses above the steepest line of a curve
_GRID = np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 1000), np.linspace(1.01, 1.25, 25)])


@dataclass(frozen=True)
class Fourier:
    """Compositions of releases with a dominating pair, heterogeneous ones included.

    The files of ``privopt.privacy.mechanisms`` cite the theorem of each pair and its relations.

    Parameters
    ----------
    accuracy : float
        Target relative width of the interval, in ``[1e-9, 0.1]``; it determines the mesh. If the
        largest transform does not suffice, the interval is wider and still certified.
    two_sided : bool
        If False, no lower end is computed, which costs about half.

    Formal guarantee
    ----------------
    That of ``Accountant``: upper ends hold for every mechanism that the event describes under
    ``relation``. Lower ends are attained by one pair of data sets. It is known for every release
    except those with positive noise below 1e-4 of the sensitivity.

    Examples
    --------
    >>> import dp_accounting as dp
    >>> step = dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0))
    >>> steps = dp.SelfComposedDpEvent(step, 100)
    >>> spent = Fourier().epsilon(steps, Relation.ADD_OR_REMOVE_ONE, 1e-6)
    >>> round(spent.lower, 2), round(spent.upper, 2)
    (0.95, 0.95)
    """

    accuracy: float = 1e-3
    two_sided: bool = True
    name = "Fourier"
    cites = ("koskela2020", "gopi2021", "doroshenko2022")

    def __post_init__(self) -> None:
        if not 1e-9 <= real("accuracy", self.accuracy) <= 0.1:
            raise ValueError(f"accuracy must lie in [1e-9, 0.1], got {shown(self.accuracy)}")

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        return all(
            collect(each, lambda release: release.pairs(relation)) is not None
            for each in distinct_bounds(event)
        )

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Interval:
        """Return certified bounds at any ``delta`` in ``[0, 1)``.

        At ``delta = 0`` it is the sum of the largest losses, exact up to rounding.
        """
        return combine_bounds(lambda each: self._epsilon(each, relation, delta), self._ends(event))

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Interval:
        return combine_bounds(lambda each: self._delta(each, relation, epsilon), self._ends(event))

    def _ends(self, event: dp.DpEvent) -> tuple[dp.DpEvent, dp.DpEvent]:
        """Return the bounding events; only the less private one if no lower end is computed."""
        less_private, more_private = bounding_events(event)
        return less_private, more_private if self.two_sided else less_private

    def _epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Interval:
        orders = _orders(event, relation)
        if not orders:
            return Interval(0.0, 0.0)
        infinite = max(infinite_mass(order.dominating) for order in orders)
        if delta == 0.0:
            return _largest_loss(orders)
        if delta <= infinite * (1.0 + _ROUNDING):
            return Interval(self._attained(orders, delta), math.inf, _REVEALED)
        interval, largest = self._interval(orders, AtDelta(delta, infinite)), _largest_loss(orders)
        may_be_zero = interval.lower == 0.0 < interval.upper and self._may_be_zero(orders, delta)
        if may_be_zero and self._delta(event, relation, 0.0).upper <= delta:
            return Interval(0.0, 0.0)
        upper = min(interval.upper, largest.upper)
        return Interval(min(interval.lower, upper), upper, interval.reason)

    def _delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Interval:
        orders = _orders(event, relation)
        if not orders:
            return Interval(0.0, 0.0)
        if max(infinite_mass(order.dominating) for order in orders) == 1.0:
            attained = all(order.attained is not None for order in orders)
            return Interval(float(attained), 1.0)
        # Beyond the largest loss only infinite ones count.
        bounded = [order for order in orders if _largest_loss((order,)).upper <= epsilon]
        if len(bounded) == len(orders):
            return Interval(0.0, 0.0)
        return self._interval(
            tuple(order for order in orders if order not in bounded), AtEpsilon(epsilon)
        )

    def trade_off(self, event: dp.DpEvent, relation: Relation, alphas: Array) -> Array:
        event = bounding_events(event)[0]
        orders = _orders(event, relation)
        if not orders:
            return 1.0 - alphas
        infinite = max(infinite_mass(order.dominating) for order in orders)
        if infinite == 1.0:
            return np.zeros_like(alphas)
        delta = min(infinite * (1.0 + 1e-6) + _BEYOND, 1.0 - 2.0**-53)
        largest = self.epsilon(event, relation, delta).upper
        epsilons = _GRID * (largest if math.isfinite(largest) else 50.0)
        deltas = upper_curve(orders, epsilons, _CURVE)
        flat = alphas.reshape(-1, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            steep = 1.0 - deltas - np.exp(epsilons) * flat
            mirrored = np.exp(-epsilons) * (1.0 - deltas - flat)
        lines = np.fmax(steep, mirrored).max(axis=1) - 4.0 * _ROUNDING
        return np.asarray(np.maximum(lines, 0.0).reshape(alphas.shape))

    def estimate(self, event: dp.DpEvent, relation: Relation, delta: float) -> float:
        """Return an estimate of epsilon, within a few percent. It is not certified."""
        orders = _orders(bounding_events(event)[0], relation)
        infinite = max((infinite_mass(order.dominating) for order in orders), default=0.0)
        if not orders:
            return 0.0
        return (
            max(0.0, _estimated(orders, AtDelta(delta, infinite))) if delta > infinite else math.inf
        )

    def _attained(self, orders: tuple[NeighbourOrder, ...], delta: float) -> float:
        """Return a lower bound from attained pairs, if the dominating pairs give no upper bound."""
        lower = 0.0
        for parts in (order.attained for order in orders if order.attained is not None):
            infinite = infinite_mass(parts)
            if delta < infinite * (1.0 - _ROUNDING):
                return math.inf
            if self.two_sided and delta > infinite * (1.0 + _ROUNDING):
                attained_order = (NeighbourOrder(parts, parts),)
                lower = max(lower, self._interval(attained_order, AtDelta(delta, infinite)).lower)
        return lower

    def _may_be_zero(self, orders: tuple[NeighbourOrder, ...], delta: float) -> bool:
        """Return True if ``delta`` may exceed the total variation distance.

        The criterion is a lower end of zero or, without lower ends, an estimate.
        """
        return self.two_sided or _estimated(orders, AtEpsilon(0.0)) <= 2.0 * delta

    def _interval(self, orders: tuple[NeighbourOrder, ...], query: AtDelta | AtEpsilon) -> Interval:
        return _bounded(orders, query, self.accuracy, self.two_sided)


@lru_cache(maxsize=1024)
def _bounded(
    orders: tuple[NeighbourOrder, ...], query: AtDelta | AtEpsilon, accuracy: float, two_sided: bool
) -> Interval:
    """Return cached bounds, which are shared by plans with the same noise."""
    return Interval(*bounds(orders, query, accuracy, two_sided))


@lru_cache(maxsize=1024)
def _estimated(orders: tuple[NeighbourOrder, ...], query: AtDelta | AtEpsilon) -> float:
    return estimate(orders, query)


def _orders(event: dp.DpEvent, relation: Relation) -> tuple[NeighbourOrder, ...]:
    """Return the composition with a record removed and, if different, with a record added."""
    removed: Counter[Pair] = Counter()
    added: Counter[Pair] = Counter()
    same = True
    pairs_by_release = collect(event, lambda release: release.pairs(relation))
    assert pairs_by_release is not None, "the event must be supported"
    for pairs, count in pairs_by_release:
        if pairs[0] is not NOTHING:
            removed[pairs[0]] += count
            added[pairs[1]] += count
            same = same and pairs[0] is pairs[1]
    if not removed:
        return ()
    return tuple(_order(parts) for parts in ((removed,) if same else (removed, added)))


def _order(parts: Counter[Pair]) -> NeighbourOrder:
    dominating = _merged(parts.items(), 1.0 + _LAST_PLACES)
    attained = [(pair.attained, count) for pair, count in parts.items()]
    available = [(pair, count) for pair, count in attained if pair is not None]
    if len(available) < len(attained):
        return NeighbourOrder(dominating, None)
    return NeighbourOrder(dominating, _merged(available, 1.0 - _LAST_PLACES))


def _merged(parts: Iterable[tuple[Pair, int]], rounding: float) -> Parts:
    """Replace Gaussian releases by one; its distance is the root of the sum of squares."""
    bag: Counter[Pair] = Counter()
    squares: list[float] = []
    for pair, count in parts:
        bag[pair] += count
        if isinstance(pair, GaussianPair):
            squares.append(math.sqrt(count) * pair.mu)
    gaussian = [pair for pair in bag if isinstance(pair, GaussianPair)]
    if sum(bag[pair] for pair in gaussian) > 1 and math.isfinite(mu := math.hypot(*squares)):
        for pair in gaussian:
            del bag[pair]
        bag[GaussianPair(mu * rounding)] += 1
    return tuple(sorted(bag.items(), key=repr))


def _largest_loss(orders: tuple[NeighbourOrder, ...]) -> Interval:
    """Return bounds of the essential supremum of the composed loss, in the worse order."""
    attained = (largest_loss(order.attained or ()) for order in orders)
    dominating = (largest_loss(order.dominating) for order in orders)
    return Interval(
        max(0.0, *attained) * (1.0 - _ROUNDING), max(0.0, *dominating) * (1.0 + _ROUNDING)
    )
