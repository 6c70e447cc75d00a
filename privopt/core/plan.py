"""Algorithms and plans: a plan is everything that is decided before the data are seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from inspect import signature
from types import NoneType
from typing import Any, Literal

from jax import Array

from privopt import bibliography
from privopt.arguments import (
    check_fields,
    check_type,
    checked,
    described,
    instance,
    member,
    real,
    shown,
)
from privopt.core.lower_bounds import lower_bounds
from privopt.core.parameters import Parameters, content, frozen, scaled
from privopt.core.runs import Run, Steps
from privopt.core.screen import screen
from privopt.privacy import Guarantee
from privopt.release import Pytree
from privopt.spec import Budget, Premises, ProblemClass, Relation
from privopt.theory import Rate, no_rate


def _no_rate(plan: Plan) -> Rate:
    return no_rate(f"{plan.algorithm.name} declares none")


@dataclass(frozen=True)
class Algorithm:
    """What an algorithm is: functions for the host and the device, and facts about all its plans.

    Parameters
    ----------
    summary : str
        One line for people.
    plan : callable
        ``plan(problem_class, budget, **choices) -> Plan`` on the host; it sees no data.
    run : callable
        ``run(static, params, objective, key, execution[, coins]) -> Run`` on the device; pure.
    rate : callable
        ``rate(plan) -> Rate``: what a theorem says of the numbers in a plan. Default: nothing.
    mechanism : type
        Type of ``plan.params.mechanism``, such as ``GaussianMechanism[OnePass]``. Plans with
        another mechanism or query are refused.
    declares : type
        Type of ``plan.declared``.
    steps, step_count : callable, optional
        ``steps(static, params, objective, key, execution[, coins]) -> Steps``, for
        :func:`privopt.stepper`, and ``step_count(static, params) -> int`` on the host;
        :func:`privopt.core.whole` makes ``run`` from ``steps``.
    rows : callable, optional
        ``rows(static, params, key, t, records) -> (rows, taken)``: the records of step ``t``, where
        a step reads one batch of a fixed size.
    private : bool
        False for the non-private twins, whose guarantee is infinite.
    float64 : bool
        Whether a run is in float64 whatever the data's type, and its release cast back, because the
        guarantee rests on a solve that float32 would spoil.
    gathers : bool
        Whether every step gathers a batch; :func:`run_many` then runs replicates in turn on a CPU.
    public_terms : bool
        Whether a run adds the gradient of a problem's public term. Others refuse such problems.
    coins : callable, optional
        ``coins(static, params, key) -> pytree`` on the device: public randomness, independent of
        the data, drawn once for a group of replicates, so that a ``jax.lax.switch`` on it runs one
        branch. The mechanism must be private for every value.
    noise : {"answers", "objective", "law"} or None
        Where randomness enters: added to answers of bounded queries, added to the objective, or as
        the law from which the release is drawn. None for the twins.
    relations : frozenset of Relation
        For which there is a theorem; ``plan`` refuses others.
    largest_dim : int or None
        ``plan`` refuses more dimensions.
    cites : tuple of str
        The papers it comes from: keys of ``references.bib``, or BibTeX entries of your own.
    """

    name: str
    summary: str
    plan: Callable[..., Plan]
    run: Callable[..., Run]
    rate: Callable[[Plan], Rate] = _no_rate
    mechanism: Any = Any
    declares: type = NoneType
    steps: Callable[..., Steps] | None = None
    step_count: Callable[..., int] | None = None
    rows: Callable[..., tuple[Array, Array]] | None = None
    private: bool = True
    float64: bool = False
    gathers: bool = False
    public_terms: bool = False
    coins: Callable[..., Pytree] | None = None
    noise: Literal["answers", "objective", "law"] | None = "answers"
    relations: frozenset[Relation] = frozenset(Relation)
    largest_dim: int | None = None
    cites: tuple[str, ...] = ()

    @property
    def choices(self) -> frozenset[str]:
        """The keywords that ``plan`` takes beside class and budget."""
        return frozenset(_choices(self.plan))


@dataclass(frozen=True, eq=False)
class Plan:
    """All public numbers of a run, refused unless their guarantee lies within the budget.

    Plans with equal contents are equal, arrays included. A plan is not a pytree: it cannot enter a
    compiled run.

    Parameters
    ----------
    params : NamedTuple
        The numbers, which the device gets as arguments. Leaves are Python numbers or finite NumPy
        arrays, kept read-only. The field ``mechanism`` has ``event(relation)``.
    static : NamedTuple
        What shapes the program; hashable. Plans with equal ``static`` share one trace.
    declared : algorithm.declares, optional
        What a choice declares beside the problem class. It affects ``rate`` alone.
    noise_factor : float or None
        None for a plan. A number for a *control* made by :meth:`with_noise`, which adds so many
        times the noise, is checked against no budget and must never be released.

    Examples
    --------
    >>> import privopt
    >>> from dataclasses import replace
    >>> facts = privopt.ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0)
    >>> budget = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
    >>> plan = privopt.dp_gd(facts, budget, steps=10)
    >>> longer = replace(plan.params.mechanism, steps=1000)
    >>> replace(plan, params=plan.params._replace(mechanism=longer))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: guarantee must lie within the budget: epsilon 14.42... exceeds 1.0
    """

    algorithm: Algorithm
    problem_class: ProblemClass
    budget: Budget
    params: Parameters
    static: Hashable
    declared: object = None
    noise_factor: float | None = None

    def __post_init__(self) -> None:
        instance("algorithm", self.algorithm, Algorithm)
        instance("problem_class", self.problem_class, ProblemClass)
        instance("budget", self.budget, Budget)
        instance("declared", self.declared, self.algorithm.declares)
        hash(self.static)
        mechanism = getattr(self.params, "mechanism", None)
        if not callable(getattr(mechanism, "event", None)):
            raise ValueError(
                f"params must have a mechanism with an event, got {described(self.params)}"
            )
        object.__setattr__(self, "params", frozen(self.params))
        check_type("params.mechanism", mechanism, self.algorithm.mechanism)
        check_fields("static", self.static)
        for name in ("n", "dim"):
            size = getattr(self.problem_class, name)
            if getattr(self.static, name, size) != size:
                raise ValueError(f"static.{name} must be the problem class's {size}")
        factor = self.noise_factor
        if factor is not None and not 0.0 <= real("noise_factor", factor) < math.inf:
            raise ValueError(f"noise_factor must be at least 0 and finite, got {shown(factor)}")
        self.premises.check(self.problem_class)
        if self.private and not self.guarantee.meets(self.budget):
            spent = self.guarantee.epsilon(self.budget.delta).upper
            raise ValueError(
                f"guarantee must lie within the budget: epsilon {shown(spent)} at "
                f"delta {shown(self.budget.delta)} exceeds {shown(self.budget.epsilon)}"
            )

    @property
    def private(self) -> bool:
        """Whether the guarantee was checked against the budget: false for twins and controls."""
        return self.algorithm.private and self.noise_factor is None

    @property
    def premises(self) -> Premises:
        """The facts on which the mechanism's guarantee rests."""
        params: Parameters = self.params
        return Premises.of(params.mechanism, self.budget.relation)

    @cached_property
    def guarantee(self) -> Guarantee:
        """The guarantee of a run with these ``params``, from the event of their mechanism."""
        params: Parameters = self.params
        relation = self.budget.relation
        told = self.premises.told(self.problem_class, relation)
        return Guarantee(params.mechanism.event(relation), relation, told)

    @cached_property
    def rate(self) -> Rate:
        """What theory says of a run with these ``params``, with lower bounds for all algorithms."""
        found = instance("rate", self.algorithm.rate(self), Rate)
        if not self.private:
            return found
        lower = lower_bounds(self.problem_class, self.budget, self.guarantee, found)
        return replace(found, lower=lower)

    @property
    def requires(self) -> frozenset[str]:
        """What guarantee and rate ask of a problem beyond gradients and projection."""
        return self.premises.requires | self.rate.requires

    def citations(self) -> str:
        """BibTeX of what the plan rests on: its algorithm, its theorem, and its accountants.

        Examples
        --------
        >>> import privopt
        >>> facts = privopt.ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0)
        >>> budget = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
        >>> plan = privopt.dp_gd(facts, budget, steps=10)
        >>> plan.citations().splitlines()[0]
        '@inproceedings{bassily2014,'
        """
        theorem = bibliography.named_in(self.rate.source)
        return bibliography.bibtex((*self.algorithm.cites, *theorem, *self.guarantee.cites))

    def with_noise(self, factor: float) -> Plan:
        """The same run with its noise times ``factor >= 0``: a control, for experiments alone.

        A claim about noise has to fail where the noise is off or different. A control runs the
        program of its plan on other numbers. Its ``guarantee`` and ``rate`` are those of the noise
        that it adds, and ``private`` is false even at ``factor = 1``. Factors of repeated calls
        multiply. A Gibbs law, which is its own noise, refuses 0.
        """
        params: Any = self.params
        changed = params._replace(mechanism=scaled(params.mechanism, factor))
        held = 1.0 if self.noise_factor is None else self.noise_factor
        return replace(self, params=changed, noise_factor=held * factor)

    def _content(self) -> tuple[object, ...]:
        public = (self.algorithm, self.problem_class, self.budget, self.static, self.declared)
        return (*public, self.noise_factor, content(self.params))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def __setstate__(self, state: dict[str, object]) -> None:
        """From a pickle or a copy, in which arrays can be written to."""
        vars(self).update(state, params=frozen(state["params"]))

    def __repr__(self) -> str:
        facts, name = self.problem_class, self.algorithm.name
        if self.noise_factor is not None:
            return (
                f"<Control of {name}, noise times {self.noise_factor:g}, for experiments: "
                f"n = {facts.n}, dim = {facts.dim}>"
            )
        return f"<Plan of {name}: n = {facts.n}, dim = {facts.dim}, {self.budget}>"

    def __str__(self) -> str:
        """One screen: class, guarantee, noise, numbers and bounds."""
        return screen(self)


@checked
def planner(plan: Callable[..., Plan]) -> Callable[..., Plan]:
    """Decorate ``plan(problem_class, budget, **choices)``: wrong arguments are refused by name."""
    known = _choices(plan)

    @wraps(plan)
    def checked(problem_class: ProblemClass, budget: Budget, **choices: object) -> Plan:
        instance("problem_class", problem_class, ProblemClass)
        instance("budget", budget, Budget)
        for name in choices:
            member("choice", name, known)
        return plan(problem_class, budget, **choices)

    return checked


def _choices(plan: Callable[..., Plan]) -> list[str]:
    parameters = signature(plan).parameters.items()
    return [name for name, each in parameters if each.kind is each.KEYWORD_ONLY]
