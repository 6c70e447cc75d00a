"""Regularised minimisers of losses with sparse gradients, with small l1 sensitivity."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
from jax import Array

from privopt.arguments import checked, instance, shown
from privopt.convex import (
    DenseFeatures,
    EmpiricalRisk,
    Features,
    GeneralisedLinear,
    SparseFeatures,
    as_features,
    pytree_dataclass,
)
from privopt.convex.arrays import Number
from privopt.mechanisms.calibration import check_calibration
from privopt.mechanisms.clipping import without_null_records
from privopt.mechanisms.minimisers import RegularisedMinimiser
from privopt.privacy import round_up
from privopt.spec import Assumptions, Budget, ProblemClass, Relation

_RELATIVE_ERROR = 1e-3  # error of the solver relative to the sensitivity


@pytree_dataclass
@dataclass(frozen=True)
class SparseMinimiser:
    """Minimiser ``argmin_w (1/n) sum_i l(w; x_i) + (lambda/2) |w - c|^2`` over ``R^d``.

    Gradients are sparse.

    Let all losses be convex, ``L``-Lipschitz and ``H``-smooth on ``R^d``, every gradient have at
    most ``s`` nonzero numbers, and the gradients of one loss at two points differ in at most ``k``
    coordinates: ``k = s`` for a generalised linear loss, ``k = 2s`` for any other. Replacing a
    record changes the minimiser by at most::

        Delta_2 = 2L/(lambda n),
        Delta_1 = (2L/(lambda n)) min{sqrt(d), sqrt(s) + (1/2) sqrt(k H/lambda)},

    and half of that if a record becomes null, or is added while there are at most ``n``. A last
    step ``c - grad F(u)/lambda`` from the point ``u`` of the solver makes its error sparse.

    Proof, and the charge for the solver: :ref:`Sparse gradients, Theorem 11 <theory-sparse-11>`.
    Source: Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881), section 4, with a
    larger constant; the root is derived here.

    ``minimiser`` is the solved query, to a distance ``tau``, with ``L``, ``H``, ``lambda`` and
    ``n``; ``sparsity`` is ``s``. If ``kept`` is given, rows of generalised linear losses are
    truncated to this sparsity, and shortened so that no gradient exceeds ``L``; None for losses
    with declared sparsity.

    Examples
    --------
    >>> facts = ProblemClass(
    ...     n=1000, dim=500, lipschitz=1.0, radius=math.inf, smoothness=1.0, sparsity=4)
    >>> query = SparseMinimiser.of(facts, Relation.REPLACE_ONE, regularisation=0.5)
    >>> round(query.sensitivity(Relation.REPLACE_ONE), 4)
    0.004
    >>> round(query.l1_sensitivity(Relation.REPLACE_ONE), 4)
    0.016
    """

    minimiser: RegularisedMinimiser
    sparsity: float
    kept: int | None = field(default=None, metadata={"static": True})

    @classmethod
    def of(
        cls,
        problem_class: ProblemClass,
        relation: Relation,
        *,
        regularisation: float,
        smoothing: float = 0.0,
        glm: bool = False,
    ) -> SparseMinimiser:
        """Return the query for a class with ``sparsity``.

        The solver adds a thousandth to the sensitivities.

        ``glm`` is True for generalised linear losses. Other arguments:
        :meth:`RegularisedMinimiser.of`.
        """
        instance("problem_class", problem_class, ProblemClass)
        if problem_class.sparsity is None:
            raise ValueError("sparsity must be declared for a sparse minimiser, got None")
        if math.isfinite(problem_class.radius):
            raise ValueError(
                f"radius must be inf for a sparse minimiser, got {shown(problem_class.radius)}"
            )
        sparsity = problem_class.sparsity
        problem_class = replace(problem_class, strong_convexity=0.0)
        initial = RegularisedMinimiser.of(
            problem_class, relation, regularisation=regularisation, smoothing=smoothing
        )
        query = cls(initial, float(sparsity), sparsity if glm else None)
        share = query._spread / (2.0 * query._last_step * math.sqrt(query._reach))
        solver = RegularisedMinimiser.of(
            problem_class,
            relation,
            regularisation=regularisation,
            smoothing=smoothing,
            relative_error=_RELATIVE_ERROR * min(1.0, share),
        )
        return replace(query, minimiser=solver)

    @property
    def width(self) -> float:
        """``k``; infinite if truncated rows exceed the accounted sparsity."""
        if self.kept is None:
            return 2.0 * self.sparsity
        return self.sparsity if 0 < self.kept <= self.sparsity else math.inf

    @property
    def dense(self) -> bool:
        """True if ``sqrt(d)`` is the smaller factor of ``Delta_1``."""
        return self._spread == math.sqrt(self._dim)

    @property
    def error(self) -> float:
        """``max(1, H/lambda) tau``, the largest distance to the minimiser."""
        return self._last_step * self.minimiser.error

    def sensitivity(self, relation: Relation) -> float:
        """Return ``Delta_2``, and twice the error of the solver; infinite for too few steps."""
        return self._sensitivity(relation) + 2.0 * self.error if self._solved else math.inf

    def l1_sensitivity(self, relation: Relation) -> float:
        """Return ``Delta_1``, and twice the error of the solver in the l1 norm."""
        if not self._solved:
            return math.inf
        return (
            self._spread * self._sensitivity(relation) + 2.0 * math.sqrt(self._reach) * self.error
        )

    def assumptions(self, relation: Relation) -> Assumptions:
        """Return the assumptions: whole space, and sparse gradients or a linear model."""
        assumptions = self.minimiser.assumptions(relation) & Assumptions(whole_space=True)
        if self.kept is None:
            return assumptions & Assumptions(sparsity=self.sparsity)
        smooth = {"linear_model"} if self.minimiser.smoothing is None else ()
        return assumptions & Assumptions(requires=frozenset(smooth))

    def minimiser_of(self, objective: EmpiricalRisk) -> Callable[[Array], Array]:
        """Return ``c -> answer`` on the device."""
        if self.kept is not None:
            clip_norm = self.minimiser.gradient.clip_norm
            objective = truncated_records(objective, self.kept, clip_norm)
        objective = self.minimiser.smoothed(objective)
        solver = self.minimiser._replace(smoothing=None)

        def minimiser(centre: Array) -> Array:
            present = without_null_records(objective, self.minimiser.gradient.clip_norm, centre)
            gradient = self.minimiser.gradient.gradient_of(present)
            approximation = solver.minimiser_of(objective)(centre)
            return centre - gradient(approximation) / self.minimiser.regularisation

        return minimiser

    @property
    def _dim(self) -> int:
        return self.minimiser.gradient.dim

    @property
    def _reach(self) -> float:
        """Number of coordinates in which an error of the solver counts."""
        return min(self.width, float(self._dim))

    @property
    def _spread(self) -> float:
        """``Delta_1/Delta_2``."""
        curvature = self.minimiser.smoothness / self.minimiser.regularisation
        sparse = math.sqrt(self.sparsity) + 0.5 * math.sqrt(self.width * curvature)
        return min(math.sqrt(self._dim), sparse)

    @property
    def _last_step(self) -> float:
        """Factor of the last step on distances from the minimiser, at least 1."""
        return max(1.0, self.minimiser.smoothness / self.minimiser.regularisation)

    def _sensitivity(self, relation: Relation) -> float:
        """Return ``Delta_2``, round-off of the sum included."""
        gradient = self.minimiser.gradient
        record_sensitivity = (
            Relation(relation).multiple * gradient.record_sensitivity / gradient.size
        )
        return record_sensitivity / self.minimiser.regularisation

    @property
    def _solved(self) -> bool:
        """True if the solver reaches the minimiser of a convex objective."""
        solver = self.minimiser
        regular = solver.regularisation > 0.0 == solver.strong_convexity and self.sparsity > 0.0
        convex = solver.gradient.preserves_convexity
        return regular and convex and solver.needed_steps <= solver.steps


@checked
def published_laplace_scale(query: SparseMinimiser, budget: Budget) -> float:
    """Return ``b = (2 sqrt(2s) L/(lambda n epsilon)) (2H/lambda + 1)``: a baseline.

    More than ``sqrt(2)`` times the scale of ``LaplaceMechanism.calibrated``, and of the order of
    ``sqrt(H/lambda)`` times it. ``LaplaceMechanism(query, published_laplace_scale(query,
    budget))`` has the exact event of this noise. Published for ``replace_one``; half of it
    suffices if one of two neighbours has a null record.

    Source: Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881), section 4.

    Examples
    --------
    >>> facts = ProblemClass(
    ...     n=1000, dim=500, lipschitz=1.0, radius=math.inf, smoothness=1.0, sparsity=4)
    >>> query = SparseMinimiser.of(facts, Relation.REPLACE_ONE, regularisation=0.5)
    >>> budget = Budget(epsilon=1.0, delta=0.0, relation=Relation.REPLACE_ONE)
    >>> round(published_laplace_scale(query, budget), 4)
    0.0566
    """
    check_calibration(query, budget, "l1_sensitivity")
    minimiser = query.minimiser
    curvature = 2.0 * minimiser.smoothness / minimiser.regularisation + 1.0
    record_sensitivity = (
        budget.relation.multiple * minimiser.gradient.clip_norm / minimiser.gradient.size
    )
    unit = record_sensitivity / (minimiser.regularisation * budget.epsilon)
    return round_up(math.sqrt(2.0 * query.sparsity) * unit * curvature)


def truncated_records(objective: EmpiricalRisk, sparsity: int, clip_norm: Number) -> EmpiricalRisk:
    """Return the records of a generalised linear loss with the declared sparsity and length.

    A row keeps its ``sparsity`` numbers of largest modulus. It is shortened until its length times
    the bound of the slope, if there is one, is at most ``clip_norm``. Records are changed
    independently, so neighbours remain neighbours; rows within the declared bounds keep their
    bits. ValueError if the loss is not a function of a linear prediction.

    Examples
    --------
    >>> from privopt.convex import Linear, WholeSpace
    >>> rows = jnp.array([[3.0, 1.0, 4.0], [0.0, 0.5, 0.0]])
    >>> risk = EmpiricalRisk(GeneralisedLinear(Linear()), (rows, jnp.ones(2)), None, WholeSpace())
    >>> truncated = truncated_records(risk, 2, 1.0).linear.features
    >>> truncated.indices.tolist(), truncated.norms().round(2).tolist()
    ([[0, 2], [0, 1]], [1.0, 0.5])
    """
    if not isinstance(objective.loss, GeneralisedLinear):
        raise ValueError(
            "loss must be a function of a linear prediction (GeneralisedLinear), got "
            f"{shown(objective.loss)}"
        )
    features, labels = objective.data
    rows = _largest(as_features(features), sparsity)
    slope_bound = objective.loss.scalar.slope_bound
    if math.isfinite(slope_bound):  # otherwise slopes are clipped by the query
        norms, longest = rows.norms(), clip_norm / slope_bound
        is_long = jnp.isfinite(norms) & (norms > longest)
        rows = rows.scaled(jnp.where(is_long, longest / jnp.where(is_long, norms, 1.0), 1.0))
    # The norms of the objective are those of the rows before truncation.
    return replace(objective, data=(rows, labels), norms=None)


def _largest(rows: Features, sparsity: int) -> Features:
    """Return the ``s`` numbers of largest modulus of every row."""
    if isinstance(rows, SparseFeatures):
        values, indices = rows.values, rows.indices
    else:
        values = rows.array if isinstance(rows, DenseFeatures) else rows.block(0, rows.shape[0])
        indices = jnp.broadcast_to(jnp.arange(values.shape[-1]), values.shape)
    if values.shape[-1] <= sparsity:
        return rows
    _, places = jax.lax.top_k(jnp.abs(values), sparsity)
    indices, values = (jnp.take_along_axis(each, places, axis=-1) for each in (indices, values))
    return SparseFeatures(indices, values, rows.shape[-1])
