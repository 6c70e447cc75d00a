"""Tests of outward rounding, of proved intervals, and of the root finder behind the inverses."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privopt.privacy import Interval, round_down, round_up
from privopt.privacy.numbers import false_position

TINY = 2.0**-80
LARGEST = float(np.finfo(np.float32).max)
NORMAL = st.floats(TINY, LARGEST)


@given(NORMAL | NORMAL.map(lambda x: -x))
def test_rounding_is_outward_to_the_next_float32(x):
    low, high = round_down(x), round_up(x)
    assert low <= x <= high
    assert (float(np.float32(low)), float(np.float32(high))) == (low, high)
    if low != high:
        assert np.nextafter(np.float32(low), np.float32(np.inf)) == np.float32(high)
    else:
        assert low == x


def test_both_directions_of_a_number_between():
    x = 1.0 + 2.0**-40  # float32 rounds it down, to the unsafe side
    assert float(np.float32(x)) < x
    assert (round_down(x), round_up(x)) == (1.0, 1.0 + 2.0**-23)


def test_numbers_whose_noise_would_underflow_are_passed_over_and_never_become_zero_upwards():
    assert round_up(5e-324) == round_up(TINY / 2) == round_up(TINY) == TINY
    assert round_down(TINY / 2) == 0.0
    assert round_down(-1e-300) == -TINY
    assert math.copysign(1.0, round_down(1e-300)) == 1.0


def test_fixed_points():
    for x in (0.0, math.inf, -math.inf, 1.0, LARGEST):
        assert round_up(x) == round_down(x) == x


@pytest.mark.parametrize("x", [math.nextafter(LARGEST, math.inf), 1e39, 1e308, -1e39])
def test_overflow_is_refused(x):
    with pytest.raises(ValueError, match="x must fit into float32"):
        round_up(x) if x > 0 else round_down(x)


def test_finite_numbers_beyond_float32_round_towards_zero():
    assert round_down(LARGEST * (1.0 - 2.0**-30)) < LARGEST
    assert round_up(-LARGEST * (1.0 - 2.0**-30)) > -LARGEST


def test_nan_is_refused():
    with pytest.raises(ValueError, match="x must be a real number, got nan"):
        round_up(math.nan)


def test_an_interval_unpacks_and_holds_its_ends():
    lower, upper = interval = Interval(0, 1.5)
    assert (lower, upper) == (0.0, 1.5)
    assert interval.width == 1.5
    assert interval.contains(0.0)
    assert interval.contains(1.5)
    assert not interval.contains(1.6)
    assert not interval.contains(math.nan)


def test_a_point_at_infinity_has_no_width():
    assert Interval(math.inf, math.inf).width == 0.0
    assert Interval(0.0, math.inf).width == math.inf


@pytest.mark.parametrize("ends", [(-1e-300, 1.0), (2.0, 1.0), (math.nan, 1.0), (0.0, math.nan)])
def test_bad_ends_are_refused(ends):
    with pytest.raises(ValueError, match=r"lower must lie in|must be a real number"):
        Interval(*ends)


def test_an_interval_is_frozen():
    with pytest.raises(AttributeError):
        Interval(0.0, 1.0).lower = 0.5


def test_a_reason_is_seen_and_not_compared():
    wide = Interval(0.0, 1.0, "too little work")
    assert wide == Interval(0.0, 1.0)
    assert hash(wide) == hash(Interval(0.0, 1.0))
    assert repr(wide) == "Interval(lower=0.0, upper=1.0, reason='too little work')"
    assert repr(Interval(0.0, 1.0)) == "Interval(lower=0.0, upper=1.0)"
    assert len(tuple(wide)) == 2


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


@pytest.mark.parametrize(
    ("gap", "most"),
    [
        (lambda x: x**3 - 0.4, 20),  # by halving alone it would take 50
        (lambda x: -1e-12 if x < 0.1234 else 1e3, 125),  # three for each halving
    ],
    ids=["smooth", "jump"],
)
def test_false_position_takes_few_steps(gap, most):
    calls = []
    false_position(lambda x: calls.append(x) or gap(x), 0.0, 1.0, absolute=1e-12)
    assert len(calls) <= most
