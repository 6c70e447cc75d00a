"""The Fourier accountant against golden values, closed forms, other accountants and itself."""

import math
from functools import reduce

import dp_accounting as dp
import mpmath
import numpy as np
import pytest
from events import ADD, OUT, REPLACE, Gaussian, Laplace, Poisson, Response, Times, Together, sgd

from privopt.privacy import GaussianDP
from privopt.privacy.accountants.fourier import Fourier, _orders
from privopt.privacy.fourier.search import AtDelta, AtEpsilon, _Search

FOURIER, EXACT = Fourier(), GaussianDP()


def overlap(a, b):
    return a.lower <= b.upper and b.lower <= a.upper


FIXED = Times(dp.SampledWithoutReplacementDpEvent(100, 1, Gaussian(2.0)), 1000)
GOLDEN = [
    (sgd(1.0, 0.01, 1000), ADD, 1e-5, 1.828231, 1.828237),
    (sgd(1.0, 0.01, 1000), ADD, 1e-10, 3.290438, 3.290444),
    (sgd(1.0, 0.01, 1000), ADD, 1e-15, 4.854532, 4.854539),
    (sgd(1.0, 0.01, 1000), REPLACE, 1e-5, 2.843439, 2.843441),
    (Times(Laplace(10.0), 100), ADD, 1e-6, 4.692666, 4.692668),
    (Together([Times(Gaussian(5.0), 10), Laplace(2.0)]), ADD, 1e-6, 3.335159, 3.335161),
    (sgd(2.0, 0.05, 1000), ADD, 1e-6, 4.162605, 4.162607),
    (sgd(0.5, 0.001, 2000), ADD, 1e-5, 3.653355, 3.653357),
    # Bu, Dong, Long and Su, "Deep learning with Gaussian differential privacy", their runs
    (sgd(1.3, 256 / 60000, 3516), ADD, 1e-5, 0.86450, 0.86454),
    (sgd(0.55, 256 / 29305, 2061), ADD, 1e-5, 11.8072, 11.8073),
    (sgd(0.6, 1 / 80, 1600), ADD, 1e-6, 12.7494, 12.7495),
    (sgd(0.5, 256 / 60000, 23438), ADD, 1e-5, 28.0391, 28.0460),
]


@pytest.mark.cases(4)
@pytest.mark.parametrize(("event", "relation", "delta", "low", "high"), GOLDEN)
def test_golden_epsilon(event, relation, delta, low, high):
    coarse = FOURIER.epsilon(event, relation, delta)
    assert coarse.lower <= high
    assert low <= coarse.upper <= coarse.lower * 1.0012
    fine = Fourier(1e-6).epsilon(event, relation, delta)
    assert low - 2e-6 * low <= fine.lower <= fine.upper <= high + 1e-5 * high


def test_golden_delta():
    one = Poisson(0.01, Gaussian(1.0))
    assert FOURIER.delta(one, ADD, 0.5).contains(2.214519013153e-7)
    assert FOURIER.delta(Times(one, 1000), ADD, 1.0).contains(2.61242e-3)


def test_golden_fixed_batches():
    lower, upper = Fourier(1e-5).epsilon(FIXED, REPLACE, 1e-5)
    assert 1.8282 < lower < 1.82824
    assert 2.1989 < upper < 2.19893


@pytest.mark.parametrize("steps", [1, 30, 10**6])
@pytest.mark.parametrize("mu", [0.02, 0.3, 1.6, 9.0])
def test_composed_gaussians_lie_inside(mu, steps):
    event = Times(Gaussian(math.sqrt(steps) / mu), steps)
    for delta in (0.9, 0.1, 1e-3, 1e-8, 1e-50, 1e-250):
        if steps == 10**6 and delta not in (0.1, 1e-50):
            continue
        found, exact = (each.epsilon(event, ADD, delta) for each in (FOURIER, EXACT))
        assert overlap(found, exact), (delta, found, exact)
        assert found.upper <= max(found.lower * 1.03, 1e-3 * mu + found.lower)
    for epsilon in (0.0, 0.5 * mu, mu * mu + 2.0 * mu, 20.0 * mu)[: 4 if steps < 10**6 else 2]:
        found, exact = (each.delta(event, OUT, epsilon) for each in (FOURIER, EXACT))
        assert overlap(found, exact), (epsilon, found, exact)
        assert found.upper <= found.lower * 1.05 or exact.upper < 1e-280


@pytest.mark.parametrize("mu", [1e-7, 1e-5, 1e-3])
def test_tiny_distances(mu):
    for standard in (0.0, 1.0, 6.0):
        found, exact = (f.delta(Gaussian(1.0 / mu), ADD, standard * mu) for f in (FOURIER, EXACT))
        assert overlap(found, exact)
        assert found.upper <= 1.1 * found.lower


def test_a_billion_steps():
    event = Times(Gaussian(math.sqrt(1e9)), 10**9)
    assert overlap(FOURIER.epsilon(event, ADD, 1e-5), EXACT.epsilon(event, ADD, 1e-5))
    for steps in (10**13, 10**18):
        event = Times(Gaussian(math.sqrt(steps)), steps)
        assert overlap(FOURIER.epsilon(event, ADD, 1e-5), EXACT.epsilon(event, ADD, 1e-5))
        samples = Times(Poisson(0.5, Gaussian(1e7)), steps)
        assert tuple(FOURIER.epsilon(samples, ADD, 1e-5)) == (0.0, math.inf)
        assert tuple(FOURIER.delta(samples, ADD, 1.0)) == (0.0, 1.0)


def test_deltas_too_small_are_bracketed_and_never_jump():
    event = sgd(1.0, 0.02, 100)
    deltas = np.geomspace(1e-280, 1e-5, 56)
    ends = np.array([tuple(FOURIER.epsilon(event, ADD, delta)) for delta in deltas.tolist()])
    assert np.all(ends[:-1, 1] >= ends[1:, 0])  # delta larger, epsilon smaller
    assert np.all(np.diff(ends[:, 1]) < 0.05)
    assert np.all(ends[:, 0] <= ends[:, 1])
    known = deltas > 1e-250
    assert np.all(ends[known, 1] <= ends[known, 0] * 1.0015)


@pytest.mark.parametrize("steps", [2, 40, 1000])
def test_randomised_response_against_binomial_sums(steps):
    """Compare with the optimum of Kairouz, Oh and Viswanath.

    It has 40 digits, far below float resolution.
    """
    with mpmath.workdps(40):
        p = mpmath.mpf(0.75) + mpmath.mpf(0.125)
        q = 1 - p
        unit = mpmath.log(p / q)
        event = Times(Response(0.25, 2), steps)
        for share in (0.2, 0.8, 0.98):
            epsilon = float(share * steps * unit)
            exact = mpmath.fsum(
                mpmath.binomial(steps, k)
                * p ** (steps - k)
                * q**k
                * -mpmath.expm1(epsilon - (steps - 2 * k) * unit)
                for k in range(steps + 1)
                if (steps - 2 * k) * unit > epsilon
            )
            lower, upper = FOURIER.delta(event, ADD, epsilon)
            assert lower <= exact <= upper <= lower * 1.01


@pytest.mark.parametrize("steps", [1, 2])
def test_the_order_that_is_worse_in_one_sampled_step_is_not_in_two(steps):
    """A record removed from one, added to two (Lebeda, Regehr, Kamath and Steinke 2024)."""
    absent, present = np.array([0.85, 0.15]), np.array([0.15, 0.85])
    sampled = 0.9 * present + 0.1 * absent
    p, q = (reduce(np.kron, [law] * steps) for law in (sampled, absent))
    removed, added = (np.maximum(a - np.e * b, 0.0).sum() for a, b in ((p, q), (q, p)))
    assert (added > 1.05 * removed) == (steps == 2)
    lower, upper = FOURIER.delta(Times(Poisson(0.9, Response(0.3, 2)), steps), ADD, 1.0)
    assert lower <= max(removed, added) <= upper <= lower * 1.001


EVENTS = [
    sgd(0.8, 0.05, 200),
    Together([sgd(1.5, 0.2, 30), Times(Laplace(4.0), 5), Gaussian(3.0)]),
    Together([Times(Poisson(0.3, Laplace(2.0)), 20), Response(0.5, 4)]),
]


@pytest.mark.cases(4)
@pytest.mark.parametrize("event", [*EVENTS, FIXED])
@pytest.mark.parametrize("delta", [1e-4, 1e-30])
def test_accuracies_agree(event, delta):
    relation = REPLACE if event is FIXED else ADD
    found = [
        Fourier(10.0**-k).epsilon(event, relation, delta)
        for k in ((1, 2, 4) if event is FIXED else (1, 3, 5))
    ]
    assert max(each.lower for each in found) <= min(each.upper for each in found)
    one_sided = Fourier(1e-3, two_sided=False).epsilon(event, relation, delta)
    assert one_sided.lower == 0.0
    assert one_sided.upper >= found[-1].lower


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("query", [AtDelta(1e-6, 0.0), AtEpsilon(2.0)])
def test_the_two_lattices_never_contradict_each_other(event, query):
    """Each raw answer, before ends are put in order."""
    for order in _orders(event, ADD):
        search = _Search(order.dominating, query, 1e-3)
        raw = [
            search.query.read(composition, sign, blur)
            for accuracy in (0.1, 1e-3, 1e-5)
            for (composition, blur), sign in zip(
                search.compositions(search.spacing(accuracy), (-1.0, 1.0)), (-1.0, 1.0), strict=True
            )
        ]
        assert max(raw[::2]) <= min(raw[1::2])
