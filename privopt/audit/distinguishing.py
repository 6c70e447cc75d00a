"""The attack: a statistic and a threshold are learned on half of the runs, judged on the other."""

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

from privopt.arguments import positive_integer, shown
from privopt.audit.scores import SCORES, FloatArray, Score
from privopt.privacy import Guarantee
from privopt.statistics import clopper_pearson

_SHARES = ndtr(np.linspace(-3.3, 3.3, 200))  # of the scores that lie below a threshold
_FORGOTTEN = 0.95  # the share of runs without noise in another one
_QUIET = 0.01  # what these have left: some mechanisms refuse none


class Releases(Protocol):
    """Whatever can be attacked: a complete algorithm, or one mechanism, on two neighbours."""

    @property
    def name(self) -> str:
        """For people."""

    @property
    def guarantee(self) -> Guarantee:
        """What is claimed."""

    @property
    def control(self) -> float:
        """With which share of its noise an attack must refute the claim: half, or less."""

    def check(self) -> None:
        """ValueError where the two are no neighbours."""

    def sample(self, second: bool, noise: float, key: Array, runs: int) -> FloatArray:
        """What so many runs release on either, shape ``(runs, numbers)``, at a share of noise."""


class Finding(NamedTuple):
    """What a test on fresh runs proves: error rates, and how far apart two normals have them.

    ``alpha`` is at least the false-positive rate, ``power`` at most the true-positive rate, both
    by Clopper and Pearson. ``found = Phi^-1(power) - Phi^-1(alpha)``, 0 where that is negative;
    ``claimed`` is the same of the power that the guarantee allows at ``alpha``. ``score`` names the
    statistic, ``threshold`` that above which it guesses the first data set. ``band`` has
    ``alpha`` and ``power`` at many thresholds, each by itself: first these bounds, then those on
    the other side, shape ``(2, 2, thresholds)``.
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
        """``found/claimed``: above 1 the guarantee is refuted."""
        return self.found / self.claimed if self.found > 0.0 else 0.0


@dataclass(frozen=True)
class Audit:
    """An attack beside its three controls.

    ``identical`` is the same attack on two samples of one data set, where nothing may be found.
    Two defects are planted, and judged by the guarantee of the whole: ``weakened`` has the share
    ``control`` of the noise in all runs, ``forgotten`` has next to none in 19 runs of 20.
    ``failure`` bounds the probability of calling something refuted that keeps its guarantee.
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
        """``"kept"``, ``"refuted"``, or ``"blind"`` where a control fails: then nothing is said."""
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
    """An attack by ``runs`` runs on each of two data sets, with its controls.

    On a quarter of the runs two statistics of what is released are learned: the direction of
    Fisher's discriminant, and a sum of log-likelihood ratios. On the next quarter the better one
    is chosen, with the threshold of the best bound. The other half is judged: with probability ``1
    - failure`` or more, the true error rates are on the safe side of the :class:`Finding`.
    ``progress`` is told the samples that are drawn, of seven.

    Examples
    --------
    >>> from privopt import Budget
    >>> from privopt.audit import worst_pair
    >>> budget = Budget(epsilon=4.0, delta=1e-5, relation="replace_one")
    >>> found = audit(worst_pair("output_perturbation", budget), key=jax.random.key(0), runs=4000)
    >>> found.verdict, 0.7 < found.attack.ratio < 1.0
    ('kept', True)
    """
    attacked.check()
    positive_integer("runs", runs)
    if not 0.0 < failure < 1.0:
        raise ValueError(f"failure must be above 0 and below 1, got {shown(failure)}")
    guarantee, least = attacked.guarantee, least_runs(attacked.guarantee, failure)
    if runs < least:
        raise ValueError(f"runs must be at least {least} to see half of the noise, got {runs}")
    asked = [(False, 1.0), (True, 1.0), (False, 1.0)]
    asked += [(second, noise) for noise in (attacked.control, _QUIET) for second in (False, True)]
    drawn = []
    for place, (second, noise) in enumerate(asked):
        found = attacked.sample(second, noise, jax.random.fold_in(key, place), runs)
        if not np.isfinite(found).all():
            raise ValueError(f"{attacked.name} must release numbers, got NaN or infinity")
        drawn.append(found)
        progress(place + 1, len(asked))
    one, two, again, *weakened = drawn[:5]
    forgotten = (_mixed(one, drawn[5]), _mixed(two, drawn[6]))
    attack, same, less, none = (
        finding(here, there, guarantee, failure)
        for here, there in ((one, two), (one, again), weakened, forgotten)
    )
    share = attacked.control
    return Audit(attacked.name, guarantee, attack, same, less, none, share, runs, failure)


def _mixed(many: FloatArray, quiet: FloatArray) -> FloatArray:
    """``many``, of which evenly spread ones are ``quiet``."""
    found, few = many.copy(), math.ceil(_FORGOTTEN * len(many))
    found[np.linspace(0, len(many) - 1, few).round().astype(int)] = quiet[:few]
    return found


def least_runs(guarantee: Guarantee, failure: float) -> int:
    """Runs a side with which the best attack catches halved noise, by the normal approximation.

    Two unit normals ``2 mu`` apart are told apart at both error rates ``Phi(-mu)``; the rates of
    half of the runs must be known so well that ``Phi^-1`` of them is known to ``mu/2`` each.
    """
    middle = 0.5
    mu = float(norm.isf(guarantee.trade_off(np.array([middle]))[0]))
    if not 0.0 < mu < math.inf:
        return 2
    rate, reach = norm.sf(mu), float(norm.isf(0.5 * failure)) / (0.5 * mu * norm.pdf(mu))
    return 2 * math.ceil(rate * (1.0 - rate) * reach**2)


def finding(one: FloatArray, two: FloatArray, guarantee: Guarantee, failure: float) -> Finding:
    """What tells samples of two laws apart, shapes ``(runs, numbers)``, beside what is claimed.

    Of equally many runs. The first half is learned from, the second judged.
    """
    half, quarter = len(one) // 2, len(one) // 4
    best: tuple[float, str, Score, float, FloatArray] | None = None
    for name, learn in SCORES.items():
        score = learn(one[:quarter], two[:quarter])
        learned = np.sort([score(each[quarter:half]) for each in (one, two)])
        thresholds = np.unique(np.quantile(learned, _SHARES))
        alphas, powers = np.array([_bounds(learned, each, failure) for each in thresholds]).T
        seen = (alphas < 1.0) & (powers > 0.0)
        ratios = np.full(len(seen), -math.inf)
        ratios[seen] = _apart(alphas[seen], powers[seen]) / _allowed(guarantee, alphas[seen])
        chosen = int(np.argmax(ratios))
        if best is None or ratios[chosen] > best[0]:
            best = float(ratios[chosen]), name, score, float(thresholds[chosen]), thresholds
    assert best is not None
    _, name, score, threshold, thresholds = best
    judged = np.sort([score(each[half:]) for each in (one, two)])
    alpha, power = _bounds(judged, threshold, failure)
    cautious = np.array([_bounds(judged, each, failure) for each in thresholds])
    generous = np.array([_bounds(judged[::-1], each, failure)[::-1] for each in thresholds])
    band = np.array([cautious.T, generous.T])
    found = max(0.0, float(_apart(alpha, power))) if alpha < 1.0 else 0.0
    claimed = float(_allowed(guarantee, np.array([alpha]))[0])
    return Finding(alpha, power, found, claimed, name, threshold, band)


def _apart(alpha: npt.ArrayLike, power: npt.ArrayLike) -> FloatArray:
    """How far apart two unit normals have these error rates."""
    return np.asarray(norm.ppf(power) - norm.ppf(alpha))


def _allowed(guarantee: Guarantee, alphas: FloatArray) -> FloatArray:
    """The same of what the guarantee allows."""
    return _apart(alphas, 1.0 - guarantee.trade_off(alphas))


def _bounds(scores: FloatArray, threshold: float, failure: float) -> tuple[float, float]:
    """``alpha`` of sorted scores of the second data set above it, and power of the first's."""
    size = scores.shape[1]
    hits = [size - int(np.searchsorted(each, threshold, side="right")) for each in scores]
    lowers, uppers = clopper_pearson(hits, size, 0.5 * failure)
    return float(uppers[1]), float(lowers[0])
