"""The public numbers: what a theorem may know of a problem, and what may be spent on privacy.

Standard library only. Everything here is declared by the user and never estimated from data, so
whatever follows from it alone is data-independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from privopt.arguments import Names, positive_integer, real

__all__ = ["Budget", "ProblemClass", "Relation", "RelationName"]

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
        One of ``replace_one``, ``add_or_remove_one``, ``zero_out``. There is no default: a budget
        without its relation says nothing.

    Raises
    ------
    ValueError
        Naming the argument, the value and the rule it broke.
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
            raise ValueError(f"epsilon must be positive and finite, got {self.epsilon!r}")
        if not (0.0 <= delta < 1.0):
            raise ValueError(f"delta must lie in [0, 1), got {self.delta!r}")
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", delta)
        object.__setattr__(self, "relation", Relation.named("relation", self.relation))


@dataclass(frozen=True, kw_only=True)
class ProblemClass:
    """The facts a theorem speaks of; each must hold for every data set, not just the one at hand.

    Parameters
    ----------
    n : int
        Number of records (public). Under ``add_or_remove_one`` it is the public design size by
        which sums are normalised.
    dim : int
        Dimension ``d`` of the parameter.
    lipschitz : float
        ``L``: every (sub)gradient of every record's loss has Euclidean norm at most ``L`` on the
        constraint set. ``math.inf`` declares nothing; methods that clip then need ``clip=``.
    radius : float
        ``R``: the constraint set lies in the Euclidean ball of radius ``R`` about its centre,
        from which methods start and towards which they regularise. ``math.inf`` for the whole
        space. The diameter of the theorems is ``D = 2R``.
    smoothness : float, optional
        ``H``: every record's gradient is ``H``-Lipschitz. ``None`` declares nothing.
    strong_convexity : float
        ``mu >= 0``: every record's loss is ``mu``-strongly convex.
    sparsity : int, optional
        ``s``: every record's gradient has at most ``s`` non-zero coordinates.
    convex : bool
        Whether every record's loss is convex. If not, no rate is claimed, and methods whose
        privacy rests on convexity refuse.

    Raises
    ------
    ValueError
        Naming the argument, the value and the rule it broke.
    """

    n: int
    dim: int
    lipschitz: float
    radius: float
    smoothness: float | None = None
    strong_convexity: float = 0.0
    sparsity: int | None = None
    convex: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", positive_integer("n", self.n))
        object.__setattr__(self, "dim", positive_integer("dim", self.dim))
        for name in ("lipschitz", "radius", "strong_convexity"):
            object.__setattr__(self, name, real(name, getattr(self, name)))
        if not self.lipschitz > 0.0:
            raise ValueError(
                f"lipschitz must be positive (inf: not declared), got {self.lipschitz!r}"
            )
        if not isinstance(self.convex, bool):
            raise ValueError(f"convex must be True or False, got {self.convex!r}")
        if self.strong_convexity and not self.convex:
            raise ValueError(
                f"strong_convexity must be 0 without convexity, got {self.strong_convexity!r}"
            )
        if not self.radius > 0.0:
            raise ValueError(f"radius must be positive (inf: no constraint), got {self.radius!r}")
        if not (0.0 <= self.strong_convexity < math.inf):
            raise ValueError(
                f"strong_convexity must be non-negative and finite, got {self.strong_convexity!r}"
            )
        if self.smoothness is not None:
            smoothness = real("smoothness", self.smoothness)
            object.__setattr__(self, "smoothness", smoothness)
            if not (0.0 <= smoothness < math.inf):
                raise ValueError(
                    f"smoothness must be non-negative and finite, or None, got {smoothness!r}"
                )
            if self.strong_convexity > smoothness:
                raise ValueError(
                    "strong_convexity must not exceed smoothness, got "
                    f"{self.strong_convexity!r} > {smoothness!r}"
                )
        if self.strong_convexity * self.radius > self.lipschitz * (1.0 + 1e-9):
            raise ValueError(
                "strong_convexity times radius must not exceed lipschitz: across a ball of radius "
                "R the gradients of a loss differ by 2 m R, and none is longer than L; got "
                f"{self.strong_convexity!r} * {self.radius!r} > {self.lipschitz!r}"
            )
        if self.sparsity is not None:
            sparsity = positive_integer("sparsity", self.sparsity)
            object.__setattr__(self, "sparsity", sparsity)
            if sparsity > self.dim:
                raise ValueError(
                    f"sparsity must not exceed dim, got {self.sparsity!r} > {self.dim!r}"
                )

    @property
    def diameter(self) -> float:
        """``D = 2R``, the diameter of the ball that holds the constraint set."""
        return 2.0 * self.radius
