"""What is measured of a run: a registry, which is the one place to add a quantity.

Names are those of ``Rate.quantity``: a bound is compared with what it speaks of and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from numpy.typing import NDArray

from privopt.convex import EmpiricalRisk, Observer
from privopt.convex.arrays import two_sum
from privopt.core import Plan, Run
from privopt.mechanisms import BatchMean
from privopt.problems import Problem
from privopt.release import Pytree
from privopt.theory import Rate

_Floats = NDArray[np.float64]


class Played(NamedTuple):
    """``sum_t f_t(w_t)``, as a sum and what rounding has taken from it.

    Where all records take part, ``taken`` is the number of steps and ``places`` is 1.
    """

    total: Array
    missing: Array  # the two together are the sum of the losses
    taken: Array  # records, in all batches together
    places: Array  # for records, in a batch


class StreamLosses(NamedTuple):
    """An observer of ``sum_t f_t(w_t)``, ``f_t(w) = (1/b) sum_{i in B_t} loss(w; x_i)``.

    ``w_t`` is the point before step ``t``, and ``b`` how many places a batch has: the mean loss of
    a batch that is full. The sum is compensated, so that a million steps of float32 lose nothing
    but one rounding. It reads the data without noise and is never to be published.

    What comes of it is ``Run.secret.observed``, a :class:`Played`.

    Examples
    --------
    >>> import jax
    >>> import numpy as np
    >>> import privopt
    >>> facts = privopt.ProblemClass(n=50, dim=2, lipschitz=1.0, radius=1.0)
    >>> budget = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
    >>> plan = privopt.dp_gd(facts, budget, steps=3)
    >>> where = privopt.problems.distance(np.ones((50, 2)) / 2, problem_class=facts)
    >>> execution = privopt.core.Execution(observer=StreamLosses())
    >>> found = privopt.core.run(plan, where, jax.random.key(0), execution=execution)
    >>> played = found.secret.observed
    >>> bool(played.total > 0.0), played.taken.item(), played.places.item()
    (True, 3, 1)
    """

    def init(self, point: Pytree, secret: EmpiricalRisk) -> Played:
        """Nothing played yet."""
        del point
        none, count = jnp.zeros((), secret.dtype), jnp.zeros((), jnp.int32)
        return Played(none, none, count, count)

    def update(self, state: Played, t: Array, point: Pytree, secret: BatchMean) -> Played:
        """The loss of batch ``t`` added."""
        del t
        loss, taken, places = _batch_loss(secret, point)
        total, lost = two_sum(state.total, loss)
        return Played(total, state.missing + lost, state.taken + taken, jnp.int32(places))


def _batch_loss(seen: BatchMean, point: Pytree) -> tuple[Array, Array | int, int]:
    """``f_t``, how many records are in the batch, and for how many it has places."""
    risk = seen.losses
    if seen.batch is None:
        return risk.value(point), 1, 1
    numbers, taken = seen.batch
    rows, there = risk.rows_by_number()(numbers)
    taken = taken & there
    losses, places = risk.losses(point, rows), rows.shape[0]
    return jnp.where(taken, losses, 0.0).sum() / places, taken.sum(dtype=jnp.int32), places


class Reference(NamedTuple):
    """What a quantity is measured from, and how far that may lie above the true optimum."""

    value: float
    gap: float


def _once(plan: Plan) -> float:
    """Of what is no sum over the steps of a run."""
    del plan
    return 1.0


class Quantity(NamedTuple):
    """A quantity that theorems bound."""

    name: str
    label: str  # at an axis of a figure
    known: Callable[[Problem], bool]  # whether it can be measured there
    at: Callable[[Problem, ArrayLike], _Floats | float]  # one number a point, in float64
    reference: Callable[[Problem], Reference]  # what ``at`` has subtracted already
    rounds: Callable[[Plan], float] = (
        _once  # of a sum over steps, how often a point that is held counts
    )
    observer: Observer | None = None  # where a quantity is not one of the released point
    played: Callable[[Problem, Run], _Floats] | None = (
        None  # one number a run, of the observer's state
    )

    def measure(self, problem: Problem, run: Run) -> _Floats | float:
        """One number a run, in float64."""
        return self.at(problem, run.released) if self.played is None else self.played(problem, run)


def _optimum(problem: Problem) -> Reference:
    return Reference(float(problem.reference.value), float(problem.reference.gap))


def _risk(name: str, label: str) -> Quantity:
    """An excess risk, over the certified optimum of the problem."""
    return Quantity(
        name=f"{name} risk",
        label=label,
        known=lambda problem: problem.measures == name and problem.certifiable,
        at=lambda problem, points: problem.excess_risk(points),
        reference=_optimum,
    )


def _gradient_norm(problem: Problem, points: ArrayLike) -> _Floats:
    """``|grad F(w)|`` of every point."""
    with jax.enable_x64(True):
        risk = problem.objective.astype(jnp.float64)
        rows = jnp.asarray(points, jnp.float64).reshape(-1, problem.problem_class.dim)
        norms = jax.lax.map(lambda point: jnp.linalg.norm(jax.grad(risk.value)(point)), rows)
        return np.asarray(norms)


def _rounds(plan: Plan) -> float:
    """``sum_t f_t = rounds F``: passes times ``n/b``."""
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
    """``sum_t f_t(w_t) - (rounds) min F``, of passes over all records."""
    total, missing, taken, places = (
        np.asarray(leaf, np.float64).ravel() for leaf in run.secret.observed
    )
    rounds = taken / np.where(places > 1.0, places, 1.0)
    return (total - rounds * problem.reference.value) + missing


QUANTITIES = {
    quantity.name: quantity
    for quantity in (
        _risk("empirical", "excess risk"),
        _risk("population", "excess population risk"),
        Quantity(
            name="gradient norm",
            label="norm of the gradient",
            known=lambda problem: problem.start is None,
            at=_gradient_norm,
            reference=lambda problem: Reference(0.0, 0.0),
        ),
        Quantity(
            name="regret",
            label="regret",
            known=lambda problem: problem.measures == "empirical" and problem.start is None,
            at=lambda problem, points: problem.excess_risk(points),
            reference=_optimum,
            rounds=_rounds,
            observer=StreamLosses(),
            played=_regret,
        ),
    )
}
"""By name. A regret is measured where the records are given: the best point in hindsight is then
the certified minimiser, the same for every run."""


def quantity_of(problem: Problem, rate: Rate) -> Quantity:
    """What is measured there: what the rate speaks of, else the risk of the problem.

    Of a rate that speaks of something else nothing can be refuted or borne out.
    """
    spoken_of = QUANTITIES.get(rate.quantity)
    if spoken_of is not None and spoken_of.known(problem):
        return spoken_of
    return next(each for each in QUANTITIES.values() if each.known(problem))
