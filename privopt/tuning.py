"""Private selection of hyperparameters: all candidates run, and one of them is released."""

from __future__ import annotations

import inspect
import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from dp_accounting import ComposedDpEvent, DpEvent
from jax import Array

from privopt.algorithms import ALGORITHMS
from privopt.algorithms.descent import Optimiser
from privopt.arguments import instance, member, shown
from privopt.convex import EmpiricalRisk, StepSizes
from privopt.core import Algorithm, Execution, Plan, Run
from privopt.core.parameters import Mechanism, Parameters, scaled
from privopt.mechanisms import ClippedGradient
from privopt.mechanisms.best_of_runs import PointScore
from privopt.privacy import calibrate
from privopt.random import stream
from privopt.spec import Assumptions, Budget, ProblemClass, Relation
from privopt.statistics import ExponentialMechanism
from privopt.theory import Exponents, Quantity, Rate, Term, no_rate

__all__ = ["tuned"]

_SELECTION = 0.4
"""Epsilon of the selection, relative to ``epsilon/sqrt(K)``: about the cost of one candidate."""

Choice = str | int | float | StepSizes | Optimiser | None


class TunedSelection(NamedTuple):
    """Candidates, and the exponential mechanism over their clipped empirical risks.

    Formal guarantee
    ----------------
    The composition of the events of all candidates and of one selection of bounded range. It also
    covers the outputs of all candidates. The sensitivity of a risk is at most ``2 L R/n``
    (``replace_one``), because differences to the loss of the centre are clipped at ``L R``.
    """

    candidates: tuple[Mechanism, ...]
    selection: ExponentialMechanism  # its query is the score, so that the score is defined once

    @property
    def score(self) -> PointScore:
        """Score of the candidates."""
        score = self.selection.query
        assert isinstance(score, PointScore)
        return score

    def event(self, relation: Relation) -> DpEvent:
        runs = [each.event(relation) for each in self.candidates]
        return ComposedDpEvent([*runs, self.selection.bounded_range_event(relation)])

    def assumptions(self, relation: Relation) -> Assumptions:
        assumptions = Assumptions.of(self.score, relation)
        for each in self.candidates:
            assumptions &= Assumptions.of(each, relation)
        return assumptions


class TunedParams(NamedTuple):
    """Parameters of a plan; ``besides`` are the parameters of the candidates without noise."""

    mechanism: TunedSelection
    besides: tuple[tuple[Any, ...], ...]


class TunedStatic(NamedTuple):
    """The tuned algorithm, and for every candidate its type of params and its static part."""

    algorithm: Algorithm
    kinds: tuple[type, ...]
    candidates: tuple[Any, ...]


class TunedDeclaration(NamedTuple):
    """Declarations of all candidates."""

    candidates: tuple[object, ...]


class TunedSecret(NamedTuple):
    """Risks of all candidates without noise, and the selected index; never to be published."""

    risks: Array
    selected: Array


def tuned(algorithm: str | Algorithm, /, **search: Sequence[Choice]) -> Algorithm:
    """Return an algorithm that runs every candidate on a part of the budget and releases one.

    Parameters
    ----------
    algorithm : str or Algorithm
        Tuned algorithm: a name in ``ALGORITHMS``, or an object.
    **search : sequence
        A choice of its plan with public values. For several choices all combinations are tried.
        Combinations that class and budget do not permit are dropped; at least two must remain.

    Returns
    -------
    Algorithm
        ``<name>_tuned``. Its ``plan`` takes the other choices. Use
        :func:`privopt.algorithms.register` to make it available in experiments by name.

    Formal guarantee
    ----------------
    The budget covers all candidates and the selection. With ``K`` candidates, each has about
    ``sqrt(K + 1)`` times the noise of a single run, so ``K`` should be small.

    Rate
    ----
    ``min_k (bound of candidate k) + b ln K``, if the bounds are for the empirical risk. ``b``, of
    order ``L R/(n epsilon)``, is the scale of the selection.

    Source: McSherry and Talwar 2007, Theorem 6, from the entropy of the selection; Gupta et al.
    2010.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0)
    >>> budget = Budget(epsilon=1.0, delta=1e-5, relation="replace_one")
    >>> plan = tuned("dp_gd", step_size=(0.1, 1.0)).plan(facts, budget, steps=20)
    >>> one = ALGORITHMS["dp_gd"].plan(facts, budget, steps=20)
    >>> round(plan.params.mechanism.candidates[0].scale / one.params.mechanism.scale, 2)
    1.59
    """
    if isinstance(algorithm, str):
        member("algorithm", algorithm, ALGORITHMS)
        algorithm = ALGORITHMS[algorithm]
    instance("algorithm", algorithm, Algorithm)
    if not tunable(algorithm):
        raise ValueError(
            "algorithm must be private, without public randomness, and add noise, to be tuned, "
            f"got {algorithm.name}"
        )
    if not search:
        raise ValueError("search must name a choice of the plan and its values, got none")
    grid: list[tuple[str, tuple[Choice, ...]]] = []
    for name, values in search.items():
        member("choice", name, sorted(algorithm.choices))
        options = tuple(values) if isinstance(values, list | tuple) else ()
        if len(set(options)) < max(len(options), 2):
            raise ValueError(f"{name} must be two or more distinct values, got {shown(values)}")
        grid.append((name, options))
    return replace(
        algorithm,
        name=f"{algorithm.name}_tuned",
        summary=f"{algorithm.summary}; {', '.join(search)} chosen privately",
        plan=_Planned(algorithm, tuple(grid)),
        mechanism=TunedSelection,
        run=run,
        rate=rate,
        declares=TunedDeclaration,
        steps=None,
        step_count=None,
        rows=None,
        public_terms=False,
    )


def tunable(algorithm: Algorithm) -> bool:
    """Return True if more noise can pay for several runs, without public randomness."""
    return algorithm.private and algorithm.public_randomness is None and algorithm.noise != "law"


def is_tuned(algorithm: Algorithm) -> bool:
    """Return True if :func:`tuned` constructed the algorithm."""
    return isinstance(algorithm.plan, _Planned)


@dataclass(frozen=True)
class _Planned:  # a class and not a closure, so that plans can be pickled and compared
    """``plan`` of a tuned algorithm."""

    algorithm: Algorithm
    grid: tuple[tuple[str, tuple[Choice, ...]], ...]

    @property
    def __signature__(self) -> inspect.Signature:
        """Signature of the algorithm's plan without the searched choices."""
        whole = inspect.signature(self.algorithm.plan)
        searched = dict(self.grid)
        remaining = [each for name, each in whole.parameters.items() if name not in searched]
        return whole.replace(parameters=remaining)

    def __call__(self, problem_class: ProblemClass, budget: Budget, **choices: Any) -> Plan:
        instance("problem_class", problem_class, ProblemClass)
        instance("budget", budget, Budget)
        for name in choices:
            member("choice", name, sorted(self.algorithm.choices.difference(dict(self.grid))))
        if math.isinf(problem_class.radius) or not problem_class.lipschitz:
            raise ValueError(
                "radius and lipschitz must be declared, because they bound the sensitivity of the "
                f"risk by which candidates are chosen, got {problem_class.radius} and "
                f"{problem_class.lipschitz}"
            )
        plans = self._candidates(problem_class, budget, choices)
        score = PointScore(ClippedGradient.of(problem_class), problem_class.radius)
        least = replace(budget, epsilon=_SELECTION * budget.epsilon / math.sqrt(len(plans)))
        mechanism = TunedSelection(
            tuple(each.params.mechanism for each in plans),
            ExponentialMechanism.calibrated(score, least),
        )
        factor = calibrate(lambda z: scaled(mechanism, z).event(budget.relation), budget)
        kinds = tuple(type(each.params) for each in plans)
        static = TunedStatic(self.algorithm, kinds, tuple(each.static for each in plans))
        declared = TunedDeclaration(tuple(each.declared for each in plans))
        algorithm = tuned(self.algorithm, **dict(self.grid))
        besides = tuple(_besides(each.params) for each in plans)
        params = TunedParams(scaled(mechanism, factor), besides)
        return Plan(algorithm, problem_class, budget, params, static, declared)

    def _candidates(
        self, problem_class: ProblemClass, budget: Budget, choices: dict[str, Any]
    ) -> list[Plan]:
        """Return a plan for each candidate, for about its part of the budget."""
        names, values = zip(*self.grid, strict=True)
        combinations = list(itertools.product(*values))
        part = replace(budget, epsilon=budget.epsilon / math.sqrt(len(combinations)))
        plans, refusal = [], ""
        for each in combinations:
            arguments = choices | dict(zip(names, each, strict=True))
            try:
                plans.append(self.algorithm.plan(problem_class, part, **arguments))
            except ValueError as error:
                refusal = str(error)
        if len(plans) < 2:
            raise ValueError(
                f"{', '.join(names)} must leave two candidates that can be planned, got "
                f"{len(plans)}: {refusal}"
            )
        return plans


def _besides(params: Any) -> tuple[Any, ...]:
    """Return all fields except the mechanism, in order."""
    return tuple(getattr(params, name) for name in params._fields if name != "mechanism")


def candidates_of(static: TunedStatic, params: TunedParams) -> list[Parameters]:
    """Return the params of every candidate, in the form that its algorithm expects."""

    def joined(kind: Any, mechanism: Mechanism, besides: tuple[Any, ...]) -> Parameters:
        names = [name for name in kind._fields if name != "mechanism"]
        return kind(mechanism=mechanism, **dict(zip(names, besides, strict=True)))

    return list(map(joined, static.kinds, params.mechanism.candidates, params.besides))


def rate(plan: Plan) -> Rate:
    """Return the rate of the best candidate plus the cost of the selection."""
    params: Any = plan.params
    static: Any = plan.static
    mechanism, facts, declared = params.mechanism, plan.problem_class, plan.declared
    assert isinstance(declared, TunedDeclaration)
    whole = candidates_of(static, params)
    shares = zip(whole, static.candidates, declared.candidates, strict=True)
    rates = [
        Plan(static.algorithm, facts, plan.budget, *share, noise_factor=1.0).rate
        for share in shares
    ]
    best = min(rates, key=lambda each: each.upper)
    if best.quantity is not Quantity.EMPIRICAL_RISK or math.isinf(best.upper):
        return no_rate(f"{best.theorem}; candidates are chosen by the empirical risk")
    if mechanism.score.query.changes(facts) or mechanism.score.radius != facts.radius:
        return no_rate("risks are clipped or divided")
    cost = mechanism.selection.scale * math.log(len(mechanism.candidates))
    return replace(
        best,
        theorem=f"{best.theorem}, of the best of K candidates, + b ln K",
        source=f"{best.source}; McSherry and Talwar 2007",
        terms=(*best.terms, Term("selection", cost, Exponents(n=-1.0, epsilon=-1.0))),
        combine=lambda *values: best.made(values[:-1]) + values[-1],
        lower=(),
        tight_on=None,
    )


def run(
    static: TunedStatic,
    params: TunedParams,
    objective: EmpiricalRisk,
    key: Array,
    execution: Execution,
) -> Run:
    """Run every candidate with a separate key, then select with another key."""
    mechanism = params.mechanism
    risk = mechanism.score.score_of(objective)
    execution = replace(execution, observer=None)

    candidates = candidates_of(static, params)
    *keys, last = jax.random.split(stream(key, "selection"), len(candidates) + 1)
    groups = defaultdict(list)  # candidates that differ only in numbers share a program
    for number, each in enumerate(candidates):
        groups[static.candidates[number], jax.tree.structure(each)].append(number)
    results: dict[int, tuple[Array, Array]] = {}
    for (shape, _), numbers in groups.items():

        def candidate(arguments: tuple[Any, Array], shape: Any = shape) -> tuple[Array, Array]:
            params, key = arguments
            point = static.algorithm.run(shape, params, objective, key, execution).released
            return point, risk(point)[0]

        alike = [candidates[number] for number in numbers]
        stacked = jax.tree.map(lambda *values: jnp.stack(values), *alike)
        points = jax.lax.map(candidate, (stacked, jnp.stack([keys[i] for i in numbers])))
        results |= {number: (points[0][i], points[1][i]) for i, number in enumerate(numbers)}
    released = jnp.stack([results[number][0] for number in range(len(results))])
    risks = jnp.stack([results[number][1] for number in range(len(results))])
    selected = mechanism.selection.select(last, -risks)
    return Run(released[selected], TunedSecret(risks, selected))
