"""Factorisations: ``B C = A``, errors, sensitivities, optima."""

import functools
import math

import numpy as np
import pytest
from builders import worst_pattern
from scipy.signal import lfilter

from privopt.factorisations import (
    FACTORISATIONS,
    BufferedFactorisation,
    DenseFactorisation,
    Patterns,
    RestartedFactorisation,
    SeriesFactorisation,
    TreeFactorisation,
    factorise,
    patterns,
    square_root,
)
from privopt.factorisations.factorisation import largest_total

FREE = ("banded", "banded_inverse", "buffered")


def band_of(name, steps):
    return min(3, steps) if name in FREE else None


@pytest.mark.parametrize(
    ("name", "steps", "band", "error"),
    [
        ("banded_inverse", 100, 4, 3.12699),
        ("banded_inverse", 100, 32, 2.32299),
        ("banded_inverse", 4096, 64, 5.63296),
        ("banded", 100, 4, 4.10221),
        ("banded", 100, 64, 2.34654),
        ("banded", 4096, 64, 8.02262),
    ],
)
def test_errors_of_bands(name, steps, band, error):
    assert factorise(name, steps, band).rmse() == pytest.approx(error, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "band", "sensitivity", "error"),
    [
        ("toeplitz", None, 4.38783, 7.5429),
        ("banded", 256, 3.36514, 6.4859),
        ("banded", 16, 2.78846, 14.4368),
        ("banded_inverse", 16, 2.90633, 10.1945),
    ],
)
def test_four_epochs(name, band, sensitivity, error):
    found = factorise(name, 1024, band)
    assert found.sensitivity(4, 256) == pytest.approx(sensitivity, abs=1e-5)
    mean_square = found.variances().mean()
    assert found.sensitivity(4) * math.sqrt(mean_square) == pytest.approx(error, abs=1e-4)


@pytest.mark.parametrize("optimise", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 3, 7, 16, 33])
@pytest.mark.parametrize("name", FACTORISATIONS)
def test_product_and_errors_agree_with_the_matrices(name, steps, optimise):
    found = factorise(name, steps, band_of(name, steps), optimise and name in FREE)
    encoder, decoder = found.encoder(), found.decoder()
    np.testing.assert_allclose(decoder @ encoder, np.tri(steps), atol=1e-10)
    np.testing.assert_allclose(found.variances(), np.diag(found.covariance()), rtol=1e-10)
    column = np.linalg.norm(encoder, axis=0).max()
    assert found.sensitivity() == pytest.approx(column, rel=1e-12)
    assert found.rmse() == pytest.approx(column * np.linalg.norm(decoder) / math.sqrt(steps))


@functools.cache
def long_stream(name):
    """200 steps, and ``C``."""
    series = np.random.default_rng(7).random(200)
    series[0] = 1.0
    found = SeriesFactorisation("odd", 200, series) if name == "odd" else factorise(name, 200)
    return found, found.encoder()


@pytest.mark.cases(5)
@pytest.mark.parametrize(("epochs", "gap"), [(2, 37), (3, 60), (5, 37), (7, 1), (200, 1)])
@pytest.mark.parametrize("name", ["tree", "optimal", "odd"])
def test_even_patterns_are_looked_at_one_by_one(name, epochs, gap):
    """Every start, with as many participations as still fit; ``even`` is no larger."""
    found, encoder = long_stream(name)
    worst = max(
        np.linalg.norm(encoder[:, first::gap][:, :epochs].sum(axis=1)) for first in range(200)
    )
    assert found.sensitivity(epochs, gap, even=True) == pytest.approx(worst)
    assert found.sensitivity(epochs, gap) >= worst * (1.0 - 1e-12)


def test_counted_blocks_in_parts(monkeypatch):
    whole = factorise("tree", 100).sensitivity(3, 30, even=True)
    monkeypatch.setattr("privopt.factorisations.trees._AT_ONCE", 7)
    assert factorise("tree", 100).sensitivity(3, 30, even=True) == whole
    monkeypatch.setattr("privopt.factorisations.trees.MAX_COUNTED", 0)
    assert factorise("tree", 100).sensitivity(3, 30, even=True) >= whole


@pytest.mark.parametrize("signed", [False, True])
def test_bounds_are_never_below_the_truth(signed, monkeypatch):
    rng = np.random.default_rng(0)
    for steps, times, gap in [(9, 2, 2), (10, 3, 3), (11, 4, 2), (8, 3, 1)]:
        matrix = rng.normal(size=(steps, steps)) if signed else rng.random((steps, steps))
        gram = matrix.T @ matrix
        allowed = Patterns(times, gap)
        exact = largest_total(gram, allowed)
        with monkeypatch.context() as patch:
            patch.setattr("privopt.factorisations.factorisation.MAX_ENUMERATED", 0)
            bound = largest_total(gram, allowed)
        assert exact <= bound * (1.0 + 1e-12)
        assert bound <= 1.5 * exact
        if not signed:
            assert exact == pytest.approx(worst_pattern(matrix, times, gap) ** 2)


@pytest.mark.parametrize(("steps", "epochs"), [(600, 2), (1000, 4), (4096, 8)])
def test_sensitivity_of_many_epochs_of_a_tree(steps, epochs):
    """The sensitivity is between the value attained by epochs of one order and the height bound."""
    found = factorise("honaker", steps)
    gap = steps // epochs
    attained = 0.0
    for first in range(0, gap, 7):
        chosen = first + gap * np.arange(epochs)
        squares = 0
        for height in range(steps.bit_length()):
            blocks = (chosen[chosen < (steps >> height << height)]) >> height
            squares += sum(np.bincount(blocks) ** 2) if len(blocks) else 0
        attained = max(attained, squares)
    trivial = epochs * math.sqrt(steps.bit_length())
    assert math.sqrt(attained) <= found.sensitivity(epochs) <= min(trivial, 1.25 * attained**0.5)


# --- restarts ---


@pytest.mark.parametrize("steps", [1, 4, 5, 7, 8, 10])
@pytest.mark.parametrize("name", ["independent", "tree", "honaker", "toeplitz", "optimal"])
def test_restarts_are_independent_epochs(name, steps):
    """``C`` is block diagonal, a cut epoch is the beginning of a whole one, variances add."""
    one = factorise(name, 4)
    found = RestartedFactorisation(one, steps)
    encoder, decoder = found.encoder(), found.decoder()
    np.testing.assert_allclose(decoder @ encoder, np.tri(steps), atol=1e-12)
    np.testing.assert_allclose(found.variances(), np.sum(decoder**2, axis=1))
    gram = encoder.T @ encoder
    epoch = np.arange(steps) // 4
    assert not gram[np.not_equal.outer(epoch, epoch)].any()
    rest = steps % 4
    if rest and name != "optimal":
        cut = factorise(name, rest).encoder()
        np.testing.assert_allclose(gram[-rest:, -rest:], cut.T @ cut)


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize(("epochs", "gap"), [(1, 1), (2, 1), (2, 3), (3, 3), (3, 4), (2, 6)])
@pytest.mark.parametrize("name", ["tree", "toeplitz", "optimal"])
def test_restarted_sensitivity_is_that_of_the_worst_pattern(name, epochs, gap, even, monkeypatch):
    found = RestartedFactorisation(factorise(name, 4), 10)
    truth = worst_pattern(found.encoder(), epochs, gap, even)
    assert found.sensitivity(epochs, gap, even) == pytest.approx(truth)
    monkeypatch.setattr("privopt.factorisations.factorisation.MAX_DENSE", 0)
    allocated = found.sensitivity(epochs, gap, even)
    assert truth * (1.0 - 1e-12) <= allocated <= 1.2 * truth
    monkeypatch.setattr("privopt.factorisations.factorisation.MAX_ALLOCATED", 0)
    assert allocated * (1.0 - 1e-12) <= found.sensitivity(epochs, gap, even)


@pytest.mark.parametrize("name", ["tree", "toeplitz", "banded_inverse"])
def test_a_pass_an_epoch_costs_the_root_of_the_epochs(name):
    """The rule also holds beyond the range of enumeration.

    The same noise without restarts is at least as sensitive.
    """
    one = factorise(name, 1000)
    found = RestartedFactorisation(one, 4000)
    expected = 2.0 * one.sensitivity()
    assert found.sensitivity(4, 1000, even=True) == pytest.approx(expected, rel=1e-12)
    assert found.sensitivity(4, 1000) == pytest.approx(expected, rel=1e-12)
    assert found.sensitivity(4, 1000) <= factorise(name, 4000).sensitivity(4, 1000)


def test_restarted_in_every_step():
    found = RestartedFactorisation(TreeFactorisation(1000), 3000)
    whole = TreeFactorisation(1000).sensitivity(1000, 1, even=True)
    assert found.sensitivity(3000, 1, even=True) == pytest.approx(math.sqrt(3.0) * whole)


# --- optima ---------------------------------------------------------------------------------------


def test_buffers_near_one_do_not_cancel():
    """Decays within 1/T of one, where quotients of polynomials lose all their digits."""
    found = factorise("buffered", 4096, 8)
    product = np.convolve(found.coefficients(), found.inverse())[: found.steps]
    np.testing.assert_allclose(product, np.eye(1, found.steps)[0], atol=1e-12)


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: factorise("trees", 8), "name must be one of"),
        (lambda: factorise("tree", 8, 2), "band must be left out for tree"),
        (lambda: factorise("banded", 8, 9), "band must be at most steps=8, got 9"),
        (lambda: factorise("buffered", 50, 33), "band must be at most 32 buffers, got 33"),
        (lambda: factorise("toeplitz", 8, optimise=True), "optimise must be False for toeplitz"),
        (lambda: factorise("optimal", 10**5), "steps must be at most 4096"),
        (lambda: factorise("tree", 8).sensitivity(0), "epochs must be"),
        (lambda: factorise("tree", 8).sensitivity(3, 4), "epochs must fit into 8 steps"),
        (lambda: SeriesFactorisation("x", 4, np.array([2.0])), "must be finite and begin with 1"),
        (lambda: SeriesFactorisation("x", 1, np.ones(2)), "must have from 1 to 1 coefficients"),
        (lambda: BufferedFactorisation(4, np.ones(1), np.ones(2)), "one weight for each theta"),
        (lambda: BufferedFactorisation(4, -np.ones(1), np.ones(1)), "omega must be finite"),
        (lambda: BufferedFactorisation(4, np.ones(1), 2 * np.ones(1)), "theta must lie in"),
        (lambda: DenseFactorisation(np.ones((2, 2))), "must be lower triangular"),
        (lambda: DenseFactorisation(np.zeros((2, 2))), "must be invertible"),
        (lambda: DenseFactorisation(np.ones(2)), "must be a square matrix"),
        (lambda: DenseFactorisation([[1.0], [1.0, 2.0]]), "must be an array of numbers"),
        (lambda: factorise("toeplitz", 10**9), "steps must be at most 67108864 for toeplitz"),
        (lambda: RestartedFactorisation(np.eye(2), 4), "factorisation must be one"),
    ],
)  # fmt: skip
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_two_participations_of_a_series_that_is_not_monotone():
    """Check the worst lag of a pair beyond the range of enumeration.

    It is exact if no long lag is cut off.
    """
    found = factorise("banded_inverse", 2000, 16, optimise=True)
    c = found.coefficients()
    assert np.diff(c).max() > 1e-6
    late = [c + np.pad(c, (lag, 0))[:2000] for lag in range(500, 2000)]
    worst = np.sqrt(max(column @ column for column in late))
    assert found.sensitivity(2, 500) == pytest.approx(worst, rel=1e-9)


def test_series_that_overflow():
    """``2^k``: an infinite error in ``B``; in ``C`` no sensitivity, and no privacy from a NaN."""
    grown = np.array([1.0, -2.0])
    assert SeriesFactorisation("grown", 2000, grown).rmse() == math.inf
    for times in (1, 3):
        with pytest.raises(ValueError, match="grown must have finite coefficients over 2000"):
            SeriesFactorisation("grown", 2000, np.ones(1), grown).sensitivity(times, 5)


def test_epochs_of_one_order_are_far_apart():
    assert patterns(10, 3, None) == Patterns(3, 3)
    assert patterns(5, 5, None) == Patterns(5, 1)


def test_the_inverse_of_a_long_series_is_that_of_the_recursion():
    """Newton's iteration, of absolute rounding; on float32 coefficients, as a run has them."""
    steps = 6000
    root = square_root(steps).astype(np.float32).astype(float)
    series = SeriesFactorisation("toeplitz", steps, root)
    expected = lfilter([1.0], root, np.eye(1, steps)[0])
    np.testing.assert_allclose(series.inverse(), expected, rtol=0.0, atol=1e-14)
    np.testing.assert_allclose(series.variances(), np.cumsum(np.cumsum(expected) ** 2), rtol=1e-12)
    np.testing.assert_array_equal(series.coefficients(), root)
