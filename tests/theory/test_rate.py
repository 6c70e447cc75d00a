"""A rate refuses what no pair of bounds can be."""

import dataclasses
import math

import pytest

from privopt.theory import Rate

WORDS = {"theorem": "t", "source": "s", "regime": "r"}


def rate(upper, lower, exponents=None):
    return Rate(upper=upper, lower=lower, exponents=exponents or {}, **WORDS)


@pytest.mark.parametrize(("upper", "lower"), [(0, 0), (1, 1), (2.0, 0.5), (math.inf, math.inf)])
def test_ordered_bounds_are_taken(upper, lower):
    made = rate(upper, lower)
    assert (made.upper, made.lower, made.tight_on) == (upper, lower, None)


@pytest.mark.parametrize("upper", [math.nan, -1e-300, -math.inf])
def test_upper_must_be_non_negative(upper):
    with pytest.raises(ValueError, match=f"upper must be non-negative, got {upper!r}"):
        rate(upper, 0.0)


@pytest.mark.parametrize("lower", [math.nan, -1e-300, 1.0000001, math.inf])
def test_lower_must_not_exceed_upper(lower):
    with pytest.raises(ValueError, match=rf"lower must lie in \[0, upper=1.0\], got {lower!r}"):
        rate(1.0, lower)


def test_exponents_are_a_copy_that_cannot_change():
    given = {"n": -1.0}
    made = rate(1.0, 0.0, given)
    given["n"] = 3.0
    assert made.exponents == {"n": -1.0}
    with pytest.raises(TypeError):
        made.exponents["n"] = 2.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.upper = 0.0


def test_a_rate_says_which_risk_it_speaks_of():
    assert rate(1.0, 0.0).risk == "empirical"
    assert dataclasses.replace(rate(1.0, 0.0), risk="population").risk == "population"
    with pytest.raises(ValueError, match="risk must be one of empirical, population, got 'true'"):
        dataclasses.replace(rate(1.0, 0.0), risk="true")
