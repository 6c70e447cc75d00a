"""A family: problems of one kind, indexed by size and strength."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from privopt.arguments import instance, shown
from privopt.problems.problem import Problem


@dataclass(frozen=True)
class Family:
    """Problems of one kind, indexed by size; your own take part in an experiment like these.

    The ``name`` has small letters, digits and underscores. ``build(n=, dim=, noise_ratio=,
    strength=) -> Problem``: ``noise_ratio`` is the public number ``sqrt(dim) / (n mu)``, and
    ``strength`` the family's free parameter; an experiment takes the worst case over ``strengths``.
    Families of sparse records also take ``sparsity=``, from the experiment's setting or its axis.
    Where every run is to draw its own records, the problem is one of a population. ``dim`` and
    ``max_n`` are the dimension and the largest size of real data, ``None`` where free. A family
    that is ``redrawn`` has a data set of its own, of one law, for every whole strength.

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
    redrawn: bool = False

    @property
    def hard(self) -> bool:
        """Whether the family is built to be hard, rather than given."""
        return self.max_n is None

    @classmethod
    def of(cls, problem: Problem, summary: str = "") -> Family:
        """The family of your own problem: size ``n`` is its first ``n`` records.

        Their order should be public and random, like that of ``Dataset.subset``. The beginning of
        a file that is sorted by label is another problem.
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
        raise ValueError(
            f"dim must be {problem.problem_class.dim} for {problem.name}, got {shown(dim)}"
        )
    return problem.first(n)
