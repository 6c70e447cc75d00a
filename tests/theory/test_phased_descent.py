"""The bound of phased descent against its closed forms."""

import dataclasses
import math

import numpy as np
import pytest

from privopt.spec import ProblemClass
from privopt.theory import Exponents, phase_sizes, phased_descent_step_size, phased_rate
from privopt.theory.rate import largest_excess

FACTS = ProblemClass(n=4096, dim=50, lipschitz=2.0, radius=3.0, smoothness=0.0)


def phased_descent(facts, **numbers):
    """Return the sum of the terms of the rate, without the cap of the set."""
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
    """Compare with ``4 L R sqrt(1/(6n) + 16 d/(n mu)^2)``, half of the bound with the diameter."""
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


def test_all_but_few_records_are_seen():
    assert phase_sizes(1) == (1,)
    for n in range(2, 300):
        unseen = n - sum(phase_sizes(n))
        assert 1 <= unseen <= int(math.log2(n)) + 1


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
    assert rate.terms[0].powers == (Exponents(n=-0.5) if tuned else Exponents())
    assert loud.terms[0].powers == Exponents(n=-1.0, dim=1.0, epsilon=-2.0)
