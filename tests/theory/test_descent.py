"""The bound of noisy descent: its optimum, its scales, its noise, and that it is true."""

import math

import numpy as np
import pytest
from builders import onto_ball
from hypothesis import given
from hypothesis import strategies as st
from selection import choose

from privopt.spec import ProblemClass
from privopt.theory import (
    OutputRule,
    StepRule,
    batch_moments,
    descent_numbers,
    descent_rate,
    descent_steps,
)
from privopt.theory.descent import DescentSetting, best_rate, last_iterate

positive = st.floats(1e-3, 1e3)


def cls(dim=7, lipschitz=1.0, radius=1.0):
    return ProblemClass(n=10, dim=dim, lipschitz=lipschitz, radius=radius)


def noisy_descent(facts, *, steps, step_size, noise_std, output="average"):
    """Return the bound for any convex losses, without the cap of the set."""
    return best_rate(DescentSetting(facts, steps, noise_std), StepRule(step_size), output).uncapped


@given(positive, positive, positive, st.integers(1, 10**6), st.integers(1, 10**4))
def test_optimal_step_size_gives_the_closed_form(lipschitz, radius, sigma, steps, dim):
    c = cls(dim, lipschitz, radius)
    best = DescentSetting(c, steps=steps, noise_std=sigma).convex_step
    value = noisy_descent(c, steps=steps, step_size=best, noise_std=sigma)
    expected = radius * math.sqrt((lipschitz**2 + dim * sigma**2) / (steps + 1))
    assert value == pytest.approx(expected, rel=1e-12)
    for factor in (0.5, 0.99, 1.01, 2.0):
        other = noisy_descent(c, steps=steps, step_size=factor * best, noise_std=sigma)
        assert other == pytest.approx(0.5 * (factor + 1.0 / factor) * expected, rel=1e-12)


def descent(gradient, start, rule, steps, radius=1.0):
    """``w_1..w_{T+1}`` on the ball, row by row, ``eta_t`` by the formula of :class:`StepRule`."""
    points = [start]
    for t, eta in enumerate(rule.sizes(steps), start=1):
        moved = points[-1] - eta * gradient(points[-1], t)
        points.append(onto_ball(moved, radius))
    return np.array(points)


@pytest.mark.parametrize("steps", [1, 2, 7, 60])
@pytest.mark.parametrize("output", ["average", "last"])
def test_without_noise_the_bound_is_attained(output, steps):
    """``L max_i w_i`` in ``T + 1`` dimensions, and an oracle that shows a fresh one each time.

    After ``T`` gradients one coordinate is untouched, and the risk is not below that of the start;
    so no method with as many gradients has a smaller bound.
    """
    c = cls(dim=steps + 1, lipschitz=2.0, radius=0.7)
    known = {"steps": steps, "noise_std": 0.0}
    rule, _ = descent_numbers(c, output=OutputRule(output), **known)

    def fresh(point, t):
        assert point.max() == point[t - 1] == 0.0  # it is a subgradient
        return 2.0 * np.eye(steps + 1)[t - 1]

    points = descent(fresh, np.zeros(steps + 1), rule, steps, 0.7)
    released = points[-1] if output == "last" else points.mean(axis=0)
    excess = 2.0 * released.max() + 2.0 * 0.7 / math.sqrt(steps + 1)
    bound = descent_rate(c, step_rule=rule, output=output, **known).upper
    assert excess == pytest.approx(bound, rel=1e-12)


def piecewise(rng, modulus, steepest=1.0):
    """A risk on ``[-1, 1]`` of up to four pieces plus ``(m/2) w^2``: itself, a slope, its least."""
    kinks = np.sort(rng.uniform(-1.0, 1.0, size=3)) * rng.choice([0.05, 0.3, 1.0])
    slopes = np.sort(rng.uniform(-1.0, 1.0, size=4)) * steepest

    def risk(w):
        rises = np.diff(slopes) * np.maximum(np.asarray(w)[..., None] - kinks, 0.0)
        return slopes[0] * w + rises.sum(axis=-1) + 0.5 * modulus * w**2

    def slope(w):
        return slopes[np.searchsorted(kinks, w)] + modulus * w

    line = np.concatenate([[-1.0, 1.0], kinks, np.linspace(-1.0, 1.0, 201)])
    return risk, slope, risk(line).min()


@pytest.mark.parametrize("output", ["average", "weighted_average", "random_iterate", "last"])
def test_no_piecewise_linear_risk_exceeds_it(output):
    """Search over risks on the line with up to four pieces, at step sizes of all orders.

    The search is exact, because it has no randomness: 400 risks an output (1,500 with ``--all``),
    each at its worst subgradient at kinks.
    """
    rng, worst = np.random.default_rng(7), 0.0
    modulus = 0.2 if output == "weighted_average" else 0.0
    for _ in range(choose(1500, 400)):
        steps = int(rng.integers(1, 25))
        c = ProblemClass(n=10, dim=1, lipschitz=1.0, radius=1.0, strong_convexity=modulus)
        known = {"steps": steps, "noise_std": 0.0}
        rule, _ = descent_numbers(c, output=OutputRule(output), **known)
        if modulus == 0.0:
            rule = rule._replace(scale=rule.scale * math.exp(rng.normal()))
        risk, slope, least = piecewise(rng, modulus, steepest=1.0 - modulus)
        points = descent(lambda w, t, slope=slope: slope(w), np.zeros(1), rule, steps)[:, 0]
        if output == "random_iterate":
            found = risk(points).mean()
        elif output == "last":
            found = risk(points[-1])
        else:
            weights = np.arange(1, steps + 2) if output == "weighted_average" else None
            found = risk(np.average(points, weights=weights))
        bound = descent_rate(c, step_rule=rule, output=output, **known).upper
        worst = max(worst, (found - least) / bound)
    assert 0.3 < worst <= 1.0 + 1e-12


@pytest.mark.parametrize(
    ("output", "steps", "runs", "pull", "factor", "attained"),
    [("average", 20_000, 300, 0.2, 4.0, 0.8), ("last", 2000, 2000, 0.067, 0.3, 0.87)],
)
def test_rare_pushes_cost_what_the_bound_says(output, steps, runs, pull, factor, attained):
    """Use noise of mean zero that rarely pushes the point back by the largest useful distance.

    The risk is linear on the line, with its minimiser at an end. At large steps nine tenths of the
    bound are due to the noise, at small steps to the start. The bound is three standard errors
    above.
    """
    rng, std = np.random.default_rng(3), 1.0
    c = ProblemClass(n=10, dim=1, lipschitz=pull, radius=1.0)
    known = {"steps": steps, "noise_std": std}
    size = factor * DescentSetting(c, **known).convex_step
    points, mean = np.zeros(runs), np.zeros(runs)
    for t in range(1, steps + 1):
        left = (steps + 1 - t) / (steps + 1) if output == "last" else 1.0
        far = min(1.8, size * pull * left**2 * (steps + 1)) if output == "last" else 1.8
        eta = size * left
        chance = min(0.5, (eta * std / max(far, eta * std)) ** 2)  # at a variance of std^2
        push = rng.random(runs) < chance
        noise = np.where(push, math.sqrt(1.0 / chance - 1.0), -1.0 / math.sqrt(1.0 / chance - 1.0))
        mean += points / (steps + 1)
        points = np.clip(points + eta * (pull - std * noise), -1.0, 1.0)
    released = points if output == "last" else mean + points / (steps + 1)
    excess = pull * (1.0 - released)
    bound = noisy_descent(c, step_size=size, **known)
    error = excess.std() / math.sqrt(runs)
    assert attained * bound < excess.mean() < bound - 3.0 * error


@given(st.floats(1e-2, 10.0), st.floats(0.0, 0.1))
def test_default_steps_come_within_a_tenth_of_the_limit(ratio, sampled):
    """``sqrt(a/T + r^2)`` at the chosen T against its infimum ``r``, unless there are 10,000."""
    moments = batch_moments("poisson", n=10, batch_size=1 / (sampled + 0.1))
    steps = descent_steps(cls(dim=1), one_step_noise=ratio, moments=moments).steps
    slope = math.sqrt(moments.second_moment / steps + ratio**2) / ratio
    assert slope <= 1.1 * (1 + 1e-9) or steps == 10**4
    assert steps == 1 or moments.second_moment / (steps - 1) >= 0.21 * ratio**2 * (1 - 1e-9)


def schedule(rng, steps):
    """Steps of any sizes: a power, a decay, or numbers at random."""
    times = np.arange(1.0, steps + 1.0)
    kinds = [times ** -rng.uniform(0.0, 1.5), (steps + 1.0 - times) ** rng.uniform(0.0, 2.0),
             rng.lognormal(size=steps)]  # fmt: skip
    sizes = kinds[rng.integers(3)]
    return sizes / sizes.max() * math.exp(rng.normal())


@pytest.mark.parametrize("modulus", [0.0, 0.3])
def test_the_last_iterate_has_its_bound_after_steps_of_any_sizes(modulus):
    """Risks on the line of up to four pieces, 2,000 of them, without noise: an exact search."""
    rng, worst = np.random.default_rng(11), 0.0
    for _ in range(2000):
        steps = int(rng.integers(1, 25))
        sizes = schedule(rng, steps)
        (risk, slope, least), point = piecewise(rng, modulus), 0.0
        for size in sizes:
            point = min(1.0, max(-1.0, point - size * slope(point)))
        start, noise, end = last_iterate(sizes, modulus=modulus)
        bound = start + (noise + end) * (1.0 + modulus) ** 2  # L = 1 + m
        worst = max(worst, (risk(point) - least) / bound)
    assert 0.4 < worst <= 1.0 + 1e-12


@pytest.mark.parametrize("steps", [1, 5, 40])
def test_linear_decay_has_the_coefficients_of_the_average(steps):
    eta = 0.3
    decay = eta * np.arange(steps, 0, -1)
    rough = last_iterate(decay / (steps + 1))
    assert rough.start == pytest.approx(1 / (2 * eta * (steps + 1)), rel=1e-12)
    assert rough.noise + rough.end == pytest.approx(eta / 2, rel=1e-12)
    smooth = last_iterate(decay / steps, smoothness=2.0)
    assert smooth.start == pytest.approx(1 / (2 * eta * steps), rel=1e-12)
    mean = np.mean(eta / (2 * (1 - 2.0 * decay / steps)))
    assert smooth.noise == pytest.approx(mean, rel=1e-12)
    assert smooth.noise <= eta / (2 * (1 - 2.0 * eta)) * (1 + 1e-12)


def test_a_start_that_is_forgotten_stays_above_nothing():
    """Coefficients that fall by tens of orders of magnitude keep their sign and their relation."""
    far = last_iterate(np.full(3000, 0.2), modulus=0.5, smoothness=1.0)
    farther = last_iterate(np.full(4000, 0.2), modulus=0.5, smoothness=1.0)
    assert 0.0 < farther.start < far.start < 1e-100
    assert farther.noise == pytest.approx(far.noise, rel=1e-9)
