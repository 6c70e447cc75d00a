"""Hard families of sparse records: means, linear losses on a ball, stationary points of sines.

The coordinates are divided into blocks. Block ``k`` has ``n_0`` records, which are zero outside the
block: an independent data set with too few records for a private estimate of its mean. The number
of blocks is the largest possible, ``K = min(floor(n / n_0), floor(d / s))``, with at least ``s``
coordinates each; records beyond ``K n_0`` are zero. ``n_0`` depends on the public ``noise_ratio``
and on a swept strength (:ref:`Sparse gradients, Theorem 13 <theory-sparse-13>`). Signs are sampled
once for every ``(d, s)``, and the first blocks have the first signs, so a family is the same for
every ``n``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int64
from numpy.typing import NDArray

from privopt.arguments import positive_integer
from privopt.convex import Separable, Sine, SparseFeatures
from privopt.problems.losses import HalfSquare
from privopt.problems.models import linear, squared_distance
from privopt.problems.problem import Family, Problem
from privopt.spec import ProblemClass

_SWEPT = (1.0, 2.0, 4.0, 8.0)


class SparseRecords(NamedTuple):
    """Distinct records of norm at most 1 and their multiplicities (None: all 1)."""

    rows: SparseFeatures
    counts: Int64[np.ndarray, " n"] | None


def copies(
    *, n: int, dim: int, sparsity: int | None, noise_ratio: float, strength: float
) -> SparseRecords:
    """Return blocks of ``n_0`` identical records ``u_k``, uniform in ``{-1, 1}^s / sqrt(s)``.

    ``|zbar|_2 = sqrt(K) n_0/n`` and ``|zbar|_1 = sqrt(s) K n_0/n``. There are ``floor(d/s) + 1``
    rows for every ``n``, so problems of all sizes share one program. Rows beyond ``K`` have
    multiplicity 0, and the last row is the zero record.

    Examples
    --------
    >>> records = copies(n=100, dim=12, sparsity=4, noise_ratio=0.1, strength=1.0)
    >>> records.rows.shape, records.counts.tolist()
    ((4, 12), [6, 6, 6, 82])
    """
    sparsity = declared_sparsity(sparsity, dim)
    size = _records_per_block(n, dim, sparsity, noise_ratio, strength)
    count = _blocks(n, dim, sparsity, size)
    signs = _signs(dim, sparsity)
    places = np.arange(signs.size).reshape(signs.shape)
    return _counted(places, signs, dim, n, size, count)


def silence(*, n: int, dim: int, **unused: object) -> SparseRecords:
    """Return zero records: the release contains noise only."""
    return SparseRecords(_features(np.zeros((1, 1), int), np.zeros((1, 1)), dim), np.array([n]))


def same_record(*, n: int, dim: int, sparsity: int | None, **unused: object) -> SparseRecords:
    """Return ``n`` copies of the first record ``u_1``: an easy mean of norm 1."""
    sparsity = declared_sparsity(sparsity, dim)
    signs = _signs(dim, sparsity)[:1]
    return SparseRecords(_features(np.arange(sparsity)[None], signs, dim), np.array([n]))


def fingerprints(
    *, n: int, dim: int, sparsity: int | None, noise_ratio: float, strength: float
) -> SparseRecords:
    """Return records ``+-1/sqrt(s)`` with independent signs of means uniform on [-1, 1]."""
    sparsity = declared_sparsity(sparsity, dim)
    size = _records_per_block(n, dim, sparsity, noise_ratio, strength)
    count = _blocks(n, dim, sparsity, size)
    means = np.random.default_rng([dim, sparsity, 2]).uniform(
        -1.0, 1.0, (dim // sparsity, sparsity)
    )
    draws = np.random.default_rng([dim, sparsity, 3]).uniform(-1.0, 1.0, (count, size, sparsity))
    signs = np.zeros((n, sparsity))
    places = np.zeros((n, sparsity), np.int64)
    used = count * size
    signs[:used] = np.where(draws < means[:count, None], 1.0, -1.0).reshape(used, sparsity)
    owned = np.arange(count * sparsity).reshape(count, sparsity)
    places[:used] = np.repeat(owned, size, axis=0)
    return SparseRecords(_features(places, signs, dim), None)


def packing(
    *, n: int, dim: int, sparsity: int | None, noise_ratio: float, strength: float
) -> SparseRecords:
    """Return copies of one record per block, on ``s`` random of its ``floor(d/K)`` coordinates.

    For pure budgets: ``n_0 = ceil(c s ln(max(e, d/(n epsilon))) / epsilon)``.
    """
    sparsity = declared_sparsity(sparsity, dim)
    inverse = noise_ratio * n / dim
    size = math.ceil(strength * sparsity * math.log(max(math.e, noise_ratio)) * inverse)
    count = _blocks(n, dim, sparsity, size)
    width = dim // count
    ranks = np.random.default_rng([dim, sparsity, 4]).random(dim)[: count * width]
    columns = np.argsort(ranks.reshape(count, width), axis=1, kind="stable")[:, :sparsity]
    signs = _signs(dim, sparsity)
    places = np.zeros(signs.shape, np.int64)
    places[:count] = columns + width * np.arange(count)[:, None]
    places[count:] = np.arange(sparsity)
    return _counted(places, signs, dim, n, size, count)


def _counted(
    places: NDArray[np.int64], signs: NDArray[np.float64], dim: int, n: int, size: int, count: int
) -> SparseRecords:
    """Repeat the first ``count`` rows ``size`` times and add zero records up to ``n``."""
    zero = np.zeros((1, signs.shape[1]), np.int64)
    rows = _features(np.concatenate([places, zero]), np.concatenate([signs, zero]), dim)
    counts = np.where(np.arange(signs.shape[0]) < count, size, 0)
    return SparseRecords(rows, np.append(counts, n - size * count))


def _features(places: NDArray[np.int64], signs: NDArray[np.float64], dim: int) -> SparseFeatures:
    """Return the rows ``signs / sqrt(s)``."""
    values = _height(signs.shape[1]) * signs
    return SparseFeatures(jnp.asarray(places), jnp.asarray(values), dim)


def _signs(dim: int, sparsity: int) -> NDArray[np.float64]:
    """Sample the signs of all blocks. The signs for a larger ``d`` are not an extension."""
    uniform = np.random.default_rng([dim, sparsity]).random((dim // sparsity, sparsity))
    return np.where(uniform < 0.5, -1.0, 1.0)


def _height(sparsity: int) -> float:
    """Return ``1/sqrt(s)``, rounded down in float32 so that no record is longer than 1."""
    height = np.float32(1.0 / math.sqrt(sparsity))
    while sparsity * float(height) ** 2 > 1.0:
        height = np.nextafter(height, np.float32(0.0))
    return float(height)


def _records_per_block(n: int, dim: int, sparsity: int, noise_ratio: float, strength: float) -> int:
    """Return ``n_0 = ceil(c sqrt(s) / mu)`` for an approximate budget."""
    inverse_mu = noise_ratio * n / math.sqrt(dim)
    return math.ceil(strength * math.sqrt(sparsity) * inverse_mu)


def declared_sparsity(sparsity: int | None, dim: int) -> int:
    """Check the required argument ``sparsity`` and return it."""
    if sparsity is None:
        raise ValueError("sparsity must be given for a family of sparse records, got None")
    result = positive_integer("sparsity", sparsity)
    if result > dim:
        raise ValueError(f"sparsity must not exceed dim, got {result} > {dim}")
    return result


def _blocks(n: int, dim: int, sparsity: int, size: int) -> int:
    """Return the number of blocks ``K``, at least 1."""
    if n < size:
        raise ValueError(f"n must be at least {size}, the records of one block, got {n}")
    return min(n // size, dim // sparsity)


_Sampler: TypeAlias = Callable[..., SparseRecords]
_Losses: TypeAlias = Callable[[str, SparseRecords, ProblemClass], Problem]


def _build(
    name: str,
    losses: _Losses,
    sampler: _Sampler,
    *,
    n: int,
    dim: int,
    sparsity: int | None = None,
    **options: float,
) -> Problem:
    records = sampler(n=n, dim=dim, sparsity=sparsity, **options)
    sizes = ProblemClass(n=n, dim=dim, lipschitz=math.inf, radius=math.inf, sparsity=sparsity)
    return losses(name, records, sizes)


def _mean(name: str, records: SparseRecords, sizes: ProblemClass) -> Problem:
    """Build ``|w - x|^2 / 2`` for records in the unit ball, over the unit ball."""
    facts = replace(sizes, lipschitz=2.0, radius=1.0, smoothness=1.0, strong_convexity=1.0)
    return squared_distance(records.rows, problem_class=facts, counts=records.counts, name=name)


def _linear(name: str, records: SparseRecords, sizes: ProblemClass) -> Problem:
    """Build ``-<w, x>`` over the unit ball; the excess risk is ``|zbar| - <w, zbar>``."""
    total = _total(*records)
    return linear(
        records.rows,
        problem_class=replace(sizes, lipschitz=1.0, radius=1.0, smoothness=0.0),
        counts=records.counts,
        minimiser=total / np.linalg.norm(total),
        name=name,
    )


def _sines(name: str, records: SparseRecords, sizes: ProblemClass) -> Problem:
    """Build ``-sum_j x_j sin(w_j)`` with the public term ``|w|^2 / 2``.

    The gradient of ``F`` is ``w - zbar cos w``. Gradients of records are sparse, of norm at most 1.
    With the public term, noise in every coordinate increases the risk. Each loss is ``max
    |x_j|``-smooth and the public term is 1-smooth. Stationary points have ``|w| <= |zbar|``.
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
    """Compute ``sum_i x_i`` on the host in float64."""
    weights = np.ones(rows.shape[0]) if counts is None else counts
    values = np.asarray(rows.values, np.float64) * weights[:, None]
    total = np.bincount(np.asarray(rows.indices).ravel(), values.ravel(), rows.dim)
    return total.astype(np.float64)


def _padded(
    *, n: int, dim: int, sparsity: int | None, noise_ratio: float, strength: float
) -> SparseRecords:
    """Return the copies of strength 4 for ``n / strength`` records, with zero records added."""
    size = int(n / strength)
    rows, counts = copies(
        n=size, dim=dim, sparsity=sparsity, noise_ratio=noise_ratio * n / size, strength=4.0
    )
    assert counts is not None
    return SparseRecords(rows, counts + (np.arange(counts.size) == counts.size - 1) * (n - size))


def _family(
    name: str,
    summary: str,
    losses: _Losses,
    sampler: _Sampler,
    strengths: tuple[float, ...] = (1.0,),
) -> Family:
    return Family(name, summary, partial(_build, name, losses, sampler), strengths)


SPARSE_FAMILIES = (
    _family("sparse_silence", "means of zero records: noise without signal", _mean, silence),
    _family(
        "sparse_copies",
        "means of blocks of identical sparse records, of swept size: hard at approximate budgets",
        _mean,
        copies,
        _SWEPT,
    ),
    _family(
        "sparse_fingerprints",
        "means of blocks of sparse records with random signs, of swept size: hard by tracing",
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
        "means of blocks of identical sparse records with a swept fraction of zero records",
        _mean,
        _padded,
        (2.0, 4.0, 8.0),
    ),
    _family("sparse_same_record", "means of one sparse record: easy", _mean, same_record),
    _family(
        "sparse_linear",
        "linear losses of blocks of identical sparse records, of swept size: hard on the ball",
        _linear,
        copies,
        _SWEPT,
    ),
    _family("sparse_same_linear", "linear losses of one sparse record: easy", _linear, same_record),
    _family(
        "sparse_sines",
        "sines of blocks of identical sparse records, of swept size: stationary points",
        _sines,
        copies,
        _SWEPT,
    ),
    _family("sparse_same_sines", "sines of one sparse record: easy", _sines, same_record),
)
