"""Search for neighbours that move the answer of a bounded query further than it claims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt
from jax import Array

from privopt.arguments import positive_integer, positive_number
from privopt.audit.scores import FloatArray
from privopt.spec import Norm, Relation

Records = npt.NDArray[Any]

_PAIRS = 256  # that are looked at together
_MOVES = 9
_STRANGE = (0.0, 1e-45, -1e-45, 1e-38, 1.2e-38, -1e-30, 1.0, 1e14, 1e30, -1e38, 3e38)
_NOT_FINITE = (np.inf, -np.inf, np.nan)


class Furthest(NamedTuple):
    """Two neighbours, and how far apart their answers are, in claimed sensitivities.

    ``one`` and ``two`` are what the query was asked, ``(records, present)``; the same ``seed``
    finds them again. ``ratio`` is infinite where an answer is not a number. ``tried`` counts pairs.
    """

    ratio: float
    one: tuple[Records, Records]
    two: tuple[Records, Records]
    seed: int
    tried: int


def furthest_neighbours(
    answer: Callable[[Array, Array], Array],
    claimed: float,
    start: Records,
    *,
    relation: Relation | str,
    length: Callable[[FloatArray], FloatArray] | Norm | str = Norm.L2,
    special: Sequence[float] = (),
    finite: bool = False,
    rounds: int = 40,
    seed: int = 0,
) -> Furthest:
    """The pair with the largest ``|q(D) - q(D')| / claimed`` that a climb of so many rounds finds.

    ``answer(records, present)`` is a pure function of arrays of shapes ``(n, ...)`` and ``(n,)``;
    ``present`` holds ones, and under ``add_or_remove_one`` and ``zero_out`` a 0 for the record that
    only one of the two has. ``start`` is a data set of the shape and dtype asked for. ``length``
    measures differences, of shape ``(pairs, numbers)``: a norm, or a function of its own. Records
    may take any value, with those of ``special`` (bounds, say) tried most; ``finite`` keeps
    infinities and NaN away.

    A quarter of the pairs, the furthest apart, beget the others: a coordinate, a record, a column
    or all records are scaled by powers of ten from 1e-45 to 1e38, change sign, copy another record,
    are nudged, or take a strange value. Differences are those of the computed answers, in float64.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> def halved(records, present):
    ...     return jnp.clip(records, -1.0, 1.0) @ present
    >>> claimed = 1.0  # of a sum that a replaced record moves by 2
    >>> asked = {"relation": "replace_one", "finite": True}
    >>> round(furthest_neighbours(halved, claimed, np.zeros(4), **asked).ratio, 6)
    2.0
    """
    positive_number("claimed", claimed)
    positive_integer("rounds", rounds)
    replaced = Relation(relation) is Relation.REPLACE_ONE
    rng, start = np.random.default_rng(seed), np.asarray(start)
    values = np.array([*special, *(-x for x in special), *_STRANGE])
    values = values if finite else np.append(values, _NOT_FINITE)
    present = np.ones((2, len(start)), start.dtype)
    present[1, 0] = replaced
    distances = _distances(answer, present, length)
    # Row 0 is the record in question, the last row what replaces it.
    pairs = np.repeat(np.concatenate([start, -start[:1]])[None], _PAIRS, axis=0)
    found = distances(pairs)
    for _ in range(rounds):
        keep = np.argsort(-found)[: _PAIRS // 4]
        children = _moved(rng, np.tile(pairs[keep], (4, *[1] * start.ndim)), values)
        children = _moved(rng, children, values, rng.random(_PAIRS) < 0.5)
        if finite:
            children = np.nan_to_num(children, nan=0.0)
        pairs = np.concatenate([pairs[keep], children])[:_PAIRS]
        found = np.concatenate([found[keep], distances(children)])[:_PAIRS]
    best = int(np.argmax(found))
    one, two = _both(pairs[best : best + 1])
    given = ((one[0], present[0]), (two[0], present[1]))
    return Furthest(float(found[best]) / claimed, *given, seed, _PAIRS * (rounds + 1))


def _both(pairs: Records) -> tuple[Records, Records]:
    """The two data sets of each pair."""
    one = pairs[:, :-1]
    return one, np.concatenate([pairs[:, -1:], one[:, 1:]], axis=1)


def _distances(
    answer: Callable[[Array, Array], Array],
    present: Records,
    length: Callable[[FloatArray], FloatArray] | Norm | str,
) -> Callable[[Records], FloatArray]:
    """``pairs -> lengths`` of the differences of answers, infinite for no number."""
    answers = jax.jit(jax.vmap(answer, (0, None)))

    def norms(moved: FloatArray) -> FloatArray:
        order = Norm.named("length", length).order
        largest = np.maximum(np.abs(moved).max(axis=1), np.finfo(float).tiny)
        return largest * np.linalg.norm(moved / largest[:, None], ord=order, axis=1)

    measure = length if callable(length) else norms

    def distances(pairs: Records) -> FloatArray:
        told = [
            np.asarray(answers(each, there), np.float64).reshape(len(pairs), -1)
            for each, there in zip(_both(pairs), present, strict=True)
        ]
        usable = np.asarray(np.isfinite(np.hstack(told)).all(axis=1))
        moved = np.where(usable[:, None], np.subtract(*np.nan_to_num(told)), 0.0)
        return np.where(usable, measure(moved), np.inf)

    return distances


def _moved(
    rng: np.random.Generator,
    pairs: Records,
    values: FloatArray,
    chosen: npt.NDArray[np.bool_] | None = None,
) -> Records:
    """Each pair changed in one way at one place, if ``chosen``."""
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
    drawn, decade = rng.normal(size=flat.shape), rng.uniform(-45.0, 38.0, (count, 1, 1))
    with np.errstate(all="ignore"):
        options = (
            flat * 10.0 ** rng.uniform(-3.0, 3.0, (count, 1, 1)),
            flat * 10.0**decade,
            drawn * 10.0**decade,
            drawn,
            -flat,
            other + 0.0 * every,
            -other + 0.0 * every,
            flat * (1.0 + 10.0 ** rng.uniform(-8.0, -1.0, (count, 1, 1)) * drawn),
            rng.choice(values, (count, 1, 1)) + 0.0 * every,
        )
        changed = np.choose(rng.integers(_MOVES, size=count)[:, None, None], options)
        kept = np.where(where, changed, flat).astype(pairs.dtype)
    return kept.reshape(count, rows, *shape)
