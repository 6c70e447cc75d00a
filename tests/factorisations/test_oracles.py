"""Matrices, errors and sensitivities against oracles that share no formula with the code."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
from scipy.linalg import solve_triangular

from privopt.factorisations import (
    FACTORISATIONS,
    DenseFactorisation,
    SeriesFactorisation,
    factorise,
)

FREE = ("banded", "banded_inverse", "buffered")
BAND = 3


def named(name, steps, optimise=False):
    band = min(BAND, steps) if name in FREE else None
    return factorise(name, steps, band, optimise=optimise and name in FREE)


# --- matrices, made from their definitions --------------------------------------------------------


def root_of_prefix_sums(steps):
    """The lower triangular ``C`` with ``C C = A``, solved entry by entry along the diagonals."""
    root = np.eye(steps)
    for distance in range(1, steps):
        for t in range(distance, steps):
            i = t - distance
            between = root[t, i + 1 : t] @ root[i + 1 : t, i]
            root[t, i] = (1.0 - between) / (root[t, t] + root[i, i])
    return root


def dyadic_blocks(steps):
    """Return all complete blocks ``(first, last + 1)`` of the tree, found by doubling."""
    blocks, width = [], 1
    while width <= steps:
        blocks += [(first, first + width) for first in range(0, steps - width + 1, width)]
        width *= 2
    return blocks


def sums_over(blocks, steps):
    return np.array([[float(a <= i < b) for i in range(steps)] for a, b in blocks])


def peeled(t):
    """The blocks that a prefix of ``t`` steps is cut into, the longest first."""
    start = 0
    while start < t:
        width = 1 << ((t - start).bit_length() - 1)
        yield start, start + width
        start += width


def decoder_of_tree(steps, blocks):
    rows = [[float(block in set(peeled(t + 1))) for block in blocks] for t in range(steps)]
    return np.array(rows)


def decoder_of_least_variance(steps, blocks):
    """Return the unbiased estimates of least variance of the blocks of each prefix.

    Each uses only the blocks inside.
    """
    decoder = np.zeros((steps, len(blocks)))
    for t, first in itertools.product(range(steps), peeled_all(steps)):
        if first in set(peeled(t + 1)):
            inside = [k for k, (a, b) in enumerate(blocks) if first[0] <= a and b <= first[1]]
            width = range(*first)
            design = sums_over([blocks[k] for k in inside], steps)[:, width]
            decoder[t, inside] += np.linalg.pinv(design.T) @ np.ones(len(width))
    return decoder


def peeled_all(steps):
    return {block for t in range(steps) for block in peeled(t + 1)}


def matrices(name, steps, found):
    """``(B, C)`` from the definition; of ``buffered`` with the weights that were found."""
    prefix, root = np.tri(steps), root_of_prefix_sums(steps)
    near = np.subtract.outer(np.arange(steps), np.arange(steps)) < BAND
    if name == "independent":
        encoder = np.eye(steps)
    elif name == "toeplitz":
        encoder = root
    elif name == "banded":
        encoder = np.where(near, root, 0.0)
    elif name == "banded_inverse":
        encoder = np.linalg.inv(np.where(near, np.linalg.inv(root), 0.0))
    else:
        encoder = np.eye(steps)
        for t, i in itertools.combinations(range(steps), 2):
            encoder[i, t] = sum(
                weight * decay ** (i - t - 1)
                for weight, decay in zip(found.omega, found.theta, strict=True)
            )
    return prefix @ np.linalg.inv(encoder), encoder


@pytest.mark.parametrize("steps", [1, 2, 5, 8, 12])
@pytest.mark.parametrize(
    "name", [n for n in FACTORISATIONS if n not in ("optimal", "tree", "honaker")]
)
def test_series_are_what_their_definitions_say(name, steps):
    found = named(name, steps)
    decoder, encoder = matrices(name, steps, found)
    np.testing.assert_allclose(found.encoder(), encoder, atol=1e-12)
    np.testing.assert_allclose(found.decoder(), decoder, atol=1e-12)
    np.testing.assert_allclose(found.variances(), np.sum(decoder**2, axis=1), rtol=1e-12)
    spread = found.sensitivity() * np.linalg.norm(decoder) / math.sqrt(steps)
    assert found.rmse() == pytest.approx(spread, rel=1e-12)


@pytest.mark.parametrize("steps", [*range(1, 10), 12, 13, 16])
def test_errors_of_trees_are_those_of_blocks_that_a_prefix_is_cut_into(steps):
    """The sums of a plain prefix, and the best linear unbiased estimate from inside each."""
    blocks = dyadic_blocks(steps)
    encoder = sums_over(blocks, steps)
    for name, make in (("tree", decoder_of_tree), ("honaker", decoder_of_least_variance)):
        decoder = make(steps, blocks)
        np.testing.assert_allclose(decoder @ encoder, np.tri(steps), atol=1e-12)
        np.testing.assert_allclose(named(name, steps).covariance(), decoder @ decoder.T, atol=1e-12)


@pytest.mark.cases(3)
@pytest.mark.parametrize("steps", [1, 7, 64, 100])
@pytest.mark.parametrize("failure", [0.1, 0.01])
def test_all_prefix_errors_of_a_tree_are_within_the_union_bound(steps, failure):
    """``sqrt(2 h ln(2 d T/beta))`` for noise 1 a block; a single step is a single block.

    With five standard errors of 4,000 runs. A bound half as large is exceeded too often.
    """
    runs, dim = 4000, 2
    tree, rng = named("tree", steps), np.random.default_rng(0)
    decoder = tree.decoder()
    blocks = rng.normal(size=(runs, decoder.shape[1], dim))
    largest = np.abs(np.einsum("tb,rbd->rtd", decoder, blocks)).max(axis=(1, 2))
    height = steps.bit_length()
    assert tree.sensitivity() == pytest.approx(math.sqrt(height))
    variances = (decoder**2).sum(axis=1)
    assert variances.tolist() == [t.bit_count() for t in range(1, steps + 1)]
    bound = math.sqrt(2.0 * height * math.log(2.0 * dim * steps / failure))
    error = math.sqrt(failure * (1.0 - failure) / runs)
    assert np.mean(largest > bound) <= failure + 5.0 * error
    assert np.mean(largest > bound / 2.0) > failure + 5.0 * error


@pytest.mark.parametrize("steps", [2, 3, 8, 31, 64])
def test_the_optimum_by_a_dual_made_of_its_own_gram_matrix(steps):
    """``v = diag(X^-1 M X^-1)`` is the multiplier of ``diag X <= 1``; the gap then bounds both."""
    found = named("optimal", steps)
    encoder = found.encoder()
    gram, moments = encoder.T @ encoder, np.tri(steps).T @ np.tri(steps)
    assert np.diag(gram).max() <= 1.0 + 1e-12
    inverse = np.linalg.inv(gram)
    weights = np.diag(inverse @ moments @ inverse)
    scaled = moments * np.sqrt(np.outer(weights, weights))
    dual = 2.0 * np.sqrt(np.maximum(np.linalg.eigvalsh(scaled), 0.0)).sum() - weights.sum()
    primal = np.trace(moments @ inverse)
    assert dual <= primal * (1.0 + 1e-10)
    assert primal - dual <= 1e-3 * primal
    assert found.rmse() ** 2 * steps == pytest.approx(primal, rel=1e-9)


# --- sensitivities, by every pattern --------------------------------------------------------------


@functools.cache
def every_pattern(steps, times, gap, even=False):
    """Each allowed set of steps as a row of zeros and ones."""
    rows = []
    for bits in range(1, 2**steps):
        chosen = [t for t in range(steps) if bits >> t & 1]
        apart = [b - a for a, b in itertools.pairwise(chosen)]
        if len(chosen) > times or min(apart, default=gap) < gap:
            continue
        if even and (set(apart) - {gap} or not as_many_as_fit(chosen, steps, times, gap)):
            continue
        rows.append([float(bits >> t & 1) for t in range(steps)])
    return np.array(rows)


def as_many_as_fit(chosen, steps, times, gap):
    return len(chosen) == min(times, -(-(steps - chosen[0]) // gap))


def most(gram, patterns):
    """``max_pi sqrt(sum_(i, j in pi) |X_ij|)``."""
    return math.sqrt(np.max(np.sum(patterns @ np.abs(gram) * patterns, axis=1)))


def reached(gram, patterns, rng, dim=3):
    """Return a lower bound on the sensitivity by alternating maximisation over unit vectors."""
    vectors = rng.normal(size=(len(patterns), len(gram), dim))
    vectors *= patterns[:, :, None]
    for _ in range(40):
        wanted = np.einsum("ij,pjd->pid", gram, vectors) * patterns[:, :, None]
        length = np.linalg.norm(wanted, axis=2, keepdims=True)
        vectors = np.divide(wanted, length, out=vectors, where=length > 0.0)
    return math.sqrt(np.max(np.einsum("pid,ij,pjd->p", vectors, gram, vectors)))


def attained_by_release(found):
    """Return the Gram matrix of the released answers. It depends on ``B`` only, and not on ``C``.

    The released prefix sums are ``A g + B xi``, so two neighbours differ by ``v = A g`` against the
    covariance ``B B^T``: ``v^T (B B^T)^-1 v``.
    """
    factor = np.linalg.cholesky(found.covariance())
    encoder = solve_triangular(factor, np.tri(found.steps), lower=True)
    return encoder.T @ encoder


@pytest.mark.parametrize("optimise", [False, True])
@pytest.mark.parametrize("steps", [1, 2, 7, 10])
@pytest.mark.parametrize("name", FACTORISATIONS)
def test_sensitivity_is_that_of_the_worst_of_all_patterns(name, steps, optimise):
    """The released answers reveal as much as claimed and never more, for all gaps and counts.

    Honaker's estimates of prefixes alone reveal slightly less than the blocks that they combine.
    """
    if optimise and name not in FREE:
        return
    found = named(name, steps, optimise)
    encoder = found.encoder()
    gram, released = encoder.T @ encoder, attained_by_release(found)
    assert gram.min() >= -1e-12
    for times, gap in itertools.product(range(1, steps + 1), repeat=2):
        if (times - 1) * gap >= steps:
            continue
        patterns = every_pattern(steps, times, gap)
        claimed = found.sensitivity(times, gap)
        assert claimed == pytest.approx(most(gram, patterns), rel=1e-9)
        revealed = most(released, patterns)
        assert claimed >= revealed * (1.0 - 1e-9)
        assert name == "honaker" or claimed == pytest.approx(revealed, rel=1e-6)


@pytest.mark.parametrize("optimise", [False, True])
@pytest.mark.parametrize("steps", [1, 5, 11])
@pytest.mark.parametrize("name", FACTORISATIONS)
def test_sensitivity_of_epochs_in_one_order(name, steps, optimise):
    """Every start, also where epochs are cut short: ``T`` no multiple of the gap."""
    if optimise and name not in FREE:
        return
    found = named(name, steps, optimise)
    encoder = found.encoder()
    gram, released = encoder.T @ encoder, attained_by_release(found)
    for times, gap in itertools.product(range(1, steps + 1), repeat=2):
        if (times - 1) * gap >= steps:
            continue
        patterns = every_pattern(steps, times, gap, even=True)
        claimed = found.sensitivity(times, gap, even=True)
        assert claimed == pytest.approx(most(gram, patterns), rel=1e-9)
        assert claimed >= most(released, patterns) * (1.0 - 1e-9)
        assert claimed <= found.sensitivity(times, gap) * (1.0 + 1e-9)


def test_a_pass_that_is_cut_short_may_weigh_most():
    """Eight steps, gap three: the third and the sixth step leave no room for a third pass."""
    heavy = DenseFactorisation(np.diag([1.0, 1.0, 9.0, 1.0, 1.0, 9.0, 1.0, 1.0]))
    assert heavy.sensitivity(3, 3, even=True) == pytest.approx(9.0 * math.sqrt(2.0), rel=1e-12)


@pytest.mark.parametrize("even", [False, True])
def test_no_vectors_reach_beyond_a_claim_where_columns_oppose_each_other(even):
    """Records may differ by other vectors at each step: a Gram matrix of both signs.

    The claim is ``sum |X_ij|``. Signs reach it where a pattern's signs can agree; vectors of three
    coordinates never pass it.
    """
    rng = np.random.default_rng(7)
    for steps, times, gap in [(6, 3, 1), (7, 3, 2), (8, 2, 3), (9, 4, 2), (6, 6, 1)]:
        encoder = np.tril(rng.normal(size=(steps, steps)))
        found = DenseFactorisation(encoder)
        choice = {"even": True} if even else {}
        claimed = found.sensitivity(times, gap, **choice)
        patterns = every_pattern(steps, times, gap, even)
        gram = encoder.T @ encoder
        assert gram.min() < 0.0
        assert claimed >= most(gram, patterns) * (1.0 - 1e-12)
        assert claimed >= reached(gram, patterns, rng) * (1.0 - 1e-12)
        if times == 2:  # one sign turns any two columns towards each other
            assert claimed == pytest.approx(reached(gram, patterns, rng), rel=1e-6)


SERIES = [
    ("numerator", [1.0, 0.0, 0.0, 0.9]),
    ("numerator", [1.0, -0.8, 0.7, -0.6]),
    ("numerator", [1.0, 0.2, 0.9]),
    ("numerator", [1.0, 1.0, 1.0, 1.0, 1.0]),
    ("numerator", [1.0, 2.0]),
    ("denominator", [1.0, -0.3, -0.9]),
    ("denominator", [1.0, 0.9]),
    ("denominator", [1.0, -1.2]),
    ("denominator", [1.0, 0.0, -0.7]),
]


@pytest.mark.parametrize(("side", "series"), SERIES)
@pytest.mark.parametrize("even", [False, True])
def test_series_that_do_not_decrease(side, series, even):
    """Rising, alternating, growing: never below the truth, and equal to it at one participation."""
    steps, rng = 9, np.random.default_rng(0)
    parts = {"numerator": np.ones(1), "denominator": np.ones(1), side: np.array(series)}
    found = SeriesFactorisation("odd", steps, **parts)
    encoder = found.encoder()
    gram = encoder.T @ encoder
    choice = {"even": True} if even else {}
    for times, gap in [(1, 1), (2, 1), (2, 3), (3, 2), (3, 4), (9, 1), (5, 2)]:
        patterns = every_pattern(steps, times, gap, even)
        claimed = found.sensitivity(times, gap, **choice)
        assert claimed >= reached(gram, patterns, rng) * (1.0 - 1e-9)
        assert claimed <= most(gram, patterns) * (1.0 + 1e-9)


@pytest.mark.parametrize("name", FREE)
def test_coefficients_of_single_precision(name):
    """Rounded, a decreasing series may rise by one part in 10^7, and the claim must follow."""
    steps = 10
    exact = named(name, steps)
    if name == "buffered":
        rounded = type(exact)(
            steps, *(np.float32(x).astype(float) for x in (exact.omega, exact.theta))
        )
    else:
        parts = (np.float32(x).astype(float) for x in (exact.numerator, exact.denominator))
        rounded = SeriesFactorisation(name, steps, *parts)
    gram = rounded.encoder().T @ rounded.encoder()
    for times, gap in [(1, 1), (2, 3), (3, 3), (10, 1)]:
        truth = most(gram, every_pattern(steps, times, gap))
        assert truth * (1.0 - 1e-12) <= rounded.sensitivity(times, gap) <= truth * (1.0 + 1e-6)


def two_apart(gram, gap):
    """The exact worst case of at most two participations."""
    own = np.diag(gram)
    far = np.abs(np.subtract.outer(np.arange(len(own)), np.arange(len(own)))) >= gap
    pairs = np.where(far, own[:, None] + own[None, :] + 2.0 * np.abs(gram), 0.0)
    return math.sqrt(max(own.max(), pairs.max()))


@pytest.mark.cases(6)
@pytest.mark.parametrize(("steps", "gap"), [(340, 1), (600, 7), (340, 100)])
@pytest.mark.parametrize("name", ["tree", "honaker", "toeplitz", *FREE])
def test_long_streams_of_two_participations(name, steps, gap):
    """More patterns than are enumerated, more steps than have a Gram matrix: bounds hold."""
    found = named(name, steps, optimise=True)
    encoder = found.encoder()
    truth = two_apart(encoder.T @ encoder, gap)
    assert truth * (1.0 - 1e-12) <= found.sensitivity(2, gap) <= 1.2 * truth


def test_a_long_series_that_is_worse_at_a_wider_gap():
    """Counting from the first step at the least gap says 1.90, two steps further it is 2.33."""
    found = SeriesFactorisation("odd", 700, np.array([1.0, 0.0, 0.0, 0.9]))
    encoder = found.encoder()
    assert found.sensitivity(2, 2) >= two_apart(encoder.T @ encoder, 2) * (1.0 - 1e-12)
