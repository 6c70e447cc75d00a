"""Best of a geometric number of runs: a bound of probability 1/2 becomes one near 1."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from dp_accounting import ComposedDpEvent, DpEvent, GaussianDpEvent
from jax import Array
from jaxtyping import Bool, Float, Key

from privopt import random
from privopt.arguments import count
from privopt.convex import EmpiricalRisk, pytree_dataclass
from privopt.mechanisms.bias_reduced import BiasReducedGradient
from privopt.mechanisms.calibration import (
    UNIT,
    check_calibration,
    compensated_sum,
    drawable,
    noise_multiplier,
)
from privopt.mechanisms.queries import ClippedGradient
from privopt.privacy import Repetitions, calibrate, round_up, select_best
from privopt.release import release
from privopt.spec import Budget, Relation

_ODDS = 2**30
_SCORE_NOISE = 2.0  # noise multiplier of the score over that of a run: about a tenth of the budget


class PointScore(NamedTuple):
    """Score of a point: the norm of the clipped mean gradient, or a clipped risk.

    The risk is ``(1/n) sum_i clip_B(l(w; x_i) - l(c; x_i))``, ``c`` the centre of the set and ``B
    = C R``. No loss is clipped if losses are ``C``-Lipschitz; the losses need no bounded range.

    The public term is returned separately and added to the noisy score, because a large public
    term would round off the contribution of a record before the noise. For the risk it is
    ``r(w)``. For the norm of ``g + k``, with ``k`` the gradient of ``r``, it is ``|k|``, and ``|g
    + k| - |k| = <g, g + 2k>/(|g + k| + |k|)`` has the sensitivity of ``g``.

    If ``radius`` is None, the score is the norm of the gradient.

    Examples
    --------
    >>> score = PointScore(ClippedGradient(clip_norm=1.0, size=100.0, dim=3), 2.0)
    >>> round(score.sensitivity(Relation.REPLACE_ONE), 6)
    0.040001
    """

    query: ClippedGradient
    radius: float | None = None

    def sensitivity(self, relation: Relation) -> float:
        """Return ``2C/n`` (norm) or ``2 C R/n`` (risk) for ``replace_one``, else half of it.

        It includes the float32 round-off of two answers: three roundings of the risk, the products
        with multiplicities, the sum and the mean; ten roundings of the norm, for every dimension.
        The sum of gradients is assumed exact.
        """
        reach, roundings = (1.0, 12.0) if self.radius is None else (self.radius, 4.0)
        rounded = 2.0 * roundings * UNIT * self.query.clip_norm
        return (self.query.sensitivity(relation) + rounded) * reach

    def score_range(self, relation: Relation) -> float:
        """Return the range of the score differences of two neighbours over all points."""
        return 2.0 * self.sensitivity(relation)

    def score_of(self, objective: EmpiricalRisk) -> Callable[[Array], tuple[Array, Array]]:
        """Return ``w -> (records' term, public term)`` on the device, without noise.

        A smaller sum is better.
        """
        if self.radius is None:
            gradient = self.query.gradient_of(objective)

            def slope(point: Array) -> tuple[Array, Array]:
                mean, public = gradient(point), objective.public_gradient(point)
                public = jnp.zeros_like(mean) if public is None else public
                size = _length(public)
                total = _length(mean + public) + size
                weights = jnp.where(total > 0.0, (mean + 2.0 * public) / total, 0.0)
                return compensated_sum(mean * weights), size

            return slope
        bound = self.query.clip_norm * self.radius

        def risk(point: Array) -> tuple[Array, Array]:
            centre = objective.constraint.centre_point(point.shape[-1], point.dtype)
            losses = objective.losses(point) - objective.losses(centre)
            losses = jnp.where(jnp.isfinite(losses), jnp.clip(losses, -bound, bound), 0.0)
            losses = losses if objective.counts is None else objective.counts * losses
            public = objective.public
            offset = jnp.zeros((), losses.dtype) if public is None else public(point)
            return compensated_sum(losses) / self.query.size, offset

        return risk


@pytree_dataclass
@dataclass(frozen=True, kw_only=True)
class BestOfRuns:
    """Best of a random number of runs, each stopping with probability ``gamma``.

    Only the point of the best score is released.

    If a run succeeds with probability 1/2, all runs fail with probability ``gamma/(1 + gamma)``.
    ``scale`` is the standard deviation of the noise on every score; ``odds = 2^30 gamma`` is an
    integer, so that the stopping probability is exact.

    Formal guarantee
    ----------------
    The number of runs is geometric and independent of the data. Of all runs and scores, only the
    point of the best score is released, so the guarantee is :func:`privopt.privacy.select_best` of
    one run and its score. *Secret* are the number of runs, the total time of the runs, and the
    levels of each: the theorem assumes runs of one law. Source: Liu and Talwar 2019; Papernot and
    Steinke 2022 (arXiv:2110.03620), Theorem 2.
    """

    run: BiasReducedGradient
    score: PointScore
    scale: float
    odds: int

    @classmethod
    def calibrated(
        cls, unit: BiasReducedGradient, score: PointScore, budget: Budget, gamma: float
    ) -> BestOfRuns:
        """Return the mechanism with the least noise within ``budget``.

        The noises of ``unit`` and of its score have a fixed ratio.
        """
        check_calibration(score.query, budget, "record_sensitivity")
        odds = max(1, math.ceil(gamma * _ODDS))
        sensitivity = score.sensitivity(budget.relation) / budget.relation.multiple

        def at_noise(noise: float) -> BestOfRuns:
            scale = round_up(_SCORE_NOISE * noise * sensitivity)
            return cls(run=unit.with_noise_multiplier(noise), score=score, scale=scale, odds=odds)

        spendable = drawable(budget)
        return at_noise(calibrate(lambda z: at_noise(z).event(budget.relation), spendable))

    @property
    def repetitions(self) -> Repetitions:
        """Law of the number of runs."""
        return Repetitions.geometric(_ODDS / count("odds", self.odds))

    def event(self, relation: Relation) -> DpEvent:
        """Return the event of the best of all runs, each with its score."""
        sensitivity = self.score.sensitivity(relation) / Relation(relation).multiple
        noise = GaussianDpEvent(noise_multiplier(self.scale, sensitivity))
        return select_best(ComposedDpEvent((self.run.event(relation), noise)), self.repetitions)

    def scored(
        self, terms: tuple[Float[Array, ""], Float[Array, ""]], key: Key[Array, ""]
    ) -> Float[Array, ""]:
        """Return the noisy score, with noise from child 0 of the key, plus the public term."""
        value, public_term = terms
        noise = random.normal(random.fold_in(key, 0), (1,), value.dtype)[0]
        return release("answer", value + release("noise", self.scale * noise)) + public_term

    def is_last(self, key: Key[Array, ""]) -> Bool[Array, ""]:
        """Return True if no further run is made, by a random bit from child 1 of the key."""
        word = jax.random.bits(random.fold_in(key, 1), (), jnp.uint32) >> 2
        return word < jnp.asarray(self.odds).astype(jnp.uint32)


def _length(x: Array) -> Array:
    """Return ``|x|_2``, to a few roundings."""
    scale = jnp.abs(x).max()
    scale = jnp.where(scale > 0.0, scale, 1.0)
    return scale * jnp.sqrt(compensated_sum(jnp.square(x / scale)))
