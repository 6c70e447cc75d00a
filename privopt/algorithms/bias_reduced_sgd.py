"""Bias-reduced SGD: small batches on average, with the bias of nearly all records."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jaxtyping import Key

from privopt.algorithms.descent import DescentSecret, clipped_gradient, recorded, steps_of
from privopt.algorithms.descent_rates import (
    chosen_output,
    is_plain,
    no_step,
    output_rule,
    step_rule,
)
from privopt.algorithms.shared import MODES, Static, require_delta
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
from privopt.mechanisms.best_of_runs import BestOfRuns, PointScore
from privopt.mechanisms.means import body_of
from privopt.random import fold_in, stream
from privopt.spec import Budget, ProblemClass, Relation
from privopt.theory import (
    GIVEN_STEPS,
    BiasedMoments,
    Body,
    DefaultSteps,
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


class BiasReducedParams(NamedTuple):
    """A gradient of reduced bias, and the method that uses it."""

    mechanism: BiasReducedGradient | BestOfRuns
    descent: FirstOrder


class BiasReducedDeclaration(NamedTuple):
    """Number of steps, and a public ``gap >= F(w_1) - inf F`` for a bound of the gradient norm."""

    gap: float | None
    default: DefaultSteps


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
    clip_norm: float | None = None,
    output: Output | str | None = None,
    gap: float | None = None,
    boost: float | None = None,
    record: int | str = 0,
) -> Plan:
    """Return a plan for bias-reduced SGD.

    The step is ``w <- Proj(w - eta G)`` with a :class:`privopt.mechanisms.BiasReducedGradient`
    ``G``. The method is for records with sparse gradients. The noisy mean of a batch of ``b``,
    projected onto a set that contains all means, has an error of order ``(s ln d)^(1/4)/sqrt(b)``,
    without the ``sqrt(d)`` of the noise, but a bias of the same order. ``G`` combines means of
    batches of random sizes. Its bias is the bias of the largest batch. Its average cost is the
    cost of small batches.

    Parameters
    ----------
    problem_class : ProblemClass
        With ``sparsity`` for the sparse sets. The guarantee holds for any loss and any records,
        because gradients are clipped; denser records than declared affect the rate only.
    budget : Budget
        Privacy budget with ``delta > 0`` under ``replace_one``.
    mode : {"tight", "paper"}
        Noise calibrated by the accountant, or the published noise with its stopping rule. The
        published rule takes a random number of steps and has no rate.
    steps : int, optional
        Number of steps ``T``. Default: ``ceil(2 n/(b_0 ln(4/delta)))``. Not for the published rule.
    base : int
        Smallest batch size ``b_0``, at most ``n/2``. For equal ``b_0 T``, noise and error are about
        equal, and fewer steps take less time.
    step_size : float or StepSizes, optional
        Step sizes ``eta``. Default: ``R/(nu sqrt(T + 1))``; with a gap,
        ``sqrt(2 gap/(H (T + 1)))/nu``.
    body : {"l1_l2", "l1", "l2", "none"}
        Set onto which means are projected: ``|v|_1 <= C sqrt(s)`` and ``|v|_2 <= C``, one of the
        two, or the whole space.
    clip_norm : float, optional
        Clipping norm ``C``. Default: ``L``, so no gradient is clipped.
    output : Output or its name in ``theory.OutputRule``, optional
        Default: the average of all iterates; a random iterate with a gap or for non-convex losses.
    gap : float, optional
        Public bound of ``F(w_1) - inf F``. The rate is then for the gradient norm, for losses that
        need not be convex, on the whole space.
    boost : float, optional
        Largest probability that no run succeeds, if one run succeeds with probability 1/2. A
        geometric number of runs is made. The noisy score of a run is its risk or, with a gap or for
        non-convex losses, the norm of its gradient. The best run is released. The number of runs,
        their time and their levels are secret. The number of steps is fixed, no path is recorded,
        and there is no rate.
    record : int or "all"
        Number of recorded points of the path, on a logarithmic scale of steps, or every step.

    Formal guarantee
    ----------------
    The guarantee of :class:`privopt.mechanisms.BiasReducedGradient`: ``T`` public mixtures, over
    the levels, of Gaussian mechanisms on samples without replacement. It holds for every data set
    and loss and covers all iterates. Levels are public and independent of the data; batches are
    secret.

    Rate
    ----
    - Convex losses: ``E F(w) - F* <= R nu/sqrt(T + 1) + 2 R a``, with the bias ``a`` and the second
      moment ``nu^2`` of :func:`privopt.theory.bias_reduced_moments`. For the default ``T`` it is of
      order ``sqrt(ln n) (s ln d ln(1/delta)^3)^(1/4)/sqrt(n epsilon)``.
    - With a gap: ``E |grad F(w)|^2 <= gap/(eta (T + 1)) + eta H nu^2/2 + L a``.

    Source: Ghazi, Guzman, Kamath, Kumar and Manurangsi 2024 (arXiv:2404.10881), Section 5. The
    paper uses a random number of steps and about twenty-five times as much noise. Projection
    replaces its recovery of means from measurements. Accounting and constants are derived here.

    Examples
    --------
    >>> facts = ProblemClass(n=4000, dim=1000, lipschitz=1.0, radius=1.0, sparsity=4)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> plan = bias_reduced_sgd(facts, budget, base=16)
    >>> plan.params.mechanism.steps, plan.params.descent.output == Average()
    (33, True)
    """
    require_delta("bias_reduced_sgd", budget)
    query = clipped_gradient(problem_class, clip_norm)
    body = Body.named("body", body)
    post = _projection_set(body, problem_class, query)
    gap = None if gap is None else positive_number("gap", gap)
    published, n = mode == "paper", problem_class.n
    if steps is not None and published:
        raise ValueError(
            f"steps must be left out in mode paper, which stops by a rule, got {steps}"
        )
    exponents = GIVEN_STEPS
    if steps is None:
        steps = bias_reduced_steps(problem_class, delta=budget.delta, base=count("base", base))
        exponents = Exponents(n=1.0)
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
        mechanism = _boosted(problem_class, budget, unit, boost, stationary=stationary)
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
    params, static = BiasReducedParams(mechanism, method), Static(problem_class.dim)
    declared = BiasReducedDeclaration(gap, DefaultSteps(steps, exponents))
    return Plan(BIAS_REDUCED_SGD, problem_class, budget, params, static, declared)


def rate(plan: Plan) -> Rate:
    """Return the rate for constant step sizes and a covered output."""
    params: Any = plan.params
    (mechanism, method), facts, declared = params, plan.problem_class, plan.declared
    assert isinstance(declared, BiasReducedDeclaration)
    gap = declared.gap
    quantity = Quantity.EMPIRICAL_RISK if gap is None else Quantity.GRADIENT_NORM
    rule, output = step_rule(method.step_sizes), output_rule(method.output)
    random = output is OutputRule.RANDOM_ITERATE
    reason, body = "", None
    if isinstance(mechanism, BestOfRuns):
        reason = "the best of several runs"
    elif mechanism.query.changes(facts) or mechanism.n != facts.n:
        reason = "gradients are clipped below L"
    elif mechanism.stop is not None:
        reason = "the number of steps is random"
    elif not mechanism.scale > 0.0:
        reason = "the theorem is for noise"
    elif not rule.constant or not (random or (gap is None and output is OutputRule.AVERAGE)):
        reason = "no theorem for these step sizes with this output"
    else:
        bodies = (each for each in Body if _known_set(each, facts, mechanism) == mechanism.post)
        body, reason = next(bodies, None), no_step(params)
    if body is None or reason or not is_plain(method.update):
        return no_rate(reason or "means may leave the body", quantity=quantity)
    default = declared.default
    powers = default.powers if default.steps == mechanism.steps else GIVEN_STEPS
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
    """Return bias and second moment of one answer."""
    mechanism = mechanism.run if isinstance(mechanism, BestOfRuns) else mechanism
    return bias_reduced_moments(
        problem_class, noise=mechanism.scale, base=mechanism.base, body=body,
        clip_norm=mechanism.query.clip_norm, probabilities=mechanism.law.probabilities,
        steps_powers=powers,
    )  # fmt: skip


def _known_set(
    body: Body, problem_class: ProblemClass, mechanism: BiasReducedGradient
) -> ConstraintSet | str | None:
    """Return the set with this name, or ``"unknown"`` if the class does not define it."""
    unknown = body is not Body.NONE and math.isinf(mechanism.query.clip_norm)
    if unknown or (body.sparse and problem_class.sparsity is None):
        return "unknown"
    return _projection_set(body, problem_class, mechanism.query)


def steps(
    static: Static,
    params: BiasReducedParams,
    objective: EmpiricalRisk,
    key: Key[Array, ""],
    execution: Execution,
    levels_key: Key[Array, ""],
) -> Steps:
    """Return the steps of the method on the device, from the problem's start."""
    mechanism = params.mechanism
    assert isinstance(mechanism, BiasReducedGradient)
    oracle = mechanism.oracle(objective, key, levels_key, execution.microbatch)
    return steps_of(params.descent, oracle, static, objective, key, execution)


def run(
    static: Static,
    params: BiasReducedParams,
    objective: EmpiricalRisk,
    key: Key[Array, ""],
    execution: Execution,
    levels_key: Key[Array, ""],
) -> Run:
    """Run all steps, or the best of several runs."""
    if not isinstance(params.mechanism, BestOfRuns):
        return whole(steps)(static, params, objective, key, execution, levels_key)
    start = objective.start(static.dim)
    best = _best_run(params.mechanism, params.descent, objective, key, execution, start)
    return Run(best, DescentSecret(best, None), None)


def step_count(static: Static, params: BiasReducedParams) -> int:
    """Return the largest number of steps; 0 for the best of several runs, as it is secret."""
    del static
    mechanism = params.mechanism
    return 0 if isinstance(mechanism, BestOfRuns) else int(mechanism.steps)


def public_randomness(
    static: Static, params: BiasReducedParams, key: Key[Array, ""]
) -> Key[Array, ""]:
    """Return the key of the public levels; with a key, ``T`` may be a traced number."""
    del static, params
    return key


def _projection_set(
    body: Body, problem_class: ProblemClass, query: ClippedGradient
) -> ConstraintSet | None:
    """Return the set that contains all means of clipped gradients."""
    if body is Body.NONE:
        return None
    if math.isinf(query.clip_norm):
        raise ValueError(f"clip_norm must be finite for body {body}, got inf")
    sparsity = problem_class.sparsity
    if sparsity is None and body.sparse:
        raise ValueError(
            f"sparsity must be declared for body {body}, got None: bodies l2 and none need none"
        )
    return body_of(body, query.clip_norm * math.sqrt(sparsity or 1), query.clip_norm)


def _points(steps: int, gap: float | None) -> int:
    """Return ``T`` of the theorem: steps or, with a gap, iterates, which are one more."""
    return steps if gap is None else steps + 1


def _boosted(
    problem_class: ProblemClass,
    budget: Budget,
    unit: BiasReducedGradient,
    failure: float,
    *,
    stationary: bool,
) -> BestOfRuns:
    """Return a mechanism for which all runs fail with probability at most ``failure/2``.

    ``gamma = min(1/2, failure/2)``: if each run fails with probability 1/2, all runs fail with
    probability ``gamma/(1 + gamma)``. The selection has the other half of ``failure``.
    """
    if not positive_number("boost", failure) < 1.0:
        raise ValueError(f"boost must be a chance of failure below 1, got {shown(failure)}")
    if not stationary and math.isinf(problem_class.radius):
        raise ValueError("radius must be finite to boost by the risk, got inf")
    score = PointScore(unit.query, None if stationary else problem_class.radius)
    return BestOfRuns.calibrated(unit, score, budget, min(0.5, 0.5 * failure))


def _best_run(
    mechanism: BestOfRuns,
    descent: FirstOrder,
    objective: EmpiricalRisk,
    key: Array,
    execution: Execution,
    start: Array,
) -> Array:
    """Return the output of the run with the least noisy score; the number of runs is secret.

    The key of run ``i`` is child ``i`` of ``stream(key, "selection")``. Its levels are sampled from
    this key and not from public randomness, because the cost of the selection is proved for runs of
    one law, and runs with known levels have different laws.
    """
    keys, score = stream(key, "selection"), mechanism.score.score_of(objective)

    def attempt(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        number, _, least, best = state
        own = fold_in(keys, number)
        levels_key, microbatch = stream(own, "public"), execution.microbatch
        oracle = mechanism.run.oracle(objective, own, levels_key, microbatch)
        result = descent.of(oracle, objective.constraint, start, own).run()
        coin = stream(own, "selection")
        value = mechanism.scored(score(result.output), coin)
        better = value < least
        point = jnp.where(better, result.output, best)
        return number + 1, mechanism.is_last(coin), jnp.where(better, value, least), point

    first = jnp.int32(0), jnp.asarray(False), jnp.asarray(jnp.inf, start.dtype), start
    return jax.lax.while_loop(lambda state: ~state[1], attempt, first)[3]


BIAS_REDUCED_SGD = Algorithm(
    name="bias_reduced_sgd",
    summary="small batches at random levels, combined to the bias of nearly all records",
    plan=bias_reduced_sgd,
    mechanism=BiasReducedGradient | BestOfRuns,
    run=run,
    steps=steps,
    step_count=step_count,
    rate=rate,
    declares=BiasReducedDeclaration,
    public_randomness=public_randomness,
    gathers=True,
    public_terms=True,
    relations=frozenset({Relation.REPLACE_ONE}),
    cites=("ghazi2024",),
)
