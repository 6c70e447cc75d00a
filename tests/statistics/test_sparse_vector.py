"""Sparse vector and Thresholdout: exact laws, twins, and an attack that catches broken variants."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import one_scale_passes
from scipy import stats
from selection import choose, few

from privopt.privacy import Guarantee
from privopt.release import Tape
from privopt.spec import Budget, Relation
from privopt.statistics import BoundedMean, BoundedSum, Count, SparseVector, Thresholdout

OUT = Relation.ZERO_OUT
RUNS = choose(100_000, 50_000)  # bounds are exact for any number: 1e-4 is the false-alarm rate
ATTACKS = choose(100_000, 20_000)


def sparse(answers, epsilon=4.0):
    budget = Budget(epsilon=epsilon, delta=0.0, relation=OUT)
    return SparseVector.calibrated(Count(), budget, answers=answers)


@jax.jit
def asked(mechanism, keys, values, threshold):
    """Return all answers of many runs, shape ``(runs, questions)``."""

    def one(key):
        def step(state, value):
            exceeds, state = mechanism.update(state, value, threshold)
            return state, exceeds

        return jax.lax.scan(step, mechanism.init(key), values)[1]

    return jax.lax.map(one, keys, batch_size=20_000)


def keys(runs, seed):
    return jax.random.split(jax.random.key(seed), runs)


def law(mechanism, values, threshold, results):
    """Return ``P(answers = results)``, by quadrature over the noise of the threshold."""
    noise = mechanism.threshold_scale * np.linspace(-40.0, 40.0, 16_001)
    density = stats.laplace.pdf(noise, scale=mechanism.threshold_scale)
    for value, yes in zip(values, results, strict=False):
        reached = stats.laplace.sf(threshold + noise - value, scale=mechanism.question_scale)
        density = density * (reached if yes else 1.0 - reached)
    return np.trapezoid(density, noise)


@pytest.mark.parametrize("answers", [1, 2, 5])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("relation", list(Relation))
def test_both_mechanisms_meet_their_budget_and_five_percent_less_noise_does_not(
    answers, epsilon, relation
):
    budget = Budget(epsilon=epsilon, delta=0.0, relation=relation)
    query, mean = BoundedSum.of(0.0, 3.0), BoundedMean.of(0.0, 1.0, 100)
    sparse_vector = SparseVector.calibrated(query, budget, answers=answers)
    holdout = Thresholdout.calibrated(mean, 0.1, budget, answers=answers)
    for one, scales in (
        (sparse_vector, ("threshold_scale", "question_scale")),
        (holdout, ("answer_scale",)),
    ):
        cost = Guarantee(one.event(relation), relation).epsilon(0.0).upper
        assert cost <= epsilon
        assert cost == pytest.approx(epsilon, rel=1e-6)
        for name in scales:
            less = one._replace(**{name: 0.95 * getattr(one, name)})
            assert Guarantee(less.event(relation), relation).epsilon(0.0).upper > epsilon
            none = one._replace(**{name: 0.0})
            assert Guarantee(none.event(relation), relation).epsilon(0.0).upper == math.inf
    # the ledger, in the words of Lyu, Su and Li: epsilon_1 + epsilon_2
    shift = query.l1_sensitivity(relation)
    first, second = (
        shift / sparse_vector.threshold_scale,
        2 * answers * shift / sparse_vector.question_scale,
    )
    assert first + second == pytest.approx(epsilon, rel=1e-6)
    assert second / first == pytest.approx((2 * answers) ** (2 / 3), rel=1e-6)
    paid = holdout.gap.l1_sensitivity(relation) * (0.5 + 1.5 * answers) / holdout.answer_scale
    assert paid == pytest.approx(epsilon, rel=1e-6)


def test_the_worst_transcript_loses_nearly_epsilon_and_none_loses_more():
    """Integrate the loss of any number of *no*, then a *yes*, for one record against all."""
    mechanism, threshold = sparse(1, epsilon=2.0), 0.0
    losses = []
    for nos in (1, 10, 1_000):
        shared, ends = np.zeros(nos), [False] * nos + [True]
        one = law(mechanism, [*shared, 1.0], threshold, ends)
        two = law(mechanism, [*(shared + 1.0), 0.0], threshold, ends)
        losses.append(abs(math.log(one / two)))
    assert losses == sorted(losses)
    assert 1.6 < losses[-1] <= 2.0


def test_answers_have_the_law_of_the_scales_and_of_no_others():
    """Count every list of answers to three questions with a budget for two times *yes*."""
    mechanism, values = sparse(2), np.array([0.0, 2.0, 4.0])
    results = np.asarray(asked(mechanism, keys(RUNS, 1), jnp.asarray(values), 5.0))
    every = [ends for ends in itertools.product((False, True), repeat=3) if sum(ends) < 3]
    counts = [int((results == ends).all(axis=1).sum()) for ends in every]
    assert sum(counts) == RUNS

    def p_value(ratio, scale="question_scale"):
        other = mechanism._replace(**{scale: ratio * getattr(mechanism, scale)})
        chances = [
            law(other, values[: 3 - (ends[:2] == (True, True))], 5.0, ends) for ends in every
        ]
        return stats.chisquare(counts, RUNS * np.array(chances), sum_check=False).pvalue

    one_scale_passes(p_value, 0.9, 1.1)
    one_scale_passes(lambda ratio: p_value(ratio, "threshold_scale"), 0.9, 1.1)


def attacked(mechanism, bound, runs=ATTACKS):
    """The most that two lists of questions show: *no* first, then *yes*; one record moves all."""
    results, far = [], max(0.5, 2.0 * mechanism.question_scale)
    for nos, yeses, threshold in ((10, 10, 0.5), (18, 2, far)):  # one program
        scores = []
        for seed, ends in enumerate(((0.0, 1.0), (1.0, 0.0))):
            values = jnp.asarray([ends[0]] * nos + [ends[1]] * yeses)
            exceeds = np.asarray(asked(mechanism, keys(runs, 2 + seed), values, threshold))
            scores.append(exceeds[:, nos:].sum(axis=1) - 1.0 * exceeds[:, :nos].sum(axis=1))
        results.append(bound(*scores))
    return max(results)


BROKEN = {  # name -> answers paid for, and the change; Lyu, Su and Li: Algorithms 5, 4 and 6
    "no noise on the threshold": (1, lambda one: one._replace(threshold_scale=0.0)),
    "one noise for all questions": (2, lambda one: one._replace(question_scale=0.0)),
    "noise not times the answers": (
        10,
        lambda one: one._replace(question_scale=one.question_scale / one.answers),
    ),
    "answers without end": (1, lambda one: one._replace(answers=1e6)),
}


@pytest.mark.parametrize("answers", few([1, 10], [10]))
def test_the_attack_finds_no_more_than_is_claimed(answers, epsilon_lower_bound):
    assert 0.2 < attacked(sparse(answers), epsilon_lower_bound) <= 4.0


@pytest.mark.parametrize("name", few(BROKEN, [*BROKEN][1:3]))
def test_the_attack_catches_every_broken_variant(name, epsilon_lower_bound):
    answers, broken = BROKEN[name]
    assert attacked(broken(sparse(answers)), epsilon_lower_bound) > 4.0


BUDGET = Budget(epsilon=1.0, delta=0.0, relation=Relation.REPLACE_ONE)
HOLDOUT = Thresholdout.calibrated(BoundedMean.of(0.0, 1.0, 1), 3.0, BUDGET, answers=1)


def density_of(values, answer, *, fresh):
    """Density of *no* to all but the last, and of the last's answer, by quadrature.

    Without fresh noise the answer has that of its comparison: Algorithm 3 of Lyu, Su and Li.
    """
    scale, noise = HOLDOUT.answer_scale, np.linspace(-60.0, 60.0, 48_001)
    density = stats.laplace.pdf(noise, scale=HOLDOUT.comparison.threshold_scale)
    limit = HOLDOUT.threshold + noise
    for value in values[:-1]:
        density = density * stats.laplace.cdf(limit - value, scale=4.0 * scale)
    last = values[-1]
    if fresh:
        density = density * stats.laplace.sf(limit - last, scale=4.0 * scale)
    else:
        density = density * (limit <= answer)
    width = scale if fresh else 4.0 * scale
    return np.trapezoid(density, noise) * stats.laplace.pdf(answer - last, scale=width)


@pytest.mark.parametrize("fresh", [True, False])
def test_an_answer_with_the_noise_of_its_comparison_tells_more_than_claimed(fresh):
    """Test forty times *no*, then an answer: a low answer shows that the threshold was low."""
    losses = []
    for answer in (-20.0, -5.0, 0.0, 5.0):
        one = density_of([0.0] * 40 + [1.0], answer, fresh=fresh)
        two = density_of([1.0] * 40 + [0.0], answer, fresh=fresh)
        losses.append(abs(math.log(one / two)))
    assert (max(losses) <= 1.0) == fresh
    assert max(losses) > (0.5 if fresh else 4.0)


@jax.jit
def reused(mechanism, keys, values):
    """Answers of a holdout of one record about functions that are 0 on the training records."""

    def one(key):
        def step(state, value):
            return mechanism.update(state, jnp.zeros(1), value[None])[::-1]

        return jax.lax.scan(step, mechanism.init(key), values)[1]

    return jax.lax.map(one, keys, batch_size=20_000)


def holdout_attacked(mechanism, bound):
    """*No* five times, which the threshold's noise pays for; then an answer, and how large."""
    scores = []
    for seed, (no, yes) in enumerate(((0.0, 1.0), (1.0, 0.0))):
        values = jnp.asarray([no] * 5 + [yes])
        results = np.asarray(reused(mechanism, keys(100_000, 40 + seed), values))
        noes, last = (results[:, :-1] == 0.0).all(axis=1), results[:, -1]
        scores.append(np.where(noes & (last != 0.0), last, -99.0))
    return bound(*scores)


def test_a_holdout_of_one_record_is_no_easier_told_than_claimed(epsilon_lower_bound):
    """Check also that a tenth of the noise of the answers is detected."""
    assert 0.1 < holdout_attacked(HOLDOUT, epsilon_lower_bound) <= 1.0
    less = HOLDOUT._replace(answer_scale=0.1 * HOLDOUT.answer_scale)
    assert holdout_attacked(less, epsilon_lower_bound) > 1.0


def test_the_answers_are_those_of_the_noise_on_the_tape():
    """Check separate noise for threshold, comparison and answer, in this order, and in float32."""
    budget = Budget(epsilon=200.0, delta=0.0, relation="replace_one")
    mechanism = Thresholdout.calibrated(BoundedMean.of(0.0, 2.0, 4), 0.3, budget, answers=2)
    rng = np.random.default_rng(0)

    @jax.jit
    def run(training, holdout):
        with Tape(traced=True) as tape:
            state, replies = mechanism.init(jax.random.key(3)), []
            for visible, hidden in zip(training[:, :3], holdout, strict=True):
                answer, state = mechanism.update(state, visible, hidden)
                replies.append((answer, state.remaining))
        return replies, tape["noise"]

    for dtype in (np.float32, np.float64):
        training, holdout = rng.uniform(0.0, 2.0, (2, 3, 4)).astype(dtype)
        replies, noise = run(training, holdout)
        used = sum(int(remaining) > 0 for _, remaining in replies[:-1]) + 1
        replies = [answer for answer, _ in replies[:used]]
        limit, *noises = (float(each) for each in noise[: 1 + 2 * used])
        scales = (mechanism.comparison.question_scale, mechanism.answer_scale) * len(replies)
        units = np.abs([limit, *np.divide(noises, scales)])
        assert np.unique(units.round(4)).size == units.size
        limit *= mechanism.comparison.threshold_scale
        for i, answer in enumerate(replies):
            one, two = training[i, :3].mean(), holdout[i].mean()
            exceeds = abs(one - two) + noises[2 * i] >= 0.3 + limit
            assert float(answer) == pytest.approx(
                two + noises[2 * i + 1] if exceeds else one, rel=1e-5
            )
            assert answer.dtype == dtype


@pytest.mark.parametrize("answer", [jnp.zeros(50), jnp.zeros(1), 9, jnp.int32(9), 9.0, None])
def test_one_question_is_asked_at_a_time_in_floats(answer):
    """A vector would be answered as one question; in integers the noise is zero or large."""
    mechanism = sparse(2)
    state = mechanism.init(jax.random.key(0))
    with pytest.raises(ValueError, match=r"answer must be an array( of floats with 0 axes)?, got "):
        mechanism.update(state, answer, 0.0)
    with pytest.raises(ValueError, match="answer must be float32 or float64, got float16"):
        mechanism.update(state, jnp.float16(9.0), 0.0)
    with pytest.raises(
        ValueError, match=r"threshold must be one real number, got an object of type .* length 2"
    ):
        mechanism.update(state, jnp.zeros(()), jnp.zeros(2))
    with pytest.raises(ValueError, match="state must have an answer left, got 3 of the 2 paid"):
        mechanism.update(state._replace(remaining=jnp.int32(3)), jnp.zeros(()), 0.0)


def test_more_questions_than_paid_for_are_refused_on_the_host_and_tell_nothing_inside():
    mechanism = sparse(1, epsilon=50.0)
    exceeds, state = mechanism.update(mechanism.init(jax.random.key(0)), jnp.asarray(9.0), 0.0)
    assert exceeds
    with pytest.raises(ValueError, match="state must have an answer left, got 0 of the 1 paid"):
        mechanism.update(state, jnp.asarray(9.0), 0.0)
    again, state = jax.jit(mechanism.update)(state, jnp.asarray(9.0), 0.0)
    assert not again
    assert state.remaining == 0
    exhausted = HOLDOUT.init(jax.random.key(0))._replace(remaining=jnp.int32(0))
    with pytest.raises(ValueError, match="state must have an answer left"):
        HOLDOUT.update(exhausted, jnp.zeros(1), jnp.zeros(1))
    assert jnp.isnan(jax.jit(HOLDOUT.update)(exhausted, jnp.zeros(1), jnp.ones(1))[0])


def test_bad_input_fails_with_its_name():
    mean = BoundedMean.of(0.0, 1.0, 10)
    for answers in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match=f"answers must be an integer .* got {answers}"):
            SparseVector.calibrated(Count(), BUDGET, answers=answers)
        with pytest.raises(ValueError, match=f"answers must be an integer .* got {answers}"):
            Thresholdout.calibrated(mean, 0.1, BUDGET, answers=answers)
    for threshold in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match=f"threshold must be positive .* got {threshold}"):
            Thresholdout.calibrated(mean, threshold, BUDGET, answers=1)
    with pytest.raises(ValueError, match="query must have a l1_sensitivity"):
        SparseVector.calibrated(object(), BUDGET, answers=1)
