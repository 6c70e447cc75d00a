"""A problem: a loss, data, and the class of problems they are declared to belong to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jax.typing import ArrayLike
from numpy.typing import NDArray

from privopt.arguments import instance
from privopt.convex import (
    ConstraintSet,
    EmpiricalRisk,
    GeneralisedLinear,
    L2Ball,
    Loss,
    PublicTerm,
    Pytree,
    ScalarLoss,
    Squared,
)
from privopt.problems.declaration import (
    Shaped,
    array_rows,
    check_origin,
    check_scalar,
    check_shape,
    declared_constraint,
    declared_function,
    distribution,
    multiplicities,
    require_countable,
    tree_rows,
)
from privopt.problems.examination import examine, examine_counts
from privopt.problems.population import Population
from privopt.problems.reference import (
    Reference,
    certified,
    distance_rise,
    has_mean,
    projected_mean,
    risks,
    solved,
)
from privopt.records import prepare
from privopt.spec import ProblemClass

_SMOOTH_TOLERANCE = 1e-9
_NONSMOOTH_TOLERANCE = 1e-6


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Problem:
    """``min_{w in W} F(w)``, ``F(w) = (1/n) sum_i loss(w; x_i)``, or the risk of a population.

    Shapes, dtypes and probabilities that contradict ``problem_class`` are refused. Values of
    records or counts never are: a message would release them. ``n`` is at most ``2^24`` where
    counts, or those of a sample, are float32 (``2^53`` in float64).

    Parameters
    ----------
    loss
        ``loss(w, x_i) -> scalar``, written in JAX, convex in ``w``. If it is itself a pytree, its
        numbers are arguments of the compiled run; otherwise it is a constant of the program.
        Optional methods: see :class:`privopt.convex.Loss`.
    data
        Records along the leading axis of every leaf. Floating leaves share one dtype, in which a
        run computes. For a generalised linear loss ``(features, labels)`` of shapes ``(records,
        dim)`` and ``(records,)``; features that ``smoothness`` does not allow are shortened. A
        matrix of ``scipy.sparse`` becomes :class:`privopt.convex.SparseFeatures`, whose memory is
        that of its longest row times the records; other losses see a row of these.
        Arrays that ``jax.device_put`` has spread over a mesh along their first axis stay there:
        each device sums over its own records, and noise is drawn once.
    problem_class
        Declared, never estimated; :meth:`check` compares it with the data.
    constraint
        Default: the Euclidean ball of ``problem_class.radius`` about 0, or the whole space.
    counts
        How often each stored record occurs, with sum ``n``; time and memory are those of the stored
        records. Rounded; negative numbers and NaN count as 0.
    probabilities
        Instead of ``counts``: every run draws ``n`` of the stored records from this distribution
        with its key, and risks are ``F_P(w) = sum_j p_j loss(w; x_j)``. Declared, so not private.
    shape
        Of a parameter that is a matrix or has more axes, ``dim`` numbers in all: in the loss, the
        release and the risks. Constraint sets, norms and constants are those of the vector of its
        numbers: a ball is one in the Frobenius norm.
    start
        Without a constraint: a public starting point, any pytree of arrays of the data's dtype,
        ``dim`` numbers in all, like the parameter. Default: the centre of the constraint set.
    public
        ``r(w) -> scalar``, written in JAX, of public numbers only: added to ``F``. Its gradient
        needs no noise; algorithms that do not add it refuse the problem.
    minimiser
        A known minimiser of ``F``. Its projection is certified, and ``F`` is solved if that fails.
        Not used for squared distances.

    Examples
    --------
    >>> import numpy as np, scipy.sparse
    >>> from privopt.problems import GeneralisedLinear, Logistic
    >>> from privopt.spec import ProblemClass
    >>> rows = scipy.sparse.csr_array(np.array([[0.6, 0.0, 0.8], [0.0, 1.0, 0.0]]))
    >>> problem = Problem(
    ...     loss=GeneralisedLinear(Logistic()),
    ...     data=(rows, np.array([1.0, -1.0])),
    ...     problem_class=ProblemClass(n=2, dim=3, lipschitz=1.0, radius=1.0),
    ... )
    >>> round(problem.risk(np.zeros(3)), 4)
    0.6931
    """

    loss: Loss
    data: Pytree
    problem_class: ProblemClass
    constraint: ConstraintSet | None = None
    counts: ArrayLike | None = None
    probabilities: ArrayLike | None = None
    shape: tuple[int, ...] | None = None
    start: Pytree = None
    public: PublicTerm | None = None
    minimiser: ArrayLike | None = None
    name: str = "problem"
    objective: EmpiricalRisk = field(init=False, repr=False)
    source: EmpiricalRisk | Population = field(init=False, repr=False)

    def __post_init__(self) -> None:
        instance("problem_class", self.problem_class, ProblemClass)
        loss: Any = declared_function("loss", "loss(w, x)", self.loss)
        facts = self.problem_class
        if self.shape is not None:
            loss = Shaped(loss, check_shape(self.shape, facts.dim))
        data = prepare(loss, self.data, dim=facts.dim, smoothness=facts.smoothness)
        counts, records = self.counts, int(jax.tree.leaves(data)[0].shape[0])
        if self.probabilities is not None:
            if counts is not None:
                raise ValueError("counts must be left out where probabilities are given")
            counts = self.problem_class.n * distribution(self.probabilities, records)
        elif counts is None and records != self.problem_class.n:
            raise ValueError(f"data must hold n = {self.problem_class.n} records, got {records}")
        elif counts is not None:
            counts = multiplicities(counts, records)
        constraint = declared_constraint(self.constraint, self.problem_class)
        public = None if self.public is None else declared_function("public", "r(w)", self.public)
        risk = EmpiricalRisk(loss, data, None, constraint, public=public)
        if counts is not None:
            require_countable(self.problem_class.n, risk.dtype)
            risk = replace(risk, counts=jnp.asarray(counts, risk.dtype))
        if self.start is not None:
            if self.shape is not None:
                raise ValueError("shape must be left out where start has one, got both")
            risk = replace(risk, origin=check_origin(self.start, self.problem_class.dim, risk))
        self._check_functions(risk)
        object.__setattr__(self, "constraint", constraint)
        object.__setattr__(self, "objective", risk)
        drawn = self.probabilities is not None
        object.__setattr__(
            self, "source", Population(risk, self.problem_class.n) if drawn else risk
        )

    def _check_functions(self, risk: EmpiricalRisk) -> None:
        """Check the signatures of ``loss`` and ``public`` on shapes, never on records."""
        point = risk.start(self.problem_class.dim)
        if risk.linear is None:  # else a scalar loss may have numbers of its own for each record
            record = jax.tree.map(
                lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), risk.data
            )
            check_scalar("loss", "loss(w, x) -> scalar", risk.loss, point, record)
        if risk.public is not None:
            check_scalar("public", "r(w) -> scalar", risk.public, point)

    def __repr__(self) -> str:
        facts = self.problem_class
        loss: Loss | ScalarLoss = self.objective.loss
        while isinstance(loss, Shaped | GeneralisedLinear):
            loss = loss.loss if isinstance(loss, Shaped) else loss.scalar
        given = loss.func if isinstance(loss, Partial) else loss
        named = getattr(given, "__name__", type(given).__name__)
        return (
            f"<Problem {self.name}: n = {facts.n}, dim = {facts.dim}, loss = {named}, "
            f"constraint = {type(self.constraint).__name__}, dtype = {self.objective.dtype}>"
        )

    def first(self, n: int) -> Problem:
        """The problem of the first ``n`` stored records; the others stay, at multiplicity 0.

        All ``n`` then share one compiled program. The problem must have no ``counts`` or
        ``probabilities``.
        """
        records = self.problem_class.n
        if self.counts is not None or self.probabilities is not None:
            raise ValueError(f"counts and probabilities must be left out, got them in {self.name}")
        if n > records:
            raise ValueError(f"n must be at most {records} for {self.name}, got {n}")
        return replace(
            self,
            problem_class=replace(self.problem_class, n=n),
            counts=(np.arange(records) < n).astype(int),
            minimiser=self.minimiser if n == records else None,
        )

    @property
    def measures(self) -> str:
        """Which risk ``risk`` and ``excess_risk`` are: ``"empirical"`` or ``"population"``."""
        return "empirical" if self.probabilities is None else "population"

    @property
    def certifiable(self) -> bool:
        """Whether there can be a :attr:`reference`: convex, and without ``start``."""
        return self.problem_class.convex and self.start is None

    @property
    def provides(self) -> frozenset[str]:
        """What algorithms may require beyond gradients and projection.

        ``"smoothing"``: a Moreau envelope. ``"linear_model"``: a loss of one linear prediction
        without kinks. ``"ball"``: a Euclidean ball. ``"mean"``: squared distances to points, so
        that the minimiser is their mean; ``"unit_modulus"``: of a modulus of at most 1.
        ``"squares"``: squared losses of linear predictions.
        """
        loss: Any = self.objective.loss
        linear = isinstance(loss, GeneralisedLinear)
        scalar = loss.scalar if linear else loss.loss if isinstance(loss, Shaped) else loss
        found = {"smoothing"} if hasattr(scalar, "smoothed") else set()
        if linear and math.isfinite(getattr(scalar, "curvature", math.inf)):
            found.add("linear_model")
        if linear and type(scalar) is Squared and not np.any(scalar.width):
            found.add("squares")
        if isinstance(self.objective.constraint, L2Ball):
            found.add("ball")
        if has_mean(self.objective):
            found |= {"mean", "unit_modulus"} if float(loss.modulus) <= 1.0 else {"mean"}
        return frozenset(found)

    @cached_property
    def reference(self) -> Reference:
        """The minimiser, its value and its certified gap; solved once, in float64.

        The solver aims at a gap of 1e-9 L R for losses of bounded curvature and 1e-6 L R at kinks;
        the gap it reaches is reported. For data that may be looked at: ValueError says how many
        records have losses that are not finite, and which is the first; or that the problem is not
        :attr:`certifiable`.
        """
        if not self.certifiable:
            raise ValueError(
                f"problem must be convex and without a start of its own to have a certified "
                f"optimum, got {self.name}"
            )
        with jax.enable_x64(True):
            risk = self.objective.astype(jnp.float64)
            found = None
            if has_mean(self.objective):
                found = projected_mean(risk)
            elif self.minimiser is not None:
                found = certified(risk, self.minimiser, self._tolerance)
            if found is None:
                smoothed = self._has_kinks and "smoothing" in self.provides
                found = solved(risk, self.problem_class, self._tolerance, smoothed=smoothed)
        return replace(found, minimiser=found.minimiser.reshape(self.shape or (-1,)))

    @property
    def _tolerance(self) -> float:
        radius = self.problem_class.radius
        scale = self.problem_class.lipschitz * (radius if math.isfinite(radius) else 1.0)
        return scale * (_NONSMOOTH_TOLERANCE if self._has_kinks else _SMOOTH_TOLERANCE)

    @property
    def _has_kinks(self) -> bool:
        loss = self.objective.loss
        if isinstance(loss, GeneralisedLinear):
            return math.isinf(loss.scalar.curvature)
        return self.problem_class.smoothness is None

    def risk(self, point: Pytree) -> NDArray[np.float64] | float:
        """``F(point)`` in float64 on the host; shape ``(..., dim)`` gives shape ``(...)``.

        The parameter's own ``shape`` takes the place of ``dim``. A parameter that is a pytree has
        the same leading axes on all leaves. Records enter as they are: one whose loss is NaN makes
        ``F`` NaN, while a run treats it as null.
        """
        with jax.enable_x64(True):
            risk = self.objective.astype(jnp.float64)
            axes, rows = (
                array_rows(point, self.shape or (self.problem_class.dim,))
                if self.start is None
                else tree_rows(point, self.start)
            )
            found = risks(risk, rows, math.prod(axes), self.problem_class.dim)
        return found.reshape(axes) if axes else float(found[0])

    def excess_risk(self, point: Pytree) -> NDArray[np.float64] | float:
        """``F(point) - reference.value`` in float64; shapes as for :meth:`risk`.

        The true excess over ``min_W F`` lies between this and this plus ``reference.gap``. For
        squared distances it is a closed form, whose error is relative to the excess itself where
        the set holds the mean of the records.
        """
        if not has_mean(self.objective):
            return self.risk(point) - self.reference.value
        axes, rows = array_rows(point, (self.problem_class.dim,))
        with jax.enable_x64(True):
            risk = self.objective.astype(jnp.float64)
            found = distance_rise(risk, self.reference.minimiser, rows).reshape(axes)
        return found if axes else float(found)

    def check(self) -> None:
        """Compare the declared class with the data, for research data that may be looked at.

        Algorithms never do this: an error that depends on data is a release. ``ValueError`` names
        every broken rule, how many of the stored records break it, and one of them: the first that
        is not finite or not of the loss's domain, or the worst against ``lipschitz``, ``sparsity``,
        ``smoothness`` or ``strong_convexity``. The comparison is exact for generalised linear
        losses; other losses are searched for a violation at random points of the constraint set.
        With denser records than declared the guarantee still holds, but no bound on the risk does.
        """
        loss, dim = self.objective.loss, self.problem_class.dim
        given = replace(self.objective, data=prepare(loss, self.data, dim=dim, smoothness=None))
        with jax.enable_x64(True):
            broken = examine(given.astype(jnp.float64), self.problem_class)
        if self.counts is not None:
            broken = [*examine_counts(np.asarray(self.counts), self.problem_class.n), *broken]
        if broken:
            raise ValueError("\n".join(broken))
