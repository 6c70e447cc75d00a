"""Distinguishing attack: learn a statistic and a threshold on half of the runs, test on others."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import jax
import numpy as np
import numpy.typing as npt
from jax import Array
from scipy.special import ndtr
from scipy.stats import norm

from privopt.arguments import answering, described, instance, positive_integer
from privopt.audit.rules import LEAST_RUNS, check_failure, check_samples
from privopt.audit.scores import SCORES, FloatArray, Score
from privopt.privacy import Guarantee
from privopt.random import as_key
from privopt.statistics import clopper_pearson

_SHARES = ndtr(np.linspace(-3.3, 3.3, 200))  # of the scores below a threshold
_FORGOTTEN = 0.95  # share of the runs whose noise is omitted in the second defect
_QUIET = 0.01  # factor of their noise: some mechanisms refuse 0
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
    ``found = max(0, Phi^-1(power) - Phi^-1(alpha))``, and ``claimed`` is the same number for the
    power that the guarantee allows at ``alpha``. The test guesses the first data set if the
    statistic ``score`` is above ``threshold``. ``band`` contains ``alpha`` and ``power`` at many
    thresholds, each valid by itself: these bounds first, then the bounds on the other side, shape
    ``(2, 2, thresholds)``.
    """

    alpha: float
    power: float
    found: float
    claimed: float
    score: str
    threshold: float
    band: FloatArray

    @property
    def ratio(self) -> float:
        """Ratio ``found/claimed``; above 1 the guarantee is refuted."""
        return self.found / self.claimed if self.found > 0.0 else 0.0


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
        seen = min(self.weakened.ratio, self.forgotten.ratio) > 1.0
        if self.identical.found > 0.0 or not seen:
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
        raise ValueError(f"runs must be at least {least} to see half of the noise, got {runs}")
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
        return LEAST_RUNS
    rate, reach = norm.sf(mu), float(norm.isf(0.5 * failure)) / (0.5 * mu * norm.pdf(mu))
    return max(LEAST_RUNS, 2 * math.ceil(rate * (1.0 - rate) * reach**2))


def finding(one: FloatArray, two: FloatArray, guarantee: Guarantee, failure: float) -> Finding:
    """Learn a test between samples of two laws on their first halves; evaluate it on the second.

    ``one`` and ``two`` have one shape ``(runs, numbers)``. ``guarantee`` is the claim with which
    the test is compared, and ``failure`` the probability, in (0, 1), that a bound is wrong.
    """
    one, two = check_samples("one", one), check_samples("two", two)
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
