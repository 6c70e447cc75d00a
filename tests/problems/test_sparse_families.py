"""Tests of sparse families: single records, means in closed form, and rejected arguments."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest

from privopt.lab.runner.quantities import QUANTITIES
from privopt.problems import FAMILIES

NAMES = [name for name in FAMILIES if name.startswith("sparse_")]
N, DIM, SPARSITY = 200, 40, 3
MU = 0.6
RATIO = math.sqrt(DIM) / (N * MU)
SIZE = math.ceil(math.sqrt(SPARSITY) / MU)  # the records of a block of strength 1


def built(name, *, strength=1.0, noise_ratio=RATIO, **changes):
    sizes = {"n": N, "dim": DIM, "sparsity": SPARSITY, **changes}
    return FAMILIES[name].build(**sizes, noise_ratio=noise_ratio, strength=strength)


def records(problem):
    """Every record, zeros included, as often as it occurs."""
    objective = problem.objective
    rows = objective.data if objective.linear is None else objective.data[0]
    table = np.asarray(jax.jit(lambda rows: rows.block(0, rows.shape[0]))(rows), np.float64)
    counts = np.ones(len(table), int) if problem.counts is None else problem.counts
    return np.repeat(table, counts, axis=0)


@pytest.mark.cases(3)
@pytest.mark.parametrize("name", NAMES)
def test_records_are_sparse_and_of_norm_at_most_one(name):
    """Nonzero records have exactly ``s`` entries of one size, and norm 1 but for float32."""
    table = records(built(name))
    assert table.shape == (N, DIM)
    entries = (table != 0.0).sum(axis=1)
    assert set(entries) <= {0, SPARSITY}
    norms = np.linalg.norm(table, axis=1)
    assert norms.max() <= 1.0
    assert np.all((norms == 0.0) | (norms > 1.0 - 1e-7))
    assert (entries.max() == 0) == (name == "sparse_silence")


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("name", "sparsity"),
    [*((name, 4) for name in NAMES), ("sparse_copies", 1), ("sparse_linear", 1)],
)
def test_families_keep_their_class_and_their_optimum(name, sparsity):
    problem = built(name, sparsity=sparsity)
    problem.check()
    facts, mean = problem.problem_class, records(problem).mean(axis=0)
    assert (facts.n, facts.dim, facts.sparsity) == (N, DIM, sparsity)
    if not facts.convex:
        return
    found, length = problem.reference, np.linalg.norm(mean)
    assert found.gap < 1e-12
    if "linear" in name:
        np.testing.assert_allclose(found.minimiser, mean / length, atol=1e-12)
        point = np.linspace(-0.1, 0.1, DIM)
        assert problem.excess_risk(point) == pytest.approx(length - mean @ point, rel=1e-12)
    else:
        assert (facts.lipschitz, facts.strong_convexity) == (2.0, 1.0)
        np.testing.assert_allclose(found.minimiser, mean, atol=1e-15)
        assert "mean" in problem.provides


@pytest.mark.parametrize("strength", [1.0, 4.0])
def test_copies_have_the_mean_of_the_card(strength):
    """``|zbar|_2 = sqrt(K) n0/n`` and ``|zbar|_1 = sqrt(s) K n0/n`` on blocks that are disjoint."""
    problem = built("sparse_copies", strength=strength, sparsity=4)
    size = math.ceil(strength * 2.0 / MU)
    count = min(N // size, DIM // 4)
    mean = records(problem).mean(axis=0)
    assert np.linalg.norm(mean) == pytest.approx(math.sqrt(count) * size / N, rel=1e-12)
    assert np.abs(mean).sum() == pytest.approx(2.0 * count * size / N, rel=1e-12)
    assert (mean != 0.0).sum() == 4 * count


def test_copies_nest_and_have_one_shape_at_every_size():
    small, large = (
        built("sparse_copies", n=n, noise_ratio=math.sqrt(DIM) / (n * MU)) for n in (20, 2000)
    )
    for one, other in zip(jax.tree.leaves(small.data), jax.tree.leaves(large.data), strict=True):
        np.testing.assert_array_equal(one, other)
    assert int(small.counts[:-1].sum()) == 20 // SIZE * SIZE
    assert np.all(large.counts[:-1] == SIZE)
    assert large.counts.sum() == 2000


def test_signs_are_fair_and_differ_between_blocks():
    """1,024 signs: their sum is within 4 standard deviations, false alarm below 1e-4."""
    table = records(built("sparse_copies", n=10**4, dim=1024, sparsity=4, noise_ratio=1e-4))
    rows = np.unique(table[np.any(table, axis=1)], axis=0)
    assert len(rows) == 256
    assert abs(np.sign(rows).sum()) <= 4.0 * math.sqrt(1024)
    assert len({tuple(np.sign(row[row != 0.0])) for row in rows}) == 16


@pytest.mark.thorough  # of one family
def test_fingerprints_follow_means_of_their_own():
    """``E |zbar|^2`` is ``1/3 + 2/(3 n0)`` of that of copies; 1,000 coordinates, 4 deviations."""
    dim, sparsity, mu = 4000, 4, 0.1
    sizes = {"n": 5000, "dim": dim, "sparsity": sparsity, "strength": 1.0}
    ratio = math.sqrt(dim) / (5000 * mu)
    table = records(FAMILIES["sparse_fingerprints"].build(**sizes, noise_ratio=ratio))
    size, count = 20, 250
    mean = table.reshape(count, size, dim).mean(axis=1)
    assert (table != 0.0).sum() == 5000 * sparsity
    squares = np.square(mean).sum(axis=1)  # of blocks: 1 where they were copies
    expected = 1.0 / 3.0 + 2.0 / (3.0 * size)
    deviation = 4.0 * squares.std() / math.sqrt(count)
    assert abs(squares.mean() - expected) <= deviation
    assert deviation < 0.06
    places = [set(np.flatnonzero(block)) for block in mean]
    assert len(set.union(*places)) == sum(map(len, places))


def test_packing_places_lie_in_blocks_of_their_own():
    """``t = floor(d/K)`` coordinates a block, ``s`` of them taken at random."""
    epsilon, dim = 0.5, 1000
    problem = built("sparse_packing", dim=dim, noise_ratio=dim / (N * epsilon))
    size = math.ceil(SPARSITY * math.log(dim / (N * epsilon)) / epsilon)
    count = N // size
    width, table = dim // count, records(problem)
    blocks = table[: count * size].reshape(count, size, dim)
    assert np.all(blocks == blocks[:, :1])
    for k, row in enumerate(blocks[:, 0]):
        places = np.flatnonzero(row)
        assert len(places) == SPARSITY
        assert np.all(places // width == k)
    offsets = np.concatenate([np.flatnonzero(row) % width for row in blocks[:, 0]])
    assert len(np.unique(offsets)) > 0.5 * len(offsets)
    assert not np.any(table[count * size :])


def test_padding_leaves_the_error_of_a_smaller_set():
    """Half, a quarter, an eighth of the records are copies of strength 4, the others zero."""
    for strength in FAMILIES["sparse_padded"].strengths:
        table = records(built("sparse_padded", n=800, noise_ratio=RATIO / 4, strength=strength))
        size = math.ceil(4.0 * math.sqrt(SPARSITY) / MU)
        kept = min(int(800 / strength) // size, DIM // SPARSITY) * size
        assert np.any(table, axis=1).sum() == kept


def test_what_cannot_be_built_is_refused_by_name():
    with pytest.raises(ValueError, match=r"sparsity must be given .*, got None"):
        built("sparse_copies", sparsity=None)
    with pytest.raises(ValueError, match="sparsity must not exceed dim, got 41 > 40"):
        built("sparse_same_record", sparsity=41)
    with pytest.raises(ValueError, match="sparsity must be a positive integer, got 0"):
        built("sparse_packing", sparsity=0)
    with pytest.raises(ValueError, match=f"n must be at least {SIZE}, the records of one block"):
        built("sparse_copies", n=2, noise_ratio=math.sqrt(DIM) / (2 * MU))


@pytest.mark.parametrize("name", ["sparse_sines", "sparse_same_sines"])
def test_gradients_of_sines_are_those_of_the_card(name):
    """``w - zbar cos w``, the public half of it included, at points of any shape."""
    problem = built(name)
    mean = records(problem).mean(axis=0)
    points = np.random.default_rng(0).normal(size=(2, 5, DIM))
    gradients = points - mean * np.cos(points)
    values = 0.5 * np.sum(points**2, axis=-1) - np.sin(points) @ mean
    np.testing.assert_allclose(problem.risk(points), values, rtol=1e-12)
    found = QUANTITIES["gradient norm"].at(problem, points)
    np.testing.assert_allclose(found, np.linalg.norm(gradients, axis=-1).ravel(), rtol=1e-12)
    value, gradient = jax.jit(problem.objective.value_and_gradient)(points[0, 0])
    np.testing.assert_allclose(gradient, gradients[0, 0], atol=1e-12)
    assert float(value) == pytest.approx(values[0, 0])


@pytest.mark.thorough  # of one family
def test_documents_are_long_tailed_and_their_labels_can_be_learnt():
    """Zipf: the first word has probability ``1/H_d``; the planted weights beat a coin."""
    sizes = {"dim": 500, "noise_ratio": 0.1, "strength": 1.0, "sparsity": 12}
    small, large = (FAMILIES["vocabulary_logistic"].build(n=n, **sizes) for n in (300, 2000))
    large.check()
    for one, other in zip(jax.tree.leaves(small.data), jax.tree.leaves(large.data), strict=True):
        np.testing.assert_allclose(one, other[:300], rtol=1e-14)
    features, labels = large.data
    first = np.asarray(features.block(0, 2000))[:, 0] > 0.0
    chance = 1.0 - (1.0 - 1.0 / np.sum(1.0 / np.arange(1.0, 501.0))) ** 12
    assert abs(first.mean() - chance) <= 4.0 * math.sqrt(chance * (1.0 - chance) / 2000)
    assert abs(labels.mean()) < 0.3
    assert large.excess_risk(np.zeros(500)) > 0.1
    assert large.problem_class.sparsity == 12
