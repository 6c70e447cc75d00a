"""Tests of the exponential mechanism: naive implementation on a grid and closed forms."""

from __future__ import annotations

import dataclasses
import math

import jax
import numpy as np
import pytest
from builders import ks_p_value, one_scale_passes

import privopt
from privopt import problems
from privopt.privacy import gaussian_mu
from privopt.theory import Exponents

BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
PURE = privopt.Budget(epsilon=1.0, delta=0.0, relation="replace_one")
RELATIONS = [("replace_one", 2), ("zero_out", 1), ("add_or_remove_one", 1)]


def plan_of(problem_class, budget, **choices):
    """Return the plan regularised, or the pure one if ``delta`` is 0."""
    choices = {"pure": not budget.delta, **choices}
    return privopt.exponential_mechanism(problem_class, budget, **choices)


def facts(dim=1, n=50, radius=1.0, lipschitz=1.0):
    return privopt.ProblemClass(n=n, dim=dim, lipschitz=lipschitz, radius=radius)


def naive_cdf(losses, n, sharpness, regularisation):
    """Return the textbook law: exponentiate the sum of losses over n on a grid, and accumulate."""
    grid = np.linspace(-1.0, 1.0, 20_001)
    risk = sum(loss(grid) for loss in losses) / n + 0.5 * regularisation * grid**2
    weights = np.exp(-sharpness * (risk - risk.min()))
    mass = np.cumsum(weights) / weights.sum()
    return lambda w: np.interp(w, grid, mass)


@pytest.mark.parametrize("budget", [PURE, BUDGET], ids=["pure", "regularised"])
def test_draws_equal_the_naive_twin_and_not_its_broken_copy(budget):
    """Kolmogorov-Smirnov on 20,000 draws; the twin types its numbers from the cards.

    Labels against features of size 1/1.001: the budget is loose enough for ``k`` to matter.
    """
    budget = dataclasses.replace(budget, epsilon=4.0)
    rng = np.random.default_rng(0)
    features = np.sign(rng.normal(size=(50, 1))) / 1.001
    labels = np.where(rng.random(50) < 0.6, np.sign(features[:, 0]), -1.0)
    where = problems.hinge(features, labels, problem_class=facts())
    run = privopt.run_many(
        [plan_of(facts(), budget)], where, jax.random.split(jax.random.key(1), 20_000)
    )
    sample = np.asarray(run.released[0, :, 0])
    n, diameter, lipschitz = 50, 2.0, 1.0
    if budget.delta == 0.0:
        k, m = n * 4.0 / (2 * lipschitz * diameter), 0.0
    else:
        mu = gaussian_mu(4.0, 1e-5)
        m = 2 * 2 * lipschitz / (n * mu * 1.0)
        k = m * n**2 * mu**2 / (4 * lipschitz**2)
    losses = [lambda w, z=float(z): np.maximum(0.0, 1.0 - z * w) for z in labels * features[:, 0]]
    one_scale_passes(lambda r: ks_p_value(sample, naive_cdf(losses, n, r * k, m)), 0.5, 2.0)
    assert run.secret.log_acceptance.max() < 1e-9
    minimiser = np.asarray(run.secret.minimiser)
    assert np.all(where.excess_risk(minimiser[0, :1]) < 1.0 / k)


@pytest.mark.parametrize(("relation", "multiple"), RELATIONS)
def test_pure_temperature_is_the_range_over_epsilon(relation, multiple):
    budget = privopt.Budget(epsilon=0.7, delta=0.0, relation=relation)
    planned = plan_of(facts(dim=2, n=400, radius=3.0, lipschitz=2.0), budget)
    exact = multiple * 2.0 * 6.0 / 400 / 0.7  # 2 L D/(n epsilon) under replace_one
    mechanism = planned.params.mechanism
    assert exact <= mechanism.temperature <= exact * (1.0 + 2e-6)
    assert mechanism.regularisation == 0.0
    assert planned.rate.upper == pytest.approx(2 * exact, rel=2e-6)
    assert planned.guarantee.epsilon(0.0).lower > 0.9999 * 0.7
    assert planned.guarantee.epsilon(0.0).upper <= 0.7
    assert planned.rate.terms[0].powers == Exponents(n=-1.0, dim=1.0, epsilon=-1.0)


@pytest.mark.parametrize(("relation", "multiple"), RELATIONS)
def test_regularised_numbers_are_the_cards(relation, multiple):
    """``k = m mu^2/G^2``, ``m = 2 G sqrt(d)/(mu R)``; bound ``G R sqrt(d)/mu``."""
    budget = privopt.Budget(epsilon=1.0, delta=1e-6, relation=relation)
    planned = plan_of(facts(dim=3, n=300, radius=0.5, lipschitz=2.0), budget)
    mu, g = gaussian_mu(1.0, 1e-6), multiple * 2.0 / 300
    mechanism = planned.params.mechanism
    assert mechanism.regularisation == pytest.approx(
        2.0 * g * math.sqrt(3.0) / (mu * 0.5), rel=3e-6
    )
    k = mechanism.regularisation * mu**2 / g**2
    assert 1.0 <= mechanism.temperature * k <= 1.0 + 5e-6
    assert planned.rate.upper == pytest.approx(math.sqrt(3.0) * g * 0.5 / mu, rel=1e-5)
    assert planned.rate.terms[0].powers == Exponents(n=-1.0, dim=0.5, epsilon=-1.0)
    fixed = plan_of(facts(dim=3, n=300), budget, regularisation=0.4)
    assert fixed.rate.terms[0].powers == Exponents(n=-2.0, dim=1.0, epsilon=-2.0)
    assert fixed.rate.tight_on is None
    spent = planned.guarantee.epsilon(1e-6)
    assert 0.99999 < spent.lower <= spent.upper <= 1.0


def test_assumptions_are_stated():
    convex = "every loss is convex and 2-Lipschitz"
    spent = "no draw exhausts its proposals, which has a probability below 2^-64"
    one = dataclasses.replace(BUDGET, relation="add_or_remove_one")
    for budget, wanted in ((BUDGET, ()), (PURE, (spent,)), (one, ("at most 50 records",))):
        assert plan_of(facts(lipschitz=2.0), budget).guarantee.assumptions == (convex, *wanted)
