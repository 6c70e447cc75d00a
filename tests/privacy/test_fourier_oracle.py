"""Tests of the Fourier accountant against an independent inversion of another transform.

With ``M(z) = E e^(z L)`` of one release, moved to ``T`` releases as ``M^T``,

    delta(eps) = (1 / 2 pi i) integral over Re z = c > 0 of M(z)^T e^(-z eps) / (z (z + 1)) dz,

which holds without lattice, tilt, window or bounds. ``M`` is a trapezoid sum over outcomes, exact
to rounding for the Gaussian. The line goes through the saddle point, and the sum over it ends when
further terms no longer change it.
"""

import math

import numpy as np
import pytest
from events import ADD, REPLACE, Gaussian, Poisson, Times
from scipy.optimize import minimize_scalar

from privopt.privacy import Fourier
from privopt.privacy.gaussian import gaussian_delta

REACH = 1e-9  # of the oracle, in ln delta


def sampled(noise, rate, order):
    """Weights under ``P`` and losses at outcomes of one Gaussian release from a Poisson sample."""
    far = 16.0 * noise + 60.0 * max(noise, 1.0)
    x = np.linspace(-far, far + 1.0, 4_001)
    without = -0.5 * (x / noise) ** 2 - math.log(noise * math.sqrt(2.0 * math.pi))
    log_dx = math.log(x[1] - x[0])

    def mixture(way):
        return np.logaddexp(math.log1p(-rate), math.log(rate) + (way * x - 0.5) / noise**2)

    if order == "removed":
        return without + log_dx + mixture(1.0), mixture(1.0)
    if order == "added":
        return without + log_dx, -mixture(1.0)
    return without + log_dx + mixture(1.0), mixture(1.0) - mixture(-1.0)


def log_moment(law, z):
    """``ln M`` at complex points with one real part, up to turns that their power forgets."""
    log_weight, loss = law
    exponent = log_weight + z[0].real * loss
    kept = exponent > exponent.max() - 80.0
    weight = np.exp(exponent[kept] - exponent.max())
    middle = weight @ loss[kept] / weight.sum()
    phases = np.exp(1j * z.imag[:, None] * (loss[kept] - middle))
    return exponent.max() + 1j * z.imag * middle + np.log(phases @ weight)


def log_delta(law, steps, epsilon):
    if epsilon >= steps * law[1].max():  # the loss of adding a record is bounded
        return -math.inf

    def height(log_real):
        real = math.exp(log_real)
        moment = log_moment(law, np.array([complex(real)]))[0].real
        return steps * moment - real * epsilon - math.log(real * (1.0 + real))

    real = math.exp(minimize_scalar(height, bounds=(-14.0, 12.0), method="bounded").x)
    top = steps * log_moment(law, np.array([complex(real)]))[0].real - real * epsilon
    bend = (height(math.log(real) + 1e-3) + height(math.log(real) - 1e-3)) / 1e-6
    bend -= 2.0 * height(math.log(real)) / 1e-6
    step = 2.0 * math.pi / max(40.0 * math.sqrt(max(bend, 1.0)) / real, (60.0 - top) / real)
    total, start = 0.0, 0
    while start < 400_000:
        z = real + 1j * step * np.arange(start, start + 512)
        values = np.exp(steps * log_moment(law, z) - z * epsilon - top) / (z * (z + 1.0))
        values[0] *= 0.5 if start == 0 else 1.0
        total, start = total + values.sum().real, start + 512
        if abs(values[-1]) < 1e-17 * abs(total):
            break
    return top + math.log(total * step / math.pi)


@pytest.mark.parametrize("epsilon", [0.3, 2.0, 9.0])
def test_the_oracle_knows_the_gaussian(epsilon):
    x = np.linspace(-40.0, 41.0, 20_001)
    law = -0.5 * (x - 1.0) ** 2 - 0.5 * math.log(2.0 * math.pi) + math.log(x[1] - x[0]), x - 0.5
    exact = math.log(gaussian_delta(epsilon, mu=2.0).upper)
    assert log_delta(law, 4, epsilon) == pytest.approx(exact, abs=REACH)


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("noise", "rate", "steps", "delta", "relation"),
    [
        (0.6, 0.1, 300, 1e-5, ADD),
        (1.0, 0.01, 1_000, 1e-10, ADD),
        (1.0, 0.01, 1_000, 1e-16, ADD),
        (1.0, 0.001, 100, 1e-10, ADD),
        (1.5, 0.0012, 500, 1e-9, REPLACE),
        (2.0, 0.3, 50, 1e-16, REPLACE),
        (2.0, 0.001, 1_000_000, 1e-5, ADD),
        (5.0, 0.01, 1_000_000, 1e-10, REPLACE),
        (20.0, 0.5, 20_000, 1e-15, ADD),
    ],
)
def test_the_interval_contains_what_another_transform_says(noise, rate, steps, delta, relation):
    step = Poisson(rate, Gaussian(noise))
    interval = Fourier().epsilon(Times(step, steps), relation, delta)
    orders = ("replaced",) if relation is REPLACE else ("removed", "added")
    laws = [sampled(noise, rate, order) for order in orders]
    at_lower, at_upper = (max(log_delta(law, steps, end) for law in laws) for end in interval)
    assert at_upper - REACH <= math.log(delta) <= at_lower + REACH
    assert interval.upper <= 1.002 * interval.lower
