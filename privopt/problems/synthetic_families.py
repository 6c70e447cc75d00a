"""Synthetic families: problems of every common loss, sampled from a planted parameter.

The strength of a synthetic family is the index of a data set. All data sets have the same
distribution, and a smaller ``n`` has the first records of a larger one. The declared constants hold
for every record: rows have norm at most 1 and labels are clipped to their public range.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from privopt.arguments import Catalogue, member, positive_integer, positive_number, shown
from privopt.convex import SparseFeatures
from privopt.problems.models import (
    absolute,
    hinge,
    huber,
    linear,
    logistic,
    multinomial,
    quantile,
    squared,
    squared_distance,
)
from privopt.problems.problem import Family, Problem
from privopt.spec import ProblemClass

_CLASSES, _LEVEL, _WIDTH = 4, 0.75, 0.1  # of softmax, quantile and huber
_TYPICAL = 3.0  # longest over typical row norm, for heavy tails
_ROOM = 1.0 - 2.0**-20  # below 1, because norms have round-off

_Floats = NDArray[np.float64]


class Law(NamedTuple):
    """Parameters of the distribution of the records."""

    radius: float
    noise: float
    conditioning: float = 1.0
    tails: float = math.inf


def synthetic(kind: str, *, sparsity: int | None = None, **knobs: float) -> Family:
    """Return the family of synthetic problems of one kind, with a new data set for every strength.

    Rows ``x`` are normal vectors, scaled to norm 1, and ``u`` is a planted vector. In
    classification, ``P(y = 1 | x) = sigmoid(sqrt(d) <x, u> / (noise |u|))``. In regression, ``y =
    <x, u> + noise |u| z / sqrt(d)`` with ``z`` standard normal and ``|u| = R/2``, clipped to
    ``[-R/2, R/2]``. Rows of the two sparse kinds have ``s`` entries ``+-1/sqrt(s)`` in columns
    sampled from a Zipf distribution.

    Parameters
    ----------
    kind : str
        ``"logistic"``, ``"hinge"``, ``"softmax"`` (four classes); ``"least_squares"``, ``"huber"``
        (width 0.1), ``"absolute"``, ``"quantile"`` (level 3/4); ``"sparse_mean"``,
        ``"sparse_linear"``.
    sparsity : int, optional
        Number of nonzero entries of a row, in random columns; an axis of this name sweeps it.
        Default: ``d``, or ``ceil(sqrt(d))`` for the sparse kinds.
    **knobs : float
        ``noise``: label noise divided by the signal; default 0.2. ``radius`` of the constraint set;
        default 10 for classification and 2 for regression; always 1 for the sparse kinds.
        ``conditioning``: condition number of the covariance of the rows before scaling; default 1.
        ``tails``: degrees of freedom of a multivariate Student distribution; row norms are then
        its norms divided by three times its scale, at most 1. Default: row norms 1.

    Examples
    --------
    >>> family = synthetic("logistic", conditioning=10.0)
    >>> problem = family.build(n=100, dim=4, noise_ratio=0.1, strength=1.0)
    >>> problem.check(), problem.problem_class.radius
    (None, 10.0)
    """
    member("kind", kind, KINDS)
    build, law, allowed = KINDS[kind]
    for knob, value in knobs.items():
        member(f"knob of {kind}", knob, allowed)
        positive_number(knob, value)
    law = law._replace(**{knob: float(value) for knob, value in knobs.items()})
    if law.conditioning < 1.0:
        raise ValueError(f"conditioning must be at least 1, got {shown(law.conditioning)}")
    if sparsity is not None:
        positive_integer("sparsity", sparsity)
    settings = ", ".join(f"{knob} {value:g}" for knob, value in knobs.items())
    return Family(
        f"synthetic_{kind}",
        f"synthetic {kind}{settings and f', {settings}'}",
        partial(_build, build, law, sparsity=sparsity),
        redrawn=True,
    )


def _build(
    build: _Build,
    law: Law,
    *,
    n: int,
    dim: int,
    noise_ratio: float,
    strength: float,
    sparsity: int | None = None,
) -> Problem:
    del noise_ratio
    if sparsity is not None and sparsity > dim:
        raise ValueError(f"sparsity must not exceed dim, got {sparsity} > {dim}")
    return build(law, _Size(n, dim, sparsity, int(strength)))


class _Size(NamedTuple):
    """Size and seed of a data set."""

    n: int
    dim: int
    sparsity: int | None
    seed: int


_Build = Callable[[Law, _Size], Problem]


# --- records --------------------------------------------------------------------------------------


def _rows(law: Law, size: _Size) -> _Floats | SparseFeatures:
    """Sample rows of norm at most 1."""
    n, dim, sparsity, seed = size
    normal = np.random.default_rng([dim, seed, 0]).normal(size=(n, dim))
    rows = normal * law.conditioning ** (-0.5 * np.linspace(0.0, 1.0, dim))
    places = None if sparsity is None else _places(n, np.ones(dim), sparsity, seed)
    if places is not None:
        rows = np.take_along_axis(rows, places, axis=1)
    rows *= _ROOM / np.linalg.norm(rows, axis=1, keepdims=True)
    if math.isfinite(law.tails):
        spread = np.random.default_rng([dim, seed, 1]).chisquare(law.tails, size=(n, 1))
        rows *= np.minimum(1.0, np.sqrt(law.tails / spread) / _TYPICAL)
    if places is None:
        return rows
    return SparseFeatures(jnp.asarray(places), jnp.asarray(rows), dim)


def _places(n: int, frequencies: _Floats, sparsity: int, seed: int) -> NDArray[np.int64]:
    """Sample ``s`` distinct columns per row without replacement, weighted by ``frequencies``."""
    dim = frequencies.size
    arrivals = np.random.default_rng([dim, seed, 2]).exponential(size=(n, dim)) / frequencies
    return np.argsort(arrivals, axis=1, kind="stable")[:, :sparsity].astype(np.int64)


def _scores(rows: _Floats | SparseFeatures, planted: _Floats) -> _Floats:
    """Compute ``sqrt(d) <x, u> / |u|``, nearly standard normal for rows of norm 1."""
    unit = math.sqrt(planted.size) * planted / np.linalg.norm(planted)
    scores = rows.matvec(jnp.asarray(unit)) if isinstance(rows, SparseFeatures) else rows @ unit
    return np.asarray(scores, np.float64)


def _planted(dim: int, seed: int, count: int = 1) -> _Floats:
    return np.random.default_rng([dim, seed, 3]).normal(size=(count, dim))


def _sparsity(rows: _Floats | SparseFeatures, blocks: int = 1) -> int | None:
    return blocks * rows.values.shape[1] if isinstance(rows, SparseFeatures) else None


# --- kinds ----------------------------------------------------------------------------------------


def _signs(
    model: Callable[..., Problem],
    smoothness: float | None,
    name: str,
    law: Law,
    size: _Size,
) -> Problem:
    """Build a problem with labels -1 and 1."""
    rows, (n, dim, _, seed) = _rows(law, size), size
    odds = _scores(rows, _planted(dim, seed)[0]) / law.noise
    uniform = np.random.default_rng([dim, seed, 4]).logistic(size=n)
    facts = ProblemClass(
        n=n, dim=dim, lipschitz=1.0, radius=law.radius, smoothness=smoothness,
        sparsity=_sparsity(rows),
    )  # fmt: skip
    return model(rows, np.where(uniform < odds, 1.0, -1.0), problem_class=facts, name=name)


def _regression(
    model: Callable[..., Problem],
    slope: float,
    smoothness: float | None,
    name: str,
    law: Law,
    size: _Size,
) -> Problem:
    """Build a problem of residuals; ``slope`` is infinite if it grows with the residual."""
    rows, (n, dim, _, seed), reach = _rows(law, size), size, law.radius / 2.0
    scores = _scores(rows, _planted(dim, seed)[0])
    scores = scores + law.noise * np.random.default_rng([dim, seed, 4]).normal(size=n)
    labels = np.clip(reach * scores / math.sqrt(dim), -reach, reach)
    facts = ProblemClass(
        n=n, dim=dim, lipschitz=min(slope, law.radius + reach), radius=law.radius,
        smoothness=smoothness, sparsity=_sparsity(rows),
    )  # fmt: skip
    return model(rows, labels, problem_class=facts, name=name)


def _softmax(law: Law, size: _Size) -> Problem:
    """Build softmax regression; the label is the argmax of the scores with Gumbel noise."""
    n, dim, sparsity, seed = size
    if dim % _CLASSES:
        raise ValueError(f"dim must be a multiple of {_CLASSES}, the classes, got {dim}")
    width = dim // _CLASSES
    rows = _rows(law, _Size(n, width, sparsity and min(sparsity, width), seed))
    scores = np.stack([_scores(rows, planted) for planted in _planted(width, seed, _CLASSES)])
    gumbel = np.random.default_rng([dim, seed, 4]).gumbel(size=(n, _CLASSES)).T
    facts = ProblemClass(
        n=n, dim=dim, lipschitz=math.sqrt(2.0), radius=law.radius, smoothness=0.5,
        sparsity=_sparsity(rows, _CLASSES),
    )  # fmt: skip
    return multinomial(
        rows,
        np.argmax(scores + law.noise * gumbel, axis=0),
        classes=range(_CLASSES),
        problem_class=facts,
        name="synthetic_softmax",
    )


def _words(law: Law, size: _Size) -> SparseFeatures:
    """Sample rows of ``s`` entries ``+-1/sqrt(s)`` with signs correlated with a planted vector."""
    n, dim, sparsity, seed = size
    count = math.ceil(math.sqrt(dim)) if sparsity is None else sparsity
    places = _places(n, 1.0 / np.arange(1.0, dim + 1.0), count, seed)
    noise = np.random.default_rng([dim, seed, 4]).logistic(size=(n, dim))[:, :count]
    agrees = np.where(noise < 1.0 / law.noise, 1.0, -1.0)
    signs = agrees * np.sign(_planted(dim, seed)[0])[places]
    return SparseFeatures(jnp.asarray(places), jnp.asarray(_ROOM * signs / math.sqrt(count)), dim)


def _sparse_mean(law: Law, size: _Size) -> Problem:
    rows = _words(law, size)
    facts = ProblemClass(
        n=size.n, dim=size.dim, lipschitz=2.0, radius=1.0, smoothness=1.0, strong_convexity=1.0,
        sparsity=_sparsity(rows),
    )  # fmt: skip
    return squared_distance(rows, problem_class=facts, name="synthetic_sparse_mean")


def _sparse_linear(law: Law, size: _Size) -> Problem:
    rows = _words(law, size)
    total = np.asarray(rows.rmatvec(jnp.ones(size.n)), np.float64)
    facts = ProblemClass(
        n=size.n, dim=size.dim, lipschitz=1.0, radius=1.0, smoothness=0.0, sparsity=_sparsity(rows)
    )
    return linear(
        rows,
        problem_class=facts,
        minimiser=total / np.linalg.norm(total),
        name="synthetic_sparse_linear",
    )


_KNOBS = ("conditioning", "noise", "radius", "tails")
_WIDE, _NARROW, _UNIT = Law(10.0, 0.2), Law(2.0, 0.2), Law(1.0, 0.2)


def _kind(build: Callable[..., Problem], name: str, law: Law, *facts: object) -> _Kind:
    return _Kind(partial(build, *facts, f"synthetic_{name}"), law, _KNOBS)


class _Kind(NamedTuple):
    """Builder, default distribution and parameter names of one kind."""

    build: _Build
    law: Law
    knobs: tuple[str, ...]


KINDS: Catalogue[_Kind] = Catalogue(
    "kind",
    (
        ("logistic", _kind(_signs, "logistic", _WIDE, logistic, 0.25)),
        ("hinge", _kind(_signs, "hinge", _WIDE, hinge, None)),
        ("softmax", _Kind(_softmax, _WIDE, _KNOBS)),
        ("least_squares", _kind(_regression, "least_squares", _NARROW, squared, math.inf, 1.0)),
        (
            "huber",
            _kind(_regression, "huber", _NARROW, partial(huber, width=_WIDTH), 1.0, 1.0 / _WIDTH),
        ),
        ("absolute", _kind(_regression, "absolute", _NARROW, absolute, 1.0, None)),
        (
            "quantile",
            _kind(_regression, "quantile", _NARROW, partial(quantile, level=_LEVEL), _LEVEL, None),
        ),
        ("sparse_mean", _Kind(_sparse_mean, _UNIT, ("noise",))),
        ("sparse_linear", _Kind(_sparse_linear, _UNIT, ("noise",))),
    ),
)
"""The kinds of :func:`synthetic`, by name."""
