"""Tests of rates: they follow from their terms, and impossible pairs of bounds are rejected."""

import dataclasses
import math

import numpy as np
import pytest

import privopt
from privopt.spec import Budget, ProblemClass
from privopt.theory import Exponents, LowerBound, Quantity, Rate, Term, no_rate
from privopt.theory.rate import add, largest_excess

NOISE = Exponents(n=-1.0, dim=0.5, epsilon=-1.0)


def rate(*terms, lower=0.0, combine=add, **more):
    facts = {"quantity": "empirical risk", "theorem": "t", "source": "s", **more}
    bounds = LowerBound(0.0, "(1, 0.1)-DP"), LowerBound(lower, "1-Gaussian DP")
    return Rate(terms=terms, combine=combine, lower=bounds, **facts)


@pytest.mark.parametrize(("upper", "lower"), [(0, 0), (1, 1), (2.0, 0.5), (math.inf, math.inf)])
def test_ordered_bounds_are_taken(upper, lower):
    made = rate(Term("noise", upper), lower=lower)
    assert (made.upper, made.lower[1].value, made.tight_on) == (upper, lower, None)


@pytest.mark.parametrize("value", [math.nan, -1e-300, -math.inf])
def test_terms_must_be_non_negative(value):
    with pytest.raises(ValueError, match=f"value of the term noise must be >= 0, got {value!r}"):
        Term("noise", value)


@pytest.mark.parametrize("lower", [math.nan, -1e-300, 1.0000001, math.inf])
def test_lower_must_not_exceed_upper(lower):
    with pytest.raises(ValueError, match=rf"lower must lie in \[0, upper=1.0\], got {lower!r}"):
        rate(Term("noise", 1.0), lower=lower)


def test_exponents_are_those_of_the_first_term_and_cannot_change():
    made = rate(Term("noise", 1.0, NOISE), Term("start", 9.0, Exponents(n=-2.0)))
    assert made.exponents == {"n": -1.0, "dim": 0.5, "epsilon": -1.0, "steps": 0.0, "sparsity": 0.0}
    assert made.leading.name == "start"
    with pytest.raises(TypeError):
        made.exponents["n"] = 2.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.lower = ()


def test_the_bound_and_its_slopes_follow_from_the_terms():
    terms = Term("noise", 3.0, NOISE), Term("start", 4.0, Exponents(n=-3.0))
    summed, rooted = rate(*terms), rate(*terms, combine=math.hypot)
    assert (summed.upper, rooted.upper) == (7.0, 5.0)
    assert summed.slope("n") == pytest.approx((-1.0 * 3.0 - 3.0 * 4.0) / 7.0, rel=1e-6)
    assert rooted.slope("n") == pytest.approx((-1.0 * 9.0 - 3.0 * 16.0) / 25.0, rel=1e-6)
    assert rooted.slope("dim") == pytest.approx(0.5 * 9.0 / 25.0, rel=1e-6)


def test_of_a_minimum_the_least_term_is_the_first_and_moves_the_bound():
    sparse, dense = (
        Exponents(n=-1.0, dim=0.1, sparsity=0.5),
        Exponents(n=-2.0, dim=1.0, epsilon=-2.0),
    )
    terms = Term("dense", 4.0, dense), Term("sparse", 3.0, sparse), Term("all", 9.0)
    made = rate(*terms, combine=min)
    assert (made.upper, made.leading.name, made.in_regime) == (3.0, "sparse", True)
    assert [term.name for term in made.terms] == ["sparse", "dense", "all"]
    assert made.exponents == {"n": -1.0, "dim": 0.1, "epsilon": 0.0, "steps": 0.0, "sparsity": 0.5}
    for axis, power in made.exponents.items():
        assert made.slope(axis) == pytest.approx(power, abs=1e-9)
    there = rate(Term("dense", 1.0, dense), *terms[1:], combine=min)
    assert (there.exponents["n"], there.leading.name) == (-2.0, "dense")
    assert not rate(*terms, combine=min, cap=2.9).in_regime
    assert not rate(Term("sparse", 3.0, sparse), Term("dense", 3.0, dense), combine=min).in_regime
    assert rate(*terms[1:], combine=min).slope("sparsity") == pytest.approx(0.5)
    assert rate(Term("alone", 2.0), combine=min).upper == 2.0


def test_the_plate_of_a_minimum_says_so():
    text = str(rate(Term("a", 2.0, Exponents(sparsity=0.5)), Term("b", 1.0), combine=min))
    assert text.index("the least of") < text.index("b = 1") < text.index("a = 2, of order sparsity")
    assert "the least of" not in str(rate(Term("a", 2.0)))


@pytest.mark.parametrize("combine", [add, math.hypot])
@pytest.mark.parametrize("axis", ["n", "dim", "epsilon", "steps", "sparsity"])
def test_the_regime_is_where_the_bound_moves_like_its_first_term(axis, combine):
    """Along every axis, and to within ``SLOPE_MARGIN``: on either side of the share that decides.

    A term that moves by one power more along an axis may have two per cent of the bound, or two
    per cent of its square.
    """
    other = NOISE + Exponents(**{axis: 1.0})
    for share, inside in ((0.019, True), (0.021, False)):
        value = math.sqrt(share / (1.0 - share)) if combine is math.hypot else share / (1.0 - share)
        made = rate(Term("a", 1.0, NOISE), Term("b", value, other), combine=combine)
        assert made.in_regime is inside
        assert abs(made.slope(axis) - made.exponents[axis]) == pytest.approx(share, rel=1e-3)
    alike = rate(Term("a", 1.0, NOISE), Term("b", 9.0, NOISE), combine=combine)
    assert alike.in_regime
    assert not rate(Term("a", 0.0, NOISE)).in_regime
    assert not rate(Term("a", math.inf, NOISE)).in_regime


def test_what_the_set_allows_caps_the_bound():
    terms = Term("noise", 3.0, NOISE), Term("start", 0.001)
    free, capped = rate(*terms, cap=3.01), rate(*terms, cap=3.0)
    assert (free.upper, capped.upper) == (3.001, 3.0)
    assert (free.in_regime, capped.in_regime) == (True, False)
    assert capped.slope("n") == 0.0
    assert capped.exponents == free.exponents
    assert "the set allows 3" in str(capped)
    assert "the set allows" not in str(free)
    with pytest.raises(ValueError, match=r"lower must lie in \[0, upper=3.0\], got 3.0005"):
        rate(*terms, cap=3.0, lower=3.0005)


def test_a_rate_says_which_quantity_it_speaks_of():
    made = rate(Term("noise", 1.0))
    assert made.quantity is Quantity.EMPIRICAL_RISK
    population = dataclasses.replace(made, quantity="population risk")
    assert population.quantity == "population risk"
    with pytest.raises(ValueError, match=r"quantity must be one of .*regret.*, got 'true'"):
        dataclasses.replace(made, quantity="true")


def test_no_rate_is_an_infinite_bound_with_a_reason():
    none = no_rate("nobody knows")
    assert (none.upper, none.lower, dict(none.exponents)) == (math.inf, (), {})
    assert none.theorem == "none: nobody knows"
    assert not none.in_regime
    assert none.leading is None


def test_the_plate_names_every_term():
    """Outside the regime the text states the exponents of the bound at this point."""
    terms = Term("noise", 3.0, NOISE), Term("start", 4.0)
    text = str(rate(*terms, lower=0.5, regime="noise leading"))
    assert text.startswith("E F(w) - F* <= 7, the empirical risk")
    assert "noise = 3, of order n^-1 dim^0.5 epsilon^-1" in text
    assert "does not hold here, where the bound is of order n^-0.43 dim^0.21 epsilon^-0.43" in text
    assert "no method that is 1-Gaussian DP stays below 0.5 on every problem" in text
    assert "DP stays below 0 " not in text
    assert "noise leading (holds here)" in str(rate(terms[0], regime="noise leading"))


def test_a_bound_is_printed_of_what_it_bounds():
    kinds = {each: str(rate(Term("noise", 1.0), quantity=each)) for each in Quantity}
    assert kinds["gradient norm"].startswith("E |grad F(w)| <= 1, the gradient norm")
    assert kinds["regret"].startswith("E regret <= 1, the regret")
    assert len({text.split(" <=")[0] for text in kinds.values()}) == len(Quantity)


# --- the cap of the set ---


def line_facts(lipschitz, modulus=0.0, radius=1.0):
    return ProblemClass(
        n=50, dim=1, lipschitz=lipschitz, radius=radius, strong_convexity=modulus, smoothness=2.0
    )


@pytest.mark.parametrize("radius", [1.0, 0.3])
@pytest.mark.parametrize("lipschitz", [0.5, 0.7, 1.0, 3.0])
def test_a_quadratic_attains_it(lipschitz, radius):
    """``(m/2) w^2 + s w`` on the line, at ``m R = 1/2``, for all slopes that the class allows."""
    c = line_facts(lipschitz, 0.5 / radius, radius)
    line = np.linspace(-radius, radius, 4001)
    found = 0.0
    for slope in np.linspace(0.0, lipschitz - 0.5, 41):
        risk = 0.25 / radius * line**2 + slope * line
        found = max(found, risk.max() - risk.min())
    assert found == pytest.approx(largest_excess(c), rel=1e-6)


def test_without_curvature_it_is_the_diameter_times_the_slope():
    assert largest_excess(line_facts(3.0)) == 6.0
    whole = dataclasses.replace(line_facts(3.0), radius=math.inf)
    assert largest_excess(whole) == math.inf
    assert largest_excess(dataclasses.replace(line_facts(3.0), lipschitz=math.inf)) == math.inf


@pytest.mark.parametrize("name", ["dp_gd", "dp_sgd", "dp_svrg", "dp_ftrl", "output_perturbation"])
@pytest.mark.parametrize("modulus", [0.0, 0.5])
def test_no_plan_is_above_it(name, modulus):
    """Every bound equals the cap of the set if the budget is very small. No regime holds."""
    c = dataclasses.replace(line_facts(1.0, modulus), dim=200)
    budget = Budget(epsilon=0.01, delta=1e-6, relation="replace_one")
    choices = {"quantity": "population risk"} if name == "dp_ftrl" else {}
    rate = privopt.ALGORITHMS[name].plan(c, budget, **choices).rate
    assert rate.upper == rate.cap == largest_excess(c)
    assert not rate.in_regime
    assert rate.slope("n") == 0.0
