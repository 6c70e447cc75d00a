"""The public numbers: what a theorem may know of a problem, and what may be spent on privacy.

Standard library only. Everything here is declared by the user and never estimated from data, so
whatever follows from it alone is data-independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Literal

from privopt.arguments import Names, positive_integer, real, shown

__all__ = ["LIPSCHITZ", "Budget", "Norm", "Premises", "ProblemClass", "Relation", "RelationName"]

RelationName = Literal["replace_one", "add_or_remove_one", "zero_out"]


class Relation(Names):
    """When two data sets are neighbours.

    ``replace_one``
        Same public size ``n``, one record changed to any other.
    ``add_or_remove_one``
        One record present or absent; sums are normalised by a public design size, never by the
        realised one.
    ``zero_out``
        Same public size ``n``, one record replaced by a null record that contributes nothing
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
    """In which norm a length is meant: ``l1``, ``l2`` (the Euclidean one) or ``linf``."""

    L1 = "l1"
    L2 = "l2"
    LINF = "linf"

    @property
    def order(self) -> float:
        """``p`` of the norm ``(sum_j |v_j|^p)^(1/p)``."""
        return {"l1": 1.0, "l2": 2.0, "linf": math.inf}[self]

    def bound(self, size: float, given: Norm, dim: int) -> float:
        """Largest length of a vector of ``dim`` numbers whose norm ``given`` is ``size``.

        ``size d^max(0, 1/p - 1/q)`` for a given order ``q``, rounded up.

        Examples
        --------
        >>> Norm.L1.bound(1.0, Norm.LINF, 4), Norm.LINF.bound(1.0, Norm.L1, 4)
        (4.000000000000002, 1.0)
        """
        power = 1.0 / self.order - 1.0 / given.order
        root = math.sqrt(dim) if power == 0.5 else float(dim)
        return size * root * (1.0 + 2.0**-51) if power > 0.0 else size


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The privacy that may be spent: (epsilon, delta) under a named neighbouring relation.

    Parameters
    ----------
    epsilon : float
        Positive and finite.
    delta : float
        In ``[0, 1)``; 0 asks for pure differential privacy.
    relation : Relation or its name
        There is no default: a budget without its relation says nothing.
    """

    epsilon: float
    delta: float
    relation: Relation

    if TYPE_CHECKING:  # what may be given is wider than what is kept

        def __init__(
            self, *, epsilon: float, delta: float, relation: Relation | RelationName
        ) -> None: ...

    def __post_init__(self) -> None:
        epsilon = real("epsilon", self.epsilon)
        delta = real("delta", self.delta)
        if not (0.0 < epsilon < math.inf):
            raise ValueError(f"epsilon must be positive and finite, got {shown(self.epsilon)}")
        if not (0.0 <= delta < 1.0):
            raise ValueError(f"delta must lie in [0, 1), got {shown(self.delta)}")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)
        object.__setattr__(self, "relation", Relation.named("relation", self.relation))


LIPSCHITZ = {"lipschitz": Norm.L2, "lipschitz_l1": Norm.L1, "lipschitz_linf": Norm.LINF}


@dataclass(frozen=True, kw_only=True)
class ProblemClass:
    """The facts a theorem speaks of; each must hold for every data set, not just the one at hand.

    Norms are Euclidean where no other is named.

    Parameters
    ----------
    n : int
        Number of records (public). Under ``add_or_remove_one`` it is the public design size by
        which sums are normalised.
    dim : int
        Dimension ``d`` of the parameter.
    lipschitz : float
        ``L``: every (sub)gradient of every record's loss has norm at most ``L`` on the constraint
        set. ``math.inf`` declares nothing; methods that clip then need ``clip=``.
    lipschitz_l1, lipschitz_linf : float
        The same in the norms l1 and l-infinity, for methods that ask for them
        (:meth:`lipschitz_in`); by default nothing is declared.
    radius : float
        ``R``: the constraint set lies in the ball of radius ``R`` about its centre, from which
        methods start and towards which they regularise. ``math.inf`` for the whole space. The
        diameter of the theorems is ``D = 2R``.
    smoothness : float, optional
        ``H``: every record's gradient is ``H``-Lipschitz. ``None`` declares nothing.
    strong_convexity : float
        ``mu >= 0``: every record's loss is ``mu``-strongly convex.
    sparsity : int, optional
        ``s``: every record's gradient has at most ``s`` non-zero coordinates.
    convex : bool
        Whether every record's loss is convex. If not, no rate is claimed, and methods whose
        privacy rests on convexity refuse.
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
        object.__setattr__(self, "n", positive_integer("n", self.n))
        object.__setattr__(self, "dim", positive_integer("dim", self.dim))
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
            sparsity = positive_integer("sparsity", self.sparsity)
            object.__setattr__(self, "sparsity", sparsity)
            if sparsity > self.dim:
                raise ValueError(
                    f"sparsity must not exceed dim, got {shown(self.sparsity)} > {shown(self.dim)}"
                )

    def lipschitz_in(self, norm: Norm) -> float:
        """``L`` in a norm: the least that follows from what is declared in any norm.

        Of gradients with ``s`` non-zero coordinates, ``|g|_1 <= sqrt(s) |g|_2 <= s |g|_inf``.

        Examples
        --------
        >>> facts = ProblemClass(n=10, dim=9, lipschitz=3.0, radius=1.0, lipschitz_linf=0.5)
        >>> facts.lipschitz_in(Norm.LINF), round(facts.lipschitz_in(Norm.L2), 9)
        (0.5, 1.5)
        """
        places = self.sparsity or self.dim
        return min(
            norm.bound(getattr(self, fact), given, places) for fact, given in LIPSCHITZ.items()
        )

    @property
    def diameter(self) -> float:
        """``D = 2R``, the diameter of the ball that holds the constraint set."""
        return 2.0 * self.radius


@dataclass(frozen=True, kw_only=True)
class Premises:
    """What a guarantee takes for granted of the data; by default nothing.

    A mechanism says it from its own numbers, by ``premises(relation)``. A plan is refused whose
    problem class does not declare as much, and a problem that does not.

    Parameters
    ----------
    n, dim, lipschitz, lipschitz_l1, lipschitz_linf, smoothness, radius, sparsity : float
        The largest that may be declared. More records are refused, which tells nothing of the data
        sets that the guarantee speaks of; to leave some out would bring a late record in when an
        early one goes, two changes where neighbours have one.
    strong_convexity : float
        The least.
    convex, whole_space : bool
        Whether losses must be convex; whether there must be no constraint.
    requires : frozenset of str
        What the problem must provide beyond gradients and projection: ``"smoothing"``,
        ``"linear_model"``, ``"mean"``.
    besides : tuple of str
        In words.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0)
    >>> (Premises(lipschitz=2.0) & Premises(convex=True)).told(facts, Relation.REPLACE_ONE)
    ('every loss is convex and 1-Lipschitz',)
    >>> Premises(lipschitz=0.5).check(facts)
    Traceback (most recent call last):
    ValueError: problem_class.lipschitz must be at most 0.5, on which the guarantee rests, got 1.0
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

    def __and__(self, other: Premises) -> Premises:
        """All that either takes for granted."""

        def both(name: str) -> object:
            mine, others = getattr(self, name), getattr(other, name)
            if name == "besides":
                return mine + others
            if name == "requires" or isinstance(mine, bool):
                return mine | others
            return max(mine, others) if name == "strong_convexity" else min(mine, others)

        return Premises(**{each.name: both(each.name) for each in fields(self)})  # type: ignore[arg-type]

    @classmethod
    def declared(cls, facts: ProblemClass) -> Premises:
        """That everything is as a class declares it, or better; but for the sizes."""
        names = (*LIPSCHITZ, *("smoothness", "radius", "sparsity"))
        names += ("strong_convexity", "convex")
        told = {name: getattr(facts, name) for name in names}
        return cls(**{name: value for name, value in told.items() if value is not None})

    @classmethod
    def of(cls, part: object, relation: Relation) -> Premises:
        """What a mechanism says by ``premises(relation)``; else all that its fields say."""
        said = getattr(part, "premises", None)
        if said is not None:
            return cls() & said(relation)
        names = getattr(part, "_fields", getattr(part, "__dataclass_fields__", ()))
        return reduce(and_, (cls.of(getattr(part, name), relation) for name in names), cls())

    def check(
        self, facts: ProblemClass, name: str = "problem_class", resting: str = "the guarantee"
    ) -> None:
        """ValueError, naming the fact, unless the class declares as much."""

        def refuse(fact: str, rule: str) -> None:
            raise ValueError(
                f"{name}.{fact} must be {rule}, on which {resting} rests, got "
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

    def told(self, facts: ProblemClass, relation: Relation) -> tuple[str, ...]:
        """What no check can see to, in words: the facts on which the guarantee rests."""
        losses = ["convex"] if self.convex else []
        for fact, adjective in (
            ("lipschitz", "Lipschitz"),
            ("smoothness", "smooth"),
            ("strong_convexity", "strongly convex"),
        ):
            if getattr(self, fact) != getattr(Premises, fact):
                losses.append(f"{getattr(facts, fact):g}-{adjective}")
        told = []
        if losses:
            start = ", ".join(losses[:-1])
            where = " on R^d" if math.isinf(facts.radius) else ""
            told.append(f"every loss is {start and start + ' and '}{losses[-1]}{where}")
        if self.sparsity < math.inf:
            told.append(f"every gradient has at most {facts.sparsity} numbers that are not 0")
        if relation is Relation.ADD_OR_REMOVE_ONE and self.n < math.inf:
            told.append(f"at most {self.n:g} records")
        return (*told, *self.besides)
