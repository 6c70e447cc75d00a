"""Gaussian noise, once or along a binary tree.

If the noise standard deviation is ``z`` times the norm bound of one record, the
release is ``mu``-GDP with ``mu = m / z``, in any dimension. Here ``m`` is ``relation.multiple``: a
replaced record changes a sum by twice the bound. In a binary tree over ``T`` steps a record is part
of at most ``floor(log2 T) + 1`` completed nodes, and the first record of exactly that many. The
tree is equivalent to that number of Gaussian releases.

Sources: Dong, Roth and Su 2022 (arXiv:1905.02383, Theorem 2.7 and Corollary 3.3); for trees,
Kairouz, McMahan, Song, Thakkar, Thakurta and Xu 2021 (arXiv:2103.00039).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import attr
import dp_accounting as dp

from privopt.privacy.flatten import flatten
from privopt.privacy.mechanisms.base import (
    MAX_DISTANCE,
    UP,
    Release,
    Shift,
    release_of,
    revealing_pair,
)
from privopt.privacy.numbers import is_noise, tree_nodes
from privopt.privacy.pairs import Pair, ReplacedGaussian
from privopt.spec import Relation


@dataclass(frozen=True)
class Gaussian(Release, event=dp.GaussianDpEvent, parameters=("noise_multiplier",)):
    """Noise of standard deviation ``noise``, divided by the per-record sensitivity."""

    noise: float
    additive = True

    def shifts(self, relation: Relation) -> tuple[Shift, ...]:
        return (Shift(relation.multiple, self.noise),)

    def replaced(self, rate: float) -> Pair:
        if self.noise * MAX_DISTANCE >= 1.0:
            return ReplacedGaussian(rate, self.noise)
        return revealing_pair(rate, exact=self.noise == 0.0)

    def grouped(self, size: int, relation: Relation) -> dp.DpEvent:
        return dp.GaussianDpEvent(self.noise / (size * UP))

    def exported(self, relation: Relation) -> dp.DpEvent:
        return dp.GaussianDpEvent(self.noise / relation.multiple)


@dataclass(frozen=True)
class Tree(Release, event=dp.SingleEpochTreeAggregationDpEvent):
    """Trees in which each record is part of one step of one tree; the largest tree counts, once.

    Under ``add_or_remove_one`` the records after the removed one move to other steps, and no bound
    is known. A sampled record has no public position in a tree.
    """

    event: dp.SingleEpochTreeAggregationDpEvent
    nodes: int
    samples = False

    @classmethod
    def read(cls, event: dp.SingleEpochTreeAggregationDpEvent) -> Tree | None:
        nodes = tree_nodes(event.step_counts)
        return None if nodes is None or not is_noise(event.noise_multiplier) else cls(event, nodes)

    def shifts(self, relation: Relation) -> tuple[Shift, ...] | None:
        if relation is Relation.ADD_OR_REMOVE_ONE:
            return None
        return (Shift(relation.multiple, float(self.event.noise_multiplier), self.nodes),)

    def exported(self, relation: Relation) -> dp.DpEvent:
        noise = float(self.event.noise_multiplier) / relation.multiple
        return attr.evolve(self.event, noise_multiplier=noise)


def as_single_release(event: dp.DpEvent) -> Release | None:
    """Return a composition as one release: a single one, or all Gaussian releases together.

    Gaussian releases of distances ``mu_t`` are together equivalent to one of ``sqrt(sum mu_t^2)``.
    """
    parts = [(release_of(leaf), count) for leaf, count in flatten(event)]
    if len(parts) == 1 and parts[0][1] == 1:
        return parts[0][0]
    shifts = [Shift(1, each.noise, count) for each, count in parts if isinstance(each, Gaussian)]
    if len(shifts) < len(parts):
        return None
    distance = math.hypot(*(each.distance for each in shifts))
    if math.isinf(distance):
        revealed = any(each.noise == 0.0 for each in shifts)
        return Gaussian(0.0 if revealed else math.ulp(0.0))  # a distance beyond float64 has noise
    return Gaussian(1.0 / distance if distance > 0.0 else math.inf)
