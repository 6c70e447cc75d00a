"""The root finder behind the inverses: both ends are tested points."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privopt.privacy.numbers import false_position


@given(st.floats(-3.0, 3.0), st.floats(0.1, 8.0), st.booleans())
def test_false_position_brackets_and_has_tested_its_ends(root, power, flipped):
    calls = []

    def gap(x):
        calls.append(x)
        value = math.copysign(abs(x - root) ** power, x - root)
        return -value if flipped else value

    ends = (5.0, -5.0) if flipped else (-5.0, 5.0)
    inside, outside = false_position(gap, *ends, absolute=1e-12)
    assert abs(inside - outside) <= 1e-12
    assert min(inside, outside) - 1e-12 <= root <= max(inside, outside) + 1e-12
    assert gap(inside) <= 0.0
    assert {inside, outside} <= set(calls)
    assert len(calls) < 240


def test_false_position_allows_for_infinite_values_and_jumps():
    inside, outside = false_position(
        lambda x: -math.inf if x < 0.3 else math.inf, 0.0, 1.0, relative=1e-9
    )
    assert inside == pytest.approx(0.3, rel=1e-8)
    assert inside < 0.3 <= outside
    stuck = false_position(lambda x: 1.0 if x > 1.0 else -1.0, 1.0, math.nextafter(1.0, 2.0))
    assert stuck == (1.0, math.nextafter(1.0, 2.0))
