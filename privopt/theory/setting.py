"""Laws: rates as functions of a setting, their crossovers, and orders without constants."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq

from privopt.arguments import checked, member, positive_number
from privopt.spec import Budget, ProblemClass
from privopt.theory.rate import Powers, Rate

_COUNTED = ("n", "dim", "sparsity")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """The public numbers at which a law is evaluated.

    ``mu`` is the Gaussian parameter of the budget, :func:`privopt.privacy.gaussian_mu`.
    """

    problem_class: ProblemClass
    budget: Budget
    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", positive_number("mu", self.mu))

    def at(self, **axes: float) -> Setting:
        """The setting with some numbers changed: ``epsilon``, or facts of the problem class.

        ``mu`` moves with ``epsilon``, at their fixed ratio. Counts are rounded.
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


Law = Callable[[Setting], Rate]


@checked
def crossovers(
    first: Law, second: Law, setting: Setting, axis: str, low: float, high: float
) -> tuple[float, ...]:
    """Where along an axis two bounds are equal: the roots of the logarithm of their ratio.

    The ``axis`` is as for :meth:`Setting.at`; all other numbers are those of the setting. A root
    between ``low`` and ``high`` is found wherever the order of the two bounds differs between
    neighbours on a grid of 128 intervals. Exact up to the rounding of counts.

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


@dataclass(frozen=True, kw_only=True)
class Order:
    """``(n epsilon)^a n^b s^c d^e`` and powers of logarithms, each at least 1.

    ``budget`` is the power of ``n epsilon``; ``log_sparse`` and ``log_hidden`` are those of
    ``ln(d/s)`` and ``ln(d/(n epsilon))``.
    """

    budget: float = 0.0
    n: float = 0.0
    sparsity: float = 0.0
    dim: float = 0.0
    log_n: float = 0.0
    log_dim: float = 0.0
    log_delta: float = 0.0
    log_sparse: float = 0.0
    log_hidden: float = 0.0

    def __pow__(self, power: float) -> Order:
        return Order(**{name: power * value + 0.0 for name, value in vars(self).items()})

    def __mul__(self, other: Order) -> Order:
        return Order(**{name: x + getattr(other, name) for name, x in vars(self).items()})

    def crossing(self, other: Order) -> Order:
        """The ``n epsilon`` at which the two are equal, as an order of the other numbers.

        Logarithms that move with ``n`` keep the value that they have at a setting.
        """
        ratio = self * other**-1.0
        return replace(ratio, budget=0.0) ** (-1.0 / ratio.budget)

    def value(self, setting: Setting) -> float:
        bases = _bases(setting)
        return math.prod(bases[name][0] ** power for name, power in self._named.items())

    def powers(self, setting: Setting) -> Powers:
        """The local exponents at a setting."""
        bases, found = _bases(setting), Powers()
        for name, power in self._named.items():
            found = found + power * bases[name][1]
        return found

    @property
    def _named(self) -> dict[str, float]:
        return {name: power for name, power in vars(self).items() if power}

    def __str__(self) -> str:
        named = self._named.items()
        return " ".join(f"{_SYMBOLS[name]}^{power:g}" for name, power in named) or "1"


_SYMBOLS = {
    "budget": "(n epsilon)",
    "n": "n",
    "sparsity": "s",
    "dim": "d",
    "log_n": "(ln n)",
    "log_dim": "(ln d)",
    "log_delta": "ln(1/delta)",
    "log_sparse": "ln(d/s)",
    "log_hidden": "ln(d/(n epsilon))",
}


def _bases(setting: Setting) -> Mapping[str, tuple[float, Powers]]:
    """Each number and how it moves; without a declared sparsity records are dense."""
    facts, budget = setting.problem_class, setting.budget
    sparsity = facts.sparsity or facts.dim
    share = Powers(n=1.0, epsilon=1.0)
    few = Powers(sparsity=1.0) if facts.sparsity else Powers(dim=1.0)
    spent, dim = facts.n * budget.epsilon, Powers(dim=1.0)
    delta = math.log(1.0 / budget.delta) if budget.delta > 0.0 else math.inf
    return {
        "budget": (spent, share),
        "n": (float(facts.n), Powers(n=1.0)),
        "sparsity": (float(sparsity), few),
        "dim": (float(facts.dim), dim),
        "log_n": _log(facts.n, Powers(n=1.0)),
        "log_dim": _log(facts.dim, dim),
        "log_delta": (max(1.0, delta), Powers()),
        "log_sparse": _log(facts.dim / sparsity, dim + -1.0 * few),
        "log_hidden": _log(facts.dim / spent, dim + -1.0 * share),
    }


def _log(value: float, powers: Powers) -> tuple[float, Powers]:
    log = math.log(value)
    return (log, (1.0 / log) * powers) if log > 1.0 else (1.0, Powers())
