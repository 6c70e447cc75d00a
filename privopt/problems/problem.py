"""Problems (a loss, data and the declared problem class), populations and families of problems."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.tree_util import Partial
from jax.typing import ArrayLike, DTypeLike
from jaxtyping import Float64, Key

from privopt.arguments import WrongTypeError, described, instance, shown
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
    pytree_dataclass,
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


@pytree_dataclass
@dataclass(frozen=True)
class Population:
    """Population risk ``F_P(w) = sum_j p_j loss(w; x_j)``, with ``n`` independent samples per run.

    The risk is a finite sum, so its minimiser can be certified. ``risk`` is ``F_P`` with the
    expected multiplicities ``n p_j``.

    Examples
    --------
    >>> from privopt.problems import linear
    >>> from privopt.spec import ProblemClass
    >>> facts = ProblemClass(n=10, dim=1, lipschitz=1.0, radius=1.0)
    >>> problem = linear([[1.0], [-1.0]], probabilities=[0.75, 0.25], problem_class=facts)
    >>> sample = problem.source.sample(jax.random.key(0))
    >>> sample.counts.sum().item(), problem.risk(np.ones(1))
    (10.0, -0.5)
    """

    risk: EmpiricalRisk
    n: int = field(metadata={"static": True})

    @property
    def dtype(self) -> jnp.dtype:
        """Data type of the floating-point data."""
        return self.risk.dtype

    def astype(self, dtype: DTypeLike) -> Population:
        """Cast every floating-point array to ``dtype``."""
        return Population(self.risk.astype(dtype), self.n)

    def keys(self, key: Key[Array, ""]) -> tuple[Key[Array, ""], Key[Array, ""]]:
        """Return the key of the records and the key of the noise."""
        records, noise = jax.random.split(key)
        return records, noise

    def sample(self, key: Key[Array, ""] | None) -> EmpiricalRisk:
        """Return the empirical risk of ``n`` sampled records, with their multiplicities.

        The records are independent samples only if they are processed in random order.
        """
        assert key is not None
        assert self.risk.counts is not None
        cumulative = jnp.cumsum(self.risk.counts)
        uniform = jax.random.uniform(key, (self.n,), cumulative.dtype)
        indices = jnp.searchsorted(cumulative, uniform * cumulative[-1], side="right")
        counts = jnp.zeros_like(cumulative).at[indices].add(1.0, mode="drop")
        return replace(self.risk, counts=counts)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Problem:
    """Problem ``min_{w in W} F(w)`` with ``F(w) = (1/n) sum_i loss(w; x_i)``, or a population risk.

    Shapes, dtypes and probabilities that contradict ``problem_class`` raise. Values of records and
    counts never raise, because a message would release them. If counts are float32, ``n`` is at
    most ``2^24`` (``2^53`` in float64); this includes the counts of a sample.

    Parameters
    ----------
    loss
        ``loss(w, x_i) -> scalar``, written in JAX, convex in ``w``. If it is a pytree, its leaves
        are arguments of the compiled run; otherwise it is a constant of the program. Optional
        methods: see :class:`privopt.convex.Loss`.
    data
        Records along the leading axis of every leaf. Floating-point leaves share one dtype, in
        which a run computes. A generalised linear loss takes ``(features, labels)`` of shapes
        ``(records, dim)`` and ``(records,)``; features that exceed ``smoothness`` are shortened. A
        matrix of ``scipy.sparse`` becomes :class:`privopt.convex.SparseFeatures`; its memory is the
        length of the longest row times the number of records. Other losses receive single rows.
        Arrays sharded by ``jax.device_put`` along the first axis stay sharded: each device sums
        over its own records, and noise is sampled once.
    problem_class
        Declared, never estimated; :meth:`check` compares it with the data.
    constraint
        Default: the Euclidean ball of ``problem_class.radius`` about 0, or the whole space.
    counts
        Multiplicity of each stored record, with sum ``n``. Time and memory depend on the number of
        stored records only. Values are rounded; negative numbers and NaN become 0.
    probabilities
        Alternative to ``counts``. Every run samples ``n`` records from this distribution with its
        key, and risks are ``F_P(w) = sum_j p_j loss(w; x_j)``. Declared, hence not private.
    shape
        Shape of a parameter with several axes and ``dim`` entries in total. It applies to the loss,
        the release and the risks. Constraint sets, norms and constants refer to the vector of
        entries; a ball is a Frobenius ball.
    start
        Public starting point of an unconstrained problem: a pytree of arrays like the parameter,
        with the dtype of the data and ``dim`` entries in total. Default: the centre of the
        constraint set.
    public
        Term ``r(w) -> scalar``, written in JAX, that depends on public numbers only and is added to
        ``F``. Its gradient needs no noise. Algorithms that do not add it reject the problem.
    minimiser
        A known minimiser of ``F``. Its projection is certified; if that fails, ``F`` is minimised
        by a solver. Not used for squared distances.

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
                raise ValueError("counts must be left out if probabilities are given")
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
                raise ValueError("shape must be left out if there is a start, got both")
            risk = replace(risk, origin=check_origin(self.start, self.problem_class.dim, risk))
        self._check_functions(risk)
        object.__setattr__(self, "constraint", constraint)
        object.__setattr__(self, "objective", risk)

    @cached_property
    def source(self) -> EmpiricalRisk | Population:
        """Records of a run, with the norms of their features."""
        risk = self.objective.with_norms()
        sampled = self.probabilities is not None
        return Population(risk, self.problem_class.n) if sampled else risk

    def _check_functions(self, risk: EmpiricalRisk) -> None:
        """Check the signatures of ``loss`` and ``public`` on shapes, without reading records."""
        if risk.linear is not None and risk.public is None:
            return
        point = jax.eval_shape(partial(risk.start, self.problem_class.dim))
        if risk.linear is None:  # a scalar loss may have parameters for each record
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
        function = loss.func if isinstance(loss, Partial) else loss
        name = getattr(function, "__name__", type(function).__name__)
        return (
            f"<Problem {self.name}: n = {facts.n}, dim = {facts.dim}, loss = {name}, "
            f"constraint = {type(self.constraint).__name__}, dtype = {self.objective.dtype}>"
        )

    def first(self, n: int) -> Problem:
        """Return the problem of the first ``n`` stored records.

        The other records get multiplicity 0, so all ``n`` share one compiled program. The problem
        must have no ``counts`` or ``probabilities``.
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
        """Kind of the risk: ``"empirical"`` or ``"population"``."""
        return "empirical" if self.probabilities is None else "population"

    @property
    def certifiable(self) -> bool:
        """True if a :attr:`reference` can be computed: convex, and without ``start``."""
        return self.problem_class.convex and self.start is None

    @property
    def provides(self) -> frozenset[str]:
        """Properties that algorithms may require beyond gradients and projection.

        ``"smoothing"``: the loss has a Moreau envelope. ``"linear_model"``: a smooth loss of one
        linear prediction. ``"ball"``: the constraint set is a Euclidean ball. ``"mean"``: squared
        distances; the minimiser is the projected mean. ``"unit_modulus"``: squared distances
        with a modulus of at most 1. ``"squares"``: squared losses of linear predictions.
        """
        loss: Any = self.objective.loss
        linear = isinstance(loss, GeneralisedLinear)
        scalar = loss.scalar if linear else loss.loss if isinstance(loss, Shaped) else loss
        names = {"smoothing"} if hasattr(scalar, "smoothed") else set()
        if linear and math.isfinite(getattr(scalar, "curvature", math.inf)):
            names.add("linear_model")
        if linear and type(scalar) is Squared and not np.any(scalar.width):
            names.add("squares")
        if isinstance(self.objective.constraint, L2Ball):
            names.add("ball")
        if has_mean(self.objective):
            names |= {"mean", "unit_modulus"} if float(loss.modulus) <= 1.0 else {"mean"}
        return frozenset(names)

    @cached_property
    def reference(self) -> Reference:
        """Minimiser with its value and its certified gap, computed once in float64.

        The target gap is 1e-9 L R for losses of bounded curvature and 1e-6 L R for losses with
        kinks; the attained gap is reported. Only for data that may be inspected: if losses are not
        finite, ``ValueError`` reports the number of these records and the index of the first.
        ``ValueError`` also if the problem is not :attr:`certifiable`.
        """
        if not self.certifiable:
            raise ValueError(
                f"problem must be convex and without a start to have a certified optimum, "
                f"got {self.name}"
            )
        with jax.enable_x64(True):
            risk = self.objective.astype(jnp.float64)
            result = None
            if has_mean(self.objective):
                result = projected_mean(risk)
            elif self.minimiser is not None:
                result = certified(risk, self.minimiser, self._tolerance)
            if result is None:
                smoothed = self._has_kinks and "smoothing" in self.provides
                result = solved(risk, self.problem_class, self._tolerance, smoothed=smoothed)
        return replace(result, minimiser=result.minimiser.reshape(self.shape or (-1,)))

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

    def risk(self, point: Pytree) -> Float64[np.ndarray, "*points"] | float:
        """Compute ``F(point)`` in float64 on the host; shape ``(..., dim)`` gives shape ``(...)``.

        If the problem has a ``shape``, it replaces ``dim``. A pytree has the same leading axes on
        all leaves. Records are not corrected: a NaN loss makes ``F`` NaN, although a run treats the
        record as null.
        """
        with jax.enable_x64(True):
            risk = self.objective.astype(jnp.float64)
            axes, rows = (
                array_rows(point, self.shape or (self.problem_class.dim,))
                if self.start is None
                else tree_rows(point, self.start)
            )
            values = risks(risk, rows, math.prod(axes), self.problem_class.dim)
        return values.reshape(axes) if axes else float(values[0])

    def excess_risk(self, point: Pytree) -> Float64[np.ndarray, "*points"] | float:
        """Compute ``F(point) - reference.value`` in float64; shapes as for :meth:`risk`.

        The true excess over ``min_W F`` is at least the result and at most the result plus
        ``reference.gap``. Squared distances use a closed form. Its error is relative to the excess
        if the mean record is in the constraint set.
        """
        if not has_mean(self.objective):
            return self.risk(point) - self.reference.value
        axes, rows = array_rows(point, (self.problem_class.dim,))
        with jax.enable_x64(True):
            risk = self.objective.astype(jnp.float64)
            excess = distance_rise(risk, self.reference.minimiser, rows).reshape(axes)
        return excess if axes else float(excess)

    def check(self) -> None:
        """Compare the declared class with the data; only for data that may be inspected.

        Algorithms never call it, because an error that depends on data is a release. ``ValueError``
        lists every broken rule, the number of stored records that break it, and one of them: the
        first invalid record, or the worst for ``lipschitz``, ``sparsity``, ``smoothness`` and
        ``strong_convexity``. The comparison is exact for generalised linear losses. Other losses
        are evaluated at random points of the constraint set. If records are denser than declared,
        the guarantee still holds, but the bounds on the risk do not.
        """
        loss, dim = self.objective.loss, self.problem_class.dim
        risk = replace(self.objective, data=prepare(loss, self.data, dim=dim, smoothness=None))
        with jax.enable_x64(True):
            broken = examine(risk.astype(jnp.float64), self.problem_class)
        if self.counts is not None:
            broken = [*examine_counts(np.asarray(self.counts), self.problem_class.n), *broken]
        if broken:
            raise ValueError("\n".join(broken))


@dataclass(frozen=True)
class Family:
    """Problems of one kind, indexed by size. Experiments also accept user-defined families.

    The ``name`` has small letters, digits and underscores. The builder is ``build(n=, dim=,
    noise_ratio=, strength=) -> Problem``. The ``noise_ratio`` is the public number ``sqrt(dim) /
    (n mu)``. The ``strength`` is a free parameter; an experiment reports the worst case over
    ``strengths``. Families of sparse records also take ``sparsity=``, from the setting or the axis
    of the experiment. If every run must sample its own records, ``build`` returns the problem of a
    population. ``dim`` and ``max_n`` are the dimension and the largest size of real data, or None
    if any size is possible. A ``redrawn`` family samples a new data set from one distribution for
    every integer strength.

    Examples
    --------
    >>> from privopt.problems import FAMILIES
    >>> FAMILIES["linear"].build(n=100, dim=2, noise_ratio=0.1, strength=2.0)
    <Problem linear: n = 100, dim = 2, loss = Linear, constraint = L2Ball, dtype = float64>
    """

    name: str
    summary: str = ""
    build: Callable[..., Problem] = field(default=None)  # type: ignore[assignment]
    strengths: tuple[float, ...] = (1.0,)
    dim: int | None = None
    max_n: int | None = None
    redrawn: bool = False

    def __post_init__(self) -> None:
        if not callable(self.build):
            raise WrongTypeError(f"build must be a function, got {described(self.build)}")

    @property
    def hard(self) -> bool:
        """True for constructed families, False for real data."""
        return self.max_n is None

    @classmethod
    def of(cls, problem: Problem, summary: str = "") -> Family:
        """Return the family of one problem; size ``n`` means its first ``n`` records.

        The order of the records should be public and random, as in ``Dataset.subset``. The first
        records of a file sorted by label are another problem.
        """
        facts = instance("problem", problem, Problem).problem_class
        return cls(
            problem.name, summary, partial(first_records, problem), dim=facts.dim, max_n=facts.n
        )


def first_records(
    problem: Problem, *, n: int, dim: int, noise_ratio: float, strength: float
) -> Problem:
    """Return the problem of the first ``n`` records; all ``n`` have the same array shapes."""
    del noise_ratio, strength
    if dim != problem.problem_class.dim:
        raise ValueError(
            f"dim must be {problem.problem_class.dim} for {problem.name}, got {shown(dim)}"
        )
    return problem.first(n)
