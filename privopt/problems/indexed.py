"""A family: problems of one kind, indexed by size and strength."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from privopt.arguments import instance
from privopt.problems.problem import Problem

__all__ = ["Family", "first_records"]


@dataclass(frozen=True)
class Family:
    """Problems of one kind at every size; one's own take part in an experiment as privopt's do.

    Attributes
    ----------
    name : str
        Small letters, digits and underscores.
    summary : str
    build : callable
        ``build(n=, dim=, noise_ratio=, strength=) -> Problem``; of a population where every run is
        to draw records of its own. ``noise_ratio`` is the public number ``sqrt(dim) / (n mu)``;
        ``strength`` is the family's free parameter, over which a worst case is taken. Families of
        sparse records take ``sparsity=`` besides, from the experiment's setting or its axis.
    strengths : tuple of float
        The values worth taking.
    dim, max_n : int or None
        Fixed dimension and largest size of real data; ``None`` where free.

    Examples
    --------
    >>> from privopt.problems import FAMILIES
    >>> FAMILIES["linear"].build(n=100, dim=2, noise_ratio=0.1, strength=2.0)
    <Problem linear: n = 100, dim = 2, loss = Linear, constraint = L2Ball, dtype = float64>
    """

    name: str
    summary: str
    build: Callable[..., Problem]
    strengths: tuple[float, ...] = (1.0,)
    dim: int | None = None
    max_n: int | None = None

    @property
    def hard(self) -> bool:
        """Whether the family is built to be hard, rather than given."""
        return self.max_n is None

    @classmethod
    def of(cls, problem: Problem, summary: str = "") -> Family:
        """The family of a problem of one's own: at size ``n``, that of its first ``n`` records.

        Their order should be public and random, as that of ``Dataset.subset``: a file sorted by
        label has other problems at its beginning.
        """
        facts = instance("problem", problem, Problem).problem_class
        return cls(
            problem.name, summary, partial(first_records, problem), dim=facts.dim, max_n=facts.n
        )


def first_records(
    problem: Problem, *, n: int, dim: int, noise_ratio: float, strength: float
) -> Problem:
    """The first ``n`` records; the others stay, at multiplicity 0: every ``n`` has one shape."""
    del noise_ratio, strength
    if dim != problem.problem_class.dim:
        raise ValueError(f"dim must be {problem.problem_class.dim} for {problem.name}, got {dim}")
    return problem.first(n)
