"""An estimate says so wherever it goes, and never passes for a number or a guarantee."""

import math
import operator

import numpy as np
import pytest
from refusals import refused

from privopt.accounting.clt import ApproximateCurve, Approximation
from privopt.privacy import Interval
from privopt.privacy.numbers import check_epsilon

ESTIMATE = Approximation(2.3243, "CLT")
CURVE = ApproximateCurve([1.0, 0.5, 0.0], "CLT")
ORDERS = pytest.mark.parametrize("order", [operator.lt, operator.le, operator.gt, operator.ge])


def test_it_prints_as_what_it_is():
    assert str(ESTIMATE) == f"{ESTIMATE}" == "about 2.32 (CLT)"
    assert f"{ESTIMATE:.4f}" == "about 2.3243 (CLT)"
    assert repr(ESTIMATE) == "Approximation(value=2.3243, method='CLT')"
    assert str(CURVE) == "about [1.  0.5 0. ] (CLT)"


@ORDERS
@pytest.mark.parametrize("estimate", [ESTIMATE, CURVE])
@pytest.mark.parametrize("other", [1.0, 3, np.float64(1.0), np.ones(3), Interval(0, 9), ESTIMATE])
def test_it_has_no_order(order, estimate, other):
    for left, right in ((estimate, other), (other, estimate)):
        with pytest.raises(TypeError, match=r"cannot compare an estimate \(CLT\)"):
            order(left, right)


def test_it_is_not_a_number():
    for convert in (float, int, math.sqrt, abs):
        with pytest.raises(TypeError):
            convert(ESTIMATE)
    for compute in (lambda: ESTIMATE + 1.0, lambda: max(1.0, ESTIMATE), lambda: 2.0 * ESTIMATE):
        with pytest.raises(TypeError):
            compute()
    with pytest.raises(ValueError, match="epsilon must be a real number"):
        check_epsilon(ESTIMATE)
    with pytest.raises(ValueError, match="upper must be a real number"):
        Interval(0.0, ESTIMATE)
    assert not hasattr(ESTIMATE, "upper")
    assert ESTIMATE != 2.3243


@pytest.mark.parametrize("estimate", [ESTIMATE, CURVE])
def test_numpy_does_not_compute_with_it(estimate):
    compute = [
        lambda: np.maximum(np.ones(3), estimate),
        lambda: np.float64(1.0) * estimate,
        lambda: np.asarray(estimate, dtype=np.float64),
    ]
    for each in compute:
        with pytest.raises(TypeError):
            each()


def test_a_curve_is_its_own_and_is_read_on_purpose():
    source = np.ones(2)
    curve = ApproximateCurve(source, "CLT")
    source[0] = 7.0
    assert tuple(curve.values) == (1.0, 1.0)
    with pytest.raises(ValueError, match="read-only"):
        curve.values[0] = 0.0
    with pytest.raises(TypeError, match="is not an array"):
        np.asarray(curve)


def test_it_is_frozen_and_hashable():
    with pytest.raises(AttributeError):
        ESTIMATE.value = 0.0
    assert {ESTIMATE: 1}[Approximation(2.3243, "CLT")] == 1


test_bad_arguments_are_named = refused(
    (lambda: Approximation(math.nan, "CLT"), "value must be a real number, got nan"),
    (lambda: Approximation("2", "CLT"), "value must be a real number, got '2'"),
    (lambda: Approximation(1.0, ""), "method must be a non-empty string, got ''"),
    (lambda: ApproximateCurve([1.0, math.nan], "CLT"), "values must be real numbers"),
    (lambda: ApproximateCurve([1.0], 3), "method must be a non-empty string, got 3"),
)
