"""Phased SGD: one pass in phases of fresh records, each released with less noise."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.flatten_util import ravel_pytree
from jaxtyping import Bool, Int, Key

from privopt import convex, random
from privopt.algorithms.shared import OneShotParams, require_delta
from privopt.arguments import positive_number
from privopt.convex import Average, EmpiricalRisk, FirstOrder, Iteration, StepSizes, Update
from privopt.core import Algorithm, Execution, Plan, Run, Steps, planner, whole
from privopt.mechanisms import GaussianMechanism, OnePass
from privopt.mechanisms.batches.batches import present
from privopt.privacy import gaussian_mu
from privopt.random import stream
from privopt.release import Pytree
from privopt.spec import Budget, ProblemClass, Relation
from privopt.theory import (
    Quantity,
    Rate,
    no_rate,
    phase_sizes,
    phased_descent_step_size,
    phased_rate,
)

_SGD = Update.of(optax.sgd)


class PhasedStatic(NamedTuple):
    """Shape of a run: ``n`` determines the number of phases and their lengths."""

    n: int
    dim: int


class PhasedSecret(NamedTuple):
    """``v_k``, the last average before noise."""

    average: Array


@planner
def phased_sgd(
    problem_class: ProblemClass, budget: Budget, *, step_size: float | None = None
) -> Plan:
    """Return a plan for phased SGD, which minimises the population risk.

    Phase ``i = 1..floor(log2 n)`` is one pass of projected SGD over ``n_i = floor(n/2^i)`` records
    of no other phase, from ``w_{i-1}`` with step size ``eta_i = eta_1 4^{1-i}``. ``v_i`` is the
    average of its iterates, including the first and the last, and ``w_i = Proj(v_i + N(0, sigma_i^2
    I))``. The last ``w_i`` is released, after at most ``n`` gradients.

    Parameters
    ----------
    problem_class : ProblemClass
        Convex, ``L``-Lipschitz, ``H``-smooth losses: the guarantee needs all three. Finite
        ``radius`` unless ``step_size`` is given.
    budget : Budget
        Privacy budget with ``delta > 0`` under ``replace_one`` or ``zero_out``.
    step_size : float, optional
        Step size ``eta_1 <= 2/H``. Default: the minimiser of the bound below.

    Formal guarantee
    ----------------
    ``sigma_i = 2 L eta_i/mu`` (``replace_one``) or half of it (``zero_out``), with the Gaussian DP
    parameter ``mu`` of ``budget``. Neighbours are lists that differ in one place. At most one step
    of one phase uses a place, in an order that is independent of the data. Given the earlier
    releases, only this phase differs between neighbours, and it is a Gaussian mechanism of
    sensitivity ``2 L eta_i`` (:class:`OnePass`). All ``w_i`` together are therefore ``mu``-Gaussian
    DP. The guarantee needs the assumptions in ``guarantee.assumptions``.

    Rate
    ----
    Population risk, for independent records::

        E F_P(w_k) - F_P* <= R^2/(2 eta_1 N_1) + sum_{i>=2} d sigma_{i-1}^2/(2 eta_i N_i)
                             + (L^2/2) sum_i eta_i + L sqrt(d) sigma_k,    N_i = n_i + 1,

    which is ``4 L R sqrt(1/(6n) + 16 d/(n mu)^2)`` up to lower orders for the default ``eta_1``,
    unless ``2/H`` is less. The reported value is for the step size of the plan.

    Source: Feldman, Koren and Talwar 2020, "Private stochastic convex optimization: optimal rates
    in linear time" (phased SGD), with exact Gaussian accounting. The paper has ``ceil(log2 n)``
    phases; the last of them has no records unless ``n`` is a power of two.

    Examples
    --------
    >>> facts = ProblemClass(n=1000, dim=5, lipschitz=1.0, radius=1.0, smoothness=0.25)
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> plan = phased_sgd(facts, budget)
    >>> phase_sizes(plan.static.n)[:3]
    (500, 250, 125)
    """
    require_delta("phased_sgd", budget)
    if budget.relation is Relation.ADD_OR_REMOVE_ONE:
        raise ValueError(
            "relation must be replace_one or zero_out for phased_sgd, because an added record "
            f"changes the phases of others, got {budget.relation}"
        )
    mu = gaussian_mu(budget.epsilon, budget.delta)
    if step_size is not None:
        step_size = positive_number("step_size", step_size)
    elif math.isinf(problem_class.radius):
        raise ValueError("step_size must be given where radius is infinite, got None")
    else:
        unit_noise_std = budget.relation.multiple * problem_class.lipschitz / mu
        step_size = phased_descent_step_size(problem_class, unit_noise_std=unit_noise_std)
    query = OnePass.of(problem_class, step_size)
    mechanism = GaussianMechanism.calibrated(query, budget)
    return Plan(
        PHASED_SGD,
        problem_class,
        budget,
        OneShotParams(mechanism),
        PhasedStatic(problem_class.n, problem_class.dim),
    )


def rate(plan: Plan) -> Rate:
    """Return the bound of the population risk, from step size and noise of the first phase."""
    params: Any = plan.params
    (mechanism,), facts = params, plan.problem_class
    query = mechanism.query
    if query.gradient.changes(facts):
        return no_rate("gradients are clipped or divided", quantity=Quantity.POPULATION_RISK)
    return phased_rate(facts, step_size=query.step_size, noise_std=mechanism.scale)


class PhasedState(NamedTuple):
    """State after ``t`` records: last released ``w_i``, its average ``v_i``, and the phase."""

    t: Int[Array, ""]
    released: Pytree
    average: Pytree
    inner: convex.State


def steps(
    static: PhasedStatic,
    params: OneShotParams,
    objective: EmpiricalRisk,
    key: Key[Array, ""],
    execution: Execution,
) -> Steps:
    """Return all phases, as one loop around the pass of a phase."""
    del execution  # a step reads one record
    mechanism, constraint = params.mechanism, objective.constraint
    query, noise_key = mechanism.query, stream(key, "noise")
    answers = query.oracle(objective, random.order(stream(key, "batches"), static.n))
    sizes = phase_sizes(static.n)
    lengths, firsts = jnp.array(sizes), jnp.cumsum(jnp.array((0, *sizes)))[:-1]
    shrinks = jnp.array([4.0**-i for i in range(len(sizes))], objective.dtype)

    def phase(i: Array, start: Pytree) -> Iteration:
        method = FirstOrder(StepSizes(shrinks[i] * query.step_size), _SGD, Average())
        oracle = replace(answers, first=firsts[i], steps=lengths[i])
        return method.of(oracle, constraint, start, key)

    def init() -> PhasedState:
        start = objective.start(static.dim)
        first = phase(jnp.asarray(0), start).init()
        return PhasedState(jnp.zeros_like(firsts[0]), start, start, first)

    def until(state: PhasedState, last: Array, in_blocks: bool = True) -> PhasedState:
        del in_blocks  # the batch of a step is one record

        def one_phase(state: PhasedState) -> PhasedState:
            i = jnp.searchsorted(firsts, state.t, side="right") - 1
            end = jnp.minimum(lengths[i], last - firsts[i])
            inner = phase(i, state.released).until(state.inner, end)
            advanced = state._replace(t=firsts[i] + inner.t, inner=inner)
            return jax.lax.cond(inner.t == lengths[i], ended, lambda i, same: same, i, advanced)

        return jax.lax.while_loop(lambda state: state.t < last, one_phase, state)

    def ended(i: Array, state: PhasedState) -> PhasedState:
        average = state.inner.mean
        answer, restored = ravel_pytree(average)
        scale: Any = shrinks[i] * mechanism.scale
        noisy = mechanism._replace(scale=scale).add_noise(random.fold_in(noise_key, i), answer)
        released = constraint.project(restored(noisy))
        return PhasedState(state.t, released, average, phase(i, released).init())

    return Steps(
        sum(sizes), init, until, lambda state: Run(state.released, PhasedSecret(state.average))
    )


def rows(
    static: PhasedStatic,
    params: OneShotParams,
    key: Key[Array, ""],
    t: Int[Array, ""],
    records: Int[Array, ""] | int,
) -> tuple[Int[Array, " 1"], Bool[Array, " 1"]]:
    """Return index and mask of the single record of step ``t``."""
    del params
    order = random.order(stream(key, "batches"), static.n)
    return present(jax.lax.dynamic_slice(order, (t,), (1,)), records)


def step_count(static: PhasedStatic, params: OneShotParams) -> int:
    """Return the number of records of all phases, which is less than ``n``."""
    del params
    return sum(phase_sizes(static.n))


PHASED_SGD = Algorithm(
    name="phased_sgd",
    summary="one pass of SGD in phases of fresh records, for population risk",
    plan=phased_sgd,
    mechanism=GaussianMechanism[OnePass],
    run=whole(steps),
    steps=steps,
    step_count=step_count,
    rows=rows,
    rate=rate,
    float64=True,
    relations=frozenset({Relation.REPLACE_ONE, Relation.ZERO_OUT}),
    cites=("feldman2020",),
)
