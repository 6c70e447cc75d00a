"""Private means of vectors: each clipped in two norms at once, raw or projected onto a body."""

from __future__ import annotations

import math
from typing import NamedTuple

import jax.numpy as jnp
from dp_accounting import DpEvent
from jax import Array

from privopt.arguments import instance, member, positive_number, shown
from privopt.convex import (
    ConstraintSet,
    EmpiricalRisk,
    Features,
    L1Ball,
    L1L2Ball,
    L2Ball,
    WholeSpace,
)
from privopt.mechanisms.additive import GaussianMechanism, LaplaceMechanism, classic_gaussian_scale
from privopt.mechanisms.clipping import is_exact
from privopt.spec import Budget, Premises, ProblemClass, Relation

_UNIT = 2.0**-53  # of float64: the relative error of one operation
_ROUND_OFF = 1e-6  # relative, of a clip norm
_CLIPPED = 1.0 - 2.0**-20  # a factor below it is no matter of the record's own rounding


class ClippedMean(NamedTuple):
    """``(1/n) sum_i z_i min(1, L/|z_i|_2, R/|z_i|_1)``, in float64.

    ``n`` is the public design size and stays the divisor whatever the data. Clipping is total: a
    record that is not finite, or whose norms are not, counts as 0. A clipped record lies in both
    balls, so nothing is assumed of the records: neither a sparsity nor a norm. With ``R = L
    sqrt(s)`` a record of norm at most ``L``, with at most ``s`` numbers that are not 0, stays as
    it is, since then ``|z|_1 <= sqrt(s) |z|_2``.

    ``l2_clip`` and ``l1_clip`` are ``L`` and ``R``, ``size`` is ``n``, ``dim`` is for round-off.

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

        ``clip`` is ``L``, by default :func:`largest_record`.
        """
        instance("problem_class", problem_class, ProblemClass)
        if problem_class.smoothness == 0.0:
            raise ValueError(
                "smoothness must be positive or undeclared for squared distances, whose mean is "
                "asked for, got 0.0: losses of this class are linear"
            )
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
        """The mean, shape ``(dim,)``, on the device."""
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
            (points.norms(1.0), self.l1_clip),
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
        raise ValueError(
            f"objective must have points, as a squared distance, got {shown(objective)}"
        )
    if points.dtype != jnp.float64:
        raise ValueError(f"objective must be float64 for a private mean, got {points.dtype}")
    return points


class ProjectedMean(NamedTuple):
    """``argmin_{v in B} |v - (zbar + xi)|_2``: the mean, noise, and the nearest point of a body.

    The projection is post-processing. It makes the error ``e`` smaller: ``zbar`` is a member of
    ``B``, so ``|e|^2 <= <e, xi>`` (the variational inequality at ``zbar``), hence

        E |e|^2 <= min(E h_B(xi), E |xi|^2),    h_B(xi) = max_{v in B} <v, xi>,

    as ``E <zbar, xi> = 0`` and a projection does not expand distances.
    Source: Nikolov, Talwar and Zhang, "The geometry of differential privacy: the sparse and
    approximate cases", STOC 2013; Ghazi, Guzman, Kamath, Kumar and Manurangsi, "Differentially
    private optimization with sparse gradients", NeurIPS 2024 (arXiv:2404.10881), lemma 3.1, whose
    statement lacks the square of the error.

    ``noisy`` is of a :class:`ClippedMean`; ``body`` is ``B``, public.

    Formal guarantee
    ----------------
    That of ``noisy``: Gaussian noise rests on the records' Euclidean clip alone, and Laplace noise
    on the l1 clip alone.

    Examples
    --------
    >>> from privopt.spec import ProblemClass
    >>> facts = ProblemClass(n=1000, dim=50, lipschitz=1.0, radius=1.0, sparsity=4)
    >>> budget = Budget(epsilon=1.0, delta=0.0, relation="replace_one")
    >>> mechanism = ProjectedMean.calibrated(ClippedMean.of(facts), budget, noise="laplace")
    >>> round(mechanism.scale, 6), type(mechanism.body).__name__
    (0.004, 'L1L2Ball')
    """

    noisy: GaussianMechanism[ClippedMean] | LaplaceMechanism[ClippedMean]
    body: ConstraintSet

    @classmethod
    def calibrated(
        cls,
        query: ClippedMean,
        budget: Budget,
        *,
        noise: str = "gaussian",
        body: str = "l1_l2",
        classic: bool = False,
    ) -> ProjectedMean:
        """The least noise within ``budget``; that of the textbook where ``classic``.

        ``noise`` is ``"gaussian"`` or ``"laplace"``, ``body`` as :func:`body_of` reads it;
        ``classic`` asks for Gaussian noise of :func:`classic_gaussian_scale`, ``epsilon <= 1``.
        """
        instance("query", query, ClippedMean)
        member("noise", noise, ("gaussian", "laplace"))
        around = body_of(body, query.l1_clip, query.l2_clip)
        if noise == "laplace":
            return cls(LaplaceMechanism.calibrated(query, budget), around)
        if classic:
            return cls(GaussianMechanism(query, classic_gaussian_scale(query, budget)), around)
        return cls(GaussianMechanism.calibrated(query, budget), around)

    @property
    def query(self) -> ClippedMean:
        """The mean that is asked for."""
        return self.noisy.query

    @property
    def scale(self) -> float:
        """``sigma`` of Gaussian noise, ``b`` of Laplace noise."""
        return self.noisy.scale

    def event(self, relation: Relation) -> DpEvent:
        """What one release does to privacy."""
        return self.noisy.event(relation)

    def release(self, key: Array, mean: Array) -> Array:
        """The projected noisy mean; ``mean`` is what ``query`` gave."""
        return self.body.project(self.noisy.add_noise(key, mean))


def body_of(name: str, l1_clip: float, l2_clip: float) -> ConstraintSet:
    """A body that holds every mean of records that are clipped in two norms.

    ``name`` is ``"l1_l2"``, the balls of the two clips together, ``"l1"`` or ``"l2"``, one of
    them, or ``"none"``, the whole space.
    """
    bodies: dict[str, ConstraintSet] = {
        "l1_l2": L1L2Ball(l1_clip, l2_clip),
        "l1": L1Ball(l1_clip),
        "l2": L2Ball(l2_clip),
        "none": WholeSpace(),
    }
    member("body", name, bodies)
    return bodies[name]
