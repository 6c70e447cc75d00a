"""Laws: rates as functions of the setting, and orders for sparse gradients with their crossings.

``SPARSE_ORDERS`` contains the rows of the tables of Ghazi, Guzman, Kamath, Kumar and Manurangsi
2024 (arXiv:2404.10881), and sharper rows derived here. The terms are orders without constants, for
records or gradients with ``s`` nonzero entries and norm 1 and a set of radius 1. The mean minimises
squared distances, so its orders are those of squared errors. ``SPARSE_LAWS`` contains bounds with
constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from privopt.arguments import member, positive_number
from privopt.spec import Budget, ProblemClass
from privopt.theory.rate import FIXED, Exponents, Quantity, Rate, Term
from privopt.theory.sparse_means import projection_mechanism_rate

_COUNTS = ("n", "dim", "sparsity")


@dataclass(frozen=True, kw_only=True)
class LawSetting:
    """Problem class and budget at which a law is evaluated.

    ``mu`` is the Gaussian parameter of the budget, :func:`privopt.privacy.gaussian_mu`.
    """

    problem_class: ProblemClass
    budget: Budget
    mu: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", positive_number("mu", self.mu))

    def at(self, **axes: float) -> LawSetting:
        """Return the setting with other values of ``epsilon`` or of fields of the problem class.

        ``mu`` is multiplied by the same factor as ``epsilon``. Counts are rounded.
        """
        setting = self
        for axis, value in axes.items():
            if axis == "epsilon":
                budget = replace(setting.budget, epsilon=value)
                mu = setting.mu * value / setting.budget.epsilon
                setting = replace(setting, budget=budget, mu=mu)
            else:
                member("axis", axis, ["epsilon", *vars(self.problem_class)])
                number = max(1, round(value)) if axis in _COUNTS else value
                facts = replace(setting.problem_class, **{axis: number})  # type: ignore[arg-type]
                setting = replace(setting, problem_class=facts)
        return setting


Law = Callable[[LawSetting], Rate]


@dataclass(frozen=True, kw_only=True)
class Order:
    """``(n epsilon)^a n^b s^c d^e`` and powers of logarithms, each at least 1.

    ``budget`` is the power of ``n epsilon``. ``log_sparse`` and ``log_hidden`` are the powers of
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
        """Return the ``n epsilon`` at which both orders are equal, as an order of the other axes.

        Logarithms of ``n`` keep their value at a setting.
        """
        ratio = self * other**-1.0
        return replace(ratio, budget=0.0) ** (-1.0 / ratio.budget)

    def term(self, name: str, setting: LawSetting) -> Term:
        """Return the value and the local exponents at a setting."""
        value, exponents = 1.0, Exponents()
        for (base, by_base), power in zip(_bases(setting), vars(self).values(), strict=True):
            value *= base**power
            exponents += power * by_base
        return Term(name, value, exponents)

    def value(self, setting: LawSetting) -> float:
        """Return the value at a setting."""
        return self.term("order", setting).value

    def __str__(self) -> str:
        factors = zip(_SYMBOLS, vars(self).values(), strict=True)
        return " ".join(f"{symbol}^{power:g}" for symbol, power in factors if power) or "1"


# In the order of the fields of Order.
_SYMBOLS = (
    *("(n epsilon)", "n", "s", "d", "(ln n)", "(ln d)"),
    *("ln(1/delta)", "ln(d/s)", "ln(d/(n epsilon))"),
)


def _bases(setting: LawSetting) -> tuple[tuple[float, Exponents], ...]:
    """Return the base of each field with its exponents; without a declared sparsity ``s = d``."""
    facts, budget = setting.problem_class, setting.budget
    sparsity = facts.sparsity or facts.dim
    by_budget, by_n, by_dim = Exponents(n=1.0, epsilon=1.0), Exponents(n=1.0), Exponents(dim=1.0)
    by_sparsity = Exponents(sparsity=1.0) if facts.sparsity else by_dim
    n_epsilon = facts.n * budget.epsilon
    delta = math.log(1.0 / budget.delta) if budget.delta > 0.0 else math.inf
    return (
        (n_epsilon, by_budget),
        (facts.n, by_n),
        (sparsity, by_sparsity),
        (facts.dim, by_dim),
        _log(facts.n, by_n),
        _log(facts.dim, by_dim),
        (max(1.0, delta), FIXED),
        _log(facts.dim / sparsity, by_dim + -1.0 * by_sparsity),
        _log(facts.dim / n_epsilon, by_dim + -1.0 * by_budget),
    )


def _log(value: float, exponents: Exponents) -> tuple[float, Exponents]:
    log = math.log(value)
    return (log, (1.0 / log) * exponents) if log > 1.0 else (1.0, FIXED)


_SOURCE = "Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881)"
_HERE = f"{_SOURCE}; sharper here"
_SAMPLING = Order(n=-0.5)
_ONE = Order()


def _least_plus_last(*values: float) -> float:
    return min(values[:-1]) + values[-1]


@dataclass(frozen=True, kw_only=True)
class SparseOrders:
    """A row: upper and lower bound of one problem under one kind of privacy, up to constants.

    ``upper`` and ``lower`` are orders by regime: ``"constant"``, ``"sparse"`` or ``"dense"``. The
    bound is their minimum. An empty mapping means that no bound is known. If ``sampled`` is True,
    the sampling error ``1/sqrt(n)`` is added to the minimum.

    Examples
    --------
    >>> row = SPARSE_ORDERS["mean, pure"]
    >>> str(row.crossing("sparse", "dense")), str(row.crossing("constant", "sparse"))
    ('d^1 (ln d)^-1', 's^1 (ln d)^1')
    """

    quantity: Quantity
    source: str
    upper: Mapping[str, Order]
    lower: Mapping[str, Order]
    sampled: bool = False

    def crossing(self, first: str, second: str, *, lower: bool = False) -> Order:
        """Return the ``n epsilon`` at which two regimes of a bound meet, in closed form."""
        bound = self.lower if lower else self.upper
        return bound[first].crossing(bound[second])

    def law(self, *, lower: bool = False) -> Law:
        """Return the upper or the lower bound as a law, with the binding regime first."""
        bound = self.lower if lower else self.upper

        def law(setting: LawSetting) -> Rate:
            terms = [order.term(name, setting) for name, order in bound.items()]
            terms.sort(key=lambda term: term.value)
            if self.sampled:
                terms.append(_SAMPLING.term("sampling", setting))
            least = " ^ ".join(str(order) for order in bound.values())
            return Rate(
                quantity=self.quantity,
                theorem=f"of order {least}{' + n^-0.5' if self.sampled else ''}",
                source=self.source,
                terms=tuple(terms),
                combine=_least_plus_last if self.sampled else min,
                regime=f"{terms[0].name}, at a fixed ratio of epsilon to mu",
            )

        return law


def _row(
    upper: Mapping[str, Order],
    lower: Mapping[str, Order] | None = None,
    *,
    quantity: Quantity = Quantity.EMPIRICAL_RISK,
    source: str = _SOURCE,
) -> SparseOrders:
    return SparseOrders(quantity=quantity, source=source, upper=upper, lower=lower or {})


def _sampled(row: SparseOrders) -> SparseOrders:
    return replace(row, quantity=Quantity.POPULATION_RISK, sampled=True)


def _root(bound: Mapping[str, Order]) -> dict[str, Order]:
    """Return orders of errors from orders of squared errors."""
    return {name: order**0.5 for name, order in bound.items()}


_PURE = Order(budget=-1.0, sparsity=1.0)
_APPROXIMATE = Order(budget=-1.0, sparsity=0.5, log_delta=0.5)
_DENSE_PURE = {"dense": Order(budget=-2.0, sparsity=1.0, dim=1.0)}
_DENSE = {"dense": Order(budget=-2.0, dim=1.0, log_delta=1.0)}
_DENSE_ERM_PURE = {"dense": Order(budget=-1.0, dim=1.0)}
_PHI = _PURE * Order(log_dim=1.0)
# The power 3 of ln(1/delta) is the corrected one; the poster prints 2.
_AMPLIFIED = Order(budget=-2.0, sparsity=1.0, log_sparse=1.0, log_delta=3.0)

_MEAN_PURE_LOWER = {"constant": _ONE, "sparse": _PURE * Order(log_hidden=1.0), **_DENSE_PURE}
_MEAN_LOWER = {"constant": _ONE, "sparse": _APPROXIMATE, **_DENSE}
_ERM = _row(
    {"sparse": (_APPROXIMATE * Order(log_dim=0.5)) ** 0.5, **_root(_DENSE)}, _root(_MEAN_LOWER)
)


def _erm_pure(
    sparse: Order, source: str = _HERE, lower: Mapping[str, Order] | None = None
) -> SparseOrders:
    return _row({"sparse": sparse, **_DENSE_ERM_PURE}, lower, source=source)


_ERM_PURE = _erm_pure(_PHI ** (1.0 / 3.0), _SOURCE, _root(_MEAN_PURE_LOWER))

SPARSE_ORDERS: Mapping[str, SparseOrders] = MappingProxyType(
    {
        "mean, pure": _row({"constant": _ONE, "sparse": _PHI, **_DENSE_PURE}, _MEAN_PURE_LOWER),
        "mean, pure, sharp": _row(_MEAN_PURE_LOWER, _MEAN_PURE_LOWER, source=_HERE),
        "mean, approximate": _row(
            {"constant": _ONE, "sparse": _APPROXIMATE * Order(log_sparse=0.5), **_DENSE},
            _MEAN_LOWER,
        ),
        "convex, approximate": _ERM,
        "population, approximate": _sampled(_ERM),
        "convex, pure": _ERM_PURE,
        "convex, pure, smooth": _erm_pure(_PHI**0.4),
        "convex, pure, flat": _erm_pure(_PHI**0.5),
        "generalised linear, pure": _erm_pure(_PHI ** (1.0 / 3.0)),
        "generalised linear, pure, expected": _erm_pure(
            Order(budget=-1.0, sparsity=0.5) ** (1.0 / 3.0)
        ),
        "population, pure": _sampled(_ERM_PURE),
        "stationary, approximate": _row(
            {
                "sparse": _AMPLIFIED**0.125 * Order(log_n=0.25),
                "dense": _root(_DENSE)["dense"] ** (2.0 / 3.0),
            },
            quantity=Quantity.GRADIENT_NORM,
        ),
        "convex, bias-reduced": _row({"sparse": _AMPLIFIED**0.25 * Order(log_n=0.5)}),
    }
)
"""Orders by problem and kind of privacy, the rows of both tables of the paper.

- Population rows are ``min(sparse, dense) + 1/sqrt(n)``.
- "mean, pure, sharp" is the bound of :func:`projection_mechanism_rate`; its logarithm equals that
  of the lower bound.
- Pure rows for smooth, flat (``H`` of order ``lambda`` or less) and generalised linear losses are
  for the whole space. The lower bounds, for linear losses on a ball, do not apply there.
- "convex, bias-reduced" holds with constant probability.
"""


def _mean_law(noise: str, body: str) -> Law:
    """Return the law of a private mean at its calibrated noise, clipped at the longest record."""

    def law(setting: LawSetting) -> Rate:
        facts, budget = setting.problem_class, setting.budget
        lipschitz, modulus = facts.lipschitz, facts.strong_convexity
        reach = lipschitz / modulus - facts.radius if modulus > 0.0 else lipschitz
        clip_norm = reach if reach > 0.0 else lipschitz
        sensitivity = budget.relation.multiple * clip_norm / facts.n
        if noise == "laplace":
            scale = sensitivity * math.sqrt(facts.sparsity or facts.dim) / budget.epsilon
        else:
            scale = sensitivity / setting.mu
        return projection_mechanism_rate(
            facts, noise=noise, scale=scale, body=body, clip_norm=clip_norm
        )

    return law


SPARSE_LAWS: Mapping[str, Law] = MappingProxyType(
    {
        "projection_mechanism": _mean_law("gaussian", "l1_l2"),
        "projected_mean": _mean_law("gaussian", "l2"),
        "noisy_mean": _mean_law("gaussian", "none"),
        "pure_projection_mechanism": _mean_law("laplace", "l1_l2"),
        "pure_projected_mean": _mean_law("laplace", "l2"),
        "pure_noisy_mean": _mean_law("laplace", "none"),
    }
)
"""Bounds with constants for means of sparse records, by convex set and noise."""
