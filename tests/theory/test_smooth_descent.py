"""The theorem of smooth noisy descent: its optimum, its limits, and that it is true."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privopt.spec import ProblemClass
from privopt.theory import (
    BatchMoments,
    Exponents,
    OutputRule,
    RadialLoss,
    StepRule,
    batch_moments,
    descent_batch,
    descent_numbers,
    descent_rate,
    descent_steps,
    noisy_descent_on_squares,
)
from privopt.theory.descent import DescentSetting, best_rate, last_iterate, log_factor

positive = st.floats(1e-3, 1e3)
steps_of = st.integers(1, 10**6)


def cls(dim=1, lipschitz=1.0, radius=1.0, smoothness=1.0):
    return ProblemClass(n=10, dim=dim, lipschitz=lipschitz, radius=radius, smoothness=smoothness)


def smooth_descent(facts, *, steps, step_size, noise_std, moments=BatchMoments(1.0, 0.0)):  # noqa: B008
    """Return the bound of the average after each step, without the cap of the set."""
    known = DescentSetting(facts, steps, noise_std, moments)
    rate = best_rate(known, StepRule(step_size), "average_after_step")
    return math.inf if rate is None else rate.uncapped


@given(positive, positive, st.floats(0.0, 1e3), positive, steps_of, st.integers(1, 10**4))
def test_optimal_step_size_gives_the_closed_form(lipschitz, radius, smoothness, sigma, steps, dim):
    """``H R^2/(2T) + R sqrt(V/T)``, and more at any other step size."""
    facts, moments = cls(dim, lipschitz, radius, smoothness), BatchMoments(1.1, 0.1)
    numbers = {"steps": steps, "noise_std": sigma, "moments": moments}
    best = DescentSetting(facts, **numbers).smooth_step
    least = smooth_descent(facts, step_size=best, **numbers)
    variance = 0.1 * lipschitz**2 + dim * sigma**2
    closed = smoothness * radius**2 / (2 * steps) + radius * math.sqrt(variance / steps)
    assert least == pytest.approx(closed, rel=1e-9)
    for factor in (0.5, 0.99, 1.01, 2.0):
        assert smooth_descent(facts, step_size=factor * best, **numbers) >= least * (1 - 1e-12)


def test_nothing_is_claimed_without_smoothness_or_with_long_steps():
    numbers = {"steps": 9, "noise_std": 0.1}
    assert smooth_descent(cls(smoothness=None), step_size=0.1, **numbers) == math.inf
    assert smooth_descent(cls(smoothness=4.0), step_size=0.25, **numbers) == math.inf
    assert smooth_descent(cls(smoothness=4.0), step_size=0.249, **numbers) < math.inf
    silent = numbers | {"noise_std": 0.0}
    assert smooth_descent(cls(smoothness=4.0), step_size=0.25, **silent) < math.inf
    assert smooth_descent(cls(smoothness=4.0), step_size=0.251, **silent) == math.inf
    with pytest.raises(ValueError, match="smoothness must be declared for this step size"):
        assert DescentSetting(cls(smoothness=None), **numbers).smooth_step


def test_linear_losses_without_variance_have_no_longest_step():
    assert DescentSetting(cls(smoothness=0.0), steps=9, noise_std=0.0).smooth_step == math.inf
    numbers = descent_numbers(cls(smoothness=0.0), steps=9, noise_std=0.0)
    size = DescentSetting(cls(), steps=9, noise_std=0.0).convex_step
    assert numbers == (StepRule(0.9 * size, decay=1.0), "last")


def two_point(gradient, value, *, start, steps, step_size, noise):
    """``E F`` on ``[-1, 1]`` over all signs of the noise, of the mean of ``w_2..w_{T+1}``.

    Of the last where steps are several.
    """
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=steps)))
    point, total = np.full(len(signs), start), np.zeros(len(signs))
    for t, size in enumerate(np.broadcast_to(step_size, steps)):
        moved = point - size * (gradient(point) + noise * signs[:, t])
        point = np.clip(moved, -1.0, 1.0)
        total += point
    return float(np.mean(value(point if np.ndim(step_size) else total / steps)))


@pytest.mark.parametrize("modulus", [0.0, 0.3])
@pytest.mark.parametrize("width", [0.03, 0.3])
def test_the_last_iterate_obeys_its_bound_over_all_signs(width, modulus):
    """Add ``(m/2) w^2`` to the risks of the test below.

    Step sizes decay linearly or are arbitrary.
    """
    rng, worst = np.random.default_rng(5), 0.0
    for centre, share, steps, noise in itertools.product(
        (1.0, 0.5, 0.1), (0.05, 0.3, 0.9), (1, 3, 8), (0.05, 0.5, 2.0, 8.0)
    ):
        curve = 1.0 / width + modulus
        for sizes in (np.arange(steps, 0, -1.0) / steps, rng.uniform(0.05, 1.0, size=steps)):
            sizes = sizes / sizes.max() * share / curve

            def risk(w, c=centre):
                bend, far = np.minimum(np.abs(w - c), width), np.abs(w - c)
                return bend**2 / (2 * width) + far - bend + 0.5 * modulus * w**2

            found = two_point(
                lambda w, c=centre: np.clip((w - c) / width, -1.0, 1.0) + modulus * w, risk,
                start=0.0, steps=steps, step_size=sizes, noise=noise,
            )  # fmt: skip
            start, variance, _ = last_iterate(sizes, modulus=modulus, smoothness=curve)
            line = np.linspace(-1.0, 1.0, 2001)
            best = line[risk(line).argmin()]
            bound = start * best**2 + variance * noise**2
            worst = max(worst, (found - risk(best)) / bound)
    assert 0.3 < worst <= 1.0


@pytest.mark.parametrize("modulus", [0.02, 1.0])
def test_strongly_convex_losses_have_a_bound_without_the_square_of_the_slope(modulus):
    """``0.6 sqrt(A) d sigma^2/m`` at default steps, where ``2 G^2/(m (T + 2))`` had ``L^2`` too.

    On squares about the start the exact law is 0.35 of it or more.
    """
    facts = dataclasses.replace(cls(dim=20, smoothness=1.0), strong_convexity=modulus)
    one = 0.01 * modulus / math.sqrt(20)  # z = m R/(sqrt(d) sigma_1) = 100
    steps = descent_steps(facts, one_step_noise=one).steps
    settling = math.log(1 + 100 + 3e4)
    assert steps == math.ceil(2.0 * settling / modulus) < 1100
    known = {"steps": steps, "noise_std": one * math.sqrt(steps)}
    rule, output = descent_numbers(facts, **known)
    assert output == "last"
    assert rule.scale == pytest.approx(settling / (modulus * steps), rel=1e-2)
    rate = descent_rate(facts, step_rule=rule, output=output, **known)
    limit = 20 * one**2 / modulus
    assert rate.upper == pytest.approx(0.6 * math.sqrt(settling) * limit, rel=0.25)
    before = descent_rate(
        facts, step_rule=StepRule.strongly_convex(modulus), output="weighted_average", **known
    )
    assert before.upper > 4.0 * rate.upper
    law = noisy_descent_on_squares(
        RadialLoss(0.0, modulus), dim=20, noise_std=known["noise_std"],
        step_sizes=rule.sizes(steps), weights=np.append(np.zeros(steps), 1.0),
    )  # fmt: skip
    assert 0.3 * rate.upper < law < rate.upper


@pytest.mark.parametrize("ratio", [0.1, 1.0, 30.0])
def test_the_settling_moves_as_is_told(ratio):
    (here, slope), (there, _) = log_factor(ratio), log_factor(ratio * (1.0 + 1e-6))
    assert math.log(there / here) / 1e-6 == pytest.approx(slope, rel=1e-5)


@given(st.floats(1e-3, 1.0), st.floats(1e-3, 10.0), st.floats(1.0, 300.0))
def test_the_strongly_convex_step_is_near_the_best(modulus, ratio, times):
    """Within a tenth of the least bound over steps of linear decay, from 30 ``H/m`` steps on."""
    facts = dataclasses.replace(cls(), strong_convexity=modulus)
    steps = min(3000, math.ceil(max(30.0, times) / modulus))
    if steps < 30.0 / modulus:
        return
    noise = ratio * modulus  # of V = T noise^2
    known = {"steps": steps, "noise_std": noise * math.sqrt(steps)}

    def bound(size):
        decay = size * np.arange(steps, 0, -1) / steps
        start, variance, _ = last_iterate(decay, modulus=modulus, smoothness=1.0)
        return start + variance * known["noise_std"] ** 2

    ours = bound(DescentSetting(facts, **known).strongly_convex_step)
    assert ours <= 1.1 * min(map(bound, np.geomspace(0.01, 0.97, 40)))


@pytest.mark.parametrize("width", [0.03, 0.3, 1.0])
def test_huber_losses_obey_the_bound_over_all_signs(width):
    """Noise ``+-sigma`` and a Huber loss about ``c`` in ``[-1, 1]``: expectations by enumeration.

    Of width ``h``, so ``1/h``-smooth; far from ``c``, linear.
    """
    facts, worst = cls(smoothness=1.0 / width), 0.0
    for centre, share, steps, noise in itertools.product(
        (1.0, 0.5, 0.1, 0.0), (0.02, 0.2, 0.5, 0.9), (1, 3, 8), (0.05, 0.5, 2.0, 8.0)
    ):
        step_size = share * width
        found = two_point(
            lambda w, c=centre: np.clip((w - c) / width, -1.0, 1.0),
            lambda w, c=centre: np.where(
                np.abs(w - c) <= width, (w - c) ** 2 / (2 * width), np.abs(w - c) - width / 2
            ),
            start=0.0, steps=steps, step_size=step_size, noise=noise,
        )  # fmt: skip
        bound = smooth_descent(facts, steps=steps, step_size=step_size, noise_std=noise)
        assert found <= bound * (1 + 1e-12)
        worst = max(worst, found / bound)
    assert worst > 0.2


@pytest.mark.parametrize("steps", [1, 4, 9])
def test_linear_losses_obey_the_bound_at_the_best_step_and_attain_a_third(steps):
    """``-v w`` on ``[-1, 1]``, the pull ``v`` swept. One step is as good as many."""
    facts, worst = cls(smoothness=0.0), 0.0
    for noise in (0.3, 3.0):
        best = DescentSetting(facts, steps=steps, noise_std=noise).smooth_step
        bound = smooth_descent(facts, steps=steps, step_size=best, noise_std=noise)
        for pull in np.geomspace(0.05, 5.0, 25) * noise / math.sqrt(steps):
            found = two_point(
                lambda w, v=pull: np.full_like(w, -v), lambda w, v=pull: v * (1.0 - w),
                start=0.0, steps=steps, step_size=best, noise=noise,
            )  # fmt: skip
            assert found <= bound
            worst = max(worst, found / bound)
    assert worst > 1.0 / 3.0


@pytest.mark.parametrize(("n", "b"), [(4, 1), (5, 2), (6, 6), (7, 4)])
def test_moments_without_replacement_over_all_batches(n, b):
    """Both bounds hold for any unit vectors, and each is attained."""
    moments = batch_moments("without_replacement", n=n, batch_size=b)
    rng = np.random.default_rng(n)
    drawn = rng.normal(size=(n, 3))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    angles = 2 * np.pi * np.arange(n) / n
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=1)  # of mean zero
    for gradients, attained in ((drawn, None), (np.ones((n, 1)), "second"), (ring, "variance")):
        means = [gradients[list(rows)].mean(0) for rows in itertools.combinations(range(n), b)]
        second = np.mean([mean @ mean for mean in means])
        variance = second - np.sum(gradients.mean(0) ** 2)
        assert second <= moments.second_moment + 1e-12
        assert variance <= moments.variance + 1e-12
        if attained == "second":
            assert second == pytest.approx(moments.second_moment, rel=1e-12)
        if attained == "variance":
            assert variance == pytest.approx(moments.variance, rel=1e-12, abs=1e-12)


@given(positive, positive, st.floats(1e-5, 1e-1), st.floats(0.0, 0.1))
def test_default_steps_come_within_half_of_the_limit(smoothness, radius, noise, variance):
    """``B(T) <= 1.5 R sqrt(d) sigma_1``, noise ``sigma_1 sqrt(T)``, unless there are 10,000."""
    facts, moments = cls(9, 1.0, radius, smoothness), BatchMoments(1.0 + variance, variance)
    steps = descent_steps(facts, one_step_noise=noise, moments=moments).steps
    known = {"steps": steps, "noise_std": noise * math.sqrt(steps), "moments": moments}
    bound = best_rate(DescentSetting(facts, **known), *descent_numbers(facts, **known)).uncapped
    assert bound <= 1.5 * radius * 3.0 * noise * (1 + 1e-9) or steps == 10**4


@given(st.floats(1e-4, 1e4), positive, st.floats(1e-4, 1e-1), st.floats(0.0, 0.1))
def test_smoothness_never_costs_steps(smooth, radius, noise, variance):
    facts, moments = cls(9, 1.0, radius, smooth), BatchMoments(1.0 + variance, variance)
    rough = dataclasses.replace(facts, smoothness=None)
    ours, theirs = (
        descent_steps(of, one_step_noise=noise, moments=moments).steps for of in (facts, rough)
    )
    assert ours <= theirs


def test_steps_grow_like_the_root_of_what_they_were():
    """``H R n mu/(2 L sqrt d)`` in place of ``n^2 mu^2/(4 d)``; batches add to either once."""
    one = 2.0 / 1e5 / 0.2  # n = 1e5, mu = 0.2
    facts = cls(dim=100, radius=10.0, smoothness=0.25)
    curved = 2.5 / (10.0 * one)
    assert descent_steps(facts, one_step_noise=one).steps == math.ceil(curved)
    rough = descent_steps(dataclasses.replace(facts, smoothness=None), one_step_noise=one)
    assert rough == (10**4, Exponents())
    assert descent_steps(facts, one_step_noise=one, plain=False) == rough
    whole = dataclasses.replace(facts, radius=math.inf)
    assert descent_steps(whole, one_step_noise=one) == rough
    batch = descent_batch(facts, one_step_noise=one)
    found = descent_steps(facts, one_step_noise=one, moments=BatchMoments(1 + 1 / batch, 1 / batch))
    assert found.steps == math.ceil(2.0 * curved)
    assert found.powers.n == pytest.approx(0.5 * 1.0 + 0.5 * 1.0)
    assert descent_batch(dataclasses.replace(facts, smoothness=None), one_step_noise=one) == 0.0


def test_a_given_step_or_output_is_kept_and_decides_the_other():
    facts = cls(dim=9, smoothness=1.0)
    known = {"steps": 100, "noise_std": 0.1}
    long = descent_numbers(facts, **known, step_rule=StepRule(1.5))
    short = descent_numbers(facts, **known, step_rule=StepRule(0.5))
    assert (long.output, short.output) == ("average", "average_after_step")
    assert (long.step_rule.scale, short.step_rule.scale) == (1.5, 0.5)
    before = descent_numbers(facts, **known, output=OutputRule.AVERAGE)
    assert before.step_rule.scale == DescentSetting(facts, **known).convex_step
    decaying = StepRule(0.1, power=0.5)
    assert descent_numbers(facts, **known, step_rule=decaying) == (decaying, "last")
    last = descent_numbers(facts, **known, output=OutputRule.LAST)
    size = DescentSetting(facts, **known).smooth_step
    assert last == descent_numbers(facts, **known) == (StepRule(size, decay=1.0), "last")
    after = descent_numbers(facts, **known, output=OutputRule.AVERAGE_AFTER_STEP)
    assert after.step_rule == StepRule(size)
    curved = dataclasses.replace(facts, strong_convexity=0.1)
    weighted = descent_numbers(curved, **known, output=OutputRule.WEIGHTED_AVERAGE)
    assert weighted.step_rule == StepRule.strongly_convex(0.1)
    sharp = dataclasses.replace(curved, smoothness=None)
    assert descent_numbers(sharp, **known | {"steps": 10**6}) == weighted
    assert descent_numbers(curved, **known, step_rule=weighted.step_rule) == weighted
    assert descent_numbers(curved, **known, step_rule=StepRule(1.5)) == long


@pytest.mark.parametrize("smoothness", [0.25, 0.3, 7.0])
def test_without_noise_the_step_is_one_over_the_curvature(smoothness):
    """``H R^2/(2 T)``, the limit of the theorem."""
    facts = ProblemClass(n=10, dim=1, lipschitz=20.0, radius=1.0, smoothness=smoothness)
    known = {"steps": 40, "noise_std": 0.0}
    numbers = descent_numbers(facts, output=OutputRule.AVERAGE_AFTER_STEP, **known)
    assert numbers == (StepRule(1.0 / smoothness), "average_after_step")
    rate = descent_rate(facts, **known, **numbers._asdict())
    assert rate.upper == pytest.approx(smoothness / 80, rel=1e-12)
    assert rate.terms[0].powers == Exponents(steps=-1.0)
    curved = dataclasses.replace(facts, strong_convexity=0.1 * smoothness)
    bent = descent_rate(curved, **known, **descent_numbers(curved, **known)._asdict())
    assert 0.0 < bent.upper < rate.upper
