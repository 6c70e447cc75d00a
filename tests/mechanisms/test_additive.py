"""Additive noise: calibrated to the budget and no further, with noise of that scale and no other.

Statistical tests use fixed keys; their level is the probability that an unlucky key would have
raised a false alarm.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, LaplaceDpEvent, NoOpDpEvent
from dp_accounting.pld import privacy_loss_distribution
from mpmath import mp
from scipy import stats

from privopt import draws
from privopt.mechanisms import (
    ClippedGradient,
    GaussianMechanism,
    LaplaceMechanism,
    NormLaplaceMechanism,
    RegularisedMinimiser,
)
from privopt.mechanisms.additive import classic_gaussian_scale
from privopt.privacy import Guarantee
from privopt.spec import Budget, ProblemClass, Relation
from privopt.statistics import BoundedMean, BoundedSum, Count, Histogram

LEVEL = 1e-6
CLASS = ProblemClass(n=1000, dim=7, lipschitz=0.3, radius=1.0, smoothness=1.0)
QUERY = ClippedGradient.of(CLASS)
QUERIES = {
    "gradient": QUERY,
    "sum": BoundedSum.of(-0.1, 0.3),
    "mean": BoundedMean.of(-0.1, 0.3, 37),
    "histogram": Histogram.logarithmic(0.1, 2.0, 5, mirrored=True),
}
PURE = {"laplace": LaplaceMechanism, "norm_laplace": NormLaplaceMechanism}
relations = pytest.mark.parametrize("relation", list(Relation))
dims = pytest.mark.parametrize("dim", [1, 2, 10])
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])


class Unit(NamedTuple):
    """A query that moves by one under every relation."""

    def sensitivity(self, relation):
        return 1.0


def pure(epsilon, relation):
    return Budget(epsilon=epsilon, delta=0.0, relation=relation)


def spent(mechanism, relation, delta=0.0, compositions=1):
    event = mechanism.event(relation)
    return Guarantee(event, relation).times(compositions).epsilon(delta)


def meets_and_no_more(mechanism, budget, compositions=1):
    """The budget is kept, by a scale that float32 holds, and two per cent less breaks it."""
    asked = budget.relation, budget.delta, compositions
    assert float(np.float32(mechanism.scale)) == mechanism.scale
    assert spent(mechanism, *asked).upper <= budget.epsilon
    less = mechanism._replace(scale=0.98 * mechanism.scale)
    assert spent(less, *asked).lower > budget.epsilon


# --- calibration ----------------------------------------------------------------------------------


@relations
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-8), (1.0, 1e-6), (8.0, 1e-3)])
@pytest.mark.parametrize("compositions", [1, 100])
def test_gaussian_noise_meets_the_budget_and_two_percent_less_does_not(
    relation, epsilon, delta, compositions
):
    budget = Budget(epsilon=epsilon, delta=delta, relation=relation)
    for query in (QUERY, RegularisedMinimiser.of(CLASS, relation, regularisation=0.1)):
        mechanism = GaussianMechanism.calibrated(query, budget, compositions=compositions)
        meets_and_no_more(mechanism, budget, compositions)
        multiplier = mechanism.event(relation).noise_multiplier
        expected = mechanism.scale * relation.multiple / query.sensitivity(relation)
        assert multiplier == pytest.approx(expected, rel=1e-14)
        assert multiplier * query.sensitivity(relation) <= mechanism.scale * relation.multiple


@relations
@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 30.0])
def test_laplace_noise_meets_the_budget_and_two_percent_less_does_not(relation, query, epsilon):
    found = LaplaceMechanism.calibrated(query, pure(epsilon, relation))
    meets_and_no_more(found, pure(epsilon, relation))
    assert found.scale == pytest.approx(query.l1_sensitivity(relation) / epsilon, rel=2e-7)


@relations
@pytest.mark.parametrize("epsilon", [1e-9, 0.1, 1.0, 8.0])
def test_norm_laplace_noise_meets_the_budget_and_two_percent_less_does_not(relation, epsilon):
    """At 1e-9 the event itself, a float64 next to one half, costs a relative 1e-7."""
    for n in (1, 1000, 1024):
        problem_class = ProblemClass(n=n, dim=3, lipschitz=1.0, radius=1.0, smoothness=1.0)
        for query in (
            ClippedGradient.of(problem_class),
            RegularisedMinimiser.of(problem_class, relation, regularisation=0.5),
        ):
            found = NormLaplaceMechanism.calibrated(query, pure(epsilon, relation))
            meets_and_no_more(found, pure(epsilon, relation))


@relations
@pytest.mark.parametrize("name", PURE)
def test_four_releases_at_a_quarter_each_cost_one(relation, name):
    quarter = PURE[name].calibrated(QUERY, pure(0.25, relation))
    found = spent(quarter, relation, compositions=4)
    assert found.upper == pytest.approx(1.0, rel=1e-6)
    assert found.upper <= 1.0 + 1e-12


def test_replacing_costs_what_the_textbook_says_it_costs():
    """An independent accountant on the textbook mechanism: noise ``sigma``, distance ``2C/n``."""
    budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    mechanism = GaussianMechanism.calibrated(QUERY, budget)
    textbook = privacy_loss_distribution.from_gaussian_mechanism(
        mechanism.scale, sensitivity=2.0 * 0.3 / 1000, value_discretization_interval=1e-4
    )
    assert textbook.get_epsilon_for_delta(1e-6) == pytest.approx(1.0, rel=1e-3)


def test_gradient_noise_is_that_of_the_l1_norm_not_of_the_euclidean():
    for relation in Relation:
        l1, euclidean = QUERY.l1_sensitivity(relation), QUERY.sensitivity(relation)
        assert l1 == pytest.approx(math.sqrt(7) * euclidean, rel=1e-14)
        assert l1 >= math.sqrt(7) * euclidean
        minimiser = RegularisedMinimiser.of(CLASS, relation, regularisation=0.1)
        assert minimiser.l1_sensitivity(relation) >= math.sqrt(7) * minimiser.sensitivity(relation)
    diagonal = np.abs(np.ones(7) * 0.3 / math.sqrt(7)).sum() / 1000
    assert diagonal == pytest.approx(QUERY.l1_sensitivity(Relation.ZERO_OUT), rel=1e-5)


def test_no_noise_is_no_privacy_and_no_sensitivity_needs_no_noise():
    replace = Relation.REPLACE_ONE
    for relation in Relation:
        assert spent(LaplaceMechanism(QUERIES["sum"], 0.0), relation).upper == math.inf
    still = LaplaceMechanism.calibrated(Count(), pure(1.0, replace))
    assert (still.scale, still.event(replace)) == (0.0, NoOpDpEvent())
    assert still.event(Relation.ZERO_OUT) == LaplaceDpEvent(0.0)
    budget = Budget(epsilon=1.0, delta=1e-5, relation=replace)
    still = GaussianMechanism.calibrated(Count(), budget)
    assert (still.scale, still.event(replace)) == (0.0, NoOpDpEvent())
    still = NormLaplaceMechanism.calibrated(BoundedMean.of(0.1, 0.1, 5), pure(1.0, replace))
    assert (still.scale, spent(still, replace).upper) == (0.0, 0.0)


def test_what_no_noise_meets_is_refused():
    with pytest.raises(ValueError, match=r"delta must be positive .* got 0\.0"):
        GaussianMechanism.calibrated(QUERY, pure(1.0, "zero_out"))
    curved = ProblemClass(
        n=10, dim=2, lipschitz=1.0, radius=1.0, smoothness=1.0, strong_convexity=1.0
    )
    unbounded = RegularisedMinimiser.of(curved, Relation.REPLACE_ONE, regularisation=0.1)
    with pytest.raises(ValueError, match=r"finite l1 sensitivity under add_or_remove_one, got inf"):
        LaplaceMechanism.calibrated(unbounded, pure(1.0, "add_or_remove_one"))


# --- what one release shows -----------------------------------------------------------------------


@relations
def test_the_profile_is_the_closed_form_and_dp_accounting_agrees(relation):
    """``delta(x) = 1 - exp((x - epsilon) / 2)``, of a scalar at its worst."""
    found = LaplaceMechanism.calibrated(QUERIES["sum"], pure(1.0, relation))
    moved = QUERIES["sum"].l1_sensitivity(relation)
    outside = privacy_loss_distribution.from_laplace_mechanism(
        found.scale, sensitivity=moved, value_discretization_interval=1e-4
    )
    for x in (0.0, 0.2, 0.5, 0.9, 1.5):
        exact = max(0.0, -math.expm1(0.5 * (x - moved / found.scale)))
        proved = Guarantee(found.event(relation), relation).delta(x)
        assert proved.lower - 1e-9 <= exact <= proved.upper
        assert proved.upper == pytest.approx(exact, rel=2e-3, abs=1e-12)
        assert outside.get_delta_for_epsilon(x) == pytest.approx(exact, abs=1e-4)


@pytest.mark.parametrize("split", [(0.5, 0.5), (0.1, 0.9), (0.3, 0.3, 0.4)])
def test_a_vector_shows_no_more_than_a_scalar_that_moves_as_far(split):
    """Hockey sticks of the product, by brute force over a grid of losses, at every order."""

    def losses(moved):
        """Loss and probability of one coordinate, finely binned; atoms at both ends."""
        x = np.linspace(-moved, moved, 401)
        middle = 0.5 * (x[1:] + x[:-1])
        mass = 0.5 * np.diff(np.exp(0.5 * (x - moved)))
        return np.r_[-moved, middle, moved], np.r_[0.5 * math.exp(-moved), mass, 0.5]

    total, mass = np.zeros(1), np.ones(1)
    for moved in split:
        loss, p = losses(2.0 * moved)
        total = np.add.outer(total, loss).ravel()
        mass = np.multiply.outer(mass, p).ravel()
        if mass.size > 100_000:  # the loss rounded up shows more
            grid = np.linspace(-4.0, 4.0, 8001)
            place = np.minimum(np.searchsorted(grid, total - 1e-12), grid.size - 1)  # none beyond
            mass = np.bincount(place, mass, grid.size)
            total = grid
    for order in (-1.5, -0.5, 0.0, 0.3, 1.0, 1.7):
        vector = mass @ np.maximum(0.0, -np.expm1(order - total))
        scalar = -math.expm1(0.5 * (order - 2.0))
        assert vector <= scalar + 1e-3


@relations
@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("epsilon", [0.2, 3.0])
def test_the_privacy_loss_of_norm_laplace_noise_attains_epsilon(relation, dim, epsilon):
    """From the law tested below: a Gamma radius over a uniform direction, on a grid of outputs."""
    query = ClippedGradient.of(ProblemClass(n=10, dim=dim, lipschitz=0.5, radius=1.0))
    scale = NormLaplaceMechanism.calibrated(query, pure(epsilon, relation)).scale
    distance = relation.multiple * 0.5 / 10

    axis = np.linspace(-3.0, 3.0, 501) * max(distance, scale) + 1e-7
    outputs = np.stack(np.meshgrid(*[axis] * dim), axis=-1).reshape(-1, dim)

    def log_density(points):
        radius = np.linalg.norm(points, axis=1)
        sphere = {1: 2.0, 2: 2.0 * math.pi}[dim] * radius ** (dim - 1)
        return stats.gamma.logpdf(radius, dim, scale=scale) - np.log(sphere)

    loss = log_density(outputs) - log_density(outputs - np.eye(dim)[0] * distance)
    assert np.abs(loss).max() <= epsilon
    assert loss.max() >= 0.999 * epsilon
    assert loss.min() <= -0.999 * epsilon


# --- the noise itself -----------------------------------------------------------------------------


@lru_cache
def noise(kind, dim, runs, dtype):
    """``kind(QUERY, 0.7)`` on answers of zero, shape ``(runs, dim)``."""
    keys = jax.random.split(jax.random.key(dim), runs)
    add_noise = jax.jit(jax.vmap(kind(QUERY, 0.7).add_noise, (0, None)))
    drawn = np.asarray(add_noise(keys, jnp.zeros(dim, dtype)))
    assert drawn.dtype == dtype
    return drawn.astype(np.float64)


def laplace(dtype):
    return noise(LaplaceMechanism, 4, 50_000, dtype)


def norm_laplace(dim, dtype=np.float64):
    return noise(NormLaplaceMechanism, dim, 10_000, dtype)


def is_of_scale_and_no_other(drawn, law, less, more):
    """Kolmogorov-Smirnov at ``LEVEL``."""
    p_values = [stats.kstest(drawn, law(0.7 * ratio).cdf).pvalue for ratio in (1.0, less, more)]
    assert p_values[0] > LEVEL
    assert max(p_values[1:]) < LEVEL


@dtypes
def test_noise_is_normal_of_the_stated_scale_and_of_no_other(dtype):
    drawn = noise(GaussianMechanism, 20_000, 1, dtype)
    is_of_scale_and_no_other(drawn.ravel(), lambda scale: stats.norm(scale=scale), 0.8, 1.25)


@dtypes
def test_noise_is_laplace_of_the_stated_scale_and_of_no_other(dtype):
    is_of_scale_and_no_other(
        laplace(dtype).ravel(), lambda scale: stats.laplace(scale=scale), 0.96, 1.04
    )


@pytest.mark.parametrize(
    ("dim", "dtype"), [(1, np.float64), (2, np.float64), (10, np.float64), (10, np.float32)]
)
def test_radius_is_gamma_of_the_stated_scale_and_of_no_other(dim, dtype):
    radius = np.linalg.norm(norm_laplace(dim, dtype), axis=1)
    is_of_scale_and_no_other(radius, lambda scale: stats.gamma(dim, scale=scale), 0.8, 1.25)


def test_moments_tails_and_independence_of_laplace_coordinates():
    """Five standard errors: level 6e-7 each."""
    drawn = laplace(np.float64)
    size = np.abs(drawn)
    assert size.mean() == pytest.approx(0.7, abs=5 * 0.7 / math.sqrt(drawn.size))
    assert drawn.var() == pytest.approx(2 * 0.7**2, rel=5 * math.sqrt(5.0 / drawn.size))
    for t in (1.0, 3.0):
        p_value = stats.binomtest(int((size > t * 0.7).sum()), drawn.size, math.exp(-t)).pvalue
        assert p_value > LEVEL
    across = np.corrcoef(drawn.T)[np.triu_indices(4, 1)]
    assert np.abs(across).max() < 5.0 / math.sqrt(len(drawn))
    assert np.linalg.norm(drawn, axis=1).mean() <= LaplaceMechanism(None, 0.7).noise_norm(4)


@dims
def test_radius_has_mean_d_beta_and_deviation_sqrt_d_beta(dim):
    """Five standard errors: level 6e-7 for the mean."""
    radius = np.linalg.norm(norm_laplace(dim), axis=1)
    runs, kurtosis = len(radius), 3.0 + 6.0 / dim
    assert radius.mean() == pytest.approx(dim * 0.7, abs=5.0 * 0.7 * math.sqrt(dim / runs))
    error = 5.0 * math.sqrt((kurtosis - 1.0) / runs)
    assert radius.var() == pytest.approx(dim * 0.7**2, rel=error)
    assert NormLaplaceMechanism(QUERY, 0.7).noise_norm(dim) == pytest.approx(dim * 0.7)


@dims
def test_direction_is_uniform_and_independent_of_the_radius(dim):
    drawn = norm_laplace(dim)
    radius = np.linalg.norm(drawn, axis=1)
    direction = drawn / radius[:, None]
    if dim == 1:
        assert stats.binomtest(int(np.sum(direction > 0.0)), len(drawn)).pvalue > LEVEL
    elif dim == 2:
        angle = np.arctan2(direction[:, 1], direction[:, 0])
        assert stats.kstest(angle, stats.uniform(-math.pi, 2.0 * math.pi).cdf).pvalue > LEVEL
    else:  # a coordinate t of a uniform direction has (1 + t)/2 ~ Beta((d-1)/2, (d-1)/2)
        beta = stats.beta((dim - 1) / 2, (dim - 1) / 2)
        for axis in range(dim):
            p_value = stats.kstest((1.0 + direction[:, axis]) / 2.0, beta.cdf).pvalue
            assert p_value > LEVEL / dim
    correlation = stats.spearmanr(radius, direction[:, 0]).statistic
    assert 2.0 * stats.norm.sf(abs(correlation) * math.sqrt(len(drawn))) > LEVEL


@pytest.mark.optimised
def test_noise_is_independent_over_keys_and_coordinates_and_repeats_with_its_key():
    mechanism = GaussianMechanism(QUERY, 0.5)
    keys = jax.random.split(jax.random.key(1), 2_000)
    drawn = np.asarray(jax.vmap(mechanism.add_noise, (0, None))(keys, jnp.zeros(7)))
    np.testing.assert_array_equal(drawn[5], mechanism.add_noise(keys[5], jnp.zeros(7)))

    def tail(correlation, samples):
        return stats.norm.sf(abs(correlation) * math.sqrt(samples)) * 2.0

    neighbours = np.corrcoef(drawn[:-1].ravel(), drawn[1:].ravel())[0, 1]
    assert tail(neighbours, drawn[1:].size) > LEVEL
    across = np.corrcoef(drawn.T)[np.triu_indices(7, 1)]
    assert tail(np.abs(across).max(), len(drawn)) > LEVEL / across.size


@pytest.mark.parametrize("kind", [GaussianMechanism, *PURE.values()])
def test_noise_is_added_to_the_answer(kind):
    key, answer = jax.random.key(9), jnp.asarray([1.0, -2.0, 3.0])
    add_noise = jax.jit(kind(QUERY, 0.7).add_noise)
    first, second = (add_noise(key, a) for a in (answer, 0.0 * answer))
    np.testing.assert_allclose(first - answer, second, rtol=1e-14)
    assert not np.any(add_noise(jax.random.key(10), answer) == first)


def test_noise_norm_bounds_the_mean_norm_closely():
    for dim in (1, 7, 100):
        mean = 0.5 * math.sqrt(2.0) * math.exp(math.lgamma((dim + 1) / 2) - math.lgamma(dim / 2))
        assert mean <= GaussianMechanism(QUERY, 0.5).noise_norm(dim) <= mean * (1.0 + 0.26 / dim)


def test_numbers_are_leaves_that_enter_by_argument():
    budget = Budget(epsilon=1.0, delta=1e-6, relation=Relation.ZERO_OUT)
    traces, scales, key = [], [], jax.random.key(0)

    @jax.jit
    def release(mechanism, key):
        traces.append(None)
        return mechanism.add_noise(key, jnp.zeros(3))

    for compositions in (1, 4):
        mechanism = GaussianMechanism.calibrated(QUERY, budget, compositions=compositions)
        scales.append(mechanism.scale)
        np.testing.assert_allclose(
            release(mechanism, key) / mechanism.scale, draws.normal(key, (3,), float), 1e-14
        )
    assert len(traces) == 1
    assert scales[1] == pytest.approx(2.0 * scales[0], rel=1e-6)


# --- Gaussian scales, exact and classic -----------------------------------------------------------


GOLDEN = {  # epsilon, delta -> sigma at sensitivity 1, to 50 digits: exact, classic
    (1.0, 1e-5): (3.730631634816, 4.844805262605),
    (10.0, 1e-5): (0.499888619709, 0.484480526261),
}


@relations
def test_golden_scales_of_the_exact_and_of_the_classic_formula(relation):
    for (epsilon, delta), (exact, classic) in GOLDEN.items():
        budget = Budget(epsilon=epsilon, delta=delta, relation=relation)
        assert GaussianMechanism.calibrated(Unit(), budget).scale == pytest.approx(exact, rel=2e-7)
        if epsilon <= 1.0:
            assert classic_gaussian_scale(Unit(), budget) == pytest.approx(classic, rel=2e-7)


def test_exact_noise_is_right_in_both_directions():
    """A smaller scale fails and a larger one wastes, against 30 digits; no square is taken."""
    budget = Budget(epsilon=0.5, delta=1e-4, relation=Relation.ZERO_OUT)
    scale = GaussianMechanism.calibrated(Unit(), budget).scale

    def delta(sigma):
        with mp.workdps(30):
            mu, epsilon = 1 / mp.mpf(sigma), mp.mpf(0.5)
            tail = mp.ncdf(-epsilon / mu - mu / 2)
            return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * tail

    assert delta(scale) <= 1e-4 < delta(scale * (1 - 1e-6))
    assert delta(scale**2) < 1e-5


@relations
def test_the_classic_formula_holds_up_to_one_and_refuses_beyond(relation):
    for epsilon in (0.01, 0.3, 1.0):
        for delta in (1e-9, 1e-3, 0.3, 0.9):
            budget = Budget(epsilon=epsilon, delta=delta, relation=relation)
            scale = classic_gaussian_scale(Unit(), budget)
            event = GaussianMechanism(Unit(), scale).event(relation)
            assert Guarantee(event, relation).delta(epsilon).upper <= delta
    too_much = Budget(epsilon=1.001, delta=1e-5, relation=relation)
    with pytest.raises(ValueError, match=r"epsilon must not exceed 1 .* got 1\.001"):
        classic_gaussian_scale(Unit(), too_much)
    with pytest.raises(ValueError, match=r"delta must be positive .* got 0\.0"):
        classic_gaussian_scale(Unit(), pure(1.0, relation))


def test_the_classic_formula_at_ten_adds_too_little():
    """Why it refuses: its noise of 0.48448 gives 2.27e-5 where 1e-5 was claimed."""
    event = GaussianDpEvent(GOLDEN[10.0, 1e-5][1])
    delta = Guarantee(event, Relation.ZERO_OUT).delta(10.0)
    assert delta.upper == pytest.approx(2.265374e-5, rel=1e-6)
