"""Recommendation: default plans ranked by certified bound, with the nearest measured risks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from privopt.algorithms import ALGORITHMS
from privopt.arguments import checked, instance, positive_number
from privopt.comparison.losses import problem_class_of
from privopt.comparison.plans import Algorithms, plans, private_algorithms
from privopt.comparison.recorded import nearest_setting, read_measured
from privopt.core import Plan
from privopt.spec import Budget, ProblemClass, Relation
from privopt.theory import Quantity

N_RANGE = (10, 2_000_000_000)
EPSILON_RANGE = (1e-3, 100.0)

_TUNED = 2.0  # a default with more than this multiple of the oracle-tuned risk gets a remark
_CLOSE = 1.25  # a method without batches replaces the best one within this factor of its bound
_WORTH = 0.8  # an alternative is reported if it leaves at most this share of the best bound
_NEEDS = {
    "linear_model": "losses of one linear prediction",
    "smoothing": "losses with a Moreau envelope",
    "mean": "means of records",
    "squares": "squared losses of linear predictions",
}


@checked
def recommend(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    loss: str | None = None,
    algorithms: Algorithms = None,
    results: Path | str | None = None,
) -> pd.DataFrame:
    """Return the default plans of :func:`plans`, ranked by certified bound.

    Nothing is run and no data are read. A bound holds for the worst problem of the class. In
    recorded experiments the risk is 0.05 to 0.8 of it, depending on the method, so the order of the
    measured risks differs; both ranks are given. Bounds on different quantities are ranked
    separately.

    Parameters
    ----------
    problem_class : ProblemClass
        :func:`privopt.comparison.problem_class_of` returns the class of a named loss.
    budget : Budget
    loss : str, optional
        A name in :data:`privopt.comparison.LOSSES`. Methods that do not support it are refused, and
        recorded experiments with this loss come first. By default the requirements of a method on
        the loss are remarks.
    algorithms : iterable of str, or "all"
        Default: as for :func:`plans`.
    results : path, optional
        Folder of recorded experiments. Default: ``results`` or, if nothing is recorded there, the
        one that comes with the package.

    Returns
    -------
    DataFrame
        The columns of :func:`plans`, refused plans last, and: ``rank`` within a quantity;
        ``measured``, an estimate and no guarantee: the bound times the ratio of measured mean to
        bound in the nearest recorded experiment, missing for a vacuous bound; ``rank_measured``;
        ``remarks``; and ``nearest_experiment``, ``nearest_n``, ``nearest_ratio`` and so on, see
        :func:`privopt.comparison.recorded.nearest_setting`.

    Examples
    --------
    >>> import privopt
    >>> facts = privopt.ProblemClass(n=10**5, dim=100, lipschitz=1.0, radius=10.0, smoothness=0.25)
    >>> budget = privopt.Budget(epsilon=1.0, delta=1e-10, relation="replace_one")
    >>> table = recommend(facts, budget, algorithms=["dp_gd", "output_perturbation"])
    >>> table[["name", "bound"]].round(4).values.tolist()
    [['dp_gd', 0.0176], ['output_perturbation', 0.3427]]
    """
    table = plans(problem_class, budget, algorithms, loss=loss)
    recorded = read_measured(results)
    rows = []
    for _, row in table[table["refused"] == ""].iterrows():
        nearest = nearest_setting(row["plan"], recorded, loss) or {}
        vacuous = row["bound"] >= problem_class.lipschitz * problem_class.radius
        rows.append({
            **row,
            "measured": row["bound"] * nearest["ratio"] if nearest and not vacuous else math.nan,
            "remarks": _remarks(row["plan"], nearest, vacuous, known_loss=loss is not None),
            **{f"nearest_{name}": value for name, value in nearest.items()},
        })  # fmt: skip
    quantities = [each.value for each in Quantity]
    rows.sort(key=lambda row: (
        quantities.index(row["quantity"]), row["bound"], row["plan"].rate.uncapped, row["name"]
    ))  # fmt: skip
    columns = [*table, "measured", "remarks"]
    ranked = pd.DataFrame(rows) if rows else pd.DataFrame(columns=columns)
    by_quantity = ranked.groupby("quantity")
    ranked["rank"] = by_quantity.cumcount() + 1
    ranked["rank_measured"] = by_quantity["measured"].rank(method="first").astype("Int64")
    refused = table[table["refused"] != ""]
    return pd.concat([ranked, refused], ignore_index=True).astype({"rank": "Int64"})


def _remarks(
    plan: Plan, nearest: dict[str, Any], vacuous: bool, *, known_loss: bool
) -> tuple[str, ...]:
    needs = [] if known_loss else [_NEEDS[each] for each in sorted(plan.requires & _NEEDS.keys())]
    remarks = [f"only for {' and '.join(needs)}"] if needs else []
    if vacuous:
        remarks.append("vacuous: the bound is no smaller than that of the default output")
    if nearest and nearest["start_ratio"] >= 1.0:
        remarks.append("no better than the default output in its nearest experiment")
    if nearest and nearest["tuned_ratio"] > _TUNED:
        ratio = f"{nearest['tuned_ratio']:.2g}"
        remarks.append(f"{ratio} times the oracle-tuned risk in its nearest experiment")
    return tuple(remarks)


def representative(ranking: pd.DataFrame) -> pd.Series[Any] | None:
    """Return the best plan without batches if its bound is close to the best one, else the best.

    Noise of subsampled steps takes long to calibrate. Close is a bound within a quarter.
    """
    ranked = ranking[ranking["refused"] == ""]
    if not len(ranked):
        return None
    best = ranked.iloc[0]
    for _, row in ranked[ranked["quantity"] == best["quantity"]].iterrows():
        if not row["plan"].algorithm.gathers and row["bound"] <= _CLOSE * best["bound"]:
            return row
    return best


# --- sizes and budgets that reach a bound ---------------------------------------------------------


class Reach(NamedTuple):
    """The smallest numbers of two digits at which the bound of a replanned method is ``target``.

    ``n`` and ``epsilon`` change separately, at the same delta. None: no value in ``N_RANGE`` or
    ``EPSILON_RANGE`` suffices.
    """

    name: str
    target: float
    n: int | None
    epsilon: float | None


def reach(plan: Plan, target: float) -> Reach:
    """Return the smallest ``n`` and the smallest ``epsilon`` at which the bound is ``target``.

    Examples
    --------
    >>> import privopt
    >>> facts = privopt.ProblemClass(n=10**5, dim=100, lipschitz=1.0, radius=10.0, smoothness=0.25)
    >>> budget = privopt.Budget(epsilon=1.0, delta=1e-10, relation="replace_one")
    >>> reach(privopt.dp_gd(facts, budget), 0.01)
    Reach(name='dp_gd', target=0.01, n=180000, epsilon=1.9)
    """
    instance("plan", plan, Plan)
    target = positive_number("target", target)
    facts, budget, rate = plan.problem_class, plan.budget, plan.rate

    @cache
    def bound(n: float, epsilon: float) -> float:
        at = replace(facts, n=int(n)), replace(budget, epsilon=epsilon)
        try:
            return plan.algorithm.plan(*at).rate.upper
        except ValueError:
            return math.inf

    def search(
        bound_at: Callable[[float], float], now: float, slope: float, low: float, high: float
    ) -> float | None:
        """Start at the value that the local exponent predicts, corrected once."""
        guess, value = now, rate.uncapped
        for _ in range(2):
            if slope < -0.01 and math.isfinite(value):
                guess = min(max(guess * (target / value) ** (1.0 / slope), low), high)
            guess = _two_digits(_index(guess))
            value = bound_at(guess)
        return smallest(lambda x: bound_at(x) <= target, guess, low, high)

    n = search(lambda n: bound(n, budget.epsilon), facts.n, rate.slope("n"), *N_RANGE)
    epsilon = search(
        lambda epsilon: bound(facts.n, epsilon),
        budget.epsilon, rate.slope("epsilon"), *EPSILON_RANGE,
    )  # fmt: skip
    return Reach(plan.algorithm.name, target, None if n is None else int(n), epsilon)


def smallest(holds: Callable[[float], bool], guess: float, low: float, high: float) -> float | None:
    """Return the smallest number of two digits in ``[low, high]`` for which ``holds`` is True.

    ``holds`` is monotone. The result is None if ``holds(high)`` is False. Doubling steps from the
    guess find an interval that contains the answer, and bisection finds the answer.

    Examples
    --------
    >>> smallest(lambda x: x * x >= 2.0, guess=30.0, low=0.01, high=100.0)
    1.5
    """
    first, last = _index(low), _index(high)
    true = cache(lambda index: holds(_two_digits(index)))
    below = above = min(max(_index(guess), first), last)
    step = 1
    while true(below):
        if below == first:
            return _two_digits(first)
        above, below, step = below, max(below - step, first), 2 * step
    while not true(above):
        if above == last:
            return None
        below, above, step = above, min(above + step, last), 2 * step
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if true(middle) else (middle, above)
    return _two_digits(above)


def _two_digits(index: int) -> float:
    """Return the number with this index in ``..., 9.9, 10, 11, ..., 99, 100, 110, ...``; 10 is 0."""
    return float(f"{10 + index % 90}e{index // 90}")


def _index(value: float) -> int:
    """Return the index of the smallest number of two digits that is at least ``value``."""
    power = math.floor(math.log10(value)) - 1
    return 90 * power + math.ceil(value / 10.0**power - 1e-9) - 10


# --- other assumptions ----------------------------------------------------------------------------


def alternatives(ranking: pd.DataFrame, loss: str | None = None) -> pd.DataFrame:
    """Return assumptions that reduce the best bound of a ranking by at least a fifth.

    Planned are the method of :func:`representative` and methods without batches that have no bound
    in the ranking. ``loss`` is the argument of :func:`recommend`.

    Returns
    -------
    DataFrame
        ``assumption``; ``name`` of the best method under it; its ``bound``; and ``share``, the
        bound over the best bound of the ranking.
    """
    columns = ["assumption", "name", "bound", "share"]
    chosen = representative(ranking)
    if chosen is None:
        return pd.DataFrame(columns=columns)
    best = ranking.iloc[0]
    bounded = set(ranking.loc[ranking["refused"] == "", "name"])
    others = [name for name in private_algorithms() if not ALGORITHMS[name].gathers]
    names = [chosen["name"], *(name for name in others if name not in bounded)]
    rows = []
    for assumption, facts, budget in _assumptions(best["plan"], best["bound"], loss):
        table = plans(facts, budget, names, loss=loss)
        table = table[(table["refused"] == "") & (table["quantity"] == best["quantity"])]
        if len(table):
            bound, name = min(zip(table["bound"], table["name"], strict=True))
            rows.append((assumption, name, bound, bound / best["bound"]))
    return pd.DataFrame([row for row in rows if row[-1] <= _WORTH], columns=columns)


def _assumptions(
    plan: Plan, bound: float, loss: str | None
) -> list[tuple[str, ProblemClass, Budget]]:
    """Return assumptions in words, each with its problem class and budget."""
    facts, budget = plan.problem_class, plan.budget
    result: list[tuple[str, ProblemClass, Budget]] = []
    if math.isfinite(half := 0.5 * facts.radius):
        sizes: dict[str, Any] = {"n": facts.n, "dim": facts.dim, "sparsity": facts.sparsity}
        smaller = problem_class_of(loss, radius=half, **sizes) if loss else None
        text = f"a public bound |w| <= {half:g}"
        result.append((text, smaller or replace(facts, radius=half), budget))
    if budget.delta == 0.0:
        delta = 1.0 / facts.n**2
        result.append((f"delta = {delta:.3g} in place of 0", facts, replace(budget, delta=delta)))
    if facts.smoothness is None and math.isfinite(facts.lipschitz):
        # Rounding a kink over h costs L^2 h/2.
        smooth = float(f"{facts.lipschitz**2 / bound:.1g}")
        text = f"smoothness {smooth:g}, kinks rounded"
        result.append((text, replace(facts, smoothness=smooth), budget))
    if budget.relation is Relation.REPLACE_ONE:
        zero_out = replace(budget, relation=Relation.ZERO_OUT)
        result.append(("zero_out in place of replace_one", facts, zero_out))
    return result
