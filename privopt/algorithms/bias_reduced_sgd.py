"""Bias-reduced SGD: small batches most of the time, and the bias of nearly all records."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import optax
from jax import Array

from privopt.algorithms.boosting import best_run, boosted
from privopt.algorithms.choices import (
    MODES,
    Static,
    chosen_output,
    clipped_gradient,
    is_plain,
    output_rule,
    recorded,
    require_delta,
    step_rule,
)
from privopt.algorithms.first_order import Secret, steps_of
from privopt.algorithms.theorems import unmoving
from privopt.arguments import count, member, positive_number, shown
from privopt.convex import (
    Average,
    ConstraintSet,
    EmpiricalRisk,
    FirstOrder,
    Output,
    RandomIterate,
    StepSizes,
    Update,
)
from privopt.core import Algorithm, Execution, Plan, Run, Steps, planner, whole
from privopt.mechanisms import BiasReducedGradient, ClippedGradient
from privopt.mechanisms.best_of_runs import BestOfRuns
from privopt.mechanisms.means import body_of
from privopt.spec import Budget, ProblemClass, Relation
from privopt.theory import (
    GIVEN_STEPS,
    BiasedMoments,
    Body,
    Exponents,
    OutputRule,
    Quantity,
    Rate,
    bias_reduced_moments,
    bias_reduced_steps,
    biased_descent_rate,
    biased_descent_step_size,
    no_rate,
)


class Params(NamedTuple):
    """A gradient of reduced bias, and the method that asks it."""

    mechanism: BiasReducedGradient | BestOfRuns
    descent: FirstOrder


class Declared(NamedTuple):
    """A public bound of ``F(w_1) - inf F``, with which the rate is that of the gradient norm."""

    gap: float | None


@planner
def bias_reduced_sgd(
    problem_class: ProblemClass,
    budget: Budget,
    *,
    mode: str = "tight",
    steps: int | None = None,
    base: int = 1,
    step_size: float | StepSizes | None = None,
    body: str = "l1_l2",
    clip: float | None = None,
    output: Output | str | None = None,
    gap: float | None = None,
    boost: float | None = None,
    record: int | str = 0,
) -> Plan:
    """Plan bias-reduced SGD: ``w <- Proj(w - eta G)``, ``G`` a :class:`BiasReducedGradient`.

    For records with sparse gradients. The noisy mean of a batch of ``b``, projected onto the body
    in which means lie, has an error of order ``(s ln d)^(1/4)/sqrt(b)``, without the ``sqrt(d)`` of
    the noise, but a bias of that order too. ``G`` combines means of batches of random sizes: its
    bias is that of the largest batch, and its cost on average is that of small ones.

    Parameters
    ----------
    problem_class : ProblemClass
        With ``sparsity`` for the bodies that rest on it. Clipping makes the guarantee hold for any
        loss and any records; denser ones than declared cost the rate alone.
    budget : Budget
        ``delta > 0``, under ``replace_one``.
    mode : {"tight", "paper"}
        Noise by the accountant, or that of the publication with its stopping rule.
        The latter takes a random number of steps, and no rate is claimed.
    steps : int, optional
        ``T``; default ``ceil(2 n/(b_0 ln(4/delta)))``. Not for the published rule.
    base : int
        ``b_0``, the smallest batch, at most ``n/2``. At equal ``b_0 T`` noise and error are about
        equal, and fewer steps take less time.
    step_size : float or StepSizes, optional
        ``eta``; default ``R/(nu sqrt(T + 1))``, or with a gap ``sqrt(2 gap/(H (T + 1)))/nu``.
    body : {"l1_l2", "l1", "l2", "none"}
        Means are projected onto ``|v|_1 <= C sqrt(s)``, ``|v|_2 <= C``, both, or not at all.
    clip : float, optional
        ``C``; default ``L``, at which nothing is clipped.
    output : Output or its name in ``theory.OutputRule``, optional
        Default the average of all iterates; a random one with a gap, or if losses are not convex.
    gap : float, optional
        A public bound of ``F(w_1) - inf F``: the rate is then that of the gradient norm, for losses
        that need not be convex, over the whole space.
    boost : float, optional
        The probability of failure, where one run succeeds with probability 1/2. A geometric number
        of runs is made, each with a noisy score: its risk, or the norm of its gradient with a gap
        or if losses are not convex. The best run is released. The number of runs, their time and
        their levels are secret. Steps are fixed, no path is recorded, and no rate is claimed.
    record : int or "all"
        How many points of the path to record, on a logarithmic scale of steps, or after each.

    Formal guarantee
    ----------------
    That of :class:`privopt.mechanisms.BiasReducedGradient`: ``T`` public mixtures, over the levels,
    of Gaussian mechanisms on samples without replacement, for every data set and loss, covering
    all iterates. Levels are public and drawn without data; batches are secret.

    Rate
    ----
    Convex losses: ``E F(w) - F* <= R nu/sqrt(T + 1) + 2 R a``, with the bias ``a`` and the second
    moment ``nu^2`` of :func:`privopt.theory.bias_reduced_moments`: of order ``sqrt(ln n) (s ln d
    ln(1/delta)^3)^(1/4)/sqrt(n epsilon)`` at the default ``T``. With a gap: ``E |grad F(w)|^2 <=
    gap/(eta (T + 1)) + eta H nu^2/2 + L a``.

    Source: Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881), Section 5, there
    with a random number of steps and a noise about twenty-five times as large. Their recovery of
    means from measurements is replaced by the projection; accounting and constants are ours.

    Examples
    --------
    >>> facts = ProblemClass(n=4000, dim=1000, lipschitz=1.0, radius=1.0, sparsity=4)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> plan = bias_reduced_sgd(facts, budget, base=16)
    >>> plan.params.mechanism.steps, plan.params.descent.output
    (33, Average())
    """
    require_delta("bias_reduced_sgd", budget)
    query = clipped_gradient(problem_class, clip)
    body = Body.named("body", body)
    post = _set_of(body, problem_class, query)
    gap = None if gap is None else positive_number("gap", gap)
    published, n = mode == "paper", problem_class.n
    if steps is not None and published:
        raise ValueError(
            f"steps must be left out in mode paper, which stops by a rule, got {steps}"
        )
    if steps is None:
        steps = bias_reduced_steps(problem_class, delta=budget.delta, base=count("base", base))
    member("mode", mode, MODES)
    stationary = gap is not None or not problem_class.convex
    mechanism: BiasReducedGradient | BestOfRuns
    if boost is not None and (published or record != 0):
        raise ValueError(
            "boost must be None but for fixed steps without a recorded path, got "
            f"{shown(boost)} with mode {mode} and record {shown(record)}"
        )
    if boost is not None:
        unit = BiasReducedGradient(query=query, n=n, base=base, post=post, scale=1.0, steps=steps)
        mechanism = boosted(problem_class, budget, unit, boost, stationary=stationary)
    elif published:
        mechanism = BiasReducedGradient.published(query, budget, n, base, post)
    else:
        mechanism = BiasReducedGradient.calibrated(query, budget, steps, n, base, post)
    if step_size is None:
        if gap is None and (math.isinf(problem_class.radius) or not problem_class.convex):
            raise ValueError(
                "step_size must be given, or gap, where radius is infinite or losses are not "
                "convex, got None"
            )
        second = _moments(problem_class, mechanism, body).second.value
        step_size = biased_descent_step_size(
            problem_class, steps=_points(steps, gap), second_moment=second, gap=gap
        )
    if not isinstance(step_size, StepSizes):
        step_size = StepSizes.constant(positive_number("step_size", step_size))
    rule = chosen_output(output) or (RandomIterate() if stationary else Average())
    method = FirstOrder(step_size, Update.of(optax.sgd), rule, *recorded(record, steps))
    params, static = Params(mechanism, method), Static(problem_class.dim)
    return Plan(BIAS_REDUCED_SGD, problem_class, budget, params, static, Declared(gap))


def rate(plan: Plan) -> Rate:
    """What theory says of a constant step size and of the output that it speaks of."""
    params: Any = plan.params
    (mechanism, method), facts, declared = params, plan.problem_class, plan.declared
    assert isinstance(declared, Declared)
    gap = declared.gap
    quantity = Quantity.EMPIRICAL_RISK if gap is None else Quantity.GRADIENT_NORM
    rule, told = step_rule(method.step_sizes), output_rule(method.output)
    random = told is OutputRule.RANDOM_ITERATE
    reason, body = "", None
    if isinstance(mechanism, BestOfRuns):
        reason = "the best of several runs"
    elif mechanism.query.changes(facts) or mechanism.n != facts.n:
        reason = "gradients are clipped below L"
    elif mechanism.stop is not None:
        reason = "the number of steps is random"
    elif not mechanism.scale > 0.0:
        reason = "the theorem is for noise"
    elif not rule.constant or not (random or (gap is None and told is OutputRule.AVERAGE)):
        reason = "no theorem for these step sizes with this output"
    else:
        named = (each for each in Body if _known_set(each, facts, mechanism) == mechanism.post)
        body, reason = next(named, None), unmoving(params)
    if body is None or reason or not is_plain(method.update):
        return no_rate(reason or "means may leave the body", quantity=quantity)
    default = bias_reduced_steps(facts, delta=plan.budget.delta, base=mechanism.base)
    powers = Exponents(n=1.0) if mechanism.steps == default else GIVEN_STEPS
    moments = _moments(facts, mechanism, body, powers)
    return biased_descent_rate(
        facts, steps=_points(mechanism.steps, gap), bias=moments.bias,
        second_moment=moments.second, step_size=rule.scale, gap=gap, steps_powers=powers,
    )  # fmt: skip


def _moments(
    problem_class: ProblemClass,
    mechanism: BiasReducedGradient | BestOfRuns,
    body: Body,
    powers: Exponents = GIVEN_STEPS,
) -> BiasedMoments:
    """Of one answer."""
    mechanism = mechanism.run if isinstance(mechanism, BestOfRuns) else mechanism
    return bias_reduced_moments(
        problem_class, noise=mechanism.scale, base=mechanism.base, body=body,
        clip=mechanism.query.clip, probabilities=mechanism.law.probabilities, steps_powers=powers,
    )  # fmt: skip


def _known_set(
    body: Body, problem_class: ProblemClass, mechanism: BiasReducedGradient
) -> ConstraintSet | str | None:
    """The body of that name, if the class has one."""
    unknown = body is not Body.NONE and math.isinf(mechanism.query.clip)
    if unknown or (body.sparse and problem_class.sparsity is None):
        return "unknown"
    return _set_of(body, problem_class, mechanism.query)


def steps(
    static: Static,
    params: Params,
    objective: EmpiricalRisk,
    key: Array,
    execution: Execution,
    coins: Array,
) -> Steps:
    """The method on the device, from the problem's start."""
    mechanism = params.mechanism
    assert isinstance(mechanism, BiasReducedGradient)
    oracle = mechanism.oracle(objective, key, coins, execution.microbatch)
    return steps_of(params.descent, oracle, static, objective, key, execution)


def run(
    static: Static,
    params: Params,
    objective: EmpiricalRisk,
    key: Array,
    execution: Execution,
    coins: Array,
) -> Run:
    """All steps, or the best of several runs."""
    if not isinstance(params.mechanism, BestOfRuns):
        return whole(steps)(static, params, objective, key, execution, coins)
    start = objective.start(static.dim)
    best = best_run(params.mechanism, params.descent, objective, key, execution, start)
    return Run(best, Secret(best, None), None)


def step_count(static: Static, params: Params) -> int:
    """``T``, or the most; none for the best of several runs, whose number is secret."""
    del static
    mechanism = params.mechanism
    return 0 if isinstance(mechanism, BestOfRuns) else int(mechanism.steps)


def coins(static: Static, params: Params, key: Array) -> Array:
    """The key of the levels, which are public: a key, so that ``T`` is a number and no shape."""
    del static, params
    return key


def _set_of(
    body: Body, problem_class: ProblemClass, query: ClippedGradient
) -> ConstraintSet | None:
    """Where means of clipped gradients lie."""
    if body is Body.NONE:
        return None
    if math.isinf(query.clip):
        raise ValueError(f"clip must be finite for body {body}, got inf")
    sparsity = problem_class.sparsity
    if sparsity is None and body.sparse:
        raise ValueError(
            f"sparsity must be declared for body {body}, got None: bodies l2 and none need none"
        )
    return body_of(body, query.clip * math.sqrt(sparsity or 1), query.clip)


def _points(steps: int, gap: float | None) -> int:
    """``T`` of the theorem: with a gap it counts iterates, one more than the steps of a run."""
    return steps if gap is None else steps + 1


BIAS_REDUCED_SGD = Algorithm(
    name="bias_reduced_sgd",
    summary="small batches at random levels, combined to the bias of nearly all records",
    plan=bias_reduced_sgd,
    mechanism=BiasReducedGradient | BestOfRuns,
    run=run,
    steps=steps,
    step_count=step_count,
    rate=rate,
    declares=Declared,
    coins=coins,
    gathers=True,
    public_terms=True,
    relations=frozenset({Relation.REPLACE_ONE}),
    cites=("ghazi2024",),
)
