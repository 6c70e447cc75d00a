"""Three noisy sums over a batch and its two random halves: a record is seen by two of them."""

import math
from collections import Counter
from itertools import permutations

import dp_accounting as dp
import numpy as np
import pytest

from privopt.privacy import Fourier
from privopt.spec import Relation

CASES = [(4, 2, 1.0, 0.5), (5, 4, 1.0, 0.5), (6, 2, 0.7, 0.3), (6, 4, 0.7, 0.3)]
POINTS = 56  # of the grid, on each axis


def centres(records, batch):
    """The three sums for every ordered batch, and how likely they are."""
    half = batch // 2
    found = Counter()
    for order in permutations(range(len(records)), batch):
        first, second = (sum(records[i] for i in part) for part in (order[:half], order[half:]))
        found[(round(first + second, 9), round(first, 9), round(second, 9))] += 1
    total = sum(found.values())
    return np.array(list(found)), np.array([count / total for count in found.values()])


def stick(ours, theirs, noise, gamma):
    """``H_gamma`` of two mixtures of normal distributions, by a grid in three dimensions."""
    both = np.concatenate([ours[0], theirs[0]])
    axes = [
        np.linspace(both[:, i].min() - 5.0 * noise, both[:, i].max() + 5.0 * noise, POINTS)
        for i in range(3)
    ]
    cell = math.prod(axis[1] - axis[0] for axis in axes)

    def density(centres, weights):
        parts = [
            np.exp(-0.5 * ((axis - centres[:, i, None]) / noise) ** 2)
            / (noise * math.sqrt(2.0 * math.pi))
            for i, axis in enumerate(axes)
        ]
        return np.einsum("m,mi,mj,mk->ijk", weights, *parts, optimize=True)

    return float(np.maximum(density(*ours) - gamma * density(*theirs), 0.0).sum() * cell)


def claimed(size, batch, z, epsilon, seen):
    """Return the claimed delta at noise ``2 z`` on each sum.

    The record is in the batch ``seen`` times.
    """
    inner = dp.GaussianDpEvent(2.0 * z / math.sqrt(seen))
    event = dp.SampledWithoutReplacementDpEvent(size, batch, inner)
    return Fourier().delta(event, Relation.REPLACE_ONE, epsilon).upper


@pytest.mark.parametrize(("size", "batch", "z", "epsilon"), CASES)
def test_two_of_three_covers_the_worst_neighbours_and_one_does_not(size, batch, z, epsilon):
    records = [-1.0] * size
    ours, theirs = (centres([x, *records[1:]], batch) for x in (1.0, -1.0))
    found = max(
        stick(*pair, 2.0 * z, math.exp(epsilon)) for pair in ((ours, theirs), (theirs, ours))
    )
    assert claimed(size, batch, z, epsilon, 1) < found <= claimed(size, batch, z, epsilon, 2)
    if (size, batch) == (4, 2):
        assert found == pytest.approx(0.131, abs=2e-3)
        assert claimed(4, 2, 1.0, 0.5, 2) == pytest.approx(0.162, abs=1e-3)
        assert claimed(4, 2, 1.0, 0.5, 3) == pytest.approx(0.223, abs=1e-3)


@pytest.mark.parametrize("seed", range(3))
def test_two_of_three_covers_other_records_and_orders(seed):
    random = np.random.default_rng(seed)
    records = np.round(random.uniform(-1.0, 1.0, 4), 2).tolist()
    ours, theirs = (centres([x, *records], 4) for x in (1.0, -1.0))
    for epsilon in (0.0, 0.4, 1.2):
        found = max(
            stick(*pair, 1.6, math.exp(epsilon)) for pair in ((ours, theirs), (theirs, ours))
        )
        assert found <= claimed(5, 4, 0.8, epsilon, 2) + 1e-4
