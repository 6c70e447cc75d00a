"""Filters against exact worst cases: adaptive adversaries, plain accounting, compiled loops."""

import dataclasses
import math
import warnings
from fractions import Fraction
from functools import cache
from itertools import product

import dp_accounting as dp
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from events import ADD, EVERY_RELATION, REPLACE, Gaussian, Laplace, Response, Times, Together, bit
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from privopt.privacy.calibration import gaussian_noise_multiplier
from privopt.privacy.filters import GaussianFilter
from privopt.privacy.gaussian import gaussian_delta, gaussian_trade_off
from privopt.privacy.guarantee import Guarantee
from privopt.privacy.mechanisms.base import gaussian_cost, zcdp_cost
from privopt.spec import Budget


def budget(epsilon=1.0, delta=1e-6, relation=REPLACE):
    return Budget(epsilon=epsilon, delta=delta, relation=relation)


def worst_delta(limited, moves, steps=None):
    """``E_P (1 - e^(epsilon - L))_+`` of the best adaptive adversary, exactly.

    ``moves`` are pairs (cost, outcomes). The adversary sees all outputs, and after each picks the
    next release among those the filter admits; this is the maximum over all such decision trees.
    """
    epsilon = limited.budget.epsilon

    @cache
    def value(spent, loss, left):
        best = max(0.0, -math.expm1(epsilon - loss))
        if left == 0:
            return best
        for cost, outcomes in moves:
            if limited.admits(spent, cost):
                after = int(limited.spend(spent, cost))
                total = sum(
                    p * value(after, round(loss + step, 9), left - 1) for p, step in outcomes
                )
                best = max(best, total)
        return best

    return value(limited.spent, 0.0, 60 if steps is None else steps)


def test_the_step_that_would_cross_is_refused_and_a_cheaper_one_is_not():
    limited = GaussianFilter(budget(relation=ADD))
    most = 1.0 / math.sqrt(limited.limit)
    half = Gaussian(most * math.sqrt(2.0) * (1.0 + 1e-12))
    once = limited.after(half)
    assert (limited.remaining, once.remaining) == (1.0, 0.5)  # reading and spending have no effect
    too_much = Gaussian(most * 1.4)
    assert not once.admits(once.state, once.cost(too_much))
    with pytest.raises(ValueError, match=r"release must fit into the remaining 0\.5 of the budget"):
        once.after(too_much)
    quarter = Gaussian(most * 2.0 * (1.0 + 1e-12))
    twice = once.after(quarter).after(quarter)
    assert twice.remaining == 0.0
    assert twice.fits(Gaussian(1e300)) == 0
    assert twice.after(dp.NoOpDpEvent()) == twice
    assert twice.fits(dp.NoOpDpEvent()) == math.inf


@given(st.lists(st.floats(0.0, 1.0), max_size=40), st.integers(1, 10**9))
def test_what_is_admitted_never_exceeds_the_limit(epsilons, units):
    limited = GaussianFilter(budget(), units)
    total = Fraction(0)
    for epsilon in epsilons:
        cost = Fraction(gaussian_cost((epsilon, 0.0), REPLACE))
        if limited.admits(limited.state, limited.cost((epsilon, 0.0))):
            limited, before = limited.after((epsilon, 0.0)), limited
            total += cost
            assert limited.remaining <= before.remaining
        else:
            assert (total + cost) / limited.limit > 1 - Fraction(len(epsilons), units)
    assert total <= limited.limit


HOSTILE = [2**31 - 1, 2**32, 2**32 + 5, 2**33 + 3, 2**62 + 1, 2**100]
NUMBERS = [0, 5, 10**9 - 5, 10**9, 10**9 + 1, *HOSTILE, -(2**31), -(2**63)]
NUMBERS += [-number for number in [1, *HOSTILE]]
WIDTHS = {int: 200, np.int32: 31, np.int64: 63, jnp.int32: 31, jnp.int64: 63}


def holds(kind, number):
    return -(2 ** WIDTHS[kind]) <= number < 2 ** WIDTHS[kind]


@pytest.mark.parametrize("wide", [True, False])
def test_every_pair_of_integers_gives_the_same_answer(wide):
    """A NumPy int64 beside a JAX int32 wrapped: four releases, each beyond all, were admitted."""
    limited = GaussianFilter(budget(), 10**9)
    kinds = [kind for kind in WIDTHS if wide or kind is not jnp.int64]
    with jax.enable_x64(wide):
        for mine, theirs in product(kinds, repeat=2):
            pairs = [
                (mine(spent), theirs(cost))
                for spent in NUMBERS
                for cost in NUMBERS
                if holds(mine, spent) and holds(theirs, cost)
            ]
            # What JAX would cut on its way into a compiled program is a constant of it.
            jitted = jax.jit(lambda pairs=pairs: [limited.spend(*pair) for pair in pairs[::7]])
            compiled = [int(found) for found in jitted()]
            assert compiled == [int(limited.spend(*pair)) for pair in pairs[::7]]
            for spent, cost in pairs:
                admitted = 0 <= spent <= 10**9 and 0 <= int(cost) <= 10**9 - int(spent)
                assert bool(limited.admits(spent, cost)) == admitted, (spent, cost)
                after = limited.spend(spent, cost)
                if 0 <= spent <= 10**9:
                    assert int(after) == int(spent) + int(cost) * admitted, (spent, cost)
                else:  # it never was a ledger, and does not become one
                    assert not limited.admits(after, 0)


def test_integers_that_jax_has_cut_are_refused_by_their_type():
    limited = GaussianFilter(budget())
    with jax.enable_x64(True):
        cost = jnp.int64(2**32)
    with jax.enable_x64(False), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Explicitly requested dtype int64")  # and truncated
        for question in (limited.admits, limited.spend):
            with pytest.raises(ValueError, match="cost must be of signed integers of 32 bits"):
                question(0, cost)


def test_what_a_filter_claims_follows_from_its_budget():
    """``replace(filter, budget=)`` kept the limits and the guarantee of the old one."""
    small, large = budget(0.5, 1e-7, ADD), budget(2.0, 1e-5)
    replaced = dataclasses.replace(GaussianFilter(large), budget=small)
    assert replaced == GaussianFilter(small)
    assert replaced.limit == GaussianFilter(small).limit
    assert replaced.guarantee() == GaussianFilter(small).guarantee()
    assert replaced.guarantee().epsilon(small.delta).upper <= small.epsilon
    with pytest.raises(TypeError, match="limit"):
        dataclasses.replace(replaced, limit=Fraction(9))
    spent = GaussianFilter(large).after(Laplace(100.0))
    for change in ({"budget": small}, {"units": 10}):
        with pytest.raises(ValueError, match="budget and units must stay once"):
            dataclasses.replace(spent, **change)
    assert dataclasses.replace(spent, spent=7).spent == 7


def test_a_ledger_cannot_be_written_below_zero():
    """``replace(f, spent=-(10**9))`` admitted 325 releases for 140."""
    limited = GaussianFilter(budget())
    for spent in (-1, -(10**9), limited.units + 1, 0.5, True, (0, 0)):
        with pytest.raises(ValueError, match=r"spent must (lie in|be an integer)"):
            dataclasses.replace(limited, spent=spent)


def run_compiled(limited, table, key, steps):
    """Try random levels for ``steps`` steps. Return the spent budget and the number of releases."""

    @jax.jit
    def program(table, spent, key):
        def one(carry):
            t, spent, run = carry
            level = jax.random.randint(jax.random.fold_in(key, t), (), 0, table.shape[0])
            go = limited.admits(spent, table[level])
            return t + 1, limited.spend(spent, table[level]), run + go.astype(jnp.int32)

        start = (jnp.int32(0), spent, jnp.int32(0))
        return jax.lax.while_loop(lambda carry: carry[0] < steps, one, start)[1:]

    return program(table, spent=jnp.asarray(limited.state), key=key)


@pytest.mark.parametrize("wide", [True, False])
def test_a_compiled_loop_agrees_with_the_host(wide):
    limited = GaussianFilter(budget(2.0, 1e-5, ADD))
    levels = [Gaussian(40.0 * 2.0**-k) for k in range(6)]
    table, steps = limited.costs(levels), 400
    with jax.enable_x64(wide):
        key = jax.random.key(7)
        spent, run = run_compiled(limited, jnp.asarray(table), key, steps)
        assert spent.dtype == jnp.int32
        draws = [
            int(jax.random.randint(jax.random.fold_in(key, t), (), 0, len(levels)))
            for t in range(steps)
        ]
    host, made = limited, 0
    for level in draws:
        if host.fits(levels[level]) >= 1:
            host, made = host.after(levels[level]), made + 1
    assert 0 < made < steps
    assert made == int(run)
    assert host == limited.resume(spent)


# Equal to plain accounting if no choice is adaptive.
@EVERY_RELATION
@pytest.mark.parametrize("steps", [1, 10, 1000, 10**6])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-10), (1.0, 1e-6), (8.0, 1e-5)])
def test_the_gaussian_filter_at_its_limit_is_the_budget(relation, steps, epsilon, delta):
    limited = GaussianFilter(budget(epsilon, delta, relation))
    z = gaussian_noise_multiplier(limited.budget, steps) * (1.0 + 1e-9)
    assert limited.fits(Gaussian(z)) == steps
    assert limited.fits(Gaussian(z * (1.0 - 1e-8))) < steps
    plain = Guarantee(Gaussian(z), relation).times(steps).epsilon(delta)
    assert plain.lower <= epsilon
    assert plain.upper == pytest.approx(epsilon, rel=1e-8)


@EVERY_RELATION
def test_no_statement_is_above_the_budget(relation):
    b = budget(0.7, 1e-7, relation)
    claim = GaussianFilter(b).guarantee()
    assert claim.relation is relation
    assert claim.epsilon(b.delta).upper <= b.epsilon
    assert claim.epsilon(b.delta).upper == pytest.approx(b.epsilon, rel=1e-8)
    half = GaussianFilter(b).after(Gaussian(100.0))
    assert half.guarantee() == claim  # of the limit, for any spending


def test_exact_costs():
    assert gaussian_cost(Gaussian(3.0), REPLACE) == Fraction(4, 9)
    assert zcdp_cost(Gaussian(3.0), ADD) == Fraction(1, 18)
    assert zcdp_cost(dp.ZCDpEvent(0.25), REPLACE) == 0.25
    many = Times(Together([Laplace(10.0)] * 2), 5)
    assert gaussian_cost(many, REPLACE) == 10 * gaussian_cost(Laplace(10.0), REPLACE)
    mixed = Together([Laplace(10.0), Laplace(5.0), dp.NoOpDpEvent()])
    parts = [Fraction(zcdp_cost(part, ADD)) for part in mixed.events]
    assert zcdp_cost(mixed, ADD) == pytest.approx(float(sum(parts)), rel=1e-14)
    assert zcdp_cost(mixed, ADD) >= sum(parts)
    for cost in (gaussian_cost, zcdp_cost):
        assert cost(dp.NoOpDpEvent(), ADD) == 0
        assert cost(Times(dp.NonPrivateDpEvent(), 0), ADD) == 0
        assert cost(Laplace(0.0), ADD) == math.inf
        assert cost(Laplace(1e-320), ADD) > 1e308
        assert cost(Laplace(math.inf), ADD) == 0
        assert cost(Response(1.0, 2), ADD) == 0
        assert cost(Response(0.0, 2), ADD) == math.inf
        for unknown in (
            dp.NonPrivateDpEvent(),
            Gaussian(-1.0),
            Gaussian(math.nan),
            Laplace(-1.0),
            dp.ZCDpEvent(0.1, 0.1),
            dp.PoissonSampledDpEvent(0.01, Gaussian(1.0)),
            Times(Laplace(1.0), -1),
            Together([Laplace(1.0), dp.UnsupportedDpEvent()]),
            (0.1, 1e-9),
        ):
            assert cost(unknown, ADD) is None


@given(st.floats(-6.0, 1.7), st.floats(-6.0, 4.0))
def test_pure_and_laplace_releases_are_zcdp_at_the_divergence_of_order_one(log_t, log_excess):
    t = 10.0**log_t
    pure, laplace = zcdp_cost((t, 0.0), ADD), zcdp_cost(Laplace(1.0 / t), ADD)
    with mpmath.workdps(60):
        x, s = 1 / mpmath.mpf(1.0 / t), mpmath.mpf(10) ** log_excess
        y, alpha = mpmath.mpf(t), 1 + s
        bit_moment = (mpmath.exp(s * y) + mpmath.exp(-alpha * y)) / (1 + mpmath.exp(-y))
        moment = (alpha * mpmath.exp(s * x) + s * mpmath.exp(-alpha * x)) / (alpha + s)
        assert mpmath.log(bit_moment) / s <= alpha * mpmath.mpf(pure)
        assert mpmath.log(moment) / s <= alpha * mpmath.mpf(laplace)
        kl_bit, kl = y * mpmath.tanh(y / 2), x + mpmath.exp(-x) - 1
        assert kl_bit <= mpmath.mpf(pure) <= kl_bit * (1 + mpmath.mpf(10) ** -14)
        assert kl <= mpmath.mpf(laplace) <= kl * (1 + mpmath.mpf(10) ** -9)


@given(st.floats(-9.0, 2.5))
def test_pure_releases_are_gaussian_dp(log_epsilon):
    epsilon = 10.0**log_epsilon
    squared = gaussian_cost((epsilon, 0.0), ADD)
    with mpmath.workdps(200):
        p = 1 / (1 + mpmath.exp(epsilon))
        assert mpmath.ncdf(-mpmath.sqrt(mpmath.mpf(squared)) / 2) <= p
        slack = mpmath.mpf(10) ** -13 + mpmath.mpf(10) ** -14 / epsilon
        assert mpmath.ncdf(-mpmath.sqrt(mpmath.mpf(squared)) / 2 * (1 - slack)) >= p
    alphas = np.linspace(0.0, 1.0, 101)
    with np.errstate(over="ignore", under="ignore"):
        pure = np.maximum(1 - np.exp(epsilon) * alphas, np.exp(-epsilon) * (1 - alphas))
    assert np.all(gaussian_trade_off(alphas, math.sqrt(squared)) <= np.maximum(pure, 0.0))


def priced(limited, epsilons):
    return [(limited.cost((epsilon, 0.0)), bit(epsilon)) for epsilon in epsilons]


def test_no_adversary_beats_a_filter():
    limited = GaussianFilter(budget(1.5, 0.05), 5040)
    worst = worst_delta(limited, priced(limited, (0.15, 0.3, 0.45)))
    assert 0.05 * 0.05 <= worst <= 0.05  # nor does the filter give away much


def test_adaptive_gaussian_noise_stays_within_the_gaussian_filter():
    """The second noise depends on the first output; delta by quadrature."""
    b = budget(1.0, 1e-3, ADD)
    limited = GaussianFilter(b)
    total = math.sqrt(limited.limit)
    first = 0.6 * total
    rest = math.sqrt(total**2 - first**2)

    def delta(second):
        def integrand(y):
            loss = first * y - 0.5 * first**2
            density = math.exp(-0.5 * (y - first) ** 2) / math.sqrt(2 * math.pi)
            mu = second(y)
            # E_P (1 - e^(eps - L - l))_+ is the curve of the second at eps - L
            left = b.epsilon - loss
            curve = gaussian_delta(left, mu=mu).upper if mu else max(0.0, -math.expm1(left))
            return density * curve

        return integrate.quad(integrand, -12, 12, points=[0.0, 1.0, 3.0], limit=400)[0]

    assert delta(lambda y: rest) == pytest.approx(b.delta, rel=1e-7)
    for threshold in (-1.0, 0.0, 1.0, 3.0):
        assert delta(lambda y, c=threshold: rest if y > c else 0.0) <= b.delta
        assert delta(lambda y, c=threshold: rest if y < c else 0.2 * rest) <= b.delta
    # Spending the maximum *on average* is no filter. This is a counterexample.
    chance = stats.norm.sf(1.5 - first)
    assert delta(lambda y: rest / math.sqrt(chance) if y > 1.5 else 0.0) > 1.5 * b.delta


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="delta must be positive"):
        GaussianFilter(budget(1.0, 0.0))
    for units in (0, 10**9 + 1, 2.5, True):
        with pytest.raises(ValueError, match="units must be an integer"):
            GaussianFilter(budget(), units)
    with pytest.raises(ValueError, match="release must have a cost in this filter"):
        GaussianFilter(budget()).cost(dp.NonPrivateDpEvent())
    once = GaussianFilter(budget()).resume(5)
    for spent in (4, once.units + 1, (5, 5)):
        with pytest.raises(ValueError, match=r"spent must (lie in|be an integer)"):
            once.resume(spent)


def test_a_filter_is_a_value():
    one = GaussianFilter(budget())
    assert one == GaussianFilter(budget())
    assert hash(one) == hash(one.resume(one.state))
    assert one.after((0.1, 0.0)) != one


def test_integers_without_a_sign_are_refused():
    """``units - spent - cost`` wraps around there, and everything would be admitted."""
    limited = GaussianFilter(budget())
    full, cost = np.int32(limited.units), limited.cost(Laplace(30.0))
    assert not limited.admits(full, cost)
    for dtype in (np.uint32, np.uint64, np.int16, np.float64, np.bool_):
        for pair in ((full.astype(dtype), cost), (full, cost.astype(dtype))):
            for question in (limited.admits, limited.spend, jax.jit(limited.admits)):
                with pytest.raises(ValueError, match="must be of signed integers"):
                    question(*pair)
    with pytest.raises(ValueError, match="must be of signed integers"):
        limited.admits(True, cost)
    assert jax.jit(limited.admits)(limited.state, cost)
