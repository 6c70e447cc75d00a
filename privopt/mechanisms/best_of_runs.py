"""The best of a geometric number of runs: a bound of probability 1/2 becomes one near 1."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from dp_accounting import ComposedDpEvent, DpEvent, GaussianDpEvent
from jax import Array

from privopt import draws
from privopt.arguments import count
from privopt.convex import EmpiricalRisk, pytree_dataclass
from privopt.mechanisms.bias_reduced import BiasReducedGradient
from privopt.mechanisms.calibration import check_calibration, drawable, noise_multiplier
from privopt.mechanisms.queries import ClippedGradient
from privopt.mechanisms.round_off import UNIT, compensated_sum
from privopt.privacy import Repetitions, calibrate, round_up, select_best
from privopt.release import release
from privopt.spec import Budget, Relation

_ODDS = 2**30
_SCORE_NOISE = 2.0  # of the score, over that of a run's sums: a tenth of what is spent


class PointScore(NamedTuple):
    """How good a point is: the norm of the clipped mean gradient, or a clipped risk.

    The risk is ``(1/n) sum_i clip_B(l(w; x_i) - l(c; x_i))``, ``c`` the centre of the set and ``B
    = C R``. Nothing is clipped where losses are ``C``-Lipschitz; the losses need no bounded range.

    The public term's share is returned separately and added to the noisy score: a large one would
    round a record's share off before the noise. Of the risk that is ``r(w)``; of the norm of ``g +
    k``, with ``k`` the gradient of ``r``, it is ``|k|``, and ``|g + k| - |k| = <g, g + 2k>/(|g +
    k| + |k|)`` moves by as much as ``g`` does.

    A ``radius`` of None scores by the norm of the gradient.

    Examples
    --------
    >>> score = PointScore(ClippedGradient(clip=1.0, size=100.0, dim=3), 2.0)
    >>> round(score.sensitivity(Relation.REPLACE_ONE), 6)
    0.040001
    """

    query: ClippedGradient
    radius: float | None = None

    def sensitivity(self, relation: Relation) -> float:
        """``2C/n`` of the norm, ``2 C R/n`` of the risk (``replace_one``), else half of that.

        And what float32 rounds two answers by: that of the risk three times, the products with
        multiplicities, the sum and the mean; that of the norm ten times, however many coordinates
        there are. The sum of gradients is taken as exact.
        """
        reach, roundings = (1.0, 12.0) if self.radius is None else (self.radius, 4.0)
        rounded = 2.0 * roundings * UNIT * self.query.clip
        return (self.query.sensitivity(relation) + rounded) * reach

    def score_range(self, relation: Relation) -> float:
        """How unevenly a record moves the scores of several points: one up, another down."""
        return 2.0 * self.sensitivity(relation)

    def score_of(self, objective: EmpiricalRisk) -> Callable[[Array], tuple[Array, Array]]:
        """``w -> (share of the records, share of the public term)`` on the device, without noise.

        The smaller their sum, the better.
        """
        if self.radius is None:
            gradient = self.query.gradient_of(objective)

            def slope(point: Array) -> tuple[Array, Array]:
                found, known = gradient(point), objective.public_gradient(point)
                known = jnp.zeros_like(found) if known is None else known
                own = _length(known)
                both = _length(found + known) + own
                shares = jnp.where(both > 0.0, (found + 2.0 * known) / both, 0.0)
                return compensated_sum(found * shares), own

            return slope
        bound = self.query.clip * self.radius

        def risk(point: Array) -> tuple[Array, Array]:
            centre = objective.constraint.centre_point(point.shape[-1], point.dtype)
            moved = objective.losses(point) - objective.losses(centre)
            moved = jnp.where(jnp.isfinite(moved), jnp.clip(moved, -bound, bound), 0.0)
            moved = moved if objective.counts is None else objective.counts * moved
            public = objective.public
            known = jnp.zeros((), moved.dtype) if public is None else public(point)
            return compensated_sum(moved) / self.query.size, known

        return risk


@pytree_dataclass
@dataclass(frozen=True, kw_only=True)
class BestOfRuns:
    """Run, score, and stop with probability ``gamma``; release the point of the best score alone.

    If a run succeeds with probability 1/2, none does with probability ``gamma/(1 + gamma)``.

    ``scale`` is of the Gaussian noise on every score; ``odds = 2^30 gamma`` is whole, so that the
    coin after a run is exact.

    Formal guarantee
    ----------------
    The number of runs is geometric and drawn without data. Of all runs and scores, only the point
    of the best score is released, so the whole costs what :func:`privopt.privacy.select_best` says
    of one run and its score. *Secret* are the number of runs, the time that all runs take, and
    the levels of each: the theorem asks for runs of one law.
    Source: Liu and Talwar 2019; Papernot and Steinke 2022 (arXiv:2110.03620), Theorem 2.
    """

    run: BiasReducedGradient
    score: PointScore
    scale: float
    odds: int

    @classmethod
    def calibrated(
        cls, unit: BiasReducedGradient, score: PointScore, budget: Budget, gamma: float
    ) -> BestOfRuns:
        """The least noise of ``unit`` and of its score, in a fixed ratio, within ``budget``."""
        check_calibration(score.query, budget, "contribution")
        odds = max(1, math.ceil(gamma * _ODDS))
        sensitivity = score.sensitivity(budget.relation) / budget.relation.multiple

        def at_noise(noise: float) -> BestOfRuns:
            scale = round_up(_SCORE_NOISE * noise * sensitivity)
            return cls(run=unit.with_noise_multiplier(noise), score=score, scale=scale, odds=odds)

        spendable = drawable(budget)
        return at_noise(calibrate(lambda z: at_noise(z).event(budget.relation), spendable))

    @property
    def repetitions(self) -> Repetitions:
        """The law of the number of runs."""
        return Repetitions.geometric(_ODDS / count("odds", self.odds))

    def event(self, relation: Relation) -> DpEvent:
        """The best of so many runs, each with its score."""
        moved = self.score.sensitivity(relation) / Relation(relation).multiple
        noise = GaussianDpEvent(noise_multiplier(self.scale, moved))
        return select_best(ComposedDpEvent((self.run.event(relation), noise)), self.repetitions)

    def scored(self, shares: tuple[Array, Array], key: Array) -> Array:
        """A score with its noise, from child 0 of the key, and then its public share."""
        value, known = shares
        noise = draws.normal(jax.random.fold_in(key, 0), (1,), value.dtype)[0]
        return release("answer", value + release("noise", self.scale * noise)) + known

    def is_last(self, key: Array) -> Array:
        """Whether no further run is made: the coin of child 1 of the key."""
        word = jax.random.bits(jax.random.fold_in(key, 1), (), jnp.uint32) >> 2
        return word < jnp.asarray(self.odds).astype(jnp.uint32)


def _length(x: Array) -> Array:
    """``|x|_2``, to a few roundings."""
    scale = jnp.abs(x).max()
    scale = jnp.where(scale > 0.0, scale, 1.0)
    return scale * jnp.sqrt(compensated_sum(jnp.square(x / scale)))
