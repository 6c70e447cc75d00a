"""Ranges of scores, by brute force over what one record may do to a table."""

from __future__ import annotations

import itertools

import pytest

from privopt.spec import Relation
from privopt.statistics import BoundedScores


def brute_range(changes, relation, limit):
    """Largest ``max - min`` of the change of three scores, one record's contributions on a grid."""
    one = list(itertools.product(changes, repeat=3))
    if relation is not Relation.REPLACE_ONE:
        return max(max(c) - min(c) for c in one)
    moved = [
        tuple(b - a for a, b in zip(left, right, strict=True)) for left in one for right in one
    ]
    allowed = [c for c in moved if max(map(abs, c)) <= limit]
    return max(max(c) - min(c) for c in allowed)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("replacement", [None, 0.5])
def test_the_range_is_attained_and_never_exceeded(relation, monotone, replacement):
    scores = BoundedScores.of(1.0, monotone=monotone, replacement=replacement)
    changes = (0.0, 0.5, 1.0) if monotone else (-1.0, -0.5, 0.0, 0.5, 1.0)
    limit = 2.0 if replacement is None else replacement
    assert scores.score_range(relation) == brute_range(changes, relation, limit)


@pytest.mark.parametrize(("change", "replacement"), [(-1.0, None), (float("nan"), None), (1, -0.1)])
def test_bad_bounds_fail_with_their_name(change, replacement):
    with pytest.raises(ValueError, match=r"must be non-negative and finite, got"):
        BoundedScores.of(change, replacement=replacement)
