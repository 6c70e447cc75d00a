"""Tests of the steps that include a record, by the sampler, and of the sums that it changes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import taken_in

from privopt import ProblemClass, problems
from privopt.mechanisms import (
    ClippedGradient,
    CyclicPoissonBatches,
    OrderedBatches,
    PoissonBatches,
    PrivateGradient,
    ShuffledBatches,
    TreeNoise,
)
from privopt.mechanisms.noise import HonakerNoise
from privopt.random import stream
from privopt.spec import Relation

N = 11
BATCHES = {
    "one pass": (OrderedBatches.of(1, N), 11),
    "passes as stored": (OrderedBatches.of(4, N, epochs=4), 12),
    "passes in random order": (OrderedBatches.of(4, N, epochs=4, order="random"), 12),
    "passes cut short": (OrderedBatches.of(3, N, epochs=3, order="random"), 10),
    "shuffled passes": (ShuffledBatches.of(4, N), 8),
    "shuffled passes cut short": (ShuffledBatches.of(2, N), 13),
}


@pytest.mark.parametrize(("batches", "steps"), BATCHES.values(), ids=BATCHES)
def test_no_record_participates_more_often_than_stated(batches, steps):
    """Check 500 runs. Some record attains the stated number, so no smaller number is valid."""
    times, gap, even = batches.participation(steps, Relation.REPLACE_ONE)
    found = taken_in(batches, steps, N, jax.random.split(jax.random.key(0), 500))[..., :N]
    records = found.transpose(0, 2, 1).reshape(-1, steps)
    of_record = [np.flatnonzero(each) for each in np.unique(records, axis=0)]
    gaps = np.concatenate([np.diff(chosen) for chosen in of_record])
    assert max(map(len, of_record)) == times
    if times > 1:
        assert gaps.min() == gap
        assert not even or gaps.max() == gap


@pytest.mark.cases(2)
@pytest.mark.parametrize(("size", "epochs"), [(1, 1), (3, 5)])
@pytest.mark.parametrize("noise", [TreeNoise(), HonakerNoise.of(20)], ids=["tree", "honaker"])
def test_a_record_changes_the_sums_of_its_own_blocks_and_no_others(noise, size, epochs):
    """The change in a block is the record times its multiplicity there, for any noise.

    All steps use one point.
    """
    batches = OrderedBatches.of(size, N, epochs=epochs, order="random")
    steps, wide, key = epochs * batches.period, 3, jax.random.key(5)
    query = ClippedGradient(1.0, float(N), wide)
    oracle = PrivateGradient(query=query, batches=batches, noise=noise, scale=0.3, steps=steps)
    public = ProblemClass(n=N, dim=wide, lipschitz=1.0, radius=5.0)
    features = np.random.default_rng(0).normal(size=(N, wide)) / 4.0

    @jax.jit
    def answers(where):
        bound = oracle.oracle(where, key)

        def step(state, t):
            answer, state = bound.update(state, t, jnp.zeros(wide))
            return state, answer

        times = jnp.arange(steps, dtype=jnp.int32)
        return jax.lax.scan(step, bound.init(jnp.zeros(wide)), times)[1]

    def of(features):
        return np.asarray(answers(problems.linear(features, problem_class=public).objective))

    held = taken_in(batches, steps, N, stream(key, "batches")[None])[0]
    for record in range(N):
        moved = features.copy()
        moved[record] = 0.0
        change = size * (of(moved) - of(features))
        squares = 0.0
        for height in range(steps.bit_length()):
            for first in range(0, (steps >> height) << height, 2**height):
                block = slice(first, first + 2**height)
                times = held[block, record].sum()
                expected = times * features[record]
                np.testing.assert_allclose(change[block].sum(axis=0), expected, atol=1e-12)
                left = first >> height & 1 == 0
                squares += times**2 * (left or isinstance(noise, HonakerNoise))
        gap = batches.period
        allowed = noise.factorisation(steps).sensitivity(epochs, gap, even=True) ** 2
        assert squares <= allowed + 1e-9
        if epochs == 1 and held[0, record]:
            assert squares == pytest.approx(allowed) == steps.bit_length()


@pytest.mark.parametrize(
    ("batches", "accepted"),
    [
        (OrderedBatches.of(1, 8), False),
        (OrderedBatches.of(1, 8, order="random"), True),
        (ShuffledBatches.of(1, 8), True),
        (CyclicPoissonBatches(PoissonBatches(0.5, 2.0, 4, 4), 2, 8), False),
        (PoissonBatches(0.5, 4.0, 8, 8), True),
    ],
)
def test_multiplicities_have_no_numbers(batches, accepted):
    """The lists of (2, 2, 2, 2) and (1, 2, 2, 3), one record replaced, differ at three places."""
    query = ClippedGradient(1.0, 8.0, 1)
    oracle = PrivateGradient(query=query, batches=batches, scale=1.0, steps=4)
    public = ProblemClass(n=8, dim=1, lipschitz=1.0, radius=5.0)
    features = np.array([[1.0], [-1.0], [1.0], [-1.0]])
    where = problems.linear(features, problem_class=public, counts=np.array([2, 2, 2, 2]))

    def bound(key):
        oracle.oracle(where.objective, key)
        return key

    if accepted:
        jax.eval_shape(bound, jax.random.key(0))
    else:
        with pytest.raises(ValueError, match="counts must be None for batches by record number"):
            jax.eval_shape(bound, jax.random.key(0))
