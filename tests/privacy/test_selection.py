"""The cost of private selection against exact laws of the best of many runs."""

import math
from functools import cache
from itertools import product

import dp_accounting as dp
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from events import OUT, Gaussian, Laplace, Response, Times, Together
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from privopt.privacy import PureDP, RenyiDpEvent
from privopt.privacy.guarantee import Guarantee
from privopt.privacy.mechanisms.base import renyi_divergence
from privopt.privacy.mechanisms.selection import Repetitions, select_best, selection_epsilon
from privopt.privacy.renyi import ORDERS, renyi_epsilon
from privopt.spec import Relation

LAWS = [
    Repetitions.geometric(10.0),
    Repetitions.geometric(1.5),
    Repetitions.logarithmic(10.0),
    Repetitions(10.0, 0.5),
    Repetitions(3.0, 4.0),
    Repetitions.poisson(10.0),
    Repetitions.poisson(1.0),
    Repetitions(1.0, 1.0),
    Repetitions(10.0, 1e-9),
    Repetitions(4.0, -0.5),
    Repetitions(1.5, -0.9),
]
EVERY_LAW = pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law.mean}-{law.shape}")


@cache
def support(law):
    """Return all relevant ``k`` with their probabilities, from the definition of the law."""
    k = np.arange(0, 4000)
    return k, np.array([law.probability(int(each)) for each in k])


def best_of(law, p):
    """The law of the best of ``K`` outputs with probabilities ``p``, listed from worst to best.

    The best is at most ``y`` exactly if all ``K`` are. With no run at all the worst is released.
    """
    k, weights = support(law)
    at_most = np.concatenate([[0.0], np.cumsum(p)])
    at_most[-1] = 1.0
    generating = np.array([np.sum(weights[1:] * x ** k[1:]) for x in at_most])
    best = np.diff(generating)
    best[0] += weights[0]
    return best


def divergence(p, q, order):
    keep = p > 0.0
    return math.log(np.sum(p[keep] ** order * q[keep] ** (1 - order))) / (order - 1)


@EVERY_LAW
def test_the_law_sums_to_one_and_has_its_mean(law):
    k, weights = support(law)
    assert np.sum(weights) == pytest.approx(1.0, rel=1e-9)
    assert np.sum(k * weights) == pytest.approx(law.mean, rel=1e-9)
    assert weights[0] == (math.exp(-law.mean) if math.isinf(law.shape) else 0.0)


@given(st.floats(1e-9, 1e6), st.sampled_from([0.0, 1e-6, 0.3, 1.0, 7.0]))
def test_gamma_solves_for_the_mean_from_the_safe_side(excess, shape):
    mean = 1.0 + excess
    law = Repetitions(mean, shape)
    gamma = law.gamma
    assert 0.0 < gamma <= 1.0
    assert -math.log(gamma) <= law.log_inverse_gamma * (1 + 1e-15)
    x = -math.log(gamma)
    rest = -math.expm1(-shape * x) / shape if shape > 0.0 else x
    if excess > 1e-3:
        assert math.expm1(x) / rest == pytest.approx(mean, rel=1e-6)
    if shape == 1.0:
        assert gamma == pytest.approx(1.0 / mean, rel=1e-9)


def test_draws_follow_the_law():
    """Seeded; the mean of 8,000 draws is within five standard errors."""
    for law in LAWS:
        generator = np.random.default_rng(7)
        draws = np.array([law.draw(generator) for _ in range(8_000)])
        k, weights = support(law)
        spread = math.sqrt(max(np.sum(k**2.0 * weights) - law.mean**2, 0.0) / draws.size)
        assert abs(draws.mean() - law.mean) <= 5.0 * spread + 1e-9
        for each in (0, 1, 2, 5):
            error = math.sqrt(weights[each] / draws.size)
            assert abs(np.mean(draws == each) - weights[each]) <= 5.0 * error
    assert Repetitions.geometric(1.0).draw(np.random.default_rng(0)) == 1


def pure_pairs(epsilon):
    """Pairs over three outputs with likelihood ratios ``e^{+-epsilon}`` or one."""
    ratios = (math.exp(-epsilon), 1.0, math.exp(epsilon))
    for masses in ([0.01, 0.01, 0.98], [0.3, 0.3, 0.4], [0.9, 0.05, 0.05], [0.98, 0.019, 0.001]):
        for ratio in product(ratios, repeat=2):
            p = np.array(masses)
            q = np.append(p[:2] * ratio, 0.0)
            q[2] = 1.0 - q.sum()
            if q[2] > 0.0 and abs(math.log(q[2] / p[2])) <= epsilon:
                yield p, q


@EVERY_LAW
def test_pure_cost_holds_for_every_small_mechanism(law):
    if math.isinf(law.shape):
        with pytest.raises(ValueError, match="repetitions must not be Poisson"):
            selection_epsilon(0.5, law)
        return
    for p, q in pure_pairs(0.5):
        best_p, best_q = best_of(law, p), best_of(law, q)
        assert np.max(np.abs(np.log(best_p / best_q))) <= selection_epsilon(0.5, law) + 1e-9


def test_pure_cost_is_nearly_attained_by_random_stopping():
    """One output falls by ``e^epsilon`` and better ones rise.

    The loss is close to three epsilon.
    """
    law, epsilon = Repetitions.geometric(400.0), 0.5
    assert selection_epsilon(epsilon, law) == pytest.approx(1.5, rel=1e-15)
    worst = 0.0
    for low, high in product(np.geomspace(1e-9, 1e-3, 13), np.geomspace(1e-5, 0.5, 13)):
        one = np.array([1.0 - high - low, low, high])
        two = np.array([0.0, low * math.exp(-epsilon), high * math.exp(epsilon)])
        two[0] = 1.0 - two.sum()
        if two[0] > 0.0 and abs(math.log(two[0] / one[0])) <= epsilon:
            # f(1 - high) - f(1 - high - low), with f(x) = x gamma / (1 - x (1 - gamma))
            gamma = 1.0 / law.mean
            chance = [
                m[1] / ((gamma + (1 - gamma) * m[2]) * (gamma + (1 - gamma) * (m[1] + m[2])))
                for m in (one, two)
            ]
            worst = max(worst, math.log(chance[0] / chance[1]))
    assert 2.5 * epsilon < worst <= 1.5


def test_a_single_run_costs_itself():
    once = Repetitions.geometric(1.0)
    assert selection_epsilon(0.7, once) == 0.7
    one = renyi_divergence(Gaussian(2.0), OUT, [1.5, 4.0])
    best = renyi_divergence(select_best(Gaussian(2.0), once), OUT, [1.5, 4.0])
    assert best == pytest.approx(one, rel=1e-12)


@EVERY_LAW
def test_renyi_cost_holds_for_randomised_response(law):
    """The best of ``K`` randomised responses, listed in every order of their buckets."""
    noise, buckets = 0.5, 3
    p = np.full(buckets, noise / buckets)
    event = select_best(Response(noise, buckets), law)
    orders = np.array([1.1, 1.5, 2.0, 3.0, 10.0, 64.0])
    bounds = renyi_divergence(event, OUT, orders)
    for true, other in product(range(buckets), repeat=2):
        if true == other:
            continue
        one, two = p.copy(), p.copy()
        one[true] += 1.0 - noise
        two[other] += 1.0 - noise
        best_one, best_two = best_of(law, one), best_of(law, two)
        for order, bound in zip(orders, bounds, strict=True):
            assert divergence(best_one, best_two, order) <= bound + 1e-9


@pytest.mark.parametrize("law", [law for law in LAWS if law.shape >= 0.0], ids=str)
def test_renyi_cost_is_the_theorem(law):
    """On the same orders the oracle has the same numbers, and in two cases more than is needed.

    It knows no negative shapes; those are judged by exact laws alone, above.
    """
    event = select_best(Times(Gaussian(5.0), 3), law)
    oracle = RdpAccountant(list(ORDERS), dp.NeighboringRelation.REPLACE_SPECIAL).compose(event)
    ours = renyi_divergence(event, OUT, ORDERS)
    assert np.all(ours <= oracle.rdp * (1 + 1e-8))
    least = 1 - 1e-8 if law in LAWS[:5] else 0.8 * (np.array(ORDERS) >= 5.0)
    assert np.all(ours >= least * oracle.rdp)


test_bad_arguments_are_named = refused(
    (lambda: Repetitions(0.5, 1.0), r"mean must lie in \[1, 2\^40\], got 0.5"),
    (lambda: Repetitions(2.0, -1.0), "shape must be above -1, got -1.0"),
    (lambda: Repetitions(1e6, -0.9), "mean must be smaller at shape -0.9, got 1000000.0"),
    (lambda: Repetitions(2.0, math.nan), "shape must be a real number, got nan"),
    (lambda: Repetitions.poisson(2.0).gamma, "gamma does not exist for Poisson repetitions"),
    (lambda: LAWS[0].probability(-1), "k must be a non-negative integer, got -1"),
    (lambda: LAWS[0].all_fail(1.5), "failure must lie in"),
    (lambda: selection_epsilon(-1.0, LAWS[0]), "epsilon must be non-negative and finite"),
    (lambda: select_best("event", LAWS[0]), "event must be a DpEvent"),
)


def test_selection_among_pure_runs_is_pure():
    laplace, law = Laplace(4.0), Repetitions(10.0, 1.0)
    run = Together([laplace, laplace])
    chosen = select_best(run, law)
    for relation, loss in ((OUT, 0.5), (Relation.REPLACE_ONE, 1.0)):
        lower, upper = Guarantee(chosen, relation).epsilon(0.0)
        assert lower == 0.0
        assert upper == pytest.approx(3.0 * loss, rel=1e-12)
        assert upper >= selection_epsilon(loss, law)
    both = Together([chosen, laplace])
    assert Guarantee(both, OUT).epsilon(0.0).contains(1.75 * (1 + 1e-15))
    assert Guarantee(both, OUT).epsilon(0.0).lower == pytest.approx(0.25)
    again = select_best(chosen, Repetitions(3.0, -0.5))
    assert PureDP().epsilon(again, OUT, 0.0).upper == pytest.approx(1.5 * 1.5, rel=1e-12)
    for unknown in (select_best(run, Repetitions.poisson(3.0)), select_best(Gaussian(1), law)):
        assert not PureDP().supports(unknown, OUT)
    assert PureDP().epsilon(select_best(Laplace(0.0), law), OUT, 0.0).upper == math.inf


def test_a_stopped_run_is_selected_at_the_one_order_of_its_filter():
    law, order, divergence = Repetitions.geometric(8.0), 30.5, 0.2
    best = Guarantee(select_best(RenyiDpEvent(order, divergence), law), Relation.REPLACE_ONE)
    extra = (1.0 - 1.0 / order) * divergence + math.log(1.0 / law.gamma) / order
    cost = divergence + 2.0 * extra + math.log(8.0) / (order - 1.0)
    exact = renyi_epsilon([order], [cost], 1e-6)
    assert best.epsilon(1e-6).upper == pytest.approx(exact, rel=1e-9)


@EVERY_LAW
def test_all_runs_fail_as_often_as_the_generating_function_says(law):
    k, weights = support(law)
    for failure in (0.0, 1e-9, 0.5, 0.9, 1.0):
        assert law.all_fail(failure) == pytest.approx(np.sum(weights * failure**k), rel=1e-9)


@EVERY_LAW
def test_the_tail_is_bounded_and_exact_for_random_stopping(law):
    k, weights = support(law)
    for cap in (0, 1, 5, 40):
        exact = float(np.sum(weights[k > cap]))
        assert law.tail(cap) >= exact * (1.0 - 1e-9)
        if law.shape == 1.0:
            assert law.tail(cap) == pytest.approx((1.0 - law.gamma) ** cap, rel=1e-9)
