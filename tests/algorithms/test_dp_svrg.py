"""Tests of DP-SVRG: textbook loop, comparison of its event with another accountant, and shape."""

import dataclasses
import math

import dp_accounting as dp
import jax
import numpy as np
import pytest
from builders import classification, logistic_slope, onto_ball, operations
from selection import few

import privopt
from privopt import problems, random
from privopt.convex import last_iterate
from privopt.core import Execution
from privopt.mechanisms import PrivateGradient
from privopt.mechanisms.batches import poisson_sampler
from privopt.privacy import Guarantee, gaussian_mu, gaussian_noise_multiplier, round_up
from privopt.random import stream

BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="add_or_remove_one")
FACTS = privopt.ProblemClass(n=40, dim=6, lipschitz=1.0, radius=0.7, smoothness=0.25)
DP_SVRG = privopt.ALGORITHMS["dp_svrg"]


def plan(facts=FACTS, budget=BUDGET, **choices):
    choices = {"steps": 11, "anchor_every": 4, "batch_size": 10, "step_size": 0.5, **choices}
    return DP_SVRG.plan(facts, budget, **choices)


def textbook(features, labels, mechanism, key, *, steps, step_size, radius):
    """Return the output, computed one record at a time with the noise and batches of ``key``."""
    n, dim = features.shape
    batches, noises, draws_of = mechanism.batches, stream(key, "noise"), stream(key, "batches")
    point, total = np.zeros(dim), np.zeros(dim)
    sample = jax.jit(
        lambda key: poisson_sampler(np.float64(batches.rate), batches.capacity, n)(key, n)
    )
    for t in range(steps):
        total += point
        noise = np.asarray(random.normal(jax.random.fold_in(noises, t), (dim,), np.float64))
        if t % mechanism.period == 0:
            records = zip(features, labels, strict=True)
            each = [logistic_slope(x, y, point, mechanism.query.clip_norm) for x, y in records]
            anchor, direction = point, np.sum(each, axis=0) / n + mechanism.scale * noise
            at_anchor = direction
        else:
            rows, taken = sample(jax.random.fold_in(draws_of, t))
            change = np.zeros(dim)
            for i in np.asarray(rows)[np.asarray(taken)]:
                here, there = (logistic_slope(features[i], labels[i], w) for w in (point, anchor))
                change += onto_ball(here - there, mechanism.difference_query.clip_norm)
            direction = at_anchor + change / batches.batch_size
            direction += mechanism.difference_scale * noise
        point = onto_ball(point - step_size * direction, radius)
    return (total + point) / (steps + 1)


@pytest.mark.cases(2)
@pytest.mark.parametrize("difference_clip", [0.01, None])
@pytest.mark.parametrize("steps", [1, 8, 11])
def test_equals_the_textbook_loop(steps, difference_clip):
    """Test both kinds of clipping, complete periods and a truncated last period."""
    planned = plan(steps=steps, clip_norm=0.2, difference_clip=difference_clip)
    features, labels = classification(40, 6)
    key = jax.random.key(3)
    where = problems.logistic(features, labels, problem_class=FACTS)
    expected = textbook(
        features, labels, planned.params.mechanism, key, steps=steps, step_size=0.5, radius=0.7
    )
    found = privopt.run(planned, where, key).released
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


# --- the ledger -----------------------------------------------------------------------------------


def kinds(event):
    """Return the elementary events with their multiplicities."""
    if isinstance(event, dp.ComposedDpEvent):
        return [leaf for part in event.events for leaf in kinds(part)]
    assert isinstance(event, dp.SelfComposedDpEvent)
    return [(event.event, event.count)]


@pytest.mark.parametrize(("steps", "anchors"), [(4, 1), (5, 2), (11, 3), (12, 3)])
def test_the_ledger_holds_both_kinds(steps, anchors):
    planned = plan(steps=steps)
    mechanism = planned.params.mechanism
    (full, times), *rest = kinds(planned.guarantee.event)
    assert type(full) is dp.GaussianDpEvent
    assert times == anchors
    record_sensitivity = mechanism.query.record_sensitivity / 40
    assert full.noise_multiplier == pytest.approx(mechanism.scale / record_sensitivity, rel=1e-12)
    ((sampled, count),) = rest
    assert count == steps - anchors
    expected = mechanism.difference_scale / mechanism.differences.record_sensitivity
    assert sampled.noise_multiplier == pytest.approx(expected, rel=1e-12)
    assert sampled.sampling_probability == pytest.approx(0.25, rel=1e-4)
    assert sampled.sampling_probability >= 0.25


@pytest.mark.parametrize("relation", list(privopt.Relation))
def test_charging_one_kind_alone_breaks_the_budget(relation):
    """Noise that pays for the steps in between, or for the anchors, leaves the others unpaid."""
    budget = dataclasses.replace(BUDGET, relation=relation)
    planned = plan(budget=budget)
    mechanism = planned.params.mechanism
    unpaid = dataclasses.replace(
        mechanism,
        scale=round_up(
            gaussian_noise_multiplier(budget, 3) * mechanism.query.record_sensitivity / 40
        ),
    )
    alone = PrivateGradient.calibrated(mechanism.difference_query, budget, 8, mechanism.batches)
    for broken in (unpaid, dataclasses.replace(mechanism, difference_scale=alone.scale)):
        assert Guarantee(broken.event(relation), relation).epsilon(1e-5).lower > 1.1
        with pytest.raises(ValueError, match="within the budget"):
            dataclasses.replace(planned, params=planned.params._replace(mechanism=broken))


def test_shares_follow_the_clips():
    """``mu^2`` as ``C : C'``, where the noise of batches is large and the limit is close."""
    budget = privopt.Budget(epsilon=0.2, delta=1e-5, relation="add_or_remove_one")
    mechanism = plan(budget=budget, steps=400, clip_norm=1.0, difference_clip=0.25).params.mechanism
    (full, anchors), (sampled, count) = kinds(mechanism.event(budget.relation))
    of_anchors = anchors / full.noise_multiplier**2
    of_differences = count * 0.25**2 * math.expm1(1.0 / sampled.noise_multiplier**2)
    assert of_anchors / of_differences == pytest.approx(4.0, rel=1e-3)
    assert math.sqrt(of_anchors + of_differences) == pytest.approx(gaussian_mu(0.2, 1e-5), rel=0.02)


@pytest.mark.parametrize("path", few(["linear", "general"], ["linear"]))
def test_no_record_moves_an_answer_by_more_than_its_clip(path):
    """Replace one record by any other, with all records in the batch and no noise."""
    planned = plan(batch_size=40, difference_clip=0.05)
    changes = dataclasses.replace(planned.params.mechanism.differences, scale=0.0)
    rng = np.random.default_rng(1)
    features, labels = classification(40, 6)
    moves = []

    def loss(w, record):
        features, labels = record
        return jax.numpy.logaddexp(0.0, -labels * (features @ w))

    unsmooth = dataclasses.replace(FACTS, smoothness=None)  # else a long record is shortened
    if path == "linear":
        where = problems.logistic(features, labels, problem_class=unsmooth)
    else:
        where = problems.Problem(loss=loss, data=(features, labels), problem_class=FACTS)

    @jax.jit
    def answer(key, point, data):
        objective = dataclasses.replace(where.objective, data=data)
        return changes.oracle(objective, key).update((), 1, point, None, jax.numpy.zeros(6))[0]

    for trial in range(8):
        answers, point = [], rng.normal(size=6)
        for size in (1.0, 10.0 ** rng.uniform(-1, 3)):
            others = features.copy()
            others[3] *= size
            answers.append(np.asarray(answer(jax.random.key(trial), point, (others, labels))))
        moves.append(float(np.linalg.norm(answers[0] - answers[1])))
    assert 0.2 * 0.05 / 40 < max(moves) <= 2.0 * 0.05 / 40 * (1.0 + 1e-6)


# --- the shape of the program ---------------------------------------------------------------------


def test_full_gradients_are_not_computed_between_anchors():
    """Inspect runs with different numbers, mapped together: 997 records and batches of 10.

    In nested loops, the innermost never makes an array of all records.
    """
    facts = dataclasses.replace(FACTS, n=997)
    where = problems.logistic(*classification(997, 6), problem_class=facts).objective
    planned = plan(facts, capacity=40)
    params = jax.tree.map(lambda x: np.stack([np.asarray(x)] * 2), planned.params)
    one = jax.vmap(lambda p, k: DP_SVRG.run(planned.static, p, where, k, Execution()), (None, 0))
    keys = jax.random.split(jax.random.key(0), 4)
    found = [  # a scan is over the words of a draw, a while over the steps of a method
        (around.count("while"), [getattr(out.aval, "shape", ()) for out in each.outvars])
        for each, around in operations(jax.make_jaxpr(jax.vmap(one, (0, None)))(params, keys).jaxpr)
    ]
    assert max(depth for depth, _ in found) == 3
    assert not any(997 in shape for depth, shapes in found if depth == 3 for shape in shapes)


# --- the plan -------------------------------------------------------------------------------------


def test_defaults_clip_nothing():
    """The default clipping norms clip no gradient.

    Few records are read when gradients change little. The steps are complete periods.
    """
    planned = DP_SVRG.plan(FACTS, BUDGET, batch_size=10)
    mechanism = planned.params.mechanism
    often = DP_SVRG.plan(FACTS, BUDGET, batch_size=10, anchor_every=1)
    assert mechanism.period == 4
    assert mechanism.steps % 4 == 0
    assert 0 <= mechanism.steps - often.params.mechanism.steps < 4
    assert often.rate.upper < planned.rate.upper < 1.6 * often.rate.upper
    assert planned.params.descent.output == last_iterate()
    assert mechanism.query.clip_norm == 1.0
    assert mechanism.difference_query.clip_norm == round_up(2 * 0.25 * 0.7)
    assert math.isfinite(planned.rate.upper)
    assert "A/(T + 1)" in planned.rate.theorem


def test_where_gradients_may_differ_by_twice_their_length_every_step_is_an_anchor():
    """The plan then has the noise of DP-GD."""
    facts = dataclasses.replace(FACTS, radius=5.0)
    mechanism = DP_SVRG.plan(facts, BUDGET, steps=9).params.mechanism
    descent = privopt.dp_gd(facts, BUDGET, steps=9).params.mechanism
    assert mechanism.period == 1
    assert mechanism.scale == pytest.approx(descent.scale, rel=1e-4)  # by another accountant


def test_the_exponents_are_those_of_default_steps_in_whole_periods():
    for facts in (FACTS, dataclasses.replace(FACTS, n=41)):
        gradients = [DP_SVRG.plan(facts, BUDGET, steps=steps).rate.terms[1] for steps in (None, 3)]
        assert [term.powers.steps == 0.0 for term in gradients] == [True, False]
