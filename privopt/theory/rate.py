"""Rates: bounds of theorems as data, evaluated at one problem class and budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import NamedTuple

from privopt.arguments import Names, checked, real, shown
from privopt.spec import ProblemClass


class Quantity(Names):
    """The quantity that a rate bounds, in expectation.

    ``empirical risk``
        ``E F(w) - min F`` over the records of a run, for every data set.
    ``population risk``
        ``E F_P(w) - min F_P`` over the distribution of independent records.
    ``regret``
        ``sum_t f_t(w_t) - min_w sum_t f_t(w)``.
    ``gradient norm``, ``accuracy``
        ``|grad F(w)|``; the error of a statistic or of a prediction.
    """

    EMPIRICAL_RISK = "empirical risk"
    POPULATION_RISK = "population risk"
    REGRET = "regret"
    GRADIENT_NORM = "gradient norm"
    ACCURACY = "accuracy"

    @property
    def formula(self) -> str:
        """The bounded quantity in symbols."""
        return {
            Quantity.EMPIRICAL_RISK: "E F(w) - F*",
            Quantity.POPULATION_RISK: "E F_P(w) - F_P*",
            Quantity.REGRET: "E regret",
            Quantity.GRADIENT_NORM: "E |grad F(w)|",
            Quantity.ACCURACY: "E error",
        }[self]


@dataclass(frozen=True)
class Exponents:
    """Exponents of a product of powers, ``n^a d^b epsilon^c T^e s^f``.

    ``epsilon`` varies at a fixed ratio to the Gaussian parameter mu. ``steps`` is the exponent of
    the number of gradients ``T``; it is 0 if ``T`` is a function of the other axes. ``sparsity`` is
    the exponent of the number ``s`` of nonzero entries of a record. Logarithms have local
    exponents, ``d log term / d log axis`` at the setting.

    >>> Exponents(n=-1.0, dim=0.5) + 2.0 * Exponents(epsilon=-0.5)
    Exponents(n=-1.0, dim=0.5, epsilon=-1.0, steps=0.0, sparsity=0.0)
    """

    n: float = 0.0
    dim: float = 0.0
    epsilon: float = 0.0
    steps: float = 0.0
    sparsity: float = 0.0

    def __add__(self, other: Exponents) -> Exponents:
        return Exponents(**{name: x + getattr(other, name) for name, x in vars(self).items()})

    def __rmul__(self, factor: float) -> Exponents:
        return Exponents(**{name: factor * power + 0.0 for name, power in vars(self).items()})


FIXED = Exponents()
GIVEN_STEPS = Exponents(steps=1.0)
SLOPE_MARGIN = 0.02
"""Largest difference, within the regime, between slopes of a bound and declared exponents."""


@dataclass(frozen=True)
class Term:
    """One term of a bound: its name, its value at the setting and its exponents."""

    name: str
    value: float
    powers: Exponents = FIXED

    def __post_init__(self) -> None:
        if not real("value", self.value) >= 0.0:
            raise ValueError(f"value of the term {self.name} must be >= 0, got {shown(self.value)}")

    def times(self, factor: float, powers: Exponents = FIXED) -> Term:
        """Return the term times a factor with exponents ``powers``."""
        return Term(self.name, factor * self.value, self.powers + powers)

    def root(self, factor: float = 1.0, powers: Exponents = FIXED) -> Term:
        """Return the square root of the term times a factor with exponents ``powers``."""
        return Term(self.name, factor * math.sqrt(self.value), 0.5 * self.powers + powers)


class LowerBound(NamedTuple):
    """Lower bound on the worst-case risk of every algorithm with this ``guarantee``; 0 if unknown.

    The guarantee is a text such as ``"(1, 1e-06)-DP"``. The bound does not apply to weaker ones.
    """

    value: float
    guarantee: str


def add(*values: float) -> float:
    """Return the sum of the values, the default way to combine terms."""
    return math.fsum(values)


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Upper bound of a theorem, evaluated at one problem class and budget.

    ``theorem`` states it in one line, in the symbols of the problem class. ``source`` names author,
    year and number. ``exponents`` and ``tight_on`` refer to the first of the ``terms``, which is
    the privacy term if there is one. A rate without terms has an infinite bound.

    ``combine`` computes the bound from the values of the terms and is homogeneous of degree one:
    :func:`add`, ``math.hypot``, or ``min`` if each term is a bound by itself. Under ``min`` the
    terms are sorted by value. The bound is at most ``cap``, the largest value on the constraint set
    (:func:`largest_excess`). ``lower`` contains lower bounds. In the rate of a plan, the first one
    applies to every algorithm within the budget.

    ``whole_class`` is True if the bound holds for every problem of the class; lower bounds of the
    class do not apply to a part of it. ``rounds`` is the number ``n/b`` of batches of a regret in
    one pass, else 0. ``requires`` names properties that a problem must have beyond its class.
    ``regime`` is the regime in which the first term dominates, with the quantities held fixed along
    an axis. ``tight_on`` names the hard family on which measured slopes must equal ``exponents``.

    Examples
    --------
    >>> noise = Term("noise", 3.0, Exponents(n=-1.0, dim=0.5))
    >>> rate = Rate(quantity="empirical risk", theorem="R G/sqrt(T)", source="textbooks",
    ...             terms=(noise, Term("gradients", 4.0)), combine=math.hypot)
    >>> rate.upper, rate.leading.name, rate.in_regime, round(rate.slope("n"), 3)
    (5.0, 'gradients', False, -0.36)
    """

    quantity: Quantity
    theorem: str
    source: str
    terms: tuple[Term, ...] = ()
    combine: Callable[..., float] = add
    cap: float = math.inf
    lower: tuple[LowerBound, ...] = ()
    whole_class: bool = True
    rounds: float = 0.0
    requires: frozenset[str] = frozenset()
    regime: str = ""
    tight_on: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "quantity", Quantity.named("quantity", self.quantity))
        terms = tuple(self.terms)
        if self.combine is min:
            terms = tuple(sorted(terms, key=lambda term: term.value))
        object.__setattr__(self, "terms", terms)
        for value, _ in self.lower:
            if not 0.0 <= value <= self.upper:
                raise ValueError(
                    f"lower must lie in [0, upper={shown(self.upper)}], got {shown(value)}"
                )

    @property
    def upper(self) -> float:
        """The bound with its constants; infinite if none is known."""
        return min(self.uncapped, self.cap)

    @property
    def uncapped(self) -> float:
        """The bound without the cap of the set; infinite if there are no terms."""
        return self._scaled()

    def _scaled(self, axis: str = "n", factor: float = 1.0) -> float:
        """Return ``uncapped`` after an axis is multiplied by ``factor``."""
        values = [term.value * factor ** getattr(term.powers, axis) for term in self.terms]
        return self.made(values) if values else math.inf

    def made(self, values: Sequence[float]) -> float:
        """Return the bound for other values of the terms."""
        return values[0] if len(values) == 1 else self.combine(*values)

    @property
    def exponents(self) -> Mapping[str, float]:
        """Exponents of the first term; empty if there are no terms."""
        return MappingProxyType(asdict(self.terms[0].powers) if self.terms else {})

    @property
    def leading(self) -> Term | None:
        """Term with the largest effect on the bound: halving it lowers the bound most."""
        values = [term.value for term in self.terms]
        halved = [
            self.made([*values[:i], 0.5 * value, *values[i + 1 :]])
            for i, value in enumerate(values)
        ]
        return self.terms[halved.index(min(halved))] if halved else None

    @property
    def in_regime(self) -> bool:
        """True if the slopes of the bound equal the exponents, up to ``SLOPE_MARGIN``."""
        if not 0.0 < self.uncapped < math.inf or self.uncapped > self.cap:
            return False
        return all(
            abs(self.slope(axis) - power) <= SLOPE_MARGIN for axis, power in self.exponents.items()
        )

    def slope(self, axis: str) -> float:
        """Return ``d log upper / d log axis`` at this setting; 0 if the bound is 0 or the cap."""
        if self.uncapped > self.cap or self.uncapped == 0.0:
            return 0.0
        step = 1e-4
        up, down = self._scaled(axis, 1.0 + step), self._scaled(axis, 1.0 / (1.0 + step))
        return 0.5 * math.log(up / down) / math.log1p(step)

    def __str__(self) -> str:
        """Return the quantity, theorem, terms, regime, lower bounds and source in several lines."""
        rows = [f"{self.quantity.formula} <= {self.upper:.4g}, the {self.quantity}", self.theorem]
        rows += ["the least of"] if self.combine is min and len(self.terms) > 1 else []
        for term in self.terms:
            rows.append(f"{term.name} = {term.value:.4g}, of order {_product(asdict(term.powers))}")
        rows += [f"the set allows {self.cap:.4g}"] if self.uncapped > self.cap else []
        rows += [f"regime: {self.regime} ({self.local})"] if self.regime else []
        rows += self.lower_bound_texts
        return "\n  ".join([*rows, self.source])

    @property
    def local(self) -> str:
        """Text that the regime holds here, or the local order of the bound."""
        if self.in_regime:
            return "holds here"
        slopes = {axis: round(self.slope(axis), 2) for axis in self.exponents}
        return f"does not hold here, where the bound is of order {_product(slopes)}"

    @property
    def lower_bound_texts(self) -> list[str]:
        """Lower bounds as sentences."""
        return [
            f"no method that is {guarantee} stays below {value:.4g} on every problem"
            for value, guarantee in self.lower
            if value > 0.0
        ]


def _product(powers: Mapping[str, float]) -> str:
    return " ".join(f"{axis}^{power:.4g}" for axis, power in powers.items() if power) or "1"


@checked
def no_rate(
    reason: str, *, quantity: Quantity = Quantity.EMPIRICAL_RISK, whole_class: bool = True
) -> Rate:
    """Return the rate of a method without a theorem: an infinite bound, with the reason."""
    return Rate(
        quantity=quantity,
        theorem=f"none: {reason}",
        source="no theorem covers it",
        whole_class=whole_class,
    )


def largest_excess(problem_class: ProblemClass) -> float:
    """Return the largest ``F(w) - F*`` on the set, ``max_x L x - (m/2) x^2`` over ``x <= 2 R``.

    Equal to ``2 L R - 2 m R^2``, or to ``L^2/(2m)`` if ``L/m <= 2 R``; ``x`` is the distance from
    the minimiser.
    """
    slope, modulus = problem_class.lipschitz, problem_class.strong_convexity
    reach = problem_class.diameter
    if modulus > 0.0:
        reach = min(reach, slope / modulus)
    if math.isinf(slope) or math.isinf(reach):
        return math.inf
    return slope * reach - 0.5 * modulus * reach**2


def unmet_assumptions(
    problem_class: ProblemClass, *, clipped: bool = False, plain: bool = True
) -> dict[str, bool]:
    """Map each assumption of theorems for Lipschitz convex losses to True if it is not met.

    ``clipped`` is True if clipping may change gradients, ``plain`` if the update is plain descent.
    """
    return {
        "the losses are not convex": not problem_class.convex,
        "gradients are clipped below the Lipschitz constant": clipped
        or math.isinf(problem_class.lipschitz),
        "the update is not plain descent": not plain,
        "the set is not bounded": math.isinf(problem_class.radius),
    }


def no_rate_if(
    reasons: Mapping[str, bool], quantity: Quantity = Quantity.EMPIRICAL_RISK
) -> Rate | None:
    """Return a rate without terms for the first reason that is True, or None."""
    reason = next((reason for reason, holds in reasons.items() if holds), None)
    return None if reason is None else no_rate(reason, quantity=quantity)
