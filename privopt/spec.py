"""Problem class and privacy budget.

Standard library only. All values are declared by the user and never estimated from data, so
everything that depends only on them is independent of the data.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, fields
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Literal

from privopt.arguments import Names, positive_integer, real, shown, suggest_fields

__all__ = ["LIPSCHITZ", "Assumptions", "Budget", "Norm", "ProblemClass", "Relation", "RelationName"]

RelationName = Literal["replace_one", "add_or_remove_one", "zero_out"]


class Relation(Names):
    """Neighbouring relation of data sets.

    ``replace_one``
        Same public size ``n``, one record changed to any other.
    ``add_or_remove_one``
        One record present or absent; sums are divided by a public design size, never by the
        actual number of records.
    ``zero_out``
        Same public size ``n``, one record replaced by a null record with zero contribution
        (``REPLACE_SPECIAL`` in dp-accounting).
    """

    REPLACE_ONE = "replace_one"
    ADD_OR_REMOVE_ONE = "add_or_remove_one"
    ZERO_OUT = "zero_out"

    @property
    def multiple(self) -> int:
        """Largest change of a sum of contributions of norm at most 1: 2 for replace, else 1."""
        return 2 if self is Relation.REPLACE_ONE else 1

    @classmethod
    def _synonyms(cls) -> dict[str, str]:
        return {"replace_special": cls.ZERO_OUT, "add_remove": cls.ADD_OR_REMOVE_ONE}


class Norm(Names):
    """Norm of a vector: ``l1``, ``l2`` (Euclidean) or ``linf``."""

    L1 = "l1"
    L2 = "l2"
    LINF = "linf"

    @property
    def order(self) -> float:
        """``p`` of the norm ``(sum_j |v_j|^p)^(1/p)``."""
        return {"l1": 1.0, "l2": 2.0, "linf": math.inf}[self]

    def bound(self, size: float, given: Norm, dim: int) -> float:
        """Return the largest norm of a vector of ``dim`` numbers if its norm ``given`` is ``size``.

        The value is ``size d^max(0, 1/p - 1/q)`` for a given order ``q``, rounded up.

        Examples
        --------
        >>> Norm.L1.bound(1.0, Norm.LINF, 4), Norm.LINF.bound(1.0, Norm.L1, 4)
        (4.000000000000002, 1.0)
        """
        power = 1.0 / self.order - 1.0 / given.order
        root = math.sqrt(dim) if power == 0.5 else float(dim)
        return size * root * (1.0 + 2.0**-51) if power > 0.0 else size


@suggest_fields
@dataclass(frozen=True, kw_only=True)
class Budget:
    """Privacy budget: (epsilon, delta) under a named neighbouring relation.

    Parameters
    ----------
    epsilon : float
        Positive and finite.
    delta : float
        In ``[0, 1)``; 0 is pure differential privacy.
    relation : Relation or its name
        There is no default, because a budget without its relation has no meaning.
    """

    epsilon: float
    delta: float
    relation: Relation

    if TYPE_CHECKING:  # arguments may have more types than attributes

        def __init__(
            self, *, epsilon: float, delta: float, relation: Relation | RelationName
        ) -> None: ...

    def __post_init__(self) -> None:
        epsilon = real("epsilon", self.epsilon)
        delta = real("delta", self.delta)
        if not (0.0 < epsilon < math.inf):
            raise ValueError(f"epsilon must be positive and finite, got {shown(self.epsilon)}")
        if not (0.0 <= delta < 1.0):
            swapped = ": are epsilon and delta swapped?" if epsilon < 0.01 else ""
            raise ValueError(f"delta must lie in [0, 1), got {shown(self.delta)}{swapped}")
        if epsilon < delta and delta > 0.01:
            warnings.warn(
                f"delta is larger than epsilon, got {delta:g} > {epsilon:g}: are they swapped?",
                stacklevel=4,
            )
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)
        object.__setattr__(self, "relation", Relation.named("relation", self.relation))


def _size(name: str, value: object) -> int:
    """Return a positive integer; a float such as ``200.0`` is accepted."""
    whole = isinstance(value, float) and value.is_integer()
    return positive_integer(name, int(value) if whole else value)  # type: ignore[call-overload]


LIPSCHITZ = {"lipschitz": Norm.L2, "lipschitz_l1": Norm.L1, "lipschitz_linf": Norm.LINF}


@suggest_fields
@dataclass(frozen=True, kw_only=True)
class ProblemClass:
    """Public facts of a problem, which must hold for every data set.

    Norms are Euclidean unless stated otherwise.

    Parameters
    ----------
    n : int
        Number of records (public). Under ``add_or_remove_one``: the public design size by which
        sums are divided.
    dim : int
        Dimension ``d`` of the parameter.
    lipschitz : float
        ``L``: every (sub)gradient of every record's loss has norm at most ``L`` on the constraint
        set. ``math.inf`` if unknown; methods that clip then need ``clip_norm=``.
    lipschitz_l1, lipschitz_linf : float
        The same for the l1 and l-infinity norms, for methods that need them (:meth:`lipschitz_in`);
        unknown by default.
    radius : float
        ``R``: the constraint set is contained in the ball of radius ``R`` about its centre, the
        initial point of methods and of regularisers. ``math.inf`` for the whole space. The diameter
        of the theorems is ``D = 2R``.
    smoothness : float, optional
        ``H``: every record's gradient is ``H``-Lipschitz. ``None`` if unknown.
    strong_convexity : float
        ``m >= 0``: every record's loss is ``m``-strongly convex.
    sparsity : int, optional
        ``s``: every record's gradient has at most ``s`` non-zero coordinates.
    convex : bool
        True if every record's loss is convex. Otherwise there is no rate, and methods with a
        guarantee that needs convexity are refused.
    """

    n: int
    dim: int
    lipschitz: float
    radius: float
    smoothness: float | None = None
    strong_convexity: float = 0.0
    sparsity: int | None = None
    convex: bool = True
    lipschitz_l1: float = math.inf
    lipschitz_linf: float = math.inf

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", _size("n", self.n))
        object.__setattr__(self, "dim", _size("dim", self.dim))
        for name in (*LIPSCHITZ, "radius", "strong_convexity"):
            object.__setattr__(self, name, real(name, getattr(self, name)))
        for name in LIPSCHITZ:
            if not getattr(self, name) > 0.0:
                raise ValueError(
                    f"{name} must be positive (inf: not declared), got {shown(getattr(self, name))}"
                )
        if not isinstance(self.convex, bool):
            raise ValueError(f"convex must be True or False, got {shown(self.convex)}")
        if self.strong_convexity and not self.convex:
            raise ValueError(
                f"strong_convexity must be 0 without convexity, got {shown(self.strong_convexity)}"
            )
        if not self.radius > 0.0:
            raise ValueError(
                f"radius must be positive (inf: no constraint), got {shown(self.radius)}"
            )
        if not (0.0 <= self.strong_convexity < math.inf):
            raise ValueError(
                "strong_convexity must be non-negative and finite, got "
                f"{shown(self.strong_convexity)}"
            )
        if self.smoothness is not None:
            smoothness = real("smoothness", self.smoothness)
            object.__setattr__(self, "smoothness", smoothness)
            if not (0.0 <= smoothness < math.inf):
                raise ValueError(
                    f"smoothness must be non-negative and finite, or None, got {shown(smoothness)}"
                )
            if self.strong_convexity > smoothness:
                raise ValueError(
                    "strong_convexity must not exceed smoothness, got "
                    f"{shown(self.strong_convexity)} > {shown(smoothness)}"
                )
        if self.strong_convexity * self.radius > self.lipschitz * (1.0 + 1e-9):
            raise ValueError(
                "strong_convexity times radius must not exceed lipschitz: across a ball of radius "
                "R the gradients of a loss differ by 2 m R, and none is longer than L; got "
                f"{shown(self.strong_convexity)} * {shown(self.radius)} > {shown(self.lipschitz)}"
            )
        if self.sparsity is not None:
            sparsity = _size("sparsity", self.sparsity)
            object.__setattr__(self, "sparsity", sparsity)
            if sparsity > self.dim:
                raise ValueError(
                    f"sparsity must not exceed dim, got {shown(self.sparsity)} > {shown(self.dim)}"
                )

    def lipschitz_in(self, norm: Norm) -> float:
        """Return the smallest ``L`` in a norm that follows from all declared norms.

        Gradients with ``s`` non-zero coordinates have ``|g|_1 <= sqrt(s) |g|_2 <= s |g|_inf``.

        Examples
        --------
        >>> facts = ProblemClass(n=10, dim=9, lipschitz=3.0, radius=1.0, lipschitz_linf=0.5)
        >>> facts.lipschitz_in(Norm.LINF), round(facts.lipschitz_in(Norm.L2), 9)
        (0.5, 1.5)
        """
        places = self.sparsity or self.dim
        return min(
            norm.bound(getattr(self, fact), declared, places)
            for fact, declared in LIPSCHITZ.items()
        )

    @property
    def diameter(self) -> float:
        """``D = 2R``, the diameter of the ball that contains the constraint set."""
        return 2.0 * self.radius


@dataclass(frozen=True, kw_only=True)
class Assumptions:
    """Assumptions of a guarantee on the data; there are none by default.

    A mechanism returns its assumptions from ``assumptions(relation)``. A plan requires that the
    problem class declares them, and a run requires that the problem declares them.

    Parameters
    ----------
    n, dim, lipschitz, lipschitz_l1, lipschitz_linf, smoothness, radius, sparsity : float
        Largest permitted declarations. A larger number of records is refused, which does not depend
        on data sets that the guarantee covers. Records must not be dropped instead: removing an
        early record would then include a late one, which is two changes between neighbours.
    strong_convexity : float
        Smallest permitted declaration.
    convex, whole_space : bool
        True if losses must be convex; True if there must be no constraint.
    requires : frozenset of str
        Features of a problem, beyond gradients and projection: ``"smoothing"``,
        ``"linear_model"``, ``"mean"``.
    besides : tuple of str
        Further assumptions in words.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0)
    >>> both = Assumptions(lipschitz=2.0) & Assumptions(convex=True)
    >>> both.sentences(facts, Relation.REPLACE_ONE)
    ('every loss is convex and 1-Lipschitz',)
    >>> Assumptions(lipschitz=0.5).check(facts)
    Traceback (most recent call last):
    ValueError: problem_class.lipschitz must be at most 0.5, an assumption of the guarantee, got 1.0
    """

    n: float = math.inf
    dim: float = math.inf
    lipschitz: float = math.inf
    lipschitz_l1: float = math.inf
    lipschitz_linf: float = math.inf
    smoothness: float = math.inf
    radius: float = math.inf
    sparsity: float = math.inf
    strong_convexity: float = 0.0
    convex: bool = False
    whole_space: bool = False
    requires: frozenset[str] = frozenset()
    besides: tuple[str, ...] = ()

    def __and__(self, other: Assumptions) -> Assumptions:
        """Return the union of the assumptions."""

        def both(name: str) -> object:
            mine, others = getattr(self, name), getattr(other, name)
            if name == "besides":
                return mine + others
            if name == "requires" or isinstance(mine, bool):
                return mine | others
            return max(mine, others) if name == "strong_convexity" else min(mine, others)

        return Assumptions(**{each.name: both(each.name) for each in fields(self)})  # type: ignore[arg-type]

    @classmethod
    def declared(cls, facts: ProblemClass) -> Assumptions:
        """Return the assumption that everything but the sizes is at least as good as declared."""
        names = (*LIPSCHITZ, *("smoothness", "radius", "sparsity"))
        names += ("strong_convexity", "convex")
        values = {name: getattr(facts, name) for name in names}
        return cls(**{name: value for name, value in values.items() if value is not None})

    @classmethod
    def of(cls, part: object, relation: Relation) -> Assumptions:
        """Return the assumptions of a mechanism; by default the union over its fields."""
        method = getattr(part, "assumptions", None)
        if method is not None:
            return cls() & method(relation)
        names = getattr(part, "_fields", getattr(part, "__dataclass_fields__", ()))
        return reduce(and_, (cls.of(getattr(part, name), relation) for name in names), cls())

    def check(
        self, facts: ProblemClass, name: str = "problem_class", owner: str = "the guarantee"
    ) -> None:
        """Check that the class declares all assumptions; the error names the fact."""

        def refuse(fact: str, rule: str) -> None:
            raise ValueError(
                f"{name}.{fact} must be {rule}, an assumption of {owner}, got "
                f"{shown(getattr(facts, fact))}"
            )

        for fact in ("n", "dim", *LIPSCHITZ, "smoothness", "radius", "sparsity"):
            most, declared = getattr(self, fact), getattr(facts, fact)
            if not (math.inf if declared is None else declared) <= most:
                refuse(fact, f"at most {most:g}")
        if not facts.strong_convexity >= self.strong_convexity:
            refuse("strong_convexity", f"at least {self.strong_convexity:g}")
        if self.convex and not facts.convex:
            refuse("convex", "True")
        if self.whole_space and math.isfinite(facts.radius):
            refuse("radius", "inf, the whole space")

    def sentences(self, facts: ProblemClass, relation: Relation) -> tuple[str, ...]:
        """Return the assumptions that cannot be checked, as sentences."""
        losses = ["convex"] if self.convex else []
        for fact, adjective in (
            ("lipschitz", "Lipschitz"),
            ("smoothness", "smooth"),
            ("strong_convexity", "strongly convex"),
        ):
            if getattr(self, fact) != getattr(Assumptions, fact):
                losses.append(f"{getattr(facts, fact):g}-{adjective}")
        sentences = []
        if losses:
            start = ", ".join(losses[:-1])
            where = " on R^d" if math.isinf(facts.radius) else ""
            sentences.append(f"every loss is {start and start + ' and '}{losses[-1]}{where}")
        if self.sparsity < math.inf:
            sentences.append(f"every gradient has at most {facts.sparsity} numbers that are not 0")
        if relation is Relation.ADD_OR_REMOVE_ONE and self.n < math.inf:
            sentences.append(f"at most {self.n:g} records")
        return (*sentences, *self.besides)
