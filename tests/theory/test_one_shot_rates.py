"""The rates of one-shot methods: their terms add up to the theorem, and say what moves how."""

import dataclasses
import math

import pytest

from privopt.spec import ProblemClass
from privopt.theory import (
    Powers,
    exponential_mechanism_rate,
    objective_perturbation_rate,
    output_perturbation_rate,
)

FACTS = ProblemClass(n=400, dim=9, lipschitz=2.0, radius=0.7, smoothness=1.5)
NOISE = {"noise_norm": 0.3, "noise_square": 0.1}
SOLVED = {"solver_error": 0.01, "smoothing": 0.02}


@pytest.mark.parametrize("regularisation", [0.0, 0.4])
@pytest.mark.parametrize("gaussian", [True, False])
@pytest.mark.parametrize("balanced", [True, False])
def test_output_perturbation_adds_up(balanced, gaussian, regularisation):
    rate = output_perturbation_rate(
        FACTS,
        regularisation=regularisation,
        gaussian=gaussian,
        balanced=balanced,
        **NOISE,
        **SOLVED,
    )
    expected = regularisation * 0.49 / 4 + 2.0 * 0.31 + 2.0 * 0.02
    assert rate.upper == pytest.approx(expected, rel=1e-12)
    power = 0.5 if balanced else 1.0
    per_norm = 0.5 if gaussian else 1.0
    assert rate.terms[0].powers == Powers(n=-power, dim=power * per_norm, epsilon=-power)


@pytest.mark.parametrize("regularisation", [0.0, 0.4])
@pytest.mark.parametrize("balanced", [True, False])
def test_a_stationary_minimiser_has_the_smaller_of_two_bounds(balanced, regularisation):
    for square in (0.01, 100.0):
        numbers = {"regularisation": regularisation, "noise_norm": 0.3, "noise_square": square}
        usual = {"gaussian": True, "balanced": balanced}
        rate = output_perturbation_rate(FACTS, stationary=True, **numbers, **usual)
        plain = output_perturbation_rate(FACTS, **numbers, **usual)
        far = math.sqrt(square)
        risen = regularisation * 0.49 / 4 * (1.0 + min(1.0, 2.0 * far / 0.7))
        risen += 0.5 * (1.5 + regularisation) * square
        assert rate.upper == pytest.approx(min(plain.upper, risen), rel=1e-12)
        if not balanced:
            assert rate.exponents["n"] == (-2.0 if risen < plain.upper else -1.0)


def test_whole_space():
    whole = dataclasses.replace(FACTS, radius=math.inf)
    numbers = {"gaussian": True, "balanced": False, **NOISE}
    assert output_perturbation_rate(whole, regularisation=0.1, **numbers).upper == math.inf
    assert output_perturbation_rate(whole, regularisation=0.0, **numbers).upper == 0.6
    tilted = {"noise_second_moment": 0.1, "distance": 0.0, "gaussian": True, "tuned": False}
    assert objective_perturbation_rate(whole, regularisation=0.1, **tilted).upper == math.inf


@pytest.mark.parametrize("tuned", [True, False])
@pytest.mark.parametrize("gaussian", [True, False])
def test_objective_perturbation_adds_up(gaussian, tuned):
    numbers = {"regularisation": 0.4, "noise_second_moment": 0.09, "distance": 0.01}
    rate = objective_perturbation_rate(FACTS, gaussian=gaussian, tuned=tuned, **numbers)
    assert rate.upper == pytest.approx(0.1 * 0.49 + 0.09 / 1.6 + 2.0 * 0.01, rel=1e-12)
    power = 1.0 if tuned else 2.0
    dim = power * (0.5 if gaussian else 1.0)
    assert rate.terms[0].powers == Powers(n=-power, dim=dim, epsilon=-power)
    assert rate.tight_on == ("huber" if tuned else None)


@pytest.mark.parametrize(
    ("pure", "balanced", "exponents"),
    [(True, True, (-1, 1, -1)), (False, True, (-1, 0.5, -1)), (False, False, (-2, 1, -2))],
)
def test_the_exponential_mechanism_adds_up(pure, balanced, exponents):
    numbers = {"temperature": 0.03, "regularisation": 0.0 if pure else 0.2}
    rate = exponential_mechanism_rate(FACTS, pure=pure, balanced=balanced, **numbers)
    assert rate.upper == pytest.approx(9 * 0.03 + numbers["regularisation"] * 0.49 / 4, rel=1e-12)
    assert rate.terms[0].powers == Powers(*exponents)
