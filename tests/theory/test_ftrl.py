"""The bound of follow the regularised leader: closed forms, exponents, and streams that test it."""

import dataclasses
import math

import numpy as np
import pytest
from builders import onto_ball

from privopt.spec import ProblemClass
from privopt.theory import PrefixError, ftrl_rate, ftrl_regularisation, local_exponent

FACTS = ProblemClass(n=400, dim=9, lipschitz=2.0, radius=3.0)
FRESH = PrefixError(0.0, increment=1.0)
SPLIT = PrefixError(1.3, increment=0.2, growth=0.1)


def summed(quantity, facts, **numbers):
    """Return the sum of the terms of the rate, without the cap of the set."""
    rate = ftrl_rate(facts, quantity=quantity, **numbers)
    return rate.uncapped


def decoder_of_tree(steps):
    """``B`` of the plain tree: one column a node, born when its block ends."""
    rows = np.zeros((steps, steps))
    for t in range(1, steps + 1):
        left = t
        while left:
            rows[t - 1, left - 1] = 1.0
            left &= left - 1
    return rows


def regret_of_leader(gradient, noise, regularisation, start):
    """``sum_t <g_t, w_t>`` of ``w_{t+1} = Proj(w_1 - S_t/Lambda)`` in the unit ball about ``w_1``,
    and the sum of the ``g_t``; ``noise`` holds ``Z_t``, shape ``(steps, runs, dim)``."""
    total, lost = np.zeros_like(noise[0]), 0.0
    point = np.broadcast_to(start, noise[0].shape)
    for t, error in enumerate(noise):
        slope = gradient(t, point, total)
        lost = lost + (slope * point).sum(axis=-1)
        total = total + slope
        point = start + onto_ball(-(total + error) / regularisation)
    return lost, total


@pytest.mark.parametrize("error", [FRESH, SPLIT, PrefixError(2.0, restarts=3, restarted=1.5)])
@pytest.mark.parametrize("noise_std", [0.0, 0.3, 40.0])
def test_regularisation_is_the_minimiser(error, noise_std):
    known = {"steps": 134, "noise_std": noise_std, "error": error, "batch_size": 3}
    for quantity in ("regret", "population risk"):
        best = ftrl_regularisation(FACTS, quantity=quantity, **known)
        near = best * np.array([0.9, 0.99, 1.0, 1.01, 1.1])
        values = [summed(quantity, FACTS, regularisation=each, **known) for each in near]
        assert np.argmin(values) == 2
        rate = ftrl_rate(FACTS, quantity=quantity, **known)
        assert min(values[2], rate.cap) == pytest.approx(rate.upper, rel=1e-12)


def test_terms_of_the_regret():
    rate = ftrl_rate(FACTS, steps=400, noise_std=0.5, error=SPLIT, quantity="regret")
    values = {term.name: term.value for term in rate.terms}
    assert values == pytest.approx(
        {
            "noise": 3 * math.sqrt(2 * 400 * 2 * 0.5 * 3 * 1.3),
            "increments": 3 * 0.5 * 0.2 * math.sqrt(400 * 9),
            "gradients": 3 * 2 * math.sqrt(400),
        }
    )
    assert rate.upper == pytest.approx(math.hypot(*values.values()))


def test_fresh_noise_is_noisy_descent():
    """The bounds agree up to one step of noisy descent, which has no noise."""
    rate = ftrl_rate(FACTS, steps=400, noise_std=1.5, error=FRESH)
    deviation = 1.5 * math.sqrt(400 / 401)
    descent = 3 * math.sqrt((4 + 9 * deviation**2) / 401)
    assert rate.upper == pytest.approx(descent, rel=1e-12)


def test_a_batch_that_is_not_full_costs_at_most_two_rounds():
    full = dataclasses.replace(FACTS, n=402)
    there = {"steps": 134, "regularisation": 5.0, "noise_std": 0.3, "error": SPLIT}
    more, exact = (summed("population risk", of, batch_size=3, **there) for of in (FACTS, full))
    assert more - exact == pytest.approx(4.0 * 2 * (2 / 3) / (2 * 5.0 * 135))


@pytest.mark.parametrize("quantity", ["regret", "population risk"])
@pytest.mark.parametrize("regularisation", [None, 20.0])
def test_declared_exponents_are_those_of_the_values(quantity, regularisation):
    """``T`` moves like ``n``, and sigma times the error like ``T^growth/epsilon``."""

    def terms(n, dim, epsilon):
        facts = dataclasses.replace(FACTS, n=n, dim=dim)
        known = {"noise_std": 5.0 / epsilon, "error": PrefixError(2.0 * n**0.15, growth=0.15)}
        told = {"quantity": quantity, "regularisation": regularisation}
        rate = ftrl_rate(facts, steps=n, **known, **told)
        return {term.name: term for term in rate.terms}

    base = {"n": 10**6, "dim": 9, "epsilon": 1.0}
    here = terms(**base)
    for axis in base:
        there = terms(**{**base, axis: 4 * base[axis]})
        for name, term in here.items():
            slope = math.log(there[name].value / term.value) / math.log(4.0)
            assert slope == pytest.approx(getattr(term.powers, axis), abs=1e-5)


def test_local_exponent_follows_the_teeth_of_trees():
    """``ln`` of ``(k + 2)/k`` over two doublings, wherever in the tooth."""
    for steps in (512, 700, 1023):
        expected = math.log(11 / 9) / math.log(4.0)
        assert local_exponent(int.bit_length, steps) == pytest.approx(expected, rel=2e-3)


def test_hard_families():
    there = {"steps": 400, "quantity": "regret"}
    for noise_std, error, family in (
        (9.0, SPLIT, "far_distance"),
        (9.0, FRESH, "far_distance"),
        (0.0, SPLIT, "orthogonal_linear"),
    ):
        assert ftrl_rate(FACTS, noise_std=noise_std, error=error, **there).tight_on == family
    assert ftrl_rate(FACTS, noise_std=9.0, error=SPLIT, steps=400).tight_on is None
    untuned = ftrl_rate(FACTS, noise_std=9.0, error=SPLIT, regularisation=1.0, **there)
    assert untuned.tight_on is None


@pytest.mark.parametrize(("error", "least"), [(PrefixError(2.0), 12 / 2), (FRESH, 7.0)])
def test_the_regime_is_where_the_words_say(error, least):
    """``sigma sqrt(d) y = 12 L`` or ``sigma x sqrt(d) = 7 L``, at ``L = 2`` and ``d = 9``."""
    facts = dataclasses.replace(FACTS, n=10**6)
    for factor, inside in ((0.98, False), (1.02, True)):
        noise_std = factor * least * 2 / 3
        there = {"steps": 10**6, "noise_std": noise_std, "error": error, "quantity": "regret"}
        rate = ftrl_rate(facts, **there)
        assert rate.in_regime is inside
        assert f"{12 if error is not FRESH else 7} L" in rate.regime


def test_no_theorem():
    facts = {"steps": 400, "noise_std": 0.5, "error": SPLIT}
    assert ftrl_rate(FACTS, quantity="empirical risk", **facts).upper == math.inf
    assert "fresh" in ftrl_rate(FACTS, epochs=2, **facts).theorem
    assert ftrl_rate(FACTS, epochs=2, quantity="regret", **facts).upper < math.inf
    assert "momentum" in ftrl_rate(FACTS, plain=False, **facts).theorem
    assert "clipped" in ftrl_rate(FACTS, clipped=True, **facts).theorem
    unbounded = dataclasses.replace(FACTS, radius=math.inf)
    assert "bounded" in ftrl_rate(unbounded, **facts).theorem


def test_without_noise_a_spiral_attains_the_bound():
    """Gradients orthogonal to all that came before: the regret is ``R L sqrt(T)`` to the last bit.

    The spiral of Theodorus. One less of ``Lambda``'s terms, or a half, and the test is red.
    """
    steps, facts = 200, ProblemClass(n=200, dim=2, lipschitz=1.0, radius=1.0)
    best = ftrl_regularisation(facts, steps=steps, noise_std=0.0, error=PrefixError(1.0))

    def across(t, point, total):
        if t == 0:
            return np.array([[1.0, 0.0]])
        turned = np.stack([-total[:, 1], total[:, 0]], axis=-1)
        return turned / np.linalg.norm(turned, axis=-1, keepdims=True)

    lost, total = regret_of_leader(across, np.zeros((steps, 1, 2)), best, np.zeros(2))
    regret = lost + np.linalg.norm(total, axis=-1)
    rate = ftrl_rate(facts, steps=steps, noise_std=0.0, error=PrefixError(1.0), quantity="regret")
    assert regret[0] == pytest.approx(math.sqrt(steps), rel=1e-12)
    assert rate.upper == pytest.approx(regret[0], rel=1e-12)


def test_restarts_cost_what_is_left_at_the_end_of_a_pass():
    """Run eight passes of 64 steps, each with a fresh tree and a leader from the last iterate.

    ``|w - e_1|`` again, in the mean over 400 streams: below the bound by twenty standard errors.
    """
    rng = np.random.default_rng(3)
    passes, steps, runs, dim, noise_std = 8, 64, 400, 9, 2.0
    facts = ProblemClass(n=steps, dim=dim, lipschitz=1.0, radius=1.0)
    decoder = decoder_of_tree(steps)
    deviations = np.sqrt((decoder**2).sum(axis=1))
    error = PrefixError(deviations.mean(), restarts=passes - 1, restarted=deviations[-1])
    there = {"steps": passes * steps, "noise_std": noise_std, "error": error}
    best = ftrl_regularisation(facts, **there)
    start, corner, lost = np.zeros((runs, dim)), np.eye(dim)[0], 0.0
    for _ in range(passes):
        noise = noise_std * np.tensordot(decoder, rng.normal(size=(steps, runs, dim)), axes=1)
        total, point = np.zeros((runs, dim)), start
        for z in noise:
            away = point - corner
            lost = lost + np.linalg.norm(away, axis=1)
            total = total + away / np.maximum(np.linalg.norm(away, axis=1)[:, None], 1e-12)
            point = onto_ball(start - (total + z) / best)
        start = point
    rate = ftrl_rate(facts, quantity="regret", epochs=passes, **there)
    assert lost.mean() + 20 * lost.std() / math.sqrt(runs) < rate.upper
    assert lost.mean() > 0.4 * rate.upper
    assert rate.terms[-1].value == pytest.approx(2 * 7 * 2.0 * 3)
    moved = summed("regret", facts, regularisation=2 * best, **there)
    assert moved > rate.upper
