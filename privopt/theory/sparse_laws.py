"""Sparse gradients: the orders of all known bounds, and laws with constants.

The rows of the tables of Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881) and
those that are sharper here, as data. A row has an upper and a lower bound, whose terms are orders
without constants, for records or gradients of ``s`` nonzero entries and norm 1 and a set of radius
1. A mean is the minimiser of squared distances, so its orders are those of squared errors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from privopt.arguments import checked
from privopt.theory.rate import Quantity, Rate, Term
from privopt.theory.setting import Law, Order, Setting
from privopt.theory.sparse_means import projection_mechanism_rate

_SOURCE = "Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881)"
_HERE = f"{_SOURCE}; sharper here"
_SAMPLING = Order(n=-0.5)
_ONE = Order()


def least_and_last(*values: float) -> float:
    """The least of all values but the last one, plus the last one."""
    return min(values[:-1]) + values[-1]


@dataclass(frozen=True, kw_only=True)
class SparseOrders:
    """A row: what is known of one problem under one kind of privacy, up to constants.

    ``upper`` and ``lower`` are orders by regime, ``"constant"``, ``"sparse"`` or ``"dense"``; the
    least of them is the bound, and an empty one says that nothing is known. ``sampled`` says
    whether ``1/sqrt(n)``, the price of a sample, is added to the least.

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
        """The ``n epsilon`` at which two regimes of a bound meet, in closed form."""
        bound = self.lower if lower else self.upper
        return bound[first].crossing(bound[second])

    def law(self, *, lower: bool = False) -> Law:
        """One of the bounds as a law, the regime that binds first."""
        bound = self.lower if lower else self.upper

        def of(setting: Setting) -> Rate:
            terms = [
                Term(name, order.value(setting), order.powers(setting))
                for name, order in bound.items()
            ]
            terms.sort(key=lambda term: term.value)
            if self.sampled:
                terms.append(Term("sampling", _SAMPLING.value(setting), _SAMPLING.powers(setting)))
            least = " ^ ".join(str(order) for order in bound.values())
            return Rate(
                quantity=self.quantity,
                theorem=f"of order {least}{' + n^-0.5' if self.sampled else ''}",
                source=self.source,
                terms=tuple(terms),
                combine=least_and_last if self.sampled else min,
                regime=f"{terms[0].name}, at a fixed ratio of epsilon to mu",
            )

        return of


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
    """Of errors, where those of their squares are given."""
    return {name: order**0.5 for name, order in bound.items()}


_PURE = Order(budget=-1.0, sparsity=1.0)
_APPROXIMATE = Order(budget=-1.0, sparsity=0.5, log_delta=0.5)
_DENSE_PURE = {"dense": Order(budget=-2.0, sparsity=1.0, dim=1.0)}
_DENSE = {"dense": Order(budget=-2.0, dim=1.0, log_delta=1.0)}
_DENSE_ERM_PURE = {"dense": Order(budget=-1.0, dim=1.0)}
_PHI = _PURE * Order(log_dim=1.0)
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
"""By problem and privacy, rows of both tables.

``ln(1/delta)^3`` of what is amplified by sampling is the corrected power. Population rows are
``(sparse ^ dense) + 1/sqrt(n)``. The sharp row of means is that of
:mod:`privopt.theory.sparse_means`, whose logarithm is the lower bound's. The pure rows of smooth,
flat (``H`` of the order of ``lambda`` or less) and generalised linear losses are those of the whole
space, where the lower bounds do not apply: theirs are for linear losses on a ball. The bias-reduced
one holds with constant probability.
"""


@checked
def only(law: Law, term: str) -> Law:
    """A law with one of its terms alone: for the crossovers of its regimes."""

    def of(setting: Setting) -> Rate:
        rate = law(setting)
        return replace(rate, terms=tuple(t for t in rate.terms if t.name == term), combine=min)

    return of


def _mean_law(noise: str, body: str) -> Law:
    """A private mean at its default noise, clipped at the longest record that the class allows."""

    def of(setting: Setting) -> Rate:
        facts, budget = setting.problem_class, setting.budget
        lipschitz, modulus = facts.lipschitz, facts.strong_convexity
        reach = lipschitz / modulus - facts.radius if modulus > 0.0 else lipschitz
        clip = reach if reach > 0.0 else lipschitz
        moved = budget.relation.multiple * clip / facts.n
        if noise == "laplace":
            scale = moved * math.sqrt(facts.sparsity or facts.dim) / budget.epsilon
        else:
            scale = moved / setting.mu
        return projection_mechanism_rate(facts, noise=noise, scale=scale, body=body, clip=clip)

    return of


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
"""Laws with constants, of means of sparse records by body and noise."""
