"""Distinguishing attack: fit a statistic and a threshold on half of the runs, test on the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeAlias

import jax
import numpy as np
import numpy.typing as npt
from jax import Array
from scipy.linalg import solve_triangular
from scipy.special import ndtr
from scipy.stats import norm

from privopt.arguments import answering, described, instance, positive_integer, real, shown
from privopt.privacy import Guarantee
from privopt.random import as_key
from privopt.statistics import clopper_pearson

FloatArray: TypeAlias = npt.NDArray[np.float64]
Score: TypeAlias = Callable[[FloatArray], FloatArray]

_LEAST_RUNS = 8  # the first quarter must have a covariance
_SHARES = ndtr(np.linspace(-3.3, 3.3, 200))  # shares of the scores below a threshold
_FORGOTTEN = 0.95  # share of the runs whose noise is omitted in the second defect
_QUIET = 0.01  # factor of their noise: some mechanisms refuse 0
_ROUNDING = 1e-9  # smallest share of a variance that is not round-off
_MEMBERS = ("name", "guarantee", "control", "check", "sample")


class Releases(Protocol):
    """Interface of an attacked object: a complete algorithm or one mechanism on two neighbours."""

    @property
    def name(self) -> str:
        """Name for tables and figures."""

    @property
    def guarantee(self) -> Guarantee:
        """Claimed guarantee."""

    @property
    def control(self) -> float:
        """Factor of the noise, 1/2 or less, at which an attack must refute the claim."""

    def check(self) -> None:
        """Raise ``ValueError`` unless the two data sets are neighbours."""

    def sample(self, second: bool, noise: float, key: Array, runs: int) -> FloatArray:
        """Return releases on one data set with scaled noise, shape ``(runs, numbers)``."""


class Finding(NamedTuple):
    """Error rates of a test on fresh runs, and the distance of two normals with these rates.

    ``alpha`` is an upper bound on the false-positive rate and ``power`` a lower bound on the
    true-positive rate, both by Clopper and Pearson.
    ``separation = max(0, Phi^-1(power) - Phi^-1(alpha))``, and ``claimed`` is the same number for
    the power that the guarantee allows at ``alpha``. The test guesses the first data set if the
    statistic ``score`` is above ``threshold``. ``band`` contains ``alpha`` and ``power`` at many
    thresholds, each valid by itself: these bounds first, then the bounds on the other side, shape
    ``(2, 2, thresholds)``.
    """

    alpha: float
    power: float
    separation: float
    claimed: float
    score: str
    threshold: float
    band: FloatArray

    @property
    def ratio(self) -> float:
        """Ratio ``separation/claimed``; above 1 the guarantee is refuted."""
        return self.separation / self.claimed if self.separation > 0.0 else 0.0


@dataclass(frozen=True)
class Audit:
    """Result of an attack and of its three control attacks.

    ``identical`` attacks two samples of one data set and must not find a difference. Two defects
    are planted and compared with the full guarantee: ``weakened`` multiplies the noise of all runs
    by ``control``, and ``forgotten`` omits nearly all noise in 19 of 20 runs. ``failure`` bounds
    the probability that a correct guarantee is called refuted.
    """

    name: str
    guarantee: Guarantee
    attack: Finding
    identical: Finding
    weakened: Finding
    forgotten: Finding
    control: float
    runs: int
    failure: float

    @property
    def verdict(self) -> str:
        """Verdict ``"kept"`` or ``"refuted"``, or ``"blind"`` if a control attack fails."""
        detected = min(self.weakened.ratio, self.forgotten.ratio) > 1.0
        if self.identical.separation > 0.0 or not detected:
            return "blind"
        return "refuted" if self.attack.ratio > 1.0 else "kept"


def audit(
    attacked: Releases,
    *,
    key: Array,
    runs: int = 100_000,
    failure: float = 1e-3,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Audit:
    """Attack ``attacked`` by ``runs`` runs on each of two data sets, with controls.

    On a quarter of the runs two statistics of the releases are learned: the direction of Fisher's
    discriminant, and a sum of log-likelihood ratios. On the next quarter the better one is chosen,
    with the threshold of the best bound. The other half is used for the test: with probability
    ``1 - failure`` or more, the true error rates are on the safe side of the :class:`Finding`.

    Parameters
    ----------
    attacked : Releases
        A :class:`Pair`, a :class:`MechanismPair`, or an object with the same members.
    key : Array
        Typed key of JAX.
    runs : int
        Number of runs on each data set, at least ``least_runs(attacked.guarantee, failure)``.
    failure : float
        Probability, in (0, 1), that a correct guarantee is refuted.
    progress : callable
        Called with the number of samples that have been drawn and their total, seven.

    Examples
    --------
    >>> from privopt import Budget
    >>> from privopt.audit import worst_pair
    >>> budget = Budget(epsilon=4.0, delta=1e-5, relation="replace_one")
    >>> result = audit(worst_pair("output_perturbation", budget), key=jax.random.key(0), runs=4000)
    >>> result.verdict, 0.7 < result.attack.ratio < 1.0
    ('kept', True)
    """
    answering("attacked", attacked, _MEMBERS)
    key = as_key(key)
    positive_integer("runs", runs)
    failure = check_failure(failure)
    if not callable(progress):
        raise ValueError(
            f"progress must be a function (done, total) -> None, got {described(progress)}"
        )
    attacked.check()
    guarantee, least = attacked.guarantee, least_runs(attacked.guarantee, failure)
    if runs < least:
        raise ValueError(f"runs must be at least {least} to detect halved noise, got {runs}")
    arguments = [(False, 1.0), (True, 1.0), (False, 1.0)]
    arguments += [
        (second, noise) for noise in (attacked.control, _QUIET) for second in (False, True)
    ]
    samples = []
    for place, (second, noise) in enumerate(arguments):
        sample = attacked.sample(second, noise, jax.random.fold_in(key, place), runs)
        if not np.isfinite(sample).all():
            raise ValueError(f"{attacked.name} must release numbers, got NaN or infinity")
        samples.append(sample)
        progress(place + 1, len(arguments))
    one, two, again, *weakened = samples[:5]
    forgotten = (_mixed(one, samples[5]), _mixed(two, samples[6]))
    attack, same, less, none = (
        finding(first, second, guarantee, failure)
        for first, second in ((one, two), (one, again), weakened, forgotten)
    )
    share = attacked.control
    return Audit(attacked.name, guarantee, attack, same, less, none, share, runs, failure)


def _mixed(many: FloatArray, quiet: FloatArray) -> FloatArray:
    """Return ``many`` with evenly spaced rows replaced by rows of ``quiet``."""
    mixture, few = many.copy(), math.ceil(_FORGOTTEN * len(many))
    mixture[np.linspace(0, len(many) - 1, few).round().astype(int)] = quiet[:few]
    return mixture


def least_runs(guarantee: Guarantee, failure: float) -> int:
    """Compute the runs per side with which the best attack detects halved noise.

    By the normal approximation: a test between two unit normals at distance ``2 mu`` has both error
    rates ``Phi(-mu)``. The rates are estimated on half of the runs, so accurately that
    ``Phi^-1`` of each has error at most ``mu/2``.
    """
    failure, middle = check_failure(failure), 0.5
    trade_off = instance("guarantee", guarantee, Guarantee).trade_off(np.array([middle]))
    mu = float(norm.isf(trade_off[0]))
    if not 0.0 < mu < math.inf:
        return _LEAST_RUNS
    rate, reach = norm.sf(mu), float(norm.isf(0.5 * failure)) / (0.5 * mu * norm.pdf(mu))
    return max(_LEAST_RUNS, 2 * math.ceil(rate * (1.0 - rate) * reach**2))


def finding(one: FloatArray, two: FloatArray, guarantee: Guarantee, failure: float) -> Finding:
    """Fit a test between two samples on their first halves, and evaluate it on the second halves.

    ``one`` and ``two`` have the same shape ``(runs, numbers)``. ``guarantee`` is the claim with
    which the test is compared, and ``failure`` the probability, in (0, 1), that a bound is wrong.
    """
    one, two = _check_samples("one", one), _check_samples("two", two)
    if one.shape != two.shape:
        raise ValueError(f"two must have the shape of one, {one.shape}, got {two.shape}")
    instance("guarantee", guarantee, Guarantee)
    failure = check_failure(failure)
    half, quarter = len(one) // 2, len(one) // 4
    best: tuple[float, str, Score, float, FloatArray] | None = None
    for name, learn in SCORES.items():
        score = learn(one[:quarter], two[:quarter])
        learned = np.sort([score(each[quarter:half]) for each in (one, two)])
        thresholds = np.unique(np.quantile(learned, _SHARES))
        alphas, powers = _bounds(learned, thresholds, failure)
        usable = (alphas < 1.0) & (powers > 0.0)
        ratios = np.full(len(usable), -math.inf)
        allowed = _allowed(guarantee, alphas[usable])
        ratios[usable] = _distance(alphas[usable], powers[usable]) / allowed
        place = int(np.argmax(ratios))
        if best is None or ratios[place] > best[0]:
            best = float(ratios[place]), name, score, float(thresholds[place]), thresholds
    assert best is not None
    _, name, score, threshold, thresholds = best
    tested = np.sort([score(each[half:]) for each in (one, two)])
    (alpha,), (power,) = _bounds(tested, np.array([threshold]), failure)
    cautious = _bounds(tested, thresholds, failure)
    generous = _bounds(tested[::-1], thresholds, failure)[::-1]
    band = np.array([cautious, generous])
    distance = max(0.0, float(_distance(alpha, power))) if alpha < 1.0 else 0.0
    claimed = float(_allowed(guarantee, np.array([alpha]))[0])
    return Finding(float(alpha), float(power), distance, claimed, name, threshold, band)


def _distance(alpha: npt.ArrayLike, power: npt.ArrayLike) -> FloatArray:
    """Compute the distance of two unit normals between which a test has these error rates."""
    return np.asarray(norm.ppf(power) - norm.ppf(alpha))


def _allowed(guarantee: Guarantee, alphas: FloatArray) -> FloatArray:
    """Compute the distance for the largest power that the guarantee allows."""
    return _distance(alphas, 1.0 - guarantee.trade_off(alphas))


def _bounds(
    scores: FloatArray, thresholds: FloatArray, failure: float
) -> tuple[FloatArray, FloatArray]:
    """Bound the error rates of the test ``score > threshold`` on two rows of sorted scores.

    Returns an upper bound of ``alpha``, from the second row, and a lower bound of the power, from
    the first, for each threshold.
    """
    size = scores.shape[1]
    hits = np.array([size - np.searchsorted(each, thresholds, side="right") for each in scores])
    lowers, uppers = clopper_pearson(hits, size, 0.5 * failure)
    return uppers[1], lowers[0]


def discriminant(one: FloatArray, two: FloatArray) -> Score:
    """Return Fisher's discriminant, the best direction for two normals with one covariance."""
    gap = one.mean(axis=0) - two.mean(axis=0)
    direction = np.asarray(np.linalg.lstsq(_covariance(one, two), gap, rcond=1e-10)[0])
    return lambda released: released @ direction


def likelihood(one: FloatArray, two: FloatArray) -> Score:
    """Return the sum of the log-likelihood ratios of the innovations, each from a histogram.

    The innovation of a number is its residual after regression on the numbers before it. Noisy
    answers to samples of records have independent innovations with mixture distributions, for which
    no single direction is optimal.
    """
    weights = _innovations(_covariance(one, two))
    edges, ratios = [], []
    bins = max(8, round(len(one) ** (1.0 / 3.0)))
    for first, second in zip((one @ weights).T, (two @ weights).T, strict=True):
        pooled = np.concatenate([first, second])
        inner = np.unique(np.quantile(pooled, np.linspace(0.0, 1.0, bins + 1)[1:-1]))
        counts = (np.bincount(np.searchsorted(inner, x), minlength=bins) for x in (first, second))
        numerator, denominator = (each[: len(inner) + 1] + 0.5 for each in counts)
        edges.append(inner)
        ratios.append(np.log(numerator / denominator))

    def score(released: FloatArray) -> FloatArray:
        columns = (released @ weights).T
        parts = zip(columns, edges, ratios, strict=True)
        return sum((r[np.searchsorted(e, x)] for x, e, r in parts), np.zeros(len(released)))

    return score


def _covariance(one: FloatArray, two: FloatArray) -> FloatArray:
    """Return the mean of the covariances of two samples."""
    each = (np.atleast_2d(np.cov(sample, rowvar=False)) for sample in (one, two))
    return np.asarray(0.5 * sum(each))


def _innovations(covariance: FloatArray) -> FloatArray:
    """Return the weights of the innovations, one column for each number that has one.

    ``covariance`` is the covariance ``S`` of the numbers. With the Cholesky factor ``S = L L^T`` of
    the numbers in use, the innovations of ``x`` are ``diag(L) L^-1 x``. The factor grows row by
    row, and a number that is determined by earlier numbers is omitted.
    """
    size = len(covariance)
    places: list[int] = []
    factor = np.zeros((size, size))
    for i in range(size):
        count = len(places)
        row = solve_triangular(factor[:count, :count], covariance[places, i], lower=True)
        variance = covariance[i, i] - row @ row
        if variance > _ROUNDING * covariance[i, i]:
            factor[count, :count], factor[count, count] = row, np.sqrt(variance)
            places.append(i)
    factor = factor[: len(places), : len(places)]
    weights = np.zeros((size, len(places)))
    scaled = np.diag(factor)[:, None] * solve_triangular(factor, np.eye(len(places)), lower=True)
    weights[places] = scaled.T
    return weights


SCORES: Mapping[str, Callable[[FloatArray, FloatArray], Score]] = MappingProxyType(
    {"discriminant": discriminant, "likelihood": likelihood}
)


def check_failure(failure: object) -> float:
    """Return ``failure`` as a float, or raise ``ValueError`` unless it is in (0, 1)."""
    value = real("failure", failure)
    if not 0.0 < value < 1.0:
        raise ValueError(f"failure must be above 0 and below 1, got {shown(failure)}")
    return value


def _check_samples(name: str, samples: object) -> FloatArray:
    """Return ``samples`` in float64, or raise ``ValueError`` unless they have shape ``(runs, k)``.

    All numbers must be finite, and there must be at least ``_LEAST_RUNS`` runs.
    """
    try:
        array = np.asarray(samples)
    except ValueError:
        raise ValueError(f"{name} must be an array, got rows of different shapes") from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be an array of numbers, got {described(samples)}")
    if array.ndim != 2 or array.shape[0] < _LEAST_RUNS or array.shape[1] == 0:
        raise ValueError(
            f"{name} must have shape (runs, numbers) with at least {_LEAST_RUNS} runs, got "
            f"{array.shape}"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return array.astype(np.float64)
