"""A first-order run, a step at a time: ask, update, project, average.

    g_t = ask(w_t)                          the private answer of the oracle
    w_{t+1} = Proj(w_t + U(g_t))            U(g) = -eta_t g for plain descent
    v <- v + a_{t+1} (w_{t+1} - v)          the mean that the output rule keeps

An update that scales coordinates, such as Adam's, followed by a Euclidean projection does not stop
at the minimiser on a set. It stops where ``U(g)`` is normal to the set, instead of ``g``. Such an
update therefore receives the gradient mapping (Nesterov 2004, section 2.2.3) in place of ``g_t``::

    (w_t - Proj(w_t - s g_t))/s,    s = |U(g_t)|/|g_t|,

which is 0 at the minimiser, and ``g_t`` where ``w_t - s g_t`` lies in the set.

With a private gradient ``g_t = (1/b) sum_{i in B_t} clip_C(grad l(w_t; x_i)) + sigma z_t``
(:class:`privopt.mechanisms.PrivateGradient`) this is DP-SGD; with all records it is DP-GD, with
Adam's update NoisyAdam, with noise that remembers DP-FTRL.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.flatten_util import ravel_pytree

from privopt.arguments import shown
from privopt.convex.oracles import Observer, Oracle
from privopt.convex.outputs import Output
from privopt.convex.pytree_dataclass import pytree_dataclass
from privopt.convex.sets import ConstraintSet, WholeSpace
from privopt.convex.turns import BLOCK
from privopt.convex.updates import StepSizes, Update
from privopt.convex.vectors import norm
from privopt.release import Pytree
from privopt.streams import stream


class State(NamedTuple):
    """Between two steps: all that a run needs to go on with the same bits."""

    t: Array  # steps taken, int32
    point: Pytree  # w_{t+1}, counted from w_1, the start
    optimiser: Pytree  # what the update remembers
    mean: Pytree  # v, of the output rule
    memory: Pytree  # what the oracle remembers
    path: Pytree  # the recorded points so far
    observed: Pytree  # what the observer made of the run; None without one


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
    """What came out of a run."""

    output: Pytree  # the output rule's choice
    last: Pytree  # w_{T+1}
    path: Path | None  # where it was asked for
    steps: Array  # how many were taken: T, or fewer where the oracle stops
    observed: Pytree  # what the observer made of the run; None without one


@pytree_dataclass
@dataclass(frozen=True)
class FirstOrder:
    """Parameters of a first-order method. The number of steps belongs to the oracle.

    Attributes
    ----------
    step_sizes : StepSizes or None
        None for an optimiser that has its own (:attr:`Update.has_step_sizes`).
    recorded : int
        How many points of the path to keep; 0 for none.
    every_step : bool
        Whether these are the points after steps 1, 2, 3 ..; by default they lie evenly on a
        logarithmic scale up to ``T``.
    gradient_mapping : bool
        Whether the update receives the gradient mapping in place of the gradient. For updates other
        than plain descent, and answers that are gradients.
    """

    step_sizes: StepSizes | None
    update: Update
    output: Output
    recorded: int = field(default=0, metadata={"static": True})
    every_step: bool = field(default=False, metadata={"static": True})
    gradient_mapping: bool = field(default=False, metadata={"static": True})

    def __post_init__(self) -> None:
        known = isinstance(self.update, Update)  # fields changed by hand are checked by ``Plan``
        if known and self.update.has_step_sizes != (self.step_sizes is None):
            rule = "be None beside" if self.update.has_step_sizes else "be given beside"
            raise ValueError(f"step_sizes must {rule} {self.update}, got {shown(self.step_sizes)}")

    def of(
        self,
        oracle: Oracle,
        constraint: ConstraintSet,
        start: Pytree,
        key: Array,
        observer: Observer | None = None,
        losses: Pytree = None,
    ) -> Descent:
        """The run from ``start``, a public point; ``losses`` are for the observer alone.

        ``stream(key, "output")`` serves the output rule alone.
        """
        steps, dtype = jnp.asarray(oracle.steps), jax.tree.leaves(start)[0].dtype
        sizes = self.step_sizes
        known = None if oracle.stops else steps
        return Descent(
            oracle=oracle,
            constraint=constraint,
            start=start,
            steps=steps,
            update=self.update.build(
                None if sizes is None else lambda count: sizes.at(count + 1, steps)
            ),
            weights=self.output.weights(stream(key, "output"), known, dtype),
            times=self._times(steps),
            gradient_mapping=self.gradient_mapping and not isinstance(constraint, WholeSpace),
            observer=observer,
            losses=losses,
        )

    def _times(self, steps: Array) -> Array | None:
        """1, 2, 3 .., or 1 to ``T`` on a logarithmic scale, rounded."""
        if self.recorded == 0:
            return None
        if self.every_step:
            return jnp.arange(1, self.recorded + 1, dtype=steps.dtype)
        share = jnp.linspace(0.0, 1.0, self.recorded) if self.recorded > 1 else jnp.ones(1)
        return jnp.round(jnp.exp(share * jnp.log(steps.astype(share.dtype)))).astype(steps.dtype)


@dataclass(frozen=True)
class Descent:
    """One run of a method on an oracle: ``init``, ``step`` as often as there are steps, ``ends``.

    Made inside the program that runs it, by :meth:`FirstOrder.of`.
    """

    oracle: Oracle
    constraint: ConstraintSet
    start: Pytree
    steps: Array
    update: optax.GradientTransformation
    weights: Callable[[Array], Array] | None
    times: Array | None
    gradient_mapping: bool
    observer: Observer | None
    losses: Pytree

    def init(self) -> State:
        """Before the first step."""
        start, recorded = self.start, 0 if self.times is None else self.times.shape[0]
        return State(
            t=jnp.zeros_like(self.steps),
            point=start,
            optimiser=self.update.init(start),
            mean=start,
            memory=self.oracle.begin(start),
            path=jax.tree.map(lambda w: jnp.zeros((recorded, *w.shape), w.dtype), start),
            observed=None if self.observer is None else self.observer.begin(start, self.losses),
        )

    def step(self, state: State, batch: Pytree = None) -> State:
        """After one more step, on the batch that is drawn for it.

        A step that is not finite goes back to ``start`` with all its memory: a fixed, public
        state instead of an exception, which would itself be a release.
        """
        t, point, optimiser, mean, memory, path, observed = state
        if self.observer is not None:
            secret = self.oracle.secret(memory, t, point, batch)
            observed = self.observer.observe(observed, t, point, secret)
        answer, memory = self.oracle.ask(memory, t, point, batch)
        if self.gradient_mapping:
            answer = self._gradient_mapping(answer, optimiser, point)
        moved, optimiser = self.update.update(answer, optimiser, point)
        moved = self.constraint.project(optax.apply_updates(point, moved))
        finite = _finite(moved)
        point = _where(finite, moved, self.start)
        optimiser = _where(finite, optimiser, self.update.init(self.start))
        if self.weights is not None:
            mean = _towards(mean, point, self.weights(t + 2))
        if self.times is not None:
            slot = jnp.searchsorted(self.times, t + 1)
            here = point if self.weights is None else mean
            path = jax.tree.map(lambda rows, row: rows.at[slot].set(row), path, here)
        return State(t + 1, point, optimiser, mean, memory, path, observed)

    def _gradient_mapping(self, gradient: Pytree, optimiser: Pytree, point: Pytree) -> Pytree:
        """Return ``(w - Proj(w - s g))/s``, for a step as long as that of the update.

        An update that collects gradients for a later step does not move. The shortest step that
        rounding allows serves in its place.
        """
        update, _ = self.update.update(gradient, optimiser, point)
        size, shortest = _norm(gradient), _norm(point)
        shortest *= math.sqrt(jnp.finfo(shortest.dtype).eps)
        step = jnp.maximum(_norm(update), shortest) / jnp.where(size > 0.0, size, 1.0)
        target = jax.tree.map(lambda w, g: w - step.astype(w.dtype) * g, point, gradient)
        inverse = 1.0 / jnp.where(step > 0.0, step, 1.0)
        return jax.tree.map(
            lambda g, u, v: g + inverse.astype(g.dtype) * (u - v),
            gradient, target, self.constraint.project(target),
        )  # fmt: skip

    def until(self, state: State, last: Array) -> State:
        """After step ``last``, or where the oracle stops; batches are drawn by the block.

        An accelerator reads on the host whether a loop goes on, unless its length is known: there
        whole blocks are loops of known length, and what is left is done as on a CPU.
        """
        block = self.oracle.block or BLOCK

        def drawn(k: Array) -> Callable[[State], State]:
            if self.oracle.block == 0:
                return self.step
            batches = self.oracle.draw(k)
            return lambda state: self.step(
                state, jax.tree.map(lambda leaf: leaf[state.t % block], batches)
            )

        def part(state: State) -> State:
            k = state.t // block
            return self._while(state, jnp.minimum((k + 1) * block, last), drawn(k))

        def is_whole(state: State) -> Array:
            return (state.t % block == 0) & (state.t + block <= last)

        def whole(state: State) -> State:
            one = drawn(state.t // block)
            return jax.lax.fori_loop(0, block, lambda _, state: one(state), state)

        def in_turn(state: State) -> State:
            return self._while(state, last, part if self.oracle.block else self.step)

        if self.oracle.stops:
            return in_turn(state)
        return jax.lax.platform_dependent(
            state,
            cpu=in_turn,
            default=lambda state: in_turn(jax.lax.while_loop(is_whole, whole, state)),
        )

    def ends(self, state: State) -> Iterates:
        """What a run that ends here returns."""
        output = state.point if self.weights is None else state.mean
        path = None
        if self.times is not None:
            # of equal times the first was written
            firsts = jnp.searchsorted(self.times, self.times)
            path = Path(self.times, jax.tree.map(lambda leaf: leaf[firsts], state.path))
            if self.oracle.stops:
                path = path._replace(points=_from(self.times > state.t, output, path.points))
        return Iterates(output, state.point, path, state.t, state.observed)

    def run(self) -> Iterates:
        """All ``T`` steps."""
        return self.ends(self.until(self.init(), self.steps))

    def _while(self, state: State, last: Array, body: Callable[[State], State]) -> State:
        def goes_on(state: State) -> Array:
            within = state.t < last
            return within & ~self.oracle.is_over(state.memory) if self.oracle.stops else within

        return jax.lax.while_loop(goes_on, body, state)


def _norm(tree: Pytree) -> Array:
    return norm(ravel_pytree(tree)[0])


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
