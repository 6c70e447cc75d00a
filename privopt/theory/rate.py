"""A rate: what a theorem promises at one setting of the public numbers, term by term."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import NamedTuple

from privopt.arguments import Names, checked, real, shown
from privopt.spec import ProblemClass


class Quantity(Names):
    """What a bound speaks of, in expectation.

    ``empirical risk``
        ``E F(w) - min F`` over the records that a run is given, whatever they are.
    ``population risk``
        The same over the distribution that the records are independent draws from.
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
        """What the bound bounds, in symbols."""
        return {
            Quantity.EMPIRICAL_RISK: "E F(w) - F*",
            Quantity.POPULATION_RISK: "E F_P(w) - F_P*",
            Quantity.REGRET: "E regret",
            Quantity.GRADIENT_NORM: "E |grad F(w)|",
            Quantity.ACCURACY: "E error",
        }[self]


@dataclass(frozen=True)
class Powers:
    """The exponents of a product of powers, ``n^a d^b epsilon^c T^e s^f``.

    ``epsilon`` moves at a fixed ratio to the Gaussian parameter mu; ``steps`` is the number ``T``
    of gradients where it is given, and 0 where it follows from the other axes; ``sparsity`` is the
    number ``s`` of nonzero entries of a record. Where there are logarithms the exponents are local:
    ``d log term / d log axis`` at the setting.

    >>> Powers(n=-1.0, dim=0.5) + 2.0 * Powers(epsilon=-0.5)
    Powers(n=-1.0, dim=0.5, epsilon=-1.0, steps=0.0, sparsity=0.0)
    """

    n: float = 0.0
    dim: float = 0.0
    epsilon: float = 0.0
    steps: float = 0.0
    sparsity: float = 0.0

    def __add__(self, other: Powers) -> Powers:
        return Powers(**{name: power + getattr(other, name) for name, power in vars(self).items()})

    def __rmul__(self, factor: float) -> Powers:
        return Powers(**{name: factor * power + 0.0 for name, power in vars(self).items()})


FIXED = Powers()
GIVEN_STEPS = Powers(steps=1.0)
SLOPE_MARGIN = 0.02
"""How far the slopes of a bound may be from the exponents of its first term, in its regime."""


@dataclass(frozen=True)
class Term:
    """One term of a bound: its name, its value at the setting, and how it moves with the axes."""

    name: str
    value: float
    powers: Powers = FIXED

    def __post_init__(self) -> None:
        if not real("value", self.value) >= 0.0:
            raise ValueError(f"value of the term {self.name} must be >= 0, got {shown(self.value)}")

    def times(self, factor: float, powers: Powers = FIXED) -> Term:
        """The term times a factor, and ``powers`` say how that moves."""
        return Term(self.name, factor * self.value, self.powers + powers)

    def root(self, factor: float = 1.0, powers: Powers = FIXED) -> Term:
        """Its square root times a factor, and ``powers`` say how that moves."""
        return Term(self.name, factor * math.sqrt(self.value), 0.5 * self.powers + powers)


class LowerBound(NamedTuple):
    """What no algorithm with this ``guarantee`` beats on every problem; 0: nothing is known.

    The guarantee is in words, such as ``"(1, 1e-06)-DP"``; weaker ones are not bounded.
    """

    value: float
    guarantee: str


def add(*values: float) -> float:
    """The sum: how terms make a bound where nothing else is said."""
    return math.fsum(values)


@dataclass(frozen=True, kw_only=True)
class Rate:
    """What a theorem promises, evaluated at one setting of the public numbers.

    ``theorem`` states it in one line, in the symbols of the problem class; ``source`` names author,
    year and number. ``exponents`` and ``tight_on`` speak of the first of the ``terms``, which is
    privacy's where there is privacy. Without terms nothing is claimed, and the bound is infinite.

    ``combine`` makes the bound of the values of the terms, and is of degree one: :func:`add`,
    ``math.hypot``, or ``min`` where each term is a bound by itself; under ``min`` the terms are
    kept in order of value. No bound is above ``cap``, what the set allows any point
    (:func:`largest_excess`). ``lower`` are lower bounds; of a plan, first that of every algorithm
    within the budget.

    ``whole_class`` says whether the bound is for every problem of the class; lower bounds of the
    class say nothing of a part of it. ``rounds`` is the number ``n/b`` of batches of a regret in
    one pass, else 0. ``requires`` names what a problem must provide beyond its class. ``regime``
    says where the first term leads, and what is held fixed while an axis moves. ``tight_on`` names
    the hard family on which measured slopes must equal ``exponents``.

    Examples
    --------
    >>> noise = Term("noise", 3.0, Powers(n=-1.0, dim=0.5))
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
        """The bound, constants included; infinite where none is known."""
        return min(self.uncapped, self.cap)

    @property
    def uncapped(self) -> float:
        """What the terms make, whatever the set allows; infinite without any."""
        return self._combined()

    def _combined(self, axis: str = "n", factor: float = 1.0) -> float:
        """``uncapped`` where an axis is ``factor`` times as large."""
        moved = [term.value * factor ** getattr(term.powers, axis) for term in self.terms]
        return self.made(moved) if moved else math.inf

    def made(self, values: Sequence[float]) -> float:
        """The bound that values of the terms make."""
        return values[0] if len(values) == 1 else self.combine(*values)

    @property
    def exponents(self) -> Mapping[str, float]:
        """The exponents of the first term; empty where nothing is claimed."""
        return MappingProxyType(asdict(self.terms[0].powers) if self.terms else {})

    @property
    def leading(self) -> Term | None:
        """What, halved, lowers the bound most: the largest of a sum, the least of a minimum."""
        values = [term.value for term in self.terms]
        halved = [
            self.made([*values[:i], 0.5 * value, *values[i + 1 :]])
            for i, value in enumerate(values)
        ]
        return self.terms[halved.index(min(halved))] if halved else None

    @property
    def in_regime(self) -> bool:
        """Whether the bound moves like its first term here: slopes within ``SLOPE_MARGIN``."""
        if not 0.0 < self.uncapped < math.inf or self.uncapped > self.cap:
            return False
        return all(
            abs(self.slope(axis) - power) <= SLOPE_MARGIN for axis, power in self.exponents.items()
        )

    def slope(self, axis: str) -> float:
        """Return ``d log upper / d log axis`` at this setting: 0 for a bound of 0 or at the cap."""
        if self.uncapped > self.cap or self.uncapped == 0.0:
            return 0.0
        step = 1e-4
        up, down = self._combined(axis, 1.0 + step), self._combined(axis, 1.0 / (1.0 + step))
        return 0.5 * math.log(up / down) / math.log1p(step)

    def __str__(self) -> str:
        """The plate: what is bounded, by which terms, where, and by whom."""
        rows = [f"{self.quantity.formula} <= {self.upper:.4g}, the {self.quantity}", self.theorem]
        rows += ["the least of"] if self.combine is min and len(self.terms) > 1 else []
        for term in self.terms:
            rows.append(f"{term.name} = {term.value:.4g}, of order {_product(asdict(term.powers))}")
        rows += [f"the set allows {self.cap:.4g}"] if self.uncapped > self.cap else []
        rows += [f"regime: {self.regime} ({self.local})"] if self.regime else []
        rows += self.floors
        return "\n  ".join([*rows, self.source])

    @property
    def local(self) -> str:
        """Whether the regime holds at this setting, and how the bound moves where it does not."""
        if self.in_regime:
            return "holds here"
        slopes = {axis: round(self.slope(axis), 2) for axis in self.exponents}
        return f"does not hold here, where the bound is of order {_product(slopes)}"

    @property
    def floors(self) -> list[str]:
        """What the lower bounds say, in words."""
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
    """The rate of a method that no theorem covers: an infinite bound, with the reason."""
    return Rate(
        quantity=quantity,
        theorem=f"none: {reason}",
        source="no theorem covers it",
        whole_class=whole_class,
    )


def largest_excess(problem_class: ProblemClass) -> float:
    """The largest ``F(w) - F*`` on the set: ``2 L R - 2 m R^2``, or ``L^2/(2m)`` if that is within.

    At a distance ``x`` from the minimiser, at most ``2R``, it is ``L x - (m/2) x^2`` at most.
    """
    slope, modulus = problem_class.lipschitz, problem_class.strong_convexity
    reach = problem_class.diameter
    if modulus > 0.0:
        reach = min(reach, slope / modulus)
    if math.isinf(slope) or math.isinf(reach):
        return math.inf
    return slope * reach - 0.5 * modulus * reach**2


def obstacles(
    problem_class: ProblemClass, *, clipped: bool = False, plain: bool = True
) -> dict[str, bool]:
    """What keeps theorems of Lipschitz convex losses on a bounded set from applying, if it holds.

    ``clipped`` says whether clipping may change gradients, ``plain`` whether the update is descent.
    """
    return {
        "the losses are not convex": not problem_class.convex,
        "gradients are clipped below the Lipschitz constant": clipped
        or math.isinf(problem_class.lipschitz),
        "the update is not plain descent": not plain,
        "the set is not bounded": math.isinf(problem_class.radius),
    }


def refused(
    reasons: Mapping[str, bool], quantity: Quantity = Quantity.EMPIRICAL_RISK
) -> Rate | None:
    """The rate without terms for the first reason that holds; None where none does."""
    first = next((reason for reason, holds in reasons.items() if holds), None)
    return None if first is None else no_rate(first, quantity=quantity)
