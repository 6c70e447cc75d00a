"""Families: problems of one kind, indexed by size and strength."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from privopt.arguments import instance, shown
from privopt.problems.problem import Problem


@dataclass(frozen=True)
class Family:
    """Problems of one kind, indexed by size. Experiments also accept user-defined families.

    The ``name`` has small letters, digits and underscores. The builder is ``build(n=, dim=,
    noise_ratio=, strength=) -> Problem``. The ``noise_ratio`` is the public number ``sqrt(dim) /
    (n mu)``. The ``strength`` is a free parameter; an experiment reports the worst case over
    ``strengths``. Families of sparse records also take ``sparsity=``, from the setting or the axis
    of the experiment. If every run must sample its own records, ``build`` returns the problem of a
    population. ``dim`` and ``max_n`` are the dimension and the largest size of real data, or None
    if any size is possible. A ``redrawn`` family samples a new data set from one distribution for
    every integer strength.

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
        """True for constructed families, False for real data."""
        return self.max_n is None

    @classmethod
    def of(cls, problem: Problem, summary: str = "") -> Family:
        """Return the family of one problem; size ``n`` means its first ``n`` records.

        The order of the records should be public and random, as in ``Dataset.subset``. The first
        records of a file sorted by label are another problem.
        """
        facts = instance("problem", problem, Problem).problem_class
        return cls(
            problem.name, summary, partial(first_records, problem), dim=facts.dim, max_n=facts.n
        )


def first_records(
    problem: Problem, *, n: int, dim: int, noise_ratio: float, strength: float
) -> Problem:
    """Return the problem of the first ``n`` records; all ``n`` have the same array shapes."""
    del noise_ratio, strength
    if dim != problem.problem_class.dim:
        raise ValueError(
            f"dim must be {problem.problem_class.dim} for {problem.name}, got {shown(dim)}"
        )
    return problem.first(n)
