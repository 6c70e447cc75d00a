"""First-order loop: number of steps, block sampling, public stopping, observers, paths."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from builders import Answers, descend

from privopt.convex import (
    Average,
    FirstOrder,
    StepSizes,
    Update,
    WholeSpace,
    last_iterate,
    polynomial_average,
)
from privopt.convex.loops import by_platform

STEPS, DIM = 23, 2
SGD = Update.of(optax.sgd)
NOISE = np.random.default_rng(0).normal(size=(64, DIM))
START = jnp.zeros(DIM)


def run(oracle, output=None, observer=None, losses=None, **options):
    where = WholeSpace(), START, jax.random.key(0)
    method = FirstOrder(StepSizes.constant(0.2), SGD, output or last_iterate(), **options)
    return descend(method, oracle, *where, observer=observer, losses=losses)


def plain(steps=STEPS, **options):
    def ask(state, t, point):
        return point - jnp.asarray(NOISE)[t], state + 1

    return Answers(steps, ask, lambda point: jnp.zeros((), int), **options)


def blocks(block, steps=STEPS, **options):
    """Return the same answers, from noise that is drawn for a block of steps."""

    def draw(number):
        rows = number * block + jnp.arange(block)
        return jnp.asarray(NOISE)[rows % 64]

    def ask(state, t, point, batch):
        return point - batch, state + 1

    return Answers(steps, ask, plain().init, draw=draw, block=block, **options)


def iterates(steps=STEPS):
    points = [np.zeros(DIM)]
    for t in range(steps):
        points.append(points[-1] - 0.2 * (points[-1] - NOISE[t]))
    return np.array(points)


@pytest.mark.cases(2)
@pytest.mark.parametrize("block", [1, 5, 23, 40])
def test_draws_by_blocks_change_no_bit(block):
    """Blocks that divide the steps, that do not, and that are longer than the run."""
    expected = jax.jit(lambda: run(plain(), Average(), recorded=4))()
    found = jax.jit(lambda: run(blocks(block), Average(), recorded=4))()
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(found.last, iterates()[-1], rtol=1e-12)


def test_the_oracle_says_how_many_steps_by_argument():
    traces = []

    @jax.jit
    @jax.vmap
    def last(steps):
        traces.append(1)
        return run(blocks(5, steps)).last

    found = last(jnp.array([1, 4, 23]))
    np.testing.assert_allclose(found, iterates()[[1, 4, 23]], rtol=1e-12)
    assert len(traces) == 1


@pytest.mark.cases(3)
@pytest.mark.parametrize("make", [plain, lambda **options: blocks(5, **options)])
@pytest.mark.parametrize(
    ("output", "weights"),
    [
        (Average(), np.ones(10)),
        (last_iterate(), None),
        (polynomial_average(1.0), np.arange(1.0, 11.0)),
    ],
)
def test_a_stop_ends_the_run_as_if_it_had_fewer_steps(make, output, weights):
    """Public memory counts the questions; after nine it says stop, inside a block."""
    found = jax.jit(
        lambda: run(make(stop=lambda asked: asked >= 9), output, recorded=STEPS, every_step=True)
    )()
    points = iterates(9)
    expected = points[-1] if weights is None else weights @ points / weights.sum()
    assert found.steps == 9
    np.testing.assert_allclose(found.output, expected, rtol=1e-12)
    np.testing.assert_array_equal(found.path.steps, np.arange(1, STEPS + 1))
    np.testing.assert_array_equal(found.path.points[8:], np.tile(found.output, (STEPS - 8, 1)))
    if weights is None:
        np.testing.assert_allclose(found.path.points[:9], points[1:], rtol=1e-12)


def test_stops_at_random_steps_are_those_of_each_replicate():
    """Coins of the oracle decide; replicates are mapped together and stop each at its own step."""

    def one(key):
        def ask(state, t, point):
            coin = jax.random.bernoulli(jax.random.fold_in(key, t), 0.2)
            return point - jnp.asarray(NOISE)[t], state | coin

        oracle = Answers(
            STEPS, ask, lambda point: jnp.zeros((), bool), stop=lambda stopped: stopped
        )
        return run(oracle)

    keys = jax.random.split(jax.random.key(1), 40)
    found = jax.jit(jax.vmap(one))(keys)
    coins = jax.vmap(
        lambda key: jax.vmap(lambda t: jax.random.bernoulli(jax.random.fold_in(key, t), 0.2))(
            jnp.arange(STEPS)
        )
    )(keys)
    expected = np.where(coins.any(axis=1), coins.argmax(axis=1) + 1, STEPS)
    np.testing.assert_array_equal(found.steps, expected)
    np.testing.assert_allclose(found.last, iterates()[expected], rtol=1e-12)
    assert len(set(expected)) > 5


class Norms:
    """Observer of the sums of squares of the points and of the secrets."""

    def init(self, point, secret):
        assert secret == "losses"
        return jnp.zeros(3)

    def update(self, state, t, point, secret):
        return state + jnp.stack([jnp.sum(point**2), jnp.sum(secret**2), t.astype(point.dtype)])


@pytest.mark.parametrize("make", [plain, lambda **options: blocks(5, **options)])
def test_an_observer_folds_points_and_secrets_and_changes_nothing(make):
    def secret(state, t, point, batch):
        return point - 1.0

    watched = run(make(secret=secret), Average(), observer=Norms(), losses="losses")
    alone = run(make(), Average())
    np.testing.assert_array_equal(watched.output, alone.output)
    assert alone.observed is None
    points = iterates()[:STEPS]
    expected = [np.sum(points**2), np.sum((points - 1.0) ** 2), STEPS * (STEPS - 1) / 2]
    np.testing.assert_allclose(watched.observed, expected, rtol=1e-12)


def test_without_an_accelerator_its_branch_is_not_traced():
    def refused(_):
        raise AssertionError("traced")

    result = jax.jit(lambda x: by_platform(x, cpu=lambda x: x + 1, default=refused))(2)
    assert result == 3
