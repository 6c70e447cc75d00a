"""Tests of lower bounds for private algorithms with sparse records: lemma, blocks and rates."""

import math

import numpy as np
import pytest

from privopt.privacy import gaussian_mu
from privopt.spec import Budget, ProblemClass, Relation
from privopt.theory import (
    ApproximateAdvantage,
    GaussianAdvantage,
    RenyiAdvantage,
    hard_data_bounds,
    lower_bound,
    projection_mechanism_rate,
)
from privopt.theory.hard_data import distances, hidden_supports


def empirical(facts, advantage):
    """Return the lower bound of the empirical risk."""
    return lower_bound(facts, advantage).value


def means(n, dim, sparsity):
    """Return the class of squared distances to sparse records of the unit ball."""
    return ProblemClass(n=n, dim=dim, lipschitz=2.0, radius=1.0, smoothness=1.0,
                        strong_convexity=1.0, sparsity=sparsity)  # fmt: skip


def budget(epsilon=1.0, delta=0.0, relation="replace_one"):
    return Budget(epsilon=epsilon, delta=delta, relation=relation)


def conjugate(ratio):
    """``max_v v - (cosh v - 1)/ratio``, on a grid."""
    v = np.linspace(0.0, 20.0, 200_001)
    return float((v - (np.cosh(v) - 1.0) / ratio).max())


def test_the_closed_form_of_the_conjugate():
    """Compare ``a(r)`` through the information of a single nat."""
    for dim, sparsity in ((64, 4), (64, 1), (4096, 4)):
        found = hidden_supports(1, dim, sparsity, GaussianAdvantage(0.1, Relation.REPLACE_ONE))
        told = 0.5 * 0.1**2 / (sparsity * conjugate(dim / sparsity))
        assert found.explained.min() == pytest.approx(told, rel=1e-4)


def test_the_information_of_groups():
    """Check normals, randomised response and order 2. Removing a record is a single step."""
    copies = np.array([1.0, 3.0])
    for relation in Relation:
        gaussian = GaussianAdvantage(0.4, relation).information(copies)
        assert gaussian.tolist() == pytest.approx([0.08, 0.72])
        pure = ApproximateAdvantage(budget(0.5, relation=relation)).information(copies)
        for k, found in zip(copies, pure, strict=True):
            chance = 1.0 / (1.0 + math.exp(-0.5 * k))
            divergence = (2.0 * chance - 1.0) * math.log(chance / (1.0 - chance))
            assert found == pytest.approx(divergence)
        assert np.all(np.isinf(ApproximateAdvantage(budget(delta=1e-9)).information(copies)))
    assert RenyiAdvantage(0.3, Relation.REPLACE_ONE).information(copies).tolist() == [0.3, math.inf]


@pytest.mark.cases(6)
@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize("epsilon", [0.05, 1.0])
@pytest.mark.parametrize(("dim", "sparsity"), [(16, 16), (64, 1), (8192, 4), (2**18, 64)])
def test_lower_is_never_above_upper(relation, epsilon, dim, sparsity):
    """The projection mechanism at exact noise, Gaussian and Laplace, from a record to many."""
    mu, root = gaussian_mu(epsilon, 1e-6), math.sqrt(sparsity)
    for n in (1, 10, 300, 2048, 10**5, 10**7):
        facts = means(n, dim, sparsity)
        moved = relation.multiple / n
        pure = ApproximateAdvantage(budget(epsilon, 0.0, relation))
        for kind, scale, own in (
            ("gaussian", moved / mu, GaussianAdvantage(mu, relation)),
            ("laplace", moved * root / epsilon, pure),
        ):
            rate = projection_mechanism_rate(
                facts, noise=kind, scale=scale, body="l1_l2", clip_norm=1.0
            )
            assert 0.0 < lower_bound(facts, own).value <= rate.upper


def slope(bound, n, factor=2.0):
    return math.log(bound(factor * n) / bound(n)) / math.log(factor)


def test_gaussian_rates_meet_within_a_factor_of_ten():
    """Both bounds have the same logarithm in the sparse regime, for any dimension."""
    mu = gaussian_mu(1.0, 1e-6)
    for dim, n in ((8192, 128), (8192, 2048), (2**18, 2048), (2**18, 2**15)):
        facts = means(n, dim, 4)
        least = lower_bound(facts, GaussianAdvantage(mu, budget().relation)).value
        noise = {"noise": "gaussian", "scale": 2.0 / (n * mu)}
        rate = projection_mechanism_rate(facts, **noise, body="l1_l2", clip_norm=1.0)
        assert rate.leading.name == "sparse"
        assert least <= rate.upper <= 10.0 * least


def test_the_sparse_exponent_of_pure_privacy_has_a_logarithm():
    """``s ln(d/(n epsilon))/(n epsilon)``: below -1 by about ``1/ln(d/(n epsilon))``."""

    def bound(n):
        return empirical(means(round(n), 2**20, 4), ApproximateAdvantage(budget()))

    found = slope(bound, 512.0, 8.0)
    assert -1.0 - 2.0 / math.log(2**20 / 1448) <= found <= -1.0 - 0.5 / math.log(2**20 / 1448)


def test_packings_in_groups():
    """One by one: ``K`` copies in each of as many groups as there are records and coordinates."""
    n, sparsity, dim = 500, 3, 60
    pure, best = ApproximateAdvantage(budget(0.2)), 0.0
    for width in (1, 3):
        packing = distances(width, 2.0)
        for z, cost in zip(packing.replaced, packing.cost, strict=True):
            copies = min(math.floor(z / 0.2), n)
            groups = min(n // copies, dim // width) if copies else 0
            best = max(best, 0.5 * groups * (copies / n) ** 2 * cost)
    bound = hard_data_bounds(means(n, dim, sparsity), pure)["distances"]
    assert bound == pytest.approx(best)
    alone = 0.5 * distances(3, 2.0).best(n, pure, power=2.0)
    assert bound > 2.0 * alone


def test_dense_records_are_not_hidden_among_sparse_ones():
    """A packing of the whole ball has dense records, which no sparse class admits."""
    n, dim, pure = 10**4, 1000, ApproximateAdvantage(budget())
    for name in ("distances", "hidden points"):
        sparse, dense = (hard_data_bounds(means(n, dim, s), pure)[name] for s in (2, dim))
        assert sparse < 0.1 * dense
