"""Lower bounds of population risk and regret: enumerated, played against, never above the upper."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from privopt.spec import ProblemClass, Relation
from privopt.theory import GaussianAdvantage, PrefixError, ftrl_rate, lower_bound

FACTS = ProblemClass(n=100, dim=4, lipschitz=2.0, radius=3.0)
STRICT = GaussianAdvantage(0.05, Relation.REPLACE_ONE)
NOTHING_KEPT = GaussianAdvantage(math.inf, Relation.REPLACE_ONE)


def population(facts, advantage):
    """Return the lower bound of the population risk."""
    return lower_bound(facts, advantage, "population risk").value


def regret(facts, advantage, *, rounds):
    """Return the lower bound of the regret."""
    return lower_bound(facts, advantage, "regret", rounds=rounds).value


@pytest.mark.parametrize("n", range(1, 11))
def test_signs_enumerated(n):
    """``E |S|`` over all signs, a single coordinate; two coordinates are never below it."""
    facts = dataclasses.replace(FACTS, n=n, dim=1)
    mean = np.mean([abs(sum(signs)) for signs in itertools.product((-1, 1), repeat=n)])
    assert regret(facts, NOTHING_KEPT, rounds=n) == pytest.approx(6 * mean, rel=2e-9)
    plane = dataclasses.replace(FACTS, n=n)
    assert regret(plane, NOTHING_KEPT, rounds=n) >= 6 * mean * (1 - 2e-9)


def test_privacy_leads_where_noise_is_large():
    facts = dataclasses.replace(FACTS, dim=4000)
    for rounds in (100, 20, 0):
        found = regret(facts, STRICT, rounds=rounds)
        assert found == rounds * population(facts, STRICT)


def test_strongly_convex_classes_have_no_linear_losses():
    facts = dataclasses.replace(FACTS, strong_convexity=0.5)
    found = regret(facts, NOTHING_KEPT, rounds=100)
    assert found == 100 * population(facts, NOTHING_KEPT)


@pytest.mark.parametrize("n", [1, 2, 3, 50, 1000])
@pytest.mark.parametrize("dim", [1, 2, 30])
@pytest.mark.parametrize("mu", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("quantity", ["regret", "population risk"])
def test_never_above_the_upper_bound(n, dim, mu, quantity):
    facts = dataclasses.replace(FACTS, n=n, dim=dim)
    advantage = GaussianAdvantage(mu, Relation.REPLACE_ONE)
    for batch_size in {1, min(n, 7)}:
        told = {"error": PrefixError(0.0, increment=1.0), "quantity": quantity}
        noise, steps = 4.0 / (batch_size * mu), -(-n // batch_size)
        rate = ftrl_rate(facts, steps=steps, noise_std=noise, batch_size=batch_size, **told)
        assert rate.rounds == (n / batch_size if quantity == "regret" else 0.0)
        assert 0.0 < lower_bound(facts, advantage, quantity, rounds=rate.rounds).value <= rate.upper


# --- population risk ---

PEOPLE = ProblemClass(n=4096, dim=50, lipschitz=2.0, radius=3.0, smoothness=0.0)
STRICTEST = GaussianAdvantage(1e-9, Relation.REPLACE_ONE)


@pytest.mark.parametrize("n", [2, 10, 10_000])
def test_sampling_alone_costs_a_quarter_over_root_n(n):
    facts = dataclasses.replace(PEOPLE, n=n)
    lower = population(facts, NOTHING_KEPT)
    assert 0.25 <= lower * math.sqrt(n) / 6.0 <= 0.5
    assert lower < 6.0


def test_two_points_in_full():
    """The testing bound is below the exact Bayes excess of majority voting, which it limits."""
    n = 25
    facts = dataclasses.replace(PEOPLE, n=n, lipschitz=1.0, radius=1.0)
    lower = population(facts, NOTHING_KEPT)
    exact = 0.0
    for v in np.linspace(0.0, 1.0, 201):
        ways = [math.comb(n, k) * ((1 + v) / 2) ** k * ((1 - v) / 2) ** (n - k) for k in range(13)]
        exact = max(exact, 2.0 * v * sum(ways))  # a wrong sign costs 2 v, and has this chance
    assert 0.3 * exact < lower <= exact


@pytest.mark.parametrize("mu", [0.01, 0.1])
def test_privacy_costs_root_d_over_n_mu(mu):
    """0.6 of it in the limit of many records a coordinate; 0.3 with fewer."""
    facts = dataclasses.replace(PEOPLE, n=10**6, dim=400)
    expected = 6.0 * math.sqrt(400) / (10**6 * mu)
    floor = population(facts, NOTHING_KEPT)
    found = population(facts, GaussianAdvantage(mu, Relation.REPLACE_ONE))
    assert 0.45 * expected < found < max(0.61 * expected, floor * (1 + 1e-12))
    # Without any privacy budget no release has any value.
    assert population(facts, STRICTEST) == pytest.approx(6.0, rel=0.03)


def test_strongly_convex_populations():
    """Sampling costs ``m rho^2/(2 e (n + 1))`` and privacy costs ``2 m rho^2 d/(n mu)^2``."""
    curved = dataclasses.replace(PEOPLE, n=10**5, radius=1.0, strong_convexity=0.1, smoothness=1.0)
    reach = 2.0 / 0.1 - 1.0
    floor = population(curved, NOTHING_KEPT)
    assert floor == pytest.approx(0.05 * reach**2 / (math.e * (10**5 + 1)), rel=1e-3)
    found = population(curved, GaussianAdvantage(0.01, Relation.REPLACE_ONE))
    limit = 0.05 * reach**2 * 50 * 4 / (10**5 * 0.01) ** 2
    assert 0.3 * limit < found < limit


def test_less_privacy_lowers_it():
    kinds = [GaussianAdvantage(mu, Relation.REPLACE_ONE) for mu in (0.001, 0.01, 0.1, 1.0)]
    values = [population(PEOPLE, advantage) for advantage in kinds]
    assert values == sorted(values, reverse=True)
