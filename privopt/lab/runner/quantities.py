"""Registries of measured quantities, of exact expected values, and of hard families.

Quantities have the names of ``Rate.quantity``. A bound is compared with its own quantity only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from numpy.typing import NDArray

from privopt.algorithms.descent_rates import is_plain, output_rule, step_rule
from privopt.convex import EmpiricalRisk, Observer, WholeSpace
from privopt.convex.arrays import two_sum
from privopt.core import Plan, Run
from privopt.mechanisms import AllRecords, BatchMean, GaussianMechanism, IndependentNoise
from privopt.problems import Problem
from privopt.release import Pytree
from privopt.theory import (
    OutputRule,
    RadialLoss,
    Rate,
    gaussian_perturbation,
    gibbs_draw,
    noisy_descent_on_squares,
    norm_laplace_perturbation,
)

_Floats = NDArray[np.float64]


class Played(NamedTuple):
    """The compensated sum ``sum_t f_t(w_t) = total + missing``.

    If every step uses all records, ``taken`` is the number of steps and ``places`` is 1.
    """

    total: Array
    missing: Array  # rounding error of the total
    taken: Array  # total number of sampled records
    places: Array  # capacity of a batch


class StreamLosses(NamedTuple):
    """An observer of ``sum_t f_t(w_t)``, ``f_t(w) = (1/b) sum_{i in B_t} loss(w; x_i)``.

    ``w_t`` is the point before step ``t``, and ``b`` the capacity of a batch. The sum is
    compensated: a million steps in float32 have the error of one rounding. It depends on the data
    without noise and must not be published.

    The result is ``Run.secret.observed``, a :class:`Played`.

    Examples
    --------
    >>> import jax
    >>> import numpy as np
    >>> import privopt
    >>> facts = privopt.ProblemClass(n=50, dim=2, lipschitz=1.0, radius=1.0)
    >>> budget = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
    >>> plan = privopt.dp_gd(facts, budget, steps=3)
    >>> problem = privopt.problems.distance(np.ones((50, 2)) / 2, problem_class=facts)
    >>> execution = privopt.core.Execution(observer=StreamLosses())
    >>> run = privopt.core.run(plan, problem, jax.random.key(0), execution=execution)
    >>> played = run.secret.observed
    >>> bool(played.total > 0.0), played.taken.item(), played.places.item()
    (True, 3, 1)
    """

    def init(self, point: Pytree, secret: EmpiricalRisk) -> Played:
        """Return the empty sum."""
        del point
        zero, count = jnp.zeros((), secret.dtype), jnp.zeros((), jnp.int32)
        return Played(zero, zero, count, count)

    def update(self, state: Played, t: Array, point: Pytree, secret: BatchMean) -> Played:
        """Add the loss of batch ``t``."""
        del t
        loss, count, places = _batch_loss(secret, point)
        total, error = two_sum(state.total, loss)
        return Played(total, state.missing + error, state.taken + count, jnp.int32(places))


def _batch_loss(mean: BatchMean, point: Pytree) -> tuple[Array, Array | int, int]:
    """Return ``f_t``, the number of records in the batch, and its capacity."""
    risk = mean.losses
    if mean.batch is None:
        return risk.value(point), 1, 1
    numbers, sampled = mean.batch
    rows, present = risk.rows_by_number()(numbers)
    mask = sampled & present
    losses, places = risk.losses(point, rows), rows.shape[0]
    return jnp.where(mask, losses, 0.0).sum() / places, mask.sum(dtype=jnp.int32), places


class Reference(NamedTuple):
    """Value that a quantity is measured from, and its largest distance from the true optimum."""

    value: float
    gap: float


class Quantity(NamedTuple):
    """A quantity that theorems bound."""

    name: str
    label: str  # of an axis in figures
    is_measurable: Callable[[Problem], bool]
    at: Callable[[Problem, ArrayLike], _Floats | float]  # one number per point, in float64
    reference: Callable[[Problem], Reference]  # ``at`` has subtracted its value
    rounds: Callable[[Plan], float] = lambda plan: 1.0  # weight of a fixed point in a sum of steps
    observer: Observer | None = None  # if the quantity depends on more than the released point
    played: Callable[[Problem, Run], _Floats] | None = None  # from the state of the observer

    def measure(self, problem: Problem, run: Run) -> _Floats | float:
        """Return one number per run, in float64."""
        return self.at(problem, run.released) if self.played is None else self.played(problem, run)


def _optimum(problem: Problem) -> Reference:
    return Reference(float(problem.reference.value), float(problem.reference.gap))


def _risk(name: str, label: str) -> Quantity:
    """Return the excess over the certified optimum of the problem."""
    return Quantity(
        name=f"{name} risk",
        label=label,
        is_measurable=lambda problem: problem.measures == name and problem.certifiable,
        at=lambda problem, points: problem.excess_risk(points),
        reference=_optimum,
    )


def _gradient_norm(problem: Problem, points: ArrayLike) -> _Floats:
    """Return ``|grad F(w)|`` of every point."""
    with jax.enable_x64(True):
        risk = problem.objective.astype(jnp.float64)
        rows = jnp.asarray(points, jnp.float64).reshape(-1, problem.problem_class.dim)
        norms = jax.lax.map(lambda point: jnp.linalg.norm(jax.grad(risk.value)(point)), rows)
        return np.asarray(norms)


def _rounds(plan: Plan) -> float:
    """Return passes times ``n/b``; for a fixed point ``sum_t f_t = rounds F``."""
    mechanism: Any = plan.params.mechanism
    size, batches = plan.problem_class.n, mechanism.batches
    times, gap, even = batches.participation(mechanism.steps, plan.budget.relation)
    if not even or times * gap != mechanism.steps:
        raise ValueError(
            "steps must be whole passes over the records in one order for a regret, got "
            f"{mechanism.steps} steps of which a record is in {times} at most"
        )
    return times * size / batches.divisor(size)


def _regret(problem: Problem, run: Run) -> _Floats:
    """Return ``sum_t f_t(w_t) - rounds min F`` of passes over all records."""
    total, missing, count, places = (
        np.asarray(leaf, np.float64).ravel() for leaf in run.secret.observed
    )
    rounds = count / np.where(places > 1.0, places, 1.0)
    return (total - rounds * problem.reference.value) + missing


QUANTITIES = {
    quantity.name: quantity
    for quantity in (
        _risk("empirical", "excess risk"),
        _risk("population", "excess population risk"),
        Quantity(
            name="gradient norm",
            label="norm of the gradient",
            is_measurable=lambda problem: problem.start is None,
            at=_gradient_norm,
            reference=lambda problem: Reference(0.0, 0.0),
        ),
        Quantity(
            name="regret",
            label="regret",
            is_measurable=lambda problem: problem.measures == "empirical" and problem.start is None,
            at=lambda problem, points: problem.excess_risk(points),
            reference=_optimum,
            rounds=_rounds,
            observer=StreamLosses(),
            played=_regret,
        ),
    )
}
"""Quantities by name. A regret needs given records: the best point in hindsight is then the
certified minimiser, the same for every run."""


def quantity_of(problem: Problem, rate: Rate) -> Quantity:
    """Return the quantity of the rate if it can be measured, otherwise the risk of the problem.

    Measurements of another quantity neither refute nor confirm the rate.
    """
    bounded = QUANTITIES.get(rate.quantity)
    if bounded is not None and bounded.is_measurable(problem):
        return bounded
    return next(each for each in QUANTITIES.values() if each.is_measurable(problem))


# --- exact expected values ------------------------------------------------------------------------

FiniteSizeLaw: TypeAlias = Callable[[Plan, RadialLoss], float | None]


def law_of(plan: Plan, family_name: str, strength: float) -> float | None:
    """Return the exact expected value of a run at finite size, or None if no formula is known.

    The value depends on the noise of the plan, also for a control. It tests the code, not a
    theorem.
    """
    law = LAWS.get((plan.algorithm.name, family_name))
    return None if law is None else law(plan, _LOSSES[family_name](plan, strength))


def _output_perturbation(plan: Plan, loss: RadialLoss) -> float:
    # The minimiser is the centre, with any regulariser: the release is the noise.
    mechanism, dim = _mechanism(plan), plan.problem_class.dim
    gaussian = isinstance(mechanism, GaussianMechanism)
    perturbation = gaussian_perturbation if gaussian else norm_laplace_perturbation
    return perturbation(loss, dim=dim, scale=mechanism.scale)


def _exponential_mechanism(plan: Plan, loss: RadialLoss) -> float:
    # The sampler rounds each loss to ``2^-20`` of a temperature; the law neglects it.
    mechanism = _mechanism(plan)
    return gibbs_draw(
        loss,
        dim=plan.problem_class.dim,
        temperature=mechanism.temperature,
        regularisation=mechanism.regularisation,
    )


def _dp_gd(plan: Plan, loss: RadialLoss) -> float | None:
    # The formula needs plain descent with independent noise and without clipping.
    params: Any = plan.params
    mechanism, method = params
    query = mechanism.query
    is_covered = (
        isinstance(mechanism.noise, IndependentNoise)
        and isinstance(mechanism.batches, AllRecords)
        and mechanism.post is None
        and query.gamma is None
        and query.clip_norm >= loss.curvature * loss.radius
        and is_plain(method.update)
    )
    steps = int(mechanism.steps)
    weights = _weights(output_rule(method.output), steps)
    if not is_covered or weights is None:
        return None
    sizes, times = step_rule(method.step_sizes), np.arange(1.0, steps + 1.0)
    decay = 1.0 - sizes.decay * (times - 1.0) / steps
    return noisy_descent_on_squares(
        loss,
        dim=plan.problem_class.dim,
        noise_std=mechanism.scale,
        step_sizes=sizes.scale * (times + sizes.offset) ** -sizes.power * decay,
        weights=weights,
    )


def _raw_mean(plan: Plan, loss: RadialLoss) -> float | None:
    # The risk of the unprojected mean is the variance of its noise, for any minimiser.
    mechanism, dim = _mechanism(plan), plan.problem_class.dim
    if not isinstance(mechanism.body, WholeSpace):
        return None
    return 0.5 * loss.curvature * float(mechanism.noisy.noise_square(dim))


def _weights(output: OutputRule | None, steps: int) -> _Floats | None:
    """Return the weights ``a_1 .. a_{T+1}`` of an output rule that is a fixed mean."""
    times = np.arange(1.0, steps + 2.0)
    weights = {
        OutputRule.AVERAGE: np.ones(steps + 1),
        OutputRule.AVERAGE_AFTER_STEP: 1.0 * (times > 1.0),
        OutputRule.WEIGHTED_AVERAGE: times,
        OutputRule.LAST: 1.0 * (times > steps),
    }
    if output not in weights:
        return None
    return np.asarray(weights[output] / weights[output].sum(), np.float64)


def _mechanism(plan: Plan) -> Any:
    return plan.params.mechanism


def _radius(plan: Plan) -> float:
    return plan.problem_class.radius


def _square(plan: Plan, strength: float) -> RadialLoss:
    del strength
    return RadialLoss(0.0, 1.0, _radius(plan))


_CENTRED: Mapping[str, Callable[[Plan, float], RadialLoss]] = MappingProxyType(
    {
        "distance": lambda plan, _: RadialLoss(1.0, 0.0, _radius(plan)),
        "regularised_distance": lambda plan, m: RadialLoss(1.0, m, _radius(plan)),
        "squared_distance": _square,
    }
)
_LOSSES = MappingProxyType({**_CENTRED, "sparse_silence": _square})

LAWS: Mapping[tuple[str, str], FiniteSizeLaw] = MappingProxyType(
    {
        **{("output_perturbation", family): _output_perturbation for family in _CENTRED},
        ("projection_mechanism", "sparse_silence"): _raw_mean,
        ("exponential_mechanism", "distance"): _exponential_mechanism,
        ("dp_gd", "squared_distance"): _dp_gd,
    }
)
"""Laws by the names of algorithm and family; other pairs have no closed formula."""


# --- hard families --------------------------------------------------------------------------------

_APPROXIMATE, _PURE = "approximate", "pure"
_HARD = {
    "linear": {_APPROXIMATE, _PURE},
    "linear_population": {_APPROXIMATE, _PURE},
    "medians": {_APPROXIMATE},
    "rounded_medians": {_APPROXIMATE, _PURE},
    "huber": {_APPROXIMATE, _PURE},
    "sparse_linear": {_APPROXIMATE},
    "sparse_copies": {_APPROXIMATE},
    "sparse_fingerprints": {_APPROXIMATE},
    "sparse_packing": {_PURE},
    "distance": {_PURE},
}


def is_minimax(family: str, *, pure: bool) -> bool:
    """Return True if the lower bounds of :mod:`privopt.theory` hold on a family.

    A lower bound is proved for hard data: hidden signs and fingerprints, and packings for pure
    differential privacy. It holds on a family of such data up to a rotation or a permutation of
    signs, to which every method of privopt is equivariant: linear losses with a weak pull, medians
    with a small surplus, blocks of sparse records. The largest bound of a class can be that of
    other data, such as hidden points, and still be drawn on these families.

    On other problems the risk can be below it. Data sets of equal records are easy under
    (epsilon, delta)-differential privacy; under pure differential privacy they are the packing of
    distances.

    Examples
    --------
    >>> is_minimax("distance", pure=True), is_minimax("distance", pure=False)
    (True, False)
    """
    return (_PURE if pure else _APPROXIMATE) in _HARD.get(family, ())
