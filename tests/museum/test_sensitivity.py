"""Defects of sensitivity: a record changes an answer or a scale by more than is charged."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from events import ADD, REPLACE, Gaussian, Times
from museum.exhibits import exhibit
from scipy import special

from privopt.convex import EmpiricalRisk, GeneralisedLinear, WholeSpace
from privopt.mechanisms import (
    AllRecords,
    ClippedGradient,
    ClippedRisk,
    PrivateGradient,
    RegularisedMinimiser,
    clipped_gradient_sum,
)
from privopt.mechanisms.objective_perturbation import PerturbedMinimiser
from privopt.privacy import Guarantee, round_up
from privopt.problems import Linear, Logistic, Quantile, SquaredDistance
from privopt.spec import Budget, Norm, ProblemClass
from privopt.statistics import BoundedMean, BoundedSum, Median

CLIP = 1.5


def product(point, record):
    return -(record[0] @ point)


@partial(jax.jit, static_argnums=0)
def clipped_sum(loss, data, point):
    return clipped_gradient_sum(EmpiricalRisk(loss, data, None, WholeSpace()), CLIP)(point)


def clipped_sums(rows):
    """Return clipped gradient sums of linear losses at 0, by slopes and by autodiff."""
    data = np.asarray(rows), np.ones(len(rows))
    for loss in (GeneralisedLinear(Linear()), product):
        yield clipped_sum(loss, data, np.zeros(data[0].shape[1]))


def scaled_sums(rows):
    """Return sums scaled by the quotient of two norms."""
    rows = np.asarray(rows)
    with np.errstate(all="ignore"):
        yield np.minimum(1.0, CLIP / np.linalg.norm(rows, axis=1)) @ rows


@exhibit(clipped_sums, scaled_sums)
def test_no_record_is_too_strange_to_be_clipped(totals):
    """Clipping that fails for NaN, infinity or overflow; checked by the norm of the sum."""
    for strange in (math.nan, math.inf, -math.inf, 1e300, 1e-300, 7.0):
        for total in totals([[strange, 1.0]]):
            assert np.linalg.norm(total) <= CLIP * (1.0 + 1e-12)


def clipped_in_linf(rows):
    data = rows, jnp.ones(len(rows))
    risk = EmpiricalRisk(GeneralisedLinear(Linear()), data, None, WholeSpace())
    return clipped_gradient_sum(risk, CLIP, measure=Norm.LINF)(jnp.zeros(rows.shape[1]))


def by_a_maximum_without_nan(rows):
    sizes = jnp.nanmax(jnp.abs(rows), axis=1)
    usable = jnp.isfinite(sizes)
    return jnp.where(usable, jnp.minimum(1.0, CLIP / sizes), 0.0) @ jnp.where(
        usable[:, None], rows, 0.0
    )


@exhibit(clipped_in_linf, by_a_maximum_without_nan)
def test_a_strange_record_is_seen_among_many(total):
    """Maximum that ignores NaN, as in XLA on CPUs for many numbers; checked by the sum of many."""
    rows = np.ones((1000, 8))
    rows[:, 3] = math.nan
    assert np.isfinite(jax.jit(total)(jnp.asarray(rows))).all()


def norm_of(tree):
    return float(jnp.linalg.norm(jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(tree)])))


def layers(point, record):
    return record @ point["weight"] + 3.0 * point["bias"]


RECORD = jnp.array([[3.0, 4.0]])
PATHS = {  # one record far longer than the clip norm, along each path through the sums
    "slopes": (GeneralisedLinear(Linear()), (RECORD, jnp.ones(1)), jnp.zeros(2)),
    "distances": (SquaredDistance(np.float64(1.0)), RECORD, jnp.zeros(2)),
    "layers": (layers, RECORD, {"weight": jnp.zeros(2), "bias": jnp.float64(0.0)}),
}


def clipped(path):
    return clipped_sum(*PATHS[path])


def raw(path):
    loss, data, point = PATHS[path]
    return jax.grad(loss)(point, jax.tree.map(lambda leaf: leaf[0], data))


def forgotten_where_it_is_fast(path):
    return raw(path) if path == "slopes" else clipped(path)


def leaf_by_leaf(path):
    return jax.tree.map(lambda g: g * CLIP / jnp.maximum(CLIP, jnp.linalg.norm(g)), raw(path))


@exhibit(clipped, forgotten_where_it_is_fast, leaf_by_leaf)
def test_every_path_clips_the_whole_gradient(gradient):
    """Clipping norm per leaf, or ignored by a code path; checked on all paths."""
    for path in PATHS:
        assert norm_of(gradient(path)) <= CLIP * (1.0 + 1e-12)


def of_the_lower_bound(query):
    return query, lambda records: query.answer(records), 2.0 * abs(query.lower)


def of_raw_records(query):
    return query, lambda records: records.sum(), query.sensitivity(REPLACE)


@exhibit(
    lambda query: (query, query.answer, query.sensitivity(REPLACE)),
    of_the_lower_bound,
    of_raw_records,
)
def test_a_sum_moves_by_no_more_than_is_charged(charged):
    """Bound of another array, or one bound for two; checked by the largest difference."""
    for ends in ((0.0, 5.0), (-1.0, 4.0), (2.0, 3.0)):
        query, answer, sensitivity = charged(BoundedSum.of(*ends))
        values = [-1e3, query.lower, 0.0, query.upper, 1e3]
        answers = [float(answer(jnp.asarray([0.5, value]))) for value in values]
        assert max(answers) - min(answers) <= sensitivity


def minimiser(n, batch):
    del batch
    facts = ProblemClass(n=n, dim=1, lipschitz=1.0, radius=math.inf, smoothness=0.0)
    return RegularisedMinimiser.of(facts, REPLACE, regularisation=0.5).sensitivity(REPLACE)


@exhibit(minimiser, lambda n, batch: minimiser(n, batch) / batch)
def test_a_minimiser_moves_as_far_as_the_worst_quadratic(sensitivity):
    """Sensitivity divided by the batch size; checked by losses ``-+w`` with ``w^2/4``."""
    for n, batch in ((10, 1), (100, 10), (1000, 50)):
        records = np.ones(n)
        worst = (records.mean() - np.append(records[1:], -1.0).mean()) / 0.5
        assert worst <= sensitivity(n, batch) <= 1.01 * worst


def scale_for(answers, budget):
    query = ClippedGradient.of(ProblemClass(n=100, dim=2, lipschitz=1.0, radius=1.0))
    found = PrivateGradient.calibrated(query, budget, answers, AllRecords())
    return found.scale / found.record_sensitivity


@exhibit(scale_for, lambda answers, budget: scale_for(1, budget))
def test_two_answers_cost_twice(noise_for):
    """One part of the budget for two answers; checked by composition."""
    budget = Budget(epsilon=1.0, delta=1e-5, relation=ADD)
    for answers in (1, 2, 5):
        assert Guarantee(Times(Gaussian(noise_for(answers, budget)), answers), ADD).meets(budget)


def perturbed(size, regularisation):
    """Return the perturbed logistic loss of one record with this norm."""
    facts = ProblemClass(n=1, dim=1, lipschitz=size, radius=math.inf, smoothness=size**2 / 4.0)
    return PerturbedMinimiser.of(facts, regularisation=regularisation).jacobian


@exhibit(perturbed, lambda size, regularisation: math.log1p(size / 4.0 / regularisation))
def test_the_jacobian_counts_the_norm_squared(jacobian):
    """Curvature with a missing factor of the norm; checked by exact densities of a minimiser.

    The record is present or zero, and the tilt has the law ``t ~ exp(-|t|/beta)``. The density is
    ``p(w) = exp(-|g(w)|/beta) g'(w)/(2 beta)`` with ``g`` the gradient of the remaining objective.
    """
    w = np.linspace(-2.0, 2.0, 20_001)
    for size, regularisation in ((1.0, 0.5), (12.0, 20.0), (100.0, 1.0)):
        beta = 10.0 * size
        slope = -size * special.expit(-size * w)
        bent = size**2 * special.expit(size * w) * special.expit(-size * w)
        rest = regularisation * w
        noise = (np.abs(rest) - np.abs(slope + rest)) / beta
        ratio = noise + np.log1p(bent / regularisation)
        assert ratio.max() <= jacobian(size, regularisation) + size / beta


COINS = jnp.ones((4, 1)), jnp.asarray([1.0, 1.0, -1.0, -1.0])


def solver():
    """Return a solver that regularises all coordinates, also the intercept."""
    facts = ProblemClass(n=4, dim=1, lipschitz=1.0, radius=100.0, smoothness=0.25)
    query = PerturbedMinimiser.of(facts, regularisation=0.1)
    risk = EmpiricalRisk(GeneralisedLinear(Logistic()), COINS, None, WholeSpace())
    solve = query.minimiser_of(risk)
    return lambda tilt: float(solve(jnp.zeros(1), jnp.asarray([tilt]))[0])


@exhibit(solver(), lambda tilt: -2.0 * math.atanh(2.0 * tilt))
def test_an_intercept_is_regularised_too(minimiser_at):
    """Direction without strong convexity; checked by a minimiser with distance tilt over lambda."""
    for tilt in (0.0, 0.3, 0.49, 0.4999):
        moved = minimiser_at(tilt) - minimiser_at(tilt - 1e-4)
        assert abs(moved) <= 1e-4 / 0.1 * (1.0 + 1e-3)


FAR = BoundedMean.of(2000.0, 2020.0, 10**6)


@pytest.mark.optimised
@exhibit(FAR.answer, lambda records: FAR.restore(FAR.answer(records)))
def test_a_public_centre_is_added_after_the_noise(answer):
    """Rounding at the size of a public centre; checked in float32 for a million distant records."""
    records = jnp.full(10**6, 2010.0, jnp.float32).at[:6].set(2020.0)
    moved = answer(records.at[6].set(2020.0)) - answer(records.at[6].set(2000.0))
    assert 0.0 < float(moved) <= FAR.sensitivity(REPLACE)


def without_a_floor(records, beta):
    """Return ``max_k e^(-beta k) A_k`` in float32, for records 0 and 1 in [0, 1]."""
    ordered = np.sort(np.asarray(records))
    n, m = ordered.size, (ordered.size - 1) // 2
    padded = np.concatenate([np.zeros(n), ordered, np.ones(n)])
    widths = [
        max(padded[n + m + t] - padded[n + m + t - k - 1] for t in range(k + 2)) for k in range(n)
    ]
    return np.max(np.exp(np.float32(-beta) * np.arange(n, dtype=np.float32)) * np.float32(widths))


@pytest.mark.optimised
@exhibit(jax.jit(Median.of(0.0, 1.0).smooth_sensitivity), without_a_floor)
def test_a_smooth_scale_never_vanishes(spread):
    """Bound that underflows to 0 on one neighbour; checked by its logarithm along a chain."""
    ones = (0, 8, 16, 60)
    scales = [float(spread((np.arange(255) < k).astype(np.float32), 1.0)) for k in ones]
    assert min(scales) > 0.0
    assert np.all(np.abs(np.diff(np.log(scales))) <= np.diff(ones) * (1.0 + 2.0**-17))


CENTRE, RADIUS = jnp.asarray([1.0]), 0.25


def deviations(label):
    data = jnp.ones((1, 1)), jnp.asarray([label])
    return EmpiricalRisk(GeneralisedLinear(Quantile(0.5)), data, None, WholeSpace())


@jax.jit
def bounded_risk(label, point):
    query = ClippedRisk.of(ProblemClass(n=1, dim=1, lipschitz=1.0, radius=RADIUS))
    return query.risk_of(deviations(label), CENTRE, 1e-6)(point)[0]


@jax.jit
def difference_of_losses(label, point):
    risk = deviations(label)
    return risk.value(point) - risk.value(CENTRE)


@pytest.mark.optimised
@exhibit(bounded_risk, difference_of_losses)
def test_a_score_keeps_its_range_for_huge_labels(risk):
    """Loss difference that cancels to rounding error; checked for labels up to 1e18."""
    for label in (0.0, 1e14, 1e16, 1e18):
        for w in np.linspace(1.0 - RADIUS, 1.0 + RADIUS, 9):
            assert abs(float(risk(label, np.array([w])))) <= RADIUS * (1.0 + 1e-5)


@exhibit(round_up, lambda x: float(np.float32(x)), lambda x: float(int(x)))
def test_scales_are_rounded_outwards(rounded):
    """Numbers rounded down on the way to the device; checked for a result below the exact one."""
    for scale in np.random.default_rng(0).uniform(0.1, 10.0, 100).tolist():
        assert scale <= rounded(scale) <= scale * (1.0 + 1e-6)
