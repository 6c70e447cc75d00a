"""Search for neighbours whose answers differ by more than the claimed sensitivity."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt
from jax import Array

from privopt.arguments import described, positive_integer, positive_number, real, shown
from privopt.audit.scores import FloatArray
from privopt.privacy.numbers import check_count
from privopt.spec import Norm, Relation

Records = npt.NDArray[Any]

_PAIRS = 256  # pairs of one round
_MOVES = 9
_STRANGE = (0.0, 1e-45, -1e-45, 1e-38, 1.2e-38, -1e-30, 1.0, 1e14, 1e30, -1e38, 3e38)
_NOT_FINITE = (np.inf, -np.inf, np.nan)


class Furthest(NamedTuple):
    """Two neighbours and the distance of their answers, in claimed sensitivities.

    ``one`` and ``two`` are the arguments ``(records, present)`` of the query; the same ``seed``
    gives them again. ``ratio`` is infinite if an answer is not finite. ``tried`` counts pairs.
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
    """Search for the pair of neighbours with the largest ``|q(D) - q(D')| / claimed``.

    Each round keeps the quarter of the pairs with the largest ratios and derives the others from
    them: a coordinate, a record, a column or all records are scaled by powers of ten from 1e-45 to
    1e38, change sign, copy another record, are perturbed, or take an extreme value. Differences are
    those of the computed answers, in float64.

    Parameters
    ----------
    answer : callable
        ``answer(records, present)``, a pure function of arrays of shapes ``(n, ...)`` and ``(n,)``.
        ``present`` contains ones, and under ``add_or_remove_one`` and ``zero_out`` a 0 for the
        record that only one of the two data sets contains.
    claimed : float
        Claimed sensitivity.
    start : array
        Data set of the shape and the floating dtype of the records.
    relation : Relation or str
        Neighbouring relation.
    length : Norm, str or callable
        Norm of differences, or a function of differences of shape ``(pairs, numbers)``.
    special : sequence of float
        Values that are tried often, such as bounds.
    finite : bool
        If True, infinities and NaN are left out.
    rounds : int
        Number of rounds.
    seed : int
        Seed of NumPy's generator.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> def halved(records, present):
    ...     return jnp.clip(records, -1.0, 1.0) @ present
    >>> claimed = 1.0  # of a sum that a replaced record moves by 2
    >>> options = {"relation": "replace_one", "finite": True}
    >>> round(furthest_neighbours(halved, claimed, np.zeros(4), **options).ratio, 6)
    2.0
    """
    if not callable(answer):
        raise ValueError(
            f"answer must be a function (records, present) -> array, got {described(answer)}"
        )
    claimed = positive_number("claimed", claimed)
    start = _check_start(start)
    replaced = Relation.named("relation", relation) is Relation.REPLACE_ONE
    length = length if callable(length) else Norm.named("length", length)
    extremes = _check_special(special)
    if not isinstance(finite, bool):
        raise ValueError(f"finite must be True or False, got {shown(finite)}")
    positive_integer("rounds", rounds)
    rng = np.random.default_rng(check_count("seed", seed))
    values = np.array([*extremes, *(-x for x in extremes), *_STRANGE])
    values = values if finite else np.append(values, _NOT_FINITE)
    present = np.ones((2, len(start)), start.dtype)
    present[1, 0] = replaced
    distances = _distances(answer, present, length)
    # Row 0 is the record in question, the last row what replaces it.
    pairs = np.repeat(np.concatenate([start, -start[:1]])[None], _PAIRS, axis=0)
    lengths = distances(pairs)
    for _ in range(rounds):
        keep = np.argsort(-lengths)[: _PAIRS // 4]
        children = _moved(rng, np.tile(pairs[keep], (4, *[1] * start.ndim)), values)
        children = _moved(rng, children, values, rng.random(_PAIRS) < 0.5)
        if finite:
            children = np.nan_to_num(children, nan=0.0)
        pairs = np.concatenate([pairs[keep], children])[:_PAIRS]
        lengths = np.concatenate([lengths[keep], distances(children)])[:_PAIRS]
    best = int(np.argmax(lengths))
    one, two = _both(pairs[best : best + 1])
    data_sets = ((one[0], present[0]), (two[0], present[1]))
    return Furthest(float(lengths[best]) / claimed, *data_sets, seed, _PAIRS * (rounds + 1))


def _check_start(start: object) -> Records:
    """Return ``start`` as an array, or raise ``ValueError`` unless it contains floating records."""
    try:
        records = np.asarray(start)
    except (TypeError, ValueError):
        raise ValueError(f"start must be an array, got {described(start)}") from None
    if records.dtype.kind != "f" or records.ndim == 0 or records.size == 0:
        raise ValueError(
            "start must be an array of floating numbers with at least one record, got dtype "
            f"{records.dtype.type.__name__} and shape {records.shape}"
        )
    return records


def _check_special(special: object) -> list[float]:
    """Return ``special`` as floats, or raise ``ValueError`` unless it is a sequence of numbers."""
    if isinstance(special, str) or not isinstance(special, Sequence | np.ndarray):
        raise ValueError(f"special must be a sequence of numbers, got {described(special)}")
    values = [each.item() if isinstance(each, np.generic) else each for each in special]
    if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in values):
        raise ValueError(f"special must be a sequence of numbers, got {shown(special)}")
    return [real("special", each) for each in values]


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


def _moved(
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
