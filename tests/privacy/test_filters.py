"""Filters against exact worst cases: adaptive adversaries, plain accounting, compiled loops."""

import dataclasses
import math
import warnings
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product

import dp_accounting as dp
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from privopt.privacy.adaptive.costs import gaussian_cost, pure_cost, renyi_cost, zcdp_cost
from privopt.privacy.adaptive.filters import (
    _RenyiRule,
    gaussian_filter,
    pure_filter,
    renyi_filter,
)
from privopt.privacy.adaptive.privacy_filter import PrivacyFilter
from privopt.privacy.calibration import gaussian_noise_multiplier
from privopt.privacy.gaussian import gaussian_delta, gaussian_trade_off
from privopt.privacy.guarantee import Guarantee
from privopt.spec import Budget, Relation

REPLACE, ADD = Relation.REPLACE_ONE, Relation.ADD_OR_REMOVE_ONE
RELATIONS = pytest.mark.parametrize("relation", list(Relation))


def budget(epsilon=1.0, delta=1e-6, relation=REPLACE):
    return Budget(epsilon=epsilon, delta=delta, relation=relation)


# --- mechanisms small enough to enumerate ---------------------------------------------------------


@dataclass(frozen=True)
class Finite(dp.DpEvent):
    """A release with finitely many outcomes: probabilities under P and Q."""

    p: tuple[float, ...]
    q: tuple[float, ...]

    @property
    def outcomes(self):
        """``(probability under P, loss)`` of every outcome that P can show."""
        return [
            (p, math.log(p / q) if q else math.inf)
            for p, q in zip(self.p, self.q, strict=True)
            if p
        ]

    @property
    def reversed(self):
        return Finite(self.q, self.p)


def divergence(event, relation, alpha):
    """Renyi divergence of a ``Finite`` event, the larger of the two orders."""
    p, q = np.array(event.p), np.array(event.q)
    both = (np.sum(a**alpha * b ** (1.0 - alpha)) for a, b in ((p, q), (q, p)))
    return max(math.log(moment) for moment in both) / (alpha - 1.0) * (1.0 + 1e-12) + 1e-15


def bit(epsilon):
    truth = 1.0 / (1.0 + math.exp(-epsilon))
    return Finite((truth, 1.0 - truth), (1.0 - truth, truth))


def failing_bit(epsilon, delta):
    """The worst ``(epsilon, delta)``-DP release: a bit that tells all with probability delta."""
    p, q = bit(epsilon).p
    return Finite(
        ((1 - delta) * p, (1 - delta) * q, delta, 0), ((1 - delta) * q, (1 - delta) * p, 0, delta)
    )


def spike(p, loss):
    """Loss ``loss`` with probability ``p``, next to none otherwise."""
    return Finite((p, 1.0 - p), (p * math.exp(-loss), 1.0 - p * math.exp(-loss)))


def worst_delta(limited, moves, steps=None):
    """``E_P (1 - e^(epsilon - L))_+`` of the best adaptive adversary, exactly.

    ``moves`` are pairs (cost, outcomes). The adversary sees all outputs, and after each picks the
    next release among those the filter admits; this is the maximum over all such decision trees.
    """
    epsilon = limited.budget.epsilon

    @cache
    def value(spent, loss, left):
        if loss == math.inf:
            return 1.0
        best = max(0.0, -math.expm1(epsilon - loss))
        if left == 0:
            return best
        state = np.array(spent, dtype=np.int64)
        state = state if state.size > 1 else state[0]
        for cost, outcomes in moves:
            if limited.admits(state, cost):
                after = tuple(np.atleast_1d(limited.spend(state, cost)).tolist())
                total = sum(
                    p * value(after, round(loss + step, 9), left - 1) for p, step in outcomes
                )
                best = max(best, total)
        return best

    return value(limited.spent, 0.0, 60 if steps is None else steps)


# --- the rule itself ------------------------------------------------------------------------------


def test_the_step_that_would_cross_is_refused_and_a_cheaper_one_is_not():
    limited = pure_filter(budget(1.0, 0.0, ADD))
    once = limited.after(dp.LaplaceDpEvent(2.0))
    assert (limited.remaining, once.remaining) == (1.0, 0.5)  # reading and spending change nothing
    assert not once.admits(once.state, once.cost(dp.LaplaceDpEvent(1.9)))
    with pytest.raises(ValueError, match=r"release must fit into the remaining 0\.5 of the budget"):
        once.after(dp.LaplaceDpEvent(1.9))
    twice = once.after(dp.LaplaceDpEvent(4.0)).after(dp.LaplaceDpEvent(4.0))
    assert twice.remaining == 0.0
    assert twice.fits(dp.LaplaceDpEvent(1e300)) == 0
    assert twice.after(dp.NoOpDpEvent()) == twice
    assert twice.fits(dp.NoOpDpEvent()) == math.inf


@pytest.mark.parametrize("steps", [1, 2, 3, 10, 60, 1000])
def test_an_even_plan_fits_to_the_last_release(steps):
    limited = pure_filter(budget(1.0, 0.0, ADD))
    assert limited.fits(dp.LaplaceDpEvent(float(steps))) == steps
    assert limited.fits(dp.LaplaceDpEvent(math.nextafter(steps, 0.0))) == steps - 1


@given(st.lists(st.floats(0.0, 2.0), max_size=40), st.integers(1, 10**9))
def test_what_is_admitted_never_exceeds_the_limit(epsilons, units):
    limited = pure_filter(budget(1.0, 0.0), units)
    total = Fraction(0)
    for epsilon in epsilons:
        if limited.admits(limited.state, limited.cost((epsilon, 0.0))):
            limited, before = limited.after((epsilon, 0.0)), limited
            total += Fraction(epsilon)
            assert limited.remaining <= before.remaining
        else:
            assert total + Fraction(epsilon) > 1 - Fraction(len(epsilons), units)
    assert total <= 1


HOSTILE = [2**31 - 1, 2**32, 2**32 + 5, 2**33 + 3, 2**62 + 1, 2**100]
NUMBERS = [0, 5, 10**9 - 5, 10**9, 10**9 + 1, *HOSTILE, -(2**31), -(2**63)]
NUMBERS += [-number for number in [1, *HOSTILE]]
WIDTHS = {int: 200, np.int32: 31, np.int64: 63, jnp.int32: 31, jnp.int64: 63}


def holds(kind, number):
    return -(2 ** WIDTHS[kind]) <= number < 2 ** WIDTHS[kind]


@pytest.mark.parametrize("wide", [True, False])
def test_every_pair_of_integers_gives_the_same_answer(wide):
    """A NumPy int64 beside a JAX int32 wrapped: four releases, each beyond all, were admitted."""
    limited = pure_filter(budget(1.0, 0.0), 10**9)
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


SOME = [0, 1, 400, 1001, *HOSTILE[:-1], -3, -(2**33)]


@dataclass(frozen=True)
class Limits:
    """A rule of its own, of which some limit must hold."""

    numbers: tuple[Fraction, ...]

    def costs(self, release, relation):
        return (0.1,) * len(self.numbers)

    def limits(self, budget):
        return self.numbers

    def event(self, budget):
        return None


@pytest.mark.parametrize("wide", [True, False])
@given(st.lists(st.tuples(*[st.sampled_from(SOME)] * 3), max_size=12))
def test_several_limits_follow_their_rule(wide, costs):
    limited = PrivacyFilter(budget(1.0, 0.0), Limits((Fraction(1),) * 3), 1000)
    with jax.enable_x64(wide):
        states = [np.zeros(3, np.int32), np.zeros(3, np.int64), jnp.zeros(3, jnp.int32)]
        naive = [0, 0, 0]
        for cost in costs:
            after = [s + c for s, c in zip(naive, cost, strict=True)]
            admitted = min(cost) >= 0 and min(after) <= 1000
            naive = [min(s, 1001) for s in after] if admitted else naive
            for i, state in enumerate(states):
                priced = np.array(cost, np.int64)
                assert bool(limited.admits(state, priced)) == admitted
                states[i] = limited.spend(state, priced)
                assert states[i].tolist() == naive


def test_integers_that_jax_has_cut_are_refused_by_their_type():
    limited = pure_filter(budget())
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
    for make in (gaussian_filter, pure_filter, lambda b: renyi_filter(b, (60.0,), renyi_cost)):
        replaced = dataclasses.replace(make(large), budget=small)
        assert replaced == make(small)
        assert (replaced.limits, replaced.guarantee()) == (
            make(small).limits,
            make(small).guarantee(),
        )
        assert replaced.guarantee().epsilon(small.delta).upper <= small.epsilon
        with pytest.raises(TypeError, match="limits"):
            dataclasses.replace(replaced, limits=(Fraction(9),))
        spent = make(large).after(dp.LaplaceDpEvent(100.0))
        for change in ({"budget": small}, {"units": 10}, {"rule": Limits((Fraction(1),))}):
            with pytest.raises(ValueError, match="budget, rule and units must stay once"):
                dataclasses.replace(spent, **change)
        assert dataclasses.replace(spent, spent=(7,)).spent == (7,)


def test_a_ledger_cannot_be_written_below_zero():
    """``replace(f, spent=(-10^9,))`` admitted 325 releases for 140."""
    limited = pure_filter(budget())
    for spent in ((-1,), (-(10**9),), (limited.units + 1,), (0.5,), (True,), (0, 0)):
        with pytest.raises(ValueError, match="spent must lie in"):
            dataclasses.replace(limited, spent=spent)
    lost = renyi_filter(budget(), (30.0, 60.0), renyi_cost)
    assert dataclasses.replace(lost, spent=(lost.units + 1, 3)).spent == (lost.units + 1, 3)


def test_refusals_never_overflow():
    limited = pure_filter(budget(1.0, 0.0), 10**9)
    full, never = np.int32(10**9), limited.cost((700.0, 0.0))
    assert never == 10**9 + 1
    for _ in range(5):
        assert not limited.admits(full, never)
        full = limited.spend(full, never)
    assert full == 10**9
    assert limited.admits(full, np.int32(0))


# --- in a compiled loop ---------------------------------------------------------------------------


def run_compiled(limited, table, key, steps):
    """Random levels until ``steps`` tries are made: what is spent, and how many were run."""

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
@pytest.mark.parametrize("kind", ["gaussian", "renyi"])
def test_a_compiled_loop_agrees_with_the_host(wide, kind):
    b = budget(2.0, 1e-5, ADD)
    if kind == "gaussian":
        limited = gaussian_filter(b)
        levels = [dp.GaussianDpEvent(40.0 * 2.0**-k) for k in range(6)]
    else:
        limited = renyi_filter(b, (8.0, 16.0, 32.0), divergence)
        levels = [spike(1e-4, 1.0), spike(1e-6, 2.0), bit(0.05), bit(0.1)]
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


# --- equal to plain accounting where nothing is adaptive -----------------------------------------


@RELATIONS
@pytest.mark.parametrize("steps", [1, 10, 1000, 10**6])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-10), (1.0, 1e-6), (8.0, 1e-5)])
def test_the_gaussian_filter_at_its_limit_is_the_budget(relation, steps, epsilon, delta):
    limited = gaussian_filter(budget(epsilon, delta, relation))
    z = gaussian_noise_multiplier(limited.budget, steps) * (1.0 + 1e-9)
    assert limited.fits(dp.GaussianDpEvent(z)) == steps
    assert limited.fits(dp.GaussianDpEvent(z * (1.0 - 1e-8))) < steps
    plain = Guarantee(dp.GaussianDpEvent(z), relation).times(steps).epsilon(delta)
    assert plain.lower <= epsilon
    assert plain.upper == pytest.approx(epsilon, rel=1e-8)


@RELATIONS
def test_no_statement_is_above_the_budget(relation):
    b = budget(0.7, 1e-7, relation)
    claim = gaussian_filter(b).guarantee()
    assert claim.relation is relation
    assert claim.epsilon(b.delta).upper <= b.epsilon
    assert claim.epsilon(b.delta).upper == pytest.approx(b.epsilon, rel=1e-8)
    assert pure_filter(b).guarantee().epsilon(0.0).upper == pytest.approx(b.epsilon, rel=1e-11)
    assert renyi_filter(b, (60.0, 90.0), renyi_cost).guarantee() is None
    half = gaussian_filter(b).after(dp.GaussianDpEvent(100.0))
    assert half.guarantee() == claim  # of the limit, whatever is spent


def test_replacing_a_record_needs_twice_the_noise():
    one, two = gaussian_filter(budget(relation=ADD)), gaussian_filter(budget(relation=REPLACE))
    assert one.cost(dp.GaussianDpEvent(50.0)) == two.cost(dp.GaussianDpEvent(100.0))
    assert one.cost(dp.LaplaceDpEvent(50.0)) == two.cost(dp.LaplaceDpEvent(100.0))
    assert one.cost((0.1, 0.0)) == two.cost((0.1, 0.0))


def test_golden_conversions():
    """Divergence 1 at order 10, and mu = 1, at delta = 1e-5."""
    order = renyi_filter(budget(1.918010636784, 1e-5), (10.0,), divergence)
    assert float(order.limits[0]) == pytest.approx(1.0, rel=1e-11)
    assert float(gaussian_filter(budget(4.377178095681, 1e-5, ADD)).limits[0]) == pytest.approx(
        1.0, rel=1e-8
    )


def sampled_gaussian(event, relation, alpha):
    """The binomial sum of Mironov, Talwar and Zhang at integer orders."""
    q, z, a = event.sampling_probability, event.event.noise_multiplier, int(alpha)
    logs = [
        math.log(math.comb(a, k) * (1 - q) ** (a - k)) + k * math.log(q) + k * (k - 1) / (2 * z * z)
        for k in range(a + 1)
    ]
    return float(np.logaddexp.reduce(logs)) / (a - 1) * (1.0 + 1e-12) if relation is ADD else 9e9


def best_order(b, event, orders):
    """Of those that leave something to spend, the one at which the most fits."""
    return max(orders[6:], key=lambda a: renyi_filter(b, (a,), sampled_gaussian).fits(event))


def test_sampled_releases_agree_with_a_plain_renyi_accountant():
    b = budget(2.0, 1e-5, ADD)
    event = dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0))
    orders = [float(order) for order in range(2, 40)]
    one_step = dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0))
    alpha = best_order(b, one_step, orders)
    limited = renyi_filter(b, (alpha,), sampled_gaussian)
    steps = int(limited.fits(event))
    plain = RdpAccountant(orders, dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
    plain.compose(event, steps)
    assert plain.get_epsilon(b.delta) <= b.epsilon
    best = [renyi_filter(b, (order,), sampled_gaussian).fits(event) for order in orders[6:]]
    assert max(best) >= steps > 100
    plain.compose(event, int(max(best)) + 1 - steps)
    assert plain.get_epsilon(b.delta) >= b.epsilon * (1.0 - 1e-9)
    assert limited.fits(dp.PoissonSampledDpEvent(0.02, dp.GaussianDpEvent(1.0))) < steps
    for filter_of in (gaussian_filter, pure_filter):
        assert not filter_of(b).supports(event)  # nor priced without its amplification


def test_an_unknown_divergence_is_never_paid():
    limited = renyi_filter(budget(relation=REPLACE), (30.0,), sampled_gaussian)
    event = dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0))
    assert limited.fits(event) == 0
    with pytest.raises(ValueError, match="must fit"):
        limited.after(event)


# --- costs ----------------------------------------------------------------------------------------


def test_exact_costs():
    assert gaussian_cost(dp.GaussianDpEvent(3.0), REPLACE) == Fraction(4, 9)
    assert zcdp_cost(dp.GaussianDpEvent(3.0), ADD) == Fraction(1, 18)
    assert pure_cost(dp.LaplaceDpEvent(10.0), ADD) == Fraction(1, 10)
    assert zcdp_cost(dp.ZCDpEvent(0.25), REPLACE) == 0.25
    many = dp.SelfComposedDpEvent(dp.ComposedDpEvent([dp.LaplaceDpEvent(10.0)] * 2), 5)
    assert pure_cost(many, REPLACE) == 2
    mixed = dp.ComposedDpEvent([dp.LaplaceDpEvent(10.0), dp.LaplaceDpEvent(5.0), dp.NoOpDpEvent()])
    assert pure_cost(mixed, ADD) == pytest.approx(0.3, rel=1e-14)
    assert pure_cost(mixed, ADD) >= Fraction(3, 10)
    for cost in (gaussian_cost, zcdp_cost, pure_cost):
        assert cost(dp.NoOpDpEvent(), ADD) == 0
        assert cost(dp.SelfComposedDpEvent(dp.NonPrivateDpEvent(), 0), ADD) == 0
        assert cost(dp.LaplaceDpEvent(0.0), ADD) == math.inf
        assert cost(dp.LaplaceDpEvent(1e-320), ADD) > 1e308
        assert cost(dp.LaplaceDpEvent(math.inf), ADD) == 0
        assert cost(dp.RandomizedResponseDpEvent(1.0, 2), ADD) == 0
        assert cost(dp.RandomizedResponseDpEvent(0.0, 2), ADD) == math.inf
        for unknown in (
            dp.NonPrivateDpEvent(),
            dp.GaussianDpEvent(-1.0),
            dp.GaussianDpEvent(math.nan),
            dp.LaplaceDpEvent(-1.0),
            dp.ZCDpEvent(0.1, 0.1),
            dp.SelfComposedDpEvent(dp.LaplaceDpEvent(1.0), -1),
            dp.ComposedDpEvent([dp.LaplaceDpEvent(1.0), dp.UnsupportedDpEvent()]),
            (0.1, 1e-9),
        ):
            assert cost(unknown, ADD) is None


@given(st.floats(-6.0, 1.7), st.floats(-6.0, 4.0))
def test_pure_and_laplace_releases_are_zcdp_at_the_divergence_of_order_one(log_t, log_excess):
    t = 10.0**log_t
    pure, laplace = zcdp_cost((t, 0.0), ADD), zcdp_cost(dp.LaplaceDpEvent(1.0 / t), ADD)
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


# --- against the best adaptive adversary, exactly -------------------------------------------------


def priced(limited, moves):
    """``moves`` maps a release to the mechanism that is really run."""
    return [(limited.cost(release), mechanism.outcomes) for release, mechanism in moves.items()]


BITS = {(0.15 * k, 0.0): bit(0.15 * k) for k in (1, 2, 3)}


@pytest.mark.parametrize("filter_of", [gaussian_filter, pure_filter])
def test_no_adversary_beats_a_filter(filter_of):
    limited = filter_of(budget(1.5, 0.05), 5040)
    worst = worst_delta(limited, priced(limited, BITS))
    assert worst <= limited.budget.delta
    if filter_of is pure_filter:
        assert worst == 0.0
    else:  # nor does the filter give away much
        assert worst >= 0.05 * limited.budget.delta


def test_asking_after_spending_is_caught():
    """The broken rule ``spent <= units`` lets the crossing release through."""

    class Late(type(pure_filter(budget()))):
        def admits(self, spent, cost):
            return spent < self.units

        def spend(self, spent, cost):
            return spent + cost

    moves = {(0.25 * k, 0.0): bit(0.25 * k) for k in (1, 9)}
    for filter_of in (gaussian_filter, pure_filter):
        limited = filter_of(budget(2.0, 0.01), 5040)
        fields = {f.name: getattr(limited, f.name) for f in dataclasses.fields(limited)}
        late = Late(**fields)
        assert worst_delta(limited, priced(limited, moves)) <= 0.01
        assert worst_delta(late, priced(late, moves)) > 0.01 * 1.5


def two_orders():
    """A first release after whose two outcomes different orders have much left.

    Seldom, and then with a loss: by order 5 nothing happened, by order 41 nothing else. Each
    branch goes on with the release that exhausts *its* order with the least waste.
    """
    b, orders = budget(4.0, 2e-5, ADD), (5.0, 41.0)
    singles = [renyi_filter(b, (order,), divergence) for order in orders]
    first = spike(1e-2, 0.8)
    left = [
        float(f.limits[0]) - divergence(first, ADD, a) for f, a in zip(singles, orders, strict=True)
    ]
    low = first.outcomes[1][1]
    seconds = []
    for alpha, room, so_far in zip(orders, left, (low, 0.8), strict=True):
        loss = b.epsilon + math.log(alpha / (alpha - 1.0)) - so_far
        p = 0.999 * math.expm1((alpha - 1.0) * room) / math.expm1((alpha - 1.0) * loss)
        seconds.append(spike(p, loss))
    return b, orders, singles, first, seconds


def attack(b, first, seconds, admits):
    """Exact delta of: ``first``, then the second that the outcome calls for, if admitted."""
    total = 0.0
    for (p, loss), second in zip(first.outcomes, seconds[::-1], strict=True):
        ends = [(1.0, 0.0)]
        if admits(second):
            ends = second.outcomes
        total += sum(p * r * max(0.0, -math.expm1(b.epsilon - loss - more)) for r, more in ends)
    return total


class Undivided(_RenyiRule):
    """All of ``delta`` for each of the orders."""

    def limits(self, budget):
        return tuple(renyi_filter(budget, (order,), divergence).limits[0] for order in self.orders)


def test_some_order_that_still_fits_is_not_enough():
    b, orders, singles, first, seconds = two_orders()
    careless = PrivacyFilter(b, Undivided(orders, divergence)).after(first)
    assert all(careless.fits(second) >= 1 for second in seconds)
    spent = attack(b, first, seconds, lambda second: careless.fits(second) >= 1)
    assert spent > 1.7 * b.delta
    for alpha, single in zip(
        orders, singles, strict=True
    ):  # nor does either order keep its own limit
        moments = sum(
            p
            * math.exp((alpha - 1) * loss)
            * math.exp((alpha - 1) * divergence(second, ADD, alpha))
            for (p, loss), second in zip(first.outcomes, seconds[::-1], strict=True)
        )
        assert math.log(moments) / (alpha - 1) > float(single.limits[0])
    careful = renyi_filter(b, orders, divergence).after(first)
    assert attack(b, first, seconds, lambda second: careful.fits(second) >= 1) <= b.delta
    for single in singles:
        one = single.after(first)
        assert attack(b, first, seconds, lambda second, one=one: one.fits(second) >= 1) <= b.delta


def test_no_adversary_beats_the_renyi_filters():
    b, orders, singles, first, seconds = two_orders()
    mechanisms = [first, *seconds, spike(5e-3, 0.9), bit(0.3)]
    for limited in (*singles, renyi_filter(b, orders, divergence)):
        for mirrored in (False, True):
            moves = [
                (limited.cost(m), (m.reversed if mirrored else m).outcomes) for m in mechanisms
            ]
            assert worst_delta(limited, moves, 4) <= b.delta


def test_adaptive_gaussian_noise_stays_within_the_gaussian_filter():
    """The second noise depends on the first output; delta by quadrature."""
    b = budget(1.0, 1e-3, ADD)
    limited = gaussian_filter(b)
    total = math.sqrt(limited.limits[0])
    first = 0.6 * total
    rest = math.sqrt(total**2 - first**2)

    def delta(second):
        def integrand(y):
            loss = first * y - 0.5 * first**2
            density = math.exp(-0.5 * (y - first) ** 2) / math.sqrt(2 * math.pi)
            mu = second(y)
            # E_P (1 - e^(eps - L - l))_+ is the curve of the second at eps - L
            left = b.epsilon - loss
            curve = gaussian_delta(left, mu).upper if mu else max(0.0, -math.expm1(left))
            return density * curve

        return integrate.quad(integrand, -12, 12, points=[0.0, 1.0, 3.0], limit=400)[0]

    assert delta(lambda y: rest) == pytest.approx(b.delta, rel=1e-7)
    for threshold in (-1.0, 0.0, 1.0, 3.0):
        assert delta(lambda y, c=threshold: rest if y > c else 0.0) <= b.delta
        assert delta(lambda y, c=threshold: rest if y < c else 0.2 * rest) <= b.delta
    # To spend *on average* what may be spent at most is no filter, and here is why.
    chance = stats.norm.sf(1.5 - first)
    assert delta(lambda y: rest / math.sqrt(chance) if y > 1.5 else 0.0) > 1.5 * b.delta


# --- refusals -------------------------------------------------------------------------------------


def test_bad_arguments_are_named():
    b = budget()
    for filter_of in (gaussian_filter, lambda b: renyi_filter(b, (30.0,), divergence)):
        with pytest.raises(ValueError, match="delta must be positive"):
            filter_of(budget(1.0, 0.0))
    for orders in ((), (1.0,), (2.0, 2.0), (math.inf,), (0.5,)):
        with pytest.raises(ValueError, match="orders must be distinct finite numbers above 1"):
            renyi_filter(b, orders, divergence)
    with pytest.raises(ValueError, match="orders must each leave something to spend"):
        renyi_filter(b, (2.0,), divergence)
    for units in (0, 10**9 + 1, 2.5, True):
        with pytest.raises(ValueError, match="units must be an integer"):
            pure_filter(b, units)
    with pytest.raises(ValueError, match="release must have a cost in this filter"):
        gaussian_filter(b).cost(dp.NonPrivateDpEvent())
    with pytest.raises(ValueError, match="non-negative"):
        renyi_filter(b, (30.0,), lambda *_: -1.0).cost(bit(0.1))
    with pytest.raises(ValueError, match="divergence must be a real number"):
        renyi_filter(b, (30.0,), lambda *_: math.nan).cost(bit(0.1))
    once = pure_filter(b).resume(5)
    for spent in (4, once.units + 1, (5, 5)):
        with pytest.raises(ValueError, match="spent must lie in"):
            once.resume(spent)


def test_a_filter_is_a_value():
    assert gaussian_filter(budget()) == gaussian_filter(budget())
    several = renyi_filter(budget(), (20.0, 30.0), divergence)
    assert several == renyi_filter(budget(), (20.0, 30.0), divergence)
    assert hash(several) == hash(several.resume(several.state))
    assert several.after(bit(0.1)) != several
    assert several.remaining == 1.0 > several.after(bit(0.1)).remaining


# --- types, budgets and divergences ---------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [gaussian_filter, lambda b: renyi_filter(b, (60.0, 80.0), renyi_cost)]
)
def test_integers_without_a_sign_are_refused(make):
    """``units - spent - cost`` wraps around there, and everything would be admitted."""
    limited = make(budget())
    full = np.full_like(limited.state, limited.units)
    cost = limited.cost(dp.LaplaceDpEvent(30.0))
    assert not np.any(limited.admits(full, cost))
    for dtype in (np.uint32, np.uint64, np.int16, np.float64, np.bool_):
        for pair in ((full.astype(dtype), cost), (full, cost.astype(dtype))):
            for question in (limited.admits, limited.spend, jax.jit(limited.admits)):
                with pytest.raises(ValueError, match="must be of signed integers"):
                    question(*pair)
    with pytest.raises(ValueError, match="must be of signed integers"):
        limited.admits(True, cost)
    assert jax.jit(limited.admits)(limited.state, cost)


def test_ready_divergence_serves_the_renyi_filter():
    b = budget(2.0, 1e-5, ADD)
    event = dp.PoissonSampledDpEvent(0.01, dp.GaussianDpEvent(1.0))
    orders = [float(order) for order in range(2, 40)]
    alpha = best_order(b, event, orders)
    steps = renyi_filter(b, (alpha,), renyi_cost).fits(event)
    assert steps == renyi_filter(b, (alpha,), sampled_gaussian).fits(event)
    assert renyi_filter(b, (alpha,), renyi_cost).fits(dp.UnsupportedDpEvent()) == 0
