"""Minimisers within a public distance of the exact one, on every data set.

A Newton method is certified to end within that distance, or accelerated projected descent runs for
a public number of steps that do so whatever the data. Both end near the *same* point, and the
sensitivity is charged for the distance, so the choice between them may depend on the data. (So
does the running time.)
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

from privopt.arguments import instance, positive_number, shown
from privopt.convex import EmpiricalRisk, Oracle, accelerated_descent, newton_glm
from privopt.convex.vectors import Number
from privopt.mechanisms.batches.batches import present, require_numbered
from privopt.mechanisms.clipping import BatchSum, without_null_records
from privopt.mechanisms.queries import ClippedGradient
from privopt.privacy import round_down
from privopt.release import Pytree
from privopt.spec import Norm, Premises, ProblemClass, Relation

MAX_DIM = 1024  # dimension: beyond it an eigenbasis costs more than it saves
MIN_DATA_NUMBERS = 2**18  # numbers in the data: with fewer, to compile costs more than to descend
REACHABLE_RESIDUAL = 4e-13  # of the Lipschitz constant: as far as float64 gets
_MAX_STEPS = 2.0**31 - 1.0  # that a loop on the device can count
_MAX_ERROR = 1e30  # noise of a thousand times as much leaves float32


class InexactMinimiser(NamedTuple):
    """``argmin_W F(w) + (lambda/2)|w - c|^2 + <t, w>``, to a distance ``tau``.

    For a generalised linear model, :func:`privopt.convex.newton_glm` proposes a point ``w`` of
    ``W``, which is accepted where

        ``beta |w - Proj_W(w - grad J(w)/beta)| <= a tau / 2``

    (half is left to round-off). It is then within ``tau/2`` of the minimiser of ``J``, which is
    ``a``-strongly convex and ``beta``-smooth on ``W``, the regulariser included. Otherwise
    accelerated projected descent runs from ``Proj_W(c - t/lambda)`` for ``steps``.
    """

    regularisation: float | Array
    strong_convexity: float | Array
    smoothness: float | Array
    error: float
    steps: int

    def solve(
        self, gradient: ClippedGradient, objective: EmpiricalRisk, centre: Array, tilt: Array | None
    ) -> Array:
        """The minimiser, shape ``(dim,)``; ``gradient`` is of ``F``, no ``tilt`` is 0.

        Under ``jax.vmap`` over tilts alone all are found together, by products of matrices; over
        anything else, one after another.
        """
        tilts = jnp.zeros((1, centre.size), centre.dtype) if tilt is None else tilt[None]
        given = (self, gradient, objective, centre)
        model = gradient.linear_model(objective)
        if (
            model is None
            or math.prod(model.features.shape) < MIN_DATA_NUMBERS
            or centre.size > MAX_DIM
        ):
            steps = jnp.broadcast_to(self.steps, (1,))
            return _descents(*given, tilts, steps)[0]
        leaves, structure = jax.tree.flatten(given)
        return _together(structure)(tuple(map(jnp.asarray, leaves)), tilts)[0]


def _together(structure: PyTreeDef) -> Callable[[tuple[Array, ...], Array], Array]:
    """``(leaves, tilts) -> minimisers`` of shape ``(k, dim)``, to be vmapped as one call."""

    @jax.custom_batching.custom_vmap
    def together(leaves: tuple[Array, ...], tilts: Array) -> Array:
        numbers, gradient, objective, centre = jax.tree.unflatten(structure, leaves)
        return _minimisers(numbers, gradient, objective, centre, tilts)

    @together.def_vmap
    def rule(
        size: int, batched: tuple[tuple[bool, ...], bool], leaves: tuple[Array, ...], tilts: Array
    ) -> tuple[Array, bool]:
        varying, _ = batched
        if not any(varying):
            found = together(leaves, tilts.reshape(-1, tilts.shape[-1]))
            return found.reshape(tilts.shape), True
        axes = jax.tree.map(lambda varies: 0 if varies else None, batched)
        one_by_one = jax.custom_batching.sequential_vmap(together)
        return jax.vmap(one_by_one, axes)(leaves, tilts), True

    return together


def _minimisers(
    numbers: InexactMinimiser,
    gradient: ClippedGradient,
    objective: EmpiricalRisk,
    centre: Array,
    tilts: Array,
) -> Array:
    """The certified ones, and accelerated descent for the rest; ``(k, dim)``."""
    ones = jnp.ones_like(tilts[:, 0])
    accepted = 0.5 * numbers.strong_convexity * numbers.error * ones
    model = gradient.linear_model(objective)
    assert model is not None
    found = newton_glm(
        model._replace(
            regularisation=numbers.regularisation * ones, linear_terms=tilts, centre=centre
        ),
        objective.constraint,
        objective.constraint.project(centre),
        smoothness=numbers.smoothness * ones,
        tolerance=jnp.minimum(accepted, REACHABLE_RESIDUAL * gradient.clip),
    )
    near = found.residuals <= accepted  # false where anything is not finite

    def otherwise() -> Array:
        steps = jnp.where(near, 0, numbers.steps)
        others = _descents(numbers, gradient, objective, centre, tilts, steps)
        return jnp.where(near[:, None], found.points, others)

    return jax.lax.cond(jnp.all(near), lambda: found.points, otherwise)


def _descents(
    numbers: InexactMinimiser,
    gradient: ClippedGradient,
    objective: EmpiricalRisk,
    centre: Array,
    tilts: Array,
    steps: Array,
) -> Array:
    """``steps[k]`` steps of accelerated descent from the minimiser of what is public."""
    data_term, project = gradient.gradient_of(objective), objective.constraint.project

    def descent(tilt: Array, steps: Array) -> Array:
        pulled = jnp.where(
            tilt == 0.0, 0.0, tilt / numbers.regularisation
        )  # untilted, lambda may be 0
        return accelerated_descent(
            lambda w: data_term(w) + tilt + numbers.regularisation * (w - centre),
            project,
            project(centre - pulled),
            smoothness=numbers.smoothness,
            strong_convexity=numbers.strong_convexity,
            steps=steps,
        )

    if tilts.shape[0] == 1:
        return descent(tilts[0], steps[0])[None]
    return jax.vmap(descent)(tilts, steps)


class RegularisedMinimiser(NamedTuple):
    """``argmin_W (1/n) sum_i l(w; x_i) + (lambda/2) |w - c|^2``, to a distance fixed in advance.

    A record that is not finite at ``c`` has the loss ``(m/2) |w - c|^2`` instead, and so has one
    that is missing from the public ``n``: the objective is ``(lambda + m)``-strongly convex
    however many there are.

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
        ``tau``, how far from the exact minimiser an answer may be; charged to the sensitivity.
    steps : int
        Of accelerated descent, that guarantee ``tau``.

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
                f"under {relation}, got {shown(regularisation)}"
            )
        error = relative_error * problem_class.lipschitz / (convexity * problem_class.n)
        width = smoothing if smoothing > 0.0 else None
        gradient, radius = ClippedGradient.of(problem_class), problem_class.radius
        query = cls(gradient, regularisation, own, radius, smoothness, width, error, 1)
        needed = query.needed_steps
        if needed > _MAX_STEPS or error > _MAX_ERROR:
            raise ValueError(
                f"regularisation must be larger, got {shown(regularisation)}: the solver needs "
                f"{needed:.1e} steps, to an error of {error:.1e}"
            )
        return query._replace(steps=max(1, math.ceil(needed)))

    @property
    def needed_steps(self) -> float:
        """The steps that end within ``tau`` on every data set of the class.

        By the linear rate of :func:`privopt.convex.accelerated_descent`: with ``F_lambda``
        ``a``-strongly convex and ``b``-smooth, ``kappa = b/a``, ``F_lambda(w_T) - min <= (1 -
        kappa^{-1/2})^T (L r + a r^2 / 2)`` for a start within ``r = min(R, L/a)`` of the
        minimiser, and ``|w_T - argmin| <= sqrt(2 gap / a)``. (Null records have no gradient at the
        start.) Infinite for numbers of which that is not so.
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

        Infinite for a solver of too few steps, for clipping that does not preserve convexity, and
        under ``add_or_remove_one`` for a query that counts on the losses' own curvature.
        Source: Chaudhuri, Monteleoni and Sarwate 2011, Corollary 8; the charge for
        inexactness is the triangle inequality.
        """
        relation = Relation(relation)
        counted = self.strong_convexity > 0.0
        if self.needed_steps > self.steps or not self.gradient.preserves_convexity:
            return math.inf
        if counted and relation is Relation.ADD_OR_REMOVE_ONE:
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
        return Norm.L1.bound(self.sensitivity(relation), Norm.L2, self.gradient.dim)

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


class OnePass(NamedTuple):
    """``(1/m) sum_t w_t`` of ``w_{t+1} = Proj(w_t - eta g_t(w_t))``, one fresh record a step.

    ``gradient`` is of single records, clipped at the declared ``L``; ``step_size`` is ``eta``,
    rounded down to float32.

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
        """The query for a class of problems."""
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
        """``2 L eta`` under ``replace_one``, ``L eta`` under ``zero_out``, else infinite.

        *The step that sees the record* lands at most ``eta |g - g'|`` apart; that of a null record
        is the identity. *The steps before* do not see it, and *the steps after* bring no two
        iterates further apart: a gradient step of size ``eta <= 2/H`` on a convex ``H``-smooth
        loss does not, nor does a projection. So no iterate moves further, nor does their average.

        Clipping does a generalised linear loss no harm: ``clip(phi', -C/|x|, C/|x|)`` rises with
        the prediction, nowhere faster than ``phi'``, so it is the slope of a convex function and
        the step is one on a convex ``H``-smooth loss still. Clipped gradients of any other loss
        need not be the gradients of anything: that it is ``L``-Lipschitz, so that none is clipped,
        is assumed. A record that is not finite contributes zero, and its step is the identity.

        Arithmetic is taken as exact. Under ``add_or_remove_one`` the places of others change too.
        Infinite also if clipping does not preserve convexity.

        Source: Hardt, Recht and Singer 2016, Lemma 3.6 (non-expansive steps); Feldman, Koren and
        Talwar 2020.
        """
        relation, step_size = Relation(relation), positive_number("step_size", self.step_size)
        if relation is Relation.ADD_OR_REMOVE_ONE or not self.gradient.preserves_convexity:
            return math.inf
        return relation.multiple * step_size * self.gradient.contribution

    def premises(self, relation: Relation) -> Premises:
        """Convex losses with ``H <= 2/eta``, generalised linear or with ``L``."""
        return self.gradient.premises(relation) & Premises(
            convex=True,
            smoothness=2.0 / positive_number("step_size", self.step_size) * (1.0 + 2.0**-50),
            lipschitz=self.gradient.clip,
        )

    def oracle(self, losses: EmpiricalRisk, order: Array) -> OnePassAnswers:
        """The gradients of the records ``order``, numbers from ``0..n-1``, one after the other.

        They are not private: what is released of a pass is its average, with noise.
        """
        return OnePassAnswers(losses, order, self.gradient.batch_sums_of(losses))


@dataclass(frozen=True)
class OnePassAnswers(Oracle):
    """The clipped gradient of one fresh record in every step.

    The pass is over the records ``order[first : first + steps]``.
    """

    losses: EmpiricalRisk
    order: Array
    clipped_sum: BatchSum
    first: Number | int = 0
    steps: Number | int = 0

    def update(
        self, state: Pytree, t: Array, point: Pytree, batch: Pytree = None
    ) -> tuple[Pytree, Pytree]:
        record = jax.lax.dynamic_slice(self.order, (self.first + t,), (1,))
        row, taken = present(record, self.losses.records)
        return self.clipped_sum(point, row, taken.astype(self.losses.dtype)), state
