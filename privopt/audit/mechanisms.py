"""Worst pairs of single mechanisms: the two arrays of records with the most different releases."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from privopt.arguments import instance, member
from privopt.audit.distinguishing import FloatArray
from privopt.mechanisms import GaussianMechanism, LaplaceMechanism, NormLaplaceMechanism
from privopt.privacy import Guarantee
from privopt.release import Pytree
from privopt.spec import Budget, Relation
from privopt.statistics import (
    BoundedMean,
    BoundedScores,
    BoundedSum,
    ExponentialMechanism,
    Histogram,
    Median,
    ProposeTestRelease,
    SmoothCauchyMechanism,
    SmoothLaplaceMechanism,
    SparseVector,
    Thresholdout,
)

_Release = Callable[[Any, Array, Array], Pytree]  # (mechanism, key, records) -> released numbers
_SIZE = 8
_BOUNDS = (-1.0, 1.0)
_QUESTIONS = (*((1.0, 0.9),) * 4, (-1.0, 0.0))  # sign of the sensitivity, and threshold
_NOT_RELEASED = -10.0  # replaces a value that is not released
# For these mechanisms the attack must detect a quarter of the noise. Their theorems are loose:
# smooth noise pays for a change of its width, which shows in the tails only, and a test or a
# question before the last one pays as if its worst case coincided with that of the next release.
_CONTROL = dict.fromkeys(
    ("smooth_median", "propose_test_release", "sparse_vector", "thresholdout"), 0.25
)


class MechanismPair(NamedTuple):
    """Mechanism, function that releases from records, and two arrays that differ in one record."""

    name: str
    mechanism: Any
    release: _Release
    one: FloatArray
    two: FloatArray
    budget: Budget
    control: float = 0.5

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of one release."""
        relation = self.budget.relation
        return Guarantee(self.mechanism.event(relation), relation)

    def check(self) -> None:
        """Raise ``ValueError`` unless the arrays differ in one record."""
        differs = (self.one != self.two).reshape(len(self.one), -1).any(axis=1).sum()
        if differs != 1:
            raise ValueError(f"one and two must differ in one record, got {differs}")

    def sample(self, second: bool, noise: float, key: Array, runs: int) -> FloatArray:
        """Return releases of ``one``, or of ``two``, with scaled noise: ``(runs, numbers)``."""
        records = jnp.asarray(self.two if second else self.one)
        release = _compiled(self.release, _scaled(self.mechanism, noise))
        released = release(jax.random.split(key, runs), records)
        rows = [np.reshape(np.asarray(each), (runs, -1)) for each in jax.tree.leaves(released)]
        return np.hstack(rows).astype(np.float64)


@lru_cache(maxsize=8)
def _compiled(release: _Release, mechanism: Any) -> Callable[[Array, Array], Pytree]:
    """Return the compiled function ``(keys, records) -> releases``."""
    return jax.jit(jax.vmap(partial(release, mechanism), (0, None)))


def _scaled(mechanism: Any, factor: float) -> Any:
    """Multiply all noise scales of a mechanism and of its parts by ``factor``."""
    changed = {}
    for name, value in mechanism._asdict().items():
        if name.endswith("scale"):
            changed[name] = value * factor
        elif hasattr(value, "event"):
            changed[name] = _scaled(value, factor)
    return mechanism._replace(**changed)


def _opposites(size: int = _SIZE) -> tuple[FloatArray, FloatArray]:
    """Return two arrays of zeros except for the first record, which is at either bound."""
    one = np.zeros(size)
    one[0] = 1.0
    return one, -one


def _additive(kind: Any, query: Any) -> Callable[[Budget], tuple[Any, ...]]:
    def release(mechanism: Any, key: Array, records: Array) -> Pytree:
        return mechanism.add_noise(key, query.answer(records))

    return lambda budget: (kind.calibrated(query, budget), release, *_opposites())


def _selection(budget: Budget) -> tuple[Any, ...]:
    """Construct the pair of the exponential mechanism. A record has scores of two candidates.

    The scores of ``one`` select the first candidate, and those of ``two`` narrowly the second one.
    """

    def release(mechanism: Any, key: Array, records: Array) -> Array:
        return mechanism.select(key, records.sum(axis=0))

    one = np.zeros((_SIZE, 2))
    one[0] = 1.0, -1.0
    one[1] = 0.99, -0.99  # the selections differ without noise too
    two = one.copy()
    two[0] = -1.0, 1.0
    return ExponentialMechanism.calibrated(BoundedScores.of(1.0), budget), release, one, two


def _median_release(mechanism: Any, key: Array, records: Array) -> Array:
    return mechanism.release(key, records)


def _smooth(budget: Budget) -> tuple[Any, ...]:
    """Construct the pair of the smooth median: three records at the bounds, one is changed."""
    most = replace(budget, epsilon=min(1.0, budget.epsilon))  # the theorem needs epsilon <= 1
    mechanism = SmoothLaplaceMechanism.calibrated(Median.of(*_BOUNDS), most)
    return mechanism, _median_release, np.array([1.0, 1.0, -1.0]), np.array([-1.0, 1.0, -1.0])


def _smooth_pure(budget: Budget) -> tuple[Any, ...]:
    """Construct the pair of the smooth median with Cauchy noise, which is pure."""
    mechanism = SmoothCauchyMechanism.calibrated(Median.of(*_BOUNDS), replace(budget, delta=0.0))
    return mechanism, _median_release, np.array([1.0, 1.0, -1.0]), np.array([-1.0, 1.0, -1.0])


def _stable(budget: Budget) -> tuple[Any, ...]:
    """Construct the pair of propose-test-release.

    The changed record decreases the median by the proposed bound, and the distance to instability
    by one.
    """
    bound = 0.1
    mechanism = ProposeTestRelease.calibrated(Median.of(*_BOUNDS), bound, budget)
    near = math.floor(mechanism.threshold) + 1
    one = np.concatenate([np.full(near + 1, bound), np.zeros(near)])
    two = one.copy()
    two[0] = -1.0

    def release(mechanism: Any, key: Array, records: Array) -> Array:
        result = mechanism.release(key, records)
        value = jnp.where(result.accepted, result.value, _NOT_RELEASED)
        return jnp.stack([result.accepted.astype(value.dtype), value])

    return mechanism, release, one, two


def _sparse(budget: Budget) -> tuple[Any, ...]:
    """Construct the pair of the sparse vector technique; it releases the first question above.

    The record increases the answers to the first questions and decreases the last one. The first
    answers are slightly below the threshold, so that they depend on its noise.
    """
    query = BoundedSum.of(*_BOUNDS)
    mechanism = SparseVector.calibrated(query, budget, answers=1)

    def release(mechanism: Any, key: Array, records: Array) -> Array:
        answer, state, results = query.answer(records), mechanism.init(key), []
        for sign, threshold in _QUESTIONS:
            result, state = mechanism.update(state, sign * answer, threshold)
            results.append(result)
        return jnp.argmax(jnp.stack([*results, jnp.asarray(True)]))

    return mechanism, release, *_opposites()


def _holdout(budget: Budget) -> tuple[Any, ...]:
    """Construct the pair of Thresholdout, with the questions of the sparse vector technique.

    Training means are on either side of the holdout mean.
    """
    query, gap = BoundedMean.of(*_BOUNDS, size=_SIZE), 0.5
    mechanism = Thresholdout.calibrated(query, gap, budget, answers=1)

    def release(mechanism: Any, key: Array, records: Array) -> Array:
        state, results, value = mechanism.init(key), [], jnp.zeros((), records.dtype)
        for sign, threshold in _QUESTIONS:
            training = jnp.full(_SIZE, -sign * (gap - threshold / _SIZE), records.dtype)
            answer, following = mechanism.update(state, training, records)
            results.append(following.remaining < state.remaining)
            value, state = jnp.where(results[-1], answer, value), following
        first = jnp.argmax(jnp.stack([*results, jnp.asarray(True)]))
        return jnp.stack([first.astype(value.dtype), value])

    return mechanism, release, *_opposites()


_MEAN = BoundedMean.of(*_BOUNDS, size=_SIZE)
_HALVES = Histogram((-1.0, 0.0, 1.0))

MECHANISMS: Mapping[str, Callable[[Budget], tuple[Any, ...]]] = MappingProxyType(
    {
        "gaussian_mean": _additive(GaussianMechanism, _MEAN),
        "laplace_mean": _additive(LaplaceMechanism, _MEAN),
        "gaussian_sum": _additive(GaussianMechanism, BoundedSum.of(*_BOUNDS)),
        "laplace_histogram": _additive(LaplaceMechanism, _HALVES),
        "norm_laplace_histogram": _additive(NormLaplaceMechanism, _HALVES),
        "selection": _selection,
        "smooth_median": _smooth,
        "pure_smooth_median": _smooth_pure,
        "propose_test_release": _stable,
        "sparse_vector": _sparse,
        "thresholdout": _holdout,
    }
)
"""Functions that construct, for a budget, a mechanism, its release and two arrays of records."""


def mechanism_pair(name: str, budget: Budget) -> MechanismPair:
    """Return the worst pair of a mechanism of ``MECHANISMS``, under ``replace_one``.

    Examples
    --------
    >>> from privopt.audit import audit
    >>> budget = Budget(epsilon=1.0, delta=0.0, relation="replace_one")
    >>> pair = mechanism_pair("laplace_mean", budget)
    >>> audit(pair, key=jax.random.key(0), runs=20_000).verdict
    'kept'
    """
    member("name", name, MECHANISMS)
    if instance("budget", budget, Budget).relation is not Relation.REPLACE_ONE:
        raise ValueError(f"relation must be replace_one, got {budget.relation.value}")
    mechanism, release, one, two = MECHANISMS[name](budget)
    return MechanismPair(name, mechanism, release, one, two, budget, _CONTROL.get(name, 0.5))
