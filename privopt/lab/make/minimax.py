"""Hard families of the lower bounds: where they hold, and not only for the worst problem."""

from __future__ import annotations

_APPROXIMATE, _PURE = "approximate", "pure"
_HARD = {
    "linear": {_APPROXIMATE, _PURE},
    "linear_population": {_APPROXIMATE, _PURE},
    "medians": {_APPROXIMATE},
    "rounded_medians": {_APPROXIMATE, _PURE},
    "huber": {_APPROXIMATE, _PURE},
    "sparse_linear": {_APPROXIMATE},
    "sparse_copies": {_APPROXIMATE},
    "sparse_fingerprints": {_APPROXIMATE},
    "sparse_packing": {_PURE},
    "distance": {_PURE},
}


def is_minimax(family: str, *, pure: bool) -> bool:
    """Return True if the lower bounds of :mod:`privopt.theory` hold on a family.

    A lower bound is proved for hard data: hidden signs and fingerprints, and under pure
    differential privacy packings. It holds on a family whose members are such data up to a
    rotation or a permutation of signs, which no method of privopt can tell apart: linear losses
    with a weak pull, medians with a small surplus, blocks of sparse records.

    On every other problem a method may be below it. Records that all coincide are easy under
    (epsilon, delta)-differential privacy. Under the pure one they are the packing of distances.

    Examples
    --------
    >>> is_minimax("distance", pure=True), is_minimax("distance", pure=False)
    (True, False)
    """
    return (_PURE if pure else _APPROXIMATE) in _HARD.get(family, ())
