"""What is known of one kind of release, in the language of every accountant.

Compositions: what every accountant adds up, asked of one release after the other.

Filters and odometers add costs: ``mu^2`` of Gaussian DP, or ``rho`` of zero-concentrated DP. Each
cost is known before the release is run and bounds it for all data.

Sources: Dong, Roth and Su, "Gaussian differential privacy", JRSS-B 2022 (arXiv:1905.02383); Bun
and Steinke, "Concentrated differential privacy", TCC 2016 (arXiv:1605.02065).
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
    Interval,
    check_delta,
    check_epsilon,
    half_square,
    is_noise,
    multiply,
    square_root,
    weighted_sum,
)
from privopt.privacy.pairs import EVERYTHING, NOTHING, DiscretePair, GaussianPair, Pair, PurePair
from privopt.privacy.renyi import check_orders
from privopt.privacy.renyi_moments import pure_divergence
from privopt.spec import Relation

Array = npt.NDArray[np.float64]
Curve: TypeAlias = Callable[[Array], Array]
"""Upper bounds of the Rényi divergences at an array of orders."""
Answer = TypeVar("Answer")
Cost: TypeAlias = Fraction | float
"""Exact, or a float rounded up; infinity for what no budget can pay."""

UP = 1.0 + 2.0**-50
MAX_DISTANCE = 1e4  # a distance in standard deviations, or a loss, beyond which everything is seen
MIN_DISTANCE = 1e-100  # likewise; squares of less vanish
_ROUNDING = 2.0**-49  # relative, for a handful of float operations


class Shift(NamedTuple):
    """``times`` Gaussian releases, each moved by ``moved / noise`` standard deviations."""

    moved: int
    noise: float
    times: int = 1

    @property
    def distance(self) -> float:
        """``sqrt(times) moved / noise``, to a relative ``2^-51``."""
        if self.times == 0 or math.isinf(self.noise):
            return 0.0
        return self.moved / self.noise * square_root(self.times) if self.noise > 0.0 else math.inf

    @property
    def square(self) -> Cost:
        """``times (moved / noise)^2``, exactly."""
        if self.times == 0 or math.isinf(self.noise):
            return 0.0
        if self.noise == 0.0:
            return math.inf
        return self.times * (Fraction(self.moved) / Fraction(self.noise)) ** 2


class Loss(NamedTuple):
    """The largest loss of a release, and the chance of its most typical outcomes.

    Attributes
    ----------
    most : Cost
        No two neighbours have a loss above it.
    least : float
        Some two have one of at least this, to a relative ``2^-50``.
    typical : float
        With this probability, at least, the outcome has the largest loss of these two.
    """

    most: Cost
    least: float = 0.0
    typical: float = 1.0


class Concentration(NamedTuple):
    """``D_alpha <= xi + rho alpha`` at every order ``alpha > 1``."""

    rho: Cost
    xi: Cost = 0.0


class Release:
    """One release: a frozen dataclass of its numbers, made from its event.

    A kind of release states what is proved of it, under each relation; ``None`` where nothing is.
    Two statements are enough. From ``shifts`` or ``loss`` all other answers follow, and those that
    a theorem makes sharper are overridden. Samplers ask the release that they hold.

    Registration makes the kind known to every accountant, filter and export::

        @dataclass(frozen=True)
        class Mine(Release, event=MyDpEvent, numbers=("noise_multiplier",)):
            noise: float

    Formal guarantee
    ----------------
    Every mechanism that the event describes has the stated quantities between any two
    neighbours under the relation, in either order.
    """

    # Whether a record that is drawn at random may take part: it has no fixed place.
    samples: ClassVar[bool] = True
    # Whether noise is added to a sum: opposite contributions of full norm then attain the pairs.
    additive: ClassVar[bool] = False

    _numbers: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(
        cls, *, event: type[dp.DpEvent] | None = None, numbers: tuple[str, ...] = ()
    ) -> None:
        """Make the class known as the reader of ``event``, by its ``numbers`` in ``[0, inf]``."""
        super().__init_subclass__()
        cls._numbers = numbers
        if event is not None:
            _READERS[event] = cls

    @classmethod
    def read(cls, event: dp.DpEvent) -> Release | None:
        """The release of an event; ``None`` if a number in it makes no sense."""
        values = [getattr(event, name) for name in cls._numbers]
        return cls(*map(float, values)) if all(map(is_noise, values)) else None

    def shifts(self, relation: Relation) -> tuple[Shift, ...] | None:
        """The Gaussian releases that it amounts to, exactly, for the worst data."""
        return None

    def loss(self, relation: Relation) -> Loss | None:
        """Its largest privacy loss, of a pure release."""
        return None

    def pairs(self, relation: Relation) -> tuple[Pair, Pair] | None:
        """The pairs that dominate it: a record removed, and added; one object if they agree.

        Each dominates in its own order of neighbours, in the sense of ``Pair``.
        """
        pair = self.pair(relation)
        return None if pair is None else (pair, pair)

    def pair(self, relation: Relation) -> Pair | None:
        """The pair that dominates it in both orders of neighbours."""
        if (shifts := self.shifts(relation)) is not None:
            return gaussian_pair(shifts)
        if (loss := self.loss(relation)) is not None:
            return pure_pair(round_up_cost(loss.most), exact=False)
        return None

    def renyi(self, relation: Relation) -> Curve | None:
        """Upper bounds of its Rényi divergences."""
        if (shifts := self.shifts(relation)) is not None:
            return partial(
                _linear_divergence, sum(half_square(each.distance) for each in shifts) * UP
            )
        if (loss := self.loss(relation)) is not None:
            return partial(pure_divergence, round_up_cost(loss.most))
        return None

    def orders(self) -> tuple[float, ...]:
        """Orders at which the divergences jump: the last of which something is known."""
        return ()

    def zcdp(self, relation: Relation) -> Concentration | None:
        """``(rho, xi)`` of its zero-concentrated privacy.

        A pure release has ``rho = epsilon tanh(epsilon / 2)``, its divergence at order one, which
        is the least that any ``rho`` can be: with ``u = alpha - 1/2`` the function
        ``ln E_P e^((alpha - 1) L)`` is, up to a constant, ``ln cosh(epsilon u)``. As an entire
        function of ``u^2``, of order 1/2, ``cosh(epsilon u)`` has negative zeros only. By
        Hadamard's product its logarithm is concave in ``u^2`` and lies below the tangent at
        ``u = 1/2``; and ``u^2 - 1/4 = alpha (alpha - 1)``.
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
        """The release where up to ``size >= 1`` records come, go or change together.

        A ``mu``-GDP release is then ``size mu``-GDP, and losses add up.
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
        """The pair of a Poisson sample of which one record is replaced."""
        return None

    def exported(self, relation: Relation) -> dp.DpEvent | None:
        """The same in dp-accounting's words, where it counts one contribution of a record.

        That is: under the relation itself, or, for a replaced record, under
        ``REPLACE_SPECIAL``, at which noise is halved.
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
    """The release that an event describes; ``None`` if its kind is unknown or a number amiss."""
    for kind in type(event).__mro__:
        if kind in _READERS:
            return _READERS[kind].read(event)
    return None


def all_or_none(answers: Iterable[Answer | None]) -> list[Answer] | None:
    """All answers; ``None`` if one is missing."""
    found = list(answers)
    known = [each for each in found if each is not None]
    return known if len(known) == len(found) else None


def gaussian_pair(shifts: tuple[Shift, ...]) -> Pair | None:
    """Gaussian releases taken together: of distances ``mu_t``, one of ``sqrt(sum mu_t^2)``."""
    mu = math.hypot(*(each.distance for each in shifts))
    if mu == 0.0:
        return NOTHING
    if mu < MIN_DISTANCE:
        return None
    if mu <= MAX_DISTANCE:
        return GaussianPair(mu)
    return replace(EVERYTHING, exact=any(each.noise == 0.0 for each in shifts))


def revealing_pair(rate: float, *, exact: bool) -> Pair:
    """Of a record and the one in its place the sample holds either or none, and it is seen."""
    seen = (0.0, 1.0 - rate, rate)
    return DiscretePair(seen, seen[::-1], exact)


def pure_pair(loss: float, *, exact: bool = True) -> Pair:
    """One bit, told truly or not, with a largest loss; ``exact`` if that is what is released."""
    if loss > MAX_DISTANCE:
        return replace(EVERYTHING, exact=exact and math.isinf(loss))
    if loss == 0.0:
        return NOTHING
    pair = PurePair.of(loss)
    return pair if exact else PurePair(pair.loss, exact=False)


def round_up_cost(cost: Cost) -> float:
    """A float that is not below ``cost``."""
    if isinstance(cost, float):
        return cost
    try:
        return math.nextafter(float(cost), math.inf) if cost else 0.0
    except OverflowError:
        return math.inf


def _linear_divergence(slope: float, orders: Array) -> Array:
    return orders * slope


Priced: TypeAlias = dp.DpEvent | tuple[float, float]
"""An event; or a pair ``(epsilon, delta)``, which stands for any mechanism that is so private."""

_SUM_ROUNDING = 2.0**-48  # relative; a handful of operations, each within a unit or two of 2^-53
_COST_UP = 1.0 + 2.0**-49  # for a handful of float operations
_MAX_FLOAT = math.nextafter(math.inf, 0.0)


def collect(
    event: dp.DpEvent, question: Callable[[Release], Answer | None]
) -> list[tuple[Answer, int]] | None:
    """What each release of a composition answers, with its multiplicity.

    ``None`` where a release is unknown or has no answer: the whole has none then.
    """
    answers = []
    for leaf, count in flatten(event):
        release = release_of(leaf)
        answer = None if release is None else question(release)
        if answer is None:
            return None
        answers.append((answer, count))
    return answers


def group_event(event: dp.DpEvent, size: int, relation: Relation) -> dp.DpEvent | None:
    """The composition where up to ``size`` records come, go or change together, part by part."""
    parts = collect(event, lambda release: release.grouped(size, relation))
    return None if parts is None else dp.ComposedDpEvent([repeat(*each) for each in parts])


def compose_losses(event: dp.DpEvent, relation: Relation) -> tuple[Interval, float] | None:
    """Bounds of the largest loss ``E`` of a composition, and a lower bound of ``ln h``.

    ``h`` is the probability that every release has the most typical outcome. ``None`` unless
    all releases are pure.
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
def renyi_divergence(
    event: dp.DpEvent, relation: Relation, orders: npt.ArrayLike
) -> npt.NDArray[np.float64] | None:
    """Upper bounds of the Rényi divergences of ``event`` between neighbours, in either order.

    At real, increasing ``orders`` above one. ``None`` where no theorem covers a part of the event
    under the relation. Divergences of one order add up under composition.

    Formal guarantee
    ----------------
    Every mechanism that ``event`` describes has at most these divergences under ``relation``.

    Source: Mironov, "Rényi differential privacy", CSF 2017 (arXiv:1702.07476), Proposition 1, for
    composition; the theorem of each release is cited in its file.

    Examples
    --------
    >>> renyi_divergence(dp.GaussianDpEvent(2.0), Relation.ZERO_OUT, [2.0, 8.0]).round(6).tolist()
    [0.25, 1.0]
    """
    curve = renyi_curve(event, Relation(relation))
    return None if curve is None else curve(check_orders(orders))


def renyi_orders(event: dp.DpEvent) -> tuple[float, ...]:
    """Orders that no grid may leave out: there a divergence of some release jumps."""
    found = collect(event, lambda release: release.orders()) or []
    return tuple(order for orders, _ in found for order in orders)


def renyi_curve(event: dp.DpEvent, relation: Relation) -> Curve | None:
    """The divergences of ``event`` as a function of the orders; None where not supported."""
    curves = collect(event, lambda release: release.renyi(relation))
    if curves is None:
        return None
    parts = [(curve, multiply(count, UP)) for curve, count in curves]

    def composition(orders: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        whole = np.zeros_like(orders)
        with np.errstate(over="ignore"):
            for curve, count in parts:
                each = curve(orders)
                whole[each > 0.0] += each[each > 0.0] * count
            return np.asarray(whole * UP)

    return composition


def gaussian_cost(release: Priced, relation: Relation) -> Cost | None:
    """``mu^2`` of a release that is ``mu``-GDP; None if it is not known to be.

    Gaussian noise has ``mu = m / z``. The trade-off curve of an ``epsilon``-DP release lies above
    the two segments from the corners to ``(p, p)`` with ``p = 1/(1 + e^epsilon)``; the convex
    curve ``G_mu`` through that point lies below them.
    """

    def cost(one: Release) -> Cost | None:
        if (shifts := one.shifts(relation)) is not None:
            return shifts[0].square if len(shifts) == 1 else None
        if (loss := one.loss(relation)) is None:
            return None
        shrink = math.exp(-round_up_cost(loss.most))
        mu = -2.0 * float(ndtri(shrink / (1.0 + shrink)))
        # Near epsilon = 0 the argument is next to one half: an absolute error.
        return 0 if loss.most == 0 else (mu * (1.0 + 2.0**-44) + 2.0**-48) ** 2 * _COST_UP

    return _compose_cost(cost, release)


def unsampled_mu(event: dp.DpEvent, relation: Relation) -> float:
    """Return a ``mu`` for which the event is ``mu``-GDP, or infinity if none is known.

    It is that of the event without sampling. Given the batch, a sampled release is the release
    itself or does not depend on the record, and hockey-stick divergences are jointly convex.
    Batches of fixed size change by one record only if the number of records is fixed.
    """
    squares = []
    for leaf, count in flatten(event):
        inner = leaf
        fixed_size = isinstance(leaf, dp.SampledWithoutReplacementDpEvent)
        if isinstance(leaf, dp.PoissonSampledDpEvent) or (
            fixed_size and relation is not Relation.ADD_OR_REMOVE_ONE
        ):
            inner = leaf.event
        if inner is leaf:
            cost = gaussian_cost(leaf, relation)
            squares.append((math.inf if cost is None else round_up_cost(cost), count))
        else:
            squares.append((unsampled_mu(inner, relation) ** 2 * _COST_UP, count))
    return math.sqrt(weighted_sum(squares)) * _COST_UP


def zcdp_cost(release: Priced, relation: Relation) -> Cost | None:
    """``rho`` with ``D_alpha <= rho alpha`` at all orders; None if none is known."""

    def cost(one: Release) -> Cost | None:
        bound = one.zcdp(relation)
        return bound.rho if bound is not None and bound.xi == 0.0 else None

    return _compose_cost(cost, release)


def _compose_cost(cost_of: Callable[[Release], Cost | None], release: Priced) -> Cost | None:
    """The cost of a composition: exact if it repeats one release, else rounded up."""
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
    return weighted_sum((round_up_cost(cost), count) for cost, count in counts.items()) * _COST_UP
