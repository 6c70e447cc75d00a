"""Classes of defect met in released private optimisers, each beside the variant a test rejects.

``holds`` is the property that ours must have and the defective variant must not; that every
algorithm has it is in ``test_contract.py``. Statistical tests use fixed keys and state the
probability with which a correct implementation would have failed.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from builders import operations

import privopt
from privopt import problems
from privopt.core import Execution, Run
from privopt.mechanisms import GaussianMechanism
from privopt.privacy import gaussian_mu
from privopt.release import Replay, Tape

AS_USUAL = Execution()
N, DIM = 60, 3
FACTS = privopt.ProblemClass(n=N, dim=DIM, lipschitz=1.0, radius=2.0, smoothness=0.25, sparsity=DIM)
BUDGET = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
PURE = privopt.Budget(epsilon=1.0, delta=0.0, relation="replace_one")


def plan(name, budget=BUDGET):
    steps = {"steps": 4} if name == "dp_gd" else {}
    return privopt.ALGORITHMS[name].plan(FACTS, budget, **steps)


def problem(seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(N, DIM))
    features /= 1.001 * np.linalg.norm(features, axis=1, keepdims=True)
    labels = np.where(features @ [1.0, -0.5, 0.2] > 0.3 * rng.normal(size=N), 1.0, -1.0)
    return problems.logistic(features, labels, problem_class=FACTS)


def many(plans, where, keys, **options):
    """What two plans release: one program an algorithm, whatever the numbers and keys."""
    return privopt.run_many(plans, where, keys, execution=Execution(chunk=100), **options).released


def runner(name):
    """``(data, key) -> released``, of the algorithm as it is."""
    planned = plan(name)
    given = planned.static, planned.params

    def run(where, key):
        return planned.algorithm.run(*given, where.objective, key, AS_USUAL).released

    return run


# --- where the noise comes from ------------------------------------------------------------------


def test_noise_from_a_seed_of_one_byte_or_of_none():
    """As many releases as keys; at most 256 if the key goes through a byte, one if it is fixed.

    Two releases among 300 that agree to nine digits have a probability below 1e-9. More digits
    may differ between the lanes of one program, whose elementary functions are compiled twice.
    """
    where, planned = problem(), plan("dp_gd")
    keys = jax.random.split(jax.random.key(0), 300)
    bytes_of = jax.vmap(lambda key: jax.random.key(jax.random.bits(key, dtype=jnp.uint8)))
    constant = jnp.stack([jax.random.key(1)] * 300)

    def distinct(keys):
        return len(np.unique(np.round(many(2 * [planned], where, keys)[0], 9), axis=0))

    assert distinct(keys) == 300
    assert distinct(bytes_of(keys)) <= 256
    assert distinct(constant) == 1


@pytest.mark.parametrize(
    ("name", "budget"), [("objective_perturbation", BUDGET), ("objective_perturbation", PURE),
                         ("approximate_minima_perturbation", BUDGET)]
)  # fmt: skip
def test_both_noises_of_one_key(name, budget):
    """Tilt and last noise are uncorrelated within 5/sqrt(samples), level 6e-7 a coordinate."""
    planned, where = plan(name, budget), problem()
    wide = planned.params.mechanism._replace(finish_scale=1e-3)  # no projection hides so little
    params = planned.params._replace(mechanism=wide)
    keys = jax.random.split(jax.random.key(1), 2000)

    def noises(key):
        run = planned.algorithm.run(planned.static, params, where.objective, key, AS_USUAL)
        return run.secret.tilt, run.released - run.secret.minimiser, run.secret.minimiser

    tilt, last, minimiser = (np.asarray(x) for x in jax.jit(jax.vmap(noises))(keys))
    inside = np.linalg.norm(minimiser, axis=1) < 1.9
    assert inside.sum() > 300
    shared = 1e-3 * tilt / planned.params.mechanism.tilt.scale  # what one draw for both would give

    def holds(second):
        pairs = [np.corrcoef(tilt[inside, j], second[inside, j])[0, 1] for j in range(DIM)]
        return max(map(abs, pairs)) < 5.0 / np.sqrt(inside.sum())

    assert holds(last)
    assert not holds(shared)


# --- what control flow may depend on -------------------------------------------------------------


def replayed(run):
    """Whether two data sets give the same release to the bit once every noisy answer is given."""
    with Tape() as tape:
        one = run(problem(0), jax.random.key(2))
    with Replay(answer=tape["answer"]):
        two = run(problem(1), jax.random.key(2))
    return np.array_equal(one, two)


def test_a_step_length_from_the_gradient_before_its_noise():
    """Normalised steps: the direction is private, its length is not."""
    oracle = plan("dp_gd").params.mechanism
    mechanism = GaussianMechanism(oracle.query, oracle.scale)

    def defective(where, key):
        gradient = mechanism.query.gradient_of(where.objective)
        point = jnp.zeros(DIM)
        for t in range(3):
            exact = gradient(point)
            noisy = mechanism.add_noise(jax.random.fold_in(key, t), exact)
            point = where.constraint.project(point - 0.1 * noisy / jnp.linalg.norm(exact))
        return point

    assert replayed(runner("dp_gd"))
    assert not replayed(defective)


def test_a_guard_that_compares_with_the_minimiser_without_noise():
    """Divergence told by the distance from the non-private optimum, the start kept instead."""
    planned = plan("output_perturbation")

    def defective(where, key):
        run = planned.algorithm.run(
            planned.static, planned.params, where.objective, key, Execution()
        )
        far = jnp.linalg.norm(run.released - run.secret.minimiser)
        return Run(jnp.where(far > 0.3, run.secret.minimiser, run.released), None).released

    assert not replayed(defective)


def draws(run, where):
    """What loops and branches stand around each draw."""
    program = jax.make_jaxpr(lambda key: run(where, key))(jax.random.key(0))
    found = operations(program.jaxpr)
    return [around for each, around in found if each.primitive.name == "random_unwrap"]


@pytest.mark.parametrize(
    ("name", "number"),
    [("output_perturbation", 1), ("objective_perturbation", 2),
     ("approximate_minima_perturbation", 2)],
)  # fmt: skip
def test_noise_drawn_again_where_the_solver_misses_its_tolerance(name, number):
    """One-shot methods draw so many times and outside of every loop and branch."""
    planned, where = plan(name), problem()

    def holds(run):
        return draws(run, where) == [()] * number

    def again(where, key):
        """Until the gradient at the computed minimiser is small enough, uncharged."""

        def missed(state):
            return state[2] > 1e-3

        def attempt(state):
            key, next_key = jax.random.split(state[0])
            run = planned.algorithm.run(
                planned.static, planned.params, where.objective, key, Execution()
            )
            _, gradient = where.objective.value_and_gradient(run.secret.minimiser)
            return next_key, run.released, jnp.linalg.norm(gradient)

        return jax.lax.while_loop(missed, attempt, (key, jnp.zeros(DIM), jnp.inf))[1]

    assert holds(runner(name))
    assert not holds(again)


# --- what the numbers mean -----------------------------------------------------------------------


def test_noise_that_does_not_shrink_with_epsilon():
    """A scale that epsilon does not reach: at the same random numbers accuracy must follow it."""
    where, keys = problem(), jax.random.split(jax.random.key(3), 300)
    low, high = (
        plan("dp_gd", privopt.Budget(epsilon=epsilon, delta=1e-5, relation="replace_one"))
        for epsilon in (0.1, 20.0)
    )

    def holds(high):
        found = many([low, high], where, keys, common_random_numbers=True)
        risks = [where.excess_risk(run).mean() for run in found]
        return risks[1] < 0.8 * risks[0]

    assert holds(high)
    stuck = high.with_noise(gaussian_mu(20.0, 1e-5) / gaussian_mu(0.1, 1e-5))
    assert not holds(stuck)
