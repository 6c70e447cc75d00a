"""An algorithm is a record of two functions; a plan is all that is decided before data are seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from typing import Any, NamedTuple, Protocol

import jax
from jax import Array

from privopt.arguments import instance, member
from privopt.core.screen import screen
from privopt.privacy import Guarantee
from privopt.spec import Budget, ProblemClass
from privopt.theory import Rate

__all__ = ["Algorithm", "Objective", "Plan", "Run", "Source", "planner"]


class Run(NamedTuple):
    """What came out.

    Attributes
    ----------
    released : Array
        The parameter the guarantee covers, of shape ``(dim,)``, of the problem's ``shape``, or a
        pytree like its ``start``; leading axes ``(plans, keys)`` from :func:`run_many`.
    secret : NamedTuple of Array
        Diagnostics computed from the data without noise, for experiments; never to be published.
    path : privopt.convex.Path or None
        What would have been released after fewer steps, covered by the same guarantee; where the
        plan asked for it to be recorded.
    """

    released: Any
    secret: Any
    path: Any = None


class Objective(Protocol):
    """What an algorithm sees of a problem on the device; a pytree."""

    constraint: Any

    @property
    def dtype(self) -> Any:
        """The floating type of the data, which the run follows."""

    def astype(self, dtype: Any) -> Objective:
        """The same objective with every floating number cast."""

    @property
    def records(self) -> Array | int:
        """How many there are."""

    def start(self, dim: int) -> Any:
        """A public point to start from."""

    def clipped_gradient_sum(
        self, clip: Array, gamma: Array | None = None, microbatch: int = 512
    ) -> Callable[[Any], Any]:
        """``w -> sum_i clip(grad l(w; x_i))``."""

    def clipped_batch_sum(
        self, clip: Array, gamma: Array | None = None, microbatch: int = 512
    ) -> Callable[..., Any]:
        """``(w, records, weights, anchor) -> sum`` over a batch of records ``0..n-1``."""

    def clipped_linear_model(self, clip: Array, size: Array) -> Any:
        """The losses with these gradients over ``size`` as a linear model, if they are one."""

    def moved_loss_sum(
        self, clip: Array, centre: Array, radius: Array, resolution: Array
    ) -> Callable[[Array], tuple[Array, Array]]:
        """``w -> (value, gradient)`` of the losses with these gradients, read from ``centre``."""

    def without_nulls(self, clip: Array, point: Array) -> Objective:
        """The same without the records that contribute zero for not being finite at ``point``."""

    def smoothed(self, width: Array) -> Objective:
        """Every loss replaced by its Moreau envelope, ``(1/width)``-smooth."""


class Source(Protocol):
    """Where the records of a run come from: given ones, or a population; a pytree."""

    @property
    def dtype(self) -> Any:
        """The floating type of the data."""

    def astype(self, dtype: Any) -> Source:
        """The same with every floating number cast."""

    def sample(self, key: Array) -> tuple[Objective, Array]:
        """What the run sees, and what is left of its key: all of it where nothing is drawn."""


@dataclass(frozen=True)
class Algorithm:
    """A record of two functions.

    Attributes
    ----------
    name : str
        As in ``ALGORITHMS``.
    summary : str
        One line for people.
    plan : callable
        ``plan(problem_class, budget, **choices) -> Plan`` on the host; sees no data.
    run : callable
        ``run(static, params, objective, key) -> Run`` on the device; pure.
    private : bool
        False for the non-private twins, whose guarantee is infinite.
    float64 : bool
        True where the guarantee rests on a solve that float32 would spoil; the run is then done
        in float64 whatever the data's type, and its release cast back.
    gathers : bool
        True where every step gathers a batch of records. On a CPU, whose caches hold one batch
        and not hundreds, :func:`run_many` then takes replicates one after another on each
        device; elsewhere side by side, as always.
    """

    name: str
    summary: str
    plan: Callable[..., Plan]
    run: Callable[[Any, Any, Any, Array], Run]
    private: bool = True
    float64: bool = False
    gathers: bool = False


@dataclass(frozen=True)
class Plan:
    """Everything decided before the data is seen. Not a pytree: it cannot enter a compiled run.

    Attributes
    ----------
    algorithm : Algorithm
    problem_class : ProblemClass
    budget : Budget
    params : NamedTuple
        The numbers, which enter the device by argument: noise scale, step size, step count.
    static : NamedTuple
        What shapes the program, hashable; plans of equal ``static`` share one trace.
    guarantee : Guarantee
        Accounts for the noise that is really added; within ``budget`` or the plan is refused.
    rate : Rate
    requires : frozenset of str
        What the problem must provide beyond gradients and projection: ``"smoothing"``,
        ``"linear_model"``.
    most_records : int or None
        Under ``add_or_remove_one``, where the number of records is itself to be kept secret: the
        most there may be, or None where the guarantee holds for any number. A public fact, like
        ``n``, and part of what the guarantee says: it speaks of data sets up to this size, and
        treats any two neighbours among them alike. Larger ones are refused. The refusal tells
        nothing about data sets the guarantee speaks of; and to leave records out instead would
        bring a late record in when an early one goes, two changes where neighbours have one. Who
        wants room for more records than are at hand plans for a larger ``n``.
    """

    algorithm: Algorithm
    problem_class: ProblemClass
    budget: Budget
    params: Any
    static: Any
    guarantee: Guarantee
    rate: Rate
    requires: frozenset[str] = field(default_factory=frozenset)
    most_records: int | None = None

    def __post_init__(self) -> None:
        instance("problem_class", self.problem_class, ProblemClass)
        instance("budget", self.budget, Budget)
        instance("guarantee", self.guarantee, Guarantee)
        instance("rate", self.rate, Rate)
        hash(self.static)
        for path, number in jax.tree_util.tree_leaves_with_path(self.params):
            if not isinstance(number, int | float) or math.isnan(number):
                name = jax.tree_util.keystr(path)
                raise ValueError(f"params{name} must be a number, got {number!r}")
        if not self.algorithm.private:
            return
        if self.guarantee.relation is not self.budget.relation:
            raise ValueError(
                "guarantee.relation must be the budget's, got "
                f"{self.guarantee.relation} and {self.budget.relation}"
            )
        if not self.guarantee.meets(self.budget):
            spent = self.guarantee.epsilon(self.budget.delta).upper
            raise ValueError(
                f"guarantee must lie within the budget: epsilon {spent!r} at "
                f"delta {self.budget.delta!r} exceeds {self.budget.epsilon!r}"
            )

    def __repr__(self) -> str:
        facts = self.problem_class
        return f"<Plan of {self.algorithm.name}: n = {facts.n}, dim = {facts.dim}, {self.budget}>"

    def __str__(self) -> str:
        """One screen: what is known, spent, added and promised."""
        return screen(self)


def planner(plan: Callable[..., Plan]) -> Callable[..., Plan]:
    """Decorate the ``plan`` of an algorithm: what is no class, budget or choice is refused by name.

    Raises
    ------
    ValueError
        From the decorated function, before anything else: if ``problem_class`` is no
        :class:`ProblemClass`, ``budget`` no :class:`Budget`, or a choice unknown.
    """
    known = [
        name for name, each in signature(plan).parameters.items() if each.kind is each.KEYWORD_ONLY
    ]

    @wraps(plan)
    def checked(problem_class: ProblemClass, budget: Budget, **choices: Any) -> Plan:
        instance("problem_class", problem_class, ProblemClass)
        instance("budget", budget, Budget)
        for name in choices:
            member("choice", name, known)
        return plan(problem_class, budget, **choices)

    return checked
