"""Minimisers within a public distance of the exact one, on every data set.

A Newton method is certified to end within that distance, or accelerated projected descent runs for
a public number of steps that suffices for all data. Both end near the *same* point, and the
sensitivity is charged for the distance, so the choice between them may depend on the data. The
running time then also depends on the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.tree_util import PyTreeDef
from jaxtyping import Float, Int

from privopt.arguments import instance, positive_number, shown
from privopt.convex import EmpiricalRisk, Oracle, accelerated_descent, newton_glm
from privopt.convex.arrays import Number
from privopt.mechanisms.batches.batches import present, require_numbered
from privopt.mechanisms.clipping import BatchSum, without_null_records
from privopt.mechanisms.queries import ClippedGradient
from privopt.privacy import round_down
from privopt.release import Pytree
from privopt.spec import Assumptions, Norm, ProblemClass, Relation

MAX_DIM = 1024  # largest dimension at which an eigenbasis saves time
MIN_DATA_NUMBERS = 2**16  # numbers in the data; with fewer, descent is faster than compiling
REACHABLE_RESIDUAL = 4e-13  # relative to the Lipschitz constant: the resolution of float64
_MAX_STEPS = 2.0**31 - 1.0  # int32 loop counter
_MAX_ERROR = 1e30  # a thousand times as much noise exceeds float32


class InexactMinimiser(NamedTuple):
    """Approximation of ``argmin_W F(w) + (lambda/2)|w - c|^2 + <t, w>`` to a distance ``tau``.

    For a generalised linear model, :func:`privopt.convex.newton_glm` proposes a point ``w`` of
    ``W``, which is accepted if

        ``beta |w - Proj_W(w - grad J(w)/beta)| <= a tau / 2``

    (half is reserved for round-off). It is then within ``tau/2`` of the minimiser of ``J``, which
    is ``a``-strongly convex and ``beta``-smooth on ``W``, the regulariser included. Otherwise
    accelerated projected descent runs from ``Proj_W(c - t/lambda)`` for ``steps``.
    """

    regularisation: float | Float[Array, ""]
    strong_convexity: float | Float[Array, ""]
    smoothness: float | Float[Array, ""]
    error: float
    steps: int

    def solve(
        self,
        gradient: ClippedGradient,
        objective: EmpiricalRisk,
        centre: Float[Array, " d"],
        linear_term: Float[Array, " d"] | None,
    ) -> Float[Array, " d"]:
        """Return the minimiser; ``gradient`` is the query of ``F``.

        ``linear_term`` is ``t``, by default 0. Under ``jax.vmap`` over linear terms alone, all
        minimisers are computed together, by products of matrices; over other arguments,
        sequentially.
        """
        linear_terms = (
            jnp.zeros((1, centre.size), centre.dtype) if linear_term is None else linear_term[None]
        )
        arguments = (self, gradient, objective, centre)
        model = gradient.linear_model(objective)
        if (
            model is None
            or math.prod(model.features.shape) < MIN_DATA_NUMBERS
            or centre.size > MAX_DIM
        ):
            steps = jnp.broadcast_to(self.steps, (1,))
            return _descents(*arguments, linear_terms, steps)[0]
        arrays, structure = jax.tree.flatten(arguments)
        return _together(structure)(tuple(map(jnp.asarray, arrays)), linear_terms)[0]


def _together(structure: PyTreeDef) -> Callable[[tuple[Array, ...], Array], Array]:
    """Return ``(arrays, linear_terms) -> minimisers``, shape ``(k, dim)``; one call under vmap."""

    @jax.custom_batching.custom_vmap
    def together(arrays: tuple[Array, ...], linear_terms: Array) -> Array:
        numbers, gradient, objective, centre = jax.tree.unflatten(structure, arrays)
        return _minimisers(numbers, gradient, objective, centre, linear_terms)

    @together.def_vmap
    def rule(
        size: int,
        batched: tuple[tuple[bool, ...], bool],
        arrays: tuple[Array, ...],
        linear_terms: Array,
    ) -> tuple[Array, bool]:
        varying, _ = batched
        if not any(varying):
            points = together(arrays, linear_terms.reshape(-1, linear_terms.shape[-1]))
            return points.reshape(linear_terms.shape), True
        axes = jax.tree.map(lambda varies: 0 if varies else None, batched)
        one_by_one = jax.custom_batching.sequential_vmap(together)
        return jax.vmap(one_by_one, axes)(arrays, linear_terms), True

    return together


def _minimisers(
    numbers: InexactMinimiser,
    gradient: ClippedGradient,
    objective: EmpiricalRisk,
    centre: Array,
    linear_terms: Array,
) -> Array:
    """Compute certified minimisers, and accelerated descent for the rest; ``(k, dim)``."""
    ones = jnp.ones_like(linear_terms[:, 0])
    accepted = 0.5 * numbers.strong_convexity * numbers.error * ones
    model = gradient.linear_model(objective)
    assert model is not None
    solution = newton_glm(
        model._replace(
            regularisation=numbers.regularisation * ones, linear_terms=linear_terms, centre=centre
        ),
        objective.constraint,
        objective.constraint.project(centre),
        smoothness=numbers.smoothness * ones,
        tolerance=jnp.minimum(accepted, REACHABLE_RESIDUAL * gradient.clip_norm),
    )
    is_accepted = solution.residuals <= accepted  # False if anything is not finite

    def with_descent() -> Array:
        steps = jnp.where(is_accepted, 0, numbers.steps)
        others = _descents(numbers, gradient, objective, centre, linear_terms, steps)
        return jnp.where(is_accepted[:, None], solution.points, others)

    return jax.lax.cond(jnp.all(is_accepted), lambda: solution.points, with_descent)


def _descents(
    numbers: InexactMinimiser,
    gradient: ClippedGradient,
    objective: EmpiricalRisk,
    centre: Array,
    linear_terms: Array,
    steps: Array,
) -> Array:
    """Run ``steps[k]`` steps of accelerated descent from the minimiser of the public terms."""
    data_term, project = gradient.gradient_of(objective), objective.constraint.project

    def descent(linear_term: Array, steps: Array) -> Array:
        shift = jnp.where(
            linear_term == 0.0, 0.0, linear_term / numbers.regularisation
        )  # without a linear term, lambda may be 0
        return accelerated_descent(
            lambda w: data_term(w) + linear_term + numbers.regularisation * (w - centre),
            project,
            project(centre - shift),
            smoothness=numbers.smoothness,
            strong_convexity=numbers.strong_convexity,
            steps=steps,
        )

    if linear_terms.shape[0] == 1:
        return descent(linear_terms[0], steps[0])[None]
    return jax.vmap(descent)(linear_terms, steps)


class RegularisedMinimiser(NamedTuple):
    """Minimiser ``argmin_W (1/n) sum_i l(w; x_i) + (lambda/2) |w - c|^2``, to a fixed distance.

    A record with a gradient at ``c`` that is not finite has the loss ``(m/2) |w - c|^2`` instead,
    and so has a record that is missing from the public ``n``: the objective is ``(lambda +
    m)``-strongly convex for every number of records.

    Attributes
    ----------
    gradient : ClippedGradient
        The data term, clipped at the declared ``L``.
    regularisation : float
        ``lambda >= 0``.
    strong_convexity : float
        ``m >= 0``, the strong convexity of ``F`` from the losses: the declared constant of each
        loss, ``m/(1 + m h)`` after smoothing; 0 if the size is not public.
    radius : float
        ``R``: the constraint set is in a ball of this radius.
    smoothness : float
        ``H`` of the loss of each record (``1/h`` after Moreau smoothing of width ``h``).
    smoothing : float or None
        ``h``; None if the losses are smooth.
    error : float
        ``tau``, the distance to the exact minimiser; charged to the sensitivity.
    steps : int
        Steps of accelerated descent that guarantee ``tau``.

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
        """Return the query for a problem class; ``tau = relative_error L/((lambda+m) n)``."""
        instance("problem_class", problem_class, ProblemClass)
        loss_convexity = problem_class.strong_convexity
        loss_convexity /= 1.0 + loss_convexity * smoothing
        if Relation(relation) is Relation.ADD_OR_REMOVE_ONE:
            loss_convexity = 0.0
        if loss_convexity > 0.0 and math.isinf(problem_class.radius):
            raise ValueError("radius must be finite for strongly convex losses, got inf")
        smoothness = 1.0 / smoothing if smoothing > 0.0 else problem_class.smoothness
        if smoothness is None:
            raise ValueError("smoothness must be declared, or smoothing be positive; got neither")
        convexity = regularisation + loss_convexity
        if not convexity > 0.0:
            raise ValueError(
                "regularisation must be positive for losses that are not strongly convex "
                f"under {relation}, got {shown(regularisation)}"
            )
        error = relative_error * problem_class.lipschitz / (convexity * problem_class.n)
        width = smoothing if smoothing > 0.0 else None
        gradient, radius = ClippedGradient.of(problem_class), problem_class.radius
        query = cls(gradient, regularisation, loss_convexity, radius, smoothness, width, error, 1)
        needed = query.needed_steps
        if needed > _MAX_STEPS or error > _MAX_ERROR:
            raise ValueError(
                f"regularisation must be larger, got {shown(regularisation)}: the solver needs "
                f"{needed:.1e} steps, to an error of {error:.1e}"
            )
        return query._replace(steps=max(1, math.ceil(needed)))

    @property
    def needed_steps(self) -> float:
        """Number of steps that end within ``tau`` on every data set of the class.

        Proof: :ref:`Perturbation, Theorem 7 <theory-perturbation-7>`. Infinite for invalid
        parameters.
        """
        convexity, smoothness = self.curvature, self.regularisation + self.smoothness
        invalid = self.regularisation < 0.0 or self.strong_convexity < 0.0 or not convexity > 0.0
        if invalid or not self.error > 0.0 or not self.radius > 0.0:
            return math.inf
        if self.smoothing is not None and not self.smoothing * self.smoothness >= 1.0 - 2.0**-50:
            return math.inf
        lipschitz = self.gradient.clip_norm
        reach = min(self.radius, lipschitz / convexity)
        start_gap = lipschitz * reach + 0.5 * convexity * reach**2
        gain = math.log(start_gap) - math.log(0.5 * convexity) - 2.0 * math.log(self.error)
        return steps_to_gain(gain, convexity, smoothness)

    @property
    def curvature(self) -> float:
        """``lambda + m``."""
        return self.regularisation + self.strong_convexity

    def sensitivity(self, relation: Relation) -> float:
        """Return ``G/((lambda+m) n) + 2 tau``, ``G`` the largest distance of two gradients.

        ``G = L + max(L, m R)`` under ``replace_one``, which is ``2L`` over a ball about ``c``;
        else one of the losses is null, and ``G = L + m R``.

        Infinite if the solver has too few steps, if clipping does not preserve convexity, and
        under ``add_or_remove_one`` if the query uses the strong convexity of the losses.

        Source: Chaudhuri, Monteleoni and Sarwate 2011, Corollary 8.
        """
        relation = Relation(relation)
        uses_losses = self.strong_convexity > 0.0
        if self.needed_steps > self.steps or not self.gradient.preserves_convexity:
            return math.inf
        if uses_losses and relation is Relation.ADD_OR_REMOVE_ONE:
            return math.inf
        record_sensitivity = self.gradient.record_sensitivity
        null_gradient = self.strong_convexity * self.radius if uses_losses else 0.0
        distance = record_sensitivity + (
            max(record_sensitivity, null_gradient)
            if relation is Relation.REPLACE_ONE
            else null_gradient
        )
        return distance / self.gradient.size / self.curvature + 2.0 * self.error

    def assumptions(self, relation: Relation) -> Assumptions:
        """Return the assumptions: convex losses with ``L``, ``H`` and ``m``, or null records."""
        smoothed = self.smoothing or 0.0
        loss_convexity = self.strong_convexity / max(
            1.0 - self.strong_convexity * smoothed, 2.0**-52
        )
        return self.gradient.assumptions(relation) & Assumptions(
            convex=True,
            lipschitz=self.gradient.clip_norm,
            smoothness=self.smoothness if self.smoothing is None else math.inf,
            strong_convexity=loss_convexity * (1.0 - 2.0**-40),
            radius=self.radius,
            n=self.gradient.size,
            requires=frozenset() if self.smoothing is None else frozenset({"smoothing"}),
        )

    def l1_sensitivity(self, relation: Relation) -> float:
        """Return ``sqrt(d)`` times the Euclidean sensitivity."""
        return Norm.L1.bound(self.sensitivity(relation), Norm.L2, self.gradient.dim)

    def smoothed(self, objective: EmpiricalRisk) -> EmpiricalRisk:
        """Return the minimised losses: Moreau envelopes, if there is a width."""
        if self.smoothing is None:
            return objective
        return objective.smoothed(jnp.asarray(self.smoothing))

    def minimiser_of(self, objective: EmpiricalRisk) -> Callable[[Array], Array]:
        """Return ``start -> minimiser`` on the device; ``start`` is the public centre ``c``."""
        objective = self.smoothed(objective)

        def minimiser(start: Array) -> Array:
            present = without_null_records(objective, self.gradient.clip_norm, start)
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
    """Return the steps of accelerated descent that reduce a gap by ``e^-gain``."""
    if not math.inf > smoothness >= convexity > 0.0:
        return math.inf
    shrink = math.sqrt(convexity / smoothness)
    return gain / -math.log1p(-shrink) if shrink < 1.0 else 0.0


class OnePass(NamedTuple):
    """Average iterate ``(1/m) sum_t w_t`` of one pass, ``w_{t+1} = Proj(w_t - eta g_t(w_t))``.

    Each step uses one new record. ``gradient`` is the query of single records, clipped at the
    declared ``L``; ``step_size`` is ``eta``, rounded down to float32.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0, smoothness=0.25)
    >>> round(OnePass.of(facts, step_size=0.5).sensitivity(Relation.REPLACE_ONE), 4)
    1.0
    """

    gradient: ClippedGradient
    step_size: float

    @classmethod
    def of(cls, problem_class: ProblemClass, step_size: float) -> OnePass:
        """Return the query for a problem class."""
        instance("problem_class", problem_class, ProblemClass)
        step_size = positive_number("step_size", step_size)
        require_numbered("n", problem_class.n)
        smoothness = problem_class.smoothness
        if not problem_class.convex:
            raise ValueError(
                "problem_class.convex must be True, since one pass is private by convexity, "
                "got False"
            )
        if smoothness is None:
            raise ValueError(
                "smoothness must be declared, since one pass is private by it, got None"
            )
        if math.isinf(problem_class.lipschitz):
            raise ValueError("lipschitz must be declared for one pass to be private, got inf")
        if step_size * smoothness > 2.0:
            raise ValueError(
                f"step_size must be at most 2/smoothness = {shown(2.0 / smoothness)}, got "
                f"{shown(step_size)}"
            )
        return cls(ClippedGradient.of(problem_class), round_down(step_size))

    def sensitivity(self, relation: Relation) -> float:
        """Return ``2 L eta`` under ``replace_one``, ``L eta`` under ``zero_out``, else infinity.

        The bound holds for all iterates, and for their average. A loss that is not generalised
        linear is assumed to be ``L``-Lipschitz, so that nothing is clipped, and arithmetic to be
        exact. Infinite also if clipping does not preserve convexity. Proof:
        :ref:`Mechanisms, Theorem 14 <theory-mechanisms-14>`.

        Source: Hardt, Recht and Singer 2016, Lemma 3.6 (non-expansive steps); Feldman, Koren and
        Talwar 2020.
        """
        relation, step_size = Relation(relation), positive_number("step_size", self.step_size)
        if relation is Relation.ADD_OR_REMOVE_ONE or not self.gradient.preserves_convexity:
            return math.inf
        return relation.multiple * step_size * self.gradient.record_sensitivity

    def assumptions(self, relation: Relation) -> Assumptions:
        """Return the assumptions: convex, ``H <= 2/eta``, generalised linear or with ``L``."""
        return self.gradient.assumptions(relation) & Assumptions(
            convex=True,
            smoothness=2.0 / positive_number("step_size", self.step_size) * (1.0 + 2.0**-50),
            lipschitz=self.gradient.clip_norm,
        )

    def oracle(self, losses: EmpiricalRisk, order: Int[Array, " n"]) -> OnePassAnswers:
        """Return the oracle of the gradients of the records ``order``, numbers from ``0..n-1``.

        They are not private: only the average of a pass, with noise, is released.
        """
        return OnePassAnswers(losses, order, self.gradient.batch_sums_of(losses))


@dataclass(frozen=True)
class OnePassAnswers(Oracle):
    """Oracle of the clipped gradient of one new record in every step.

    The pass is over the records ``order[first : first + steps]``.
    """

    losses: EmpiricalRisk
    order: Int[Array, " n"]
    clipped_sum: BatchSum
    first: Number | int = 0
    steps: Number | int = 0

    def update(
        self, state: Pytree, t: Array, point: Pytree, batch: Pytree = None
    ) -> tuple[Pytree, Pytree]:
        record = jax.lax.dynamic_slice(self.order, (self.first + t,), (1,))
        row, mask = present(record, self.losses.records)
        return self.clipped_sum(point, row, mask.astype(self.losses.dtype)), state
