"""Worst pairs of single mechanisms: two arrays of records on which one tells as much as it can."""

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
from privopt.audit.scores import FloatArray
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
    SmoothLaplaceMechanism,
    SparseVector,
    Thresholdout,
)

_TELLER = Callable[[Any, Array, Array], Pytree]  # of a mechanism, a key and records
_SIZE = 8
_BOUNDS = (-1.0, 1.0)
_QUESTIONS = (*((1.0, 0.9),) * 4, (-1.0, 0.0))  # how the record moves each, and the threshold
_REFUSED = -10.0  # in the place of a value that is not released
# A quarter of the noise, where theorems are loose: smooth noise is charged for its width as for its
# place, but that shows in tails alone; a test before a release, or each question before the last,
# is charged as if it told most together with what follows.
_CONTROL = dict.fromkeys(
    ("smooth_median", "propose_test_release", "sparse_vector", "thresholdout"), 0.25
)


class MechanismPair(NamedTuple):
    """A mechanism, what it releases of records, and two arrays that differ in one of these."""

    name: str
    mechanism: Any
    told: _TELLER
    one: FloatArray
    two: FloatArray
    budget: Budget
    control: float = 0.5

    @property
    def guarantee(self) -> Guarantee:
        """Of one release."""
        relation = self.budget.relation
        return Guarantee(self.mechanism.event(relation), relation)

    def check(self) -> None:
        """Refuse arrays that differ in more than one record."""
        moved = (self.one != self.two).reshape(len(self.one), -1).any(axis=1).sum()
        if moved != 1:
            raise ValueError(f"one and two must differ in one record, got {moved}")

    def sample(self, second: bool, noise: float, key: Array, runs: int) -> FloatArray:
        """What so many releases of ``one``, or the second, tell with so many times the noise."""
        records = jnp.asarray(self.two if second else self.one)
        found = _teller(self.told, _scaled(self.mechanism, noise))(
            jax.random.split(key, runs), records
        )
        rows = [np.reshape(np.asarray(each), (runs, -1)) for each in jax.tree.leaves(found)]
        return np.hstack(rows).astype(np.float64)


@lru_cache(maxsize=8)
def _teller(told: _TELLER, mechanism: Any) -> Callable[[Array, Array], Pytree]:
    """One program for all calls: of keys and records, what is told."""
    return jax.jit(jax.vmap(partial(told, mechanism), (0, None)))


def _scaled(mechanism: Any, factor: float) -> Any:
    """With every scale of noise times a factor, those of its parts too."""
    changed = {}
    for name, value in mechanism._asdict().items():
        if name.endswith("scale"):
            changed[name] = value * factor
        elif hasattr(value, "event"):
            changed[name] = _scaled(value, factor)
    return mechanism._replace(**changed)


def _opposites(size: int = _SIZE) -> tuple[FloatArray, FloatArray]:
    """The first record at either bound, all others in the middle."""
    one = np.zeros(size)
    one[0] = 1.0
    return one, -one


def _added(query: Any) -> _TELLER:
    return lambda mechanism, key, records: mechanism.add_noise(key, query.answer(records))


def _noisy(kind: Any, query: Any) -> Callable[[Budget], tuple[Any, ...]]:
    return lambda budget: (kind.calibrated(query, budget), _added(query), *_opposites())


def _selection(budget: Budget) -> tuple[Any, ...]:
    """A record is its scores of two candidates: at the end of the range that is sure of one."""

    def told(mechanism: Any, key: Array, records: Array) -> Array:
        return mechanism.select(key, records.sum(axis=0))

    one = np.zeros((_SIZE, 2))
    one[0] = 1.0, -1.0
    one[1] = 0.99, -0.99  # so that without noise the two differ
    two = one.copy()
    two[0] = -1.0, 1.0
    return ExponentialMechanism.calibrated(BoundedScores.of(1.0), budget), told, one, two


def _released(mechanism: Any, key: Array, records: Array) -> Array:
    return mechanism.release(key, records)


def _smooth(budget: Budget) -> tuple[Any, ...]:
    """The middle one of three at either bound, which are the others."""
    most = replace(budget, epsilon=min(1.0, budget.epsilon))  # no theorem above
    mechanism = SmoothLaplaceMechanism.calibrated(Median.of(*_BOUNDS), most)
    return mechanism, _released, np.array([1.0, 1.0, -1.0]), np.array([-1.0, 1.0, -1.0])


def _proposed(budget: Budget) -> tuple[Any, ...]:
    """A record whose move brings the median down by the bound, and instability one step nearer."""
    bound = 0.1
    mechanism = ProposeTestRelease.calibrated(Median.of(*_BOUNDS), bound, budget)
    near = math.floor(mechanism.threshold) + 1
    one = np.concatenate([np.full(near + 1, bound), np.zeros(near)])
    two = one.copy()
    two[0] = -1.0

    def told(mechanism: Any, key: Array, records: Array) -> Array:
        found = mechanism.release(key, records)
        return jnp.stack(
            [
                found.accepted.astype(found.value.dtype),
                jnp.where(found.accepted, found.value, _REFUSED),
            ]
        )

    return mechanism, told, one, two


def _sparse(budget: Budget) -> tuple[Any, ...]:
    """Questions whose answers the record moves up, then one that it moves down; which one is met.

    The first lie a little below the threshold, so that they tell of its noise.
    """
    query = BoundedSum.of(*_BOUNDS)
    mechanism = SparseVector.calibrated(query, budget, answers=1)

    def told(mechanism: Any, key: Array, records: Array) -> Array:
        answer, state, met = query.answer(records), mechanism.init(key), []
        for sign, threshold in _QUESTIONS:
            above, state = mechanism.update(state, sign * answer, threshold)
            met.append(above)
        return jnp.argmax(jnp.stack([*met, jnp.asarray(True)]))

    return mechanism, told, *_opposites()


def _holdout(budget: Budget) -> tuple[Any, ...]:
    """As for the sparse vector: training means lie on either side of the holdout's."""
    query, gap = BoundedMean.of(*_BOUNDS, size=_SIZE), 0.5
    mechanism = Thresholdout.calibrated(query, gap, budget, answers=1)

    def told(mechanism: Any, key: Array, records: Array) -> Array:
        state, met, value = mechanism.init(key), [], jnp.zeros((), records.dtype)
        for sign, below in _QUESTIONS:
            training = jnp.full(_SIZE, -sign * (gap - below / _SIZE), records.dtype)
            answer, after = mechanism.update(state, training, records)
            met.append(after.remaining < state.remaining)
            value, state = jnp.where(met[-1], answer, value), after
        which = jnp.argmax(jnp.stack([*met, jnp.asarray(True)]))
        return jnp.stack([which.astype(value.dtype), value])

    return mechanism, told, *_opposites()


_MEAN = BoundedMean.of(*_BOUNDS, size=_SIZE)
_HALVES = Histogram((-1.0, 0.0, 1.0))

MECHANISMS: Mapping[str, Callable[[Budget], tuple[Any, ...]]] = MappingProxyType(
    {
        "gaussian_mean": _noisy(GaussianMechanism, _MEAN),
        "laplace_mean": _noisy(LaplaceMechanism, _MEAN),
        "gaussian_sum": _noisy(GaussianMechanism, BoundedSum.of(*_BOUNDS)),
        "laplace_histogram": _noisy(LaplaceMechanism, _HALVES),
        "norm_laplace_histogram": _noisy(NormLaplaceMechanism, _HALVES),
        "selection": _selection,
        "smooth_median": _smooth,
        "propose_test_release": _proposed,
        "sparse_vector": _sparse,
        "thresholdout": _holdout,
    }
)
"""By name: what makes a mechanism at a budget, what it tells, and its two arrays of records."""


def mechanism_pair(name: str, budget: Budget) -> MechanismPair:
    """The worst pair of a mechanism of ``MECHANISMS``; the relation must be ``replace_one``.

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
    mechanism, told, one, two = MECHANISMS[name](budget)
    return MechanismPair(name, mechanism, told, one, two, budget, _CONTROL.get(name, 0.5))
