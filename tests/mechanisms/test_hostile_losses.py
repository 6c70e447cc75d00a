"""The exponential mechanism on records that arithmetic cannot take apart, attacked and measured."""

from __future__ import annotations

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import privopt
from privopt.convex import Hinge, Huber, L2Ball, Logistic, Squared
from privopt.mechanisms import ClippedRisk, GibbsMechanism
from privopt.problems import Distance, EmpiricalRisk, GeneralisedLinear
from privopt.spec import Budget, ProblemClass, Relation

N, RADIUS = 4, 0.01
REPLACE = Relation.REPLACE_ONE
FACTS = ProblemClass(n=N, dim=1, lipschitz=1.0, radius=RADIUS)
PURE = Budget(epsilon=1.0, delta=0.0, relation=REPLACE)
BOTH = Budget(epsilon=1.0, delta=1e-5, relation=REPLACE)
RUNS = 100_000
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
    """100,000 runs a side, false alarm 1e-4; and a good part of what may be shown is."""
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
    """With ``2^-64`` at most, and with a share of a smaller delta."""
    query = ClippedRisk.of(FACTS)
    pure = GibbsMechanism.pure(query, PURE).proposals
    assert GibbsMechanism.regularised(query, BOTH, 0.1).proposals == pure
    small = Budget(epsilon=1.0, delta=1e-12, relation=REPLACE)
    assert GibbsMechanism.regularised(query, small, 0.1).proposals > pure
