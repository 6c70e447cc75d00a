"""Tests of DP-FTRL: a loop with a tree of explicit nodes, bounds and noises."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import classification, logistic_slope, onto_ball
from dp_accounting import GaussianDpEvent
from selection import few

import privopt
from privopt import problems, random
from privopt.algorithms.descent_rates import PLAIN
from privopt.convex import last_iterate
from privopt.factorisations import FACTORISATIONS, factorise
from privopt.mechanisms import IndependentNoise, TreeNoise, noise_of
from privopt.privacy import gaussian_mu
from privopt.random import stream
from privopt.theory import (
    GaussianAdvantage,
    PrefixError,
    StepRule,
    ftrl_rate,
    lower_bound,
    quadratic_gains,
)

N, DIM, RADIUS = 13, 3, 0.7
BUDGET = privopt.Budget(epsilon=2.0, delta=1e-5, relation="replace_one")
MU = gaussian_mu(2.0, 1e-5)
FACTS = privopt.ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=RADIUS, smoothness=0.25)
DP_FTRL = privopt.ALGORITHMS["dp_ftrl"]


def plan(facts=FACTS, budget=BUDGET, **choices):
    """Return a plan of the leader; the default batch has one record per step."""
    usual = {"batch_size": 1, "quantity": "population risk"}
    return DP_FTRL.plan(facts, budget, **{**usual, **choices})


def problem(seed=0, n=N, facts=FACTS):
    facts = dataclasses.replace(facts, n=n)
    return problems.logistic(*classification(n, DIM, seed), problem_class=facts)


# --- the loop -------------------------------------------------------------------------------------


@jax.jit
def drawn(key, t):
    return random.normal(jax.random.fold_in(key, t), (DIM,), np.float64)


def tree_of(key, steps):
    """Return ``Z_1 .. Z_T``: nodes by first and last step, each with the draw of its last step."""
    nodes = {}
    for last in range(1, steps + 1):
        length = max(2**j for j in range(10) if last % 2**j == 0)
        nodes[last - length + 1, last] = np.asarray(drawn(key, last - 1))
    for prefix in range(1, steps + 1):
        total, left = np.zeros(DIM), prefix
        while left:
            (node,) = (node for node in nodes if node[1] == left)
            total, left = total + nodes[node], node[0] - 1
        yield total


def textbook(planned, key, *, momentum, batch_size, epochs, restart, where):
    """Return the iterates, computed one record at a time with all sums from the first step."""
    features, labels = where
    mechanism, eta = planned.params.mechanism, planned.params.descent.step_sizes.scale
    draw = jax.jit(mechanism.batches.draws_of(stream(key, "batches"), len(labels)))
    steps, noise_key = mechanism.steps, stream(key, "noise")
    one_pass, clip_norm = steps // epochs, mechanism.query.clip_norm
    point, points, start = np.zeros(DIM), [np.zeros(DIM)], np.zeros(DIM)
    for t in range(steps):
        if t == 0 or (restart and t % one_pass == 0):
            start, gradients, followed = point, [], np.zeros(DIM)
            tree_key = jax.random.fold_in(noise_key, t // one_pass) if restart else noise_key
            tree = tree_of(tree_key, one_pass if restart else steps)
        block = mechanism.batches.block
        rows, taken = (np.asarray(each)[t % block] for each in draw(t // block))
        total = np.zeros(DIM)
        for row in rows[taken]:
            total += logistic_slope(features[row], labels[row], point, clip_norm)
        gradients.append(total / batch_size)
        followed = momentum * followed + np.sum(gradients, axis=0) + mechanism.scale * next(tree)
        point = onto_ball(start - eta * followed, RADIUS)
        points.append(point)
    return np.mean(points, axis=0), point


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"batch_size": 4, "epochs": 3, "order": "stored"},
        {"batch_size": 4, "epochs": 3, "momentum": 0.8},
        {"batch_size": 5, "epochs": 3, "restart": True, "momentum": 0.5, "clip_norm": 0.2},
    ],
)
def test_equals_the_textbook_loop(choices):
    planned, key = plan(**choices), jax.random.key(3)
    twin = {"batch_size": 1, "epochs": 1, "momentum": 0.0, "restart": False}
    twin.update((name, choices[name]) for name in twin.keys() & choices.keys())
    averaged, last = textbook(planned, key, where=classification(N, DIM), **twin)
    found = privopt.run(planned, problem(), key)
    np.testing.assert_allclose(found.released, averaged, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(found.secret.last, last, rtol=1e-10, atol=1e-13)


def test_the_default_equals_the_textbook_loop():
    """Compare with a loop that solves for the correlated noise ``C^-1 xi`` by dense algebra."""
    facts = dataclasses.replace(FACTS, n=40)
    planned, key = DP_FTRL.plan(facts, BUDGET), jax.random.key(5)
    mechanism, sizes = planned.params.mechanism, planned.params.descent.step_sizes
    size, steps = mechanism.batches.batch_size, mechanism.steps
    features, labels = classification(40, DIM)
    draw = jax.jit(mechanism.batches.draws_of(stream(key, "batches"), 40))
    encoder = mechanism.noise.factorisation(steps).encoder()
    normal = np.array([drawn(stream(key, "noise"), t) for t in range(steps)])
    noise = mechanism.scale * np.linalg.solve(encoder, normal)
    point = np.zeros(DIM)
    for t in range(steps):
        rows, taken = (
            np.asarray(each)[t % mechanism.batches.block]
            for each in draw(t // mechanism.batches.block)
        )
        slopes = [logistic_slope(features[i], labels[i], point, 1.0) for i in rows[taken]]
        gradient = np.sum(slopes, axis=0) / size + noise[t]
        point = onto_ball(point - sizes.scale * (1.0 - t / steps) * gradient, RADIUS)
    found = privopt.run(planned, problem(n=40), key)
    np.testing.assert_allclose(found.released, point, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found.released, found.secret.last)
    assert steps == 32 * mechanism.batches.period
    assert sizes.decay == 1.0


# --- privacy --------------------------------------------------------------------------------------


@pytest.mark.cases(1)
@pytest.mark.parametrize("noise", few(FACTORISATIONS, ["tree", "toeplitz", "buffered"]))
def test_every_noise_keeps_the_contract(noise):
    """The release is finite, is in the set and has the dtype of the data.

    Another key gives another release, and a control without noise has none.
    """
    features, labels = (leaf.astype(np.float32) for leaf in classification(N, DIM))
    where = problems.logistic(features, labels, problem_class=FACTS)
    choices = {"regularisation": 2.0, "order": "stored"}
    planned = plan(noise=noise, **choices)
    keys = jax.random.split(jax.random.key(7), 3)
    released = privopt.run_many([planned, planned.with_noise(0.0)], where, keys).released
    assert released.dtype == np.float32
    assert np.linalg.norm(released, axis=-1).max() <= RADIUS * (1.0 + 1e-6)
    assert len(np.unique(released[0], axis=0)) == 3
    silent = plan(noise="independent", **choices).with_noise(0.0)
    expected = privopt.run_many([silent], where, keys).released[0]
    np.testing.assert_allclose(released[1], expected, rtol=1e-5, atol=1e-6)


# --- the bounds -----------------------------------------------------------------------------------


class Regret:
    """``sum_t <g_t, w_t>`` and ``sum_t g_t`` of linear losses."""

    def init(self, point, secret):
        return jnp.zeros(()), jnp.zeros_like(point)

    def update(self, state, t, point, secret):
        paid, total = state
        return paid + secret.gradient @ point, total + secret.gradient


WATCHING = privopt.Execution(observer=Regret())  # one observer, so that programs are shared


def regrets(planned, rows, runs=64):
    """Return the regrets of ``runs`` runs on linear losses, in the order of ``rows``."""
    where = problems.linear(rows, problem_class=planned.problem_class)
    keys = jax.random.split(jax.random.key(9), runs)
    found = privopt.run_many([planned], where, keys, execution=WATCHING)
    paid, total = found.secret.observed
    return np.asarray(paid[0] + planned.problem_class.radius * np.linalg.norm(total[0], axis=-1))


def against_the_leader(steps, regularisation):
    """Return the linear losses that are worst for the noiseless leader in each step."""
    total, rows = 0.0, []
    for _ in range(steps):
        point = np.clip(-total / regularisation, -1.0, 1.0)
        rows.append(1.0 if point >= 0.0 else -1.0)
        total += rows[-1]
    return np.array(rows)[:, None]


STREAM = privopt.ProblemClass(n=200, dim=1, lipschitz=1.0, radius=1.0, smoothness=0.0)
STREAMS = {
    "random": lambda _: np.random.default_rng(0).choice([-1.0, 1.0], size=(200, 1)),
    "drift": lambda _: np.ones((200, 1)),
    "turn": lambda _: np.repeat([1.0, -1.0], 100)[:, None],
    "blocks": lambda _: np.tile(np.repeat([1.0, -1.0], 20), 5)[:, None],
    "against the leader": lambda planned: against_the_leader(
        200, 1.0 / planned.params.descent.step_sizes.scale
    ),
}


@pytest.mark.cases(1)
@pytest.mark.parametrize("order", few(STREAMS, ["random"]))
@pytest.mark.parametrize(
    "choices", [{}, {"noise": "independent"}, {"noise": "banded_inverse", "batch_size": 8}]
)
def test_the_regret_is_within_its_bound(order, choices):
    """The mean regret is at most its bound plus five standard errors.

    The probability of a false alarm is below 3e-7. The losses are fixed in advance.
    """
    planned = plan(STREAM, quantity="regret", order="stored", **choices)
    found = regrets(planned, STREAMS[order](planned))
    assert found.mean() <= planned.rate.upper + 5.0 * found.std() / math.sqrt(len(found))
    assert planned.rate.upper < 2.0 * planned.params.mechanism.steps


def test_the_bounds_in_the_letter():
    deviation = float(np.sqrt(factorise("tree", N).variances()).mean())
    for quantity in ("regret", "population risk"):
        planned = plan(quantity=quantity)
        sigma = planned.params.mechanism.scale
        slope = 1.0 + 2.0 * sigma * math.sqrt(DIM) * deviation
        if quantity == "regret":
            expected = RADIUS * math.sqrt(N * slope)
        else:
            expected = RADIUS * math.sqrt(1.0 + N * slope) / (N + 1)
        assert planned.rate.quantity == quantity
        assert math.hypot(*(term.value for term in planned.rate.terms)) == pytest.approx(
            expected, rel=1e-9
        )
        near = (1.0 + 1e-6) / planned.params.descent.step_sizes.scale  # where terms are added
        rate = ftrl_rate(
            FACTS, steps=N, regularisation=near, noise_std=sigma, quantity=quantity,
            error=PrefixError(deviation),
        )  # fmt: skip
        assert math.fsum(term.value for term in rate.terms) == pytest.approx(expected, rel=1e-6)


def test_every_pass_has_a_regret_and_one_pass_a_population_risk():
    """The bound of the average is over ``T + 1`` points. No other output has this bound."""
    lower = lower_bound(FACTS, GaussianAdvantage(MU, BUDGET.relation), "population risk").value
    assert plan().rate.lower[1].value == pytest.approx(lower, rel=1e-5)
    of_budget = plan().rate.lower[0]
    for choices, reason in (
        ({"epochs": 2}, "seen again"),
        ({"output": last_iterate()}, "average of all iterates"),
        ({"momentum": 0.5}, "momentum"),
        ({"clip_norm": 0.5}, "clipped below the Lipschitz constant"),
    ):
        rate = plan(**choices).rate
        assert rate.upper == math.inf
        assert reason in rate.theorem
        assert rate.lower[0] == of_budget
        assert rate.lower[1].value == pytest.approx(lower, rel=1e-5)  # of the noise as rounded
    for choices in ({"epochs": 3}, {"epochs": 3, "restart": True}, {"output": last_iterate()}):
        assert plan(quantity="regret", **choices).rate.upper < math.inf
    for choices in ({"momentum": 0.5}, {"clip_norm": 0.5}):
        assert plan(quantity="regret", **choices).rate.upper == math.inf
    assert "E regret <= " in str(plan(quantity="regret"))


# --- choices --------------------------------------------------------------------------------------


def test_the_default_regularisation_goes_as_far_with_momentum():
    still, fast = (plan(momentum=momentum).params.descent for momentum in (0.0, 0.75))
    assert fast.step_sizes.scale == pytest.approx(0.25 * still.step_sizes.scale, rel=1e-12)
    short = plan(clip_norm=0.5).params
    assert short.descent.step_sizes.scale == pytest.approx(2.0 * still.step_sizes.scale, rel=1e-6)


def test_the_default_batch_has_nearly_the_least_bound():
    """The bound of one pass is within a tenth of the least over all batch sizes.

    For a regret, the default is one record per step.
    """
    facts = dataclasses.replace(FACTS, n=120)
    for noise in ("tree", "toeplitz", "independent"):
        sizes = (1, 2, 3, 5, 8, 12, 17, 24, 40, 60, 120)
        bounds = [plan(facts, noise=noise, batch_size=each).rate.upper for each in sizes]
        assert plan(facts, noise=noise, batch_size=None).rate.upper <= 1.1 * min(bounds)
    assert min(bounds) < 0.6 * bounds[0]  # of fresh noise
    assert plan(facts, batch_size=None, quantity="regret").params.mechanism.batches.batch_size == 1


def risk(planned, size):
    """Return the risk on quadratic losses of a plan with another first step, in units of 1/H."""
    mechanism, facts = planned.params.mechanism, planned.problem_class
    factorisation = mechanism.noise.factorisation(mechanism.steps)
    increments = np.diff(factorisation.decoder(), axis=0, prepend=0.0)
    gains = quadratic_gains(
        StepRule(size, decay=1.0).sizes(mechanism.steps), increments,
        batches=mechanism.batches.period,
    )  # fmt: skip
    batch_size = mechanism.batches.batch_size
    return gains.risk(facts, noise_std=mechanism.scale, batch_size=batch_size).total


@pytest.mark.cases(2)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_the_default_has_nearly_the_least_risk_on_quadratic_losses(epsilon):
    """Compare with other passes, batches, noises and steps; 32 passes are the most."""
    facts = privopt.ProblemClass(n=1024, dim=10, lipschitz=1.0, radius=4.0, smoothness=0.25)
    budget = dataclasses.replace(BUDGET, epsilon=epsilon)
    default = DP_FTRL.plan(facts, budget)
    scale = float(default.params.descent.step_sizes.scale) * facts.smoothness
    others = [
        risk(
            DP_FTRL.plan(
                facts, budget, noise=noise, epochs=epochs, batch_size=batch_size, step_size=1.0
            ),
            size,
        )
        for noise in ("banded_inverse", "tree", "independent")
        for epochs in (1, 8, 32)
        for batch_size in (1024, 256, 64)
        for size in (0.05, 0.25, 0.7, 1.0)
    ]
    assert risk(default, scale) <= 1.1 * min(others)
    assert default.params.mechanism.batches.epochs == 32


def test_the_default_quantity_follows_from_the_class_and_the_choices():
    smooth, linear = FACTS, dataclasses.replace(FACTS, smoothness=0.0)
    for facts, choices, quantity in (
        (smooth, {}, "empirical risk"),
        (smooth, {"epochs": 3, "noise": "tree"}, "empirical risk"),
        (linear, {"step_size": 0.1, "epochs": 2, "batch_size": 4}, "empirical risk"),
        (linear, {}, "population risk"),
        (dataclasses.replace(smooth, smoothness=None), {}, "population risk"),
        (smooth, {"regularisation": 2.0}, "population risk"),
        (smooth, {"momentum": 0.5}, "population risk"),
        (dataclasses.replace(smooth, n=5000), {"batch_size": 1}, "population risk"),
    ):
        planned = DP_FTRL.plan(facts, BUDGET, **choices)
        assert planned.rate.quantity == quantity
        assert (planned.params.descent.update == PLAIN) == (quantity == "empirical risk")


def test_a_noise_of_ones_own_and_one_of_a_name_are_the_same():
    named = plan(noise="banded_inverse", band=4)
    made = plan(noise=noise_of("banded_inverse", N, band=4))
    assert made.guarantee == named.guarantee
    assert made.params.mechanism.scale == named.params.mechanism.scale
    assert made.rate.upper == named.rate.upper
    assert isinstance(plan().params.mechanism.noise, TreeNoise)
    assert plan(epochs=1, restart=True) == plan()


# --- the same noises in descent -------------------------------------------------------------------


def test_batches_in_passes_take_them_and_samples_do_not():
    make = privopt.ALGORITHMS["dp_sgd"].plan
    planned = make(FACTS, BUDGET, steps=6, batch_size=5, sampler="shuffled", noise="toeplitz")
    assert isinstance(planned.guarantee.event, GaussianDpEvent)
    assert planned.guarantee.meets(BUDGET)
    assert np.isfinite(privopt.run(planned, problem(), jax.random.key(0)).released).all()
    for sampler, cycle in (("poisson", None), ("without_replacement", None), ("cyclic_poisson", 2)):
        with pytest.raises(ValueError, match=r"no theorem covers|band .* at most"):
            make(
                FACTS, BUDGET, steps=6, batch_size=5, sampler=sampler, cycle=cycle, noise="toeplitz"
            )
    fresh = [
        make(FACTS, BUDGET, steps=6, batch_size=5, noise=each) for each in (None, "independent")
    ]
    assert fresh[0].params == fresh[1].params
    assert fresh[0].params.mechanism.noise == IndependentNoise()
