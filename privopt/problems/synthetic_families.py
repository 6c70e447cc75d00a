"""Synthetic families: problems of every usual loss, drawn from a planted parameter.

The strength of such a family is the number of a data set: all are drawn from one law, and a smaller
``n`` has the first records of a larger one. What is declared holds for every record: rows are no
longer than 1 and labels are clipped to their public range.
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
from privopt.problems.families import Family
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
from privopt.problems.problem import Problem
from privopt.spec import ProblemClass

_CLASSES, _LEVEL, _WIDTH = 4, 0.75, 0.1  # of softmax, quantile and huber
_TYPICAL = 3.0  # the longest row over a typical one, where tails are heavy
_ROOM = 1.0 - 2.0**-20  # below 1, for round-off in norms

_Floats = NDArray[np.float64]


class Law(NamedTuple):
    """From which records are drawn."""

    radius: float
    noise: float
    conditioning: float = 1.0
    tails: float = math.inf


def synthetic(kind: str, *, sparsity: int | None = None, **knobs: float) -> Family:
    """The family of synthetic problems of that kind, with data of its own for every strength.

    Rows ``x`` are normal vectors, scaled to norm 1, and ``u`` is a planted vector. With signs,
    ``P(y = 1 | x) = sigmoid(sqrt(d) <x, u> / (noise |u|))``; else ``y = <x, u> + noise |u| z /
    sqrt(d)``, ``z`` normal, ``|u| = R/2``, clipped to ``[-R/2, R/2]``. Rows of the two sparse kinds
    have ``s`` numbers ``+-1/sqrt(s)`` on places drawn by Zipf's frequencies.

    Parameters
    ----------
    kind : str
        ``"logistic"``, ``"hinge"``, ``"softmax"`` (four classes); ``"least_squares"``, ``"huber"``
        (width 0.1), ``"absolute"``, ``"quantile"`` (level 3/4); ``"sparse_mean"``,
        ``"sparse_linear"``.
    sparsity : int, optional
        Numbers of a row that are not 0, at random places; an axis of this name sweeps it. By
        default all, and ``ceil(sqrt(d))`` for the sparse kinds.
    **knobs : float
        ``noise`` of the labels over the signal, 0.2 by default; ``radius`` of the constraint set,
        10 with signs or classes, else 2, and always 1 for the sparse kinds; ``conditioning``, the
        largest over the least eigenvalue of the covariance of the rows before they are scaled, 1
        by default; ``tails``, the degrees of freedom of the lengths of rows, which then are those
        of a multivariate Student's law over three times its scale, at most 1.

    Examples
    --------
    >>> family = synthetic("logistic", conditioning=10.0)
    >>> problem = family.build(n=100, dim=4, noise_ratio=0.1, strength=1.0)
    >>> problem.check(), problem.problem_class.radius
    (None, 10.0)
    """
    member("kind", kind, KINDS)
    made, law, allowed = KINDS[kind]
    for knob, value in knobs.items():
        member(f"knob of {kind}", knob, allowed)
        positive_number(knob, value)
    law = law._replace(**{knob: float(value) for knob, value in knobs.items()})
    if law.conditioning < 1.0:
        raise ValueError(f"conditioning must be at least 1, got {shown(law.conditioning)}")
    if sparsity is not None:
        positive_integer("sparsity", sparsity)
    told = ", ".join(f"{knob} {value:g}" for knob, value in knobs.items())
    return Family(
        f"synthetic_{kind}",
        f"synthetic {kind}{told and f', {told}'}",
        partial(_built, made, law, sparsity=sparsity),
        redrawn=True,
    )


def _built(
    made: _Made,
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
    return made(law, n, dim, sparsity, int(strength))


_Made = Callable[[Law, int, int, int | None, int], Problem]


# --- records --------------------------------------------------------------------------------------


def _rows(law: Law, n: int, dim: int, sparsity: int | None, seed: int) -> _Floats | SparseFeatures:
    """Rows of norm at most 1."""
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
    """``s`` distinct places a row, one after another by their frequencies."""
    dim = frequencies.size
    waiting = np.random.default_rng([dim, seed, 2]).exponential(size=(n, dim)) / frequencies
    return np.argsort(waiting, axis=1, kind="stable")[:, :sparsity].astype(np.int64)


def _scores(rows: _Floats | SparseFeatures, planted: _Floats) -> _Floats:
    """``sqrt(d) <x, u> / |u|``, about standard normal for rows of norm 1."""
    unit = math.sqrt(planted.size) * planted / np.linalg.norm(planted)
    found = rows.matvec(jnp.asarray(unit)) if isinstance(rows, SparseFeatures) else rows @ unit
    return np.asarray(found, np.float64)


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
    n: int,
    dim: int,
    sparsity: int | None,
    seed: int,
) -> Problem:
    """Losses of labels -1 and 1."""
    rows = _rows(law, n, dim, sparsity, seed)
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
    n: int,
    dim: int,
    sparsity: int | None,
    seed: int,
) -> Problem:
    """Losses of a residual, of that slope; infinite for one that grows with the residual."""
    rows, reach = _rows(law, n, dim, sparsity, seed), law.radius / 2.0
    scores = _scores(rows, _planted(dim, seed)[0])
    scores = scores + law.noise * np.random.default_rng([dim, seed, 4]).normal(size=n)
    labels = np.clip(reach * scores / math.sqrt(dim), -reach, reach)
    facts = ProblemClass(
        n=n, dim=dim, lipschitz=min(slope, law.radius + reach), radius=law.radius,
        smoothness=smoothness, sparsity=_sparsity(rows),
    )  # fmt: skip
    return model(rows, labels, problem_class=facts, name=name)


def _softmax(law: Law, n: int, dim: int, sparsity: int | None, seed: int) -> Problem:
    """The class of the largest score, each with Gumbel noise."""
    if dim % _CLASSES:
        raise ValueError(f"dim must be a multiple of {_CLASSES}, the classes, got {dim}")
    width = dim // _CLASSES
    rows = _rows(law, n, width, None if sparsity is None else min(sparsity, width), seed)
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


def _words(law: Law, n: int, dim: int, sparsity: int | None, seed: int) -> SparseFeatures:
    """Rows of ``s`` numbers ``+-1/sqrt(s)``, whose signs agree with those of a planted vector."""
    count = math.ceil(math.sqrt(dim)) if sparsity is None else sparsity
    places = _places(n, 1.0 / np.arange(1.0, dim + 1.0), count, seed)
    noise = np.random.default_rng([dim, seed, 4]).logistic(size=(n, dim))[:, :count]
    agrees = np.where(noise < 1.0 / law.noise, 1.0, -1.0)
    signs = agrees * np.sign(_planted(dim, seed)[0])[places]
    return SparseFeatures(jnp.asarray(places), jnp.asarray(_ROOM * signs / math.sqrt(count)), dim)


def _sparse_mean(law: Law, n: int, dim: int, sparsity: int | None, seed: int) -> Problem:
    rows = _words(law, n, dim, sparsity, seed)
    facts = ProblemClass(
        n=n, dim=dim, lipschitz=2.0, radius=1.0, smoothness=1.0, strong_convexity=1.0,
        sparsity=_sparsity(rows),
    )  # fmt: skip
    return squared_distance(rows, problem_class=facts, name="synthetic_sparse_mean")


def _sparse_linear(law: Law, n: int, dim: int, sparsity: int | None, seed: int) -> Problem:
    rows = _words(law, n, dim, sparsity, seed)
    total = np.asarray(rows.rmatvec(jnp.ones(n)), np.float64)
    facts = ProblemClass(
        n=n, dim=dim, lipschitz=1.0, radius=1.0, smoothness=0.0, sparsity=_sparsity(rows)
    )
    return linear(
        rows,
        problem_class=facts,
        minimiser=total / np.linalg.norm(total),
        name="synthetic_sparse_linear",
    )


_KNOBS = ("conditioning", "noise", "radius", "tails")
_WIDE, _NARROW, _UNIT = Law(10.0, 0.2), Law(2.0, 0.2), Law(1.0, 0.2)


def _named(make: Callable[..., Problem], name: str, law: Law, *facts: object) -> _Kind:
    return _Kind(partial(make, *facts, f"synthetic_{name}"), law, _KNOBS)


class _Kind(NamedTuple):
    """How problems of a kind are made, from which law by default, and its public knobs."""

    made: _Made
    law: Law
    knobs: tuple[str, ...]


KINDS: Catalogue[_Kind] = Catalogue(
    "kind",
    (
        ("logistic", _named(_signs, "logistic", _WIDE, logistic, 0.25)),
        ("hinge", _named(_signs, "hinge", _WIDE, hinge, None)),
        ("softmax", _Kind(_softmax, _WIDE, _KNOBS)),
        (
            "least_squares",
            _named(_regression, "least_squares", _NARROW, squared, math.inf, 1.0),
        ),
        (
            "huber",
            _named(_regression, "huber", _NARROW, partial(huber, width=_WIDTH), 1.0, 1.0 / _WIDTH),
        ),
        ("absolute", _named(_regression, "absolute", _NARROW, absolute, 1.0, None)),
        (
            "quantile",
            _named(_regression, "quantile", _NARROW, partial(quantile, level=_LEVEL), _LEVEL, None),
        ),
        ("sparse_mean", _Kind(_sparse_mean, _UNIT, ("noise",))),
        ("sparse_linear", _Kind(_sparse_linear, _UNIT, ("noise",))),
    ),
)
"""The kinds of :func:`synthetic`, by name."""
