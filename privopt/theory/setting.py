"""Laws: rates as functions of a setting, and their crossovers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq

from privopt.arguments import member, positive_number
from privopt.spec import Budget, ProblemClass
from privopt.theory.rate import Rate

__all__ = ["Law", "Setting", "crossovers"]

_COUNTED = ("n", "dim", "sparsity")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The public numbers at which a law is evaluated.

    Parameters
    ----------
    problem_class : ProblemClass
    budget : Budget
    mu : float
        The Gaussian parameter of the budget, :func:`privopt.privacy.gaussian_mu`; for laws of pure
        privacy it plays no part.

    Examples
    --------
    >>> from privopt.spec import Relation
    >>> here = Setting(
    ...     problem_class=ProblemClass(n=1000, dim=20, lipschitz=1.0, radius=1.0),
    ...     budget=Budget(epsilon=1.0, delta=1e-6, relation=Relation.REPLACE_ONE), mu=0.25)
    >>> there = here.at(n=2000, epsilon=2.0)
    >>> there.problem_class.n, there.mu
    (2000, 0.5)
    """

    problem_class: ProblemClass
    budget: Budget
    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", positive_number("mu", self.mu))

    def at(self, **axes: float) -> Setting:
        """The setting with some numbers changed: ``epsilon``, or facts of the problem class.

        ``mu`` moves with ``epsilon``, at their fixed ratio. Counts are rounded.

        Raises
        ------
        ValueError
            If there is no such axis.
        """
        moved = self
        for axis, value in axes.items():
            if axis == "epsilon":
                budget = replace(moved.budget, epsilon=value)
                mu = moved.mu * value / moved.budget.epsilon
                moved = replace(moved, budget=budget, mu=mu)
            else:
                member("axis", axis, ["epsilon", *vars(self.problem_class)])
                number = max(1, round(value)) if axis in _COUNTED else value
                facts = replace(moved.problem_class, **{axis: number})  # type: ignore[arg-type]
                moved = replace(moved, problem_class=facts)
        return moved

    def value(self, axis: str) -> float:
        """The number on an axis.

        Raises
        ------
        ValueError
            If the class does not declare it.
        """
        found = getattr(self.budget if axis == "epsilon" else self.problem_class, axis)
        if found is None:
            raise ValueError(f"{axis} must be declared by the problem class, got None")
        return float(found)


Law = Callable[[Setting], Rate]


def crossovers(
    first: Law, second: Law, setting: Setting, axis: str, low: float, high: float
) -> tuple[float, ...]:
    """Where along an axis two bounds are equal: the roots of the logarithm of their ratio.

    Parameters
    ----------
    first, second : Law
    setting : Setting
        All other numbers.
    axis : str
        As for :meth:`Setting.at`.
    low, high : float
        The roots searched are between these, of which at least one is found wherever the two
        bounds change places between neighbours on a grid of 128 intervals. Exact up to the
        rounding of counts.

    Examples
    --------
    >>> from privopt.spec import Relation
    >>> from privopt.theory import SPARSE_ORDERS, only
    >>> here = Setting(
    ...     problem_class=ProblemClass(n=9, dim=64, lipschitz=1.0, radius=1.0, sparsity=4),
    ...     budget=Budget(epsilon=1.0, delta=1e-6, relation=Relation.REPLACE_ONE), mu=0.25)
    >>> law = SPARSE_ORDERS["mean, pure"].law()
    >>> (root,) = crossovers(only(law, "sparse"), only(law, "dense"), here, "n", 1, 1e3)
    >>> round(root, 2)
    15.5
    """

    def ratio(logarithm: float) -> float:
        there = setting.at(**{axis: math.exp(logarithm)})
        return math.log(first(there).upper / second(there).upper)

    grid = np.linspace(math.log(low), math.log(high), 129).tolist()
    apart = [(point, sign) for point in grid if (sign := ratio(point))]  # a root has none
    return tuple(
        math.exp(brentq(ratio, left[0], right[0], xtol=1e-10))
        for left, right in itertools.pairwise(apart)
        if left[1] * right[1] < 0.0
    )
