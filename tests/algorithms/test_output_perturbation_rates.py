"""Rates of output perturbation on families where noise costs its norm: exponents and constants.

Expected risks are integrals over the exact law of the noise's norm, at the scale the plan set;
that runs have these expectations is tested beside it. A slope is right within 0.05, and a ratio of
measured to bound is below one and within 15 per cent of its limit.
"""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest
from scipy import stats

import privopt
from privopt.problems import family
from privopt.theory import Powers

plan_of = privopt.ALGORITHMS["output_perturbation"].plan
RATIO = 5.0  # epsilon over mu, kept along an axis of epsilon
QUANTILES = (np.arange(20_000) + 0.5) / 20_000

# family, strength, choices, exponents in (n, dim, epsilon), limit of the ratio, a modulus
ROWS = [
    ("distance", 1.0, {}, (-0.5, 0.25, -0.5), 0.5, 0.0),
    ("regularised_distance", 0.1, {}, (-1.0, 0.5, -1.0), 1 / 1.1, 0.1),
    ("regularised_distance", 1.0, {}, (-1.0, 0.5, -1.0), 1 / 2.0, 1.0),
    ("squared_distance", 1.0, {"stationary": True}, (-2.0, 1.0, -2.0), 1.0, 1.0),
]
rows = pytest.mark.parametrize(
    ("name", "strength", "choices", "exponents", "limit", "modulus"),
    ROWS,
    ids=[f"{row[0]}-{row[1]:g}" for row in ROWS],
)
AXES = {
    "n": (8_000, 16_000, 32_000, 64_000),
    "dim": (64, 128, 256, 512),
    "epsilon": (1.0, 2.0, 4.0, 8.0),
}
BASE = {"n": 16_000, "dim": 64, "epsilon": 2.0}


def budget(epsilon, relation="replace_one"):
    delta = privopt.privacy.gaussian_delta(epsilon, epsilon / RATIO).upper
    return privopt.Budget(epsilon=epsilon, delta=delta, relation=relation)


def planned(name, strength, choices, *, n, dim, epsilon):
    problem = family(name).build(n=n, dim=dim, noise_ratio=0.01, strength=strength)
    return problem, plan_of(problem.problem_class, budget(epsilon), **choices)


def expected(name, modulus, scale, dim):
    """``E r`` plus ``(m/2) E r^2``, the first of them not for squares; ``r = min(|z|, 1)``."""
    size = np.minimum(stats.chi(dim, scale=scale).ppf(QUANTILES), 1.0)
    kink = 0.0 if name == "squared_distance" else size.mean()
    return kink + 0.5 * modulus * np.mean(size**2)


@rows
@pytest.mark.parametrize("axis", list(AXES))
def test_slopes_are_the_exponents_and_ratios_are_below_one(
    name, strength, choices, exponents, limit, modulus, axis
):
    risks, bounds = [], []
    for value in AXES[axis]:
        setting = {**BASE, axis: value}
        _, plan = planned(name, strength, choices, **setting)
        assert plan.rate.tight_on == ("two_kinks" if name == "distance" else name)
        assert plan.rate.terms[0].powers == Powers(*exponents)
        risks.append(expected(name, modulus, plan.params.mechanism.scale, setting["dim"]))
        bounds.append(plan.rate.upper)
    slope = np.polyfit(np.log(AXES[axis]), np.log(risks), 1)[0]
    target = exponents[list(AXES).index(axis)]
    assert abs(slope - target) <= 0.05
    ratios = np.divide(risks, bounds)
    assert ratios.max() < 1.0
    assert np.all(np.abs(ratios / limit - 1.0) <= 0.15)


@rows
def test_runs_have_the_risk_that_the_law_of_the_noise_gives(
    name, strength, choices, exponents, limit, modulus
):
    """Within 5 standard errors (false alarm 6e-7 each); a scale off by a tenth is not."""
    problem, plan = planned(name, strength, choices, n=4000, dim=16, epsilon=2.0)
    runs = privopt.run_many([plan], problem, jax.random.split(jax.random.key(0), 2000))
    risks = np.ravel(problem.excess_risk(runs.released))
    error = risks.std() / math.sqrt(risks.size)
    scale = plan.params.mechanism.scale
    assert abs(risks.mean() - expected(name, modulus, scale, 16)) <= 5 * error
    assert abs(risks.mean() - expected(name, modulus, 1.1 * scale, 16)) > 5 * error


@pytest.mark.parametrize("regularisation", [0.1, 1.0])
def test_a_given_regularisation_has_exponent_one_beside_a_bias_that_stays(regularisation):
    """``lambda R^2/4 + E|z|``: the noise over its bound tends to 1, whatever the bias."""
    noise, bounds, sizes = [], [], AXES["n"]
    for n in sizes:
        _, plan = planned(
            "distance", 1.0, {"regularisation": regularisation}, n=n, dim=64, epsilon=2.0
        )
        scale = plan.params.mechanism.scale
        noise.append(expected("distance", 0.0, scale, 64))
        bounds.append(plan.rate.upper)
        assert noise[-1] / (scale * 8.0) == pytest.approx(1.0 - 1.0 / 256, abs=1e-3)
    assert plan.rate.terms[0].powers == Powers(n=-1.0, dim=0.5, epsilon=-1.0)
    assert plan.rate.regime == "lambda fixed, 12 lambda R^2 <= L E|z| <= L R"
    assert np.polyfit(np.log(sizes), np.log(noise), 1)[0] == pytest.approx(-1.0, abs=1e-3)
    bias = np.subtract(bounds, noise)
    np.testing.assert_allclose(bias, 0.25 * regularisation, rtol=0.05)


def test_the_declaration_changes_the_rate_and_nothing_else():
    facts = privopt.ProblemClass(
        n=1000, dim=16, lipschitz=2.0, radius=1.0, smoothness=1.0, strong_convexity=1.0
    )
    plain, flat = (plan_of(facts, budget(2.0), stationary=each) for each in (False, True))
    assert plain.params == flat.params
    assert plain.guarantee == flat.guarantee
    assert flat.rate.upper < plain.rate.upper
    assert (plain.rate.exponents["n"], plain.rate.tight_on) == (-1.0, None)
    assert flat.rate.theorem == "E F(w) - F* <= (H/2) E|z|^2 (order (sqrt(d)/(n mu))^2)"
    square = plain.params.mechanism.noise_square(16)
    assert flat.rate.upper == pytest.approx(0.5 * square, rel=2e-3)
    loud = plan_of(facts, budget(0.01), stationary=True)
    assert loud.rate.upper == plan_of(facts, budget(0.01)).rate.upper  # L E|z| is smaller there


def test_pure_noise_has_the_square_of_a_gamma_variable():
    facts = privopt.ProblemClass(
        n=1000, dim=16, lipschitz=2.0, radius=1.0, smoothness=1.0, strong_convexity=1.0
    )
    pure = privopt.Budget(epsilon=2.0, delta=0.0, relation="replace_one")
    plan = plan_of(facts, pure, stationary=True)
    mechanism = plan.params.mechanism
    law = stats.gamma(16, scale=mechanism.scale)
    assert mechanism.noise_norm(16) == pytest.approx(law.mean())
    assert mechanism.noise_square(16) == pytest.approx(law.moment(2))
    assert plan.rate.terms[0].powers == Powers(n=-2.0, dim=2.0, epsilon=-2.0)
