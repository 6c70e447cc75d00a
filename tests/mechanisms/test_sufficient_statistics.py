"""Clipped second moments: their sensitivity by brute force, and under attack."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from selection import few

import privopt
from privopt import problems
from privopt.mechanisms import ClippedMoments
from privopt.spec import Relation

RUNS = 100_000
FACTS = privopt.ProblemClass(n=3, dim=2, lipschitz=3.0, radius=2.0, smoothness=1.0)
REPLACE = Relation.REPLACE_ONE
LABELS = [0.0, 1.0, -1.0, 1e-45, 1e38, -1e308, np.inf, np.nan]


def hostile_rows(dim):
    rng = np.random.default_rng(0)
    flat = [np.full(dim, size) for size in (0.0, 1.0, 1e38, 1e-45, 1e308, np.nan, -np.inf)]
    axes = [*np.eye(dim), *-np.eye(dim), np.r_[1e308, 1e-308, np.zeros(dim - 2)]]
    turned = [np.r_[math.cos(t), math.sin(t), np.zeros(dim - 2)] for t in np.linspace(0, 3.1, 40)]
    wild = rng.normal(size=(6, dim)) * 10.0 ** rng.uniform(-300, 300, size=(6, 1))
    return np.stack([*flat, *axes, *turned, *wild])


def answers(query, features, labels, rest=2):
    """The vector for each first record, beside the same others."""
    dim = features.shape[1]
    facts = dataclasses.replace(FACTS, n=rest + 1, dim=dim)
    others = np.random.default_rng(1).normal(size=(rest, dim))
    objective = problems.squared(
        np.zeros((rest + 1, dim)), np.zeros(rest + 1), problem_class=facts
    ).objective

    @jax.jit
    @jax.vmap
    def of(row, label):
        rows = jnp.concatenate([row[None], jnp.asarray(others)])
        moved = jnp.concatenate([label[None], jnp.ones(rest)])
        risk = dataclasses.replace(objective, data=(rows, moved))
        return query.answer(risk, jnp.full(dim, 0.1))[0]

    return np.asarray(of(jnp.asarray(features), jnp.asarray(labels)))


@pytest.mark.cases(3)
@pytest.mark.parametrize("dim", [2, 5])
@pytest.mark.parametrize("weight", [0.1, 1.0, 1.4, 3.0])
@pytest.mark.parametrize(("feature_clip", "label_clip"), [(1.0, 1.0), (0.5, 2.0)])
def test_no_record_moves_the_moments_further_than_is_charged(dim, weight, feature_clip, label_clip):
    """Use all pairs of hostile records; some pair of opposite labels nearly attains the bound."""
    query = ClippedMoments(feature_clip, label_clip, weight, 3.0, dim)
    rows = hostile_rows(dim)
    found = answers(query, np.repeat(rows, len(LABELS), axis=0), np.tile(LABELS, len(rows)))
    assert np.isfinite(found).all()
    apart = np.linalg.norm(found[:, None] - found[None], axis=-1).max()
    assert 0.99 * query.sensitivity(REPLACE) <= apart <= query.sensitivity(REPLACE)
    null = found[np.isnan(np.repeat(rows[:, 0], len(LABELS)))][0]
    alone = np.linalg.norm(found - null, axis=-1).max()
    for relation in (Relation.ZERO_OUT, Relation.ADD_OR_REMOVE_ONE):
        assert 0.99 * query.sensitivity(relation) <= alone <= query.sensitivity(relation)


@pytest.mark.thorough  # sensitivities and noise are tested one by one
@pytest.mark.parametrize(
    ("dtype", "delta"), few([(np.float64, 0.0), (np.float32, 0.01)], [(np.float64, 0.0)])
)
def test_an_attack_on_whole_programs(epsilon_lower_bound, dtype, delta):
    """Attack the worst pair by likelihood ratios of the noisy moments, 100,000 runs each.

    The records are at angles with ``cos = w^2 Y^2/(2 X^2)`` and have opposite labels. The release
    of the run contains no more information. A plan with half of its noise is detected.
    """
    budget = privopt.Budget(epsilon=2.0, delta=delta, relation="replace_one")
    planned = privopt.sufficient_statistics(FACTS, budget, weight=1.0)
    mechanism = planned.params.mechanism
    keys = [jax.random.split(jax.random.key(seed), RUNS) for seed in (0, 1)]
    pair = np.array([[1.0, 0.0], [0.5, math.sqrt(0.75)]])
    moments, released = [], []
    for row, label, seeds in zip(pair, (1.0, -1.0), keys, strict=True):
        features = np.concatenate([row[None], np.zeros((2, 2))]).astype(dtype)
        labels = np.array([label, 0.0, 0.0], dtype)
        problem = problems.squared(features, labels, problem_class=FACTS)
        found = privopt.run_many(
            [planned], problem, seeds, execution=privopt.Execution(chunk=10_000)
        )
        moments.append(np.asarray(found.secret.moments[0, 0], np.float64))
        released.append(np.asarray(found.released[0], np.float64))
    apart = np.linalg.norm(moments[0] - moments[1])
    assert apart == pytest.approx(mechanism.query.sensitivity(REPLACE), rel=1e-5)

    def attack(mechanism):
        add = jax.vmap(mechanism.add_noise, (0, None))
        noisy = [np.asarray(add(*each)) for each in zip(keys, moments, strict=True)]
        if delta:
            scores = [each @ (moments[0] - moments[1]) for each in noisy]
        else:
            away = [[np.linalg.norm(each - one, axis=1) for one in moments] for each in noisy]
            scores = [far - near for near, far in away]
        return epsilon_lower_bound(*scores, delta)

    assert 0.75 * budget.epsilon < attack(mechanism) <= budget.epsilon
    assert attack(planned.with_noise(0.5).params.mechanism) > budget.epsilon
    way = released[0].mean(axis=0) - released[1].mean(axis=0)
    assert epsilon_lower_bound(*(each @ way for each in released), delta) <= budget.epsilon
