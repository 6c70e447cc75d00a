"""Basic, advanced and optimal composition, the moments accountant, and the table of accountants.

*Basic.* The composition of ``(epsilon_t, delta_t)``-DP releases is
``(sum epsilon_t, sum delta_t)``-DP.

*Advanced.* With slack ``delta'`` it is ``(epsilon, delta' + sum delta_t)``-DP for

    epsilon = drift + sqrt(2 ln(1 / delta') sum epsilon_t^2).

The drift bounds the expected loss. It is outside the root:

- ``kov``: ``sum epsilon_t (e^epsilon_t - 1) / (e^epsilon_t + 1)``, that of randomised response;
- ``drv``: ``sum epsilon_t (e^epsilon_t - 1)``, the original, never smaller.

Proof: :ref:`Accountants, Theorem 8 <theory-accountants-8>`.

*Optimal.* The worst release reveals everything with probability ``delta`` and is randomised
response otherwise. The Fourier accountant computes the composition of ``k`` such releases.

*Moments.* The moments accountant as it was published: Rényi divergences at a fixed list of orders,
converted by Markov's inequality on the moments of the privacy loss,
``delta = min_alpha e^((alpha - 1)(D_alpha - epsilon))``. It is valid, and looser than ``Renyi``,
which refines the orders and has a better conversion. The literature calls its results "MA".

Sources: Dwork and Roth, "The algorithmic foundations of differential privacy", 2014, Theorems 3.16
and 3.20 (after Dwork, Rothblum and Vadhan, FOCS 2010); Kairouz, Oh and Viswanath 2017
(arXiv:1311.0776), Theorem 3.3; Abadi et al. 2016 (arXiv:1607.00133), Theorem 2; Mironov 2017
(arXiv:1702.07476), Proposition 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import dp_accounting as dp
import numpy as np

from privopt import privacy
from privopt.accounting.clt import CLT, Estimator
from privopt.arguments import checked, member, shown
from privopt.privacy import Accountant, Guarantee, Interval, Renyi, Respondent
from privopt.privacy.flatten import flatten
from privopt.privacy.guarantee import find_accountant
from privopt.privacy.numbers import (
    SMALLEST,
    Array,
    check_count,
    check_epsilon,
    false_position,
    half_square,
    real,
    weighted_sum,
)
from privopt.privacy.renyi import envelope
from privopt.spec import Relation

Parts = list[tuple[Guarantee, int]]

_ROUNDING = 2.0**-48  # relative; sums of positive terms, each within a few units of 2^-53
_FORMS = ("kov", "drv")
_LEAST = 1e-290  # smallest delta of one release
_DELTAS = np.concatenate([[0.0], np.geomspace(1e-12, 1e-2, 11), np.linspace(0.05, 0.95, 10)])
# The fractions of delta that the releases share; the rest is the slack of their composition.
_FRACTIONS = (1e-3, 1e-2, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99)


@dataclass(frozen=True)
class Basic:
    """``(sum epsilon_t, sum delta_t)``, with ``delta`` in equal shares.

    Every ``epsilon_t`` is that of a ``Guarantee`` of one release. Two splits are evaluated: all
    releases share ``delta``, or only those that are not pure.

    Formal guarantee
    ----------------
    The upper ends hold for every adaptive composition of the releases. The lower ends are those of
    the least private single release.

    Examples
    --------
    >>> releases = dp.SelfComposedDpEvent(dp.LaplaceDpEvent(4.0), 3)
    >>> round(Basic().epsilon(releases, Relation.ZERO_OUT, 0.0).upper, 6)
    0.75
    """

    cites: ClassVar[tuple[str, ...]] = ("dwork2014",)

    @property
    def name(self) -> str:
        return "basic composition"

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        return all(
            any(each.supports(leaf, relation) for each in privacy.ACCOUNTANTS)
            for leaf, _ in flatten(event)
        )

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Interval:
        bound = partial(self.bound, delta=delta)
        return _evaluate(event, relation, lambda one: one.epsilon(delta), bound)

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Interval:
        bound = partial(self._bound_delta, epsilon=epsilon)
        return _evaluate(event, relation, lambda one: one.delta(epsilon), bound)

    def trade_off(self, event: dp.DpEvent, relation: Relation, alphas: Array) -> Array:
        losses = [self.epsilon(event, relation, float(delta)).upper for delta in _DELTAS]
        return envelope(np.array(losses), _DELTAS, alphas)

    def bound(self, parts: Parts, delta: float) -> float:
        """Return ``epsilon`` of the composition, rounded up; it is non-increasing in ``delta``."""
        shared = weighted_sum(
            (part.epsilon(_share(delta, parts)).upper, count) for part, count in parts
        )
        pure, rest = _split(parts)
        exempt = weighted_sum((part.epsilon(0.0).upper, count) for part, count in pure)
        exempt += weighted_sum(
            (part.epsilon(_share(delta, rest)).upper, count) for part, count in rest
        )
        return min(shared, exempt) * (1.0 + _ROUNDING)

    def _bound_delta(self, parts: Parts, epsilon: float) -> float:
        """Return a ``delta`` with ``bound <= epsilon``, to a relative 1e-10, or 0 or 1."""

        def gap(log_delta: float) -> float:
            return self.bound(parts, min(math.exp(log_delta), 1.0 - 2.0**-53)) - epsilon

        if self.bound(parts, 0.0) <= epsilon:
            return 0.0
        if not gap(0.0) <= 0.0:
            return 1.0
        inside, _ = false_position(gap, 0.0, math.log(_LEAST), absolute=1e-10)
        return min(math.exp(inside), 1.0 - 2.0**-53)


@dataclass(frozen=True)
class Advanced(Basic):
    """The minimum of advanced and basic composition.

    The releases that are not pure share a fraction of ``delta`` equally. The rest is slack. The
    best of eight fixed fractions is used.

    Parameters
    ----------
    form : str
        ``"kov"`` or ``"drv"``.

    Examples
    --------
    >>> releases = dp.SelfComposedDpEvent(dp.LaplaceDpEvent(100.0), 1000)
    >>> round(Advanced().epsilon(releases, Relation.ZERO_OUT, 1e-6).upper, 3)
    1.712
    """

    form: str = "kov"

    def __post_init__(self) -> None:
        _check_form(self.form)

    cites = ("dwork2014", "kairouz2017")

    @property
    def name(self) -> str:
        return f"advanced composition ({self.form.upper()})"

    def bound(self, parts: Parts, delta: float) -> float:
        pure, rest = _split(parts)
        losses = [(part.epsilon(0.0).upper, count) for part, count in pure]
        proved = [super().bound(parts, delta)]
        for fraction in _FRACTIONS if rest else (0.0,):
            share = _share(fraction * delta, rest)
            slack = (1.0 - fraction) * delta * (1.0 - 2.0**-50)
            others = [(part.epsilon(share).upper, count) for part, count in rest]
            if slack > 0.0:
                proved.append(_advanced([*losses, *others], slack, self.form))
        return min(proved)


@checked
def advanced_epsilon(
    epsilons: Iterable[tuple[float, int]], slack: float, form: str = "kov"
) -> float:
    """Return ``epsilon`` of a composition with slack ``delta'``, rounded up.

    Parameters
    ----------
    epsilons : iterable of (float, int)
        ``epsilon_t`` of each kind of release, and the number of such releases.
    slack : float
        ``delta'``, in ``(0, 1)``.
    form : str
        ``"kov"`` or ``"drv"``. Neither takes the minimum with ``sum epsilon_t``.

    Formal guarantee
    ----------------
    If each release is ``(epsilon_t, delta_t)``-DP under a relation, their adaptive composition is
    ``(result, slack + sum delta_t)``-DP under it.

    Examples
    --------
    >>> round(advanced_epsilon([(0.1, 100)], 1e-6), 3)
    5.756
    """
    slack = real("slack", slack)
    if not 0.0 < slack < 1.0:
        raise ValueError(f"slack must lie in (0, 1), got {shown(slack)}")
    _check_form(form)
    losses = [(check_epsilon(each), check_count("count", count)) for each, count in epsilons]
    return _advanced(losses, slack, form)


@checked
def optimal_epsilon(epsilon: float, delta: float, k: int, total_delta: float) -> Interval:
    """Return the smallest ``epsilon_k`` of ``k`` releases at ``total_delta``.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee of each release.
    k : int
        The number of releases, chosen adaptively.
    total_delta : float
        In ``[0, 1)``; below ``1 - (1 - delta)^k`` the result is infinite.

    Formal guarantee
    ----------------
    Every adaptive composition of ``k`` ``(epsilon, delta)``-DP releases is
    ``(upper, total_delta)``-DP under the same relation. For any number below ``lower`` one of them
    is not.

    Examples
    --------
    >>> round(optimal_epsilon(0.1, 0.0, 100, 1e-6).upper, 3)
    4.775
    """
    return _optimal(epsilon, delta, k).epsilon(total_delta)


@checked
def optimal_delta(epsilon: float, delta: float, k: int, total_epsilon: float) -> Interval:
    """Return the smallest ``delta_k`` of ``k`` releases at ``total_epsilon``.

    It is the inverse of ``optimal_epsilon``, with the same guarantee.

    Examples
    --------
    >>> round(optimal_delta(0.1, 0.0, 100, 1.0).upper, 4)
    0.1257
    """
    return _optimal(epsilon, delta, k).delta(total_epsilon)


def _optimal(epsilon: float, delta: float, k: int) -> Guarantee:
    release = privacy.approximate_event(epsilon, delta) if delta else privacy.pure_event(epsilon)
    return Guarantee(release, Relation.ZERO_OUT).times(k)


def _evaluate(
    event: dp.DpEvent,
    relation: Relation,
    evaluate: Callable[[Guarantee], Interval],
    bound: Callable[[Parts], float],
) -> Interval:
    """Return the bounds of a single release; for several, ``bound`` and the largest lower end."""
    guarantees = [(Guarantee(leaf, relation), count) for leaf, count in flatten(event)]
    parts = [(part, count) for part, count in guarantees if part.delta(0.0).upper > 0.0]
    if sum(count for _, count in parts) <= 1:
        return evaluate(parts[0][0]) if parts else Interval(0.0, 0.0)
    upper = bound(parts)
    return Interval(min(max(evaluate(part).lower for part, _ in parts), upper), upper)


def _split(parts: Parts) -> tuple[Parts, Parts]:
    """Return the releases with a finite ``epsilon`` at ``delta = 0``, and the others."""
    pure = [each for each in parts if each[0].epsilon(0.0).upper < math.inf]
    return pure, [each for each in parts if each not in pure]


def _share(delta: float, parts: Parts) -> float:
    """Return an equal share of ``delta`` for each release; zero below the range of floats."""
    count = sum(count for _, count in parts)
    share = delta if count <= 1 else delta / count * (1.0 - 2.0**-50)
    return share if share >= _LEAST else 0.0


def _advanced(losses: list[tuple[float, int]], slack: float, form: str) -> float:
    if max((epsilon for epsilon, _ in losses), default=0.0) > 700.0:
        return math.inf
    losses = [(epsilon, count) for epsilon, count in losses if epsilon > 0.0]
    drifts = [
        (epsilon * (math.tanh(0.5 * epsilon) if form == "kov" else math.expm1(epsilon)), count)
        for epsilon, count in losses
    ]
    drift = weighted_sum((max(each, SMALLEST), count) for each, count in drifts)
    squares = weighted_sum((2.0 * half_square(epsilon), count) for epsilon, count in losses)
    return (drift + math.sqrt(-2.0 * math.log(slack)) * math.sqrt(squares)) * (1.0 + _ROUNDING)


def _check_form(form: str) -> None:
    member("form", form, _FORMS)


_PUBLISHED = (*(1.0 + 0.1 * i for i in range(1, 100)), *(float(order) for order in range(12, 64)))


@dataclass(frozen=True)
class Moments(Renyi):
    """Every event of ``Renyi``, with the orders 1.1, 1.2, ..., 10.9, 12, 13, ..., 63 only.

    Examples
    --------
    >>> import dp_accounting as dp
    >>> from privopt import Relation
    >>> round(Moments().epsilon(dp.GaussianDpEvent(1.0), Relation.ZERO_OUT, 1e-5).upper, 3)
    5.299
    """

    name = "moments accountant"
    cites = ("abadi2016", "mironov2017")
    orders: tuple[float, ...] = _PUBLISHED
    improved = False


ACCOUNTANTS: tuple[Accountant, ...] = (
    *privacy.ACCOUNTANTS,
    Basic(),
    Advanced("kov"),
    Advanced("drv"),
    Moments(),
)
ESTIMATORS: tuple[Estimator, ...] = (CLT(),)


@checked
def named(name: str) -> Respondent[object, object]:
    """Return the accountant or estimator with this name, or the only one whose name starts with it.

    Parameters
    ----------
    name : str
        ``"moments"``, ``"basic"``, ``"clt"`` and others; accents and case are ignored.

    Returns
    -------
    Accountant or Estimator
        An argument of ``privacy.epsilon(..., accountant=named("clt"))`` and similar functions.

    Examples
    --------
    >>> import dp_accounting as dp
    >>> step = dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0))
    >>> run, relation = dp.SelfComposedDpEvent(step, 1000), "add_or_remove_one"
    >>> print(privacy.epsilon(run, 1e-5, relation=relation, accountant=named("clt")))
    about 1.62 (CLT)
    """
    return find_accountant(name, (*ACCOUNTANTS, *ESTIMATORS))
