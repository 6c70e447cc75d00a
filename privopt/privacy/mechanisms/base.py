"""The interface of a release, and compositions of releases.

``Release`` states the privacy of one kind of release, for every accountant. Compositions add the
quantities of their releases. Filters and odometers add costs: ``mu^2`` of Gaussian DP, or ``rho``
of zero-concentrated DP. A cost is known before the release is run and bounds it for all data.

Sources: Dong, Roth and Su 2022 (arXiv:1905.02383); Bun and Steinke 2016 (arXiv:1605.02065).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import ClassVar, NamedTuple, TypeAlias, TypeVar

import dp_accounting as dp
import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from privopt.arguments import checked
from privopt.privacy.events import pure_event
from privopt.privacy.flatten import flatten, repeat
from privopt.privacy.numbers import (
    SMALLEST,
    Array,
    Interval,
    check_delta,
    check_epsilon,
    half_square,
    is_noise,
    weighted_sum,
)
from privopt.privacy.pairs import EVERYTHING, NOTHING, DiscretePair, GaussianPair, Pair, PurePair
from privopt.privacy.renyi import check_orders
from privopt.privacy.renyi_moments import pure_divergence
from privopt.spec import Relation

Curve: TypeAlias = Callable[[Array], Array]
"""Upper bounds of the Rényi divergences at an array of orders."""
Answer = TypeVar("Answer")
Cost: TypeAlias = Fraction | float
"""Exact, or a float rounded up; infinite if no budget suffices."""

UP = 1.0 + 2.0**-50
MAX_DISTANCE = 1e4  # larger distances in standard deviations, or losses, reveal everything
MIN_DISTANCE = 1e-100  # the squares of smaller ones underflow
_ROUNDING = 2.0**-49  # relative, for a handful of float operations


class Shift(NamedTuple):
    """``times`` Gaussian releases with a shift of ``multiple / noise`` standard deviations each."""

    multiple: int
    noise: float
    times: int = 1

    @property
    def distance(self) -> float:
        """``sqrt(times) multiple / noise``, to a relative ``2^-51``."""
        if self.times == 0 or math.isinf(self.noise):
            return 0.0
        return self.multiple / self.noise * math.sqrt(self.times) if self.noise else math.inf

    @property
    def square(self) -> Cost:
        """``times (multiple / noise)^2``, exactly."""
        if self.times == 0 or math.isinf(self.noise):
            return 0.0
        if self.noise == 0.0:
            return math.inf
        return self.times * (Fraction(self.multiple) / Fraction(self.noise)) ** 2


class LargestLoss(NamedTuple):
    """The largest loss of a release, and the probability of its most typical outcomes.

    Attributes
    ----------
    most : Cost
        An upper bound of the loss of any two neighbours.
    least : float
        A lower bound of the largest loss of some two neighbours, to a relative ``2^-50``.
    typical : float
        A lower bound of the probability of the largest loss of these two neighbours.
    """

    most: Cost
    least: float = 0.0
    typical: float = 1.0


class Concentration(NamedTuple):
    """``D_alpha <= xi + rho alpha`` at every order ``alpha > 1``."""

    rho: Cost
    xi: Cost = 0.0


class Release:
    """The privacy of one kind of release: a frozen dataclass of the parameters of its event.

    The methods return proved bounds under each relation, or None. ``shifts`` or ``loss``
    suffices: all other methods have defaults that follow from them. Override those for which a
    theorem gives a better bound. Samplers call the methods of their inner release.

    Registration makes the kind known to every accountant, filter and export::

        @dataclass(frozen=True)
        class Mine(Release, event=MyDpEvent, parameters=("noise_multiplier",)):
            noise: float

    Formal guarantee
    ----------------
    Every mechanism that the event describes has the stated quantities between any two neighbours
    under the relation, in either order.
    """

    # True if the release may be run on a random sample, whose records have no fixed position.
    samples: ClassVar[bool] = True
    # True if noise is added to a sum: opposite records of full norm then attain the pairs.
    additive: ClassVar[bool] = False
    # True if the event has the same meaning in dp-accounting, under every relation.
    neutral: ClassVar[bool] = False

    _parameters: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(
        cls, *, event: type[dp.DpEvent] | None = None, parameters: tuple[str, ...] = ()
    ) -> None:
        """Register the class for ``event``; ``parameters`` are its fields in ``[0, inf]``."""
        super().__init_subclass__()
        cls._parameters = parameters
        if event is not None:
            _READERS[event] = cls

    @classmethod
    def read(cls, event: dp.DpEvent) -> Release | None:
        """Return the release of an event, or None if a parameter is invalid."""
        values = [getattr(event, name) for name in cls._parameters]
        return cls(*map(float, values)) if all(map(is_noise, values)) else None

    def shifts(self, relation: Relation) -> tuple[Shift, ...] | None:
        """Return the Gaussian releases that are exactly equivalent for the worst data."""
        return None

    def loss(self, relation: Relation) -> LargestLoss | None:
        """Return the largest privacy loss of a pure release."""
        return None

    def pairs(self, relation: Relation) -> tuple[Pair, Pair] | None:
        """Return the dominating pairs: a record removed, and added; the same object if they agree.

        Each dominates in its own order of neighbours, in the sense of ``Pair``.
        """
        pair = self.pair(relation)
        return None if pair is None else (pair, pair)

    def pair(self, relation: Relation) -> Pair | None:
        """Return the pair that dominates in both orders of neighbours."""
        if (shifts := self.shifts(relation)) is not None:
            return gaussian_pair(shifts)
        if (loss := self.loss(relation)) is not None:
            return pure_pair(round_up_cost(loss.most), exact=False)
        return None

    def renyi(self, relation: Relation) -> Curve | None:
        """Return upper bounds of the Rényi divergences."""
        if (shifts := self.shifts(relation)) is not None:
            return partial(
                _linear_divergence, sum(half_square(each.distance) for each in shifts) * UP
            )
        if (loss := self.loss(relation)) is not None:
            return partial(pure_divergence, round_up_cost(loss.most))
        return None

    def orders(self) -> tuple[float, ...]:
        """Return the orders at which the divergences jump to an unknown value."""
        return ()

    def zcdp(self, relation: Relation) -> Concentration | None:
        """Return ``(rho, xi)`` of zero-concentrated privacy.

        A pure release has ``rho = epsilon tanh(epsilon / 2)``, the smallest possible ``rho``:
        :ref:`Accountants, Theorem 7 <theory-accountants-7>`.
        """
        if (shifts := self.shifts(relation)) is not None:
            squares = [each.square for each in shifts]
            whole = squares[0] if len(squares) == 1 else math.fsum(map(round_up_cost, squares)) * UP
            return Concentration(whole / 2)
        if (loss := self.loss(relation)) is not None:
            t = round_up_cost(loss.most)
            if t in (0.0, math.inf):
                return Concentration(t)
            return Concentration(max(t * math.tanh(0.5 * t) * (1.0 + _ROUNDING), SMALLEST))
        return None

    def grouped(self, size: int, relation: Relation) -> dp.DpEvent | None:
        """Return the event for groups of up to ``size >= 1`` records that change together.

        A ``mu``-GDP release is ``size mu``-GDP for groups, and losses add up.
        Source: Dong, Roth and Su, JRSS-B 2022 (arXiv:1905.02383), Theorem 2.14.
        """
        if (shifts := self.shifts(relation)) is not None:
            mu = math.hypot(*(each.distance for each in shifts)) * size * UP
            return dp.GaussianDpEvent(relation.multiple / mu / UP if mu > 0.0 else math.inf)
        if (loss := self.loss(relation)) is not None:
            most = round_up_cost(loss.most) * size
            return pure_event(most * UP) if most < math.inf else dp.NonPrivateDpEvent()
        return None

    def replaced(self, rate: float) -> Pair | None:
        """Return the pair of a Poisson sample in which one record is replaced."""
        return None

    def exported(self, relation: Relation) -> dp.DpEvent | None:
        """Return an equivalent event of dp-accounting, which counts a record once.

        It is valid under the relation itself or, for a replaced record, under ``REPLACE_SPECIAL``
        with half the noise.
        """
        if (shifts := self.shifts(relation)) is not None:
            mu = math.hypot(*(each.distance for each in shifts)) * UP
            return dp.GaussianDpEvent(1.0 / mu if mu > 0.0 else math.inf)
        if (loss := self.loss(relation)) is not None:
            most = round_up_cost(loss.most)
            return pure_event(most * UP) if most < math.inf else dp.NonPrivateDpEvent()
        return None


_READERS: dict[type, type[Release]] = {}


def release_of(event: dp.DpEvent) -> Release | None:
    """Return the release that an event describes, or None if its kind or a parameter is unknown."""
    for kind in type(event).__mro__:
        if kind in _READERS:
            return _READERS[kind].read(event)
    return None


def all_or_none(values: Iterable[Answer | None]) -> list[Answer] | None:
    """Return all values as a list, or None if one of them is None."""
    entries = list(values)
    present = [each for each in entries if each is not None]
    return present if len(present) == len(entries) else None


def gaussian_pair(shifts: tuple[Shift, ...]) -> Pair | None:
    """Return the pair of Gaussian releases: distances ``mu_t`` give ``sqrt(sum mu_t^2)``."""
    mu = math.hypot(*(each.distance for each in shifts))
    if mu == 0.0:
        return NOTHING
    if mu < MIN_DISTANCE:
        return None
    if mu <= MAX_DISTANCE:
        return GaussianPair(mu)
    return replace(EVERYTHING, exact=any(each.noise == 0.0 for each in shifts))


def revealing_pair(rate: float, *, exact: bool) -> Pair:
    """Return the pair of a sample that contains the record or its replacement and reveals it."""
    masses = (0.0, 1.0 - rate, rate)
    return DiscretePair(masses, masses[::-1], exact)


def pure_pair(loss: float, *, exact: bool = True) -> Pair:
    """Return the pair of one bit with a largest loss; ``exact`` if it is the release itself."""
    if loss > MAX_DISTANCE:
        return replace(EVERYTHING, exact=exact and math.isinf(loss))
    if loss == 0.0:
        return NOTHING
    pair = PurePair.of(loss)
    return pair if exact else PurePair(pair.loss, exact=False)


def round_up_cost(cost: Cost) -> float:
    """Return a float that is not below ``cost``."""
    if isinstance(cost, float):
        return cost
    try:
        return math.nextafter(float(cost), math.inf) if cost else 0.0
    except OverflowError:
        return math.inf


def _linear_divergence(slope: float, orders: Array) -> Array:
    return orders * slope


Priced: TypeAlias = dp.DpEvent | tuple[float, float]
"""An event, or a pair ``(epsilon, delta)`` for any mechanism with this guarantee."""

_SUM_ROUNDING = 2.0**-48  # relative; a handful of operations, each within a unit or two of 2^-53
COST_UP = 1.0 + 2.0**-49  # for a handful of float operations
_MAX_FLOAT = math.nextafter(math.inf, 0.0)


def collect(
    event: dp.DpEvent, question: Callable[[Release], Answer | None]
) -> list[tuple[Answer, int]] | None:
    """Return the value of ``question`` for each release of a composition, with its multiplicity.

    Return None if a release is unknown or has no value.
    """
    values = []
    for leaf, count in flatten(event):
        release = release_of(leaf)
        value = None if release is None else question(release)
        if value is None:
            return None
        values.append((value, count))
    return values


def compose_shifts(event: dp.DpEvent, relation: Relation) -> list[Shift] | None:
    """Return the Gaussian releases of a composition, or None if it contains another release."""
    parts = collect(event, lambda release: release.shifts(relation))
    if parts is None:
        return None
    return [each._replace(times=each.times * count) for shifts, count in parts for each in shifts]


def group_event(event: dp.DpEvent, size: int, relation: Relation) -> dp.DpEvent | None:
    """Return the composition for groups of up to ``size`` records that change together."""
    parts = collect(event, lambda release: release.grouped(size, relation))
    return None if parts is None else dp.ComposedDpEvent([repeat(*each) for each in parts])


def compose_losses(event: dp.DpEvent, relation: Relation) -> tuple[Interval, float] | None:
    """Return bounds of the largest loss ``E`` of a composition, and a lower bound of ``ln h``.

    ``h`` is the probability that every release has its most typical outcome. Return None unless all
    releases are pure.
    """
    parts = collect(event, lambda release: release.loss(relation))
    if parts is None:
        return None
    least = weighted_sum((loss.least, count) for loss, count in parts)
    most = weighted_sum((round_up_cost(loss.most), count) for loss, count in parts)
    log_typical = weighted_sum(
        (math.log(loss.typical) * (1.0 + _SUM_ROUNDING) - _SUM_ROUNDING, count)
        for loss, count in parts
    )
    if not any(math.isinf(loss.least) for loss, _ in parts):
        least = min(least, _MAX_FLOAT)
    return Interval(least * (1.0 - _SUM_ROUNDING), most * (1.0 + _SUM_ROUNDING)), log_typical


@checked
def renyi_divergence(event: dp.DpEvent, relation: Relation, orders: npt.ArrayLike) -> Array | None:
    """Return upper bounds of the Rényi divergences of ``event``, in either order of neighbours.

    ``orders`` are real, increasing and above one. Return None if no theorem covers a part of the
    event under the relation. Divergences of one order add under composition.

    Formal guarantee
    ----------------
    Every mechanism that ``event`` describes has at most these divergences under ``relation``.

    Source: Mironov 2017 (arXiv:1702.07476), Proposition 1, for composition; the theorem of each
    release is cited in its file.

    Examples
    --------
    >>> renyi_divergence(dp.GaussianDpEvent(2.0), Relation.ZERO_OUT, [2.0, 8.0]).round(6).tolist()
    [0.25, 1.0]
    """
    curve = renyi_curve(event, Relation(relation))
    return None if curve is None else curve(check_orders(orders))


def renyi_orders(event: dp.DpEvent) -> tuple[float, ...]:
    """Return the orders that every grid must contain, because a divergence jumps there."""
    orders_by_release = collect(event, lambda release: release.orders()) or []
    return tuple(order for jumps, _ in orders_by_release for order in jumps)


def renyi_curve(event: dp.DpEvent, relation: Relation) -> Curve | None:
    """Return the divergences of ``event`` as a function of the orders, or None."""
    curves = collect(event, lambda release: release.renyi(relation))
    if curves is None:
        return None
    parts = [(curve, count * UP) for curve, count in curves]

    def composition(orders: Array) -> Array:
        whole = np.zeros_like(orders)
        with np.errstate(over="ignore"):
            for curve, count in parts:
                each = curve(orders)
                whole[each > 0.0] += each[each > 0.0] * count
            return np.asarray(whole * UP)

    return composition


def gaussian_cost(release: Priced, relation: Relation) -> Cost | None:
    """Return ``mu^2`` of a ``mu``-GDP release, or None if no ``mu`` is known.

    Gaussian noise has ``mu = m / z``, and a pure release ``Phi(-mu/2) = 1/(1 + e^epsilon)``:
    :ref:`Accountants, Theorem 5 <theory-accountants-5>`.
    """

    def cost(one: Release) -> Cost | None:
        if (shifts := one.shifts(relation)) is not None:
            return shifts[0].square if len(shifts) == 1 else None
        if (loss := one.loss(relation)) is None:
            return None
        shrink = math.exp(-round_up_cost(loss.most))
        mu = -2.0 * float(ndtri(shrink / (1.0 + shrink)))
        # Near epsilon = 0 the argument is close to one half, and the error is absolute.
        return 0 if loss.most == 0 else (mu * (1.0 + 2.0**-44) + 2.0**-48) ** 2 * COST_UP

    return _compose_cost(cost, release)


def zcdp_cost(release: Priced, relation: Relation) -> Cost | None:
    """Return ``rho`` with ``D_alpha <= rho alpha`` at all orders, or None if none is known."""

    def cost(one: Release) -> Cost | None:
        bound = one.zcdp(relation)
        return bound.rho if bound is not None and bound.xi == 0.0 else None

    return _compose_cost(cost, release)


def _compose_cost(cost_of: Callable[[Release], Cost | None], release: Priced) -> Cost | None:
    """Return the cost of a composition: exact if it repeats one release, otherwise rounded up."""
    if isinstance(release, tuple):
        epsilon, delta = release
        if check_delta(delta) > 0.0:
            return None
        release = pure_event(check_epsilon(epsilon))
    parts: list[tuple[Cost, int]] | None = collect(release, cost_of)
    if parts is None:
        return None
    counts: dict[Cost, int] = {}
    for cost, count in parts:
        counts[cost] = counts.get(cost, 0) + count
    if len(counts) == 1:
        ((cost, count),) = counts.items()
        return Fraction(cost) * count if cost < math.inf else math.inf
    return weighted_sum((round_up_cost(cost), count) for cost, count in counts.items()) * COST_UP
