"""Bounded queries: functions of the data that know how far one record can move them.

Each query is a NamedTuple of numbers that travels to the device and computes there, and that
answers ``sensitivity(relation)`` on the host from the same numbers. Whoever adds noise asks the
query; no sensitivity is written down a second time.

A sensitivity is that of the number which the device computes, round-off included:

- Rounding after the noise is post-processing and costs no privacy. So a public centre is added
  last (``restore``), and the answer before it is small.
- Rounding before the noise separates the answers of two neighbours by twice the error of one. The
  sensitivity includes that: float32's, even if the records are float64. The error of a record's
  contribution is a few ``2^-24`` of it; that of a sum is ``2^-24`` of the *sum*, which is ``2^-24
  n`` contributions. Sums are compensated, so that they round only once, and are charged for a
  public ``n``, with room for 512 times as many records. Where the number of records is private,
  float32 takes 131,072 and float64 ``2^46`` of them, and ``2^-7`` of a contribution is charged.
- Counts are whole numbers, medians and modes are picked: they are exact.
- A sum of gradients is a product of matrices, in whatever order the machine takes. Float64's worst
  case, ``2 n^2 2^-53`` contributions, is charged; **float32's is not**, and would be as large as
  the contribution from ``n = 2900`` on (what is seen in float32 is nearer ``2^-24 n``).
- Minimisers are meant for float64, where half of the distance ``error`` is left to round-off.

Not in the model: the grid of the noise itself, and the time and memory a computation takes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from privopt.arguments import instance, positive_number, real
from privopt.convex import EmpiricalRisk, RegularisedGLM
from privopt.mechanisms.clipping import (
    MICROBATCH,
    BatchSum,
    clipped_batch_sum,
    clipped_gradient_sum,
    clipped_linear_model,
    without_null_records,
)
from privopt.mechanisms.inexact_minimiser import InexactMinimiser
from privopt.mechanisms.round_off import UNIT
from privopt.privacy import round_down, round_up
from privopt.release import Pytree
from privopt.spec import Premises, ProblemClass, Relation

_MAX_STEPS = 2.0**31 - 1.0  # that a loop on the device can count
_MIN_SHARE = 1e-25  # of a record in a mean: neither it nor its noise ends among subnormal numbers
_MAX_SUM = 1e36  # of contributions: eight times that, and noise, are numbers of float32
_MAX_ERROR = 1e30  # noise of a thousand times as much leaves float32
_CLIPPED = 1e-6  # relative; a clip norm that is less below ``L`` changes round-off alone


class BoundedQuery(Protocol):
    """A query with a sensitivity."""

    def sensitivity(self, relation: Relation) -> float:
        """Largest Euclidean change of the answer between neighbours under ``relation``."""


class L1BoundedQuery(Protocol):
    """A query with a sensitivity in the l1 norm, for noise independent in every coordinate."""

    def l1_sensitivity(self, relation: Relation) -> float:
        """Largest change of the answer's l1 norm between neighbours under ``relation``."""


class ClippedGradient(NamedTuple):
    """The mean gradient with every record's gradient clipped: ``(1/n) sum_i clip_C(g_i(w))``.

    ``n`` is the public design size and stays the divisor whatever the data. Two forms of
    clipping: see :mod:`privopt.mechanisms.clipping`.

    ``clip`` is ``C``, of Euclidean norms, and ``size`` is ``n``, both representable in float32: the
    device uses the numbers that are accounted. ``dim`` is for the round-off of norms. A positive
    ``gamma`` asks for automatic clipping, ``g C/(|g| + gamma)``; None for ``g min(1, C/|g|)``.

    Examples
    --------
    >>> query = ClippedGradient.of(ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0))
    >>> round(query.sensitivity(Relation.REPLACE_ONE), 6)
    0.002
    """

    clip: float
    size: float
    dim: int
    gamma: float | None = None

    @classmethod
    def of(
        cls,
        problem_class: ProblemClass,
        clip: float | None = None,
        *,
        gamma: float | None = None,
    ) -> ClippedGradient:
        """The query for a class of problems; ``clip`` defaults to the declared ``L``.

        Raises
        ------
        ValueError
            If neither ``clip`` nor ``L`` is given, or ``clip`` or ``gamma`` not positive; or if
            the sum of ``n`` clipped gradients may overflow float32, or a share underflow, which no
            noise would hide: numbers below ``2^-126`` count as 0, in sums and in their noise.
        """
        instance("problem_class", problem_class, ProblemClass)
        if clip is None and math.isinf(problem_class.lipschitz):
            raise ValueError("clip must be given where lipschitz is not declared, got None")
        clip = problem_class.lipschitz if clip is None else real("clip", clip)
        if not clip > 0.0:
            raise ValueError(f"clip must be positive (inf: none), got {clip!r}")
        if clip * problem_class.n > _MAX_SUM and math.isfinite(clip):
            raise ValueError(
                f"clip must be at most {_MAX_SUM / problem_class.n:g} for {problem_class.n} "
                f"records, whose sum must be finite, got {clip!r}"
            )
        if clip < _MIN_SHARE * problem_class.n:
            raise ValueError(
                f"clip must be at least {_MIN_SHARE * problem_class.n:g} for {problem_class.n} "
                f"records, below which float32 ends, got {clip!r}"
            )
        gamma = None if gamma is None else positive_number("gamma", gamma)
        return cls(round_up(clip), round_up(float(problem_class.n)), problem_class.dim, gamma)

    @property
    def contribution(self) -> float:
        """Largest norm of one record's share of the sum: ``C`` and what round-off adds to it.

        Float32's error in norms, and float64's in the order of the sum.

        Raises
        ------
        ValueError
            If a number is none that clips, or divides, as is said.
        """
        for name, value in (("clip", self.clip), ("size", self.size), ("gamma", self.gamma)):
            if value is not None and not value > 0.0:
                raise ValueError(f"{name} must be positive, got {value!r}")
        norms, order = 2.0 * (self.dim + 8) * UNIT, 2.0 * self.size**2 * 2.0**-53
        return round_up(self.clip) * (1.0 + norms + order)

    def sensitivity(self, relation: Relation) -> float:
        """``C/n``, twice that under ``replace_one``; plus round-off.

        Holds for every data set: nothing is assumed of the losses, not even convexity. Float32
        sums are taken as exact.
        """
        return Relation(relation).multiple * self.contribution / round_down(self.size)

    def l1_sensitivity(self, relation: Relation) -> float:
        """``sqrt(d)`` times the Euclidean one, attained by a gradient along a diagonal."""
        return _l1(self.sensitivity(relation), self.dim)

    def premises(self, relation: Relation) -> Premises:
        """None of the losses: clipping enforces all; round-off counts the coordinates."""
        del relation
        return Premises(dim=self.dim)

    def changes(self, problem_class: ProblemClass) -> bool:
        """Whether it may answer with another vector than the mean gradient of the class."""
        clipped = self.gamma is not None or self.clip < problem_class.lipschitz * (1.0 - _CLIPPED)
        return clipped or self.size != round_up(float(problem_class.n))

    def gradient_of(
        self, objective: EmpiricalRisk, microbatch: int = MICROBATCH
    ) -> Callable[[Pytree], Pytree]:
        """``w -> gradient`` on the device, with everything that does not depend on ``w`` done."""
        total = clipped_gradient_sum(objective, self.clip, self.gamma, microbatch)
        return lambda point: jax.tree.map(lambda leaf: leaf / self.size, total(point))

    def batch_sums_of(self, objective: EmpiricalRisk, microbatch: int = MICROBATCH) -> BatchSum:
        """``(w, rows, weights, anchor) -> sum`` over a batch, which the caller divides."""
        return clipped_batch_sum(objective, self.clip, self.gamma, microbatch)

    def linear_model(self, objective: EmpiricalRisk) -> RegularisedGLM | None:
        """The risk with that gradient, where it is one of a linear model in float64."""
        if objective.dtype != jnp.float64:
            return None
        return clipped_linear_model(objective, self.clip, self.size)


class RegularisedMinimiser(NamedTuple):
    """``argmin_W (1/n) sum_i l(w; x_i) + (lambda/2) |w - c|^2``, to a distance fixed in advance.

    A record that is not finite at ``c`` has the loss ``(m/2) |w - c|^2`` instead, and so has one
    that is missing from the public ``n``: the objective is ``(lambda + m)``-strongly convex
    however many there are.

    Either a Newton method is certified to end within ``error`` of the exact minimiser, or
    accelerated projected descent runs from the public centre ``c`` for a public number of steps:
    for *every* data set of the class the answer is within ``error``, whichever of the two it came
    from (:class:`InexactMinimiser`). That distance is charged to the sensitivity.

    Attributes
    ----------
    gradient : ClippedGradient
        The data term, clipped at the declared ``L``.
    regularisation : float
        ``lambda >= 0``.
    strong_convexity : float
        ``m >= 0`` that the losses bring to ``F``: what each record's loss is declared to have,
        ``m/(1 + m h)`` after smoothing; 0 where the size is not public.
    radius : float
        ``R``: the constraint set lies in a ball of this radius.
    smoothness : float
        ``H``, of every single record's loss (``1/h`` after Moreau smoothing of width ``h``).
    smoothing : float or None
        ``h``; None when the losses are smooth as they are.
    error : float
        ``tau``.
    steps : int
        Iterations that guarantee ``tau``.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0, smoothness=0.25)
    >>> query = RegularisedMinimiser.of(facts, Relation.REPLACE_ONE, regularisation=0.1)
    >>> query.steps, round(query.sensitivity(Relation.REPLACE_ONE), 4)
    (35, 0.02)
    """

    gradient: ClippedGradient
    regularisation: float
    strong_convexity: float
    radius: float
    smoothness: float
    smoothing: float | None
    error: float
    steps: int

    @classmethod
    def of(
        cls,
        problem_class: ProblemClass,
        relation: Relation,
        *,
        regularisation: float,
        smoothing: float = 0.0,
        relative_error: float = 1e-3,
    ) -> RegularisedMinimiser:
        """The query for a class of problems; ``tau = relative_error L/((lambda+m) n)``."""
        instance("problem_class", problem_class, ProblemClass)
        own = problem_class.strong_convexity
        own /= 1.0 + own * smoothing
        if Relation(relation) is Relation.ADD_OR_REMOVE_ONE:
            own = 0.0
        if own > 0.0 and math.isinf(problem_class.radius):
            raise ValueError("radius must be finite where losses are strongly convex, got inf")
        smoothness = 1.0 / smoothing if smoothing > 0.0 else problem_class.smoothness
        if smoothness is None:
            raise ValueError("smoothness must be declared, or smoothing be positive; got neither")
        convexity = regularisation + own
        if not convexity > 0.0:
            raise ValueError(
                "regularisation must be positive where the losses are not strongly convex "
                f"under {relation}, got {regularisation!r}"
            )
        error = relative_error * problem_class.lipschitz / (convexity * problem_class.n)
        width = smoothing if smoothing > 0.0 else None
        gradient, radius = ClippedGradient.of(problem_class), problem_class.radius
        query = cls(gradient, regularisation, own, radius, smoothness, width, error, 1)
        needed = query.needed_steps
        if needed > _MAX_STEPS or error > _MAX_ERROR:
            raise ValueError(
                f"regularisation must be larger, got {regularisation!r}: the solver needs "
                f"{needed:.1e} steps, to an error of {error:.1e}"
            )
        return query._replace(steps=max(1, math.ceil(needed)))

    @property
    def needed_steps(self) -> float:
        """The steps that end within ``tau`` on every data set of the class.

        By the linear rate of :func:`privopt.convex.accelerated_descent`: with ``F_lambda``
        ``a``-strongly convex and ``b``-smooth, ``kappa = b/a``, ``F_lambda(w_T) - min <= (1 -
        kappa^{-1/2})^T (L r + a r^2 / 2)`` for a start within ``r = min(R, L/a)`` of the minimiser,
        and ``|w_T - argmin| <= sqrt(2 gap / a)``. (Null records have no gradient at the start.)
        Infinite for numbers of which that is not so.
        """
        convexity, smoothness = self.curvature, self.regularisation + self.smoothness
        flat = self.regularisation < 0.0 or self.strong_convexity < 0.0 or not convexity > 0.0
        if flat or not self.error > 0.0 or not self.radius > 0.0:
            return math.inf
        if self.smoothing is not None and not self.smoothing * self.smoothness >= 1.0 - 2.0**-50:
            return math.inf
        lipschitz = self.gradient.clip
        reach = min(self.radius, lipschitz / convexity)
        start_gap = lipschitz * reach + 0.5 * convexity * reach**2
        to_gain = math.log(start_gap) - math.log(0.5 * convexity) - 2.0 * math.log(self.error)
        return steps_to_gain(to_gain, convexity, smoothness)

    @property
    def curvature(self) -> float:
        """``lambda + m``."""
        return self.regularisation + self.strong_convexity

    def sensitivity(self, relation: Relation) -> float:
        """``G/((lambda+m) n) + 2 tau``, ``G`` how far apart the gradients of two losses can be.

        ``G = L + max(L, m R)`` under ``replace_one``, which is ``2L`` over a ball about ``c``;
        else one of them is null, and ``G = L + m R``.

        Infinite for a solver of too few steps; and under ``add_or_remove_one`` for a query that
        counts on the losses' own curvature.
        Source: Chaudhuri, Monteleoni and Sarwate 2011, Corollary 8; the charge for
        inexactness is the triangle inequality.
        """
        relation = Relation(relation)
        counted = self.strong_convexity > 0.0
        if self.needed_steps > self.steps or (counted and relation is Relation.ADD_OR_REMOVE_ONE):
            return math.inf
        present = self.gradient.contribution
        null = self.strong_convexity * self.radius if counted else 0.0
        apart = present + (max(present, null) if relation is Relation.REPLACE_ONE else null)
        return apart / self.gradient.size / self.curvature + 2.0 * self.error

    def premises(self, relation: Relation) -> Premises:
        """The loss of every record that is not null is convex, with ``L``, ``H`` and ``m``."""
        smoothed = self.smoothing or 0.0
        own = self.strong_convexity / max(1.0 - self.strong_convexity * smoothed, 2.0**-52)
        return self.gradient.premises(relation) & Premises(
            convex=True,
            lipschitz=self.gradient.clip,
            smoothness=self.smoothness if self.smoothing is None else math.inf,
            strong_convexity=own * (1.0 - 2.0**-40),
            radius=self.radius,
            n=self.gradient.size,
            requires=frozenset() if self.smoothing is None else frozenset({"smoothing"}),
        )

    def l1_sensitivity(self, relation: Relation) -> float:
        """``sqrt(d)`` times the Euclidean one."""
        return _l1(self.sensitivity(relation), self.gradient.dim)

    def smoothed(self, objective: EmpiricalRisk) -> EmpiricalRisk:
        """The losses that are minimised: Moreau envelopes, where there is a width."""
        if self.smoothing is None:
            return objective
        return objective.smoothed(jnp.asarray(self.smoothing))

    def minimiser_of(self, objective: EmpiricalRisk) -> Callable[[Array], Array]:
        """``start -> minimiser`` on the device; ``start`` is the public centre ``c``, a member."""
        objective = self.smoothed(objective)

        def minimiser(start: Array) -> Array:
            present = without_null_records(objective, self.gradient.clip, start)
            missing = 1.0 - jnp.asarray(present.records, start.dtype) / self.gradient.size
            minimisation = InexactMinimiser(
                self.regularisation + missing * self.strong_convexity,
                self.curvature,
                self.regularisation + self.smoothness,
                self.error,
                self.steps,
            )
            return minimisation.solve(self.gradient, present, start, None)

        return minimiser


def steps_to_gain(gain: float, convexity: float, smoothness: float) -> float:
    """Steps of accelerated descent that shrink a gap by ``e^-gain``, of an objective like that."""
    if not math.inf > smoothness >= convexity > 0.0:
        return math.inf
    shrink = math.sqrt(convexity / smoothness)
    return gain / -math.log1p(-shrink) if shrink < 1.0 else 0.0


def _l1(euclidean: float, dim: int) -> float:
    return euclidean * math.sqrt(dim) * (1.0 + 2.0**-51)
