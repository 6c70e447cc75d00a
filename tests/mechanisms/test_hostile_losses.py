"""Clipped risks of hostile records, attacked and measured; moved from a centre, they are convex."""

from __future__ import annotations

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting import NonPrivateDpEvent
from selection import choose

import privopt
from privopt.convex import (
    Distance,
    EmpiricalRisk,
    GeneralisedLinear,
    Hinge,
    Huber,
    L2Ball,
    Linear,
    Logistic,
    Squared,
    WholeSpace,
)
from privopt.mechanisms import ClippedRisk, GibbsMechanism, clipped_gradient_sum
from privopt.mechanisms.gibbs import loss_difference_sum
from privopt.spec import Budget, ProblemClass, Relation

N, RADIUS = 4, 0.01
REPLACE = Relation.REPLACE_ONE
FACTS = ProblemClass(n=N, dim=1, lipschitz=1.0, radius=RADIUS)
PURE = Budget(epsilon=1.0, delta=0.0, relation=REPLACE)
BOTH = Budget(epsilon=1.0, delta=1e-5, relation=REPLACE)
RUNS = choose(100_000, 40_000)  # bounds are exact for any number
SIZES = np.array([1e-300, 1e-45, 1e-8, 0.99999, 1.0, 1e6, 1e16, 1e38, 1e300, np.nan, np.inf])
HOSTILE = np.concatenate([-SIZES, [0.0], SIZES])
plan_of = privopt.ALGORITHMS["exponential_mechanism"].plan


@jax.jit
def drawn(mechanism, labels, keys):
    """One draw a key, of absolute losses about these labels on the line about 1."""
    data = jnp.ones((N, 1)), labels
    risk = EmpiricalRisk(GeneralisedLinear(Huber(0.0)), data, None, L2Ball(RADIUS, 1.0))
    return jax.vmap(lambda key: mechanism.draw(key, risk, dim=1))(keys)


@pytest.mark.parametrize(("budget", "least"), [(PURE, 0.3), (BOTH, 0.1)], ids=["pure", "curved"])
def test_huge_labels_show_no_more_than_epsilon(budget, least, epsilon_lower_bound):
    """The attack proves a good part of epsilon. False alarm 1e-4."""
    mechanism = plan_of(FACTS, budget).params.mechanism
    keys = jax.random.split(jax.random.key(3), 2 * RUNS).reshape(2, RUNS)
    labels = [[last, 1e16, -1e16, 1e16] for last in (1e16, -1e16)]
    sides = [
        drawn(mechanism, np.array(each), side) for each, side in zip(labels, keys, strict=True)
    ]
    spent = epsilon_lower_bound(*(side.point - 1.0 for side in sides), delta=budget.delta)
    assert least < spent <= budget.epsilon
    for side in sides:
        assert side.log_acceptance.max() <= 0.0
        assert side.proposals.max() < 100


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "scalar", [Huber(0.0), Huber(0.3), Squared(), Hinge(), Logistic()], ids=repr
)
def test_no_record_has_more_than_its_range_and_all_are_convex(scalar):
    """Every pair of hostile features and labels: ``|v| <= C |w - c|``, above its tangents."""
    features, labels = (part.ravel() for part in np.meshgrid(HOSTILE, HOSTILE))
    query, resolution = ClippedRisk.of(FACTS), 1e-12
    steps = RADIUS * jnp.linspace(-1.0, 1.0, 21)

    @jax.jit
    @partial(jax.vmap, in_axes=(0, 0, None))
    def moved(feature, label, centre):
        data = feature[None, None], label[None]
        risk = EmpiricalRisk(GeneralisedLinear(scalar), data, None, L2Ball(RADIUS, centre))
        potential = query.risk_of(risk, centre[None], resolution)
        value, gradient = jax.vmap(potential)((centre + steps)[:, None])
        return N * value, N * gradient[:, 0]

    for centre in (0.0, 1.0, 1e6):
        found, slopes = map(np.asarray, moved(features, labels, jnp.asarray(centre)))
        points = np.asarray(centre + steps)
        assert np.all(np.abs(found) <= np.abs(points - centre) * (1.0 + 1e-12))
        rises = found[:, None, :] - found[:, :, None]
        tangents = slopes[:, :, None] * (points[None, :] - points[:, None])
        allowed = resolution + 2.0**-46 * (centre + RADIUS)
        assert np.all(rises >= tangents - 2.0 * allowed)


def test_any_loss_has_its_range():
    """The distance in two dimensions, about a centre off zero."""
    centre = jnp.asarray([3.0, -2.0])
    records = np.stack(np.meshgrid(HOSTILE, HOSTILE), axis=-1).reshape(-1, 2)
    rng = np.random.default_rng(0)
    away = rng.normal(size=(50, 2))
    away *= RADIUS * rng.random((50, 1)) / np.linalg.norm(away, axis=1, keepdims=True)
    query = ClippedRisk.of(dataclasses.replace(FACTS, n=1, dim=2))

    @jax.jit
    @jax.vmap
    def moved(record):
        risk = EmpiricalRisk(Distance(), record[None], None, L2Ball(RADIUS, centre))
        potential = query.risk_of(risk, centre, 1e-12)
        return jax.vmap(lambda step: potential(centre + step)[0])(away)

    limit = np.linalg.norm(away, axis=1) * (1.0 + 1e-9)
    assert np.all(np.abs(moved(records)) <= limit)


def test_a_spent_number_of_proposals_is_the_centre():
    none = GibbsMechanism.pure(ClippedRisk.of(FACTS), PURE)._replace(proposals=0)
    draw = drawn(none, np.ones(N), jax.random.split(jax.random.key(0), RUNS))
    assert np.all(draw.point == 1.0)
    assert draw.proposals.max() == 0


def test_the_number_of_proposals_pays_for_its_failure():
    """The probability of failure is at most ``2^-64``, and a share of delta if delta is smaller."""
    query = ClippedRisk.of(FACTS)
    mechanism = GibbsMechanism.pure(query, PURE)
    pure = mechanism.proposals
    assert mechanism._replace(proposals=pure - 1).event(REPLACE) == NonPrivateDpEvent()
    assert GibbsMechanism.regularised(query, BOTH, 0.1).proposals == pure
    small = Budget(epsilon=1.0, delta=1e-12, relation=REPLACE)
    assert GibbsMechanism.regularised(query, small, 0.1).proposals > pure


# --- sums moved from a centre ---------------------------------------------------------------------

LOSSES = [Linear(), Logistic(), Squared(), Huber(0.0), Huber(0.3), Hinge(0.0), Hinge(0.2)]
CENTRE, WIDE = jnp.array([0.1, -0.2]), jnp.array(2.0)
FINE = jnp.array(1e-9)
names = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def data(scale=1.0):
    rng = np.random.default_rng(0)
    features = scale * rng.normal(size=(20, 2))
    return jnp.asarray(features), jnp.asarray(rng.choice([-1.0, 1.0], 20))


def total_of(loss, features, labels, clip_norm, counts=None):
    return loss_difference_sum(risk(loss, features, labels, counts), clip_norm, CENTRE, WIDE, FINE)


def risk(loss, features, labels, counts):
    data = jnp.asarray(features), jnp.asarray(labels)
    return EmpiricalRisk(GeneralisedLinear(loss), data, counts, WholeSpace())


@pytest.mark.cases(2)
@names
def test_equals_the_plain_sum_where_nothing_is_clipped(loss):
    features, labels = data()

    @jax.jit
    def both(point):
        plain = loss.value(features @ point, labels) - loss.value(features @ CENTRE, labels)
        return total_of(loss, features, labels, 1e3)(point)[0], plain.sum()

    for point in np.random.default_rng(1).uniform(-1, 1, size=(5, 2)):
        found, plain = map(float, both(point))
        assert found == pytest.approx(plain, rel=1e-12)


@pytest.mark.cases(3)
@names
def test_is_the_integral_of_the_clipped_gradient_and_convex(loss):
    """Along random chords, against a sum of gradients over fine steps; and above its tangents."""
    features, labels = data(2.0)
    counts = jnp.asarray(np.arange(20.0) % 3)
    rng, steps = np.random.default_rng(2), 5_000
    share = (np.arange(-1, steps + 1) + 0.5) / steps
    share[0], share[-1] = 0.0, 1.0

    @jax.jit
    def along(chord, clip_norm):
        gradient = clipped_gradient_sum(risk(loss, features, labels, counts), clip_norm)(chord[0])
        return *jax.vmap(total_of(loss, features, labels, clip_norm, counts))(chord), gradient

    for clip_norm in (0.05, 0.7, 0.7):
        start, end = rng.uniform(-1.4, 1.4, size=(2, 2))
        way = end - start
        found = along(start + share[:, None] * way, clip_norm)
        values, gradients, gradient = map(np.asarray, found)
        whole = clip_norm * float(counts.sum())
        rise, slopes = values[-1] - values[0], gradients @ way
        assert rise == pytest.approx(slopes[1:-1].mean(), abs=4e-3 * whole)
        assert rise >= slopes[0] - 1e-9
        assert abs(rise) <= whole * np.linalg.norm(way) * (1.0 + 1e-12)
        np.testing.assert_allclose(gradients[0], gradient, atol=1e-12)


def test_any_loss_counts_from_the_centre_and_without_records_that_are_not_finite():
    """A record too large for an exact distance counts with its slope."""
    points = np.random.default_rng(0).normal(size=(6, 2))
    point = np.array([-0.4, 0.9])
    points[2] = np.nan
    points[4] = 1e100
    risk = EmpiricalRisk(Distance(), jnp.asarray(points), None, WholeSpace())
    total = jax.jit(lambda point: loss_difference_sum(risk, 1.0, CENTRE, WIDE, FINE)(point))
    value, gradient = total(point)
    used = np.delete(points, [2, 4], axis=0)
    centre, diagonal = np.asarray(CENTRE), -np.full(2, 0.5**0.5)
    far = np.linalg.norm(point - used, axis=1)
    expected = (far - np.linalg.norm(centre - used, axis=1)).sum() + diagonal @ (point - centre)
    assert float(value) == pytest.approx(expected, rel=1e-12)
    expected = ((point - used) / far[:, None]).sum(axis=0) + diagonal
    np.testing.assert_allclose(gradient, expected, rtol=1e-12)
