import math

import pytest

from privopt.privacy import Interval


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
