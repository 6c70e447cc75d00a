"""Hard families of sparse records: means, linear losses on a ball, and stationary points of sines.

What the records are, and why they are hard, is told in :mod:`privopt.problems.sparse_records`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from privopt.convex import Separable, Sine, SparseFeatures, pytree_dataclass
from privopt.problems.indexed import Family
from privopt.problems.models import linear, squared_distance
from privopt.problems.problem import Problem
from privopt.problems.sparse_records import (
    SparseRecords,
    copies,
    fingerprints,
    packing,
    same_record,
    silence,
)
from privopt.spec import ProblemClass

__all__ = ["SPARSE_FAMILIES", "HalfSquare"]

_Sampler: TypeAlias = Callable[..., SparseRecords]
_Losses: TypeAlias = Callable[[str, SparseRecords, ProblemClass], Problem]

_SWEPT = (1.0, 2.0, 4.0, 8.0)


@pytree_dataclass
@dataclass(frozen=True)
class HalfSquare:
    """``r(w) = |w|_2^2 / 2``, a term of no record.

    Examples
    --------
    >>> HalfSquare()(jnp.array([3.0, 4.0])).item()
    12.5
    """

    def __call__(self, point: Array) -> Array:
        """``|w|^2 / 2``."""
        return 0.5 * jnp.sum(jnp.square(point))


def _built(
    name: str,
    losses: _Losses,
    sampler: _Sampler,
    *,
    n: int,
    dim: int,
    noise_ratio: float,
    strength: float,
    sparsity: int | None = None,
) -> Problem:
    """The records of a sampler under the losses of a family."""
    found = sampler(n=n, dim=dim, sparsity=sparsity, noise_ratio=noise_ratio, strength=strength)
    sizes = ProblemClass(n=n, dim=dim, lipschitz=math.inf, radius=math.inf, sparsity=sparsity)
    return losses(name, found, sizes)


def _mean(name: str, records: SparseRecords, sizes: ProblemClass) -> Problem:
    """``|w - x|^2 / 2`` for records in the unit ball, over the unit ball."""
    facts = replace(sizes, lipschitz=2.0, radius=1.0, smoothness=1.0, strong_convexity=1.0)
    return squared_distance(records.rows, problem_class=facts, counts=records.counts, name=name)


def _linear(name: str, records: SparseRecords, sizes: ProblemClass) -> Problem:
    """``-<w, x>`` over the unit ball, least at ``zbar/|zbar|``: excess ``|zbar| - <w, zbar>``."""
    pull = _total(*records)
    return linear(
        records.rows,
        problem_class=replace(sizes, lipschitz=1.0, radius=1.0, smoothness=0.0),
        counts=records.counts,
        minimiser=pull / np.linalg.norm(pull),
        name=name,
    )


def _sines(name: str, records: SparseRecords, sizes: ProblemClass) -> Problem:
    """``-sum_j x_j sin(w_j)``, and ``|w|^2 / 2`` of no record: the gradient is ``w - zbar cos w``.

    Gradients of records are sparse, of norm at most 1. The public term makes noise on every
    coordinate count. Each loss is ``max |x_j|``-smooth and the public term 1-smooth. Stationary
    points have ``|w| <= |zbar|``.
    """
    return Problem(
        loss=Separable(Sine()),
        data=records.rows,
        problem_class=replace(sizes, lipschitz=1.0, smoothness=2.0, convex=False),
        counts=records.counts,
        public=HalfSquare(),
        name=name,
    )


def _total(rows: SparseFeatures, counts: NDArray[np.int64] | None) -> NDArray[np.float64]:
    """``sum_i x_i`` on the host in float64."""
    weights = np.ones(rows.shape[0]) if counts is None else counts
    shares = np.asarray(rows.values, np.float64) * weights[:, None]
    total = np.bincount(np.asarray(rows.indices).ravel(), shares.ravel(), rows.dim)
    return total.astype(np.float64)


def _silence(*, n: int, dim: int, **unused: object) -> SparseRecords:
    del unused
    return silence(n=n, dim=dim)


def _same(*, n: int, dim: int, sparsity: int | None, **unused: object) -> SparseRecords:
    del unused
    return same_record(n=n, dim=dim, sparsity=sparsity)


def _padded(
    *, n: int, dim: int, sparsity: int | None, noise_ratio: float, strength: float
) -> SparseRecords:
    """The copies of strength 4 of the first ``n / strength`` records, and zero records."""
    kept = int(n / strength)
    rows, counts = copies(
        n=kept, dim=dim, sparsity=sparsity, noise_ratio=noise_ratio * n / kept, strength=4.0
    )
    assert counts is not None
    return SparseRecords(rows, counts + (np.arange(counts.size) == counts.size - 1) * (n - kept))


def _family(
    name: str,
    summary: str,
    losses: _Losses,
    sampler: _Sampler,
    strengths: tuple[float, ...] = (1.0,),
) -> Family:
    return Family(name, summary, partial(_built, name, losses, sampler), strengths)


SPARSE_FAMILIES = (
    _family("sparse_silence", "means of zero records: what noise alone does", _mean, _silence),
    _family(
        "sparse_copies",
        "means of blocks of identical sparse records, of swept size: hard at approximate budgets",
        _mean,
        copies,
        _SWEPT,
    ),
    _family(
        "sparse_fingerprints",
        "means of blocks of sparse records with random signs, of swept size: the same, by tracing",
        _mean,
        fingerprints,
        _SWEPT,
    ),
    _family(
        "sparse_packing",
        "means of blocks of identical sparse records on random places: hard at pure budgets",
        _mean,
        packing,
        _SWEPT,
    ),
    _family(
        "sparse_padded",
        "the same blocks beside a swept share of zero records",
        _mean,
        _padded,
        (2.0, 4.0, 8.0),
    ),
    _family("sparse_same_record", "means of one sparse record: easy", _mean, _same),
    _family(
        "sparse_linear",
        "linear losses of blocks of identical sparse records, of swept size: hard on the ball",
        _linear,
        copies,
        _SWEPT,
    ),
    _family("sparse_same_linear", "linear losses of one sparse record: easy", _linear, _same),
    _family(
        "sparse_sines",
        "sines of blocks of identical sparse records, of swept size: stationary points",
        _sines,
        copies,
        _SWEPT,
    ),
    _family("sparse_same_sines", "sines of one sparse record: easy", _sines, _same),
)
