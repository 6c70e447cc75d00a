"""One loop for all first-order methods: gradients x update x projection x output rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from privopt.convex.outputs import Output
from privopt.convex.record import record
from privopt.convex.step_sizes import StepSizes
from privopt.convex.updates import Update
from privopt.convex.vectors import Number

__all__ = ["FirstOrder", "GradientOracle", "Iterates", "Path"]

Ask = Callable[[Any, Array, Any], tuple[Any, Any]]

_OUTPUT_STREAM = np.uint32(2**32 - 1)  # the steps, below 2^31, have the other ones


class GradientOracle(NamedTuple):
    """Answers the ``t``-th question for a gradient, ``t`` from 0, and may remember.

    Attributes
    ----------
    initial : pytree
        Memory before the first question.
    ask : callable
        ``(memory, t, point) -> (gradient, memory)``.
    renew : callable, optional
        Answers in place of ``ask`` at ``t = 0, period, 2 period, ...``, each time from the
        initial memory. These questions are a loop of their own: as a branch inside one loop, what
        they cost would be spent at every step wherever runs are mapped.
    period : int, optional
        A number.
    """

    initial: Any
    ask: Ask
    renew: Ask | None = None
    period: Number | int | None = None


class Path(NamedTuple):
    """What the run would have returned after fewer steps.

    Attributes
    ----------
    steps : Array
        Shape ``(recorded,)``: 1 to ``T``, evenly on a logarithmic scale.
    points : pytree
        Of the parameter's shape, with a leading axis of length ``recorded``. Random iterates are
        zero before they are drawn, suffixes before they begin.
    """

    steps: Array
    points: Any


class Iterates(NamedTuple):
    """What came out: the output rule's choice, the last iterate, and the path if recorded."""

    output: Any
    last: Any
    path: Path | None


@record
@dataclass(frozen=True)
class FirstOrder:
    """``w_{t+1} = Proj(w_t + U(g_t))`` with an optax update ``U``; a mean of the iterates.

    Attributes
    ----------
    steps : int
        ``T``; a number, so that a new one does not recompile.
    step_sizes : StepSizes
    update : Update
    output : Output
    recorded : int
        How many points of the path to keep; 0 for none.
    """

    steps: Number | int
    step_sizes: StepSizes
    update: Update
    output: Output
    recorded: int = field(default=0, metadata={"static": True})

    def minimise(self, oracle: GradientOracle, constraint: Any, start: Any, key: Array) -> Iterates:
        """Run from ``start``, a public point.

        A step that is not finite goes back to ``start`` with all its memory: a fixed, public
        state instead of an exception, which would itself be a release. ``key`` serves the
        output rule alone, from a stream that no ``fold_in(key, t)`` shares.
        """
        steps, output = jnp.asarray(self.steps), self.output
        dtype = jax.tree.leaves(start)[0].dtype
        weights = output.weights(jax.random.fold_in(key, _OUTPUT_STREAM), steps, dtype)
        after_step = getattr(output, "after_step", False)
        update = self.update.build(lambda count: self.step_sizes.at(count + 1, steps))
        times = _times(steps, self.recorded)
        fresh = update.init(start)

        def step(ask: Ask, t: Array, memory_and_state: tuple[Any, Any]) -> tuple[Any, Any]:
            t, (memory, (point, moments, mean, path)) = jnp.asarray(t), memory_and_state
            if weights is not None and not after_step:
                mean = _towards(mean, point, weights(t + 1))
            gradient, memory = ask(memory, t, point)
            moved, moments = update.update(gradient, moments, point)
            moved = constraint.project(optax.apply_updates(point, moved))
            finite = _finite(moved)
            point = _where(finite, moved, start)
            moments = _where(finite, moments, fresh)
            if weights is not None and after_step:
                mean = _towards(mean, point, weights(t + 1))
            if times is not None:
                slot = jnp.searchsorted(times, t + 1)
                here = point if weights is None else mean
                path = jax.tree.map(lambda rows, row: rows.at[slot].set(row), path, here)
            return memory, (point, moments, mean, path)

        zeros = jax.tree.map(jnp.zeros_like, start)
        rows = jax.tree.map(lambda leaf: jnp.zeros((self.recorded, *leaf.shape), dtype), start)
        state = (start, fresh, zeros, rows)
        last, _, mean, rows = _all_steps(oracle, steps, step, state)
        path = None
        if times is not None:
            firsts = jnp.searchsorted(times, times)  # of equal times the first was written
            path = Path(times, jax.tree.map(lambda leaf: leaf[firsts], rows))
        return Iterates(last if weights is None else mean, last, path)


def _all_steps(oracle: GradientOracle, steps: Array, step: Any, state: Any) -> Any:
    """``step`` at ``t = 0..steps-1``, with whichever of the oracle's answers is due."""
    ask, renew, fresh = partial(step, oracle.ask), oracle.renew, oracle.initial
    if renew is None:
        return jax.lax.fori_loop(0, steps, ask, (fresh, state))[1]
    period = jnp.asarray(oracle.period).astype(steps.dtype)

    def one_period(k: Array, state: Any) -> Any:
        first = k * period
        last = first + jnp.minimum(period, steps - first)
        return jax.lax.fori_loop(first + 1, last, ask, step(renew, first, (fresh, state)))[1]

    return jax.lax.fori_loop(0, 1 + (steps - 1) // period, one_period, state)


def _times(steps: Array, recorded: int) -> Array | None:
    """1 to ``T`` on a logarithmic scale, rounded."""
    if recorded == 0:
        return None
    share = jnp.linspace(0.0, 1.0, recorded) if recorded > 1 else jnp.ones(1)
    return jnp.round(jnp.exp(share * jnp.log(steps.astype(share.dtype)))).astype(steps.dtype)


def _towards(mean: Any, point: Any, weight: Array) -> Any:
    return jax.tree.map(lambda m, w: m + weight.astype(m.dtype) * (w - m), mean, point)


def _finite(tree: Any) -> Array:
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]).all()


def _where(condition: Array, yes: Any, no: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)
