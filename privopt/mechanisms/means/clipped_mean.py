"""The mean of vectors, each of them clipped in two norms at once."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from privopt.arguments import instance, positive_number
from privopt.convex import EmpiricalRisk, Features
from privopt.mechanisms.clipping import is_exact
from privopt.spec import Premises, ProblemClass, Relation

_UNIT = 2.0**-53  # of float64: the relative error of one operation
_ROUND_OFF = 1e-6  # relative, of a clip norm
_CLIPPED = 1.0 - 2.0**-20  # a factor below it is no matter of the record's own rounding


class ClippedMean(NamedTuple):
    """``(1/n) sum_i z_i min(1, L/|z_i|_2, R/|z_i|_1)``, in float64.

    ``n`` is the public design size and stays the divisor whatever the data. Clipping is total: a
    record that is not finite, or whose norms are not, counts as 0. A clipped record lies in both
    balls, so nothing is assumed of the records: neither a sparsity nor a norm. With ``R = L
    sqrt(s)`` a record of norm at most ``L``, with at most ``s`` numbers that are not 0, stays as it
    is, since then ``|z|_1 <= sqrt(s) |z|_2``.

    Attributes
    ----------
    l2_clip, l1_clip : float
        ``L`` and ``R``.
    size : float
        ``n``.
    dim : int
        Dimension, for round-off.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=50, lipschitz=1.0, radius=1.0, sparsity=4)
    >>> query = ClippedMean.of(facts)
    >>> round(query.sensitivity(Relation.REPLACE_ONE), 9)
    0.002
    >>> round(query.l1_sensitivity(Relation.REPLACE_ONE), 9)
    0.004
    """

    l2_clip: float
    l1_clip: float
    size: float
    dim: int

    @classmethod
    def of(cls, problem_class: ProblemClass, clip: float | None = None) -> ClippedMean:
        """The query for a class of problems; ``R = L sqrt(s)``, ``s = d`` where none is declared.

        Parameters
        ----------
        problem_class : ProblemClass
        clip : float, optional
            ``L``; by default :func:`largest_record`.

        Raises
        ------
        ValueError
            If ``clip`` is not positive and finite, or is left out where no fact stands in for it.
        """
        instance("problem_class", problem_class, ProblemClass)
        clip = largest_record(problem_class) if clip is None else positive_number("clip", clip)
        if not math.isfinite(clip):
            raise ValueError("clip must be given where lipschitz is not declared, got None")
        l1_clip = clip * math.sqrt(problem_class.sparsity or problem_class.dim)
        return cls(clip, l1_clip, float(problem_class.n), problem_class.dim)

    def sensitivity(self, relation: Relation) -> float:
        """``L/n``, twice that under ``replace_one``; plus round-off, a few ``n^2 2^-53`` of it.

        Attained by a flat record of ``s`` numbers and, under ``replace_one``, its negative.
        """
        return self._moved(min(self.l2_clip, self.l1_clip), relation)

    def l1_sensitivity(self, relation: Relation) -> float:
        """``R/n``, twice that under ``replace_one``; plus round-off."""
        return self._moved(min(self.l1_clip, self.l2_clip * math.sqrt(self.dim)), relation)

    def _moved(self, clip: float, relation: Relation) -> float:
        """What float64 adds: the error of norms, of a record's share, and of the sum in any order.

        A computed sum of ``n`` vectors of norm ``C`` is within ``n^2 2^-53 C`` of the exact one in
        either norm, and two neighbours' are off by twice that.
        """
        positive_number("clip", clip)
        positive_number("size", self.size)
        norms, order = 2.0 * (self.dim + 16) * _UNIT, 2.0 * self.size**2 * _UNIT
        contribution = clip * (1.0 + norms + order)
        return Relation(relation).multiple * contribution / self.size * (1.0 + 4.0 * _UNIT)

    def premises(self, relation: Relation) -> Premises:
        """None of the records: clipping enforces all; round-off counts coordinates and records."""
        del relation
        requires = frozenset({"mean"})
        return Premises(dim=self.dim, n=self.size, requires=requires)

    def changes(self, problem_class: ProblemClass) -> bool:
        """Whether it may answer with another vector than the mean of records as declared."""
        least = largest_record(problem_class) * (1.0 - _ROUND_OFF)
        spread = math.sqrt(problem_class.sparsity or problem_class.dim)
        short = self.l2_clip < least or self.l1_clip < spread * self.l2_clip * (1.0 - _ROUND_OFF)
        return short or self.size != problem_class.n

    def mean_of(self, objective: EmpiricalRisk) -> Array:
        """The mean, shape ``(dim,)``, on the device.

        Raises
        ------
        ValueError
            If the data are not float64, which alone the sensitivity speaks of; or the loss is no
            squared distance, so that there are no points to take the mean of.
        """
        points = _points(objective)
        factors = self._factors(points)
        finite = points.scaled((factors > 0.0).astype(points.dtype))
        weights = factors if objective.counts is None else objective.counts * factors
        return finite.rmatvec(weights) / self.size

    def clipped(self, objective: EmpiricalRisk) -> Array:
        """How many records are changed: secret. If any is, no bound on the risk holds."""
        points = _points(objective)
        changed = (self._factors(points) < _CLIPPED).astype(points.dtype)
        return changed.sum() if objective.counts is None else objective.counts @ changed

    def _factors(self, points: Features) -> Array:
        """``min(1, L/|z|_2, R/|z|_1)``, shape ``(n,)``; 0 of what is not finite."""
        bounded = jnp.ones(points.shape[0], points.dtype)
        for size, clip in (
            (points.norms(), self.l2_clip),
            (points.l1_norms(), self.l1_clip),
        ):
            factor = clip / jnp.where(size == 0.0, 1.0, size)
            factor = jnp.where(size == 0.0, 1.0, jnp.minimum(factor, 1.0))
            bounded = jnp.where(is_exact(size, factor), jnp.minimum(bounded, factor), 0.0)
        return bounded


def largest_record(problem_class: ProblemClass) -> float:
    """The largest norm that the declared facts allow a record of a squared distance.

    A loss ``(m/2)|w - z|^2`` has gradients as long as ``m (R + |z|)`` over a ball of radius ``R``,
    so that ``|z| <= L/m - R``. Where that is not positive, or ``m`` not declared: ``L``.

    Examples
    --------
    >>> facts = ProblemClass(
    ...     n=9, dim=2, lipschitz=2.0, radius=1.0, smoothness=1.0, strong_convexity=1.0
    ... )
    >>> largest_record(facts)
    1.0
    """
    lipschitz, convexity = problem_class.lipschitz, problem_class.strong_convexity
    reach = lipschitz / convexity - problem_class.radius if convexity > 0.0 else lipschitz
    return reach if reach > 0.0 else lipschitz


def _points(objective: EmpiricalRisk) -> Features:
    points = objective.points
    if points is None:
        raise ValueError(f"objective must have points, as a squared distance, got {objective!r}")
    if points.dtype != jnp.float64:
        raise ValueError(f"objective must be float64 for a private mean, got {points.dtype}")
    return points
