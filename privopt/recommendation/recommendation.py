"""A recommendation: every algorithm's plan at one guarantee, ranked, and printed on one screen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal

from privopt.algorithms import ALGORITHMS
from privopt.arguments import check_type, instance, member, positive_number
from privopt.recommendation.candidates import Candidate, plans, ranked, without_privacy
from privopt.recommendation.cost import cost_of
from privopt.recommendation.known_losses import LOSSES, provided
from privopt.recommendation.plates import Plates
from privopt.recommendation.screen import screen
from privopt.recommendation.what_if import Reach, WhatIf, reach, what_ifs
from privopt.spec import Budget, ProblemClass
from privopt.theory import Quantity, Rate
from privopt.tuning import is_tuned

_CLOSE = 1.25  # how far from the best bound a method may be that is asked in its place
SLOW = ("bias_reduced_sgd", "dp_svrg")
"""Their noise composes batches of several sizes, and takes one to four seconds to find."""


@dataclass(frozen=True, eq=False)
class Recommendation:
    """The plans of all algorithms for one class and budget; ``print`` shows them on one screen.

    Attributes
    ----------
    ranked : mapping of Quantity to tuple of Candidate
        By certified bound, smallest first; what bounds speak of is never mixed.
    unbounded, refused : mapping of str to str
        Why other algorithms have no bound, or no plan.
    left_out : tuple of str
        ``SLOW`` ones that were not asked for.
    no_plates : str
        Why nothing that was measured is told; empty where it is.
    """

    problem_class: ProblemClass
    budget: Budget
    loss: str | None
    accuracy: float | None
    ranked: Mapping[Quantity, tuple[Candidate, ...]]
    unbounded: Mapping[str, str]
    refused: Mapping[str, str]
    left_out: tuple[str, ...]
    no_plates: str
    _provides: frozenset[str] | None = field(repr=False)

    @property
    def best(self) -> Candidate | None:
        """The smallest certified bound, of empirical risk where any method bounds it."""
        return next((first for first, *_ in self.ranked.values()), None)

    @property
    def asked(self) -> Candidate | None:
        """Who answers for the best: the best of those that draw no batches, if it is close to it.

        The noise of samples takes long to find; close is a bound within a quarter.
        """
        if self.best is None:
            return None
        listed = self.ranked[self.best.quantity]
        close = (
            each for each in listed
            if not each.plan.algorithm.gathers and each.certified <= _CLOSE * self.best.certified
        )  # fmt: skip
        return next(close, self.best)

    @cached_property
    def reach(self) -> Reach | None:
        """Where the bound of ``asked`` comes down to ``accuracy``, or to half of itself."""
        if self.asked is None:
            return None
        return reach(self.asked.plan, self.accuracy or 0.5 * self.asked.certified)

    @cached_property
    def what_ifs(self) -> tuple[WhatIf, ...]:
        """Assumptions that take a fifth or more off the best bound.

        By the method ``asked``, and by those that draw no batches and have no bound now.
        """
        if self.best is None or self.asked is None:
            return ()
        bounded = {each.name for listed in self.ranked.values() for each in listed}
        others = (name for name in _private() if not ALGORITHMS[name].gathers)
        names = (self.asked.name, *(name for name in others if name not in bounded))
        return what_ifs(
            self.problem_class, self.budget, names=names, quantity=self.best.quantity,
            best=self.best.certified, loss=self.loss, provides=self._provides,
        )  # fmt: skip

    @cached_property
    def without_privacy(self) -> Rate:
        """The bound of gradient descent on the same class."""
        return without_privacy(self.problem_class, self.budget)

    def table(self) -> list[dict[str, object]]:
        """A row a plan: its ranks, its bound, its plate and what it costs."""
        rows = []
        for quantity, listed in self.ranked.items():
            seen = sorted((x for x in listed if x.measured is not None), key=_by_measured)
            for rank, each in enumerate(listed, 1):
                rows.append({
                    "quantity": quantity.value, "rank": rank, "method": each.name,
                    "certified": each.certified, "measured": each.measured,
                    "rank_measured": seen.index(each) + 1 if each in seen else None,
                    "plate": each.plate, **each.cost._asdict(), "remarks": each.remarks,
                })  # fmt: skip
        return rows

    def __str__(self) -> str:
        return screen(self)


def recommend(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    loss: str | None = None,
    accuracy: float | None = None,
    algorithms: Iterable[str] | Literal["all"] | None = None,
    results: Path | str | None = None,
) -> Recommendation:
    """Every algorithm's default plan, ranked by certified bound and by what was measured near it.

    Nothing is run and no data are seen. A bound speaks of the worst problem of the class, and on
    plates the risk is .05 to .8 of it, method by method: the two orders differ, and both are told.

    Parameters
    ----------
    problem_class : ProblemClass
        :func:`privopt.recommendation.problem_class_of` has those of losses with a name.
    budget : Budget
    loss : str, optional
        One of :data:`privopt.recommendation.LOSSES`: methods that do not take it are refused, and
        its own plates count first. By default what a method asks of the loss is a remark.
    accuracy : float, optional
        The wanted bound. Default: half of the best.
    algorithms : iterable of str, or "all"
        Default all of ``ALGORITHMS`` that are private, but for ``SLOW`` ones, which take one to
        four seconds each.
    results : path, optional
        Folder of recorded experiments, as ``privopt run`` writes it. By default ``results`` here
        or, if nothing is recorded there, the one that comes with the package. Without
        ``privopt[lab]`` nothing measured is told.

    Examples
    --------
    >>> import privopt
    >>> facts = privopt.ProblemClass(n=10**5, dim=100, lipschitz=1.0, radius=10.0, smoothness=0.25)
    >>> budget = privopt.Budget(epsilon=1.0, delta=1e-10, relation="replace_one")
    >>> found = privopt.recommend(facts, budget, algorithms=["dp_gd", "output_perturbation"])
    >>> [(row["method"], round(row["certified"], 4)) for row in found.table()]
    [('dp_gd', 0.0176), ('output_perturbation', 0.3427)]
    >>> found.reach
    Reach(method='dp_gd', target=0.00880..., n=210000, epsilon=2.1)
    """
    instance("problem_class", problem_class, ProblemClass)
    instance("budget", budget, Budget)
    if loss is not None:
        member("loss", loss, LOSSES)
    wanted = None if accuracy is None else positive_number("accuracy", accuracy)
    check_type("algorithms", algorithms, Iterable[str] | None)
    check_type("results", results, Path | str | None)
    left_out = SLOW if algorithms is None else ()
    names = _private()
    if algorithms is not None and not (isinstance(algorithms, str) and algorithms == "all"):
        names = tuple(algorithms)
        for name in names:
            member("algorithms", name, _private())
        names = tuple(dict.fromkeys(names))
    names = tuple(name for name in names if name not in left_out)
    provides = None if loss is None else provided(loss, problem_class)
    found, plates = plans(names, problem_class, budget, provides), Plates.of(results)
    listed = [
        Candidate(
            plan, cost_of(plan), None if plates.missing else plates.nearest(plan, loss),
            plan.requires if loss is None else frozenset(),
        )
        for plan in found.bounded
    ]  # fmt: skip
    return Recommendation(
        problem_class, budget, loss, wanted, ranked(listed),
        found.unbounded, found.refused, left_out, plates.missing, provides,
    )  # fmt: skip


def _private() -> tuple[str, ...]:
    return tuple(name for name, each in ALGORITHMS.items() if each.private and not is_tuned(each))


def _by_measured(each: Candidate) -> float:
    assert each.measured is not None
    return each.measured
