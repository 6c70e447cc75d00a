"""Default plans of all algorithms for one problem class and budget, and classes of named losses."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import pandas as pd

from privopt.algorithms import ALGORITHMS, gradient_descent
from privopt.arguments import checked, member, positive_number
from privopt.convex import Hinge, Huber, Linear, Logistic, ScalarLoss, Squared
from privopt.core import Plan
from privopt.core.running import REMEDIES
from privopt.spec import Budget, ProblemClass
from privopt.theory import Rate
from privopt.tuning import is_tuned

SLOW = ("bias_reduced_sgd", "dp_svrg")
"""Algorithms that compose batches of several sizes; calibration takes one to four seconds."""

_RATE = 1.5e9  # multiply-adds per second of one core
_STEP = 2e-5  # seconds of overhead per step
_PASSES = 100  # passes of a certified solver over the records

Algorithms = Iterable[str] | Literal["all"] | None

LOSSES: Mapping[str, ScalarLoss | None] = MappingProxyType(
    {
        "linear": Linear(),
        "logistic": Logistic(),
        "hinge": Hinge(),
        "squared": Squared(),
        "absolute": Huber(),
        "huber": Huber(0.1),
        "squared_distance": None,
    }
)
"""Losses of one linear prediction for ``|x| <= 1`` and ``|y| <= 1``; ``huber`` is rounded over 0.1.

``squared_distance`` is ``|w - x|^2/2``, a loss of no prediction; its minimiser is the mean.
"""


def problem_class_of(
    loss: str, *, n: int, dim: int, radius: float, sparsity: int | None = None
) -> ProblemClass:
    """Return the class of a named loss for ``|x| <= 1``, ``|y| <= 1`` and ``|w| <= radius``.

    ``L`` and ``H`` are the largest slope and curvature in the prediction. The slope of a squared
    loss on the ball is ``R + 1``. ``sparsity`` is the number of non-zero features; gradients
    inherit it.

    Examples
    --------
    >>> facts = problem_class_of("squared", n=1000, dim=5, radius=2.0)
    >>> facts.lipschitz, facts.smoothness
    (3.0, 1.0)
    """
    member("loss", loss, LOSSES)
    radius, scalar = positive_number("radius", radius), LOSSES[loss]
    slope = math.inf if scalar is None else scalar.slope_bound
    curvature = 1.0 if scalar is None else scalar.curvature
    return ProblemClass(
        n=n,
        dim=dim,
        lipschitz=slope if math.isfinite(slope) else radius + 1.0,
        radius=radius,
        smoothness=curvature if math.isfinite(curvature) else None,
        strong_convexity=1.0 if scalar is None else 0.0,
        sparsity=sparsity,
    )


def provided(loss: str, problem_class: ProblemClass) -> frozenset[str]:
    """Return :attr:`Problem.provides` of problems with this loss."""
    if LOSSES[loss] is None:
        return frozenset({"ball", "mean", "unit_modulus"})
    features = {"ball", "smoothing"}
    if problem_class.smoothness is not None:
        features.add("linear_model")
    if isinstance(LOSSES[loss], Squared):
        features.add("squares")
    return frozenset(features)


@checked
def plans(
    problem_class: ProblemClass,
    budget: Budget,
    algorithms: Algorithms = None,
    *,
    loss: str | None = None,
) -> pd.DataFrame:
    """Return the default plans of all private algorithms, one row per algorithm.

    No algorithm is run and no data are read.

    Parameters
    ----------
    problem_class : ProblemClass
        :func:`privopt.comparison.problem_class_of` returns the class of a named loss.
    budget : Budget
    algorithms : iterable of str, or "all"
        Default: all private algorithms without those in ``SLOW``, which take one to four seconds.
    loss : str, optional
        A name in :data:`privopt.comparison.LOSSES`. Algorithms that do not support it are refused.
        Without it, an algorithm with a bound for a part of the class only is refused.

    Returns
    -------
    DataFrame
        ``name``; ``plan``, or None; ``bound`` on ``quantity``, with constants, infinite if there is
        none; ``steps``, missing for methods that call a solver; ``seconds`` and ``memory`` of a
        run, see :func:`cost_of`; ``refused``: the reason why there is no plan or no bound, or an
        empty string.

    Examples
    --------
    >>> import privopt
    >>> facts = privopt.ProblemClass(n=10**5, dim=100, lipschitz=1.0, radius=10.0, smoothness=0.25)
    >>> budget = privopt.Budget(epsilon=1.0, delta=1e-10, relation="replace_one")
    >>> table = plans(facts, budget, ["dp_gd", "l1_recovery"])
    >>> table[["name", "bound", "steps", "refused"]].round(4).to_dict("records")[0]
    {'name': 'dp_gd', 'bound': 0.0176, 'steps': 2131, 'refused': ''}
    """
    if loss is not None:
        member("loss", loss, LOSSES)
    features = None if loss is None else provided(loss, problem_class)
    rows = [
        {"name": name, **_row(name, problem_class, budget, features)} for name in _names(algorithms)
    ]
    if algorithms is None:
        rows += [
            {"name": name, "refused": 'calibration takes seconds: algorithms="all"'}
            for name in SLOW
        ]
    columns = ["name", "plan", "bound", "quantity", "steps", "seconds", "memory", "refused"]
    table = pd.DataFrame(rows, columns=columns)
    table["plan"] = table["plan"].astype(object).where(table["plan"].notna(), None)
    return table.astype({"steps": "Int64", "bound": float}).fillna({"bound": math.inf})


def private_algorithms() -> tuple[str, ...]:
    """Return the names of all private algorithms that are not results of :func:`tuned`."""
    return tuple(name for name, each in ALGORITHMS.items() if each.private and not is_tuned(each))


def _names(algorithms: Algorithms) -> tuple[str, ...]:
    private = private_algorithms()
    if algorithms is None:
        return tuple(name for name in private if name not in SLOW)
    if isinstance(algorithms, str) and algorithms == "all":
        return private
    names = tuple(algorithms)
    for name in names:
        member("algorithms", name, private)
    return tuple(dict.fromkeys(names))


def _row(
    name: str, problem_class: ProblemClass, budget: Budget, features: frozenset[str] | None
) -> dict[str, object]:
    try:
        plan = ALGORITHMS[name].plan(problem_class, budget)
    except ValueError as error:
        return {"refused": str(error)}
    if features is not None and (missing := sorted(plan.requires - features)):
        return {"refused": "; ".join(f"needs {each}: {REMEDIES[each]}" for each in missing)}
    if features is None and not plan.rate.whole_class:
        needs = ", ".join(sorted(plan.requires))
        return {"refused": f"its bound is for problems that provide {needs}"}
    row = {"plan": plan, "quantity": plan.rate.quantity.value, **cost_of(plan)._asdict()}
    if not plan.rate.terms:
        return {**row, "refused": f"no bound: {plan.rate.theorem.removeprefix('none: ')}"}
    return {**row, "bound": plan.rate.upper, "refused": ""}


def without_privacy(problem_class: ProblemClass, budget: Budget) -> Rate:
    """Return the rate of gradient descent without noise on the same problem class."""
    return gradient_descent(problem_class, budget).rate


class Cost(NamedTuple):
    """Forecast cost of one run: steps (None with a solver), seconds, and bytes of the records."""

    steps: int | None
    seconds: float
    memory: float


def cost_of(plan: Plan) -> Cost:
    """Return ``T (20 us + (b s + d)/1.5e9 s)`` for ``b`` rows of ``s`` numbers in each step.

    The memory is that of ``n s`` numbers. A one-shot method counts as 100 passes over all records.
    The forecast is right within a factor of about four on one core, without compilation.

    Examples
    --------
    >>> import privopt
    >>> facts = privopt.ProblemClass(n=1500, dim=100, lipschitz=1.0, radius=1.0)
    >>> budget = privopt.Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> cost = cost_of(privopt.dp_gd(facts, budget, steps=1000))
    >>> cost.steps, round(cost.seconds, 3), cost.memory
    (1000, 0.12, 600000)
    """
    facts, algorithm, params = plan.problem_class, plan.algorithm, plan.params
    row = facts.sparsity or facts.dim
    steps = algorithm.step_count(plan.static, params) if algorithm.step_count else None
    repetitions, rows = (_PASSES, float(facts.n)) if steps is None else (steps, _rows(plan))
    seconds = repetitions * (_STEP + (rows * row + facts.dim) / _RATE)
    return Cost(steps, seconds, facts.n * row * (8 if algorithm.float64 else 4))


def _rows(plan: Plan) -> float:
    """Return the mean number of rows that a step reads, padding included."""
    params: Any = plan.params
    mechanism, n = params.mechanism, plan.problem_class.n
    batches: Any = getattr(mechanism, "batches", None)
    if hasattr(mechanism, "period"):  # differences at two points, and all records at an anchor
        return float(2.0 * batches.capacity + n / mechanism.period)
    if batches is not None:
        return float(getattr(batches, "capacity", getattr(batches, "batch_size", n)))
    if hasattr(mechanism, "law"):  # a level of probability 2^-k has 2^k times the rows
        return float(2.0 * mechanism.base * (mechanism.law.highest + 1))
    return 1.0
