import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privopt.privacy import round_down, round_up

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
