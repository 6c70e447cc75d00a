"""Tests of objective perturbation: naive minimisation, exact densities, approximate minima."""

import dataclasses
import math

import dp_accounting as dp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import classification, ks_p_value, one_scale_passes
from scipy import optimize, special, stats

import privopt
from privopt import problems, random
from privopt.privacy import ObjectivePerturbationDpEvent, gaussian_delta, gaussian_mu
from privopt.random import stream
from privopt.theory import Exponents

BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
PURE = privopt.Budget(epsilon=1.0, delta=0.0, relation="replace_one")


def plan_of(problem_class, budget, **choices):
    """Return the plan with Gaussian noise, or the pure one if ``delta`` is 0."""
    choices = {"noise": "gaussian" if budget.delta else None, **choices}
    return privopt.objective_perturbation(problem_class, budget, **choices)


def facts(n=50, dim=4, radius=5.0, norm=1.0, **changes):
    """Return the class of logistic losses on records of norm ``norm``.

    The slope is ``norm`` and the curvature ``norm^2/4``.
    """
    changes = {"lipschitz": norm, "smoothness": norm**2 / 4, **changes}
    return privopt.ProblemClass(n=n, dim=dim, radius=radius, **changes)


def gradient(features, labels, w):
    slopes = -labels * special.expit(-labels * (features @ w))
    return slopes @ features / labels.size


# --- what is computed -----------------------------------------------------------------------------


def test_equals_naive_minimisation_of_the_tilted_objective():
    features, labels = classification(50, 4)
    planned, key = plan_of(facts(radius=50.0), BUDGET, regularisation=0.3), jax.random.key(1)
    where = problems.logistic(features, labels, problem_class=facts(radius=50.0))
    run = privopt.run(planned, where, key)
    tilt_key, finish_key = stream(key, "noise"), stream(key, "solver")
    tilt = planned.params.mechanism.tilt.scale * np.asarray(
        random.normal(tilt_key, (4,), jnp.float64)
    )
    np.testing.assert_allclose(run.secret.tilt, tilt, rtol=1e-14)

    def slope(w):
        return gradient(features, labels, w) + 0.3 * w + tilt

    exact = optimize.root(slope, np.zeros(4), tol=1e-14).x
    error = planned.params.mechanism.tilt.query.error
    assert np.linalg.norm(run.secret.minimiser - exact) <= error + 1e-11
    noise = planned.params.mechanism.finish.scale * random.normal(finish_key, (4,), jnp.float64)
    np.testing.assert_allclose(run.released, run.secret.minimiser + noise, rtol=1e-12)


def test_the_constraint_takes_part_in_the_minimisation():
    """The output satisfies the Kuhn-Tucker conditions and is not a projection.

    On the boundary the negative gradient points outwards.
    """
    features, labels = classification(50, 4)
    labels = np.sign(features @ np.array([3.0, 1.0, -2.0, 0.3]))
    close = facts(radius=0.4)
    planned = plan_of(close, BUDGET, regularisation=0.01 + 0.3)
    where = problems.logistic(features, labels, problem_class=close)
    runs = privopt.run_many([planned], where, jax.random.split(jax.random.key(3), 20)).secret
    query = planned.params.mechanism.tilt.query
    bound = 0
    for w, tilt in zip(*map(np.asarray, (runs.minimiser[0], runs.tilt[0])), strict=True):
        left = gradient(features, labels, w) + query.regularisation * w + tilt
        size = np.linalg.norm(w)
        assert size <= 0.4 * (1 + 1e-12)
        if size > 0.4 * (1 - 1e-9):
            inward = float(-left @ w) / size
            assert inward >= 0.0
            assert np.linalg.norm(left + inward * w / size) <= 10 * query.error
            bound += 1
        else:
            assert np.linalg.norm(left) <= 10 * query.error
    assert bound >= 10


def test_tilts_recovered_from_the_release_have_their_law():
    """The tilts ``t = -grad F(w) - lambda w`` of the releases are normal: 8000 values."""
    features, labels = classification(50, 4)
    wide = facts(radius=1e4)
    planned = plan_of(wide, BUDGET, regularisation=0.3)
    where = problems.logistic(features, labels, problem_class=wide)
    released = privopt.run_many([planned], where, jax.random.split(jax.random.key(6), 2000))
    points = np.asarray(released.released[0])
    slopes = -labels * special.expit(-labels * (points @ features.T))
    tilts = -(slopes @ features) / 50 - 0.3 * points
    sample = tilts.ravel() / planned.params.mechanism.tilt.scale
    one_scale_passes(lambda r: ks_p_value(r * sample, stats.norm.cdf), 1.3, 1 / 1.3)


# --- what it is calibrated to ---------------------------------------------------------------------


@pytest.mark.parametrize("relation", list(privopt.Relation))
def test_scale_solves_the_closed_form(relation):
    """``2 delta_G(epsilon - ln(1 + H/(lambda n)); m L/(n sigma)) = delta``, to half a per cent."""
    budget = privopt.Budget(epsilon=1.0, delta=1e-5, relation=relation)
    query = plan_of(facts(norm=3.0), budget, regularisation=0.4).params.mechanism.tilt
    jacobian = math.log1p(9.0 / 4 / (0.4 * 50))
    exact = relation.multiple * 3.0 / 50 / gaussian_mu(1.0 - jacobian, 0.5e-5)
    assert exact * (1 - 1e-6) <= query.scale <= 1.005 * exact


def test_the_ledger_is_the_sum_of_its_parts():
    """The event has exactly two parts: the tilted minimiser and the noise for the solver error."""
    planned = plan_of(facts(), BUDGET)
    mechanism, finish = planned.params.mechanism.tilt, planned.params.mechanism.finish
    query, events = mechanism.query, planned.guarantee.event.events
    moved = 2 * query.gradient.clip_norm / query.gradient.size
    assert isinstance(events[0], ObjectivePerturbationDpEvent)
    assert events[0].noise_multiplier == pytest.approx(2 * mechanism.scale / moved, rel=1e-5)
    assert events[0].noise_multiplier < 2 * mechanism.scale / moved
    assert events[0].jacobian >= math.log1p(0.25 / (query.regularisation * 50))
    assert 2.0 / events[1].noise_multiplier == pytest.approx(2 * query.error / finish.scale)
    assert len(events) == 2
    shown = 2.0 / events[1].noise_multiplier
    assert shown == pytest.approx(0.01 * moved / mechanism.scale, rel=1e-3)
    assert finish.scale < 1e-3 * mechanism.scale / query.regularisation


@pytest.mark.cases(3)
@pytest.mark.parametrize("analysis", ["kifer", "iyengar"])
@pytest.mark.parametrize("relation", list(privopt.Relation))
def test_older_analyses_are_proved_by_ours_and_noisier(relation, analysis):
    for epsilon in (0.1, 1.0, 3.0):
        budget = privopt.Budget(epsilon=epsilon, delta=1e-5, relation=relation)
        older = plan_of(facts(n=1000), budget, analysis=analysis)
        ours = plan_of(facts(n=1000), budget)
        assert older.guarantee.epsilon(1e-5).upper <= epsilon
        assert older.params.mechanism.tilt.scale > 1.2 * ours.params.mechanism.tilt.scale
        assert older.rate.upper > 1.2 * ours.rate.upper


def test_kifer_asks_for_ten():
    """sigma = 10.08 at epsilon 1, delta 1e-5, L = 1, where 4.08 suffice at lambda = 5."""
    budget = privopt.Budget(epsilon=1.0, delta=1e-5, relation="add_or_remove_one")
    kifer, tight = (
        plan_of(facts(n=100), budget, regularisation=0.05, analysis=analysis).params.mechanism.tilt
        for analysis in ("kifer", "tight")
    )
    assert 100 * kifer.scale == pytest.approx(10.08, abs=0.005)
    assert 100 * tight.scale == pytest.approx(4.07, abs=0.01)


# --- pure differential privacy, by exact densities ------------------------------------------------


def line_density(records, regularisation, scale):
    """Return the log density of the minimiser on the line under a Laplace tilt of the sum."""
    records = np.asarray(records, np.float64)[:, None]

    def log_density(w):
        pull = regularisation * w - np.sum(records * special.expit(-records * w), axis=0)
        probability = special.expit(records * w)
        curvature = regularisation + np.sum(records**2 * probability * (1 - probability), axis=0)
        return -np.abs(pull) / scale + np.log(curvature)

    return log_density


@pytest.mark.parametrize("norm", [0.2, 1.0, 12.0])
@pytest.mark.parametrize("analysis", ["tight", "chaudhuri"])
def test_pure_log_ratio_on_the_line(norm, analysis):
    """n = 10, Lambda = 1 in units of the curvature: no ratio above epsilon for any two records."""
    regularisation = 0.1 * norm**2
    planned = plan_of(
        facts(n=10, dim=1, norm=norm), PURE, regularisation=regularisation, analysis=analysis
    )
    scale = 10 * planned.params.mechanism.tilt.scale
    spent = 2 * norm / scale
    expected = 1.0 - (2 if analysis == "chaudhuri" else 1) * math.log(1.25)
    assert spent == pytest.approx(expected, rel=2e-3)
    claimed = planned.guarantee.epsilon(0.0).upper
    assert claimed == pytest.approx(spent + math.log(1.25), rel=3e-3)
    if analysis == "chaudhuri":
        assert spent == pytest.approx(0.5537, abs=1e-3)
    w = np.linspace(-60, 60, 24_001) / norm
    rest = norm * np.random.default_rng(0).uniform(-1, 1, 9)
    largest = 0.0
    for others in (rest, np.zeros(9), np.full(9, norm)):
        laws = [
            line_density([*others, norm * x], 10 * regularisation, scale)(w)
            for x in (-1, -0.5, 0, 0.5, 1)
        ]
        largest = max(largest, *(float((p - q).max()) for p in laws for q in laws))
    assert largest <= 1.0
    assert largest > 0.3  # half of what a loss with slopes of both signs would show


def test_pure_log_ratio_in_the_plane():
    """Any two unit records, n = 3: determinant and norm-Laplace density, on a grid."""
    planned = plan_of(facts(n=3, dim=2), PURE, regularisation=0.2)
    scale, regularisation = 3 * planned.params.mechanism.tilt.scale, 3 * 0.2
    axis = np.linspace(-12, 12, 161)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"))

    def log_density(records):
        pull = regularisation * grid
        hessian = np.zeros((2, 2, *grid.shape[1:])) + regularisation * np.eye(2)[..., None, None]
        for x in records:
            p = special.expit(np.tensordot(x, grid, 1))
            pull = pull - (1 - p) * x[:, None, None]
            hessian = hessian + np.outer(x, x)[..., None, None] * p * (1 - p)
        determinant = hessian[0, 0] * hessian[1, 1] - hessian[0, 1] ** 2
        return -np.linalg.norm(pull, axis=0) / scale + np.log(determinant)

    rest = [np.array([0.6, 0.8]), np.array([-1.0, 0.0])]
    angles = np.linspace(0, 2 * math.pi, 9)[:-1]
    laws = [log_density([*rest, np.array([math.cos(a), math.sin(a)])]) for a in angles]
    largest = max(float((p - q).max()) for p in laws for q in laws)
    assert 0.5 < largest <= 1.0


# --- counterexamples ------------------------------------------------------------------------------


def test_a_kink_is_refused():
    """The minimiser of the median of {0, a} is ``a`` itself for tilts within (-2, 0)."""
    kinked = privopt.ProblemClass(n=2, dim=1, lipschitz=1.0, radius=200.0)
    with pytest.raises(ValueError, match="smoothness must be declared: a kink holds"):
        plan_of(kinked, BUDGET, regularisation=0.1)
    claimed = dataclasses.replace(kinked, smoothness=1.0)
    where = problems.absolute(np.ones((2, 1)), np.array([0.0, 100.0]), problem_class=claimed)
    planned = plan_of(claimed, BUDGET, regularisation=5.0)
    with pytest.raises(ValueError, match="must provide linear_model for objective_perturbation"):
        privopt.run(planned, where, jax.random.key(0))


# --- rates ----------------------------------------------------------------------------------------


def test_theory_sets_the_regularisation_and_the_bound():
    """``R sqrt(E|t|^2)/2`` where the determinant is small beside epsilon, plus the last noise."""
    planned = plan_of(facts(n=100_000, dim=16, radius=0.01), BUDGET)
    mechanism, finish = planned.params.mechanism.tilt, planned.params.mechanism.finish
    root = mechanism.scale * 4.0
    assert mechanism.query.regularisation == pytest.approx(root / 0.01, rel=0.02)
    assert planned.rate.upper == pytest.approx(0.5 * 0.01 * root, rel=0.01)
    assert planned.rate.upper >= 0.5 * 0.01 * root
    assert finish.noise_norm(16) < 1e-3 * 0.01
    assert planned.rate.terms[0].powers == Exponents(n=-1.0, dim=0.5, epsilon=-1.0)
    assert planned.rate.tight_on == "huber"
    fixed = plan_of(facts(), BUDGET, regularisation=0.5)
    assert fixed.rate.terms[0].powers == Exponents(n=-2.0, dim=1.0, epsilon=-2.0)


# --- approximate minima ---------------------------------------------------------------------------

NEAR = privopt.ProblemClass(n=200, dim=3, lipschitz=1.0, radius=2.0, smoothness=0.25)
near_plan_of = privopt.ALGORITHMS["approximate_minima_perturbation"].plan


@pytest.mark.parametrize(("relation", "moved"), [("replace_one", 2), ("zero_out", 1)])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_published_noise(relation, moved, epsilon):
    """``(2L/n)(1 + sqrt(2 ln 1/d1))/e3`` and ``lambda n >= 2 H/(e1 - e3)``, by hand.

    By default at that ``lambda`` the noise is less, and the budget is spent.
    """
    budget = dataclasses.replace(BUDGET, relation=relation, epsilon=epsilon)
    planned = near_plan_of(NEAR, budget, analysis="iyengar")
    e1, d1 = 0.99 * epsilon, 0.99e-5
    e3 = e1 - 0.5 * min(e1, 1.0)
    exact = moved / 200 * (1 + math.sqrt(2 * math.log(1 / d1))) / e3
    assert planned.params.mechanism.tilt.scale == pytest.approx(exact, rel=1e-5)
    assert planned.params.mechanism.tilt.scale >= exact
    least = 2 * 0.25 / (200 * (e1 - e3))
    strength = planned.params.mechanism.tilt.query.regularisation
    assert strength >= least
    with pytest.raises(ValueError, match="regularisation must exceed"):
        near_plan_of(NEAR, budget, regularisation=0.999 * least, analysis="iyengar")
    tight = near_plan_of(NEAR, budget, regularisation=float(strength))
    assert tight.params.mechanism.tilt.scale < exact
    published, spent = (each.guarantee.epsilon(1e-5).upper for each in (planned, tight))
    assert published < 0.9 * epsilon < 0.99 * epsilon < spent <= epsilon


def test_second_noise_is_for_twice_the_distance():
    """Noise for a distance of ``tau`` exceeds its budget, as both neighbours have error ``tau``."""
    planned = near_plan_of(NEAR, BUDGET, relative_error=0.1)
    error, scale = planned.params.mechanism.tilt.query.error, planned.params.mechanism.finish_scale
    assert error == pytest.approx(0.1 / (planned.params.mechanism.tilt.query.regularisation * 200))
    assert gaussian_delta(0.01, mu=2 * error / scale).upper <= 1e-7
    assert gaussian_delta(0.01, mu=2 * error / (0.5 * scale)).lower > 1e-7
    finish = planned.guarantee.event.events[1]
    assert isinstance(finish, dp.GaussianDpEvent)
    assert finish.noise_multiplier <= 2 * scale / (2 * error)


def test_a_coarser_solver_means_more_noise_never_another_try():
    errors = (1e-4, 1e-2, 1.0)
    plans = [near_plan_of(NEAR, BUDGET, relative_error=e, regularisation=0.2) for e in errors]
    scales = [p.params.mechanism.finish_scale for p in plans]
    np.testing.assert_allclose(np.array(scales) / scales[0], [1, 1e2, 1e4], rtol=1e-5)
    assert plans[0].params.mechanism.tilt.scale == plans[2].params.mechanism.tilt.scale
    assert plans[0].params.mechanism.tilt.query.steps > plans[2].params.mechanism.tilt.query.steps
    assert len({p.static for p in plans}) == 1
