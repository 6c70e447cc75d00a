"""The lower bound as a number: its constants, its shape, and that no upper bound is below it."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

import privopt
from privopt.spec import Budget, ProblemClass, Relation
from privopt.theory import (
    approximate_dp_advantage,
    erm_lower_bound,
    gaussian_dp_advantage,
)


def cls(n=1000, dim=100, lipschitz=1.0, radius=1.0, modulus=0.0, **more):
    return ProblemClass(
        n=n, dim=dim, lipschitz=lipschitz, radius=radius, strong_convexity=modulus, **more
    )


def naive_convex(n, d, kappa, delta):
    """The formula of the docstring, a loop over ``k``."""
    mean_norm = math.sqrt(1 / 3) / math.sqrt(1 + 4 / (5 * d))
    leak = (kappa + 4 * delta * math.sqrt(d)) / math.sqrt(d)
    return max(0.0, *(k / n * (mean_norm - (k / 2 + 1) * leak) for k in range(1, n + 1)))


def naive_strongly_convex(n, d, kappa, delta, modulus, reach):
    return max(
        0.0,
        *(
            modulus
            / 2
            * (reach * k / n) ** 2
            * (1 / 3 + 2 / (3 * k) - ((k + 2) * kappa) ** 2 / (4 * d) - 4 * (k + 2) * delta)
            for k in range(1, n + 1)
        ),
    )


GRID = list(itertools.product([1, 7, 400], [1, 3, 100, 5000], [0.0, 0.02, 0.5, 4.0], [0.0, 1e-4]))


@pytest.mark.parametrize(("n", "d", "kappa", "delta"), GRID)
def test_the_formula(n, d, kappa, delta):
    found = erm_lower_bound(cls(n, d, 3.0, 0.5), advantage=kappa, delta=delta)
    assert found == pytest.approx(1.5 * naive_convex(n, d, kappa, delta), rel=1e-12)
    strongly = cls(n, d, lipschitz=3.0, radius=1.2, modulus=1.5)  # reach min(1.2, 2 - 1.2)
    found = erm_lower_bound(strongly, advantage=kappa, delta=delta)
    expected = naive_strongly_convex(n, d, kappa, delta, 1.5, 0.8)
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", [1000, 1001, 20_000])
def test_the_search_over_k_loses_nothing_to_speak_of(n):
    for d, kappa in itertools.product([10, 10**4, 10**7], [0.01, 0.1, 1.0]):
        found = erm_lower_bound(cls(n, d), advantage=kappa)
        exact = naive_convex(n, d, kappa, 0.0)
        assert exact * (1 - 1e-4) <= found <= exact * (1 + 1e-12)


def mean_norm(d):
    """Without anything leaking, all records inform: the bound is ``L R m_d``."""
    return erm_lower_bound(cls(n=1, dim=d), advantage=0.0)


def test_mean_norm_is_a_lower_bound_of_the_expected_norm():
    """Closed forms for one and two coordinates; else 40,000 draws and five standard errors."""
    assert 0.8 * 0.5 < mean_norm(1) <= 0.5
    square = (math.sqrt(2.0) + math.asinh(1.0)) / 3.0  # E |(U, V)| on the unit square
    assert 0.9 * square / math.sqrt(2.0) < mean_norm(2) <= square / math.sqrt(2.0)
    rng = np.random.default_rng(0)
    for d in (3, 10, 200):
        norms = np.linalg.norm(rng.uniform(-1.0, 1.0, (40_000, d)), axis=1) / math.sqrt(d)
        error = norms.std() / 200.0
        assert mean_norm(d) <= norms.mean() + 5.0 * error
        assert mean_norm(d) >= norms.mean() * (1.0 - 0.3 / d)


def test_moments_behind_the_mean_norm():
    """``E|p|^2 = d/3`` and ``E|p|^4 = d/5 + d(d-1)/9``, and Hoelder's inequality between them."""
    for d in (1, 2, 17):
        second, fourth = d / 3, d / 5 + d * (d - 1) / 9
        assert mean_norm(d) == pytest.approx(second**1.5 / fourth**0.5 / math.sqrt(d), rel=1e-13)


@pytest.mark.parametrize("mu", [0.01, 0.05])
def test_order_and_constant_of_the_convex_bound(mu):
    """``L R sqrt(d)/(6 n kappa)`` for ``1 << sqrt(d)/kappa <= n``."""
    kappa = gaussian_dp_advantage(mu, Relation.REPLACE_ONE)
    for d in (10**4, 10**6):
        n = math.ceil(math.sqrt(d) / kappa)
        bound = erm_lower_bound(cls(n, d, 2.0, 3.0), advantage=kappa)
        assert bound == pytest.approx(6.0 * math.sqrt(d) / (6 * n * kappa), rel=2e-3)


@pytest.mark.parametrize("mu", [0.01, 0.05])
def test_order_and_constant_of_the_strongly_convex_bound(mu):
    """``m rho^2 d/(18 n^2 kappa^2)``."""
    kappa = gaussian_dp_advantage(mu, Relation.REPLACE_ONE)
    for d in (10**4, 10**6):
        n = math.ceil(math.sqrt(d) / kappa)
        c = cls(n, d, lipschitz=4.0, radius=1.5, modulus=2.0)  # reach 0.5
        bound = erm_lower_bound(c, advantage=kappa)
        assert bound == pytest.approx(2.0 * 0.25 * d / (18 * n**2 * kappa**2), rel=5e-3)


@pytest.mark.parametrize(("modulus", "power"), [(0.0, 1), (1.0, 2)])
def test_exponents(modulus, power):
    """-1, 1/2, -1 in n, d and mu where ``mu << 1 << sqrt(d)/mu <= n``; twice that if strongly."""

    def bound(n=10**8, d=10**6, mu=0.01):
        c = cls(n, d, lipschitz=2.0, modulus=modulus)
        return erm_lower_bound(c, advantage=gaussian_dp_advantage(mu, Relation.REPLACE_ONE))

    def slope(**pair):
        ((name, (low, high)),) = pair.items()
        rise = bound(**{name: high}) / bound(**{name: low})
        return math.log(rise) / math.log(high / low)

    assert slope(n=(10**8, 2 * 10**8)) == pytest.approx(-power, abs=1e-3)
    assert slope(d=(10**6, 2 * 10**6)) == pytest.approx(power / 2, abs=1e-3)
    assert slope(mu=(0.01, 0.02)) == pytest.approx(-power, abs=1e-3)


def test_without_enough_records_the_bound_is_constant():
    """``n << sqrt(d)/kappa``: a fixed share of ``L R``, whatever ``n``."""
    few, more = (erm_lower_bound(cls(n, 10**8), advantage=0.1) for n in (100, 200))
    assert few == pytest.approx(math.sqrt(1 / 3), rel=1e-2)
    assert more == pytest.approx(few, rel=1e-2)


@pytest.mark.parametrize("modulus", [0.0, 0.5])
def test_units(modulus):
    """Losses times ``a`` and lengths times ``b``: L a/b, R b, m a/b^2, risk a."""
    one = erm_lower_bound(cls(lipschitz=1.0, modulus=modulus), advantage=0.3, delta=1e-6)
    for a, b in itertools.product([0.01, 30.0], [0.2, 7.0]):
        c = cls(lipschitz=a / b, radius=b, modulus=modulus * a / b**2)
        assert one > 0.0
        assert erm_lower_bound(c, advantage=0.3, delta=1e-6) == pytest.approx(a * one, rel=1e-10)


def test_more_privacy_is_never_cheaper():
    kappas = np.geomspace(1e-3, 10.0, 40)
    for modulus, delta in itertools.product([0.0, 0.5], [0.0, 1e-4]):
        bounds = [erm_lower_bound(cls(modulus=modulus), advantage=k, delta=delta) for k in kappas]
        assert np.all(np.diff(bounds) <= 0.0)
        assert bounds[0] > 0.0
    deltas = [erm_lower_bound(cls(), advantage=0.1, delta=d) for d in (0.0, 1e-6, 1e-3, 0.1)]
    assert deltas == sorted(deltas, reverse=True)


@pytest.mark.parametrize(
    "c",
    [
        cls(radius=math.inf),
        cls(lipschitz=math.inf, radius=math.inf, modulus=1.0),
        cls(lipschitz=1.0, radius=1.0, modulus=1.0),  # reach 0: the data cannot move the minimiser
    ],
)
def test_where_nothing_is_claimed(c):
    assert erm_lower_bound(c, advantage=0.1) == 0.0


def test_hard_losses_belong_to_the_strongly_convex_class():
    """``|w - x| <= R + rho <= L/m`` and ``rho <= R`` keep gradients and minimiser within bounds."""
    for lipschitz, radius, modulus in [(1.0, 0.3, 1.0), (5.0, 1.0, 4.0), (1.0, 1.0, 0.7)]:
        reach = min(radius, lipschitz / modulus - radius)
        full = erm_lower_bound(cls(1, 10**6, lipschitz, radius, modulus), advantage=1e-9)
        assert math.sqrt(2.0 * full / modulus) == pytest.approx(reach, rel=1e-6)
        assert modulus * (radius + reach) <= lipschitz * (1 + 1e-12)


# Plans: lower <= upper always, since both are true.

RELATIONS = list(Relation)
SIZES = [(1, 1), (3, 1000), (50, 10), (10**4, 10**5), (10**5, 3)]
BUDGETS = [(1e-3, 1e-9), (0.1, 1e-5), (1.0, 1e-5), (30.0, 1e-3)]


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize(("n", "dim"), SIZES)
def test_plans_have_lower_below_upper(n, dim, relation):
    """Whatever the sizes and the budget, the tuning or mistuning."""
    positive = 0
    choices = {
        "dp_gd": [
            {"steps": 1},
            {"steps": 500},
            {"steps": 50, "step_size": 3.0},
            {"steps": 9, "clip": 0.1},
        ],
        "output_perturbation": [{}, {"regularisation": 1e-3}, {"noise": "norm_laplace"}],
    }
    for epsilon, delta in BUDGETS:
        budget = Budget(epsilon=epsilon, delta=delta, relation=relation)
        for name, each in choices.items():
            for c in (cls(n, dim, 2.0, 0.5), cls(n, dim, smoothness=0.25)):
                for choice in each:
                    rate = privopt.ALGORITHMS[name].plan(c, budget, **choice).rate
                    assert 0.0 <= rate.lower <= rate.upper
                    positive += rate.lower > 0.0
    assert positive > 0


@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ZERO_OUT])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_strongly_convex_plans_have_lower_below_upper(relation, delta):
    for n, dim, epsilon in itertools.product([2, 100, 10**4], [1, 30, 10**4], [0.01, 1.0]):
        c = cls(n, dim, lipschitz=1.0, radius=1.0, modulus=0.5, smoothness=2.0)
        budget = Budget(epsilon=epsilon, delta=delta, relation=relation)
        rate = privopt.ALGORITHMS["output_perturbation"].plan(c, budget).rate
        assert 0.0 <= rate.lower <= rate.upper


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_gap_of_dp_gd_is_a_constant(relation):
    """Upper over lower stays below 100 over decades where the lower bound leads."""
    for n, dim, epsilon in itertools.product([10**4, 10**6], [100, 10**4], [0.2, 1.0]):
        budget = Budget(epsilon=epsilon, delta=1e-5, relation=relation)
        rate = privopt.ALGORITHMS["dp_gd"].plan(cls(n, dim), budget, steps=2**31 - 1).rate
        assert 1.0 <= rate.upper / rate.lower <= 100.0


def test_advantage_of_a_plan_is_of_its_own_guarantee():
    """Pure noise is judged by epsilon alone even where the budget allows a delta."""
    c = cls(200, 1000)
    pure = Budget(epsilon=0.5, delta=0.0, relation="replace_one")
    rate = privopt.ALGORITHMS["output_perturbation"].plan(c, pure).rate
    kappa, delta = approximate_dp_advantage(pure)
    assert delta == 0.0
    assert rate.lower == pytest.approx(erm_lower_bound(c, advantage=kappa), rel=1e-12)
    assert dataclasses.replace(rate, lower=0.0).upper == rate.upper
