"""Tests of lower bounds on the error of all factorisations of a class, and of their tightness.

A Toeplitz factorisation has ``sum_i c_i b_(k-i) = 1`` for every ``k < T``, and its mean square
error is ``|c|^2 sum_j w_j b_j^2``, ``w_j = (T - j)/T``. For any multipliers ``a`` and ``H_ij =
a_(i+j)``

    sum_k a_k = c^T H b <= |c| |H W^(-1/2)| |W^(1/2) b|,

so that every factorisation with ``m`` coefficients ``c`` has an error of at least
``sum_k a_k/|H W^(-1/2)|``, ``H`` of ``m`` rows. At an optimum with the multipliers of its
first-order conditions both sides are equal if that singular value is the largest. The argument
also holds if ``r = 1/c`` has ``m`` coefficients:
``a_0 = c^T H r`` and ``sum_j w_j b_j^2 = r^T Q r``.
"""

import numpy as np
import pytest
from scipy.linalg import eigh, eigvalsh
from scipy.optimize import minimize
from scipy.signal import fftconvolve, lfilter
from scipy.sparse.linalg import LinearOperator, svds

from privopt.factorisations import BufferedFactorisation, factorise


def shifted(multipliers, count):
    """``H``: row ``i`` begins with ``a_i``."""
    padded = np.concatenate([multipliers, np.zeros(count)])
    return np.stack([padded[i : i + len(multipliers)] for i in range(count)])


def least_of_bands(found):
    """A bound for all ``c`` with as many coefficients."""
    c, b = found.numerator, found.decoded()
    weights = np.arange(found.steps, 0, -1.0) / found.steps
    slope = 2.0 * weights * b / (weights @ b**2)
    multipliers = lfilter([1.0], c, slope[::-1])[::-1]  # sum_i c_i a_(i+j) = slope_j
    rows = shifted(multipliers, len(c))
    return multipliers.sum() / np.sqrt(eigvalsh((rows / weights) @ rows.T)[-1])


def least_of_banded_inverses(found):
    """A bound for all ``c = 1/r`` with as many coefficients of ``r``."""
    r, c = found.denominator, found.coefficients()
    slope = 2.0 * c / (c @ c)
    multipliers = lfilter([1.0], r, slope[::-1])[::-1]
    rows = shifted(multipliers, len(r))
    weights = np.arange(found.steps, 0, -1.0) / found.steps
    later = np.cumsum(weights[::-1])[::-1][: len(r)]
    error = later[np.maximum.outer(np.arange(len(r)), np.arange(len(r)))]
    return multipliers[0] / np.sqrt(eigh(rows @ rows.T, error, eigvals_only=True)[-1])


def least_of_toeplitz(found):
    """A bound for every Toeplitz ``C``."""
    steps, b = found.steps, found.decoded()
    weights = np.arange(steps, 0, -1.0) / steps
    slope = 2.0 * weights * b / (weights @ b**2)
    multipliers = fftconvolve(slope[::-1], found.inverse())[:steps][::-1]
    transform = np.fft.rfft(multipliers, 2 * steps)

    def times(vector):
        spectrum = transform * np.conj(np.fft.rfft(vector.ravel(), 2 * steps))
        return np.fft.irfft(spectrum, 2 * steps)[:steps]

    rows = LinearOperator(
        (steps, steps),
        matvec=lambda x: times(x.ravel() / np.sqrt(weights)),
        rmatvec=lambda x: times(x) / np.sqrt(weights),
        dtype=np.float64,
    )
    start = found.coefficients()
    return multipliers.sum() / svds(rows, k=1, return_singular_vectors=False, v0=start)[0]


@pytest.mark.cases(2)
@pytest.mark.parametrize(("steps", "band"), [(50, 4), (1000, 16), (100_000, 2), (10_000, 32)])
@pytest.mark.parametrize(
    ("name", "least"), [("banded", least_of_bands), ("banded_inverse", least_of_banded_inverses)]
)
def test_optimised_bands_are_optimal(name, least, steps, band):
    """No other coefficients of the class are better by a millionth, at any number of steps."""
    found = factorise(name, steps, band, optimise=True)
    bound = least(found)
    assert bound <= found.rmse() * (1.0 + 1e-8)
    assert found.rmse() <= bound * (1.0 + 1e-6)


@pytest.mark.parametrize(("steps", "buffers"), [(50, 2), (1000, 3), (6000, 5)])
def test_optimised_buffers_are_nearly_optimal_among_all_series(steps, buffers):
    """Within 1 % of every Toeplitz ``C``, of which they are a class."""
    found = factorise("buffered", steps, buffers, optimise=True)
    bound = least_of_toeplitz(found)
    assert bound < found.rmse() <= 1.01 * bound


def test_the_bounds_hold_for_coefficients_that_are_not_optimal():
    """They are bounds for any multipliers; here those of the closed form, and random ones."""
    best = factorise("banded", 200, 5, optimise=True).rmse()
    assert least_of_bands(factorise("banded", 200, 5)) < best
    inverse = factorise("banded_inverse", 200, 5, optimise=True).rmse()
    assert least_of_banded_inverses(factorise("banded_inverse", 200, 5)) < inverse
    assert least_of_toeplitz(factorise("toeplitz", 200)) < min(best, inverse)


def test_two_buffers_of_a_long_stream_agree_with_a_search_that_knows_no_gradient():
    """Nelder and Mead from three places; long streams are optimised by way of shorter ones."""
    steps = 6000

    def error(numbers):
        odds = np.exp(np.clip(numbers[2:], -30.0, 30.0))
        weights = np.exp(np.clip(numbers[:2], -30.0, 5.0))
        return BufferedFactorisation(steps, weights, 1.0 / (1.0 + odds)).rmse()

    options = {"xatol": 1e-7, "fatol": 1e-10, "maxiter": 1500}
    best = min(
        minimize(error, start, method="Nelder-Mead", options=options).fun
        for start in ([-6.0, -2.0, -8.0, -1.0], [-4.0, -1.0, -5.0, 0.0], [-8.0, -1.0, -9.0, 1.0])
    )
    found = factorise("buffered", steps, 2, optimise=True).rmse()
    assert found <= best * (1.0 + 1e-6)
