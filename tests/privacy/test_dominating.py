"""Domination: the theorems that the pairs rest on, checked numerically; from events to pairs."""

import math

import dp_accounting as dp
import numpy as np
import pytest
from builders import dominating_pairs

from privopt.privacy.pairs import NOTHING
from privopt.privacy.pairs.gaussian import GaussianPair, ReplacedGaussian
from privopt.privacy.releases.laplace import DiscreteLaplacePair, LaplacePair
from privopt.spec import Relation

# --- domination -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b"), [(0.05, 0.05), (0.3, 1.0), (2.0, 2.5), (0.01, 6.0)])
def test_one_laplace_coordinate_dominates_two(a, b):
    """Of noise of scale 1, in the plane; its midpoints err by less than 1e-4."""
    x = np.linspace(-20.0, 20.0, 4001)[:-1] + 0.005
    laws = [(np.exp(-abs(x - s)) / 200.0, np.exp(-abs(x)) / 200.0) for s in (a, b)]
    p, q = (np.multiply.outer(*each) for each in zip(*laws, strict=True))
    for epsilon in np.array([-0.8, 0.0, 0.3, 0.9]) * (a + b):
        bins = LaplacePair(a + b).bins(np.array([epsilon]))
        bound = bins.p[1] - math.exp(epsilon) * bins.q[1]
        assert np.maximum(p - math.exp(epsilon) * q, 0.0).sum() <= bound + 1e-4


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
