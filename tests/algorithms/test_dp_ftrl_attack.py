"""Tests of DP-FTRL under attack: complete paths, hostile records and distant starts."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import claimed_mu, separation
from dp_accounting.pld import PLDAccountant
from selection import few

import privopt
from privopt.convex import EmpiricalRisk, WholeSpace
from privopt.core import Execution
from privopt.core.parameters import scaled
from privopt.factorisations import FACTORISATIONS
from privopt.mechanisms.noise import RestartedNoise
from privopt.spec import Relation

RUNS, DELTA = 100_000, 0.01
ZERO, REPLACE = Relation.ZERO_OUT, Relation.REPLACE_ONE
FREE = ("banded", "banded_inverse", "buffered")
DESCENT = {"epochs": 4, "batch_size": 1, "step_size": 1.0, "regularisation": None}
DP_FTRL = privopt.ALGORITHMS["dp_ftrl"]


def along(point, record):
    """Return a linear loss; its gradient is the record."""
    return point @ record


def plan(name, relation, n=4, dim=1, epsilon=4.0, **choices):
    """Return a plan on the whole line; the attack observes every iterate."""
    facts = privopt.ProblemClass(n=n, dim=dim, lipschitz=1.0, radius=math.inf)
    budget = privopt.Budget(epsilon=epsilon, delta=1e-4, relation=relation)
    given = {"epochs": 2, "order": "stored", "regularisation": 1.0, "output": "last"}
    given |= {"record": "all", "band": 3 if name in FREE else None}
    return DP_FTRL.plan(facts, budget, noise=name, **given | choices)


@partial(jax.jit, static_argnums=0)
def paths(static, params, records, start, keys):
    risk = EmpiricalRisk(along, records, None, WholeSpace(), start)

    def one(key):
        found = DP_FTRL.run(static, params, risk, key, Execution())
        return jnp.concatenate([start[None], found.path.points])

    return jax.vmap(one)(keys)


def transcripts(planned, records, seed, runs=RUNS, dtype=jnp.float32):
    """Return ``w_t - w_{t+1}``: noisy gradients over ``Lambda``, as ``(runs, steps, dim)``."""
    records = jnp.asarray(records, dtype)
    keys = jax.random.split(jax.random.key(seed), runs)
    found = paths(planned.static, planned.params, records, jnp.zeros_like(records[0]), keys)
    return -np.diff(np.asarray(found, np.float64), axis=1)


def attacked(planned, relation):
    """Return normal log likelihood ratios of the transcripts on two neighbours.

    The first record has its largest value in one data set, and its opposite or zero in the other.
    """
    one, two = np.zeros((2, 4, 1))
    one[0], two[0] = 1.0, -1.0 if relation is REPLACE else 0.0
    found = [transcripts(planned, each, seed)[..., 0] for seed, each in enumerate((one, two))]
    spread = 0.5 * (np.cov(found[0].T) + np.cov(found[1].T))
    direction = np.linalg.solve(spread, found[0].mean(axis=0) - found[1].mean(axis=0))
    return [each @ direction for each in found]


PATHS = [
    ("tree", REPLACE, {}),
    ("toeplitz", REPLACE, {"restart": True}),
    ("honaker", ZERO, {"momentum": 0.7}),
    ("banded_inverse", REPLACE, DESCENT),
    ("tree", ZERO, DESCENT),
]


@pytest.mark.parametrize(("name", "relation", "choices"), few(PATHS, PATHS[:1]))
def test_an_attack_on_the_path_of_a_plan(epsilon_lower_bound, name, relation, choices):
    """Attack two passes of the leader over four records, or four passes of descent.

    Momentum can be inverted. False alarm 1e-4 each.
    """
    planned = plan(name, relation, **choices)
    claimed = claimed_mu(planned.guarantee.event, relation)
    found = attacked(planned, relation)
    mu, error = separation(*found)
    assert 0.9 * claimed < mu < claimed + 5.0 * error
    epsilon = planned.guarantee.epsilon(DELTA).upper
    assert epsilon_lower_bound(*found, DELTA) <= epsilon


@pytest.mark.thorough  # plans refuse such noise
def test_noise_planned_for_one_pass_and_used_for_two_is_caught():
    """The plan refuses such noise. The attack detects it when the check of the plan is bypassed."""
    planned, once = plan("toeplitz", ZERO), plan("toeplitz", ZERO, epochs=1)
    mechanism = planned.params.mechanism
    less = scaled(mechanism, once.params.mechanism.scale / mechanism.scale)
    short = planned.params._replace(mechanism=less)
    with pytest.raises(ValueError, match="guarantee must lie within the budget"):
        replace(planned, params=short)
    mu, error = separation(*attacked(SimpleNamespace(static=planned.static, params=short), ZERO))
    assert mu > claimed_mu(once.guarantee.event, ZERO) + 5.0 * error


@pytest.mark.cases(6)
@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("name", FACTORISATIONS)
def test_a_plan_claims_what_its_mechanism_says_and_meets_its_budget(name, restart):
    """Test any number of records, passes and batches, also steps that no pass divides evenly."""
    for n, epochs, batch_size, relation in [
        (1, 1, 1, ZERO), (7, 1, 1, REPLACE), (7, 3, 2, REPLACE), (10, 2, 10, ZERO), (33, 5, 4, ZERO)
    ]:  # fmt: skip
        band = 1 if name in FREE and (n == 1 or batch_size == n) else None
        planned = plan(
            name, relation, n, epsilon=1.0, epochs=epochs, batch_size=batch_size,
            restart=restart, band=2 if name in FREE and band is None else band,
        )  # fmt: skip
        mechanism = planned.params.mechanism
        assert mechanism.steps == epochs * -(-n // batch_size)
        assert planned.guarantee.event == mechanism.event(relation)
        assert planned.guarantee.meets(planned.budget)
        assert planned.guarantee.epsilon(1e-4).upper > 0.999
        assert isinstance(mechanism.noise, RestartedNoise) == (restart and epochs > 1)
    if name == "tree":
        event, neighbouring = planned.guarantee.exported()
        found = PLDAccountant(neighbouring).compose(event).get_epsilon(1e-4)
        assert found == pytest.approx(1.0, rel=1e-2)


# --- hostile records ------------------------------------------------------------------------------


SIZES = [0.0, 1e-45, 1e-20, 1.0, 3e19, 3e38, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize(
    ("name", "restart"), few([("tree", False), ("honaker", True)], [("tree", False)])
)
def test_a_hostile_record_moves_its_own_steps_by_its_share_and_no_others(name, restart):
    """The path is finite for any hostile record, and its other steps do not change.

    All runs use one key.
    """
    planned = plan(name, ZERO, 8, 2, batch_size=2, restart=restart)
    others = np.random.default_rng(0).normal(size=(8, 2))
    hostile = [(a, b) for a in SIZES for b in (0.0, a, -1e30)]
    stack = np.repeat(others[None], len(hostile) + 1, axis=0)
    stack[0, 3] = 0.0
    stack[1:, 3] = hostile
    for dtype in (jnp.float32, jnp.float64):
        found = np.stack([transcripts(planned, each, 3, 1, dtype)[0] for each in stack])
        assert np.isfinite(found).all()
        moved = np.linalg.norm(found[1:] - found[0], axis=-1)
        rounding = 16.0 * float(jnp.finfo(dtype).eps) * np.abs(np.cumsum(found, axis=1)).max()
        assert moved[:, [0, 2, 3, 4, 6, 7]].max() <= rounding
        assert moved.max() <= planned.params.mechanism.record_sensitivity * (1.0 + 1e-12) + rounding


def test_more_and_fewer_records_than_are_public():
    planned = plan("tree", ZERO, 8, 1, batch_size=2)
    records = np.ones((11, 1))
    records[8:] = np.nan
    usual = transcripts(planned, records[:8], 0, 1, jnp.float64)
    np.testing.assert_array_equal(transcripts(planned, records, 0, 1, jnp.float64), usual)
    fewer = transcripts(planned, records[:7], 0, 1, jnp.float64)
    np.testing.assert_allclose((usual - fewer)[0, :, 0], [0, 0, 0, 0.5] * 2, atol=1e-12)


@pytest.mark.parametrize("restart", few([False, True], [True]))
def test_the_path_begins_again_after_steps_that_are_not_finite(restart):
    """Step sizes exceed float32: every such step returns to the start, for all records."""
    planned = plan("tree", ZERO, 8, 1, regularisation=1e-37, restart=restart)
    ends = []
    for value in (1.0, -1.0, np.nan):
        found = transcripts(planned, np.full((8, 1), value), 0, 200)
        assert np.isfinite(found).all()
        ends.append(np.mean(found == 0.0))
    assert max(ends) - min(ends) < 0.25


def test_a_start_far_away_keeps_the_sum_of_all_gradients():
    """Steps of 1 are lost at 1e8 (float32 has a spacing of 8), but their sum is kept."""
    planned = plan("tree", ZERO, 300, 1, epochs=1)
    silent = planned.params._replace(mechanism=scaled(planned.params.mechanism, 0.0))
    records, start = jnp.ones((300, 1), jnp.float32), jnp.full(1, 1e8, jnp.float32)
    found = np.asarray(
        paths(planned.static, silent, records, start, jax.random.split(jax.random.key(0), 1))
    )[0, :, 0]
    np.testing.assert_allclose(found, 1e8 - np.arange(301.0), atol=8.0, rtol=0.0)
    assert found[-1] <= 1e8 - 296.0
