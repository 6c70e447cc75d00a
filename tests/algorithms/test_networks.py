"""Tests of first-order methods on flax networks: models need not be linear or vectors."""

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
from flax import linen
from selection import few

import privopt
from privopt import problems, random
from privopt.convex import last_iterate
from privopt.mechanisms.batches import poisson_sampler
from privopt.random import stream

PATH = Path(__file__).parents[2] / "experiments" / "compared" / "networks.py"


@pytest.fixture(scope="module")
def study():
    spec = importlib.util.spec_from_file_location("networks", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def as_flax_expects():
    with jax.numpy_rank_promotion("allow"):
        yield


@pytest.mark.parametrize("place", few([0, 1], [0]))
def test_a_published_noise_is_kept_and_what_it_spends_is_that_of_an_outside_accountant(
    study, place
):
    row = study.DIGITS[place]
    planned = row.planned(row.noise)
    assert planned.problem_class.dim == 64 * 32 + 32 + 32 * 10 + 10
    assert planned.rate.upper == math.inf
    assert planned.rate.theorem == "none: the losses are not convex"
    mechanism, event = planned.params.mechanism, planned.guarantee.event
    assert event.count == round(20 * 1437 / 64)
    assert event.event.noise_multiplier == pytest.approx(1.3, rel=1e-6)
    # over the clip norm and the *expected* size, whatever the size of a batch
    assert mechanism.scale == pytest.approx(1.3 * row.clip_norm / 64, rel=1e-3)
    outside = pld.PLDAccountant(dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
    outside.compose(dp.PoissonSampledDpEvent(64 / 1437, dp.GaussianDpEvent(1.3)), event.count)
    assert planned.budget.epsilon == pytest.approx(outside.get_epsilon(1e-5), abs=0.01)
    errors = np.min(study.ALPHAS + planned.guarantee.trade_off(study.ALPHAS))
    assert errors == pytest.approx(1.0 - outside.get_delta(0.0), abs=1e-3)


def test_the_least_noise_within_a_budget_lies_between_those_of_figure_4(study):
    row, claimed = study.FIGURES_OF_DIGITS["figure_4"]
    planned = row.planned(replace(study.BUDGET, epsilon=claimed))
    # 1.598 by the limit theorem, 2 by the moments accountant
    assert 1.65 < planned.guarantee.event.event.noise_multiplier < 1.69
    assert row.planned(1.598).guarantee.epsilon(1e-5).lower > claimed


@pytest.mark.thorough  # of one experiment alone
def test_convolutions_as_patches_are_those_of_flax(study):
    class Theirs(linen.Module):
        @linen.compact
        def __call__(self, x):
            x = linen.max_pool(
                linen.relu(linen.Conv(16, (8, 8), (2, 2), padding="SAME")(x)), (2, 2), (1, 1)
            )
            x = linen.max_pool(
                linen.relu(linen.Conv(32, (4, 4), (2, 2), padding="VALID")(x)), (2, 2), (1, 1)
            )
            x = linen.relu(linen.Dense(32)(x.ravel()))
            return linen.Dense(10)(x)

    image = np.random.default_rng(0).random((28, 28, 1), np.float32)
    whole = Theirs().init(jax.random.key(0), image)["params"]
    ours = {
        f"Dense_{i}": {
            "bias": whole[f"Conv_{i}"]["bias"],
            "kernel": whole[f"Conv_{i}"]["kernel"].reshape(-1, (16, 32)[i]),
        }
        for i in range(2)
    }
    inner = {f"Dense_{i}": whole[f"Dense_{i}"] for i in range(2)}
    start = study.Convolutional().init(jax.random.key(0), image.ravel())["params"]
    (nested,) = set(start) - set(ours)
    found = study.Convolutional().apply({"params": {**ours, nested: inner}}, image.ravel())
    expected = Theirs().apply({"params": whole}, image)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert sum(leaf.size for leaf in jax.tree.leaves(start)) == 26_010


def small(study, records=12):
    """Return the network on a dozen images."""
    task = study.digits()
    facts = replace(task.problem.problem_class, n=records)
    pixels, labels = task.training
    return problems.Problem(
        loss=task.loss, data=(pixels[:records], labels[:records]), problem_class=facts,
        start=task.start,
    )  # fmt: skip


@pytest.mark.thorough  # sums are in mechanisms/test_pytree_gradients.py
@pytest.mark.parametrize("microbatch", few([512, 4], [4]))
def test_a_step_is_that_of_the_flattened_network(study, microbatch):
    """Compute the step one record at a time, with all parameters as one vector.

    The sum is divided by the expected batch size.
    """
    where = small(study)
    planned = privopt.dp_sgd(
        where.problem_class, replace(study.BUDGET, epsilon=4.0), steps=2, batch_size=6,
        clip_norm=0.5, step_size=0.7, output=last_iterate(),
    )  # fmt: skip
    mechanism, key = planned.params.mechanism, jax.random.key(2)
    images, digits = where.data
    point = where.start
    gradient = jax.jit(jax.grad(study.digits().loss))
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
        noise = random.normal(noise_key, total.shape, np.float32)
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
    execution = privopt.Execution(microbatch=microbatch)
    released = privopt.run(planned, where, key, execution=execution).released
    assert jax.tree.structure(released) == jax.tree.structure(where.start)
    for found, expected in zip(jax.tree.leaves(released), jax.tree.leaves(point), strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("microbatch", few([512, 4], [4]))
def test_a_network_whose_records_are_read_ends_in_the_same_bits(study, microbatch):
    where, key = small(study), jax.random.key(2)
    planned = privopt.noisy_adam(
        where.problem_class, study.BUDGET, steps=3, batch_size=6, clip_norm=0.5,
        output=last_iterate(), step_size=0.1,
    )  # fmt: skip
    execution = privopt.Execution(microbatch=microbatch)
    whole = privopt.run(planned, where, key, execution=execution).released
    images, digits = map(np.asarray, where.data)
    streamed = privopt.run_stream(
        planned, where.loss, lambda rows: (images[rows], digits[rows]), key, start=where.start,
        execution=execution,
    ).released  # fmt: skip
    assert jax.tree.all(jax.tree.map(np.array_equal, streamed, whole))
    assert not jax.tree.all(jax.tree.map(np.array_equal, streamed, where.start))
