"""Theorem of several passes on quadratic losses: simulation, dense algebra and plans."""

import math

import jax
import numpy as np
import pytest
from selection import few

import privopt
from privopt import problems
from privopt.factorisations import factorise
from privopt.spec import Budget, ProblemClass
from privopt.theory import Gains, PrefixVariance, StepRule, passes_rate, quadratic_gains

PASSES, BATCHES, SIZE = 6, 4, 5
STEPS, N, DIM = PASSES * BATCHES, BATCHES * SIZE, 3
SIZES = StepRule(0.9, decay=1.0).sizes(STEPS)


def increments(name):
    """Return the increments of ``B`` as a matrix."""
    return np.diff(factorise(name, STEPS).decoder(), axis=0, prepend=0.0)


def at(eigenvalue, factors):
    """Return ``a^2``, ``v`` and ``q`` of the theorem at one eigenvalue, by loops."""
    weights = [
        size * math.prod(1.0 - later * eigenvalue for later in SIZES[t + 1 :])
        for t, size in enumerate(SIZES)
    ]
    start = math.prod(1.0 - size * eigenvalue for size in SIZES) ** 2
    totals = np.array([sum(weights[j::BATCHES]) for j in range(BATCHES)])
    spread = BATCHES / (BATCHES - 1) * np.sum((totals - totals.mean()) ** 2)
    return start, float(np.sum((factors.T @ weights) ** 2)), spread


@pytest.mark.parametrize("name", ["independent", "tree", "banded_inverse"])
def test_the_gains_are_the_largest_of_many_eigenvalues(name):
    factors = increments(name)
    gains = quadratic_gains(SIZES, factors, batches=BATCHES)
    eigenvalues = np.linspace(0.0, 1.0, 2001)
    largest = np.max([h * np.array(at(h, factors)) for h in eigenvalues], axis=0)
    np.testing.assert_allclose(gains, largest, rtol=0.02)


@pytest.mark.parametrize("name", ["independent", "toeplitz", "banded_inverse"])
def test_coefficients_and_increments_are_the_same(name):
    inverse = factorise(name, STEPS).inverse()
    one, two = (
        quadratic_gains(SIZES, each, batches=BATCHES, modulus=0.1)
        for each in (inverse, increments(name))
    )
    np.testing.assert_allclose(one, two, rtol=1e-9)


def test_a_strongly_convex_loss_has_smaller_gains():
    convex, strong = (
        quadratic_gains(SIZES, increments("tree"), batches=BATCHES, modulus=modulus)
        for modulus in (0.0, 0.7)
    )
    assert strong.start < convex.start
    assert strong.noise < convex.noise


@pytest.mark.parametrize("name", ["independent", "tree", "banded_inverse"])
@pytest.mark.parametrize("eigenvalue", [0.05, 0.4, 1.0])
def test_a_simulation_of_one_eigenvalue_attains_every_part(name, eigenvalue):
    """The mean risk is that of the theorem within 5 standard errors. False alarm below 1e-6."""
    rng, sigma, runs = np.random.default_rng(5), 0.3, 4000
    records = rng.normal(size=(N, DIM))
    records -= records.mean(axis=0)
    factors = increments(name)
    noise = np.einsum("ts,rsd->rtd", factors, rng.normal(size=(runs, factors.shape[1], DIM)))
    orders = rng.permuted(np.tile(np.arange(N), (runs, 1)), axis=1)
    means = records[orders].reshape(runs, BATCHES, SIZE, DIM).mean(axis=2)
    start = np.array([1.0, 0.0, 0.0])
    points = np.tile(start, (runs, 1))
    for t, size in enumerate(SIZES):
        gradients = eigenvalue * points + means[:, t % BATCHES]
        points = points - size * (gradients + sigma * noise[:, t])
    risks = 0.5 * eigenvalue * np.sum(points**2, axis=1)
    decay, variance, spread = at(eigenvalue, factors)
    deviation = np.mean(np.sum(records**2, axis=1)) * (N - SIZE) / ((N - 1) * SIZE)
    expected = 0.5 * eigenvalue * (decay + DIM * sigma**2 * variance + deviation * spread)
    assert abs(risks.mean() - expected) < 5.0 * risks.std() / math.sqrt(runs)


def test_the_default_plan_on_squared_distances_is_within_the_bound():
    """The mean risk is at most the bound plus 5 standard errors. False alarm below 1e-6.

    No step leaves the ball, so that the theorem applies.
    """
    rng, n, dim = np.random.default_rng(2), 2000, 5
    rows = rng.normal(size=(n, dim))
    rows /= 2.0 * np.linalg.norm(rows, axis=1, keepdims=True)
    facts = ProblemClass(
        n=n, dim=dim, lipschitz=2.0, radius=1.0, smoothness=1.0, strong_convexity=1.0
    )
    where = problems.squared_distance(rows, problem_class=facts)
    budget = Budget(epsilon=2.0, delta=1e-6, relation="replace_one")
    plan = privopt.ALGORITHMS["dp_ftrl"].plan(facts, budget)
    mechanism, sizes = plan.params.mechanism, plan.params.descent.step_sizes
    gains = quadratic_gains(
        StepRule(float(sizes.scale), decay=1.0).sizes(mechanism.steps),
        mechanism.noise.factorisation(mechanism.steps).inverse(),
        batches=mechanism.batches.period,
        modulus=1.0,
    )
    bound = gains.risk(
        facts, noise_std=mechanism.scale, batch_size=mechanism.batches.batch_size
    ).total
    found = privopt.run_many([plan], where, jax.random.split(jax.random.key(1), 64))
    risks = np.asarray(where.excess_risk(found.released[0]))
    assert np.linalg.norm(found.released[0], axis=-1).max() < 0.9
    assert 0.2 * bound < risks.mean() < bound + 5.0 * risks.std() / 8.0
    assert plan.rate.upper == math.inf
    assert "quadratic" in plan.rate.theorem


SMOOTH = ProblemClass(n=60, dim=4, lipschitz=1.0, radius=2.0, smoothness=0.25)
AVERAGED = {"output": "average_after_step", "epochs": 6}


@pytest.mark.thorough  # runs of a default plan are compared with the bound below
@pytest.mark.parametrize("noise", ["banded_inverse", "tree", "independent"])
@pytest.mark.parametrize(
    ("epsilon", "batch_size", "step_size"), few([(20.0, 20, 2.0), (4.0, 7, 0.5)], [(4.0, 7, 0.5)])
)
def test_the_risk_of_the_average_is_within_its_bound(noise, epsilon, batch_size, step_size):
    """The mean risk is at most the bound plus 5 standard errors. False alarm below 1e-6.

    The labels make the minimiser a point of the sphere; batches of 7 leave one of 4.
    """
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(60, 4))
    rows /= 1.001 * np.linalg.norm(rows, axis=1, keepdims=True)
    where = problems.logistic(rows, np.where(rows[:, 0] > 0.0, 1.0, -1.0), problem_class=SMOOTH)
    plan = privopt.ALGORITHMS["dp_ftrl"].plan(
        SMOOTH, Budget(epsilon=epsilon, delta=1e-5, relation="replace_one"), noise=noise,
        batch_size=batch_size, step_size=step_size, **AVERAGED,
    )  # fmt: skip
    found = privopt.run_many([plan], where, jax.random.split(jax.random.key(3), 256))
    risks = np.asarray(where.excess_risk(found.released[0]))
    bound = plan.rate.uncapped
    assert math.isfinite(bound)
    assert risks.mean() <= bound + 5.0 * risks.std() / 16.0


def test_the_bound_of_the_average_in_the_letter():
    """Compare with the formula for one weight, which is no smaller; equal batches."""
    eta, sigma, b, passes, batches = 1.5, 0.02, 15, 6, 4
    rate = passes_rate(
        SMOOTH, epochs=passes, batch_size=b, step_size=eta, noise_std=sigma,
        variance=PrefixVariance(1.3, 0.2),
    )  # fmt: skip
    s, spread = eta * 0.25, (60 - b) / (59 * b)
    for weight in (0.1, 0.3, 1.0):
        factor = (1.0 - s * weight) / (1.0 - s - s * weight)
        expected = 4.0 / (2.0 * eta * passes * batches)
        expected += 0.5 * eta * 4 * sigma**2 * (0.2 + 1.3 * factor)
        expected += 0.5 * eta * (1.0 + 1.0 / weight) * spread
        expected += eta * (2 * passes - 1) * (1.0 / b - 1.0 / 60)
        assert rate.uncapped <= expected * (1.0 + 1e-3)
    assert rate.uncapped >= 0.9 * expected
    whole = passes_rate(
        SMOOTH, epochs=8, batch_size=60, step_size=eta, noise_std=sigma,
        variance=PrefixVariance(0.0, 1.0),
    )  # fmt: skip
    gradient_descent = 4.0 / (2.0 * eta * 8) + 0.5 * eta * 4 * sigma**2
    assert whole.uncapped == pytest.approx(gradient_descent, rel=1e-12)


def test_the_split_of_independent_and_of_correlated_noise():
    """Of any split, twice the remainder plus the increment is no smaller."""
    for name in ("independent", "banded_inverse"):
        decoded = factorise(name, STEPS).decoded()
        split = PrefixVariance.of_toeplitz(decoded)
        for alpha in (0.0, 0.1, 0.5, 1.0):
            variances = np.cumsum((decoded - alpha) ** 2)
            assert 2.0 * split.remainder + split.increment <= 2.0 * variances.mean() + alpha**2


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"order": "stored"}, "order of the batches is not random"),
        ({"output": "last"}, "other outputs is for quadratic losses"),
        ({"step_size": 4.0}, "not below 1/smoothness"),
        ({"clip_norm": 0.5}, "clipped below"),
    ],
)
def test_no_bound_beyond_the_assumptions(choices, reason):
    given = {**AVERAGED, "step_size": 1.0, "batch_size": 20, **choices}
    budget = Budget(epsilon=2.0, delta=1e-5, relation="zero_out")
    rate = privopt.ALGORITHMS["dp_ftrl"].plan(SMOOTH, budget, **given).rate
    assert rate.upper == math.inf
    assert reason in rate.theorem


def test_bad_numbers_are_refused():
    with pytest.raises(ValueError, match="batches must divide the number of steps 24, got 5"):
        quadratic_gains(SIZES, np.ones(1), batches=5)
    linear = ProblemClass(n=10, dim=2, lipschitz=1.0, radius=1.0)
    with pytest.raises(ValueError, match="smoothness must be declared and positive, got None"):
        Gains(1.0, 1.0, 0.0).risk(linear, noise_std=1.0, batch_size=10)
