"""One loop for all first-order methods: gradients x update x projection x output rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
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

_OUTPUT_STREAM = np.uint32(2**32 - 1)  # the steps, below 2^31, have the other ones


class GradientOracle(NamedTuple):
    """Answers the ``t``-th question for a gradient, ``t`` from 0, and may remember.

    Attributes
    ----------
    initial : pytree
        Memory before the first question.
    ask : callable
        ``(memory, t, point) -> (gradient, memory)``.
    """

    initial: Any
    ask: Callable[[Any, Array, Any], tuple[Any, Any]]


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
        update = self.update.build(lambda count: self.step_sizes.at(count + 1, steps))
        times = _times(steps, self.recorded)
        fresh = update.init(start)

        def step(t: Array, state: tuple[Any, ...]) -> tuple[Any, ...]:
            t, (point, moments, memory, mean, path) = jnp.asarray(t), state
            if weights is not None:
                mean = _towards(mean, point, weights(t + 1))
            gradient, memory = oracle.ask(memory, t, point)
            moved, moments = update.update(gradient, moments, point)
            moved = constraint.project(optax.apply_updates(point, moved))
            finite = _finite(moved)
            point = _where(finite, moved, start)
            moments = _where(finite, moments, fresh)
            if times is not None:
                slot = jnp.searchsorted(times, t + 1)
                here = point if weights is None else mean
                path = jax.tree.map(lambda rows, row: rows.at[slot].set(row), path, here)
            return point, moments, memory, mean, path

        zeros = jax.tree.map(jnp.zeros_like, start)
        rows = jax.tree.map(lambda leaf: jnp.zeros((self.recorded, *leaf.shape), dtype), start)
        state = (start, fresh, oracle.initial, zeros, rows)
        last, _, _, mean, rows = jax.lax.fori_loop(0, steps, step, state)
        path = None
        if times is not None:
            firsts = jnp.searchsorted(times, times)  # of equal times the first was written
            path = Path(times, jax.tree.map(lambda leaf: leaf[firsts], rows))
        return Iterates(last if weights is None else mean, last, path)


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
