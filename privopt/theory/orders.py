"""Orders: products of powers of public numbers and their logarithms, without constants."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from privopt.theory.rate import Powers
from privopt.theory.setting import Setting

__all__ = ["Order"]


@dataclass(frozen=True, kw_only=True)
class Order:
    """``(n epsilon)^a n^b s^c d^e`` and powers of logarithms, each at least 1.

    Parameters
    ----------
    budget : float
        The power of ``n epsilon``.
    n, sparsity, dim : float
        Those of ``n``, ``s`` and ``d``.
    log_n, log_dim, log_delta : float
        Those of ``ln n``, ``ln d`` and ``ln(1/delta)``.
    log_sparse, log_hidden : float
        Those of ``ln(d/s)`` and ``ln(d/(n epsilon))``.

    Examples
    --------
    >>> sparse = Order(budget=-1.0, sparsity=1.0, log_dim=1.0)
    >>> dense = Order(budget=-2.0, sparsity=1.0, dim=1.0)
    >>> str(sparse ** 0.5), str(sparse.crossing(dense))
    ('(n epsilon)^-0.5 s^0.5 (ln d)^0.5', 'd^1 (ln d)^-1')
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
        """At a setting.

        Examples
        --------
        >>> from privopt.spec import Budget, ProblemClass
        >>> facts = ProblemClass(n=100, dim=50, lipschitz=1.0, radius=1.0, sparsity=2)
        >>> budget = Budget(epsilon=0.5, delta=0.0, relation="replace_one")
        >>> Order(budget=-1.0, sparsity=1.0).value(
        ...     Setting(problem_class=facts, budget=budget, mu=1.0))
        0.04
        """
        bases = _bases(setting)
        return math.prod(bases[name][0] ** power for name, power in self._named.items())

    def powers(self, setting: Setting) -> Powers:
        """The local exponents there."""
        bases, found = _bases(setting), Powers()
        for name, power in self._named.items():
            found = found + power * bases[name][1]
        return found

    @property
    def _named(self) -> dict[str, float]:
        return {name: power for name, power in vars(self).items() if power}

    def __str__(self) -> str:
        """As a product."""
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
