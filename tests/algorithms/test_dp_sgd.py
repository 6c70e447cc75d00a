"""Tests of DP-SGD and NoisyAdam: textbook loops, bounds and truncated batches."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import classification, logistic_slope, onto_ball
from dp_accounting import (
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    TruncatedSubsampledGaussianDpEvent,
)
from scipy import stats
from selection import few

import privopt
from privopt import problems, random
from privopt.convex import (
    Average,
    RandomIterate,
    StepSizes,
    average_after_step,
    last_iterate,
    pytree_dataclass,
)
from privopt.mechanisms import AllRecords, ClippedGradient, PoissonBatches, PrivateGradient
from privopt.mechanisms.batches import poisson_sampler
from privopt.random import stream
from privopt.theory import Exponents, batch_moments

N, DIM, STEPS = 40, 4, 15
BUDGET = privopt.Budget(epsilon=2.0, delta=1e-5, relation="add_or_remove_one")
FACTS = privopt.ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=0.7, smoothness=0.25)


def problem():
    return problems.logistic(*classification(N, DIM), problem_class=FACTS)


def plan(name="dp_sgd", facts=FACTS, budget=BUDGET, **choices):
    return privopt.ALGORITHMS[name].plan(
        facts, budget, **{"steps": STEPS, "batch_size": 10, **choices}
    )


def noisy_gradients(planned, key, points):
    """Yield noisy gradients, one record at a time, with the batches and the noise of the run."""
    mechanism = planned.params.mechanism
    features, labels = classification(N, DIM)
    batches = mechanism.batches
    of_rate = (jnp.asarray(batches.rate), batches.capacity, batches.most)
    sample = jax.jit(lambda key: poisson_sampler(*of_rate)(key, N))
    for t in range(STEPS):
        batch_key, noise_key = (
            jax.random.fold_in(stream(key, name), t) for name in ("batches", "noise")
        )
        rows, taken = sample(batch_key)
        point, total = points[-1], np.zeros(DIM)
        for row in np.asarray(rows)[np.asarray(taken)]:
            total += logistic_slope(features[row], labels[row], point, mechanism.query.clip_norm)
        noise = mechanism.scale * np.asarray(random.normal(noise_key, (DIM,), np.float64))
        yield total / batches.batch_size + noise


@pytest.mark.cases(2)
@pytest.mark.parametrize("output", [Average(), average_after_step()])
@pytest.mark.parametrize("clip_norm", [0.1, 1.0])
def test_dp_sgd_equals_the_textbook_loop(clip_norm, output):
    planned, key = plan(clip_norm=clip_norm, step_size=0.5, output=output), jax.random.key(3)
    points = [np.zeros(DIM)]
    for gradient in noisy_gradients(planned, key, points):
        points.append(onto_ball(points[-1] - 0.5 * gradient, 0.7))
    found = privopt.run(planned, problem(), key)
    averaged = points if output == Average() else points[1:]
    np.testing.assert_allclose(found.released, np.mean(averaged, axis=0), rtol=1e-9)
    np.testing.assert_allclose(found.secret.last, points[-1], rtol=1e-9)


@pytest.mark.parametrize("correction", few([False, True], [True]))
def test_noisy_adam_equals_the_textbook_loop(correction):
    planned = plan("noisy_adam", step_size=0.05, b1=0.8, b2=0.9, noise_correction=correction)
    key, variance = jax.random.key(4), planned.params.mechanism.scale**2
    points, m, u = [np.zeros(DIM)], np.zeros(DIM), np.zeros(DIM)
    for t, gradient in enumerate(noisy_gradients(planned, key, points), start=1):
        m, u = 0.8 * m + 0.2 * gradient, 0.9 * u + 0.1 * gradient**2
        first, second = m / (1.0 - 0.8**t), u / (1.0 - 0.9**t)
        if correction:
            second = np.maximum(second - variance, 0.1 * variance)
        points.append(onto_ball(points[-1] - 0.05 * first / (np.sqrt(second) + 1e-8), 0.7))
    found = privopt.run(planned, problem(), key)
    np.testing.assert_allclose(found.released, points[-1], rtol=1e-7)


def test_rate_in_place_of_batch_size():
    assert plan(batch_size=None, rate=0.25).params == plan(batch_size=10).params


def test_the_bound_in_the_letter():
    """``R G/sqrt(T + 1)`` with the second moment of a sampled, noised gradient."""
    planned = plan(output=Average())
    sigma = planned.params.mechanism.scale
    second_moment = 1.0 + (1.0 - 0.25) / 10 + DIM * sigma**2
    before = 0.7 * math.sqrt(second_moment / (STEPS + 1))
    assert planned.rate.upper == pytest.approx(before, rel=1e-6)


@pytest.mark.parametrize(
    ("sampler", "variance"), [("poisson", 0.075), ("without_replacement", 1 / 13)]
)
def test_the_smooth_bound_in_the_letter(sampler, variance):
    """``H R^2/(2T) + R sqrt(V/T)``, by default where it is the smaller: the noise is small."""
    budget = privopt.Budget(epsilon=2.0, delta=1e-5, relation="replace_one")
    planned = plan(sampler=sampler, budget=budget)
    sigma = planned.params.mechanism.scale
    spread = 0.7 * math.sqrt((variance + DIM * sigma**2) / STEPS)
    assert planned.rate.upper == pytest.approx(0.25 * 0.49 / (2 * STEPS) + spread, rel=1e-6)
    assert planned.params.descent.output == last_iterate()
    after, before = (
        plan(sampler=sampler, budget=budget, output=each).rate.upper
        for each in (average_after_step(), Average())
    )
    assert planned.rate.upper == after < before


def test_the_second_moment_of_a_sampled_gradient_is_bounded():
    """``E |g|^2 = |grad F|^2 + q (1 - q) sum |g_i|^2/b^2``, over all batches of six records."""
    gradients = np.random.default_rng(1).normal(size=(6, 2))
    gradients /= np.linalg.norm(gradients, axis=1, keepdims=True)
    rate, batch = 1.0 / 3.0, 2.0
    bound = batch_moments("poisson", n=6, batch_size=batch).second_moment
    for rows, attained in ((gradients, False), (np.tile(gradients[:1], (6, 1)), True)):
        total = 0.0
        for code in range(64):
            public_randomness = (code >> np.arange(6)) & 1
            chance = rate ** public_randomness.sum() * (1.0 - rate) ** (6 - public_randomness.sum())
            total += chance * np.sum((public_randomness @ rows / batch) ** 2)
        assert total == pytest.approx(bound, rel=1e-12) if attained else total <= bound


def test_strongly_convex_losses_get_their_steps_and_their_bound():
    """The default bound has no ``L^2``: it is ``V/(m T)`` of the noise, times a factor of ``T``."""
    facts = privopt.ProblemClass(
        n=N, dim=DIM, lipschitz=2.0, radius=1.0, smoothness=1.0, strong_convexity=0.5
    )
    for name in ("dp_gd", "dp_sgd"):
        make = privopt.ALGORITHMS[name].plan
        choices = {"batch_size": 10} if name == "dp_sgd" else {}
        planned = make(facts, BUDGET, steps=STEPS, output="weighted_average", **choices)
        sampling = 1.0 + 0.75 / 10 if name == "dp_sgd" else 1.0
        square = 4.0 * sampling + DIM * planned.params.mechanism.scale**2
        assert planned.rate.upper == pytest.approx(2 * square / (0.5 * (STEPS + 2)), rel=1e-6)
        assert planned.params.descent.step_sizes == StepSizes.strongly_convex(0.5)
        assert planned.rate.terms[0].powers == Exponents(n=-2.0, dim=1.0, epsilon=-2.0)
        short = make(facts, BUDGET, steps=STEPS, **choices)
        variance = square - 4.0
        assert short.params.descent.output == last_iterate()
        assert 0.5 * variance < 0.5 * STEPS * short.rate.upper < 2.0 * variance
        assert short.rate.upper < 0.2 * planned.rate.upper


@pytest.mark.parametrize("output", [None, last_iterate(), "last"])
def test_the_last_iterate_takes_linear_decay_and_has_the_bound_of_the_average(output):
    sharp = dataclasses.replace(FACTS, smoothness=None)
    for facts, of_average, shorter in (
        (FACTS, average_after_step(), 1.0),
        (sharp, Average(), STEPS / (STEPS + 1)),
    ):
        planned, theirs = (plan(facts=facts, output=each) for each in (output, of_average))
        assert planned.params.descent.output == last_iterate()
        size = theirs.params.descent.step_sizes.scale
        assert planned.params.descent.step_sizes == StepSizes.linear_decay(size * shorter)
        assert planned.rate.upper == pytest.approx(theirs.rate.upper, rel=1e-12)
        assert planned.guarantee == theirs.guarantee


def test_a_random_iterate_has_the_bound_of_the_average():
    random, average = (plan(output=each) for each in ("random_iterate", "average"))
    assert random.params.descent.output == RandomIterate()
    assert random.rate == average.rate


def test_fewer_places_than_records_are_charged_as_truncated_batches():
    """Epsilon is infinite for a delta below the probability that a batch overflows.

    The release may identify the data set after an overflow.
    """
    planned = plan(capacity=28, step_size=0.1)
    mechanism, event = planned.params.mechanism, planned.guarantee.event
    assert mechanism.batches.capacity == 28
    assert event == SelfComposedDpEvent(
        TruncatedSubsampledGaussianDpEvent(
            dataset_size=N,
            sampling_probability=mechanism.batches.rate * (1.0 + 2.0**-14),
            truncated_batch_size=28,
            noise_multiplier=event.event.noise_multiplier,
        ),
        STEPS,
    )
    multiplier = mechanism.scale / mechanism.record_sensitivity
    assert event.event.noise_multiplier == pytest.approx(multiplier, rel=1e-15)
    overflow = STEPS * stats.binom.sf(27, N - 1, 0.25)
    assert planned.guarantee.epsilon(0.9 * overflow).upper == math.inf
    assert planned.guarantee.epsilon(1.1 * overflow).upper < math.inf
    assert planned.guarantee.meets(BUDGET)


def test_places_for_all_records_are_charged_as_poisson_batches():
    whole = plan(capacity=N)
    assert isinstance(whole.guarantee.event.event, PoissonSampledDpEvent)
    assert plan(capacity=25).params.mechanism.scale > whole.params.mechanism.scale


def test_a_sampler_may_be_a_name_or_an_object():
    """A sampler object defines the batch size. Only samplers of privopt have a rate."""
    named = plan(steps=30, batch_size=10)
    batches = PoissonBatches.of(10, N, budget=BUDGET, steps=30)
    given = plan(steps=30, batch_size=None, sampler=batches)
    assert given == named
    own = plan(steps=30, batch_size=None, sampler=EveryRecord())
    assert own.guarantee.meets(BUDGET)
    assert own.rate.upper == math.inf
    for choice, value in {"batch_size": 10, "capacity": 20}.items():
        with pytest.raises(ValueError, match=f"{choice} must be left out with a sampler"):
            plan(**{"batch_size": None, "sampler": batches, choice: value})
    for bad in (object(), PoissonBatches):
        with pytest.raises(ValueError, match=r"sampler must be one of poisson, .* or answer block"):
            plan(batch_size=None, sampler=bad)
    for given in ({"batches": object()}, {"batches": batches, "noise": object()}):
        with pytest.raises(
            ValueError,
            match=r"(batches must .*answer b|noise must be a Noise or a string).*, got an object",
        ):
            PrivateGradient.calibrated(ClippedGradient.of(FACTS), BUDGET, 30, **given)


@pytree_dataclass
@dataclasses.dataclass(frozen=True)
class EveryRecord(AllRecords):
    """User-defined batches; the distance of their gradients from the full gradient is unknown."""
