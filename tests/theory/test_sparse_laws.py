"""Tests of the tables of sparse gradients: printed crossovers, local exponents, best methods."""

import math
from dataclasses import replace

import pytest
from scipy.optimize import brentq

from privopt.privacy import gaussian_mu
from privopt.spec import Budget, ProblemClass
from privopt.theory import (
    SPARSE_LAWS,
    SPARSE_ORDERS,
    ApproximateAdvantage,
    GaussianAdvantage,
    LawSetting,
    lower_bound,
)
from privopt.theory.laws import Order

MU = gaussian_mu(1.0, 1e-6)
LN, LD, LS = math.log(1e6), math.log(2**14), math.log(2**14 / 4)
S, D = 4, 2**14


def setting(n=1024, dim=D, sparsity=S, epsilon=1.0, delta=1e-6):
    facts = ProblemClass(n=n, dim=dim, lipschitz=2.0, radius=1.0, smoothness=1.0,
                         strong_convexity=1.0, sparsity=sparsity)  # fmt: skip
    budget = Budget(epsilon=epsilon, delta=delta, relation="replace_one")
    return LawSetting(problem_class=facts, budget=budget, mu=MU * epsilon)


def least(here, pure=False):
    """The lower bound of the law's own guarantee."""
    budget = here.budget
    own = ApproximateAdvantage(replace(budget, delta=0.0))
    own = own if pure else GaussianAdvantage(here.mu, budget.relation)
    return lower_bound(here.problem_class, own).value


PRINTED = [
    ("mean, approximate", "constant", "sparse", True, math.sqrt(S * LN)),
    ("mean, approximate", "constant", "sparse", False, math.sqrt(S * LS * LN)),
    ("mean, pure", "constant", "sparse", False, S * LD),
    ("mean, pure", "sparse", "dense", False, D / LD),
    ("mean, approximate", "sparse", "dense", False, D * math.sqrt(LN / (S * LS))),
    ("mean, approximate", "sparse", "dense", True, D * math.sqrt(LN / S)),
    ("convex, approximate", "sparse", "dense", False, D * math.sqrt(LN / (S * LD))),
    ("convex, pure", "sparse", "dense", False, D**1.5 / math.sqrt(S * LD)),
    ("convex, pure, smooth", "sparse", "dense", False, D ** (5 / 3) / (S * LD) ** (2 / 3)),
    ("convex, pure, flat", "sparse", "dense", False, D**2 / (S * LD)),
    ("generalised linear, pure", "sparse", "dense", False, D**1.5 / math.sqrt(S * LD)),
]


def term_of(rate, name):
    (term,) = (term for term in rate.terms if term.name == name)
    return term.value


@pytest.mark.parametrize(("row", "first", "second", "lower", "printed"), PRINTED)
def test_crossovers_are_the_printed_ones(row, first, second, lower, printed):
    """Compare the closed form from the data with the manual formula and the root of two laws."""
    orders, here = SPARSE_ORDERS[row], setting()
    assert orders.crossing(first, second, lower=lower).value(here) == pytest.approx(printed)
    law = orders.law(lower=lower)
    for axis, place, error in (
        ("n", printed, {"rel": 0.02, "abs": 1.0}),
        ("epsilon", printed / 1024, {"rel": 1e-6}),
    ):

        def log_ratio(value, axis=axis):
            there = here.at(**{axis: value})
            return math.log(term_of(law(there), first) / term_of(law(there), second))

        root = brentq(log_ratio, place / 30.0, place * 30.0, xtol=1e-9 * place)
        assert root == pytest.approx(place, **error)


def test_the_crossover_of_stationary_points():
    """``(d ln)^(4/5)/(s ln(d/s) ln^3)^(3/10)``, and ``(ln n)^(-3/5)`` that the table leaves out."""
    here = setting()
    found = SPARSE_ORDERS["stationary, approximate"].crossing("sparse", "dense")
    printed = (D * LN) ** 0.8 / (S * LS * LN**3) ** 0.3 * math.log(1024) ** -0.6
    assert found.value(here) == pytest.approx(printed)


UPPER = [
    ("mean, pure", 1 / 1024 * S * LD),
    ("mean, pure, sharp", S * math.log(D / 1024) / 1024),
    ("mean, approximate", math.sqrt(S * LS * LN) / 1024),
    ("convex, approximate", (S * LD * LN) ** 0.25 / 32),
    ("population, approximate", (S * LD * LN) ** 0.25 / 32 + 1 / 32),
    ("convex, pure", (S * LD / 1024) ** (1 / 3)),
    ("population, pure", (S * LD / 1024) ** (1 / 3) + 1 / 32),
    ("convex, pure, smooth", (S * LD / 1024) ** 0.4),
    ("convex, pure, flat", (S * LD / 1024) ** 0.5),
    ("generalised linear, pure, expected", (2 / 1024) ** (1 / 3)),
    ("stationary, approximate", (S * LS * LN**3) ** 0.125 * math.log(1024) ** 0.25 / 1024**0.25),
    ("convex, bias-reduced", math.sqrt(math.log(1024)) * (S * LS * LN**3) ** 0.25 / 32),
]


@pytest.mark.parametrize(("row", "value"), UPPER)
def test_upper_orders_are_those_of_the_table(row, value):
    """Compare the orders if the sparse regime binds or the dense one is left out."""
    law = SPARSE_ORDERS[row].law()
    rate = law(setting())
    found = rate.upper if "population" in row else term_of(rate, "sparse")
    assert found == pytest.approx(value)


def moved(law, here, axis, factor):
    """``d log term / d log axis`` of every term, between a setting and another."""
    value = getattr(here.budget if axis == "epsilon" else here.problem_class, axis)
    ends = [law(here), law(here.at(**{axis: factor * value}))]
    first, last = ({term.name: term.value for term in rate.terms} for rate in ends)
    return {name: math.log(last[name] / first[name]) / math.log(factor) for name in first}


@pytest.mark.parametrize("row", SPARSE_ORDERS)
def test_local_exponents_and_their_place_below_the_upper_bound(row):
    """Use factors of 1.02 with logarithms above 1. No lower order is above its upper order."""
    orders = SPARSE_ORDERS[row]
    here = setting(n=2**13, dim=2**20, sparsity=2**8)
    for lower in (False, True) if orders.lower else (False,):
        law = orders.law(lower=lower)
        for axis in ("n", "dim", "sparsity", "epsilon"):
            slopes = [moved(law, here, axis, factor) for factor in (1 + 2.0**-5, 1 - 2.0**-5)]
            for term in law(here).terms:
                slope = 0.5 * sum(each[term.name] for each in slopes)
                assert slope == pytest.approx(getattr(term.powers, axis), abs=2e-3)
    upper_alone = sum(not each.lower for each in SPARSE_ORDERS.values())
    assert (len(SPARSE_ORDERS), upper_alone) == (13, 6)
    for n in (8, 100, 2**13, 10**6, 10**8):
        there = setting(n=n)
        assert not orders.lower or orders.law(lower=True)(there).upper <= orders.law()(
            there
        ).upper * (1.0 + 1e-12)


def test_a_sampled_bound_is_named_after_the_regime_that_binds():
    rate = SPARSE_ORDERS["population, approximate"].law()(setting(n=2**22))
    assert [term.name for term in rate.terms] == ["dense", "sparse", "sampling"]
    assert rate.upper == rate.terms[0].value + rate.terms[2].value
    assert rate.leading.name == "sampling"


def test_who_is_best_where():
    """Methods without a convex set agree in the dense regime. Before it, nonzeros count."""
    names = ("noisy_mean", "projected_mean", "projection_mechanism")

    def winner(n, dim):
        return min(names, key=lambda name: SPARSE_LAWS[name](setting(n=n, dim=dim)).upper)

    assert [winner(1024, dim) for dim in (64, 2**14)] == ["noisy_mean", "projection_mechanism"]
    assert [winner(2**22, dim) for dim in (64, 2**14)] == ["noisy_mean"] * 2
    assert "noisy_mean" not in [winner(8, dim) for dim in (64, 2**14)]


@pytest.mark.parametrize("law", SPARSE_LAWS)
def test_laws_of_means_hold_their_own_lower_bounds(law):
    for n in (4, 64, 1024, 2**17, 2**21):
        here = setting(n=n)
        rate = SPARSE_LAWS[law](here)
        assert 0.0 < least(here, pure="pure" in law) <= rate.upper
        assert rate.in_regime


def test_products_of_orders():
    one = Order(budget=-1.0, sparsity=0.5)
    assert one * one == one**2.0 == Order(budget=-2.0, sparsity=1.0)
    assert str(Order()) == "1"
    dense = setting(n=4, dim=8, sparsity=None)
    assert Order(sparsity=1.0).term("order", dense).powers.dim == 1.0
    assert Order(log_sparse=1.0).value(dense) == 1.0
    assert Order(log_sparse=1.0).term("order", dense).powers.dim == 0.0
