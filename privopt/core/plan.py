"""Algorithms and plans: all decisions that precede the data, and a plan as text."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from inspect import signature
from types import NoneType
from typing import Any, Literal, get_type_hints

import dp_accounting as dp
import jax
import numpy as np
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
from privopt.core.parameters import Parameters, content, frozen, scaled
from privopt.core.runs import Run, Steps
from privopt.privacy import GaussianDP, Guarantee, PureDP, renyi_divergence
from privopt.privacy.flatten import flatten
from privopt.privacy.mechanisms.sampling import chance_of_overflow
from privopt.release import Pytree
from privopt.spec import Assumptions, Budget, ProblemClass, Relation
from privopt.theory import (
    Advantage,
    ApproximateAdvantage,
    GaussianAdvantage,
    LowerBound,
    Rate,
    RenyiAdvantage,
    lower_bound,
    no_rate,
)


def lower_bounds(
    problem_class: ProblemClass, budget: Budget, guarantee: Guarantee, rate: Rate
) -> tuple[LowerBound, ...]:
    """Return the lower bound for the budget and, if larger, the bound for the guarantee."""
    if not rate.whole_class:
        return ()
    advantages = [ApproximateAdvantage(budget), advantage_of(guarantee)]
    within, *own = [
        lower_bound(problem_class, each, rate.quantity, rounds=rate.rounds)
        for each in advantages
        if each is not None
    ]
    return (within, *(each for each in own if each.value > within.value))


def advantage_of(guarantee: Guarantee) -> Advantage | None:
    """Return the strongest advantage of an event for which lower bounds are proved, or None.

    The advantage is Gaussian DP, pure DP or the Renyi divergence of order 2. A truncated batch
    equals the whole sample unless the other records fill its capacity. This event has the same
    probability for both data sets, which is counted as lost.
    """
    event, relation = guarantee.event, guarantee.relation
    if GaussianDP().supports(event, relation):
        mu = GaussianDP().distance(event, relation).upper
        return GaussianAdvantage(mu, relation) if mu < math.inf else None
    if PureDP().supports(event, relation):
        epsilon = PureDP().epsilon(event, relation, 0.0).upper
        within = 0.0 < epsilon < math.inf
        pure = Budget(epsilon=epsilon, delta=0.0, relation=relation) if within else None
        return None if pure is None else ApproximateAdvantage(pure)
    whole, lost = [], 0.0
    for leaf, count in flatten(event):
        if isinstance(leaf, dp.TruncatedSubsampledGaussianDpEvent):
            rate, capacity = leaf.sampling_probability, leaf.truncated_batch_size
            lost += count * chance_of_overflow(leaf.dataset_size - 1, rate, capacity)
            leaf = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(leaf.noise_multiplier))
        whole.append(dp.SelfComposedDpEvent(leaf, count))
    divergence = renyi_divergence(dp.ComposedDpEvent(whole), relation, [2.0])
    if divergence is None or not math.isfinite(divergence[0]):
        return None
    return RenyiAdvantage(float(divergence[0]), relation, lost=min(lost, 1.0))


_PARAMETERS = (
    "clip_norm", "rate", "batch_size", "regularisation", "smoothing", "steps", "step_size",
)  # fmt: skip
_CONTROL_ROWS = ("control", "class", "guarantee", "assuming", "noise", "numbers")


def _no_rate(plan: Plan) -> Rate:
    return no_rate(f"{plan.algorithm.name} declares none")


@dataclass(frozen=True)
class Algorithm:
    """Definition of an algorithm: host and device functions, and facts about all its plans.

    Parameters
    ----------
    summary : str
        One line.
    plan : callable
        ``plan(problem_class, budget, **choices) -> Plan`` on the host; it receives no data.
    run : callable
        ``run(static, params, objective, key, execution[, public]) -> Run`` on the device; pure.
    rate : callable
        ``rate(plan) -> Rate``, the bound for the parameters of a plan. Default: no bound.
    mechanism : type
        Type of ``plan.params.mechanism``, such as ``GaussianMechanism[OnePass]``. Plans with
        another mechanism or query are refused.
    declares : type
        Type of ``plan.declared``.
    steps, step_count : callable, optional
        ``steps(static, params, objective, key, execution[, public]) -> Steps``, for
        :func:`privopt.stepper`, and ``step_count(static, params) -> int`` on the host;
        :func:`privopt.core.whole` makes ``run`` from ``steps``.
    rows : callable, optional
        ``rows(static, params, key, t, records) -> (rows, taken)``: indices and mask of the records
        of step ``t``, if a step reads one batch of a fixed size.
    private : bool
        False for the non-private twins. Their guarantee is infinite.
    float64 : bool
        True if runs use float64 for any data type, because the guarantee assumes a more accurate
        solution than float32 permits. The release is cast back to the data type.
    gathers : bool
        True if every step gathers a batch. On a CPU, :func:`run_many` then runs replicates in turn.
    public_terms : bool
        True if a run adds the gradient of a problem's public term. Others refuse such problems.
    public_randomness : callable, optional
        ``public_randomness(static, params, key) -> pytree`` on the device, independent of the
        data. It is sampled once for a group of replicates, so that a ``jax.lax.switch`` on it
        runs one branch. The mechanism must be private for every value.
    noise : {"answers", "objective", "law"} or None
        Place of the randomness: added to answers of bounded queries, added to the objective, or
        the law of the release. None for the twins.
    relations : frozenset of Relation
        Relations with a theorem; ``plan`` refuses others.
    largest_dim : int or None
        Largest dimension that ``plan`` accepts.
    cites : tuple of str
        Sources: keys of ``references.bib``, or BibTeX entries.
    version : int
        Version of the numbers. Increase it if the algorithm releases other numbers for the same
        key: cached results of experiments are then computed again.
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
    public_randomness: Callable[..., Pytree] | None = None
    noise: Literal["answers", "objective", "law"] | None = "answers"
    relations: frozenset[Relation] = frozenset(Relation)
    largest_dim: int | None = None
    cites: tuple[str, ...] = ()
    version: int = 1

    @property
    def choices(self) -> frozenset[str]:
        """Keywords of ``plan``, other than problem class and budget."""
        return frozenset(_choices(self.plan))


@dataclass(frozen=True, eq=False)
class Plan:
    """Public parameters of a run with a guarantee that meets the budget.

    Plans with equal contents, arrays included, are equal. A plan is not a pytree: it cannot be an
    argument of a compiled function.

    Parameters
    ----------
    params : NamedTuple
        Traced arguments of the program. Leaves are Python numbers or finite NumPy arrays, stored
        read-only. The field ``mechanism`` has ``event(relation)``.
    static : NamedTuple
        Static (hashable) arguments; a new value triggers recompilation.
    declared : algorithm.declares, optional
        Declarations of a choice, beyond the problem class. They affect ``rate`` only.
    noise_factor : float or None
        None for a plan. For a *control* of :meth:`with_noise`, the factor of its noise. A control
        is not checked against the budget and must never be released.

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
        self.assumptions.check(self.problem_class)
        if self.private and not self.guarantee.meets(self.budget):
            epsilon = self.guarantee.epsilon(self.budget.delta).upper
            raise ValueError(
                f"guarantee must lie within the budget: epsilon {shown(epsilon)} at "
                f"delta {shown(self.budget.delta)} exceeds {shown(self.budget.epsilon)}"
            )

    @property
    def private(self) -> bool:
        """True if the guarantee was checked against the budget; false for twins and controls."""
        return self.algorithm.private and self.noise_factor is None

    @property
    def assumptions(self) -> Assumptions:
        """Assumptions of the mechanism's guarantee."""
        params: Parameters = self.params
        return Assumptions.of(params.mechanism, self.budget.relation)

    @cached_property
    def guarantee(self) -> Guarantee:
        """Guarantee of a run, from the privacy event of its mechanism."""
        params: Parameters = self.params
        relation = self.budget.relation
        assumptions = self.assumptions.sentences(self.problem_class, relation)
        return Guarantee(params.mechanism.event(relation), relation, assumptions)

    @cached_property
    def rate(self) -> Rate:
        """Upper bound for these ``params``, with the lower bounds that apply."""
        if not self.private:
            return self._upper_bound
        lower = lower_bounds(self.problem_class, self.budget, self.guarantee, self._upper_bound)
        return replace(self._upper_bound, lower=lower)

    @cached_property
    def _upper_bound(self) -> Rate:
        return instance("rate", self.algorithm.rate(self), Rate)

    @property
    def requires(self) -> frozenset[str]:
        """Features of a problem, beyond gradients and projection, that guarantee and rate need."""
        return self.assumptions.requires | self._upper_bound.requires  # lower bounds take longer

    def citations(self) -> str:
        """Return the BibTeX entries of the plan's algorithm, theorem and accountants.

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
        """Return a control: the same run with its noise multiplied by ``factor >= 0``.

        A claim about noise must fail if the noise is off or different. A control runs the program
        of its plan with other numbers. Its ``guarantee`` and ``rate`` are for the scaled
        noise, and ``private`` is false even for ``factor = 1``. Factors of repeated calls multiply.
        A Gibbs law does not accept 0. Controls are for experiments only.
        """
        params: Any = self.params
        changed = params._replace(mechanism=scaled(params.mechanism, factor))
        previous = 1.0 if self.noise_factor is None else self.noise_factor
        return replace(self, params=changed, noise_factor=previous * factor)

    def _content(self) -> tuple[object, ...]:
        public = (self.algorithm, self.problem_class, self.budget, self.static, self.declared)
        return (*public, self.noise_factor, content(self.params))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plan) and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore a pickle or a copy; the arrays become read-only again."""
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
        """Return class, guarantee, noise, parameters and bounds as text."""
        return _screen(self)


@checked
def planner(plan: Callable[..., Plan]) -> Callable[..., Plan]:
    """Decorate ``plan(problem_class, budget, **choices)`` with checks of its arguments."""
    names = _choices(plan)

    @wraps(plan)
    def checked(problem_class: ProblemClass, budget: Budget, **choices: object) -> Plan:
        instance("problem_class", problem_class, ProblemClass)
        instance("budget", budget, Budget)
        if budget.delta * problem_class.n >= 1.0:
            warnings.warn(
                f"delta is at least 1/n = {1.0 / problem_class.n:.2g}, got {budget.delta:g}: the "
                "guarantee allows a whole record to be published",
                stacklevel=2,
            )
        for name, value in choices.items():
            member("choice", name, names)
            if isinstance(value, Array) or getattr(value, "ndim", False):
                check_type(name, value, get_type_hints(plan)[name])  # before it is compared
        return plan(problem_class, budget, **choices)

    return checked


def _choices(plan: Callable[..., Plan]) -> list[str]:
    parameters = signature(plan).parameters.items()
    return [name for name, each in parameters if each.kind is each.KEYWORD_ONLY]


def _screen(plan: Plan) -> str:
    """Return class, guarantee, noise, parameters and bounds of a plan, one per line."""
    facts, budget, rate = plan.problem_class, plan.budget, plan.rate
    epsilon = plan.guarantee.epsilon(budget.delta)
    noise, numbers = _noise_and_parameters(plan.params)
    trivial = facts.lipschitz * facts.radius
    rows = {
        "control": ""
        if plan.noise_factor is None
        else f"noise times {plan.noise_factor:g}: for "
        "experiments, never to be released; neither budget nor bound applies to it",
        "class": ", ".join(f"{name} = {value:g}" for name, value in _declared(facts)),
        "guarantee": f"epsilon in [{epsilon.lower:.5g}, {epsilon.upper:.5g}] at delta "
        f"{budget.delta:g} under {budget.relation}",
        "remark": ""
        if budget.delta * facts.n <= 1.0
        else f"delta is above 1/n = {1.0 / facts.n:.4g}: to publish every record with probability "
        "delta, each by itself, is as private",
        "assuming": "; ".join(plan.guarantee.assumptions),
        "noise": noise,
        "numbers": numbers,
        "bound": f"{rate.quantity.formula} <= {rate.upper:.4g} for the {rate.quantity}",
        "lower bounds": "; ".join(rate.lower_bound_texts),
        "theorem": rate.theorem,
        "source": rate.source,
        "regime": rate.regime and f"{rate.regime} ({rate.local})",
        "without data": ""
        if math.isinf(trivial)
        else f"the centre c of the set has F(c) - F* <= L R = {trivial:.4g}",
    }
    selected = rows if plan.noise_factor is None else {name: rows[name] for name in _CONTROL_ROWS}
    lines = [f"  {name:<14}{text}" for name, text in selected.items() if text]
    return "\n".join([f"{plan.algorithm.name}: {plan.algorithm.summary}", *lines])


def _declared(facts: ProblemClass) -> list[tuple[str, float]]:
    """Return the facts that differ from their defaults."""
    defaults = {"smoothness": None, "strong_convexity": 0.0, "sparsity": None, "convex": True}
    return [(name, x) for name, x in vars(facts).items() if x != defaults.get(name, math.inf)]


def _noise_and_parameters(params: Parameters) -> tuple[str, str]:
    """Return the scale of every noise, and the numbers named in ``_PARAMETERS``, as text."""
    noise: dict[str, float | np.ndarray] = {}
    numbers: dict[str, float | np.ndarray] = {}
    for path, number in jax.tree_util.tree_leaves_with_path(params):
        *_, owner, name = ("", *jax.tree_util.keystr(path, simple=True, separator=".").split("."))
        if name.endswith("scale") and owner != "step_sizes":
            noise[f"{owner}.{name}"] = number
        elif name in _PARAMETERS or owner == "step_sizes":
            numbers.setdefault("step_size" if owner == "step_sizes" else name, number)
    return _listed(noise), _listed(numbers)


def _listed(numbers: dict[str, float | np.ndarray]) -> str:
    return ", ".join(f"{name} = {_formatted(number)}" for name, number in numbers.items())


def _formatted(number: float | np.ndarray) -> str:
    """Return a number, or range and shape of an array, as text."""
    if not isinstance(number, np.ndarray):
        return f"{number:.4g}"
    return f"{number.min():.4g} to {number.max():.4g} of shape {number.shape}"
