"""Fourier accountant: epsilon and delta of any composition, certified from both sides.

The privacy-loss distribution of each release is put on a lattice from above and from below,
tilted, composed by the fast Fourier transform, and every error is charged: discretisation,
truncation, wrap-around, rounding.

Sources: Koskela, Jälkö and Honkela, "Computing tight differential privacy guarantees using FFT",
AISTATS 2020 (arXiv:1906.03049), for the method; Gopi, Lee and Wutschitz, "Numerical composition
of differential privacy", NeurIPS 2021 (arXiv:2106.02848), for two-sided bounds; Doroshenko et
al., PoPETs 2022 (arXiv:2207.04380), for the lattice from above; the lattice from below and the
certificates are described where they stand, in ``privopt.privacy.fourier``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

import dp_accounting as dp
import numpy as np
import numpy.typing as npt

from privopt.arguments import shown
from privopt.privacy.flatten import bounding_events, combine_bounds
from privopt.privacy.fourier import (
    AtDelta,
    AtEpsilon,
    Order,
    Parts,
    bounds,
    estimate,
    infinite_mass,
    upper_curve,
)
from privopt.privacy.mechanisms import collect
from privopt.privacy.numbers import Interval, real, square_root
from privopt.privacy.pairs import EVERYTHING, NOTHING, GaussianPair, Pair
from privopt.spec import Relation

_ROUNDING = 2.0**-40  # relative; sums of a few products
_LAST_PLACES = 2.0**-50  # relative; of a root of a sum of squares
_COUNTLESS = 10**300  # releases taken to show everything; floats hardly reach further
_SEEN = replace(EVERYTHING, exact=False)
_REVEALED = "everything may be revealed with a probability not below delta"
_CURVE = 1e-3  # accuracy of a trade-off curve
_BEYOND = 1e-12  # of delta: a curve's steepest lines leave no more to larger losses
_GRID = np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 1000), np.linspace(1.01, 1.25, 25)])


@dataclass(frozen=True)
class Fourier:
    """Compositions of whatever has a dominating pair, heterogeneous ones included.

    Each file of ``privopt.privacy.mechanisms`` says which theorem gives its pair, under which
    relations.

    Parameters
    ----------
    accuracy : float
        Relative width of the interval to aim at, in ``[1e-9, 0.1]``; the mesh follows from it.
        Where the largest transform does not suffice the interval is wider, and still certified.
    two_sided : bool
        Whether lower ends are wanted. Without them a call costs about half.

    Formal guarantee
    ----------------
    As ``Accountant``: upper ends hold for every mechanism described by the event under
    ``relation``. Lower ends are attained by one pair of data sets, known for every release but
    those whose noise is below 1e-4 of the bound and not zero.

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
            for each in bounding_events(event)
        )

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Interval:
        """Certified bounds at any ``delta`` in ``[0, 1)``.

        At ``delta = 0`` the sum of the largest losses, exact but for rounding.
        """
        return combine_bounds(lambda each: self._epsilon(each, relation, delta), self._ends(event))

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Interval:
        return combine_bounds(lambda each: self._delta(each, relation, epsilon), self._ends(event))

    def _ends(self, event: dp.DpEvent) -> tuple[dp.DpEvent, dp.DpEvent]:
        """The bracket of an event; where no lower end is wanted, only what tells more."""
        above, below = bounding_events(event)
        return above, below if self.two_sided else above

    def _epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Interval:
        orders = _orders(event, relation)
        if not orders:
            return Interval(0.0, 0.0)
        infinite = max(infinite_mass(order.dominating) for order in orders)
        if delta == 0.0:
            return _largest_loss(orders)
        if delta <= infinite * (1.0 + _ROUNDING):
            return Interval(self._attained(orders, delta), math.inf, _REVEALED)
        found, largest = self._interval(orders, AtDelta(delta, infinite)), _largest_loss(orders)
        none = found.lower == 0.0 < found.upper and self._may_be_none(orders, delta)
        if none and self._delta(event, relation, 0.0).upper <= delta:
            return Interval(0.0, 0.0)
        upper = min(found.upper, largest.upper)
        return Interval(min(found.lower, upper), upper, found.reason)

    def _delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Interval:
        orders = _orders(event, relation)
        if not orders:
            return Interval(0.0, 0.0)
        if max(infinite_mass(order.dominating) for order in orders) == 1.0:
            attained = all(order.attained is not None for order in orders)
            return Interval(float(attained), 1.0)
        # Beyond the largest loss only infinite ones count.
        beyond = [order for order in orders if _largest_loss((order,)).upper <= epsilon]
        if len(beyond) == len(orders):
            return Interval(0.0, 0.0)
        return self._interval(
            tuple(order for order in orders if order not in beyond), AtEpsilon(epsilon)
        )

    def trade_off(
        self, event: dp.DpEvent, relation: Relation, alphas: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
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
        """A quick guess of epsilon, within a few percent. It proves nothing."""
        orders = _orders(bounding_events(event)[0], relation)
        infinite = max((infinite_mass(order.dominating) for order in orders), default=0.0)
        if not orders:
            return 0.0
        return (
            max(0.0, _estimated(orders, AtDelta(delta, infinite))) if delta > infinite else math.inf
        )

    def _attained(self, orders: tuple[Order, ...], delta: float) -> float:
        """A lower bound by what data sets attain, where what dominates proves nothing."""
        lower = 0.0
        for parts in (order.attained for order in orders if order.attained is not None):
            infinite = infinite_mass(parts)
            if delta < infinite * (1.0 - _ROUNDING):
                return math.inf
            if self.two_sided and delta > infinite * (1.0 + _ROUNDING):
                alone = (Order(parts, parts),)
                lower = max(lower, self._interval(alone, AtDelta(delta, infinite)).lower)
        return lower

    def _may_be_none(self, orders: tuple[Order, ...], delta: float) -> bool:
        """Whether it is worth asking if ``delta`` covers all that can be told apart.

        A lower end of zero says so; if none was wanted, an estimate does.
        """
        return self.two_sided or _estimated(orders, AtEpsilon(0.0)) <= 2.0 * delta

    def _interval(self, orders: tuple[Order, ...], query: AtDelta | AtEpsilon) -> Interval:
        return _bounded(orders, query, self.accuracy, self.two_sided)


@lru_cache(maxsize=1024)
def _bounded(
    orders: tuple[Order, ...], query: AtDelta | AtEpsilon, accuracy: float, two_sided: bool
) -> Interval:
    """Found once, though plans of one noise and other step sizes ask again."""
    return Interval(*bounds(orders, query, accuracy, two_sided))


@lru_cache(maxsize=1024)
def _estimated(orders: tuple[Order, ...], query: AtDelta | AtEpsilon) -> float:
    """The same for an estimate."""
    return estimate(orders, query)


def _orders(event: dp.DpEvent, relation: Relation) -> tuple[Order, ...]:
    """The composition with a record removed and, where that differs, added."""
    removed: Counter[Pair] = Counter()
    added: Counter[Pair] = Counter()
    same = True
    found = collect(event, lambda release: release.pairs(relation))
    assert found is not None, "asked about an event that is not supported"
    for pairs, count in found:
        if pairs[0] is not NOTHING:
            if count > _COUNTLESS:
                removed[_SEEN], added[_SEEN] = 1, 1
                continue
            removed[pairs[0]] += count
            added[pairs[1]] += count
            same = same and pairs[0] is pairs[1]
    if not removed:
        return ()
    return tuple(_order(parts) for parts in ((removed,) if same else (removed, added)))


def _order(parts: Counter[Pair]) -> Order:
    dominating = _merged(parts.items(), 1.0 + _LAST_PLACES)
    attained = [(pair.attained, count) for pair, count in parts.items()]
    known = [(pair, count) for pair, count in attained if pair is not None]
    if len(known) < len(attained):
        return Order(dominating, None)
    return Order(dominating, _merged(known, 1.0 - _LAST_PLACES))


def _merged(parts: Iterable[tuple[Pair, int]], rounding: float) -> Parts:
    """Gaussian releases as one, whose distance is the root of the sum of their squares."""
    bag: Counter[Pair] = Counter()
    squares: list[float] = []
    for pair, count in parts:
        bag[pair] += count
        if isinstance(pair, GaussianPair):
            squares.append(square_root(count) * pair.mu)
    gaussian = [pair for pair in bag if isinstance(pair, GaussianPair)]
    if sum(bag[pair] for pair in gaussian) > 1 and math.isfinite(mu := math.hypot(*squares)):
        for pair in gaussian:
            del bag[pair]
        bag[GaussianPair(mu * rounding)] += 1
    return tuple(sorted(bag.items(), key=repr))


def _largest_loss(orders: tuple[Order, ...]) -> Interval:
    """The essential supremum of the composed loss, in the order where it is larger."""

    def supremum(parts: tuple[tuple[Pair, int], ...] | None) -> float:
        return max(0.0, math.fsum(count * pair.range()[1] for pair, count in parts or ()))

    return Interval(
        max(supremum(order.attained) for order in orders) * (1.0 - _ROUNDING),
        max(supremum(order.dominating) for order in orders) * (1.0 + _ROUNDING),
    )
