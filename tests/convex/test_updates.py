"""Updates see noisy gradients alone: replayed offline, of one ledger; Adam corrected for noise."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from builders import Answers, descend
from selection import few

import privopt
from privopt.convex import FirstOrder, StepSizes, Update, WholeSpace, corrected_adam, last_iterate

STEPS = 9
UPDATES = {
    "descent": Update.of(optax.sgd),
    "momentum": Update.of(optax.sgd, momentum=0.9, nesterov=True),
    "adam": Update.of(optax.adam, b1=0.8),
    "adamw": Update.of(optax.adamw, weight_decay=0.1),
    "adagrad": Update.of(optax.adagrad),
    "lion": Update.of(optax.lion),
    "corrected adam": Update.of(corrected_adam, noise_variance=0.2),
    "number": Update.of(optax.rprop),  # whose factory takes no schedule
    "unsigned": Update.of(optax.trace(0.9)),
    "made": Update.of(optax.adam(0.2, b1=0.7)),
    "scheduled": Update.of(optax.sgd(lambda count: jnp.where(count < 4, 0.3, 0.1))),
}
every = pytest.mark.parametrize("name", UPDATES)
START = {"a": jnp.array([1.0, -2.0, 0.5]), "b": jnp.array(3.0)}


def noisy(t, point):
    """A gradient with noise that the step alone decides."""
    key = jax.random.fold_in(jax.random.key(0), t)
    return jax.tree.map(lambda w: w + jax.random.normal(key, w.shape), point)


def minimise(update, ask, step_sizes=None, constraint=None, start=START):
    if not update.has_step_sizes:
        step_sizes = step_sizes or StepSizes.inverse_root(0.3)
    method = FirstOrder(step_sizes, update, last_iterate())
    oracle = Answers(STEPS, lambda state, t, point: (ask(t, point), state))
    return descend(method, oracle, constraint or WholeSpace(), start, jax.random.key(1)).output


def assert_close(found, expected, **tolerance):
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, **tolerance)


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", few(UPDATES, [*UPDATES][::3]))
def test_replayed_offline_on_stored_gradients_it_is_the_same_run(name):
    """The run depends on the released gradients only."""
    update, stored = UPDATES[name], {}

    def ask(t, point):
        gradient = noisy(t, point)
        jax.debug.callback(lambda t, g: stored.update({int(t): g}), t, gradient)
        return gradient

    found = minimise(update, ask)
    jax.effects_barrier()
    assert sorted(stored) == list(range(STEPS))
    schedule = StepSizes.inverse_root(0.3)
    with jax.numpy_dtype_promotion("standard"):
        factory = update.factory
        offline = factory(
            learning_rate=lambda count: schedule.at(count + 1, jnp.asarray(STEPS)),
            **update.numbers,
            **dict(update.options),
        )

        @jax.jit
        def step(gradient, state, point):
            moved, state = offline.update(gradient, state, point)
            return state, optax.apply_updates(point, moved)

        point, state = START, offline.init(START)
        for t in range(STEPS):
            state, point = step(stored[t], state, point)
    assert_close(found, point, rtol=1e-12)


def test_a_made_optimiser_is_used_as_it_is():
    """Compare with a plain Optax loop on exact gradients, with the optimiser's learning rate."""
    made = optax.adam(0.2, b1=0.7)
    with jax.numpy_dtype_promotion("standard"):
        point, state = START, made.init(START)
        for _ in range(STEPS):
            moved, state = made.update(point, state, point)
            point = optax.apply_updates(point, moved)
    assert_close(minimise(Update.of(made), lambda t, w: w), point, rtol=1e-12)


def test_kinds_are_told_apart_by_the_response_to_a_constant_gradient():
    own = {name for name, update in UPDATES.items() if update.has_step_sizes}
    assert own == {"made", "scheduled"}
    assert Update.of(optax.adam(-0.1)).has_step_sizes is False
    for update in UPDATES.values():
        assert update.descends
    assert not Update.of(optax.scale_by_rprop).descends
    decayed = optax.chain(optax.scale(-0.1), optax.add_decayed_weights(-0.5))
    assert Update.of(decayed).has_step_sizes
    with pytest.raises(ValueError, match="update must move within 1000 steps of constant gradient"):
        Update.of(optax.set_to_zero())


@pytest.mark.parametrize(
    ("sizes", "update", "message"),
    [
        (
            StepSizes(0.1),
            optax.adam(0.1),
            "step_sizes must be None beside an optimiser object",
        ),
        (None, optax.adam, r"step_sizes must be given beside adam\(\), got None"),
    ],
)
def test_step_sizes_stand_in_one_place(sizes, update, message):
    with pytest.raises(ValueError, match=message):
        FirstOrder(sizes, Update.of(update), last_iterate())


def test_equal_updates_share_a_program_and_new_numbers_do_not_recompile():
    """A made optimiser is a constant: the same one shares a program, another recompiles."""
    traced = []

    @jax.jit
    def displacement(update, eta):
        traced.append(update)
        own = update.has_step_sizes
        transformation = update.build(None if own else lambda count: eta)
        point = jnp.ones(2)
        return transformation.update(point, transformation.init(point), point)[0]

    def programs(*updates):
        before = len(traced)
        for eta, update in enumerate(updates):
            displacement(update, jnp.asarray(0.1 * (eta + 1)))
        return len(traced) - before

    assert programs(*(Update.of(optax.adam, b1=b1) for b1 in (0.7, 0.8, 0.9))) == 1
    assert programs(Update.of(optax.sm3, momentum=0.5), Update.of(optax.sm3, momentum=0.6)) == 1
    made = optax.adam(0.1)
    assert Update.of(made) == Update.of(made) != Update.of(optax.adam(0.1))
    assert hash(Update.of(made)) == hash(Update.of(made))
    assert programs(Update.of(made), Update.of(made)) == 1
    assert programs(Update.of(optax.adam(0.2))) == 1


class Unhashable:
    """A schedule that is no constant of a program by itself."""

    __hash__ = None

    def __call__(self, count):
        return 0.1 / (1.0 + count)

    def update(self, gradients, state, params=None):
        return jax.tree.map(lambda g: -self(state) * g, gradients), state + 1


def test_functions_of_a_made_optimiser_need_not_be_hashable():
    rule = Unhashable()
    made = optax.GradientTransformation(lambda params: jnp.zeros([]), rule.update)
    for each in (made, optax.adam(Unhashable())):
        update = Update.of(each)
        assert update == Update.of(each)
        assert update.has_step_sizes
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(minimise(update, noisy)))


# --- one ledger -----------------------------------------------------------------------------------

FACTS = privopt.ProblemClass(n=60, dim=3, lipschitz=1.0, radius=2.0)
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")


def planned(name, **choices):
    common = {"steps": 20, "batch_size": 12}
    if not getattr(choices.get("update"), "has_step_sizes", False):
        common["step_size"] = 0.1
    return privopt.ALGORITHMS[name].plan(FACTS, BUDGET, **common, **choices)


@pytest.mark.parametrize(
    ("name", "choices"),
    [("dp_sgd", {"update": update}) for update in UPDATES.values()]
    + [("noisy_adam", each) for each in ({}, {"weight_decay": 0.1}, {"noise_correction": True})],
)
def test_every_update_has_the_ledger_and_the_noise_of_descent(name, choices):
    plain, other = planned("dp_sgd"), planned(name, **choices)
    assert other.guarantee == plain.guarantee
    assert other.params.mechanism == plain.params.mechanism
    if choices == {"update": UPDATES["descent"]}:
        assert other.rate.upper == plain.rate.upper
    else:
        assert other.rate.upper == math.inf
        assert other.rate.theorem == "none: the update is not plain descent"


# --- Adam without the noise's variance ------------------------------------------------------------


def directions(transformation, seen):
    state = transformation.init(seen[0])
    for gradient in seen:
        with jax.numpy_dtype_promotion("standard"):
            moved, state = transformation.update(gradient, state)
        yield np.asarray(moved)


def textbook(seen, *, eta, variance, b1, b2, floor, eps):
    m = u = 0.0
    for t, gradient in enumerate(seen, 1):
        g = np.asarray(gradient)
        m, u = b1 * m + (1 - b1) * g, b2 * u + (1 - b2) * g**2
        signal = np.maximum(u / (1 - b2**t) - variance, floor * variance)
        yield -eta * (m / (1 - b1**t)) / (np.sqrt(signal) + eps)


@pytest.mark.parametrize("variance", [0.0, 0.3, 5.0])
def test_equals_the_textbook_loop(variance):
    keys = jax.random.split(jax.random.key(0), 7)
    seen = [0.5 + jax.random.normal(key, (11,)) for key in keys]
    numbers = {"b1": 0.8, "b2": 0.95, "floor": 0.2, "eps": 1e-6}
    found = list(directions(corrected_adam(0.1, variance, **numbers), seen))
    expected = list(textbook(seen, eta=0.1, variance=variance, **numbers))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
