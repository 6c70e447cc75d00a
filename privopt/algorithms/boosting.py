"""From a run that succeeds half of the time to one that rarely fails: the best of several."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import Array

from privopt.arguments import positive_number, shown
from privopt.convex import EmpiricalRisk, FirstOrder
from privopt.core import Execution
from privopt.mechanisms import BiasReducedGradient
from privopt.mechanisms.best_of_runs import BestOfRuns, PointScore
from privopt.spec import Budget, ProblemClass
from privopt.streams import stream


def boosted(
    problem_class: ProblemClass,
    budget: Budget,
    unit: BiasReducedGradient,
    failure: float,
    *,
    stationary: bool,
) -> BestOfRuns:
    """The mechanism whose runs all fail with probability ``failure/2`` at most.

    ``gamma = min(1/2, failure/2)``: where each run fails with probability 1/2 all of them do with
    ``gamma/(1 + gamma)``, and the selection has the other half of ``failure``.
    """
    if not positive_number("boost", failure) < 1.0:
        raise ValueError(f"boost must be a chance of failure below 1, got {shown(failure)}")
    if not stationary and math.isinf(problem_class.radius):
        raise ValueError("radius must be finite to boost by the risk, got inf")
    score = PointScore(unit.query, None if stationary else problem_class.radius)
    return BestOfRuns.calibrated(unit, score, budget, min(0.5, 0.5 * failure))


def best_run(
    mechanism: BestOfRuns,
    descent: FirstOrder,
    objective: EmpiricalRisk,
    key: Array,
    execution: Execution,
    start: Array,
) -> Array:
    """The output of the run whose noisy score is least; the number of runs is not released.

    The key of run ``i`` is child ``i`` of ``stream(key, "selection")``. Its levels are drawn from
    that key, not from public coins: the cost of the selection is proved for runs of one law, and
    runs whose levels are known have different laws.
    """
    keys, score = stream(key, "selection"), mechanism.score.score_of(objective)

    def attempt(state: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        number, _, least, best = state
        own = jax.random.fold_in(keys, number)
        coins, microbatch = stream(own, "coins"), execution.microbatch
        oracle = mechanism.run.oracle(objective, own, coins, microbatch)
        found = descent.of(oracle, objective.constraint, start, own).run()
        coin = stream(own, "selection")
        value = mechanism.scored(score(found.output), coin)
        better = value < least
        point = jnp.where(better, found.output, best)
        return number + 1, mechanism.is_last(coin), jnp.where(better, value, least), point

    first = jnp.int32(0), jnp.asarray(False), jnp.asarray(jnp.inf, start.dtype), start
    return jax.lax.while_loop(lambda state: ~state[1], attempt, first)[3]
