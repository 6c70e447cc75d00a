"""The theorem of accelerated descent: its optimum, its golden numbers, and that it is true."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from privopt.spec import ProblemClass
from privopt.theory import (
    Exponents,
    accelerated_numbers,
    accelerated_rate,
    accelerated_steps,
    descent_rate,
    descent_steps,
)
from privopt.theory.descent import DescentSetting, StepRule

positive = st.floats(1e-2, 1e2)
steps_of = st.integers(1, 10**4)
KINKS = ProblemClass(n=10, dim=1, lipschitz=1.0, radius=1.0)


def by_hand(step_size, width, *, lipschitz, radius, dim, steps, noise_std):
    """Evaluate the theorem as it is proved, with ``gamma = 2 eta`` and a sum over the steps.

    ``B_T f <= R^2/2 + sum_t gamma_t^2 V/(2 (1 - gamma H))`` with ``gamma_t = gamma (t + 1)/2`` and
    ``B_t = gamma (t + 1)^2/4``.
    """
    gamma, curvature = 2.0 * step_size, 1.0 / width
    if gamma * curvature >= 1.0:
        return math.inf
    sizes = gamma * np.arange(2.0, steps + 2.0) / 2.0
    noise = (sizes**2).sum() * dim * noise_std**2 / (2.0 * (1.0 - gamma * curvature))
    total = 0.5 * radius**2 + noise
    return total / (gamma * (steps + 1.0) ** 2 / 4.0) + 0.5 * lipschitz**2 * width


@given(positive, positive, positive, steps_of, st.integers(1, 100))
def test_step_size_and_width_minimise_the_sum_of_the_proof(lipschitz, radius, sigma, steps, dim):
    """Compare with a numerical search over both, where the width is not capped."""
    facts = ProblemClass(n=10, dim=dim, lipschitz=lipschitz, radius=radius)
    width = 2.0 * radius / (lipschitz * (steps + 1.0))
    numbers = accelerated_numbers(facts, steps=steps, noise_std=sigma)
    assert numbers.smoothing == pytest.approx(min(width, 4.0 / lipschitz**2), rel=1e-12)
    if width > 4.0 / lipschitz**2:
        return
    own = {"lipschitz": lipschitz, "radius": radius, "dim": dim, "steps": steps}
    least = by_hand(*numbers, **own, noise_std=sigma)
    rate = accelerated_rate(facts, steps=steps, noise_std=sigma, **numbers._asdict())
    assert rate.uncapped == pytest.approx(least, rel=1e-9)

    def elsewhere(logs):
        share, wider = 1.0 / (1.0 + math.exp(-logs[0])), width * math.exp(logs[1])
        return by_hand(0.5 * share * wider, wider, **own, noise_std=sigma)

    share = 2.0 * numbers.step_size / width
    start = [math.log(share / (1.0 - share)), 0.0]
    searched = optimize.minimize(elsewhere, start, method="Nelder-Mead")
    assert searched.fun >= least * (1.0 - 1e-9)


@given(positive, positive, st.floats(0.05, 0.95), st.floats(0.1, 10.0), steps_of)
def test_other_step_sizes_and_widths_have_the_sum_of_the_proof(
    lipschitz, radius, share, width, steps
):
    facts = ProblemClass(n=10, dim=7, lipschitz=lipschitz, radius=radius)
    width *= 4.0 / lipschitz**2 / 10.0
    own = {"steps": steps, "noise_std": 0.3}
    rate = accelerated_rate(facts, step_size=0.5 * share * width, smoothing=width, **own)
    expected = by_hand(0.5 * share * width, width, lipschitz=lipschitz, radius=radius, dim=7, **own)
    assert rate.uncapped == pytest.approx(expected, rel=1e-9)


def test_golden_numbers():
    """At 99 steps ``S = 338,349``; ``2 L R/(T + 1) = 0.06`` and ``2 R sqrt(d S) sigma/10^4``."""
    facts = ProblemClass(n=10, dim=4, lipschitz=3.0, radius=1.0)
    numbers = accelerated_numbers(facts, steps=99, noise_std=0.5)
    root = math.sqrt(4 * 338_349)
    assert numbers.smoothing == pytest.approx(2.0 / 300.0, rel=1e-12)
    assert numbers.step_size == pytest.approx(1.0 / (300.0 + 0.5 * root), rel=1e-12)
    rate = accelerated_rate(facts, steps=99, noise_std=0.5, **numbers._asdict())
    values = {term.name: term.value for term in rate.terms}
    expected = {"noise": root / 10_000, "start": 0.03, "smoothing": 0.03}
    assert values == pytest.approx(expected, rel=1e-12)
    curved = dataclasses.replace(facts, smoothness=2.0)
    numbers = accelerated_numbers(curved, steps=99, noise_std=0.5)
    assert numbers == (pytest.approx(1.0 / (4.0 + 0.5 * root), rel=1e-12), None)
    rate = accelerated_rate(curved, steps=99, noise_std=0.5, **numbers._asdict())
    assert rate.uncapped == pytest.approx(0.0004 + root / 10_000, rel=1e-12)


@pytest.mark.parametrize("noise", [0.3, 0.03, 2e-3, 1e-4])
def test_default_steps_come_within_half_of_the_limit(noise):
    facts = ProblemClass(n=10, dim=9, lipschitz=2.0, radius=5.0)
    limit = 2.0 / math.sqrt(3.0) * 5.0 * 3.0 * noise
    steps, powers = accelerated_steps(facts, one_step_noise=noise)
    sigma = noise * math.sqrt(steps)
    numbers = accelerated_numbers(facts, steps=steps, noise_std=sigma)
    rate = accelerated_rate(facts, steps=steps, noise_std=sigma, **numbers._asdict())
    if noise < 1e-3:
        assert (steps, powers) == (10_000, Exponents())
        assert rate.uncapped == pytest.approx(limit + 20.0 / 10_001, rel=1e-3)
    else:
        assert steps + 1 == math.ceil(2 * 2.0 * 5.0 / (0.5 * limit))
        assert powers == Exponents(n=1.0, dim=-0.5, epsilon=1.0)
        assert 1.48 * limit < rate.uncapped < 1.53 * limit
    curved = dataclasses.replace(facts, smoothness=0.5)
    steps, _ = accelerated_steps(curved, one_step_noise=noise)
    sigma = noise * math.sqrt(steps)
    numbers = accelerated_numbers(curved, steps=steps, noise_std=sigma)
    rate = accelerated_rate(curved, steps=steps, noise_std=sigma, **numbers._asdict())
    assert steps == max(1, math.ceil(math.sqrt(2 * 0.5 * 25.0 / (0.5 * limit)) - 1.0))
    assert rate.uncapped < 1.53 * limit


@pytest.mark.parametrize("axis", ["n", "dim", "epsilon"])
@pytest.mark.parametrize("smoothness", [None, 3.0])
def test_slopes_are_those_of_default_plans(smoothness, axis):
    """``sigma_1`` is ``1/(n epsilon)``; the numbers of steps are rounded up to whole ones."""

    def rate(**axes):
        setting = {"n": 1.0, "dim": 10_000, "epsilon": 1.0, **axes}
        noise = 5e-5 / (setting["n"] * setting["epsilon"])
        facts = dataclasses.replace(KINKS, dim=setting["dim"], smoothness=smoothness)
        steps, powers = accelerated_steps(facts, one_step_noise=noise)
        own = {"steps": steps, "noise_std": noise * math.sqrt(steps)}
        numbers = accelerated_numbers(facts, **own)
        return accelerated_rate(facts, **own, **numbers._asdict(), steps_powers=powers)

    base, more = rate(), rate(**{axis: 20_000 if axis == "dim" else 2.0})
    slope = math.log(more.uncapped / base.uncapped) / math.log(2.0)
    assert slope == pytest.approx(base.slope(axis), abs=0.03)
    assert base.slope(axis) == pytest.approx(0.5 if axis == "dim" else -1.0, abs=0.02)
    assert base.in_regime


def test_the_bound_is_smaller_than_that_of_descent_from_280_on():
    """``n mu/sqrt(d) = 2/(sqrt(d) sigma_1)`` under replace-one; descent takes 10,000 steps."""

    def bounds(ratio):
        noise = 2.0 / ratio
        steps, _ = accelerated_steps(KINKS, one_step_noise=noise)
        own = {"steps": steps, "noise_std": noise * math.sqrt(steps)}
        numbers = accelerated_numbers(KINKS, **own)
        plain, _ = descent_steps(KINKS, one_step_noise=noise)
        setting = DescentSetting(KINKS, plain, noise * math.sqrt(plain))
        rule = StepRule(setting.convex_step * plain / (plain + 1.0), decay=1.0)
        rate = descent_rate(
            KINKS, steps=plain, noise_std=setting.noise_std, step_rule=rule, output="last"
        )
        return accelerated_rate(KINKS, **own, **numbers._asdict()).upper, rate.upper

    assert bounds(270.0)[0] > bounds(270.0)[1]
    assert bounds(290.0)[0] < bounds(290.0)[1]
    assert bounds(4000.0)[0] < 0.1 * bounds(4000.0)[1]


def test_nothing_is_claimed_beyond_the_assumptions():
    own = {"steps": 9, "noise_std": 0.1}

    def theorem(facts=KINKS, step_size=0.04, smoothing=0.1, **changes):
        numbers = {"step_size": step_size, "smoothing": smoothing}
        return accelerated_rate(facts, **own, **numbers, **changes)

    assert math.isfinite(theorem().upper)
    for step_size in (0.05, 0.06, 0.0, -0.01, math.nan):
        assert theorem(step_size=step_size).theorem.startswith("none: no theorem for steps")
    for width in (0.0, -0.1, math.nan):
        assert theorem(smoothing=width).upper == math.inf
    assert theorem(smoothing=None).upper == math.inf
    assert theorem(clipped=True).theorem.startswith("none: gradients are clipped")
    assert theorem(dataclasses.replace(KINKS, convex=False)).upper == math.inf
    assert theorem(dataclasses.replace(KINKS, radius=math.inf)).upper == math.inf
    # A loss that is its own envelope may have curvature L^2/4, for any width.
    steep = dataclasses.replace(KINKS, lipschitz=4.0)
    assert math.isfinite(theorem(steep, step_size=0.12, smoothing=1.0).upper)
    assert theorem(steep, step_size=0.13, smoothing=1.0).upper == math.inf
    assert accelerated_numbers(steep, **own, smoothing=1.0).step_size < 0.125


def test_bad_numbers_are_refused():
    own = {"steps": 9, "noise_std": 0.1}
    smooth = dataclasses.replace(KINKS, smoothness=1.0)
    with pytest.raises(ValueError, match=r"smoothing must be left out where smoothness is declar"):
        accelerated_numbers(smooth, **own, smoothing=0.1)
    with pytest.raises(ValueError, match=r"smoothing must be positive and finite, got 0\.0"):
        accelerated_numbers(KINKS, **own, smoothing=0.0)
    with pytest.raises(ValueError, match="radius must be finite for accelerated descent, got inf"):
        accelerated_numbers(dataclasses.replace(KINKS, radius=math.inf), **own)


# --- true over all signs of the noise -------------------------------------------------------------


def accelerated(gradient, *, steps, step_size, noise, signs):
    """Return ``v_{T+1}`` on ``[-1, 1]`` from 0, for every row of signs."""
    point, mean = np.zeros(len(signs)), np.zeros(len(signs))
    for t in range(1, steps + 1):
        share = 2.0 / (t + 1.0)
        query = mean + share * (point - mean)
        answer = gradient(query) + noise * signs[:, t - 1]
        point = np.clip(point - step_size * (t + 1.0) * answer, -1.0, 1.0)
        mean = mean + share * (point - mean)
    return mean


def ratios(without_noise=False):
    """Return measured risk over bound, for ``|w - c|`` and all signs of the noise."""
    for centre, scale, share, steps, noise in itertools.product(
        (1.0, 0.5, 0.1), (0.3, 1.0, 3.0), (None, 0.1, 0.9), (1, 3, 8), (0.0, 0.05, 0.5, 2.0, 8.0)
    ):
        signs = np.array(list(itertools.product((-1.0, 1.0), repeat=steps)))
        numbers = accelerated_numbers(KINKS, steps=steps, noise_std=noise)
        width = numbers.smoothing * scale
        numbers = accelerated_numbers(KINKS, steps=steps, noise_std=noise, smoothing=width)
        step_size = numbers.step_size if share is None else 0.5 * share * width
        output = accelerated(
            lambda w, c=centre, h=width: np.clip((w - c) / h, -1.0, 1.0),
            steps=steps, step_size=step_size, noise=noise, signs=signs,
        )  # fmt: skip
        rate = accelerated_rate(
            dataclasses.replace(KINKS, radius=centre),  # the distance of the minimiser
            steps=steps,
            step_size=step_size,
            smoothing=width,
            noise_std=0.0 if without_noise else noise,
        )
        yield np.abs(output - centre).mean() / rate.uncapped


def test_rounded_absolute_values_obey_the_bound_over_all_signs():
    """The mean is exact, so there is no false alarm. Without its noise term the bound is false."""
    assert 0.4 < max(ratios()) <= 1.0
    assert max(ratios(without_noise=True)) > 2.0
