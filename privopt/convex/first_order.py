"""One loop for all first-order methods: gradients x update x projection x output rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from privopt.convex.constraint import ConstraintSet
from privopt.convex.oracles import GradientOracle, Observer
from privopt.convex.outputs import Output
from privopt.convex.pytree_dataclass import Pytree, pytree_dataclass
from privopt.convex.step_sizes import StepSizes
from privopt.convex.updates import Update
from privopt.streams import stream

__all__ = ["FirstOrder", "Iterates", "Path"]


class Path(NamedTuple):
    """What the run would have returned after fewer steps.

    Attributes
    ----------
    steps : Array
        Shape ``(recorded,)``: 1 to ``T``, evenly on a logarithmic scale, or every step.
    points : pytree
        Of the parameter's shape, with a leading axis of length ``recorded``. Random iterates are
        the start before they are drawn, suffixes before they begin. After a stop, what is
        returned.
    """

    steps: Array
    points: Pytree


class Iterates(NamedTuple):
    """What came out of a run.

    Attributes
    ----------
    output : pytree
        The output rule's choice.
    last : pytree
        ``w_{T+1}``.
    path : Path or None
        Where it was asked for.
    steps : Array
        How many were taken: ``T``, or fewer where the oracle stops.
    observed : pytree
        What the observer made of the run; None without one.
    """

    output: Pytree
    last: Pytree
    path: Path | None
    steps: Array
    observed: Pytree


class _State(NamedTuple):
    """Between two steps."""

    point: Pytree
    moments: Pytree
    mean: Pytree
    path: Pytree
    seen: Pytree


class _Asked(NamedTuple):
    """The two questions of a step."""

    gradient: Callable[..., tuple[Pytree, Pytree]]
    secret: Callable[..., Pytree]


_Step = Callable[[_Asked, Array, Pytree, _State], tuple[Pytree, _State]]
_Carry = tuple[Array, Pytree, _State]  # of every loop: t, the oracle's memory, the method's state
_Body = Callable[[_Carry], _Carry]


@pytree_dataclass
@dataclass(frozen=True)
class FirstOrder:
    """``w_{t+1} = Proj(w_t + U(g_t))`` with an optax update ``U``; a mean of the iterates.

    How many steps there are the oracle says.

    Attributes
    ----------
    step_sizes : StepSizes
    update : Update
    output : Output
    recorded : int
        How many points of the path to keep; 0 for none.
    every_step : bool
        Whether these are the points after steps 1, 2, 3 ..; by default they lie evenly on a
        logarithmic scale up to ``T``.
    """

    step_sizes: StepSizes
    update: Update
    output: Output
    recorded: int = field(default=0, metadata={"static": True})
    every_step: bool = field(default=False, metadata={"static": True})

    def minimise(
        self,
        oracle: GradientOracle,
        constraint: ConstraintSet,
        start: Pytree,
        key: Array,
        observer: Observer | None = None,
        losses: Pytree = None,
        unroll: int = 1,
    ) -> Iterates:
        """Run from ``start``, a public point; ``losses`` are for the observer alone.

        The compiled loop takes ``unroll`` steps a turn, but one where the oracle may stop.

        A step that is not finite goes back to ``start`` with all its memory: a fixed, public
        state instead of an exception, which would itself be a release. ``stream(key, "output")``
        serves the output rule alone.

        Raises
        ------
        ValueError
            While tracing, if the oracle may stop and the output rule needs to know when.
        """
        steps = jnp.asarray(oracle.steps)
        dtype = jax.tree.leaves(start)[0].dtype
        known = None if oracle.stop is not None else steps
        weights = self.output.weights(stream(key, "output"), known, dtype)
        update = self.update.build(lambda count: self.step_sizes.at(count + 1, steps))
        times = self._times(steps)
        fresh = update.init(start)

        def step(ask: _Asked, t: Array, memory: Pytree, state: _State) -> tuple[Pytree, _State]:
            point, moments, mean, path, seen = state
            if observer is not None:
                seen = observer.observe(seen, t, point, ask.secret(memory, t, point))
            gradient, memory = ask.gradient(memory, t, point)
            moved, moments = update.update(gradient, moments, point)
            moved = constraint.project(optax.apply_updates(point, moved))
            finite = _finite(moved)
            point = _where(finite, moved, start)
            moments = _where(finite, moments, fresh)
            if weights is not None:
                mean = _towards(mean, point, weights(t + 2))
            if times is not None:
                slot = jnp.searchsorted(times, t + 1)
                here = point if weights is None else mean
                path = jax.tree.map(lambda rows, row: rows.at[slot].set(row), path, here)
            return memory, _State(point, moments, mean, path, seen)

        rows = jax.tree.map(lambda leaf: jnp.zeros((self.recorded, *leaf.shape), dtype), start)
        seen = None if observer is None else observer.begin(start, losses)
        taken, end = _all_steps(
            oracle, step, start, _State(start, fresh, start, rows, seen), unroll
        )
        output = end.point if weights is None else end.mean
        path = None
        if times is not None:
            firsts = jnp.searchsorted(times, times)  # of equal times the first was written
            path = Path(times, jax.tree.map(lambda leaf: leaf[firsts], end.path))
            if oracle.stop is not None:
                path = path._replace(points=_from(times > taken, output, path.points))
        return Iterates(output, end.point, path, taken, end.seen)

    def _times(self, steps: Array) -> Array | None:
        """1, 2, 3 .., or 1 to ``T`` on a logarithmic scale, rounded."""
        if self.recorded == 0:
            return None
        if self.every_step:
            return jnp.arange(1, self.recorded + 1, dtype=steps.dtype)
        share = jnp.linspace(0.0, 1.0, self.recorded) if self.recorded > 1 else jnp.ones(1)
        return jnp.round(jnp.exp(share * jnp.log(steps.astype(share.dtype)))).astype(steps.dtype)


def _all_steps(
    oracle: GradientOracle, step: _Step, start: Pytree, state: _State, unroll: int
) -> tuple[Array, _State]:
    """``step`` at ``t = 0 .. T - 1``, by the oracle's blocks or periods; how many, and the end."""
    steps, stop = jnp.asarray(oracle.steps), oracle.stop
    secret = oracle.secret or _no_secret

    def until(last: Array, body: _Body, carry: _Carry) -> _Carry:
        def goes_on(carry: _Carry) -> Array:
            within = carry[0] < last
            return within if stop is None else within & ~stop(carry[1])

        return jax.lax.while_loop(goes_on, body, carry)

    def turns(last: Array, body: _Body, carry: _Carry) -> _Carry:
        if unroll > 1 and stop is None:

            def turn(carry: _Carry) -> _Carry:
                for _ in range(unroll):
                    carry = body(carry)
                return carry

            carry = jax.lax.while_loop(lambda carry: carry[0] + unroll <= last, turn, carry)
        return until(last, body, carry)

    def one(asked: _Asked, carry: _Carry) -> _Carry:
        t, memory, state = carry
        return t + 1, *step(asked, t, memory, state)

    def several(carry: _Carry) -> _Carry:
        t = carry[0]
        if oracle.renew is not None:
            last = t + jnp.asarray(oracle.period).astype(t.dtype)
            carry = one(_Asked(oracle.renew, _no_secret), carry)
            ask = _Asked(oracle.ask, secret)
        else:
            assert oracle.draw is not None
            last, drawn = t + oracle.block, oracle.draw(t // oracle.block)
            ask = _Asked(partial(oracle.ask, drawn=drawn), partial(secret, drawn=drawn))
        return turns(jnp.minimum(last, steps), partial(one, ask), carry)

    plain = oracle.renew is None and oracle.draw is None
    first = (jnp.zeros_like(steps), oracle.begin(start), state)
    if plain:
        taken, _, end = turns(steps, partial(one, _Asked(oracle.ask, secret)), first)
    else:
        taken, _, end = until(steps, several, first)
    return taken, end


def _no_secret(*asked: object, **drawn: object) -> None:
    del asked, drawn


def _towards(mean: Pytree, point: Pytree, weight: Array) -> Pytree:
    return jax.tree.map(lambda m, w: m + weight.astype(m.dtype) * (w - m), mean, point)


def _finite(tree: Pytree) -> Array:
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]).all()


def _where(condition: Array, yes: Pytree, no: Pytree) -> Pytree:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def _from(condition: Array, row: Pytree, rows: Pytree) -> Pytree:
    """``row`` in the place of all rows at which the condition, one for each, is true."""

    def filled(one: Array, all_rows: Array) -> Array:
        chosen = condition.reshape(-1, *(1,) * one.ndim)
        return jnp.where(chosen, one[None], all_rows)

    return jax.tree.map(filled, row, rows)
