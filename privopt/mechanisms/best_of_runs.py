"""The best of a secret, geometric number of runs: a bound that holds half of the time, boosted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from dp_accounting import ComposedDpEvent, DpEvent, GaussianDpEvent
from jax import Array

from privopt import draws
from privopt.convex import EmpiricalRisk, norm, pytree_dataclass
from privopt.mechanisms.bias_reduced import BiasReducedGradient
from privopt.mechanisms.calibrated import check_calibration
from privopt.mechanisms.events import drawable
from privopt.mechanisms.queries import ClippedGradient
from privopt.mechanisms.scaled import scaled
from privopt.privacy import Repetitions, calibrate, round_up, select_best
from privopt.release import release
from privopt.spec import Budget, Relation

__all__ = ["BestOfRuns", "PointScore"]

_ODDS = 2**30
_SCORE_NOISE = 2.0  # of the score, over that of a run's sums: a tenth of what is spent


class PointScore(NamedTuple):
    """How good a point is: the norm of the clipped mean gradient, or a clipped risk.

    The risk is ``(1/n) sum_i clip_B(l(w; x_i) - l(c; x_i))`` from the centre ``c`` of the set, with
    ``B = C R``: where losses are ``C``-Lipschitz nothing is clipped, and no range need be assumed
    of the losses themselves.

    Attributes
    ----------
    query : ClippedGradient
    radius : float or None
        ``R`` of the risk; None for the norm of the gradient.

    Examples
    --------
    >>> score = PointScore(ClippedGradient(clip=1.0, size=100.0, dim=3), 2.0)
    >>> round(score.sensitivity(Relation.REPLACE_ONE), 6)
    0.04
    """

    query: ClippedGradient
    radius: float | None = None

    def sensitivity(self, relation: Relation) -> float:
        """``2 C/n`` of the norm, ``2 C R/n`` of the risk; half of it where a record is zeroed."""
        of_gradient = self.query.sensitivity(relation)
        return of_gradient if self.radius is None else of_gradient * self.radius

    def bind(self, objective: EmpiricalRisk) -> Callable[[Array], Array]:
        """``w -> score`` on the device; the smaller the better."""
        if self.radius is None:
            gradient = self.query.bind(objective)

            def slope(point: Array) -> Array:
                found = gradient(point)
                known = objective.public_gradient(point)
                return norm(found if known is None else found + known)

            return slope
        bound = self.query.clip * self.radius

        def risk(point: Array) -> Array:
            centre = objective.constraint.centre_point(point.shape[-1], point.dtype)
            moved = objective.losses(point) - objective.losses(centre)
            moved = jnp.where(jnp.isfinite(moved), jnp.clip(moved, -bound, bound), 0.0)
            total = moved.sum() if objective.counts is None else objective.counts @ moved
            value = total / self.query.size
            return value if objective.public is None else value + objective.public(point)

        return risk


@pytree_dataclass
@dataclass(frozen=True, kw_only=True)
class BestOfRuns:
    """Run, score, and stop with probability ``gamma``; release the point of the best score alone.

    If a run succeeds with probability 1/2, none does with probability ``gamma/(1 + gamma)``.

    Attributes
    ----------
    run : BiasReducedGradient
    score : PointScore
    scale : float
        Of the Gaussian noise on every score.
    odds : int
        ``2^30 gamma``, so that the coin after a run is exact.

    Formal guarantee
    ----------------
    The number of runs is geometric and drawn without data; neither it nor any other run or score
    is released, so that the whole costs what :func:`privopt.privacy.select_best` says of one run
    and its score. The number of runs is *secret*, and so are the time that they take together and
    the levels of those that lost: the theorem is of runs of one law.
    Source: Liu and Talwar 2019; Papernot and Steinke 2022 (arXiv:2110.03620), Theorem 2.
    """

    run: BiasReducedGradient
    score: PointScore
    scale: float
    odds: int

    @classmethod
    def calibrated(
        cls,
        unit: BiasReducedGradient,
        score: PointScore,
        budget: Budget,
        gamma: float,
    ) -> BestOfRuns:
        """The least noise of ``unit`` and of its score, in a fixed ratio, within ``budget``.

        Raises
        ------
        ValueError
            If no noise meets ``budget``.
        """
        check_calibration(score.query, budget, "contribution")
        odds = max(1, math.ceil(gamma * _ODDS))
        sensitivity = score.sensitivity(budget.relation) / budget.relation.multiple

        def noised(multiplier: float) -> BestOfRuns:
            scale = round_up(_SCORE_NOISE * multiplier * sensitivity)
            run = unit.noised(multiplier)
            return cls(run=run, score=score, scale=scale, odds=odds)

        spendable = drawable(budget)
        return noised(calibrate(lambda z: noised(z).event(budget.relation), spendable))

    def scaled(self, factor: float) -> BestOfRuns:
        """The same with all its noise times ``factor``, from 0 on: for experiments."""
        return replace(self, run=self.run.scaled(factor), scale=scaled(self.scale, factor))

    @property
    def repetitions(self) -> Repetitions:
        """The law of the number of runs."""
        return Repetitions.geometric(_ODDS / self.odds)

    def event(self, relation: Relation) -> DpEvent:
        """The best of so many runs, each with its score."""
        sensitivity = self.score.sensitivity(relation) / relation.multiple
        noise = GaussianDpEvent(math.nextafter(self.scale / sensitivity, 0.0))
        return select_best(ComposedDpEvent((self.run.event(relation), noise)), self.repetitions)

    def score_of(self, objective: EmpiricalRisk) -> Callable[[Array], Array]:
        """``w -> score`` on the device, without noise."""
        return self.score.bind(objective)

    def scored(self, value: Array, key: Array) -> Array:
        """A score with its noise, from child 0 of the key."""
        noise = draws.normal(jax.random.fold_in(key, 0), (1,), value.dtype)[0]
        return release("answer", value + release("noise", self.scale * noise))

    def is_last(self, key: Array) -> Array:
        """Whether no further run is made: the coin of child 1 of the key."""
        word = jax.random.bits(jax.random.fold_in(key, 1), (), jnp.uint32) >> 2
        return word < jnp.asarray(self.odds).astype(jnp.uint32)
