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

from privopt.arguments import instance, positive_number, real, shown
from privopt.convex import EmpiricalRisk, RegularisedGLM
from privopt.mechanisms.clipping import (
    MICROBATCH,
    BatchSum,
    clipped_batch_sum,
    clipped_gradient_sum,
    clipped_linear_model,
)
from privopt.mechanisms.round_off import UNIT
from privopt.privacy import round_down, round_up
from privopt.release import Pytree
from privopt.spec import Norm, Premises, ProblemClass, Relation

jax.tree_util.register_static(Norm)  # a query's norm shapes the program, its numbers do not

_MIN_SHARE = 1e-25  # of a record in a mean: neither it nor its noise ends among subnormal numbers
_MAX_SUM = 1e36  # of contributions: eight times that, and noise, are numbers of float32
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

    ``n`` is the public design size and stays the divisor whatever the data. ``clip`` is ``C`` and
    ``size`` is ``n``, both representable in float32: the device uses the numbers that are
    accounted. ``dim`` is for the round-off of norms. A positive ``gamma`` asks for automatic
    clipping, ``g C/(|g| + gamma)``; None for ``g min(1, C/|g|)``. ``norm`` is that of ``|g|``.

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
    norm: Norm = Norm.L2

    @classmethod
    def of(
        cls,
        problem_class: ProblemClass,
        clip: float | None = None,
        *,
        gamma: float | None = None,
        norm: Norm | str = Norm.L2,
    ) -> ClippedGradient:
        """The query for a class of problems; ``clip`` defaults to its ``L`` in ``norm``."""
        instance("problem_class", problem_class, ProblemClass)
        norm = Norm.named("norm", norm)
        steepest = problem_class.lipschitz_in(norm)
        if clip is None and math.isinf(steepest):
            raise ValueError("clip must be given where lipschitz is not declared, got None")
        clip = steepest if clip is None else real("clip", clip)
        if not clip > 0.0:
            raise ValueError(f"clip must be positive (inf: none), got {shown(clip)}")
        if clip * problem_class.n > _MAX_SUM and math.isfinite(clip):
            raise ValueError(
                f"clip must be at most {_MAX_SUM / problem_class.n:g} for {problem_class.n} "
                f"records, whose sum must be finite, got {shown(clip)}"
            )
        if clip < _MIN_SHARE * problem_class.n:
            raise ValueError(
                f"clip must be at least {_MIN_SHARE * problem_class.n:g} for {problem_class.n} "
                f"records, below which float32 ends, got {shown(clip)}"
            )
        gamma = None if gamma is None else positive_number("gamma", gamma)
        size = round_up(float(problem_class.n))
        return cls(round_up(clip), size, problem_class.dim, gamma, norm)

    @property
    def contribution(self) -> float:
        """Largest Euclidean norm of one record's share of the sum.

        ``C`` and what round-off adds to it: float32's error in norms, and float64's in the order
        of the sum. ``sqrt(d)`` times as much where ``C`` bounds the norm linf.
        """
        return Norm.L2.bound(self._share, self.norm, self.dim)

    @property
    def _share(self) -> float:
        """The same in the norm of the clip."""
        for name, value in (("clip", self.clip), ("size", self.size), ("gamma", self.gamma)):
            if value is not None and not value > 0.0:
                raise ValueError(f"{name} must be positive, got {shown(value)}")
        norms, order = 2.0 * (self.dim + 8) * UNIT, 2.0 * self.size**2 * 2.0**-53
        return round_up(self.clip) * (1.0 + norms + order)

    def sensitivity(self, relation: Relation) -> float:
        """``C/n``, twice that under ``replace_one``; plus round-off.

        Holds for every data set: nothing is assumed of the losses, not even convexity. Float32
        sums are taken as exact.
        """
        return self._moved(relation, Norm.L2)

    def l1_sensitivity(self, relation: Relation) -> float:
        """The same in the norm l1: ``sqrt(d) C/n``, attained by a gradient along a diagonal."""
        return self._moved(relation, Norm.L1)

    def linf_sensitivity(self, relation: Relation) -> float:
        """The largest change of one coordinate: ``C/n`` whatever the norm of the clip."""
        return self._moved(relation, Norm.LINF)

    def _moved(self, relation: Relation, norm: Norm) -> float:
        moved = Relation(relation).multiple * self._share / round_down(self.size)
        return norm.bound(moved, self.norm, self.dim)

    def premises(self, relation: Relation) -> Premises:
        """None of the losses: clipping enforces all; round-off counts the coordinates."""
        del relation
        return Premises(dim=self.dim)

    @property
    def preserves_convexity(self) -> bool:
        """True if clipping turns a convex loss of a linear prediction into another convex loss.

        Automatic clipping (``gamma``) scales slopes by a factor that depends on them. A norm other
        than l2 is not the one in which the declared ``L`` rules out clipping of other losses.
        """
        return self.gamma is None and self.norm is Norm.L2

    def changes(self, problem_class: ProblemClass) -> bool:
        """Whether it may answer with another vector than the mean gradient of the class."""
        steepest = problem_class.lipschitz_in(self.norm)
        clipped = self.gamma is not None or self.clip < steepest * (1.0 - _CLIPPED)
        return clipped or self.size != round_up(float(problem_class.n))

    def gradient_of(
        self, objective: EmpiricalRisk, microbatch: int = MICROBATCH
    ) -> Callable[[Pytree], Pytree]:
        """``w -> gradient`` on the device, with everything that does not depend on ``w`` done."""
        total = clipped_gradient_sum(objective, self.clip, self.gamma, microbatch, self.norm)
        return lambda point: jax.tree.map(lambda leaf: leaf / self.size, total(point))

    def batch_sums_of(self, objective: EmpiricalRisk, microbatch: int = MICROBATCH) -> BatchSum:
        """``(w, rows, weights, anchor) -> sum`` over a batch, which the caller divides."""
        return clipped_batch_sum(objective, self.clip, self.gamma, microbatch, self.norm)

    def linear_model(self, objective: EmpiricalRisk) -> RegularisedGLM | None:
        """The risk with that gradient, where it is one of a linear model in float64."""
        if objective.dtype != jnp.float64:
            return None
        return clipped_linear_model(objective, self.clip, self.size, self.norm)
