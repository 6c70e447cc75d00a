"""The tilted minimiser: its error is a promise for every data set, its rounding is safe."""

import math

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from scipy import stats

from privopt import problems
from privopt.mechanisms.objective_perturbation import (
    OBJECTIVE_PERTURBATION_ANALYSES,
    GaussianObjectivePerturbation,
    NormLaplaceObjectivePerturbation,
    PerturbedMinimiser,
)
from privopt.spec import Budget, ProblemClass, Relation


@jax.jit
def solve(query, objective, centre, tilt):
    return query.minimiser_of(objective)(centre, tilt)


def facts(**changes):
    numbers = {"n": 30, "dim": 2, "lipschitz": 1.0, "radius": 3.0, "smoothness": 4.0, **changes}
    return ProblemClass(**numbers)


@pytest.mark.cases(2)
@pytest.mark.parametrize("radius", [0.5, 1e6])
@pytest.mark.parametrize(("regularisation", "relative_error"), [(0.002, 1e-3), (0.3, 1e-7)])
def test_error_is_never_passed(radius, regularisation, relative_error):
    """Narrow Huber losses, ill conditioned, and tilts of all sizes."""
    c = facts(radius=radius)
    query = PerturbedMinimiser.of(c, regularisation=regularisation, relative_error=relative_error)
    exact = query._replace(steps=20 * query.steps)
    rng = np.random.default_rng(0)
    for trial in range(4):
        angles = rng.uniform(0, 2 * math.pi, 30)
        features = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        labels = rng.choice([-0.3, 0.0, 1.0], 30)
        where = problems.huber(features, labels, width=0.25, problem_class=c)
        for size in (0.0, 0.01, 1.0, 100.0):
            tilt = size * jnp.asarray(features[trial])
            near, best = (solve(q, where.objective, jnp.zeros(2), tilt) for q in (query, exact))
            assert float(jnp.linalg.norm(near - best)) <= query.error


def test_start_is_the_minimiser_of_what_is_public():
    """The answer without data is exact after any number of steps, for any tilt."""
    c = facts(radius=0.7)
    where = problems.huber(np.zeros((30, 2)), np.zeros(30), width=0.25, problem_class=c)
    query = PerturbedMinimiser.of(c, regularisation=0.1)
    for tilt in ([3.0, 4.0], [0.01, 0.02]):
        got = solve(query._replace(steps=1), where.objective, jnp.zeros(2), jnp.asarray(tilt))
        expected = -np.array(tilt) / 0.1
        expected *= min(1.0, 0.7 / np.linalg.norm(expected))
        np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize("regularisation", [1e-6, 0.1, 1e3])
def test_jacobian_is_rounded_up(regularisation):
    query = PerturbedMinimiser.of(facts(), regularisation=regularisation)
    exact = mpmath.log1p(mpmath.mpf(4) / (mpmath.mpf(regularisation) * 30))
    assert exact <= query.jacobian <= exact * (1 + 1e-13)


@pytest.mark.parametrize("relation", list(Relation))
def test_events_count_one_record_and_the_relation_counts_records(relation):
    query = PerturbedMinimiser.of(facts(lipschitz=2.0), regularisation=0.5)
    gaussian = GaussianObjectivePerturbation(query, 0.25).event(relation)
    assert gaussian.noise_multiplier == pytest.approx(0.25 * 30 / 2.0, rel=1e-5)
    assert gaussian.noise_multiplier < 0.25 * 30 / 2.0
    pure = NormLaplaceObjectivePerturbation(query, 0.25).event(relation)
    assert pure.rho == 0.0
    assert pure.xi == pytest.approx(query.jacobian + relation.multiple * 2.0 / 30 / 0.25, rel=1e-5)
    assert query.sensitivity(relation) == 2.0 * query.error


@pytest.mark.parametrize("name", OBJECTIVE_PERTURBATION_ANALYSES)
def test_an_analysis_speaks_from_its_least_regularisation_on(name):
    about, c = OBJECTIVE_PERTURBATION_ANALYSES[name], facts()
    budget = Budget(epsilon=0.8, delta=0.0 if about.pure else 1e-5, relation="replace_one")
    least = about.least(c, budget)
    scales = [
        about.scale(PerturbedMinimiser.of(c, regularisation=factor * least), budget)
        for factor in (1.01, 1.5, 10.0)
    ]
    assert all(math.isfinite(scale) and scale > 0.0 for scale in scales)
    assert scales == sorted(scales, reverse=True)
    if name in ("tight", "chaudhuri"):
        query = PerturbedMinimiser.of(c, regularisation=0.99 * least)
        assert about.scale(query, budget) == math.inf


def test_tilts_have_the_scale_that_is_stated():
    """Compare 20,000 tilts with the law; a scale of 0.98 is rejected. False alarm 1e-6 each."""
    query, keys = PerturbedMinimiser.of(facts(), regularisation=0.5), 20_000
    for tilt, law in (
        (
            GaussianObjectivePerturbation(query, 0.25),
            lambda z: stats.chi2(z.size).cdf((z**2).sum()),
        ),
        (
            NormLaplaceObjectivePerturbation(query, 0.25),
            lambda z: stats.gamma(z.size).cdf(np.linalg.norm(z, axis=1).sum()),
        ),
    ):
        drawn = jax.vmap(lambda key, tilt=tilt: tilt.draw(key, 5, jnp.float64))(
            jax.random.split(jax.random.key(2), keys)
        )
        for factor, right in ((1.0, True), (0.98, False)):
            assert (5e-7 < law(np.asarray(drawn) / (factor * tilt.scale)) < 1.0 - 5e-7) == right
