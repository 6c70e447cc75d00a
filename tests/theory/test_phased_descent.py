"""The bound of phased descent and the lower bound on populations, against their closed forms."""

import dataclasses
import math

import numpy as np
import pytest

from privopt.spec import ProblemClass, Relation
from privopt.theory import (
    GaussianAdvantage,
    Powers,
    phase_sizes,
    phased_descent_step_size,
    phased_rate,
)
from privopt.theory.lower_bounds import population_lower_bound
from privopt.theory.rate import largest_excess

STRICT = GaussianAdvantage(1e-9, Relation.REPLACE_ONE)
NOTHING_KEPT = GaussianAdvantage(math.inf, Relation.REPLACE_ONE)
FACTS = ProblemClass(n=4096, dim=50, lipschitz=2.0, radius=3.0, smoothness=0.0)


def phased_descent(facts, **numbers):
    """The terms of the rate together, whatever the set allows."""
    rate = phased_rate(facts, **numbers)
    return rate.uncapped


def term_by_term(facts, step_size, noise_std):
    """The bound as the docstring has it, summed one phase after the other."""
    sizes = [facts.n // 2**i for i in range(1, int(math.log2(facts.n)) + 1)]
    distance, total = facts.radius**2, 0.0
    for i, size in enumerate(sizes):
        step = step_size / 4**i
        total += distance / (2 * step * (size + 1)) + step * facts.lipschitz**2 / 2
        distance = facts.dim * (noise_std / 4**i) ** 2
    return total + facts.lipschitz * math.sqrt(distance)


@pytest.mark.parametrize("n", [2, 3, 7, 100, 4096, 5000])
def test_equals_its_sum(n):
    facts = dataclasses.replace(FACTS, n=n)
    for step_size, scale in ((0.1, 0.02), (0.003, 5.0)):
        assert phased_descent(facts, step_size=step_size, noise_std=scale) == pytest.approx(
            term_by_term(facts, step_size, scale), rel=1e-12
        )


@pytest.mark.parametrize("mu", [0.01, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("n", [2**12, 2**16, 30_000])
def test_closed_form_up_to_lower_orders(mu, n):
    """``4 L R sqrt(1/(6n) + 16 d/(n mu)^2)``, half of what it is with the diameter."""
    facts = dataclasses.replace(FACTS, n=n)
    unit = 2.0 * 2.0 / mu
    step_size = phased_descent_step_size(facts, unit_noise_std=unit)
    upper = phased_descent(facts, step_size=step_size, noise_std=unit * step_size)
    leading = 4 * 2.0 * 3.0 * math.sqrt(1 / (6 * n) + 16 * 50 / (n * mu) ** 2)
    assert upper == pytest.approx(leading, rel=0.01)
    expected = 3.0 / (2 * 2.0 * math.sqrt(n)) / math.sqrt(1 / 6 + 16 * 50 / (n * mu**2))
    assert step_size == pytest.approx(expected, rel=0.01)


def test_step_size_is_the_minimiser_and_is_capped():
    unit = 30.0
    best = phased_descent_step_size(FACTS, unit_noise_std=unit)
    values = [
        phased_descent(FACTS, step_size=best * f, noise_std=unit * best * f)
        for f in (0.9, 0.99, 1.0, 1.01, 1.1)
    ]
    assert np.argmin(values) == 2
    smooth = dataclasses.replace(FACTS, smoothness=4.0 / best)
    assert phased_descent_step_size(smooth, unit_noise_std=unit) == pytest.approx(best / 2.0)


def test_no_radius_no_bound():
    facts = dataclasses.replace(FACTS, radius=math.inf)
    assert phased_rate(facts, step_size=0.1, noise_std=1.0).upper == math.inf
    assert population_lower_bound(facts, STRICT) == 0.0


def test_all_but_few_records_are_seen():
    assert phase_sizes(1) == (1,)
    for n in range(2, 300):
        unseen = n - sum(phase_sizes(n))
        assert 1 <= unseen <= int(math.log2(n)) + 1


@pytest.mark.parametrize("n", [2, 10, 10_000])
def test_sampling_alone_costs_a_quarter_over_root_n(n):
    facts = dataclasses.replace(FACTS, n=n)
    lower = population_lower_bound(facts, NOTHING_KEPT)
    assert 0.25 <= lower * math.sqrt(n) / 6.0 <= 0.5
    assert lower < 6.0


def test_two_points_in_full():
    """The testing bound is below the exact Bayes excess of majority voting, which it limits."""
    n = 25
    facts = dataclasses.replace(FACTS, n=n, lipschitz=1.0, radius=1.0)
    lower = population_lower_bound(facts, NOTHING_KEPT)
    exact = 0.0
    for v in np.linspace(0.0, 1.0, 201):
        ways = [math.comb(n, k) * ((1 + v) / 2) ** k * ((1 - v) / 2) ** (n - k) for k in range(13)]
        exact = max(exact, 2.0 * v * sum(ways))  # a wrong sign costs 2 v, and has this chance
    assert 0.3 * exact < lower <= exact


@pytest.mark.parametrize("mu", [0.01, 0.1])
def test_privacy_costs_root_d_over_n_mu(mu):
    """0.6 of it in the limit of many records a coordinate; 0.3 with fewer."""
    facts = dataclasses.replace(FACTS, n=10**6, dim=400)
    expected = 6.0 * math.sqrt(400) / (10**6 * mu)
    floor = population_lower_bound(facts, NOTHING_KEPT)
    found = population_lower_bound(facts, GaussianAdvantage(mu, Relation.REPLACE_ONE))
    assert 0.45 * expected < found < max(0.61 * expected, floor * (1 + 1e-12))
    # At no cost of privacy whatever is released is worth nothing.
    assert population_lower_bound(facts, STRICT) == pytest.approx(6.0, rel=0.03)


def test_strongly_convex_populations():
    """What sampling costs, ``m rho^2/(2 e (n + 1))``, and what privacy does, 4 ``/(n mu)^2``."""
    curved = dataclasses.replace(FACTS, n=10**5, radius=1.0, strong_convexity=0.1, smoothness=1.0)
    reach = 2.0 / 0.1 - 1.0
    floor = population_lower_bound(curved, NOTHING_KEPT)
    assert floor == pytest.approx(0.05 * reach**2 / (math.e * (10**5 + 1)), rel=1e-3)
    found = population_lower_bound(curved, GaussianAdvantage(0.01, Relation.REPLACE_ONE))
    limit = 0.05 * reach**2 * 50 * 4 / (10**5 * 0.01) ** 2
    assert 0.3 * limit < found < limit


def test_less_privacy_lowers_it():
    kinds = [GaussianAdvantage(mu, Relation.REPLACE_ONE) for mu in (0.001, 0.01, 0.1, 1.0)]
    values = [population_lower_bound(FACTS, advantage) for advantage in kinds]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("factor", [0.3, 1.0, 1.00001, 4.0])
def test_the_terms_of_the_rate_add_up_to_the_bound(factor):
    """A root of squares near the best step size, a sum elsewhere."""
    best = factor * phased_descent_step_size(FACTS, unit_noise_std=3.0)
    rate = phased_rate(FACTS, step_size=best, noise_std=3.0 * best)
    bound = term_by_term(FACTS, best, 3.0 * best)
    assert rate.uncapped == pytest.approx(bound, rel=1e-12)
    assert rate.cap == largest_excess(FACTS)
    assert rate.quantity == "population risk"
    assert rate.leading is rate.terms[0] or factor == 0.3
    assert rate.terms[0].name == "sampling"
    loud = phased_rate(FACTS, step_size=best, noise_std=300.0 * best)
    assert loud.terms[0].name == "noise"
    tuned = 0.5 < factor < 2.0
    assert rate.terms[0].powers == (Powers(n=-0.5) if tuned else Powers())
    assert loud.terms[0].powers == Powers(n=-1.0, dim=1.0, epsilon=-2.0)
