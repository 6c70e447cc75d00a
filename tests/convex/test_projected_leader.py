"""The leader against a loop in NumPy, against dual averaging and descent, and over many steps."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from boxes import Simplex
from builders import Answers, descend

from privopt.convex import (
    FirstOrder,
    L2Ball,
    StepSizes,
    Update,
    WholeSpace,
    last_iterate,
    projected_leader,
)

STEPS, DIM, ETA = 13, 4, 0.3
GRADIENTS = np.random.default_rng(0).normal(size=(STEPS, DIM)) + 0.4
START = np.array([0.3, -0.2, 0.1, 0.0])


def points(update, constraint, start=START, gradients=GRADIENTS, step_sizes=None):
    """Return ``w_2, .., w_{T+1}`` of the loop, on gradients that do not depend on the iterate."""
    rows, method = jnp.asarray(gradients), FirstOrder(
        step_sizes or StepSizes.constant(ETA), update, last_iterate(), len(gradients),
        every_step=True,
    )  # fmt: skip
    oracle = Answers(len(rows), lambda memory, t, _: (rows[t], memory))
    found = descend(method, oracle, constraint, jnp.asarray(start), jax.random.key(0))
    return np.asarray(found.path.points)


def onto_ball(point, radius):
    return point * min(1.0, radius / np.linalg.norm(point))


def textbook(momentum, period, radius):
    """``V_t = gamma V_{t-1} + s_t`` from the sums themselves."""
    start, point = START, START
    for t in range(STEPS):
        if t % period == 0:
            start, first, followed = point, t, np.zeros(DIM)
        followed = momentum * followed + GRADIENTS[first : t + 1].sum(axis=0)
        point = onto_ball(start - ETA * followed, radius)
        yield point


@pytest.mark.cases(4)
@pytest.mark.parametrize("radius", [0.7, 100.0])
@pytest.mark.parametrize("period", [None, 1, 5])
@pytest.mark.parametrize("momentum", [0.0, 0.8])
def test_equals_the_textbook_loop(momentum, period, radius):
    update = Update.of(projected_leader, momentum=momentum, period=period)
    expected = np.array(list(textbook(momentum, period or STEPS, radius)))
    np.testing.assert_allclose(points(update, L2Ball(radius)), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("constraint", [L2Ball(0.7), Simplex(), WholeSpace()])
def test_it_is_dual_averaging(constraint):
    """``w`` minimises ``<s, w> + (Lambda/2) |w - w_1|^2``: no member is in a descent direction."""
    found = points(Update.of(projected_leader), constraint)
    members = np.random.default_rng(1).normal(size=(200, DIM)) * 3.0
    members = np.asarray(jax.vmap(constraint.project)(jnp.asarray(members)))
    for point, total in zip(found, GRADIENTS.cumsum(axis=0), strict=True):
        slope = total + (point - START) / ETA
        assert ((members - point) @ slope).min() >= -1e-9


def test_step_sizes_are_those_of_the_whole_sum():
    found = points(
        Update.of(projected_leader), WholeSpace(), step_sizes=StepSizes.inverse_root(ETA)
    )
    sizes = ETA / np.sqrt(np.arange(1, STEPS + 1))
    np.testing.assert_allclose(found, START - sizes[:, None] * GRADIENTS.cumsum(axis=0), rtol=1e-12)


def test_a_step_that_is_not_finite_starts_anew():
    broken = GRADIENTS.copy()
    broken[4, 2] = np.nan
    found = points(Update.of(projected_leader, momentum=0.5), L2Ball(0.7), gradients=broken)
    np.testing.assert_array_equal(found[4], START)
    again = points(Update.of(projected_leader, momentum=0.5), L2Ball(0.7), gradients=GRADIENTS[5:])
    np.testing.assert_allclose(found[5:], again, rtol=1e-14)


@pytest.mark.optimised
def test_a_million_steps_in_float32():
    """Off by the rounding of the last sum, where sums as they come lose two digits more."""
    steps = 1_000_000
    leader = projected_leader(1.0)
    numbers = np.random.default_rng(2).normal(0.1, 1.0, size=(steps, 3)).astype(np.float32)
    rows = jnp.asarray(numbers)

    def step(t, state):
        point, memory, plain = state
        moved, memory = leader.update(rows[t], memory, point)
        return optax.apply_updates(point, moved), memory, plain + rows[t]

    zero = jnp.zeros(3, jnp.float32)
    point, _, plain = jax.jit(
        lambda: jax.lax.fori_loop(0, steps, step, (zero, leader.init(zero), zero))
    )()
    exact = numbers.astype(np.float64).sum(axis=0)
    spacing = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    error, as_they_come = (
        np.abs(np.asarray(each, np.float64) - exact).max() / spacing.min()
        for each in (-point, plain)
    )
    assert error <= 1.0
    assert as_they_come > 100.0


def test_pytrees_of_any_dtype_keep_it():
    seen = {"a": jnp.ones((2, 3), jnp.float32), "b": jnp.ones((), jnp.float32)}
    leader = projected_leader(0.1, momentum=0.5, period=2)
    moved, state = leader.update(seen, leader.init(seen), seen)
    assert {leaf.dtype for leaf in jax.tree.leaves(moved)} == {jnp.dtype(jnp.float32)}
    assert state.total["a"].shape == (2, 3)
