"""Domination: the theorems that the pairs rest on, checked numerically; from events to pairs."""

import math
from itertools import pairwise

import dp_accounting as dp
import numpy as np
import pytest
from builders import dominating_pairs

from privopt.privacy.pairs import NOTHING
from privopt.privacy.pairs.gaussian import GaussianPair, ReplacedGaussian
from privopt.privacy.releases.laplace import DiscreteLaplacePair, LaplacePair
from privopt.spec import Relation

# --- domination -----------------------------------------------------------------------------------


def laplace_curve(epsilon, mu):
    return np.where(
        epsilon >= mu,
        0.0,
        np.where(
            epsilon <= -mu, -np.expm1(np.minimum(epsilon, 0.0)), -np.expm1((epsilon - mu) / 2)
        ),
    )


def with_one_more(curve, epsilon, a, kinks, nodes=40):
    """The curve of a product with another Laplace coordinate, integrated between its kinks."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    total = np.sum(0.5 * curve(epsilon - a) + 0.5 * math.exp(-a) * curve(epsilon + a))
    cuts = np.unique(np.clip([-a, a, *(epsilon - k for k in kinks)], -a, a))
    for left, right in pairwise(cuts):
        losses = 0.5 * (left + right) + 0.5 * (right - left) * x
        total += (
            0.5
            * (right - left)
            * float(w @ (0.25 * np.exp(0.5 * (losses - a)) * curve(epsilon - losses)))
        )
    return float(total)


@pytest.mark.parametrize(("a", "b"), [(0.05, 0.05), (0.3, 1.0), (2.0, 2.5), (0.01, 6.0)])
def test_one_laplace_coordinate_dominates_two_and_three(a, b):
    def two(epsilons):
        return np.array(
            [
                with_one_more(lambda e: laplace_curve(e, b), e, a, (-b, b))
                for e in np.atleast_1d(epsilons)
            ]
        )

    total = a + b
    for epsilon in np.linspace(-1.1 * total, 1.1 * total, 23):
        assert two(epsilon)[0] <= laplace_curve(epsilon, total) + 1e-12
    third = 0.7 * a
    kinks = (-total, a - b, b - a, total)
    for epsilon in np.linspace(-total, total, 7):
        three = with_one_more(two, epsilon, third, kinks, nodes=12)
        assert three <= laplace_curve(epsilon, total + third) + 1e-9
    y = np.linspace(0.0, 2.0 * total, 9)[1:-1]  # the survival of the product, as the proof has it
    ratio = np.where(
        y < 2 * min(a, b), 1.5 + y / 4, np.where(y < 2 * b, 1 + a / 2, 0.5 + (2 * total - y) / 4)
    )
    assert np.all(np.diff(np.sign(ratio - 1.0 - 1e-12)) <= 0) or np.all(ratio >= 1.0)


@pytest.mark.parametrize("a", [0.05, 0.7, 3.0])
@pytest.mark.parametrize("split", [(1, 1), (1, 4), (3, 3), (1, 1, 1), (1, 2, 5)])
def test_one_discrete_laplace_coordinate_dominates_several(a, split):
    def law(s):
        bins = DiscreteLaplacePair(a, s).bins(a * (2.0 * np.arange(s + 2) - s - 1.0))
        return list(zip(bins.p[1:-1].tolist(), bins.q[1:-1].tolist(), strict=True))

    product = [(1.0, 1.0)]
    for s in split:
        product = [(p * u, q * v) for p, q in product for u, v in law(s)]
    whole = law(sum(split))
    for epsilon in np.linspace(-a * sum(split) - 1, a * sum(split) + 1, 41):
        one, several = (
            math.fsum(max(0.0, p - math.exp(epsilon) * q) for p, q in each)
            for each in (whole, product)
        )
        assert several <= one + 1e-13


@pytest.mark.parametrize("seed", range(4))
def test_a_replaced_gaussian_dominates_every_pair_of_gradients(seed):
    random = np.random.default_rng(seed)
    rate, z = random.uniform(0.05, 0.95), random.uniform(0.4, 2.0)
    pair = ReplacedGaussian(rate, z)
    axis = np.linspace(-1.0 - 7.0 * z, 1.0 + 7.0 * z, 401)
    x, y = np.meshgrid(axis, axis)
    cell = (axis[1] - axis[0]) ** 2 / (2 * math.pi * z * z)

    def density(g):
        return cell * np.exp(-((x - g[0]) ** 2 + (y - g[1]) ** 2) / (2 * z * z))

    for _ in range(4):
        first, second = random.normal(size=(2, 2))
        first *= random.uniform(0.3, 1.0) / np.linalg.norm(first)
        second *= random.uniform(0.3, 1.0) / np.linalg.norm(second)
        none = (1.0 - rate) * density((0.0, 0.0))
        p, q = none + rate * density(first), none + rate * density(second)
        for epsilon in (-2.0, -0.5, -0.05, 0.0, 0.05, 0.3, 1.0, 2.5):
            bins = pair.bins(np.array([epsilon]))
            bound = bins.p[1] - math.exp(epsilon) * bins.q[1]
            assert float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) <= bound + 1e-4


# --- from events to pairs -------------------------------------------------------------------------

G = dp.GaussianDpEvent
ADD, OUT, REPLACE = Relation.ADD_OR_REMOVE_ONE, Relation.ZERO_OUT, Relation.REPLACE_ONE


def test_relations_multiply_the_distance():
    assert dominating_pairs(G(4.0), ADD)[0] == GaussianPair(0.25)
    assert dominating_pairs(G(4.0), OUT)[0] == GaussianPair(0.25)
    assert dominating_pairs(G(4.0), REPLACE)[0] == GaussianPair(0.5)
    assert dominating_pairs(dp.LaplaceDpEvent(4.0), REPLACE)[0] == LaplacePair(0.5)


def test_extremes():
    assert dominating_pairs(G(math.inf), ADD)[0] is NOTHING
    assert dominating_pairs(dp.PoissonSampledDpEvent(0.0, G(1.0)), ADD)[0] is NOTHING
    for noise, attained in ((0.0, True), (1e-6, False)):
        pair = dominating_pairs(G(noise), ADD)[0]
        assert pair.infinite() == (1.0, 1.0)
        assert (pair.attained is not None) == attained
        (seen, _) = dominating_pairs(dp.PoissonSampledDpEvent(0.25, G(noise)), REPLACE)
        assert seen.infinite() == (0.25, 0.25)
        assert (seen.attained is not None) == attained
