"""Search for neighbours with answers that differ by more than the claimed sensitivity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import numpy as np
import numpy.typing as npt
from jax import Array

from privopt.audit.distinguishing import FloatArray
from privopt.spec import Norm, Relation

Records: TypeAlias = npt.NDArray[Any]

_PAIRS = 256  # pairs of one round
_MOVES = 9
_EXTREME = (0.0, 1e-45, -1e-45, 1e-38, 1.2e-38, -1e-30, 1.0, 1e14, 1e30, -1e38, 3e38)
_NOT_FINITE = (np.inf, -np.inf, np.nan)


def largest_ratio(
    answer: Callable[[Array, Array], Array],
    claimed: float,
    start: Records,
    *,
    relation: Relation,
    length: Callable[[FloatArray], FloatArray] | Norm,
    special: Sequence[float] = (),
    rounds: int = 40,
    seed: int = 0,
) -> float:
    """Search for the pair of neighbours with the largest ``|q(D) - q(D')| / claimed``.

    Each round keeps the quarter of the pairs with the largest ratios and derives the others from
    them: a coordinate, a record, a column or all records are scaled by powers of ten from 1e-45 to
    1e38, change sign, copy another record, are perturbed, or take an extreme value. Differences are
    those of the computed answers, in float64. The ratio is infinite if an answer is not finite.

    ``answer(records, present)`` is a pure function of arrays of shapes ``(n, ...)`` and ``(n,)``.
    ``present`` contains ones, and under ``add_or_remove_one`` and ``zero_out`` a 0 for the record
    that only one of the two data sets contains. ``start`` is a data set of the shape and dtype of
    the records, ``length`` the norm of differences or a function of differences of shape
    ``(pairs, numbers)``, and ``special`` contains values that are tried often, such as bounds.
    """
    rng = np.random.default_rng(seed)
    values = np.array([*special, *(-x for x in special), *_EXTREME, *_NOT_FINITE])
    present = np.ones((2, len(start)), start.dtype)
    present[1, 0] = relation is Relation.REPLACE_ONE
    distances = _distances(answer, present, length)
    # Row 0 is the record that changes, and the last row replaces it.
    pairs = np.repeat(np.concatenate([start, -start[:1]])[None], _PAIRS, axis=0)
    lengths = distances(pairs)
    for _ in range(rounds):
        keep = np.argsort(-lengths)[: _PAIRS // 4]
        children = _changed(rng, np.tile(pairs[keep], (4, *[1] * start.ndim)), values)
        children = _changed(rng, children, values, rng.random(_PAIRS) < 0.5)
        pairs = np.concatenate([pairs[keep], children])[:_PAIRS]
        lengths = np.concatenate([lengths[keep], distances(children)])[:_PAIRS]
    return float(lengths.max()) / claimed


def _both(pairs: Records) -> tuple[Records, Records]:
    """Return the two data sets of each pair."""
    one = pairs[:, :-1]
    return one, np.concatenate([pairs[:, -1:], one[:, 1:]], axis=1)


def _distances(
    answer: Callable[[Array, Array], Array],
    present: Records,
    length: Callable[[FloatArray], FloatArray] | Norm,
) -> Callable[[Records], FloatArray]:
    """Return ``pairs -> lengths`` of the differences of answers, infinite if one is not finite."""
    answers = jax.jit(jax.vmap(answer, (0, None)))

    def norms(differences: FloatArray) -> FloatArray:
        assert isinstance(length, Norm)
        largest = np.maximum(np.abs(differences).max(axis=1), np.finfo(float).tiny)
        return largest * np.linalg.norm(differences / largest[:, None], ord=length.order, axis=1)

    measure = norms if isinstance(length, Norm) else length

    def distances(pairs: Records) -> FloatArray:
        values = [
            np.asarray(answers(each, mask), np.float64).reshape(len(pairs), -1)
            for each, mask in zip(_both(pairs), present, strict=True)
        ]
        usable = np.asarray(np.isfinite(np.hstack(values)).all(axis=1))
        differences = np.where(usable[:, None], np.subtract(*np.nan_to_num(values)), 0.0)
        return np.where(usable, measure(differences), np.inf)

    return distances


def _changed(
    rng: np.random.Generator,
    pairs: Records,
    values: FloatArray,
    chosen: npt.NDArray[np.bool_] | None = None,
) -> Records:
    """Return the pairs with one change at one place in those that are ``chosen``."""
    count, rows, shape = len(pairs), pairs.shape[1], pairs.shape[2:]
    flat = pairs.reshape(count, rows, -1)
    columns = flat.shape[2]
    row, column = rng.integers(rows, size=count), rng.integers(columns, size=count)
    row = np.where(rng.random(count) < 0.5, rng.choice([0, rows - 1], count), row)
    in_row = (np.arange(rows) == row[:, None])[:, :, None]
    in_column = (np.arange(columns) == column[:, None])[:, None, :]
    shared = ((np.arange(rows) > 0) & (np.arange(rows) < rows - 1))[None, :, None]
    every = np.ones((count, rows, columns), bool)
    place = rng.integers(5, size=count)[:, None, None]
    where = np.choose(
        place, [in_row & in_column, in_row & every, shared & every, in_column & every, every]
    )
    where &= np.ones(count, bool)[:, None, None] if chosen is None else chosen[:, None, None]
    pick = np.arange(count)
    other = flat[pick, rng.integers(rows, size=count)][:, None, :]
    noise, decade = rng.normal(size=flat.shape), rng.uniform(-45.0, 38.0, (count, 1, 1))
    with np.errstate(all="ignore"):
        options = (
            flat * 10.0 ** rng.uniform(-3.0, 3.0, (count, 1, 1)),
            flat * 10.0**decade,
            noise * 10.0**decade,
            noise,
            -flat,
            other + 0.0 * every,
            -other + 0.0 * every,
            flat * (1.0 + 10.0 ** rng.uniform(-8.0, -1.0, (count, 1, 1)) * noise),
            rng.choice(values, (count, 1, 1)) + 0.0 * every,
        )
        changed = np.choose(rng.integers(_MOVES, size=count)[:, None, None], options)
        result = np.where(where, changed, flat).astype(pairs.dtype)
    return result.reshape(count, rows, *shape)
