"""The central limit theorem of privacy, and types for estimates without an error bound.

For ``T -> inf`` and ``q sqrt(T) -> nu``, the composition of ``T`` subsampled Gaussian steps
approaches ``G_mu``. Per step, ``mu^2`` is

- Poisson sampling, a record added, removed or zeroed: ``q^2 (e^(1/z^2) - 1)``;
- Poisson sampling, a record replaced: ``4 q^2 sinh(1/z^2)``;
- ``q n`` of ``n`` records without replacement, a record replaced:
  ``2 q^2 (e^(m^2) Phi(3m/2) + 3 Phi(-m/2) - 2)`` with ``m = 2/z``.

For finite ``T`` the error has either sign; in published experiments the limit is mostly too small,
by up to 17 % of ``epsilon``. Derivation and sources: :ref:`Accountants, Theorem 18
<theory-accountants-18>`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, NoReturn, Protocol

import dp_accounting as dp
import numpy as np
from scipy.special import erf, ndtr

from privopt.arguments import shown
from privopt.privacy import GaussianDP, Respondent
from privopt.privacy.flatten import flatten
from privopt.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_trade_off
from privopt.privacy.numbers import Array, is_batch, is_rate, real, real_array
from privopt.spec import Relation


class _Estimate:
    """Base class of estimates, which cannot be compared or used in arithmetic."""

    __array_ufunc__ = None  # NumPy then defers comparisons with its numbers to this class

    method: str

    def _refuse(self, other: object) -> NoReturn:
        raise TypeError(
            f"cannot compare an estimate ({self.method}) with {shown(other)}: it has no error "
            "bound, "
            "so an inequality with it proves nothing; use its value explicitly"
        )

    __lt__ = __le__ = __gt__ = __ge__ = _refuse


@dataclass(frozen=True)
class Approximation(_Estimate):
    """An estimate of a number, without any guarantee.

    Methods without an error bound return it instead of an ``Interval``. It has no ``upper``, is not
    a number and has no order (``TypeError``). ``value`` is the estimate, ``method`` its source. It
    prints as ``about 2.32 (CLT)``, with three digits by default (``f"{estimate:.5f}"`` for more).

    Examples
    --------
    >>> print(Approximation(2.3195, "CLT"))
    about 2.32 (CLT)
    >>> f"{Approximation(2.3195, 'CLT'):.4f}"
    'about 2.3195 (CLT)'
    """

    value: float
    method: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", real("value", self.value))
        _check_method(self.method)

    def __str__(self) -> str:
        return format(self, "")

    def __format__(self, spec: str) -> str:
        return f"about {self.value:{spec or '.3g'}} ({self.method})"


@dataclass(frozen=True, eq=False)
class ApproximateCurve(_Estimate):
    """An estimate of a curve at some points: an ``Approximation`` with an array.

    NumPy does not compute with it. ``values`` of any shape are stored as a read-only float64 array.

    Examples
    --------
    >>> ApproximateCurve([1.0, 0.5], "CLT").values.tolist()
    [1.0, 0.5]
    """

    values: Array
    method: str

    def __post_init__(self) -> None:
        values = real_array("values", self.values).copy()
        if np.isnan(values).any():
            raise ValueError(f"values must be real numbers, got {shown(self.values)}")
        values.flags.writeable = False
        object.__setattr__(self, "values", values)
        _check_method(self.method)

    def __array__(self, dtype: object = None, copy: bool | None = None) -> NoReturn:
        raise TypeError(
            f"an estimated curve ({self.method}) is not an array: it has no error bound; "
            "use its values explicitly"
        )

    def __str__(self) -> str:
        return f"about {np.array2string(self.values, precision=3)} ({self.method})"


class Estimator(Respondent[Approximation, ApproximateCurve], Protocol):
    """Estimates of the privacy of the supported events, without any guarantee.

    Its methods are those of ``Accountant``, with results of another type, so that no estimate is
    used as a bound. ``name`` is also the ``method`` of its results.
    """


def _check_method(method: object) -> None:
    if not isinstance(method, str) or not method:
        raise ValueError(f"method must be a non-empty string, got {shown(method)}")


_ROOT_HALF = math.sqrt(0.5)


@dataclass(frozen=True)
class CLT:
    """Estimates by the limit ``G_mu``, where ``mu^2`` is the sum over all steps.

    Supports compositions of events that ``GaussianDP`` supports, which are exact and need no limit;
    of Poisson-sampled Gaussian releases, under every relation; and of Gaussian releases on batches
    drawn without replacement, under ``replace_one``.

    Examples
    --------
    >>> import dp_accounting as dp
    >>> step = dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0))
    >>> steps = dp.SelfComposedDpEvent(step, 1000)
    >>> print(CLT().mu(steps, Relation.ADD_OR_REMOVE_ONE))
    about 0.415 (CLT)
    """

    name = "CLT"
    cites = ("bu2020", "dong2022")

    def supports(self, event: dp.DpEvent, relation: Relation) -> bool:
        return as_sampled_gaussians(event, relation) is not None

    def mu(self, event: dp.DpEvent, relation: Relation) -> Approximation:
        """Return ``mu`` of the limit."""
        square = sum(
            times * _variance_per_step(rate, mu, poisson, relation)
            for rate, mu, times, poisson in as_sampled_gaussians(event, relation) or []
        )
        return Approximation(math.sqrt(square), self.name)

    def epsilon(self, event: dp.DpEvent, relation: Relation, delta: float) -> Approximation:
        mu = self.mu(event, relation).value
        return Approximation(gaussian_epsilon(delta, mu=mu).upper, self.name)

    def delta(self, event: dp.DpEvent, relation: Relation, epsilon: float) -> Approximation:
        mu = self.mu(event, relation).value
        return Approximation(gaussian_delta(epsilon, mu=mu).upper, self.name)

    def trade_off(self, event: dp.DpEvent, relation: Relation, alphas: Array) -> ApproximateCurve:
        return ApproximateCurve(gaussian_trade_off(alphas, self.mu(event, relation).value), "CLT")


class SampledGaussian(NamedTuple):
    """``times`` Gaussian releases on random batches, each ``mu``-GDP without sampling."""

    rate: float
    mu: float
    times: float
    poisson: bool


def as_sampled_gaussians(event: dp.DpEvent, relation: Relation) -> list[SampledGaussian] | None:
    """Return a composition as sampled Gaussian releases, or None if it contains another release.

    A Gaussian release without sampling has rate one.
    """
    gaussian, steps = GaussianDP(), []
    for leaf, count in flatten(event):
        times = float(count)
        if gaussian.supports(leaf, relation):
            mu = gaussian.distance(leaf, relation).upper
            steps.append(SampledGaussian(1.0, mu, times, poisson=True))
            continue
        match leaf:
            case dp.PoissonSampledDpEvent(sampling_probability=rate, event=inner) if is_rate(rate):
                poisson = True
            case dp.SampledWithoutReplacementDpEvent(
                source_dataset_size=n, sample_size=m, event=inner
            ) if relation is Relation.REPLACE_ONE and is_batch(n, m):
                rate, poisson = int(m) / int(n), False
            case _:
                return None
        if not all(isinstance(part, dp.GaussianDpEvent) for part, _ in flatten(inner)):
            return None
        if not gaussian.supports(inner, relation):
            return None
        mu = gaussian.distance(inner, relation).upper
        steps.append(SampledGaussian(float(rate), mu, times, poisson))
    return [step for step in steps if step.rate > 0.0 and step.mu > 0.0]


def _variance_per_step(rate: float, mu: float, poisson: bool, relation: Relation) -> float:
    """Return the contribution of one step to ``mu^2``; ``mu`` is the value without sampling."""
    square = mu * mu
    if rate == 1.0:
        return square
    if not poisson:  # Phi(3m/2) + 3 Phi(-m/2) - 2 as a difference of error functions
        rest = 0.5 * float(erf(1.5 * mu * _ROOT_HALF) - 3.0 * erf(0.5 * mu * _ROOT_HALF))
        return 2.0 * (_diluted(rate, square) * float(ndtr(1.5 * mu)) + rate * rate * rest)
    if relation is Relation.REPLACE_ONE:  # 1 / z^2 is a quarter of mu^2
        quarter = 0.25 * square
        return 2.0 * (_diluted(rate, quarter) - rate * rate * math.expm1(-quarter))
    return _diluted(rate, square)


def _diluted(rate: float, x: float) -> float:
    """Return ``rate^2 (e^x - 1)`` for ``rate > 0``, without overflow of one factor."""
    if x < 700.0:
        return rate * (rate * math.expm1(x))
    exponent = x + 2.0 * math.log(rate)
    return math.exp(exponent) if exponent < 700.0 else math.inf
