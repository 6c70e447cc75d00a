"""The attack: a direction and a threshold are learned on half of the runs, judged on the other."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import jax
import numpy as np
import numpy.typing as npt
from jax import Array
from scipy.special import betaincinv
from scipy.stats import norm

from privopt.arguments import instance, positive_integer
from privopt.audit.pairs import Pair
from privopt.core import Plan, run_many
from privopt.privacy import Guarantee
from privopt.problems import Problem

FloatArray: TypeAlias = npt.NDArray[np.float64]

_TOGETHER = 5_000  # runs in one call: one program, memory bounded
_THRESHOLDS = 200
_HALVED = 0.5  # the noise of the control that must be caught


class Finding(NamedTuple):
    """What a test on fresh runs proves: error rates, and how far apart two normals have them.

    ``alpha`` is at least the false-positive rate, ``power`` at most the true-positive rate, both
    by Clopper and Pearson. ``found = Phi^-1(power) - Phi^-1(alpha)``, 0 where that is negative;
    ``claimed`` is the same of the power that the guarantee allows at ``alpha``.
    """

    alpha: float
    power: float
    found: float
    claimed: float

    @property
    def ratio(self) -> float:
        """``found/claimed``: above 1 the guarantee is refuted."""
        return self.found / self.claimed if self.found > 0.0 else 0.0


@dataclass(frozen=True)
class Audit:
    """An attack on one plan beside its two controls.

    ``identical`` is the same attack on two samples of one data set, ``halved`` that on runs with
    half of the noise, judged by the guarantee of the whole. ``failure`` bounds the probability of
    calling a plan refuted that keeps its guarantee.
    """

    algorithm: str
    guarantee: Guarantee
    attack: Finding
    identical: Finding
    halved: Finding
    runs: int
    failure: float

    @property
    def verdict(self) -> str:
        """``"kept"``, ``"refuted"``, or ``"blind"`` where a control fails: then nothing is said."""
        if self.identical.found > 0.0 or self.halved.ratio <= 1.0:
            return "blind"
        return "refuted" if self.attack.ratio > 1.0 else "kept"


def audit(
    pair: Pair,
    *,
    key: Array,
    runs: int = 100_000,
    failure: float = 1e-3,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Audit:
    """An attack on ``pair.plan`` by ``runs`` runs on each of two data sets, with its controls.

    On the first half of the runs the direction of Fisher's discriminant is learned from what is
    released, the path included, and the threshold along it of the best bound. The other half is
    judged: with probability ``1 - failure`` or more, the true error rates are on the safe side of
    the :class:`Finding`. ``progress`` is told the samples that are drawn, of five.

    Examples
    --------
    >>> from privopt import Budget
    >>> from privopt.audit import worst_pair
    >>> budget = Budget(epsilon=4.0, delta=1e-5, relation="replace_one")
    >>> found = audit(worst_pair("output_perturbation", budget), key=jax.random.key(0), runs=4000)
    >>> found.verdict, 0.7 < found.attack.ratio < 1.0
    ('kept', True)
    """
    plan, one, two = pair
    instance("plan", plan, Plan)
    _check_neighbours(one, two)
    positive_integer("runs", runs)
    if not 0.0 < failure < 1.0:
        raise ValueError(f"failure must be above 0 and below 1, got {failure!r}")
    guarantee, least = plan.guarantee, least_runs(plan.guarantee, failure)
    if runs < least:
        raise ValueError(f"runs must be at least {least} to see half of the noise, got {runs}")
    weaker = plan.with_noise(_HALVED)
    asked = ((plan, one), (plan, two), (plan, one), (weaker, one), (weaker, two))
    drawn = []
    for place, (each, where) in enumerate(asked):
        drawn.append(_released(each, where, jax.random.fold_in(key, place), runs))
        progress(place + 1, len(asked))
    attack, identical, halved = (
        _finding(drawn[i], drawn[j], guarantee, failure) for i, j in ((0, 1), (0, 2), (3, 4))
    )
    name = plan.algorithm.name
    return Audit(name, guarantee, attack, identical, halved, runs, failure)


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


def _check_neighbours(one: Problem, two: Problem) -> None:
    """Refuse data sets that differ in more than one record, or in their class."""
    instance("one", one, Problem)
    instance("two", two, Problem)
    if one.problem_class != two.problem_class:
        raise ValueError("one and two must have one problem_class, got two")
    leaves = zip(jax.tree.leaves(one.data), jax.tree.leaves(two.data), strict=True)
    moved = np.zeros(one.problem_class.n, bool)
    for left, right in leaves:
        moved |= (np.asarray(left) != np.asarray(right)).reshape(len(moved), -1).any(axis=1)
    if moved.sum() != 1:
        raise ValueError(f"one and two must differ in one record, got {moved.sum()}")


def _released(plan: Plan, problem: Problem, key: Array, runs: int) -> FloatArray:
    """All numbers that each run releases, path included; shape ``(runs, numbers)``."""
    keys, rows = jax.random.split(key, runs), []
    for start in range(0, runs, _TOGETHER):
        run = run_many([plan], problem, keys[start : start + _TOGETHER])
        parts = [run.released] if run.path is None else [run.released, run.path.points]
        rows.append(np.hstack([np.reshape(np.asarray(x[0]), (len(x[0]), -1)) for x in parts]))
    found = np.concatenate(rows).astype(np.float64)
    if not np.isfinite(found).all():
        raise ValueError(f"{plan.algorithm.name} must release numbers, got NaN or infinity")
    return found


def _finding(one: FloatArray, two: FloatArray, guarantee: Guarantee, failure: float) -> Finding:
    """Learned on the first half, judged on the second."""
    half = len(one) // 2
    direction = _discriminant(one[:half], two[:half])
    scores = one @ direction, two @ direction
    learned = np.sort(scores[0][:half]), np.sort(scores[1][:half])
    thresholds = np.quantile(np.concatenate(learned), np.linspace(0.002, 0.998, _THRESHOLDS))
    bounds = [_bounds(learned, each, failure) for each in thresholds]
    best = int(np.argmax([norm.ppf(power) - norm.ppf(alpha) for alpha, power in bounds]))
    fresh = np.sort(scores[0][half:]), np.sort(scores[1][half:])
    alpha, power = _bounds(fresh, float(thresholds[best]), failure)
    allowed = 1.0 - float(guarantee.trade_off(np.array([alpha]))[0])
    found = max(0.0, float(norm.ppf(power) - norm.ppf(alpha)))
    return Finding(alpha, power, found, float(norm.ppf(allowed) - norm.ppf(alpha)))


def _discriminant(one: FloatArray, two: FloatArray) -> FloatArray:
    """Fisher's direction, of the numbers that move at all."""
    spread = 0.5 * (np.cov(one, rowvar=False) + np.cov(two, rowvar=False))
    gap = one.mean(axis=0) - two.mean(axis=0)
    return np.asarray(np.linalg.lstsq(np.atleast_2d(spread), gap, rcond=1e-10)[0])


def _bounds(
    scores: tuple[FloatArray, FloatArray], threshold: float, failure: float
) -> tuple[float, float]:
    """``alpha`` of sorted scores of the second data set above it, and power of the first's."""
    hits = [len(each) - int(np.searchsorted(each, threshold, side="right")) for each in scores]
    size, share = len(scores[0]), 0.5 * failure
    power = betaincinv(hits[0], size - hits[0] + 1, share) if hits[0] else 0.0
    alpha = betaincinv(hits[1] + 1, size - hits[1], 1.0 - share) if hits[1] < size else 1.0
    return float(alpha), float(power)
