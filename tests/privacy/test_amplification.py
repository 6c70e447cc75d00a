"""Sampling, groups, relations: golden values, brute force over small mechanisms, safe rounding."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from privopt.privacy.amplification import Sampler, group_privacy, subsample
from privopt.privacy.gaussian import gaussian_delta
from privopt.spec import Relation

ADD, ZERO, REPLACE = Relation.ADD_OR_REMOVE_ONE, Relation.ZERO_OUT, Relation.REPLACE_ONE
POISSON, FIXED, SHUFFLED = Sampler.POISSON, Sampler.WITHOUT_REPLACEMENT, Sampler.SHUFFLED
COVERED = [(POISSON, ADD), (POISSON, ZERO), (FIXED, REPLACE)]
NOT_COVERED = [pair for pair in itertools.product(Sampler, Relation) if pair not in COVERED]
STAYING = [(POISSON, REPLACE), (FIXED, ZERO)]  # the others stay where they are
EPSILONS, DELTAS = st.floats(0.0, 30.0), st.floats(0.0, 0.5)


def hockey_stick(p, q, epsilon):
    return float(np.maximum(np.asarray(p) - math.exp(epsilon) * np.asarray(q), 0.0).sum())


@pytest.mark.parametrize(("sampler", "relation"), COVERED)
@given(st.floats(0.0, 800.0), st.floats(0.0, 0.99), st.floats(1e-12, 1.0))
def test_amplified_pair_is_the_formula_rounded_up(sampler, relation, epsilon, delta, rate):
    result = subsample(epsilon, delta, rate, sampler=sampler, relation=relation)
    assert result.amplified
    with mpmath.workdps(50):
        exact = mpmath.log(1 + mpmath.mpf(rate) * mpmath.expm1(epsilon))
        assert exact <= result.epsilon * (1 + mpmath.mpf(10) ** -40) or result.epsilon == epsilon
        assert result.epsilon <= exact * (1 + 1e-12) + 1e-12
        assert mpmath.mpf(rate) * delta <= result.delta
    assert result.delta <= rate * delta * (1 + 1e-14) + 1e-320


def test_amplification_is_attained_by_randomised_response():
    """Poisson, one bit: ``(1 - q) Q + q P`` against ``Q`` has exactly this loss."""
    epsilon, rate = 1.3, 0.2
    p = np.array([math.exp(epsilon), 1.0]) / (1.0 + math.exp(epsilon))
    q = p[::-1]
    seen = (1.0 - rate) * q + rate * p
    result = subsample(epsilon, 0.0, rate, sampler="poisson", relation="zero_out")
    assert result.epsilon == pytest.approx(math.log(seen[0] / q[0]), rel=1e-14)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_fixed_size_replacement_by_brute_force(size):
    """Randomised response on the parity of a subset of four bits, all pairs of neighbours."""
    epsilon, n = 0.9, 4
    truth = math.exp(epsilon) / (1.0 + math.exp(epsilon))

    def outputs(bits):
        subsets = list(itertools.combinations(bits, size))
        ones = sum(sum(subset) % 2 for subset in subsets) / len(subsets)
        one = ones * truth + (1.0 - ones) * (1.0 - truth)
        return np.array([one, 1.0 - one])

    worst = max(
        abs(np.log(outputs(bits) / outputs((1 - bits[0], *bits[1:])))).max()
        for bits in itertools.product((0, 1), repeat=n)
    )
    claimed = subsample(epsilon, 0.0, size / n, sampler=FIXED, relation=REPLACE).epsilon
    assert 0.3 * claimed < worst <= claimed


def test_the_shorthand_holds_only_below_its_limit():
    """``2 q epsilon`` is above the formula up to 1.256 for all rates, and then no more."""

    def exact(epsilon, rate):
        return subsample(epsilon, 0.0, rate, sampler=POISSON, relation=ADD).epsilon

    assert all(exact(1.256, rate) <= 2 * rate * 1.256 for rate in np.geomspace(1e-9, 1.0))
    assert exact(1.2565, 1e-6) > 2e-6 * 1.2565


@pytest.mark.parametrize(("sampler", "relation"), NOT_COVERED)
def test_what_no_theorem_covers_is_not_amplified_and_says_so(sampler, relation):
    result = subsample(0.7, 1e-6, 0.01, sampler=sampler, relation=relation)
    assert not result.amplified
    assert result.epsilon >= 0.7
    assert result.delta >= (1e-8 if (sampler, relation) in STAYING else 1e-6)
    assert len(result.reason) > 20


@pytest.mark.parametrize(("sampler", "relation"), STAYING)
@given(EPSILONS, st.floats(0.01, 0.4), st.floats(0.05, 1.0))
def test_a_record_that_moves_no_other_dilutes_delta(sampler, relation, epsilon, delta, rate):
    """Names are published with probability ``delta``: seen only of records that are drawn."""
    result = subsample(epsilon, delta, rate, sampler=sampler, relation=relation)
    name = np.array([[1.0 - delta, delta, 0.0], [1.0 - delta, 0.0, delta]])
    absent = np.array([1.0, 0.0, 0.0])
    seen = [(1.0 - rate) * absent + rate * each for each in name]
    assert hockey_stick(*seen, result.epsilon) == pytest.approx(rate * delta, rel=1e-12)
    assert rate * delta <= result.delta <= rate * delta * (1.0 + 1e-14)


def test_a_record_added_to_a_subset_of_fixed_size_costs_two_steps():
    """The other records are -1 and the new one is 1.

    The sum changes by 2, more than one step allows.
    """
    n, m = 60, 59
    rate = m / n
    epsilon = 1.0
    for mu in (0.3, 1.0):
        delta = gaussian_delta(epsilon, mu=mu).upper
        gamma = math.exp(2.0 * epsilon)  # bound of two steps
        truth = rate * gaussian_delta(math.log((gamma - 1 + rate) / rate), mu=2 * mu).lower
        one_step = rate * gaussian_delta(math.log((math.e - 1 + rate) / rate), mu=2 * mu).lower
        assert one_step > delta  # the pair without amplification would be wrong
        result = subsample(epsilon, delta, rate, sampler=FIXED, relation=ADD)
        assert result.epsilon >= 2.0 * epsilon
        assert result.delta >= truth


def test_shuffled_batches_by_brute_force():
    """Three records in batches of one, randomised response each: an epoch's whole output."""
    epsilon = 0.8
    truth = math.exp(epsilon) / (1.0 + math.exp(epsilon))

    def epoch(bits, batches=3):
        orders = list(itertools.permutations(range(len(bits))))
        law = dict.fromkeys(itertools.product((0, 1), repeat=batches), 0.0)
        for order in orders:
            said = [bits[i] for i in order] + [0] * (batches - len(bits))
            for out in law:
                match = [truth if o == s else 1.0 - truth for o, s in zip(out, said, strict=True)]
                law[out] += math.prod(match) / len(orders)
        return np.array(list(law.values()))

    for relation, data in (
        (
            REPLACE,
            [((b, *rest), (1 - b, *rest)) for b, *rest in itertools.product((0, 1), repeat=3)],
        ),
        (ADD, [((1, *rest), tuple(rest)) for rest in itertools.product((0, 1), repeat=2)]),
    ):
        claimed = subsample(epsilon, 0.0, 1 / 3, sampler=SHUFFLED, relation=relation)
        worst = max(abs(np.log(epoch(one) / epoch(two))).max() for one, two in data)
        assert worst <= claimed.epsilon * (1 + 1e-14)
        assert claimed.epsilon in (epsilon, pytest.approx(3 * epsilon))


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("sampler", [POISSON, FIXED])
def test_rate_zero_and_rate_one(sampler, relation):
    nothing = subsample(3.0, 1e-3, 0.0, sampler=sampler, relation=relation)
    assert (nothing.epsilon, nothing.delta) == (0.0, 0.0)
    if (sampler, relation) in COVERED:
        everything = subsample(3.0, 1e-3, 1.0, sampler=sampler, relation=relation)
        assert everything.epsilon == pytest.approx(3.0, rel=1e-14)
        assert everything.delta == pytest.approx(1e-3, rel=1e-14)


def test_golden_group():
    epsilon, delta = group_privacy(0.5, 1e-6, 3)
    assert epsilon == pytest.approx(1.5, rel=1e-15)
    assert delta == pytest.approx(5.367003099e-6, rel=1e-9)


@given(st.floats(0.0, 20.0), st.floats(1e-300, 0.5), st.integers(2, 30))
def test_group_is_the_geometric_sum_rounded_up(epsilon, delta, k):
    total, missing = group_privacy(epsilon, delta, k)
    with mpmath.workdps(50):
        exact = delta * mpmath.fsum(mpmath.exp(mpmath.mpf(epsilon) * i) for i in range(k))
        assert mpmath.mpf(k) * epsilon <= total
        assert missing == 1.0 or exact <= missing
        assert missing <= exact * (1 + 1e-11)
    assert total <= k * epsilon * (1 + 1e-15)


def test_group_edges():
    assert group_privacy(0.3, 1e-3, 0) == (0.0, 0.0)
    assert group_privacy(0.3, 1e-3, 1) == (0.3, 1e-3)
    assert group_privacy(0.0, 1e-3, 5)[1] == pytest.approx(5e-3, rel=1e-14)
    assert group_privacy(2.0, 0.0, 1000) == (pytest.approx(2000.0), 0.0)
    assert group_privacy(700.0, 1e-9, 1000)[1] == 1.0


def test_a_group_of_gaussian_is_below_the_general_rule():
    for epsilon in (0.1, 0.5):
        general = group_privacy(epsilon, gaussian_delta(epsilon, mu=0.3).upper, 3)
        assert gaussian_delta(general[0], mu=3 * 0.3).upper <= general[1]


test_bad_arguments_are_named = refused(
    (
        lambda: subsample(1.0, 0.0, 1.1, sampler=POISSON, relation=ADD),
        r"rate must lie in \[0, 1\], got 1.1",
    ),
    (
        lambda: subsample(1.0, 0.0, 0.1, sampler="cyclic", relation=ADD),
        "sampler must be one of poisson, without_replacement, shuffled, got 'cyclic'",
    ),
    (
        lambda: subsample(1.0, 0.0, 0.1, sampler=POISSON, relation="swap"),
        "relation must be one of replace_one, add_or_remove_one, zero_out, got 'swap'",
    ),
    (lambda: group_privacy(1.0, 0.1, -1), "k must be a non-negative integer, got -1"),
    (lambda: group_privacy(math.nan, 0.1, 2), "epsilon must be a real number, got nan"),
)
