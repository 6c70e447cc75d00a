"""Guarantees of single releases: golden values, the definitions with 50 digits, other oracles."""

import math

import dp_accounting as dp
import mpmath
import numpy as np
import pytest
from events import EVERY_RELATION, REPLACE, Gaussian, Laplace, Poisson, Response
from hypothesis import given, settings
from hypothesis import strategies as st
from selection import choose

from privopt.privacy import Guarantee
from privopt.spec import Relation

ONE_RECORD = pytest.mark.parametrize(
    "relation", [Relation.ADD_OR_REMOVE_ONE, Relation.ZERO_OUT], ids=str
)
mp = mpmath.mpf


def gaussian_hockey_stick(mixture, other, z, gamma):
    """Return ``H_gamma`` of two mixtures of Gaussians, ``{mean: weight}``, with increasing loss."""

    def density(weights, x):
        return mpmath.fsum(w * mpmath.npdf(x, m, z) for m, w in weights.items())

    def excess(x):
        return mpmath.log(density(mixture, x) / density(other, x)) - mpmath.log(gamma)

    reach = 60 * z + max(mpmath.fabs(m) for m in (*mixture, *other))
    low, high = -reach, reach
    if excess(low) > 0:
        return 1 - gamma
    if excess(high) <= 0:
        return mp(0)
    for _ in range(75):  # the best test: an error of its place enters squared
        middle = (low + high) / 2
        low, high = (low, middle) if excess(middle) > 0 else (middle, high)

    def tail(weights):
        return mpmath.fsum(w * mpmath.ncdf((m - low) / z) for m, w in weights.items())

    return tail(mixture) - gamma * tail(other)


def lattice_delta(a, shift, epsilon):
    weight = [mpmath.exp(-mp(a) * abs(x)) * mpmath.tanh(mp(a) / 2) for x in range(-160, 161)]
    shifted = [
        mpmath.exp(-mp(a) * abs(x - shift)) * mpmath.tanh(mp(a) / 2) for x in range(-160, 161)
    ]
    gamma = mpmath.exp(epsilon)
    return mpmath.fsum(max(p - gamma * q, mp(0)) for p, q in zip(weight, shifted, strict=True))


@ONE_RECORD
def test_golden_poisson_step(relation):
    delta = Guarantee(Poisson(0.01, Gaussian(1.0)), relation).delta(0.5)
    for end in delta:
        assert end == pytest.approx(2.214519013153e-7, rel=1e-11)


@EVERY_RELATION
def test_golden_gaussian(relation):
    curve = Guarantee(Gaussian(float(relation.multiple)), relation)
    assert curve.delta(1.0).upper == pytest.approx(0.1269367375066, rel=1e-12)
    assert curve.epsilon(1e-5).upper == pytest.approx(4.377178095681, rel=1e-12)


# Noise below 0.03 takes seconds, because the losses are large.
@given(
    st.floats(choose(-2.5, -1.5), 1.5), st.floats(-6.0, -1e-6), st.floats(0.0, 6.0), st.booleans()
)
@settings(max_examples=20)
def test_sampled_gaussian_is_the_worse_of_both_orders(log_z, log_rate, scale, replaced):
    z, q = 10.0**log_z, 10.0**log_rate
    relation = REPLACE if replaced else Relation.ADD_OR_REMOVE_ONE
    with mpmath.workdps(60):
        rate, noise = mp(q), mp(z)
        epsilon = float(mpmath.log(1 + rate * mpmath.expm1(scale / noise + 1 / (2 * noise**2))))
        sampled = {1: rate, 0: 1 - rate}
        other = {-1: rate, 0: 1 - rate} if replaced else {0: mp(1)}
        gamma = mpmath.exp(epsilon)
        removed = gaussian_hockey_stick(sampled, other, noise, gamma)
        # the swapped order, mirrored so that its loss increases
        mirrored = [{-m: w for m, w in weights.items()} for weights in (other, sampled)]
        added = gaussian_hockey_stick(*mirrored, noise, gamma)
        exact = max(removed, added)
        assert removed == exact
        interval = Guarantee(Poisson(q, Gaussian(z)), relation).delta(epsilon)
        assert interval.lower <= exact <= interval.upper
        if exact > 1e-290:
            assert interval.upper - interval.lower <= 2e-4 * exact + 1e-12


@given(st.floats(choose(-2.0, -1.0), 1.5), st.floats(0.0, 3.0), st.integers(1, 60))
@settings(max_examples=8)
def test_fixed_size_sample_is_attained_by_an_explicit_pair(log_z, scale, m):
    """Use records ``-1``, of which one changes to ``1``."""
    z, n = 10.0**log_z, 60
    with mpmath.workdps(60):
        rate, shift = mp(m) / n, 2 / mp(z)
        epsilon = float(mpmath.log(1 + rate * mpmath.expm1(scale * shift + shift**2 / 2)))
        sampled = {shift: rate, 0: 1 - rate} if m < n else {shift: mp(1)}
        exact = gaussian_hockey_stick(sampled, {0: mp(1)}, mp(1), mpmath.exp(epsilon))
        event = dp.SampledWithoutReplacementDpEvent(n, m, Gaussian(z))
        interval = Guarantee(event, REPLACE).delta(epsilon)
        assert interval.lower <= exact <= interval.upper
        if exact > 1e-290:
            assert interval.upper <= exact * (1 + mp("1e-3")) + 1e-12


@EVERY_RELATION
@given(st.floats(-2.0, 2.0), st.floats(0.0, 1.2))
def test_laplace(relation, log_b, fraction):
    b = 10.0**log_b
    with mpmath.workdps(50):
        loss = relation.multiple / mp(b)
        epsilon = float(loss * fraction)
        exact = max(mp(0), -mpmath.expm1((mp(epsilon) - loss) / 2))
        interval = Guarantee(Laplace(b), relation).delta(epsilon)
        assert interval.lower <= exact <= interval.upper
        assert interval.upper - interval.lower <= 1e-14 * (1 + loss)


@pytest.mark.cases(2)
@EVERY_RELATION
@given(
    st.floats(1e-6, choose(1.0, 1.0 - 1e-6)),  # next to 1, an answer takes seconds
    st.integers(2, 50),
    st.floats(0.0, 1.1),
)
@settings(max_examples=choose(30, 12))
def test_randomised_response(relation, p, k, fraction):
    curve = Guarantee(Response(p, k), relation)
    with mpmath.workdps(50):
        truth, lie = 1 - mp(p) + mp(p) / k, mp(p) / k
        epsilon = fraction * float(mpmath.log(truth / lie))
        exact = max(mp(0), truth - mpmath.exp(epsilon) * lie)
        interval = curve.delta(epsilon)
        assert interval.lower <= exact <= interval.upper
        assert interval.upper - interval.lower <= 2e-4 * interval.upper + 1e-12
        least, most = curve.epsilon(0.0)
        assert least <= mpmath.log(truth / lie) <= most <= least * (1.0 + 1e-10) or p == 1.0


@ONE_RECORD
@pytest.mark.parametrize("rate", [1e-3, 0.2, 0.999])
def test_sampled_laplace_is_the_worse_of_both_orders(relation, rate):
    curve = Guarantee(Poisson(rate, Laplace(0.7)), relation)
    x = np.linspace(-30.0, 31.0, 2_000_001)
    without, step = np.exp(-abs(x) / 0.7) / 1.4, x[1] - x[0]
    sampled = (1.0 - rate) * without + rate * np.exp(-abs(x - 1.0) / 0.7) / 1.4
    for epsilon in np.array([0.0, 0.3, 0.9]) * curve.epsilon(0.0).upper:
        gamma = math.exp(epsilon)
        orders = [(sampled - gamma * without), (without - gamma * sampled)]
        exact = max(float(np.maximum(excess, 0.0).sum()) * step for excess in orders)
        assert curve.delta(epsilon).upper == pytest.approx(exact, rel=1e-4, abs=1e-9)


@EVERY_RELATION
def test_gaussians_together_are_one_gaussian(relation):
    several = dp.ComposedDpEvent([dp.SelfComposedDpEvent(Gaussian(2.0), 3), Gaussian(4.0)])
    joint = Gaussian(1.0 / math.sqrt(3 / 4 + 1 / 16))
    for wrap in (lambda event: event, lambda event: Poisson(0.2, event)):
        many, one = Guarantee(wrap(several), relation), Guarantee(wrap(joint), relation)
        assert many.delta(0.7).upper == pytest.approx(one.delta(0.7).upper, rel=1e-12)


def test_a_replaced_record_in_a_poisson_sample_is_no_mere_doubling():
    """The curve is neither that of half the noise nor that of one record, but between them."""
    replaced = Guarantee(Poisson(0.01, Gaussian(1.0)), REPLACE).delta(0.5).lower
    removed = Guarantee(Poisson(0.01, Gaussian(1.0)), Relation.ADD_OR_REMOVE_ONE).delta(0.5).upper
    halved = Guarantee(Poisson(0.01, Gaussian(0.5)), Relation.ADD_OR_REMOVE_ONE).delta(0.5).lower
    assert removed < replaced < halved


@EVERY_RELATION
def test_nothing_told_costs_nothing(relation):
    quiet = [
        dp.NoOpDpEvent(),
        Gaussian(math.inf),
        Laplace(math.inf),
        Poisson(0.0, Gaussian(1.0)),
        Poisson(0.3, dp.NoOpDpEvent()),
        Poisson(0.3, Gaussian(math.inf)),
        Response(1.0, 3),
        dp.SelfComposedDpEvent(Gaussian(0.0), 0),
    ]
    for event in quiet:
        curve = Guarantee(event, relation)
        assert tuple(curve.delta(0.0)) == (0.0, 0.0), event
        assert tuple(curve.epsilon(0.0)) == (0.0, 0.0), event


@EVERY_RELATION
def test_no_noise_costs_everything(relation):
    loud = [
        Gaussian(0.0),
        Laplace(0.0),
        dp.NonPrivateDpEvent(),
        Response(0.0, 3),
        dp.ComposedDpEvent([Gaussian(1.0), dp.NonPrivateDpEvent()]),
    ]
    for event in loud:
        curve = Guarantee(event, relation)
        assert curve.delta(7.0).lower > 1.0 - 1e-12, event
        assert tuple(curve.epsilon(0.5)) == (math.inf, math.inf), event


@EVERY_RELATION
def test_a_sample_without_noise_tells_with_the_probability_of_the_sample(relation):
    curve = Guarantee(Poisson(0.01, Gaussian(0.0)), relation)
    for epsilon in (0.0, 1.0, 50.0):
        assert tuple(curve.delta(epsilon)) == pytest.approx((0.01, 0.01), rel=1e-9)
    assert tuple(curve.epsilon(0.0099)) == (math.inf, math.inf)
    assert tuple(curve.epsilon(0.01 * (1.0 + 1e-9))) == (0.0, 0.0)
