"""An algorithm that chooses numbers of its plan privately: all candidates run, one is released."""

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
from privopt.algorithms.choices import Optimiser
from privopt.arguments import instance, member, shown
from privopt.convex import EmpiricalRisk, StepSizes
from privopt.core import Algorithm, Execution, Plan, Run
from privopt.core.parameters import Mechanism, Parameters, scaled
from privopt.mechanisms import ClippedGradient
from privopt.mechanisms.best_of_runs import PointScore
from privopt.privacy import calibrate
from privopt.spec import Budget, Premises, ProblemClass, Relation
from privopt.statistics import ExponentialMechanism
from privopt.streams import stream
from privopt.theory import Exponents, Quantity, Rate, Term, no_rate

__all__ = ["tuned"]

_SELECTION = 0.4
"""Of ``epsilon/sqrt(K)``, for the selection: about what one more candidate would cost."""

Choice = str | int | float | StepSizes | Optimiser | None


class Selected(NamedTuple):
    """All candidates in turn, and the exponential mechanism over their clipped empirical risks.

    Formal guarantee
    ----------------
    That of the composition of every candidate's event with one selection of bounded range: the
    outputs of all candidates could be released, too. What a record moves in a risk is at most
    ``2 L R/n`` (``replace_one``), for differences to the loss of the centre are clipped at ``L R``.
    """

    candidates: tuple[Mechanism, ...]
    selection: ExponentialMechanism  # whose query is the score, so that one choice is charged

    @property
    def score(self) -> PointScore:
        """By which candidates are chosen."""
        score = self.selection.query
        assert isinstance(score, PointScore)
        return score

    def event(self, relation: Relation) -> DpEvent:
        runs = [each.event(relation) for each in self.candidates]
        return ComposedDpEvent([*runs, self.selection.bounded_range_event(relation)])

    def premises(self, relation: Relation) -> Premises:
        found = Premises.of(self.score, relation)
        for each in self.candidates:
            found &= Premises.of(each, relation)
        return found


class Params(NamedTuple):
    """The numbers of a plan; ``besides`` are those of every candidate that make no noise."""

    mechanism: Selected
    besides: tuple[tuple[Any, ...], ...]


class Static(NamedTuple):
    """The algorithm that is tuned; of every candidate, the type of its params and its static."""

    algorithm: Algorithm
    kinds: tuple[type, ...]
    candidates: tuple[Any, ...]


class Declared(NamedTuple):
    """What every candidate declares."""

    candidates: tuple[object, ...]


class Secret(NamedTuple):
    """Of all candidates, without noise of the selection: never to be published."""

    risks: Array
    selected: Array


def tuned(algorithm: str | Algorithm, /, **search: Sequence[Choice]) -> Algorithm:
    """An algorithm that runs every candidate at a share of the budget and releases one of them.

    Parameters
    ----------
    algorithm : str or Algorithm
        What is tuned: a name in ``ALGORITHMS``, or an algorithm of your own.
    **search : sequence
        A choice of its plan, and the public values that are tried; of several, every combination.
        Those that class and budget refuse are left out; two must remain.

    Returns
    -------
    Algorithm
        ``<name>_tuned``. Its ``plan`` takes the other choices. :func:`privopt.algorithms.register`
        lists it for experiments.

    Formal guarantee
    ----------------
    ``epsilon``, ``delta`` and relation of the budget pay for all candidates and for the selection.
    With ``K`` candidates each has about ``sqrt(K + 1)`` times the noise of one run: try few.

    Rate
    ----
    ``min_k (bound of candidate k) + b ln K``, with ``b`` of order ``L R/(n epsilon)`` the scale of
    the selection, where the bounds are of the empirical risk.

    Source: McSherry and Talwar 2007, Theorem 6, by the entropy of the selection; Gupta et al. 2010.

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
            "algorithm must be private, without public coins, and add noise, to be tuned, "
            f"got {algorithm.name}"
        )
    if not search:
        raise ValueError("search must name a choice of the plan and its values, got none")
    grid: list[tuple[str, tuple[Choice, ...]]] = []
    for name, values in search.items():
        member("choice", name, sorted(algorithm.choices))
        tried = tuple(values) if isinstance(values, list | tuple) else ()
        if len(set(tried)) < max(len(tried), 2):
            raise ValueError(f"{name} must be two or more distinct values, got {shown(values)}")
        grid.append((name, tried))
    return replace(
        algorithm,
        name=f"{algorithm.name}_tuned",
        summary=f"{algorithm.summary}; {', '.join(search)} chosen privately",
        plan=_Planned(algorithm, tuple(grid)),
        mechanism=Selected,
        run=run,
        rate=rate,
        declares=Declared,
        steps=None,
        step_count=None,
        rows=None,
        public_terms=False,
    )


def tunable(algorithm: Algorithm) -> bool:
    """Whether it has noise that can be raised to pay for several runs, and no public coins."""
    return algorithm.private and algorithm.coins is None and algorithm.noise != "law"


def is_tuned(algorithm: Algorithm) -> bool:
    """Whether :func:`tuned` made it."""
    return isinstance(algorithm.plan, _Planned)


@dataclass(frozen=True)
class _Planned:  # so that plans can be pickled and compared
    """``plan`` of a tuned algorithm."""

    algorithm: Algorithm
    grid: tuple[tuple[str, tuple[Choice, ...]], ...]

    @property
    def __signature__(self) -> inspect.Signature:
        """That of the algorithm's plan, without the choices that are searched for."""
        whole = inspect.signature(self.algorithm.plan)
        searched = dict(self.grid)
        kept = [each for name, each in whole.parameters.items() if name not in searched]
        return whole.replace(parameters=kept)

    def __call__(self, problem_class: ProblemClass, budget: Budget, **choices: Any) -> Plan:
        instance("problem_class", problem_class, ProblemClass)
        instance("budget", budget, Budget)
        for name in choices:
            member("choice", name, sorted(self.algorithm.choices.difference(dict(self.grid))))
        if math.isinf(problem_class.radius) or not problem_class.lipschitz:
            raise ValueError(
                "radius and lipschitz must be declared, for they bound what a record moves in the "
                f"risk by which candidates are chosen, got {problem_class.radius} and "
                f"{problem_class.lipschitz}"
            )
        plans = self._candidates(problem_class, budget, choices)
        score = PointScore(ClippedGradient.of(problem_class), problem_class.radius)
        least = replace(budget, epsilon=_SELECTION * budget.epsilon / math.sqrt(len(plans)))
        mechanism = Selected(
            tuple(each.params.mechanism for each in plans),
            ExponentialMechanism.calibrated(score, least),
        )
        factor = calibrate(lambda z: scaled(mechanism, z).event(budget.relation), budget)
        kinds = tuple(type(each.params) for each in plans)
        static = Static(self.algorithm, kinds, tuple(each.static for each in plans))
        declared = Declared(tuple(each.declared for each in plans))
        found = tuned(self.algorithm, **dict(self.grid))
        besides = tuple(_besides(each.params) for each in plans)
        params = Params(scaled(mechanism, factor), besides)
        return Plan(found, problem_class, budget, params, static, declared)

    def _candidates(
        self, problem_class: ProblemClass, budget: Budget, choices: dict[str, Any]
    ) -> list[Plan]:
        """Plans for about the share of the budget that each will have."""
        names, values = zip(*self.grid, strict=True)
        tried = list(itertools.product(*values))
        part = replace(budget, epsilon=budget.epsilon / math.sqrt(len(tried)))
        found, refused = [], ""
        for each in tried:
            chosen = choices | dict(zip(names, each, strict=True))
            try:
                found.append(self.algorithm.plan(problem_class, part, **chosen))
            except ValueError as error:
                refused = str(error)
        if len(found) < 2:
            raise ValueError(
                f"{', '.join(names)} must leave two candidates that can be planned, got "
                f"{len(found)}: {refused}"
            )
        return found


def _besides(params: Any) -> tuple[Any, ...]:
    """All fields but the mechanism, in their order."""
    return tuple(getattr(params, name) for name in params._fields if name != "mechanism")


def candidates_of(static: Static, params: Params) -> list[Parameters]:
    """The params of every candidate, as its own algorithm reads them."""

    def joined(kind: Any, mechanism: Mechanism, besides: tuple[Any, ...]) -> Parameters:
        names = [name for name in kind._fields if name != "mechanism"]
        return kind(mechanism=mechanism, **dict(zip(names, besides, strict=True)))

    return list(map(joined, static.kinds, params.mechanism.candidates, params.besides))


def rate(plan: Plan) -> Rate:
    """The best candidate's, and what the selection adds to it."""
    params: Any = plan.params
    static: Any = plan.static
    mechanism, facts, declared = params.mechanism, plan.problem_class, plan.declared
    assert isinstance(declared, Declared)
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
    lost = mechanism.selection.scale * math.log(len(mechanism.candidates))
    return replace(
        best,
        theorem=f"{best.theorem}, of the best of K candidates, + b ln K",
        source=f"{best.source}; McSherry and Talwar 2007",
        terms=(*best.terms, Term("selection", lost, Exponents(n=-1.0, epsilon=-1.0))),
        combine=lambda *values: best.made(values[:-1]) + values[-1],
        lower=(),
        tight_on=None,
    )


def run(
    static: Static, params: Params, objective: EmpiricalRisk, key: Array, execution: Execution
) -> Run:
    """Every candidate draws from a key of its own, and so does the selection."""
    mechanism = params.mechanism
    risk = mechanism.score.score_of(objective)
    execution = replace(execution, observer=None)

    candidates = candidates_of(static, params)
    *keys, last = jax.random.split(stream(key, "selection"), len(candidates) + 1)
    groups = defaultdict(list)  # of candidates that differ in numbers alone: one program each
    for number, each in enumerate(candidates):
        groups[static.candidates[number], jax.tree.structure(each)].append(number)
    found: dict[int, tuple[Array, Array]] = {}
    for (shape, _), numbers in groups.items():

        def candidate(given: tuple[Any, Array], shape: Any = shape) -> tuple[Array, Array]:
            own = static.algorithm.run(shape, given[0], objective, given[1], execution).released
            return own, risk(own)[0]

        alike = [candidates[number] for number in numbers]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *alike)
        points = jax.lax.map(candidate, (stacked, jnp.stack([keys[i] for i in numbers])))
        found |= {number: (points[0][i], points[1][i]) for i, number in enumerate(numbers)}
    released = jnp.stack([found[number][0] for number in range(len(found))])
    risks = jnp.stack([found[number][1] for number in range(len(found))])
    selected = mechanism.selection.select(last, -risks)
    return Run(released[selected], Secret(risks, selected))
