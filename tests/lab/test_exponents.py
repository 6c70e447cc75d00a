"""Exponents and their intervals; every false-alarm probability is stated."""

import math

import numpy as np
import pytest
from builders import most_allowed
from scipy import stats

from privopt.lab.evaluation.estimates import (
    Estimate,
    Exponent,
    difference,
    exponent_difference,
    fit_exponent,
    least_squares,
    mean_interval,
)
from privopt.lab.evaluation.slopes import DRIFT, classify, pass_probability, runs_needed

VALUES = 2.0 ** np.arange(5)


def lognormal(rng, mean, size, spread=0.7):
    return mean * np.exp(spread * rng.normal(size=size) - spread**2 / 2)


def covered(trials, draw, alpha):
    """Return how often the interval misses the exponent -1: low end above it, high end below it."""
    low = high = 0
    for trial in range(trials):
        rng = np.random.default_rng(trial)
        samples = [draw(rng, 1.0 / value) for value in VALUES]
        found = fit_exponent(VALUES, samples, alpha, [trial]).estimate
        low, high = low + (found.lower > -1.0), high + (found.upper < -1.0)
    return low, high


@pytest.mark.parametrize("size", [10, 40])
def test_an_interval_misses_as_often_as_it_says(size):
    # 300 intervals at alpha = 0.2: each side misses 10% of the time, passed with 1 - 2e-6.
    low, high = covered(300, lambda rng, mean: [lognormal(rng, mean, size)], 0.2)
    assert max(low, high) <= most_allowed(300, 0.1)
    assert low + high >= stats.binom.ppf(1e-6, 300, 0.1)  # not so wide that it says nothing


@pytest.mark.parametrize("tied", [2, 5])
def test_strengths_that_tie_only_here_and_there_do_not_mislead(tied):
    # The largest of several equal means is biased; at half the values nothing ties.
    def draw(rng, mean):
        ties = tied if mean > 0.2 else 1
        return [lognormal(rng, mean * (1.0 if s < ties else 0.2), 20) for s in range(tied)]

    low, high = covered(150, draw, 0.1)
    assert max(low, high) <= most_allowed(150, 0.05)


def test_mean_interval_is_students():
    samples = np.random.default_rng(0).normal(3.0, 2.0, size=20)
    found = mean_interval(samples, 0.025)
    expected = stats.t.interval(0.95, 19, samples.mean(), stats.sem(samples))
    np.testing.assert_allclose((found.lower, found.upper), expected, rtol=1e-12)
    assert mean_interval(samples[:1], 0.025).upper == math.inf


def test_a_difference_of_normal_means_has_the_textbook_interval():
    first, second = (Estimate(m, m - 1.96 * s, m + 1.96 * s) for m, s in ((3.0, 0.3), (1.0, 0.4)))
    found = difference(first, second)
    assert (found.value, found.upper - found.lower) == (2.0, pytest.approx(2 * 1.96 * 0.5))


def test_least_squares_is_numpys():
    numbers = np.random.default_rng(0).uniform(1.0, 2.0, size=5)
    expected = np.polyfit(np.log(VALUES), np.log(numbers), 1)[0]
    assert least_squares(VALUES, numbers) == pytest.approx(expected, rel=1e-12)


def test_an_interval_is_that_of_the_normal_limit():
    samples = [
        [lognormal(np.random.default_rng(k), 1.0 / v, 3000)] for k, v in enumerate((1, 2, 4))
    ]
    fitted = fit_exponent((1.0, 2.0, 4.0), samples, 0.01, [0])
    found = fitted.estimate
    logs = [math.log(s.mean()) for (s,) in samples]
    assert found.value == pytest.approx((logs[2] - logs[0]) / math.log(4.0))
    spread = [s.std(ddof=1) / s.mean() / math.sqrt(3000) for (s,) in samples]
    error = math.hypot(spread[0], spread[2]) / math.log(4.0)
    assert found.upper - found.lower == pytest.approx(2 * 2.576 * error, rel=1e-2)
    np.testing.assert_allclose(fitted.errors.std(axis=1), spread, rtol=0.05)


@pytest.mark.thorough  # the level is tested above
def test_the_level_far_out_is_kept_too():
    # As simultaneous intervals need it: of 1,500 intervals of risks as skewed as these, each end
    # misses with probability 0.0025; more than 17 do so with probability below 1e-6.
    low, high = covered(1500, lambda rng, mean: [lognormal(rng, mean, 24, 0.8)], 0.005)
    assert max(low, high) <= most_allowed(1500, 0.0025)


@pytest.mark.thorough  # levels are tested above
def test_a_difference_of_pairs_misses_as_often_as_it_says():
    # 400 at alpha = 0.1 of sweeps that share their noise, 0.1 apart, the largest of two: each end
    # misses with probability 0.05, passed with 1 - 1e-6. Alone either is known to 0.3.
    low = high = 0
    for trial in range(400):
        rng = np.random.default_rng(trial)
        theirs = [[lognormal(rng, c / value, 40) for c in (1.0, 0.95)] for value in VALUES]
        ours = [
            [s * value**0.1 * np.exp(0.05 * rng.normal(size=s.size)) for s in group]
            for value, group in zip(VALUES, theirs, strict=True)
        ]
        found = exponent_difference(VALUES, ours, theirs, 0.1, [trial])
        low, high = low + (found.lower > 0.1), high + (found.upper < 0.1)
        assert found.upper - found.lower < 0.04
    assert max(low, high) <= most_allowed(400, 0.05)


def measured(trials, off, size, spread, alpha, ties=1):
    """Return how often an exponent with error ``off`` passes, and its mean pass probabilities."""
    passed, told = 0, []
    for trial in range(trials):
        rng = np.random.default_rng([trial, size])
        samples = [
            [lognormal(rng, value ** (off - 1.0), size, spread) for _ in range(ties)]
            for value in VALUES
        ]
        fitted = fit_exponent(VALUES, samples, alpha, [trial])
        ratios = [max(s.mean() for s in group) for group in samples] * VALUES
        steady = np.ptp(np.log(ratios)) <= math.log(DRIFT)
        passed += classify(fitted.estimate, -1.0) == "within" and steady
        told.append([pass_probability(fitted, offset=wrong) for wrong in (0.0, 0.05, 0.10)])
    return passed, np.mean(told, axis=0)


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("size", "spread", "ties", "about"),
    [(40, 0.1, 1, 1.0), (100, 0.25, 1, 0.93), (60, 0.22, 1, 0.85), (100, 0.25, 2, 0.89)],
)
def test_the_power_that_is_told_is_how_often_the_right_exponent_passes(size, spread, ties, about):
    # Within 0.05 beside the error of 400 trials, which five standard errors exceed once in 2e6.
    trials = 400
    passed, (power, _, _) = measured(trials, 0.0, size, spread, 0.05, ties)
    frequency = passed / trials
    error = math.sqrt(power * (1.0 - power) / trials)
    assert frequency == pytest.approx(power, abs=0.05 + 5.0 * error)
    assert frequency == pytest.approx(about, abs=0.08)  # no trivial chance is compared


@pytest.mark.cases(2)
@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("size", [12, 40])
def test_an_exponent_wrong_by_the_margin_passes_at_most_as_often_as_the_level_says(sign, size):
    # Of 400 trials at alpha = 0.2, each passing with alpha/2: more with probability below 1e-6.
    passed, (_, near, _) = measured(400, 0.05 * sign, size, 0.1, 0.2)
    assert passed <= most_allowed(400, 0.1)
    assert near <= 0.12


def test_a_wide_interval_has_no_power():
    samples = [[lognormal(np.random.default_rng(k), 1.0, 20)] for k in range(5)]
    assert pass_probability(fit_exponent(VALUES, samples, 0.01, [0])) == 0.0


def test_drift_counts_in_the_power():
    # Two values far apart fix the slope; the three between them scatter by more than DRIFT.
    rng = np.random.default_rng(0)
    values = (1.0, 90.0, 100.0, 110.0, 10000.0)
    samples = [[lognormal(rng, 1.0 / v, 400, 0.02 if k in (0, 4) else 1.2)] for k, v in
               enumerate(values)]  # fmt: skip
    fitted = fit_exponent(values, samples, 0.01, [0])
    assert fitted.estimate.upper - fitted.estimate.lower < 0.02
    assert pass_probability(fitted) < 0.9


def test_the_number_of_runs_is_estimated_for_any_errors():
    logs = np.log([0.25, 0.5, 2.0, 4.0])
    errors = 0.3 * np.random.default_rng(0).normal(size=(4, 500))
    wide = Estimate(-1.0, -1.3, -0.7)
    few, many = (runs_needed(Exponent(wide, logs, scale * errors), 40) for scale in (0.5, 1.0))
    assert 40 < few <= many < 10**6
    assert runs_needed(Exponent(wide, logs, math.nan * errors), 40) >= 10**9
