"""Public mixtures: hockey sticks by enumeration and quadrature, curves, coins that are none."""

import math
from itertools import product

import dp_accounting as dp
import mpmath
import numpy as np
import pytest
from builders import dominating_pairs
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from events import ADD, REPLACE, FixedSize, Gaussian, Laplace, Poisson, Response, Times, Together
from scipy.integrate import quad
from scipy.stats import norm

from privopt.accounting import ACCOUNTANTS
from privopt.privacy import (
    Fourier,
    GaussianDP,
    Guarantee,
    PublicMixtureDpEvent,
    PureDP,
    Renyi,
    calibrate,
    gaussian_delta,
    pure_event,
    renyi_divergence,
)
from privopt.privacy.accountants import Mixture
from privopt.privacy.flatten import flatten
from privopt.privacy.mechanisms.base import zcdp_cost
from privopt.privacy.mechanisms.mixtures import MixedPair
from privopt.spec import Budget, Relation

FixedSize, Coin, Gaussian = (FixedSize, PublicMixtureDpEvent, Gaussian)


def level(size, batch, base, noise):
    """Two of three releases see a record of the batch; beside them one of a base batch."""
    pair = FixedSize(size, batch, Gaussian(noise / math.sqrt(2.0)))
    return Together([pair, FixedSize(size, base, Gaussian(noise))])


def multilevel(size, base, noise):
    """One step of a bias-reduced estimator: levels ``k`` of probability about ``2^-(k+1)``."""
    levels = (size // base).bit_length() - 1
    shares = 0.5 ** np.arange(levels)
    events = tuple(level(size, base * 2 ** (k + 1), base, noise) for k in range(levels))
    return Coin(events, tuple((shares / shares.sum()).tolist()))


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 2.0, 6.0])
def test_one_mixture_has_the_mean_of_the_profiles(epsilon):
    sides, law = (Gaussian(2.0), Gaussian(0.5), Gaussian(40.0)), (0.6, 0.1, 0.3)
    exact = sum(
        p * gaussian_delta(epsilon, mu=1.0 / z).upper
        for p, z in zip(law, (2, 0.5, 40), strict=True)
    )
    event = Coin(sides, law)
    for accountant in (Mixture(), Fourier(1e-6)):
        found = accountant.delta(event, ADD, epsilon)
        assert found.lower * (1.0 - 1e-9) <= exact <= found.upper * (1.0 + 1e-9)
        assert found.upper == pytest.approx(exact, rel=1e-5)
        lower, upper = accountant.epsilon(event, ADD, exact)
        assert lower - 1e-7 <= epsilon <= upper + 1e-7


def test_a_composition_against_all_outcomes():
    """Randomised responses behind a coin, three times: every outcome is enumerated."""
    law, losses = (0.7, 0.2, 0.1), (0.1, 0.6, 1.5)
    outcomes = []
    for share, loss in zip(law, losses, strict=True):
        truth = 1.0 / (1.0 + math.exp(-loss))
        outcomes += [(share * truth, loss), (share * (1.0 - truth), -loss)]
    sides = tuple(Response(2.0 / (1.0 + math.exp(t)), 2) for t in losses)
    event = Times(Coin(sides, law), 3)
    for epsilon in (0.0, 0.5, 1.7, 4.0):
        exact = sum(
            math.prod(p for p, _ in each)
            * max(0.0, 1.0 - math.exp(epsilon - sum(t for _, t in each)))
            for each in product(outcomes, repeat=3)
        )
        found = Fourier(1e-5).delta(event, ADD, epsilon)
        assert found.lower <= exact * (1.0 + 1e-12)
        assert exact * (1.0 - 1e-12) <= found.upper <= exact * (1.0 + 1e-3)
    assert PureDP().epsilon(event, ADD, 0.0).upper == pytest.approx(4.5)


def test_each_order_of_the_neighbours_is_mixed_by_itself():
    """Two Poisson samples behind a coin; the worse order is not the worse of each."""
    law, rates, noises = (0.8, 0.2), (0.9, 0.05), (1.0, 0.6)

    def stick(gamma, rate, z, swapped):
        def excess(x):
            plain = norm.pdf(x, 0.0, z)
            mixed = (1.0 - rate) * plain + rate * norm.pdf(x, 1.0, z)
            p, q = (plain, mixed) if swapped else (mixed, plain)
            return max(0.0, p - gamma * q)

        return quad(excess, -12.0, 12.0, points=[-2.0, 0.0, 0.5, 1.0, 2.0], limit=400)[0]

    sides = tuple(Poisson(q, Gaussian(z)) for q, z in zip(rates, noises, strict=True))
    for epsilon in (0.05, 0.3, 1.0):
        exact = max(
            sum(
                p * stick(math.exp(epsilon), q, z, swapped)
                for p, q, z in zip(law, rates, noises, strict=True)
            )
            for swapped in (False, True)
        )
        found = Fourier(1e-6).delta(Coin(sides, law), ADD, epsilon)
        assert found.lower <= exact * (1.0 + 1e-5)
        assert exact * (1.0 - 1e-5) <= found.upper <= exact * (1.0 + 1e-5)


def test_what_all_sides_share_is_composed_with_the_mixture_of_the_rest():
    whole, single = multilevel(64, 2, 3.0), FixedSize(64, 2, Gaussian(3.0))
    rest = Coin(tuple(each.events[0] for each in whole.events), whole.probabilities)
    apart = Together([rest, single])
    assert sorted(map(repr, flatten(whole))) == sorted(map(repr, flatten(apart)))
    for accountant in (Fourier(), Renyi()):
        ours, theirs = (
            accountant.epsilon(Times(each, 9), REPLACE, 1e-6) for each in (whole, apart)
        )
        assert ours == theirs
    twice = Coin((Together([single, single, Gaussian(2.0)]), Times(single, 3)), (0.5, 0.5))
    shares = {repr(leaf): count for leaf, count in flatten(twice)}
    assert shares[repr(single)] == 2
    assert len(shares) == 2
    same = Coin((Gaussian(2.0), Times(Gaussian(2.0), 1)), (0.3, 0.7))
    assert list(flatten(same)) == [(Gaussian(2.0), 1)]
    assert GaussianDP().supports(Times(same, 7), ADD)


def test_divergences_against_fifty_digits():
    law, noises = (0.5, 0.499, 1e-3), (1e6, 20.0, 0.3)
    orders = np.array([1.0 + 1e-6, 1.5, 8.0, 300.0])
    event = Coin(tuple(map(Gaussian, noises)), law)
    with mpmath.workdps(50):
        exact = [
            float(
                mpmath.log(
                    mpmath.fsum(
                        p * mpmath.exp((a - 1) * a / (2 * mpmath.mpf(z) ** 2))
                        for p, z in zip(law, noises, strict=True)
                    )
                    / mpmath.fsum(law)
                )
                / (mpmath.mpf(a) - 1)
            )
            for a in map(mpmath.mpf, orders.tolist())
        ]
    found = renyi_divergence(event, ADD, orders)
    assert np.all(found >= np.array(exact))
    assert found == pytest.approx(exact, rel=1e-11)
    tiny = renyi_divergence(Coin((Gaussian(1e160), Gaussian(math.inf)), (0.5, 0.5)), ADD, [2.0])
    assert 0.0 < tiny[0] < 1e-280
    without = renyi_divergence(Coin((Gaussian(0.0), Gaussian(1.0)), (1e-9, 1.0 - 1e-9)), ADD, [2.0])
    assert without[0] == math.inf


def test_the_multilevel_step_needs_less_noise_by_its_loss_distribution():
    """``T = 2n / ln(4 / delta)`` steps; another integration of divergences says 2 x 9.5."""
    size, delta, steps = 2**12, 0.5**25, 437
    budget = Budget(epsilon=1.0, delta=delta, relation=REPLACE)

    def run(noise):
        return Times(multilevel(size, 1, noise), steps)

    fourier, renyi = (calibrate(run, budget, accountant=each) for each in (None, "renyi"))
    assert renyi == pytest.approx(2.0 * 9.5, rel=0.02)
    assert fourier < 0.89 * renyi
    spent = Guarantee(run(fourier), REPLACE).epsilon(delta)
    assert 0.98 < spent.lower < spent.upper <= 1.0


def test_costs_of_pure_and_concentrated_sides():
    event = Coin((pure_event(0.5), Together([pure_event(0.25)] * 3)), (0.9, 0.1))
    assert Guarantee(event, ADD).epsilon(0.0).upper == pytest.approx(0.75)
    assert zcdp_cost(Coin((Gaussian(2.0), Gaussian(1.0)), (0.9, 0.1)), ADD) == pytest.approx(0.5)
    assert zcdp_cost(multilevel(16, 1, 2.0), REPLACE) is None


def test_a_mixture_of_mixtures_is_a_mixture():
    inner = Coin((Gaussian(1.0), Gaussian(2.0)), (0.25, 0.75))
    nested = Times(Coin((inner, Gaussian(4.0)), (0.4, 0.6)), 5)
    flat = Times(Coin(tuple(map(Gaussian, (1.0, 2.0, 4.0))), (0.1, 0.3, 0.6)), 5)
    ours, theirs = (Guarantee(each, ADD).epsilon(1e-6) for each in (nested, flat))
    assert ours.upper == pytest.approx(theirs.upper, rel=1e-5)
    assert ours.lower == pytest.approx(theirs.lower, rel=1e-5)


def test_a_side_that_never_comes_up_costs_nothing_and_half_a_coin_everything():
    plain = Coin((Gaussian(2.0), Gaussian(1.0)), (0.5, 0.5))
    with_more = Coin((*plain.events, dp.UnsupportedDpEvent(), Gaussian(0.0)), (0.5, 0.5, 0.0, 0.0))
    assert Guarantee(with_more, ADD).epsilon(1e-6) == Guarantee(plain, ADD).epsilon(1e-6)
    short = Guarantee(Coin(plain.events, (0.5, 0.5 - 1e-10)), ADD)
    assert short.delta(50.0).upper == pytest.approx(1e-10, rel=1e-5)
    assert short.epsilon(1e-11).upper == math.inf
    everywhere = Coin((Gaussian(2.0), Gaussian(2.0)), (0.5, 0.5 - 1e-10))
    assert Guarantee(everywhere, ADD).epsilon(1e-11).lower == math.inf
    tenths = Coin(tuple(Gaussian(float(z)) for z in range(1, 11)), (0.1,) * 10)
    assert dominating_pairs(tenths, ADD)[0].attained is not None


@pytest.mark.parametrize("accountant", ACCOUNTANTS, ids=lambda each: each.name)
def test_coins_that_are_none_are_supported_by_nobody(accountant):
    two = (Gaussian(1.0), Gaussian(2.0))
    for events, law in (
        (two, (0.5, 0.4)),
        (two, (0.5, 0.5 + 1e-12)),
        (two, (0.5,)),
        (two, (1.5, -0.5)),
        (two, (math.nan, 0.5)),
        ((), ()),
        ((Gaussian(1.0), 2.0), (0.5, 0.5)),
        ((Gaussian(1.0), Gaussian(-2.0)), (0.5, 0.5)),
        (two, 0.5),
    ):
        assert not accountant.supports(Coin(events, law), ADD)


def test_full_batches_and_extreme_noise():
    assert dominating_pairs(multilevel(16, 16, 2.0), REPLACE) is None  # no level fits
    full = Coin((FixedSize(8, 8, Gaussian(2.0)), FixedSize(8, 4, Gaussian(2.0))), (0.5, 0.5))
    exact = 0.5 * gaussian_delta(0.5, mu=1.0).upper
    assert exact < Guarantee(full, REPLACE).delta(0.5).upper < 2.0 * exact
    for noise, bound in ((1e12, 1e-9), (math.inf, 0.0)):
        assert (
            Guarantee(Times(multilevel(64, 1, noise), 2**17), REPLACE).epsilon(1e-6).upper <= bound
        )
    assert Guarantee(multilevel(64, 1, 1e-3), REPLACE).epsilon(1e-6).upper > 1e5
    small = Guarantee(Times(multilevel(64, 1, 30.0), 50), REPLACE)
    assert small.epsilon(1e-30).lower > 0.97 * small.epsilon(1e-30).upper
    assert small.delta(200.0).upper < 1e-200


def test_pairs_reverse_and_merge():
    first, second = (dominating_pairs(Poisson(q, Gaussian(1.0)), ADD) for q in (0.1, 0.4))
    removed, added = dominating_pairs(
        Coin(tuple(Poisson(q, Gaussian(1.0)) for q in (0.1, 0.4)), (0.5, 0.5)), ADD
    )
    assert removed == MixedPair((first[0], second[0]), (0.5, 0.5))
    assert removed.reverse() == added
    assert added.reverse() == removed
    assert MixedPair.of([first[0], first[0]], (0.25, 0.75)) == first[0]


def test_dp_accounting_is_told_and_refuses():
    event = Times(Coin((Gaussian(2.0), Laplace(3.0)), (0.5, 0.5)), 3)
    guarantee = Guarantee(event, REPLACE)
    told, theirs = guarantee.exported()
    assert told.event.events == (Gaussian(1.0), Laplace(1.5))
    for accountant in (PLDAccountant, RdpAccountant):
        assert not accountant(neighboring_relation=theirs).supports(told)
    again = Guarantee(told, Relation.ZERO_OUT).epsilon(1e-6)
    assert again.upper == pytest.approx(guarantee.epsilon(1e-6).upper, rel=1e-6)
    with pytest.raises(ValueError, match="UnsupportedDpEvent"):
        Guarantee(Coin((Gaussian(1.0), dp.UnsupportedDpEvent()), (0.5, 0.5)), ADD).exported()
