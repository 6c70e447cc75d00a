"""First-order methods on a flax network: nothing in them knows of linear models, or of vectors."""

import importlib.util
import math
from dataclasses import replace
from pathlib import Path

import dp_accounting as dp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting import pld

import privopt
from privopt import draws, problems
from privopt.convex import Last
from privopt.mechanisms.batches import poisson_sampler
from privopt.streams import stream

PATH = Path(__file__).parents[2] / "experiments" / "compared" / "flax_network.py"
METHODS = ("dp_sgd", "noisy_adam")


@pytest.fixture(scope="module")
def study():
    spec = importlib.util.spec_from_file_location("flax_network", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def as_flax_expects():
    with jax.numpy_rank_promotion("allow"):
        yield


def plans(study, where, steps, **changes):
    for name in METHODS:
        choices = {**study.METHODS[name], **changes}
        make = privopt.ALGORITHMS[name].plan
        yield make(where.problem_class, study.BUDGETS[1], steps=steps, **choices)


def test_no_rate_is_claimed_and_the_guarantee_is_that_of_an_outside_accountant(study):
    where = study.problem()
    assert where.problem_class.dim == 64 * 32 + 32 + 32 * 10 + 10
    for planned in plans(study, where, 200):
        assert planned.rate.upper == math.inf
        assert planned.rate.theorem == "none: the losses are not convex"
        event = planned.guarantee.event
        one = event.event
        outside = pld.PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
        outside.compose(
            dp.PoissonSampledDpEvent(
                one.sampling_probability, dp.GaussianDpEvent(one.noise_multiplier)
            ),
            event.count,
        )
        assert event.count == 200
        assert one.sampling_probability >= 256 / 1437
        assert outside.get_epsilon(1e-5) == pytest.approx(4.0, abs=0.01)
        contribution = planned.params.mechanism.query.contribution / 256
        assert one.noise_multiplier <= planned.params.mechanism.scale / contribution


def small(study, records=12):
    """The network on a dozen images."""
    whole = study.problem()
    facts = replace(whole.problem_class, n=records)
    images, digits = study.images()[0]
    return problems.Problem(
        loss=study.loss,
        data=(images[:records], digits[:records]),
        problem_class=facts,
        start=whole.start,
    )


def test_a_step_is_that_of_the_flattened_network(study):
    """One record at a time, all parameters as one vector."""
    where = small(study)
    planned = privopt.ALGORITHMS["dp_sgd"].plan(
        where.problem_class, study.BUDGETS[1], steps=2, batch_size=6, clip=0.5, step_size=0.7,
        output=Last(),
    )  # fmt: skip
    mechanism, key = planned.params.mechanism, jax.random.key(2)
    images, digits = where.data
    point = where.start
    gradient = jax.jit(jax.grad(study.loss))
    batches = mechanism.batches
    for t in range(2):
        batch_key, noise_key = (
            jax.random.fold_in(stream(key, name), t) for name in ("batches", "noise")
        )
        sample = poisson_sampler(np.float32(batches.rate), batches.capacity, 12)
        rows, taken = sample(batch_key, 12)
        leaves, structure = jax.tree.flatten(point)
        total = np.zeros(where.problem_class.dim)
        for i in np.asarray(rows)[np.asarray(taken)]:
            each = gradient(point, (images[i], digits[i]))
            flat = np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree.leaves(each)])
            total += flat * min(1.0, 0.5 / np.linalg.norm(flat.astype(float)))
        noise = draws.normal(noise_key, total.shape, np.float32)
        flat = np.concatenate([np.asarray(leaf).ravel() for leaf in leaves])
        flat = flat - 0.7 * (total / 6.0 + mechanism.scale * np.asarray(noise))
        ends = np.cumsum([leaf.size for leaf in leaves])[:-1]
        point = jax.tree.unflatten(
            structure,
            [
                jnp.asarray(part.reshape(leaf.shape), jnp.float32)
                for part, leaf in zip(np.split(flat, ends), leaves, strict=True)
            ],
        )
    released = privopt.run(planned, where, key).released
    assert jax.tree.structure(released) == jax.tree.structure(where.start)
    for found, expected in zip(jax.tree.leaves(released), jax.tree.leaves(point), strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
