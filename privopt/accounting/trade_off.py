"""The calculus of trade-off functions of ``f``-differential privacy.

``f = T(P, Q)`` maps the type-I error of a test of ``P`` against ``Q`` to the smallest type-II
error. ``P`` and ``Q`` are finite laws here, and operations on curves are operations on laws.

    f (x) g                 ``tensor``      two releases, the second one chosen adaptively
    f_q = q f + (1 - q) Id  ``sample``      a release on a sample with inclusion probability q
    min{f, f^-1}**          ``symmetrise``  both orders of the neighbours
    C_q(f)                  ``subsample``   one sampled step, in both orders
    1 + f*(-e^epsilon)      ``f.delta``     the privacy profile, dual to f

For many sampled steps, take the tensor product of ``f_q`` and symmetrise at the end. Products of
``C_q(f)`` are valid as well, and looser. ``Guarantee.trade_off`` is tighter and faster; this
calculus shows the derivation.

Source: Dong, Roth and Su 2022 (arXiv:1905.02383).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from privopt.arguments import shown
from privopt.privacy.numbers import Array, U, bisect, check_alpha, check_delta, real, real_array

_MAX_LOSS = 700.0
_ALPHAS = np.concatenate([[0.0], np.geomspace(1e-30, 0.1, 2000), np.linspace(0.101, 1.0, 900)])


@dataclass(frozen=True, eq=False)
class TradeOff:
    """``T(P, Q)`` of two laws on one finite set.

    Parameters
    ----------
    p, q : array_like, shape (k,)
        Probabilities under ``P`` and ``Q``. An outcome may be impossible under one of them.
    slack : float
        A bound of rounding errors. It is added to all profiles and subtracted from the curve.

    Formal guarantee
    ----------------
    A call returns lower bounds of ``f``. ``profile``, ``delta`` and ``epsilon`` return upper bounds
    of those of ``f``. Every mechanism that is ``f``-DP in this order of neighbours satisfies all of
    them.

    Examples
    --------
    >>> bit = TradeOff([0.75, 0.25], [0.25, 0.75])
    >>> bit([0.0, 0.25, 1.0]).round(3).tolist(), round(bit.epsilon(0.0), 3)
    ([1.0, 0.25, 0.0], 1.099)
    """

    p: Array
    q: Array
    slack: float = 0.0

    def __post_init__(self) -> None:
        p, q = np.asarray(self.p, np.float64), np.asarray(self.q, np.float64)
        if p.ndim != 1 or p.shape != q.shape or not (np.all(p >= 0.0) and np.all(q >= 0.0)):
            raise ValueError(
                f"p and q must be laws on one finite set, got {shown(self.p)}, {shown(self.q)}"
            )
        missing = abs(float(p.sum()) - 1.0) + abs(float(q.sum()) - 1.0)
        if not missing <= 1e-8 + 2.0 * self.slack:
            raise ValueError(f"p and q must each add up to 1, got {p.sum()} and {q.sum()}")
        order = np.argsort(-_ratio(p, q), kind="stable")  # the largest likelihood ratio first
        object.__setattr__(self, "p", p[order])
        object.__setattr__(self, "q", q[order])
        object.__setattr__(self, "slack", self.slack + missing)

    def __call__(self, alpha: npt.ArrayLike) -> Array:
        """Return ``f(alpha)`` in the shape of ``alpha``, by Neyman and Pearson's tests."""
        power = np.interp(check_alpha(alpha), *self._tests())
        rounding = 4.0 * (self.p.size + 8) * U
        return np.asarray(np.maximum(1.0 - power * (1.0 + rounding) - self.slack - U, 0.0))

    def profile(self, gammas: Array) -> Array:
        """Return ``H_gamma(Q || P) = sum (q - gamma p)_+`` at each of ``gammas >= 0``."""
        rejected = np.searchsorted(-_ratio(self.p, self.q), -gammas)
        alpha, power = (each[rejected] for each in self._tests())
        rounding = 8.0 * (self.p.size + 8) * U * power
        return np.asarray(np.clip(power - gammas * alpha + rounding + self.slack, 0.0, 1.0))

    def delta(self, epsilon: float) -> float:
        """Return ``1 + f*(-e^epsilon)``, the dual of the curve."""
        loss = np.clip(real("epsilon", epsilon), -_MAX_LOSS, _MAX_LOSS)
        return float(self.profile(np.exp([loss]) * (1.0 - 4.0 * U))[0])

    def epsilon(self, delta: float) -> float:
        """Return the smallest ``epsilon >= 0`` with ``self.delta(epsilon) <= delta``, or inf."""
        if self.delta(_MAX_LOSS) > check_delta(delta):
            return math.inf
        result = bisect(lambda epsilon: self.delta(epsilon) <= delta, _MAX_LOSS, -_MAX_LOSS)
        return max(result, 0.0)

    def inverse(self) -> TradeOff:
        """Return ``f^{-1} = T(Q, P)``, the other order of neighbours."""
        return TradeOff(self.q[::-1], self.p[::-1], self.slack)

    def _tests(self) -> tuple[Array, Array]:
        """Return the type-I errors and powers of the tests that reject the first outcomes."""
        alpha, power = (np.concatenate([[0.0], np.cumsum(each)]) for each in (self.p, self.q))
        return alpha, power


def from_profile(epsilons: npt.ArrayLike, deltas: npt.ArrayLike) -> TradeOff:
    """Return the symmetric curve implied by ``(epsilon_i, delta_i)``-DP for all ``i``.

    ``f(alpha) = max_i max(0, 1 - delta_i - e^epsilon_i alpha, e^-epsilon_i (1 - delta_i - alpha))``

    Parameters
    ----------
    epsilons, deltas : array_like, shape (k,)
        Increasing in ``[0, 700]``, and in ``[0, 1]``.

    Examples
    --------
    >>> from_profile([1.0], [0.01])([0.0, 0.1]).round(4).tolist()
    [0.99, 0.7182]
    """
    losses, values = real_array("epsilons", epsilons), real_array("deltas", deltas)
    if losses.ndim != 1 or losses.shape != values.shape or not losses.size:
        raise ValueError(
            f"epsilons and deltas must be of equal positive length, got {shown(epsilons)}"
        )
    if not (0.0 <= losses[0] <= losses[-1] <= _MAX_LOSS and np.all(np.diff(losses) > 0.0)):
        raise ValueError(f"epsilons must increase within [0, {_MAX_LOSS:g}], got {shown(epsilons)}")
    if not np.all((values >= 0.0) & (values <= 1.0)):
        raise ValueError(f"deltas must lie in [0, 1], got {shown(deltas)}")
    return _polygon(np.exp(losses) * (1.0 + 4.0 * U), values, values)


def symmetric(curve: Callable[[Array], Array]) -> TradeOff:
    """Return a polygon slightly below a convex symmetric curve given by its values.

    Parameters
    ----------
    curve : callable
        ``alphas -> betas``: ``Guarantee(...).trade_off``, or the Gaussian curve as below.

    Examples
    --------
    >>> from functools import partial
    >>> from privopt.privacy import gaussian_trade_off
    >>> round(symmetric(partial(gaussian_trade_off, mu=1.0)).delta(1.0), 3)
    0.127
    """
    x, y = _ALPHAS, np.asarray(curve(_ALPHAS), np.float64)
    # Between two points the curve is above its neighbouring chords, which meet at a corner.
    slope = np.diff(y) / np.diff(x)
    before, middle, after = slope[:-2], slope[1:-1], slope[2:]
    meet = np.divide(
        middle - after, before - after, where=before < after, out=np.zeros_like(before)
    )
    run = np.clip(meet, 0.0, 1.0) * np.diff(x)[1:-1]
    alpha = np.concatenate([[0.0], x[1:-2] + run, x[-2:]])
    beta = np.concatenate([y[1:2] - slope[1] * x[1], y[1:-2] + before * run, [y[-1], y[-1]]])
    gammas = np.unique(np.append(1.0, -slope[(slope < -1.0) & (slope > -1e300)]))
    deltas = np.max(1.0 - beta - gammas[:, None] * alpha, axis=1) + 64.0 * U
    return _polygon(gammas, deltas, deltas)


def tensor(f: TradeOff, g: TradeOff, size: int = 400) -> TradeOff:
    """Return ``f (x) g = T(P x P', Q x Q')``, both releases together.

    Parameters
    ----------
    f, g : TradeOff
        Curves in the same order of the same neighbours.
    size : int
        Number of losses in each order between which the profile is replaced by its chords.
    """
    f, g = _coarse(f, size), _coarse(g, size)
    p, q = np.outer(f.p, g.p).ravel(), np.outer(f.q, g.q).ravel()
    return _coarse(TradeOff(p, q, f.slack + g.slack + 64.0 * U), size)


def sample(f: TradeOff, rate: float) -> TradeOff:
    """Return ``f_q = q f + (1 - q) Id = T(P, (1 - q) P + q Q)``: without a record, and with it."""
    if not 0.0 <= real("rate", rate) <= 1.0:
        raise ValueError(f"rate must lie in [0, 1], got {shown(rate)}")
    return TradeOff(f.p, (1.0 - rate) * f.p + rate * f.q, f.slack + 8.0 * U)


def symmetrise(f: TradeOff) -> TradeOff:
    """Return ``min{f, f^{-1}}**``; its profile is the larger one of the two."""
    ratio = _ratio(f.p, f.q)
    ratio = np.append(1.0, ratio[(ratio > 1e-300) & (ratio < 1e300)])
    gammas = np.unique(np.maximum(ratio, 1.0 / ratio))
    worse = np.maximum(f.profile(gammas), f.inverse().profile(gammas))
    return _polygon(gammas, worse, worse)


def subsample(f: TradeOff, rate: float) -> TradeOff:
    """Return ``C_q(f)`` of a symmetric ``f``: one Poisson-sampled step, in both orders."""
    return symmetrise(sample(f, rate))


def _coarse(f: TradeOff, size: int) -> TradeOff:
    """Return a lower curve with at most ``size`` losses per order; 1e-15 of mass is revealed."""
    if f.p.size <= 2 * size + 3:
        return f
    other, ends = f.inverse(), [1.0]
    for each in (f, other):
        ratio, mass = _ratio(each.p, each.q)[each.p > 0.0], np.cumsum(each.q[each.p > 0.0])
        ends.append(ratio[np.searchsorted(mass, min(1e-15, mass[-1]))])
    gammas = max(ends) ** (np.sinh(np.linspace(0.0, 4.0, size)) / math.sinh(4.0))
    return _polygon(gammas, f.profile(gammas), other.profile(gammas))


def _polygon(gammas: Array, deltas: Array, reversed_deltas: Array) -> TradeOff:
    """Return the laws with the lower hulls of two profiles, one per order; ``gammas >= 1``."""
    distances = (gammas - 1.0 + deltas + reversed_deltas) / (gammas + 1.0)
    distance = min(1.0, float(distances.min()) * (1.0 + 8.0 * U))
    p, q, q_only, error = _hull(gammas, deltas, distance)
    s, r, p_only, other = _hull(gammas, reversed_deltas, distance)
    alike = max(0.0, 1.0 - distance - math.fsum(p) - math.fsum(s))
    p, q = (
        np.concatenate([p, r, [alike, p_only, 0.0]]),
        np.concatenate([q, s, [alike, 0.0, q_only]]),
    )
    return TradeOff(p, q, error + other + 64.0 * U)


def _hull(gammas: Array, deltas: Array, distance: float) -> tuple[Array, Array, float, float]:
    """Return the masses of the lower hull of a profile, the mass of ``Q`` alone, and rounding."""
    x, y, fall = [1.0], [distance], [math.inf]
    for gamma, delta in zip(gammas.tolist(), deltas.tolist(), strict=True):
        if gamma > 1.0 + 1e-6 and delta < y[-1]:  # a corner closer to one is ill-defined
            while (next_fall := (y[-1] - delta) / (gamma - x[-1])) >= fall[-1]:
                del x[-1], y[-1], fall[-1]
            x, y, fall = [*x, gamma], [*y, delta], [*fall, next_fall]
    falls = np.array([*fall[1:], 0.0])
    p = -np.diff(falls)
    return p, p * x[1:], y[-1], 16.0 * U * float(falls[:-1] @ x[1:])


def _ratio(p: Array, q: Array) -> Array:
    """Return ``q / p``, infinite for outcomes that are impossible under ``P``."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(p > 0.0, q / p, np.where(q > 0.0, math.inf, 0.0))
