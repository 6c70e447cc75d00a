"""Calibration: the smallest noise for which a guarantee meets a budget.

Every result is verified. A noise multiplier is returned only if its guarantee, rounding included,
is within the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache

import dp_accounting as dp
import numpy as np
from scipy.special import chdtri, gammaincc

from privopt.arguments import checked, count, member, positive_integer, shown
from privopt.privacy.accountants import (
    ACCOUNTANTS,
    ACCURACY,
    Accountant,
    Fourier,
    GaussianDP,
    NonPrivate,
)
from privopt.privacy.events import CompressedGaussianDpEvent
from privopt.privacy.gaussian import gaussian_mu
from privopt.privacy.guarantee import Guarantee, check_supported, find_accountant
from privopt.privacy.numbers import (
    Interval,
    check_count,
    check_target_delta,
    false_position,
    real,
)
from privopt.spec import Budget, Relation

_MAX_NOISE = 2.0**64
CALIBRATIONS = ("mixture", "renyi", "split", "published")
_ROUNDING = 1e-9  # relative, of quantiles and functions of them
_SHARES = np.geomspace(1e-3, 0.999, 200)


@checked
def calibrate(
    make_event: Callable[[float], dp.DpEvent],
    budget: Budget,
    *,
    accountant: Accountant | str | None = None,
    tolerance: float = ACCURACY,
) -> float:
    """Return the smallest noise for which an event meets ``budget``.

    Parameters
    ----------
    make_event : callable
        A function from the noise, a non-negative float, to the event of the whole run. More noise
        must be more private.
    budget : Budget
        The privacy budget.
    accountant : Accountant or str, optional
        The accountant, as for ``epsilon``. Default: the exact accountant of Gaussian noise if it
        applies, otherwise the Fourier accountant with accuracy ``tolerance``, otherwise the first
        one that supports the event.
    tolerance : float
        Relative tolerance, in ``[1e-9, 0.1]``.

    Returns
    -------
    float
        A noise that meets the budget, where noise smaller by ``tolerance`` was not proved to. Zero
        if the event meets the budget without noise. ``Guarantee`` confirms the result at the
        default tolerance. For a smaller tolerance use ``Guarantee.meets``, which increases its
        accuracy as needed.

    Formal guarantee
    ----------------
    ``epsilon(make_event(noise), budget.delta).upper <= budget.epsilon`` by the accountant.

    Examples
    --------
    >>> budget = Budget(epsilon=1.0, delta=1e-5, relation="add_or_remove_one")
    >>> round(calibrate(dp.GaussianDpEvent, budget), 3)
    3.731

    Raises
    ------
    ValueError
        If no noise up to 2^64 meets the budget (for example Gaussian noise with ``delta = 0``).
    UnsupportedEventError
        If the accountant does not support the event, or no accountant does. The message names the
        unsupported part.
    """
    tolerance = real("tolerance", tolerance)
    if not 1e-9 <= tolerance <= 0.1:
        raise ValueError(f"tolerance must lie in [1e-9, 0.1], got {shown(tolerance)}")
    prover = None if accountant is None else find_accountant(accountant)
    event = make_event(1.0)
    if not isinstance(event, dp.DpEvent):
        raise ValueError(f"make_event must return a DpEvent, got {shown(event)}")
    check_supported(event, budget.relation, (prover,) if prover else ACCOUNTANTS)
    prover = prover or _best_prover(event, budget.relation, tolerance)

    delta = check_target_delta(budget.delta)

    @cache
    def excess(noise: float) -> float:
        """Return ``ln(epsilon / budget.epsilon)``, not positive if the budget is met."""
        interval = prover.epsilon(make_event(noise), budget.relation, delta)
        if not isinstance(interval, Interval):
            raise ValueError(f"accountant must prove bounds, got the estimator {prover.name}")
        upper = interval.upper
        return math.log(upper / budget.epsilon) if upper > 0.0 else -math.inf

    if prover.supports(make_event(0.0), budget.relation) and excess(0.0) <= 0.0:
        return 0.0
    guess, slope = _guess(prover, make_event, budget)
    inside, outside = _bracket(excess, guess, slope, tolerance)
    return false_position(excess, inside, outside, relative=tolerance)[0]


@checked
@lru_cache(maxsize=4096, typed=True)  # plans often differ in numbers other than the budget
def gaussian_noise_multiplier(budget: Budget, compositions: int = 1) -> float:
    """Return the smallest noise for which ``compositions`` Gaussian releases meet ``budget``.

    It is ``z = m sqrt(compositions) / mu(epsilon, delta)`` with ``m = budget.relation.multiple``
    and ``mu`` the exact inverse of the Gaussian profile. Source: Balle and Wang, "Improving the
    Gaussian mechanism for differential privacy", ICML 2018, Algorithm 1.

    Returns
    -------
    float
        Noise standard deviation divided by the per-record sensitivity. It exceeds
        the real optimum by a relative 1e-9 at most, for budgets with ``epsilon <= 1e5`` and
        ``delta >= 1e-300``.

    Formal guarantee
    ----------------
    The composition has ``epsilon(budget.delta).upper <= budget.epsilon`` and
    ``delta(budget.epsilon).upper <= budget.delta`` under ``budget.relation``.

    Examples
    --------
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation=Relation.ADD_OR_REMOVE_ONE)
    >>> round(gaussian_noise_multiplier(budget), 4)
    4.2247
    >>> round(gaussian_noise_multiplier(budget, compositions=4), 4)
    8.4494
    """
    if budget.delta == 0.0:
        raise ValueError(
            f"delta must be positive for Gaussian noise, got {shown(budget.delta)}; "
            "for pure differential privacy use pure_noise_multiplier"
        )
    positive_integer("compositions", compositions)
    check_count("compositions", compositions)

    def guarantee(z: float) -> Guarantee:
        return Guarantee(dp.GaussianDpEvent(z), budget.relation).times(compositions)

    def meets(z: float) -> bool:
        return (
            guarantee(z).delta(budget.epsilon).upper <= budget.delta
            and guarantee(z).epsilon(budget.delta).upper <= budget.epsilon
        )

    mu = gaussian_mu(budget.epsilon, budget.delta)
    noise = _raise_until(meets, budget.relation.multiple * math.sqrt(compositions) / mu)
    return _finite(noise, budget)


@checked
def pure_noise_multiplier(budget: Budget) -> float:
    """Return the smallest Laplace-like noise that is ``budget.epsilon``-DP.

    It is ``b = budget.relation.multiple / budget.epsilon``: the scale of noise with density
    proportional to ``exp(-||z|| / b)``, divided by the per-record sensitivity in the same
    norm. ``budget.delta`` is not used.

    Formal guarantee
    ----------------
    ``LaplaceDpEvent(b)`` has ``epsilon(0).upper <= budget.epsilon`` under ``budget.relation``.

    Examples
    --------
    >>> budget = Budget(epsilon=0.5, delta=0.0, relation=Relation.REPLACE_ONE)
    >>> round(pure_noise_multiplier(budget), 6)
    4.0
    """

    def meets(b: float) -> bool:
        interval = Guarantee(dp.LaplaceDpEvent(b), budget.relation).epsilon(0.0)
        return interval.upper <= budget.epsilon

    return _finite(_raise_until(meets, budget.relation.multiple / budget.epsilon), budget)


def _raise_until(holds: Callable[[float], bool], value: float) -> float:
    """Return ``value``, increased in relative steps of 8, 16, ... ulp until it ``holds``."""
    raised, step = value, 2.0**-49  # rounding errors of both directions are of this order
    while not holds(raised):
        raised, step = value * (1.0 + step), 2.0 * step
    return raised


def _finite(noise: float, budget: Budget) -> float:
    if math.isinf(noise):
        raise ValueError(
            "budget must allow for a noise that float64 can hold, got "
            f"epsilon = {shown(budget.epsilon)}, delta = {shown(budget.delta)}"
        )
    return noise


def _best_prover(event: dp.DpEvent, relation: Relation, tolerance: float) -> Accountant:
    """Return the exact accountant, else Fourier, else the first that supports ``event``."""
    fourier = Fourier(accuracy=tolerance)
    exact = (each for each in ACCOUNTANTS if isinstance(each, NonPrivate | GaussianDP))
    candidates = (*exact, fourier, *ACCOUNTANTS)
    return next((each for each in candidates if each.supports(event, relation)), fourier)


def _guess(
    accountant: object, make_event: Callable[[float], dp.DpEvent], budget: Budget
) -> tuple[float, float]:
    """Return a noise close to the result, and the slope of ``ln epsilon`` over ``ln noise``."""
    if not isinstance(accountant, Fourier) or budget.delta == 0.0:
        return 1.0, -1.0

    @cache
    def excess(noise: float) -> float:
        estimate = accountant.estimate(make_event(noise), budget.relation, budget.delta)
        return math.log(estimate / budget.epsilon) if estimate > 0.0 else -math.inf

    inside, outside = _bracket(excess, 1.0, -1.0, 0.02)
    guess, other = false_position(excess, inside, outside, relative=0.02)
    high, low = excess(other), excess(guess)
    if not (math.isfinite(high) and math.isfinite(low)):
        return guess, -1.0
    slope = min(-0.1, (high - low) / math.log(other / guess))
    return guess * math.exp(-low / slope), slope


def _bracket(
    excess: Callable[[float], float], guess: float, slope: float, tolerance: float
) -> tuple[float, float]:
    """Return sufficient and insufficient noise, a secant step to either side of the root."""
    inside = outside = None
    noise, margin = guess, 0.5 * tolerance
    while inside is None or outside is None:
        value = excess(noise)
        if value <= 0.0:
            inside, direction = noise, -1.0
        else:
            outside, direction = noise, 1.0
        step = min(abs(value / slope), 1.5) + margin
        noise, margin = noise * math.exp(direction * step), 2.0 * margin
        if noise > _MAX_NOISE:
            raise ValueError(
                f"budget cannot be met by any noise up to 2^64: at {shown(outside)} epsilon is "
                "still "
                f"e^{value:.3g} times the budget"
            )
        if noise < 1.0 / _MAX_NOISE:
            return (inside or noise), 0.0
    return inside, outside


@checked
def compressed_noise_multiplier(
    budget: Budget, measurements: int, calibration: str = "mixture"
) -> float:
    """Return a noise multiplier for which ``CompressedGaussianDpEvent`` meets ``budget``.

    Let ``m`` be the number of measurements, ``k = budget.relation.multiple``, and ``kappa(delta)``
    the exact Gaussian multiplier at ``budget.epsilon``.

    ``"mixture"``
        The smallest multiplier, from the law of the distance.
    ``"renyi"``
        By Rényi divergences, which compose over calls with independent matrices.
    ``"split"``
        ``k sqrt(x / m) kappa(delta - t)`` with ``P(chi^2_m > x) = t``: with probability ``t`` the
        measurements are too long, and everything may be revealed. The best of 200 public ``t``.
    ``"published"``
        ``k (3/2) sqrt(2 ln(2.5 / delta)) / epsilon``: the classical Gaussian mechanism at
        ``delta / 2``, for measurements that are at most 3/2 as long as the vector. Its proof holds
        if ``epsilon <= 1`` and ``P(chi^2_m > 2.25 m) <= delta / 2``, for which
        ``m >= 4.56 ln(2 / delta)`` suffices. For fewer measurements the exact law decides.

    No calibration depends on the sparsity or the dimension: the difference of two neighbours is
    fixed before the matrix is drawn, and no uniform isometry is needed.

    Parameters
    ----------
    budget : Budget
        Privacy budget with ``delta > 0``.
    measurements : int
        Rows of the matrix, at least one.
    calibration : str
        One of the four names above.

    Source: Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881), for the published
    calibration; the others are derived here.

    Examples
    --------
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="zero_out")
    >>> [round(compressed_noise_multiplier(budget, 100, each), 2) for each in CALIBRATIONS]
    [4.39, 4.77, 5.87, 8.14]
    """
    count("measurements", measurements)
    member("calibration", calibration, CALIBRATIONS)
    if budget.delta == 0.0:
        raise ValueError(f"delta must be positive for Gaussian noise, got {shown(budget.delta)}")
    if calibration == "split":
        return _split(budget, measurements)
    if calibration == "published":
        return _published(budget, measurements)
    accountant = "renyi" if calibration == "renyi" else None
    return calibrate(
        lambda noise: CompressedGaussianDpEvent(noise, measurements), budget, accountant=accountant
    )


def _split(budget: Budget, measurements: int) -> float:
    """Return the minimum over ``t`` of a verified quantile times ``kappa(delta - t)``."""
    best = math.inf
    for excess in (budget.delta * _SHARES).tolist():
        x = float(chdtri(measurements, excess))
        while gammaincc(0.5 * measurements, 0.5 * x) * (1.0 + _ROUNDING) > excess:
            x *= 1.0 + _ROUNDING
        mu = gaussian_mu(budget.epsilon, (budget.delta - excess) * (1.0 - _ROUNDING))
        best = min(best, math.sqrt(x / measurements) / mu)
    return budget.relation.multiple * best * (1.0 + _ROUNDING)


def _published(budget: Budget, measurements: int) -> float:
    if budget.epsilon > 1.0:
        raise ValueError(
            "epsilon must be at most 1 for the published multiplier, whose classical Gaussian "
            f"mechanism is proved there alone, got {shown(budget.epsilon)}"
        )
    classical = math.sqrt(2.0 * math.log(2.5 / budget.delta)) / budget.epsilon
    noise = 1.5 * budget.relation.multiple * classical * (1.0 + _ROUNDING)
    event = CompressedGaussianDpEvent(noise, measurements)
    interval = Guarantee(event, budget.relation).delta(budget.epsilon)
    if interval.upper > budget.delta:
        raise ValueError(
            f"measurements must be more for the published multiplier {noise:.6g}, which is private "
            f"at delta = {interval.upper:.3g} and not at {shown(budget.delta)}, got "
            f"{shown(measurements)}"
        )
    return noise
