"""Gaussian accounting of trees and of sampling that is none, beyond plain Gaussian events."""

import itertools
import math

import dp_accounting as dp
import numpy as np
import pytest

from privopt.privacy import GaussianDP
from privopt.spec import Relation

ACCOUNTANT = GaussianDP()
EVERY_RELATION = pytest.mark.parametrize("relation", Relation)
tree = dp.SingleEpochTreeAggregationDpEvent


def sampled(rate, event):
    return dp.PoissonSampledDpEvent(rate, event)


def mu(event, relation=Relation.ZERO_OUT):
    lower, upper = ACCOUNTANT.distance(event, relation)
    assert lower <= upper <= lower * (1 + 1e-14)
    return upper


# --- trees ---------------------------------------------------------------------------------------


def test_golden_tree():
    assert mu(tree(10.0, 1024)) == pytest.approx(0.331662479, abs=1e-9)
    assert mu(tree(10.0, 1024), Relation.REPLACE_ONE) == pytest.approx(0.663324958, abs=1e-9)


def nodes_of_the_busiest_record(steps):
    """Count, for every record, the completed nodes of a binary tree that its leaf is part of."""
    counts = np.zeros(steps, dtype=int)
    for height in itertools.count():
        size = 2**height
        if size > steps:
            return int(counts.max(initial=0))
        for start in range(0, steps - size + 1, size):
            counts[start : start + size] += 1


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 100])
def test_a_tree_is_as_many_releases_as_its_busiest_record_has_nodes(steps):
    nodes = nodes_of_the_busiest_record(steps)
    flat = dp.SelfComposedDpEvent(dp.GaussianDpEvent(3.0), nodes)
    assert mu(tree(3.0, steps)) == mu(flat)


@pytest.mark.parametrize("steps", [[5, 64, 17], (64,), [np.int64(64), 0]])
def test_one_participation_in_total_is_charged_for_the_largest_tree(steps):
    assert mu(tree(3.0, steps)) == mu(tree(3.0, 64)) == pytest.approx(math.sqrt(7) / 3)


def test_trees_without_steps_cost_nothing():
    for steps in (0, [], [0, 0]):
        assert mu(tree(3.0, steps)) == 0.0
        assert mu(tree(0.0, steps)) == 0.0


def test_trees_compose_with_everything_gaussian():
    event = dp.ComposedDpEvent(
        [dp.SelfComposedDpEvent(tree(5.0, 100), 3), dp.GaussianDpEvent(2.0), tree(4.0, [3, 8])]
    )
    assert mu(event) == pytest.approx(math.sqrt(3 * 7 / 25 + 1 / 4 + 4 / 16), rel=1e-14)


# --- sampling that is none -----------------------------------------------------------------------


@EVERY_RELATION
def test_rate_one_is_the_full_batch(relation):
    inner = dp.ComposedDpEvent(
        [dp.GaussianDpEvent(3.0), dp.SelfComposedDpEvent(dp.GaussianDpEvent(5.0), 4)]
    )
    for delta in (1e-2, 1e-10):
        for rate in (1.0, 1, np.float64(1.0)):
            event = dp.SelfComposedDpEvent(sampled(rate, inner), 6)
            plain = dp.SelfComposedDpEvent(inner, 6)
            assert ACCOUNTANT.epsilon(event, relation, delta) == ACCOUNTANT.epsilon(
                plain, relation, delta
            )
