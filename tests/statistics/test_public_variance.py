"""The variance of a public number of records: its sensitivity by enumeration, and its noise.

Statistical tests use fixed keys; their level is the probability that an unlucky key would have
raised a false alarm.
"""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from privopt.mechanisms import GaussianMechanism, LaplaceMechanism
from privopt.privacy import Guarantee
from privopt.spec import Budget, Relation
from privopt.statistics import BoundedMean, BoundedVariance, VarianceMechanism

LEVEL = 1e-6
GRID = (-1.0, -0.4, 0.0, 0.7, 1.0)  # both bounds, the centre, and what lies between
relations = pytest.mark.parametrize("relation", list(Relation))
REPLACE = Relation.REPLACE_ONE


def answers(query, rows, present=None):
    present = np.ones(np.shape(rows), bool) if present is None else present
    return np.asarray(
        jax.jit(jax.vmap(query.answer))(jnp.asarray(rows, float), jnp.asarray(present))
    )


def worst_move(size, records, relation):
    """Over every data set of so many records on the grid, and every change of the first."""
    query = BoundedVariance.of(-1.0, 1.0, size)
    rows = np.array(list(itertools.product(GRID, repeat=records)))
    values = answers(query, rows).reshape(len(GRID), -1)
    if relation is REPLACE:
        return np.ptp(values, axis=0).max()
    absent = np.ones_like(rows, bool)
    absent[:, 0] = False
    without = answers(query, rows, absent).reshape(len(GRID), -1)
    return np.abs(values - without).max()


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_a_record_moves_it_by_its_sensitivity_and_no_more(n):
    """Attained under replacement and zeroing, at every size."""
    query = BoundedVariance.of(-1.0, 1.0, n)
    for relation in (REPLACE, Relation.ZERO_OUT):
        stated, found = query.sensitivity(relation), worst_move(n, n, relation)
        assert found <= stated
        assert found == pytest.approx(stated, rel=3e-6)
        assert query.l1_sensitivity(relation) == stated
    closed = 4.0 * (n - 1) / n**2
    assert query.sensitivity(REPLACE) == pytest.approx(closed, rel=3e-6)


def test_more_records_than_the_design_size_move_it_no_further_than_stated():
    """The bound of ``add_or_remove_one`` holds for any number, and one more nearly attains it."""
    relation = Relation.ADD_OR_REMOVE_ONE
    for size, records in ((1, 4), (2, 5), (3, 5), (3, 2)):
        stated = BoundedVariance.of(-1.0, 1.0, size).sensitivity(relation)
        assert worst_move(size, records, relation) <= stated
    query = BoundedVariance.of(-1.0, 1.0, 50)
    rows = np.full((2, 51), math.sqrt(1.0 - 1.0 / 50))
    rows[:, 0] = -1.0
    present = np.ones((2, 51), bool)
    present[1, 0] = False
    moved = np.ptp(answers(query, rows, present))
    assert 0.98 * query.sensitivity(relation) < moved <= query.sensitivity(relation)


@pytest.mark.parametrize(("lower", "upper"), [(0.0, 5.0), (2.0, 3.0), (-0.3, 0.1), (-4.0, -1.0)])
def test_it_is_the_variance_wherever_the_bounds_lie(lower, upper):
    """In the units of the records, clamped; its sensitivity only depends on the width."""
    records = np.random.default_rng(0).uniform(lower - 0.1, upper + 0.1, 40)
    query = BoundedVariance.of(lower, upper, 40)
    expected = np.clip(records, lower, upper).var()
    assert float(query.answer(jnp.asarray(records))) == pytest.approx(expected, rel=1e-5)
    width = (upper - lower) ** 2 * 39 / 40**2
    assert query.sensitivity(REPLACE) == pytest.approx(width, rel=2e-5)
    assert query.sensitivity(Relation.ZERO_OUT) == pytest.approx(0.75 * width, rel=2e-5)


@relations
@pytest.mark.parametrize("mechanism", [LaplaceMechanism, GaussianMechanism])
def test_noise_meets_the_budget_and_two_percent_less_does_not(mechanism, relation):
    delta = 0.0 if mechanism is LaplaceMechanism else 1e-6
    budget = Budget(epsilon=0.7, delta=delta, relation=relation)
    found = mechanism.calibrated(BoundedVariance.of(-1.0, 3.0, 25), budget)
    assert Guarantee(found.event(relation), relation).epsilon(delta).upper <= 0.7
    less = found._replace(scale=0.98 * found.scale)
    assert Guarantee(less.event(relation), relation).epsilon(delta).lower > 0.7


def test_the_release_is_unbiased_with_laplace_noise_of_the_stated_scale():
    records = np.linspace(-1.0, 0.6, 50)
    budget = Budget(epsilon=0.5, delta=0.0, relation=REPLACE)
    found = LaplaceMechanism.calibrated(BoundedVariance.of(-1.0, 1.0, 50), budget)
    answer = found.query.answer(jnp.asarray(records))
    keys = jax.random.split(jax.random.key(0), 40_000)
    many = np.asarray(jax.vmap(found.add_noise, (0, None))(keys, answer))
    p_value = {
        ratio: stats.kstest(many, stats.laplace(records.var(), ratio * found.scale).cdf).pvalue
        for ratio in (0.9, 1.0, 1.1)
    }
    assert p_value[1.0] > LEVEL
    assert max(p_value[0.9], p_value[1.1]) < LEVEL
    assert found.scale == pytest.approx(4.0 * 49 / 50**2 / 0.5, rel=2e-5)


def test_which_of_the_two_variances_errs_less_depends_on_where_the_records_lie():
    """As the docstrings say: three sums near the centre, one number near a bound."""
    budget, n = Budget(epsilon=1.0, delta=0.0, relation=REPLACE), 2000
    keys = jax.random.split(jax.random.key(1), 4_000)
    one = LaplaceMechanism.calibrated(BoundedVariance.of(-1.0, 1.0, n), budget)
    three = VarianceMechanism.calibrated(-1.0, 1.0, budget)
    errors = {}
    for place, records in (
        ("centre", np.linspace(-1.0, 1.0, n)),
        ("bound", np.linspace(0.8, 1.0, n)),
    ):
        exact = one.query.answer(jnp.asarray(records))
        single = jax.vmap(one.add_noise, (0, None))(keys, exact)
        shared = jax.vmap(three.release, (0, None))(keys, jnp.asarray(records))
        errors[place] = [math.sqrt(np.mean((x - records.var()) ** 2)) for x in (single, shared)]
    assert errors["centre"][1] < 0.6 * errors["centre"][0]
    assert errors["bound"][0] < 0.9 * errors["bound"][1]


def test_degenerate_data_have_their_answers():
    """No noise is needed where no record can move it: one record, or one possible value."""
    budget = Budget(epsilon=1.0, delta=0.0, relation=REPLACE)
    for query in (BoundedVariance.of(-1.0, 1.0, 1), BoundedVariance.of(0.1, 0.1, 9)):
        found = LaplaceMechanism.calibrated(query, budget)
        assert found.scale == 0.0
        for record in (0.3, -7.0, math.nan, math.inf, 1 / 3):
            assert float(query.answer(jnp.full(int(query.size), record))) == 0.0
    query = BoundedVariance.of(-1.0, 1.0, 4)
    assert float(query.answer(jnp.full(4, 0.3))) == pytest.approx(0.0, abs=1e-15)
    assert float(query.answer(jnp.zeros(0))) == 0.0
    assert float(query.answer(jnp.asarray([-9.0, 9.0, -jnp.inf, jnp.inf]))) == 1.0


@pytest.mark.parametrize("size", [0, -3, 2.5, True])
def test_bad_input_fails_with_its_name(size):
    for kind in (BoundedVariance, BoundedMean):
        with pytest.raises(ValueError, match=f"size must be a positive integer, got {size}"):
            kind.of(0.0, 1.0, size)
    with pytest.raises(ValueError, match=r"lower must not exceed upper, got 1\.0 and 0\.0"):
        BoundedVariance.of(1.0, 0.0, 3)
    with pytest.raises(ValueError, match="upper must be finite and at most 1e30, got inf"):
        BoundedVariance.of(0.0, math.inf, 3)
