"""Tests of the moments accountant: published values, and no result below the exact epsilon."""

import math

import numpy as np
import pytest
from events import ADD, Gaussian, sgd

from privopt.accounting.compared import Moments
from privopt.privacy import Renyi
from privopt.privacy.mechanisms.base import renyi_divergence

MOMENTS = Moments()


# Dong, Roth and Su, "Gaussian differential privacy", Tables 1-4: noise, rate, epochs, delta, the
# printed column "MA", to two decimals (truncated or rounded), its value at fractional steps, and
# the certified truth at whole ones.
PUBLISHED = [
    (1.3, 256 / 60000, 15, 1e-5, 1.19, 1.1922, 0.86454),
    (1.1, 256 / 60000, 60, 1e-5, 3.01, 3.0083, 2.38160),
    (0.7, 256 / 60000, 45, 1e-5, 7.10, 7.1005, 5.63968),
    (0.6, 256 / 60000, 62, 1e-5, 13.27, 13.2707, 10.9495),
    (0.55, 256 / 60000, 68, 1e-5, 18.72, 18.7204, 15.7163),
    (0.5, 256 / 60000, 100, 1e-5, 32.40, 32.4000, 28.0460),
    (0.55, 256 / 29305, 18, 1e-5, 14.70, 14.7014, 11.8073),
    (0.56, 512 / 25000, 9, 1e-5, 15.24, 15.2406, 12.1408),
    (0.6, 1 / 80, 20, 1e-6, 15.39, 15.3938, 12.7495),
]


@pytest.mark.parametrize(
    ("z", "rate", "epochs", "delta", "printed", "fractional", "true"), PUBLISHED
)
def test_published_column(z, rate, epochs, delta, printed, fractional, true):
    event = sgd(z, rate, round(epochs / rate))
    moments = MOMENTS.epsilon(event, ADD, delta).upper
    assert moments == pytest.approx(printed, abs=0.01)
    assert moments == pytest.approx(fractional, abs=0.006)
    assert true < Renyi().epsilon(event, ADD, delta).upper < moments


def test_fractional_steps_reproduce_the_published_digits():
    orders = np.asarray(MOMENTS.orders)
    for z, rate, epochs, delta, _, fractional, _ in PUBLISHED:
        one = renyi_divergence(sgd(z, rate), ADD, orders)
        value = np.min(one * epochs / rate + math.log(1 / delta) / (orders - 1))
        assert value == pytest.approx(fractional, abs=6e-5)


def test_golden_conversion():
    # D_10 = 1 at delta = 1e-5
    event, moments = Gaussian(math.sqrt(5.0)), Moments([10.0])
    assert moments.epsilon(event, ADD, 1e-5).upper == pytest.approx(2.279213940552, rel=1e-12)
    assert moments.delta(event, ADD, 2.279213940552).upper == pytest.approx(1e-5, rel=1e-10)


def test_orders_are_the_published_ones():
    assert len(MOMENTS.orders) == 99 + 52
    assert MOMENTS.orders[0] == 1.1
    assert MOMENTS.orders[98] == pytest.approx(10.9)
    assert MOMENTS.orders[99:] == tuple(map(float, range(12, 64)))
