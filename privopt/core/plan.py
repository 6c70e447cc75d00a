"""An algorithm is a record of two functions; a plan is all that is decided before data are seen."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property, wraps
from inspect import signature
from typing import Any, Literal

from privopt.arguments import described, instance, member, real
from privopt.core.outcome import Run
from privopt.core.parameters import Parameters, content, frozen
from privopt.core.screen import screen
from privopt.privacy import Guarantee
from privopt.release import Pytree
from privopt.spec import Budget, ProblemClass, Relation
from privopt.theory import Rate

__all__ = ["Algorithm", "Plan", "planner"]


@dataclass(frozen=True)
class Algorithm:
    """A record of two functions, and of facts that hold for all its plans.

    Parameters
    ----------
    name : str
        As in ``ALGORITHMS``.
    summary : str
        One line for people.
    plan : callable
        ``plan(problem_class, budget, **choices) -> Plan`` on the host; sees no data.
    run : callable
        ``run(static, params, objective, key, execution) -> Run`` on the device; pure. With
        ``coins`` it takes them as a sixth argument.
    private : bool
        False for the non-private twins, whose guarantee is infinite.
    float64 : bool
        True where the guarantee rests on a solve that float32 would spoil; the run is then done
        in float64 whatever the data's type, and its release cast back.
    gathers : bool
        True where every step gathers a batch of records. On a CPU, whose caches hold one batch
        and not hundreds, :func:`run_many` then takes replicates one after another on each
        device, unless its ``execution`` says otherwise; elsewhere side by side, as always.
    public_terms : bool
        True where a run adds the gradient of a problem's public term to what it hears of the
        records. A problem with such a term is refused by all others: they would leave it out, or
        take it for a record's.
    coins : callable, optional
        ``coins(static, params, key) -> pytree`` on the device: the public randomness of a run,
        drawn without data from the stream ``"coins"``, once for a group of replicates. What is
        drawn is no secret and costs no privacy, but the mechanism must be private whatever it is.
        Replicates of a group are batched and their coins are not, so that a ``jax.lax.switch``
        over coins runs one branch.
    noise : {"answers", "objective", "law"} or None
        Where randomness enters: added to ``"answers"`` of bounded queries; into the
        ``"objective"`` before it is minimised; or as the ``"law"`` that the release is drawn from.
        None for the non-private twins.
    relations : frozenset of Relation
        Under which there is a theorem; ``plan`` refuses the others.
    largest_dim : int or None
        The dimension beyond which ``plan`` refuses.
    tight : bool
        Whether the noise is the least that the accountant allows. False for noise as published.

    Examples
    --------
    >>> from privopt.algorithms import ALGORITHMS
    >>> ALGORITHMS["dp_sgd"].gathers, ALGORITHMS["output_perturbation"].float64
    (True, True)
    >>> "steps" in ALGORITHMS["dp_sgd"].choices
    True
    """

    name: str
    summary: str
    plan: Callable[..., Plan]
    run: Callable[..., Run]
    private: bool = True
    float64: bool = False
    gathers: bool = False
    public_terms: bool = False
    coins: Callable[..., Pytree] | None = None
    noise: Literal["answers", "objective", "law"] | None = "answers"
    relations: frozenset[Relation] = frozenset(Relation)
    largest_dim: int | None = None
    tight: bool = True

    @property
    def choices(self) -> frozenset[str]:
        """The keywords that ``plan`` takes beside class and budget."""
        return frozenset(_choices(self.plan))


@dataclass(frozen=True, eq=False)
class Plan:
    """Everything decided before the data is seen. Not a pytree: it cannot enter a compiled run.

    Plans compare, and are hashed, by what they hold, arrays by their content.

    Parameters
    ----------
    algorithm : Algorithm
    problem_class : ProblemClass
    budget : Budget
    params : NamedTuple
        The numbers, which enter the device by argument: noise scale, step size, step count. Its
        field ``mechanism`` has ``event(relation)``. Leaves are Python numbers, or NumPy arrays of
        finite numbers, which are read-only in a plan (a writable one is copied).
    static : NamedTuple
        What shapes the program, hashable; plans of equal ``static`` share one trace.
    rate : Rate
    assumptions : tuple of str
        What must be true of the data for the mechanism's event to describe a run, in words.
    requires : frozenset of str
        What the problem must provide beyond gradients and projection: ``"smoothing"``,
        ``"linear_model"``, ``"mean"``, ``"unit_modulus"``.
    most_records : int or None
        Under ``add_or_remove_one``, where the number of records is itself to be kept secret: the
        most there may be, or None where the guarantee holds for any number. A public fact, like
        ``n``, and part of what the guarantee says: it speaks of data sets up to this size, and
        treats any two neighbours among them alike. Larger ones are refused. The refusal tells
        nothing about data sets the guarantee speaks of; and to leave records out instead would
        bring a late record in when an early one goes, two changes where neighbours have one. Who
        wants room for more records than are at hand plans for a larger ``n``.
    noise_factor : float or None
        None for a plan, whose guarantee is within the budget. A number for a *control* of an
        experiment, made by :meth:`with_noise`: so many times the noise of a plan, checked against
        no budget, never to be released.

    Raises
    ------
    ValueError
        If a part is of another type, a parameter is no number, or the guarantee that follows from
        the mechanism is not within the budget.

    Examples
    --------
    >>> import privopt
    >>> facts = privopt.ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0)
    >>> budget = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
    >>> plan = privopt.ALGORITHMS["dp_gd"].plan(facts, budget, steps=10)
    >>> plan.guarantee.epsilon(1e-5).upper <= 1.0
    True
    >>> from dataclasses import replace
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
    rate: Rate
    assumptions: tuple[str, ...] = ()
    requires: frozenset[str] = field(default_factory=frozenset)
    most_records: int | None = None
    noise_factor: float | None = None

    def __post_init__(self) -> None:
        instance("algorithm", self.algorithm, Algorithm)
        instance("problem_class", self.problem_class, ProblemClass)
        instance("budget", self.budget, Budget)
        instance("rate", self.rate, Rate)
        hash(self.static)
        mechanism = getattr(self.params, "mechanism", None)
        if not callable(getattr(mechanism, "event", None)):
            raise ValueError(
                f"params must have a mechanism with an event, got {described(self.params)}"
            )
        object.__setattr__(self, "params", frozen(self.params))
        factor = self.noise_factor
        if factor is not None and not 0.0 <= real("noise_factor", factor) < math.inf:
            raise ValueError(f"noise_factor must be at least 0 and finite, got {factor!r}")
        if self.private and not self.guarantee.meets(self.budget):
            spent = self.guarantee.epsilon(self.budget.delta).upper
            raise ValueError(
                f"guarantee must lie within the budget: epsilon {spent!r} at "
                f"delta {self.budget.delta!r} exceeds {self.budget.epsilon!r}"
            )

    @property
    def private(self) -> bool:
        """Whether the guarantee was found within the budget: not of twins, nor of controls."""
        return self.algorithm.private and self.noise_factor is None

    @cached_property
    def guarantee(self) -> Guarantee:
        """What the run of these ``params`` guarantees: the event of their mechanism.

        Accounts for the noise that is really added; within ``budget`` or the plan is refused,
        unless it is a control.
        """
        params: Parameters = self.params
        event = params.mechanism.event(self.budget.relation)
        return Guarantee(event, self.budget.relation, self.assumptions)

    def with_noise(self, factor: float) -> Plan:
        """The same run with its noise times ``factor``: a control, for experiments alone.

        What an experiment claims of noise has to fail where the noise is off, or another. A control
        runs the program of its plan, on other numbers. Its guarantee is that of the noise it adds,
        at ``factor = 0`` none; the budget and the rate remain those of the plan, and neither binds.

        Parameters
        ----------
        factor : float
            From 0 on; of a control it multiplies what was there.

        Returns
        -------
        Plan
            With ``private`` false and ``noise_factor`` a number, also at ``factor = 1``.

        Raises
        ------
        ValueError
            If ``factor`` is negative or not finite; or 0, of a mechanism that is its noise.

        Examples
        --------
        >>> import privopt
        >>> facts = privopt.ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0)
        >>> budget = privopt.Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
        >>> plan = privopt.ALGORITHMS["dp_gd"].plan(facts, budget, steps=10)
        >>> silent = plan.with_noise(0.0)
        >>> silent.private, silent.guarantee.epsilon(1e-5).upper
        (False, inf)
        """
        params: Any = self.params
        if not callable(getattr(params.mechanism, "scaled", None)):
            raise ValueError(
                "params.mechanism must have scaled(factor) for a control, got "
                f"{described(params.mechanism)}"
            )
        changed = params._replace(mechanism=params.mechanism.scaled(factor))
        held = 1.0 if self.noise_factor is None else self.noise_factor
        return replace(self, params=changed, noise_factor=held * factor)

    def _content(self) -> tuple[Hashable, ...]:
        public = (self.algorithm, self.problem_class, self.budget, self.static, self.assumptions)
        more = self.requires, self.most_records, self.noise_factor
        return (*public, *more, content(self.params))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Plan):
            return NotImplemented
        return self._content() == other._content() and self.rate == other.rate

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
        """One screen: what is known, spent, added and promised."""
        return screen(self)


def planner(plan: Callable[..., Plan]) -> Callable[..., Plan]:
    """Decorate the ``plan`` of an algorithm: what is no class, budget or choice is refused by name.

    Parameters
    ----------
    plan : callable
        ``plan(problem_class, budget, **choices) -> Plan``; its choices are keywords.

    Returns
    -------
    callable
        The same function behind the checks.

    Raises
    ------
    ValueError
        From the decorated function, before anything else: if ``problem_class`` is no
        :class:`ProblemClass`, ``budget`` no :class:`Budget`, or a choice unknown.

    Examples
    --------
    >>> from privopt.algorithms import ALGORITHMS
    >>> ALGORITHMS["dp_gd"].plan(None, None)
    Traceback (most recent call last):
    ValueError: problem_class must be a ProblemClass, got an object of type NoneType
    """
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
