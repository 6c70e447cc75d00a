"""First-order loop, output rules, step sizes and updates against NumPy loops."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from builders import Answers, descend

from privopt.convex import (
    Average,
    FirstOrder,
    L2Ball,
    RandomIterate,
    StepSizes,
    Update,
    WholeSpace,
    average_after_step,
    last_iterate,
    polynomial_average,
)

DIM, STEPS = 3, 12
MATRIX = np.diag([1.0, 0.5, 0.1])
TARGET = np.array([1.0, -2.0, 0.5])
NOISE = np.random.default_rng(0).normal(size=(STEPS, DIM))
SGD = Update.of(optax.sgd)


def oracle(steps=STEPS):
    def ask(state, t, point):
        gradient = jnp.asarray(MATRIX) @ (point - jnp.asarray(TARGET)) + jnp.asarray(NOISE)[t]
        return gradient, state + 1

    return Answers(steps, ask, lambda _: jnp.zeros((), int))


def method(output, *, sizes=None, update=SGD, recorded=0):
    return FirstOrder(sizes or StepSizes.constant(0.3), update, output, recorded)


def found(rule, constraint=None, steps=STEPS, **options):
    where = constraint or WholeSpace(), jnp.zeros(DIM), jax.random.key(0)
    return jax.jit(lambda: descend(method(rule, **options), oracle(steps), *where))()


def iterates(sizes=lambda t: 0.3, radius=np.inf, steps=STEPS):
    """``w_1, ..., w_{T+1}``."""
    points = [np.zeros(DIM)]
    for t in range(steps):
        gradient = MATRIX @ (points[-1] - TARGET) + NOISE[t]
        point = points[-1] - sizes(t + 1) * gradient
        points.append(point * min(1.0, radius / max(np.linalg.norm(point), 1e-300)))
    return np.array(points)


WEIGHTS = {
    "average": (Average(), np.ones(STEPS + 1)),
    "average after step": (average_after_step(), np.arange(STEPS + 1) > 0),
    "polynomial 1": (polynomial_average(1.0), np.arange(1.0, STEPS + 2)),
    "polynomial 3": (
        polynomial_average(3.0),
        np.array([t * (t + 1.0) * (t + 2.0) for t in range(1, STEPS + 2)]),
    ),
}


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("radius", [np.inf, 0.8])
def test_means_equal_their_definition(name, radius):
    rule, weights = WEIGHTS[name]
    constraint = WholeSpace() if np.isinf(radius) else L2Ball(radius)
    points = iterates(radius=radius)
    expected = weights @ points / weights.sum()
    result = found(rule, constraint)
    np.testing.assert_allclose(result.output, expected, rtol=1e-12)
    np.testing.assert_allclose(result.last, points[-1], rtol=1e-12)
    assert result.path is None


def test_a_random_iterate_is_uniform():
    """Over 3900 keys: chi-square at level 1e-6."""
    points = iterates()

    @jax.jit
    @jax.vmap
    def released(key):
        return descend(method(RandomIterate()), oracle(), WholeSpace(), jnp.zeros(DIM), key).output

    outputs = np.asarray(released(jax.random.split(jax.random.key(0), 3900)))
    distances = np.linalg.norm(outputs[:, None] - points[None], axis=-1)
    assert distances.min(axis=1).max() < 1e-12
    counts = np.bincount(distances.argmin(axis=1), minlength=STEPS + 1)
    assert np.sum((counts - 300) ** 2 / 300) < 50.9


SIZES = {
    "constant": (StepSizes.constant(0.3), lambda t: 0.3),
    "inverse root": (StepSizes.inverse_root(0.7), lambda t: 0.7 / np.sqrt(t)),
    "linear decay": (StepSizes.linear_decay(0.5), lambda t: 0.5 * (1 - (t - 1) / STEPS)),
    "strongly convex": (StepSizes.strongly_convex(0.1), lambda t: 2 / (0.1 * (t + 1))),
}


@pytest.mark.parametrize("name", SIZES)
def test_step_sizes_are_those_of_the_theorems(name):
    sizes, formula = SIZES[name]
    result = found(last_iterate(), L2Ball(2.0), sizes=sizes)
    np.testing.assert_allclose(result.output, iterates(formula, 2.0)[-1], rtol=1e-10)


@pytest.mark.optimised
@pytest.mark.cases(2)
@pytest.mark.parametrize("rule", [Average(), last_iterate(), polynomial_average(2.0)])
def test_the_path_is_what_fewer_steps_release(rule):
    result = found(rule, recorded=6)
    steps = np.asarray(result.path.steps)
    assert steps[0] == 1
    assert steps[-1] == STEPS
    assert np.all(np.diff(steps) >= 0)
    for at, point in zip(steps, result.path.points, strict=True):
        np.testing.assert_allclose(found(rule, steps=int(at)).output, point, rtol=1e-12)
    np.testing.assert_array_equal(result.path.points[-1], result.output)
    np.testing.assert_array_equal(found(rule).output, result.output)


def test_what_is_not_finite_starts_again():
    """The run restarts at the public start with new moments, and no exception is raised."""

    def ask(state, t, point):
        return jnp.where(t == 7, jnp.nan, 1.0) * jnp.ones(DIM), state

    run = method(last_iterate(), update=Update.of(optax.sgd, momentum=0.9))
    where = WholeSpace(), jnp.ones(DIM), jax.random.key(0)
    after = descend(run, Answers(STEPS, ask), *where).output
    fresh = descend(run, Answers(4, lambda m, t, w: (jnp.ones(DIM), m)), *where).output
    np.testing.assert_allclose(after, fresh, rtol=1e-12)


def test_any_pytree_is_a_parameter():
    start = {"a": jnp.ones((2, 3)), "b": (jnp.zeros(()), jnp.ones(4))}
    target = jax.tree.map(lambda leaf: 3.0 * jnp.ones_like(leaf), start)

    def ask(state, t, point):
        return jax.tree.map(jnp.subtract, point, target), state

    run = method(Average(), update=Update.of(optax.adam), recorded=3)
    result = descend(run, Answers(300, ask), WholeSpace(), start, jax.random.key(0))
    assert jax.tree.structure(result.output) == jax.tree.structure(start)
    assert jax.tree.map(jnp.shape, result.path.points)["a"] == (3, 2, 3)
    for leaf in jax.tree.leaves(result.last):
        np.testing.assert_allclose(leaf, 3.0, atol=0.1)


@pytest.mark.parametrize(
    ("factory", "options", "message"),
    [
        (optax.polyak_sgd, {}, "update must need only noisy gradients and parameters"),
        (
            optax.chain(optax.sgd(1.0), optax.scale_by_backtracking_linesearch(5)),
            {},
            "update must need only noisy gradients and parameters",
        ),
        (optax.adam, {"learning_rate": 0.1}, "learning_rate must be left out"),
        (
            optax.contrib.sophia,
            {},
            "update must need only noisy gradients and parameters, got sophia",
        ),
        (optax.contrib.momo(0.1), {}, "update must need only noisy gradients and parameters"),
        (lambda learning_rate: None, {}, "update must be an optax .* got None"),
        (optax.adam, {"no_such": 0.1}, "unexpected keyword argument 'no_such'"),
        (optax.adam(1.0), {"b1": 0.5}, "must be passed to the factory of the transformation"),
        (optax.sgd, {"momentum": 0.9, "nesterov": []}, "nesterov must be hashable"),
    ],
)
def test_updates_that_need_more_than_noisy_gradients_are_refused(factory, options, message):
    with pytest.raises(ValueError, match=message):
        Update.of(factory, **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StepSizes(0.1, decay=2.0), r"decay must be in \[0, 1\], got 2.0"),
        (lambda: StepSizes.strongly_convex(0.0), "modulus must be positive and finite, got 0.0"),
    ],
)
def test_rules_of_other_numbers_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# --- updates that scale coordinates, on a set -----------------------------------------------------

SLOPE = jnp.array([1.0, 0.2, -0.05])  # of a linear loss, whose minimiser on a ball is opposite


EVERY_SECOND = optax.MultiSteps(optax.adam(optax.linear_schedule(0.1, 0.0, 200)), 2)


def on_a_ball(gradient_mapping, factory=optax.adam, radius=2.0, steps=400, **options):
    """The end of a run on the linear loss."""
    update = Update.of(factory, **options)
    sizes = None if update.has_step_sizes else StepSizes.linear_decay(0.05)
    run = FirstOrder(sizes, update, last_iterate(), gradient_mapping=gradient_mapping)
    oracle = Answers(steps, lambda state, t, point: (SLOPE, state))
    return descend(run, oracle, L2Ball(radius), jnp.zeros(3), jax.random.key(0)).output


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "factory",
    [
        optax.adam,
        optax.adagrad(0.5),
        optax.rmsprop,
        optax.adam(optax.linear_schedule(0.05, 0.0, 400)),
        optax.MultiSteps(
            optax.adam(optax.linear_schedule(0.1, 0.0, 200)), 2
        ).gradient_transformation(),
    ],
)
def test_the_gradient_mapping_leads_an_update_to_the_minimiser_on_a_set(factory):
    """The update alone ends at a point at which ``U(g)`` is normal to the set.

    For Adam this point is near the signs of ``g``.
    """
    minimiser = -2.0 * SLOPE / jnp.linalg.norm(SLOPE)
    least = float(SLOPE @ minimiser)
    risks = [float(SLOPE @ on_a_ball(given, factory)) - least for given in (True, False)]
    assert 0.0 <= risks[0] < 0.01 * abs(least)
    if factory is optax.adam:
        np.testing.assert_allclose(on_a_ball(False), -2.0 * jnp.sign(SLOPE) / 3.0**0.5, atol=0.01)
        assert risks[1] > 0.2 * abs(least)


@pytest.mark.optimised
def test_where_the_set_is_far_the_gradient_mapping_is_the_gradient():
    np.testing.assert_array_equal(on_a_ball(True, radius=1e3), on_a_ball(False, radius=1e3))


def test_a_step_with_the_gradient_mapping_equals_the_formula():
    """Compare with the definition in NumPy, for signs of gradients at the boundary of the set."""
    start, rng = np.array([2.0, 0.0, 0.0]), np.random.default_rng(0)
    run = FirstOrder(
        StepSizes(0.3), Update.of(optax.sign_sgd), last_iterate(), gradient_mapping=True
    )

    def onto_ball(point):
        return point * min(1.0, 2.0 / np.linalg.norm(point))

    @jax.jit
    def output(gradient):
        answers = Answers(1, lambda state, t, point: (gradient, state))
        where = L2Ball(2.0), jnp.asarray(start), jax.random.key(0)
        return descend(run, answers, *where).output

    for gradient in rng.normal(size=(16, 3)):
        step = 0.3 * 3.0**0.5 / np.linalg.norm(gradient)
        mapped = (start - onto_ball(start - step * gradient)) / step
        expected = onto_ball(start - 0.3 * np.sign(mapped))
        np.testing.assert_allclose(output(gradient), expected, atol=1e-12)
