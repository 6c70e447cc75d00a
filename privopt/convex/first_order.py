"""First-order methods: oracles, observers and the loop.

    g_t = oracle(w_t)                       private gradient
    w_{t+1} = Proj(w_t + U(g_t))            update; U(g) = -eta_t g for plain descent
    v <- v + a_{t+1} (w_{t+1} - v)          running mean of the output rule

An accelerated method (Lan 2012, AC-SA) evaluates the oracle between the mean and the iterate, at
``v + a_{t+1} (w_t - v)``. Then the mean converges faster on smooth losses.

An update that scales coordinates, such as Adam, followed by a Euclidean projection does not
converge to the minimiser on a set. Its fixed points have ``U(g)`` normal to the set, instead of
``g``. Such an update therefore receives the gradient mapping (Nesterov 2004, section 2.2.3) in
place of ``g_t``::

    (w_t - Proj(w_t - s g_t))/s,    s = |U(g_t)|/|g_t|,

which is 0 at the minimiser, and equals ``g_t`` if ``w_t - s g_t`` is in the set.

With a private gradient ``g_t = (1/b) sum_{i in B_t} clip_C(grad l(w_t; x_i)) + sigma z_t``
(:class:`privopt.mechanisms.PrivateGradient`) the loop is DP-SGD. With all records it is DP-GD, with
the update of Adam it is NoisyAdam, and with correlated noise it is DP-FTRL.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import optax
from jax import Array
from jax.flatten_util import ravel_pytree
from jaxtyping import Bool, Int, Key

from privopt.arguments import shown
from privopt.convex.arrays import Number, norm, pytree_dataclass
from privopt.convex.loops import BLOCK, UNROLLED, by_platform
from privopt.convex.sets import ConstraintSet, WholeSpace
from privopt.convex.updates import Output, StepSizes, Update
from privopt.random import stream
from privopt.release import Pytree


class Oracle:
    """Oracle of a first-order run, evaluated once in each step ``t = 0 .. T - 1``; it has a state.

    The result is a pytree that the update of the run accepts: a gradient for an Optax update, or
    any other type on which oracle and update agree. Subclasses define ``update``, and the other
    methods if needed.

    ``steps`` is ``T``, or an upper bound if the oracle ``stops``; a new number does not recompile.
    ``block`` and ``stops`` are static. The batches of ``block`` steps are sampled at once, which
    is faster and gives the same bits; 0 means no batches. If ``stops`` is True, ``is_over`` may end
    the run before ``T``.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> class Slope(Oracle):
    ...     steps = 10
    ...     def update(self, state, t, point, batch):
    ...         return 2.0 * point, state
    >>> gradient, state = Slope().update((), 0, jnp.ones(2), None)
    >>> gradient.tolist()
    [2.0, 2.0]
    """

    steps: Number | int
    block: int = 0
    stops: bool = False

    def init(self, point: Pytree) -> Pytree:
        """Return the initial state, a pytree, for a parameter like ``point``."""
        del point
        return ()

    def draw(self, k: Int[Array, ""]) -> Pytree:
        """Return the batches of steps ``k block .. (k + 1) block - 1``, along a leading axis."""
        raise NotImplementedError

    def batch(self, t: Array) -> Pytree:
        """Return the batch of step ``t``, or None if there are no batches."""
        if self.block == 0:
            return None
        return jax.tree.map(lambda leaf: leaf[t % self.block], self.draw(t // self.block))

    def sample_ahead(self, first: Int[Array, ""], steps: int, point: Pytree) -> Pytree:
        """Return the batches of ``steps`` steps from ``first`` on, along a leading axis, or None.

        For an accelerator, where ``first`` is a multiple of ``steps``, which is ``block`` unless
        that is 0. An oracle may add other random numbers that need only a parameter like ``point``.
        """
        del point
        return None if self.block == 0 else self.draw(first // steps)

    def update(
        self, state: Pytree, t: Array, point: Pytree, batch: Pytree = None
    ) -> tuple[Pytree, Pytree]:
        """Return the answer of step ``t`` at ``point`` on ``batch``, and the new state."""
        raise NotImplementedError

    def is_over(self, state: Pytree) -> Bool[Array, ""]:
        """Return True if the run ends here; called only if ``stops``.

        The number of steps is released. The state must therefore be public: public randomness, or
        released values.
        """
        raise NotImplementedError

    def secret(self, state: Pytree, t: Array, point: Pytree, batch: Pytree = None) -> Pytree:
        """Return the quantity to which noise is added, for observers."""
        del state, t, point, batch


class Observer(Protocol):
    """Reduction over the steps of a run, for example regret, gradient norms or batch sizes.

    Observers are hashable. The result is ``Run.secret.observed``. It depends on the data without
    noise and is for experiments only: it is not part of the release and must not be published.
    """

    def init(self, point: Pytree, secret: Pytree) -> Pytree:
        """Return the initial state, a pytree of arrays.

        The run starts at ``point``; ``secret`` is the :class:`EmpiricalRisk` of the records.
        """

    def update(self, state: Pytree, t: Array, point: Pytree, secret: Pytree) -> Pytree:
        """Return the state after step ``t = 0, 1, ...``, whose oracle is evaluated at ``point``.

        ``secret`` is the result of the oracle before noise, such as ``mechanisms.BatchMean``.
        """


class State(NamedTuple):
    """State between two steps. A run resumed from it gives the same bits."""

    t: Int[Array, ""]  # steps taken, int32
    point: Pytree  # w_{t+1}, counted from w_1, the start
    optimiser: Pytree  # state of the update
    mean: Pytree  # v of the output rule
    oracle: Pytree  # state of the oracle
    path: Pytree  # recorded points
    observed: Pytree  # state of the observer; None without one


class Path(NamedTuple):
    """Outputs after fewer steps.

    Attributes
    ----------
    steps : Array
        1 to ``T`` on a logarithmic scale, or every step.
    points : pytree
        Outputs, with a leading axis of length ``recorded``. A random iterate is the start before
        the sampled step. After a stop, all rows are the output.
    """

    steps: Int[Array, " recorded"]
    points: Pytree


class Iterates(NamedTuple):
    """Result of a run."""

    output: Pytree  # of the output rule
    last: Pytree  # w_{T+1}
    path: Path | None  # if points are recorded
    steps: Int[Array, ""]  # T, or fewer if the oracle stops
    observed: Pytree  # state of the observer; None without one


@pytree_dataclass
@dataclass(frozen=True)
class FirstOrder:
    """Parameters of a first-order method. The oracle defines the number of steps.

    Attributes
    ----------
    step_sizes : StepSizes or None
        None for an optimiser with its own step sizes (:attr:`Update.has_step_sizes`).
    recorded : int
        Number of recorded points; 0 for none.
    every_step : bool
        If True, record steps 1, 2, 3 ..; default: steps on a logarithmic scale up to ``T``.
    gradient_mapping : bool
        If True, the update receives the gradient mapping in place of the gradient. For updates
        other than plain descent and oracles that return gradients.
    accelerated : bool
        If True, the oracle is evaluated at ``v + a_{t+1} (w_t - v)`` instead of ``w_t``.
    """

    step_sizes: StepSizes | None
    update: Update
    output: Output
    recorded: int = field(default=0, metadata={"static": True})
    every_step: bool = field(default=False, metadata={"static": True})
    gradient_mapping: bool = field(default=False, metadata={"static": True})
    accelerated: bool = field(default=False, metadata={"static": True})

    def __post_init__(self) -> None:
        valid = isinstance(self.update, Update)  # ``Plan`` checks fields that are replaced
        if valid and self.update.has_step_sizes != (self.step_sizes is None):
            rule = "be None beside" if self.update.has_step_sizes else "be given beside"
            raise ValueError(f"step_sizes must {rule} {self.update}, got {shown(self.step_sizes)}")

    def of(
        self,
        oracle: Oracle,
        constraint: ConstraintSet,
        start: Pytree,
        key: Key[Array, ""],
        observer: Observer | None = None,
        losses: Pytree = None,
    ) -> Iteration:
        """Return the run from the public point ``start``; only the observer uses ``losses``.

        Only the output rule uses ``stream(key, "output")``.
        """
        steps, dtype = jnp.asarray(oracle.steps), jax.tree.leaves(start)[0].dtype
        sizes = self.step_sizes
        total = None if oracle.stops else steps
        return Iteration(
            oracle=oracle,
            constraint=constraint,
            start=start,
            steps=steps,
            update=self.update.build(
                None if sizes is None else lambda count: sizes.at(count + 1, steps)
            ),
            weights=self.output.weights(stream(key, "output"), total, dtype),
            times=self._times(steps),
            gradient_mapping=self.gradient_mapping and not isinstance(constraint, WholeSpace),
            accelerated=self.accelerated,
            observer=observer,
            losses=losses,
        )

    def _times(self, steps: Array) -> Array | None:
        """Return the recorded steps: 1, 2, 3 .., or 1 to ``T`` on a logarithmic scale, rounded."""
        if self.recorded == 0:
            return None
        if self.every_step:
            return jnp.arange(1, self.recorded + 1, dtype=steps.dtype)
        fraction = jnp.linspace(0.0, 1.0, self.recorded) if self.recorded > 1 else jnp.ones(1)
        times = jnp.exp(fraction * jnp.log(steps.astype(fraction.dtype)))
        return jnp.round(times).astype(steps.dtype)


@dataclass(frozen=True)
class Iteration:
    """Run of a method on an oracle: ``init``, then ``step`` repeatedly, then ``ends``.

    :meth:`FirstOrder.of` constructs it inside the compiled program.
    """

    oracle: Oracle
    constraint: ConstraintSet
    start: Pytree
    steps: Int[Array, ""]
    update: optax.GradientTransformation
    weights: Callable[[Array], Array] | None
    times: Int[Array, " recorded"] | None
    gradient_mapping: bool
    accelerated: bool
    observer: Observer | None
    losses: Pytree

    def init(self) -> State:
        """Return the state before the first step."""
        start, recorded = self.start, 0 if self.times is None else self.times.shape[0]
        return State(
            t=jnp.zeros_like(self.steps),
            point=start,
            optimiser=self.update.init(start),
            mean=start,
            oracle=self.oracle.init(start),
            path=jax.tree.map(lambda w: jnp.zeros((recorded, *w.shape), w.dtype), start),
            observed=None if self.observer is None else self.observer.init(start, self.losses),
        )

    def step(self, state: State, batch: Pytree = None) -> State:
        """Take one step on its batch and return the new state.

        If the new point is not finite, the point and the state of the update are reset to their
        initial values. The reset is public; an exception would be a release.
        """
        t, point, optimiser, mean, oracle_state, path, observed = state
        query = point
        if self.accelerated and self.weights is not None:
            query = _towards(mean, point, self.weights(t + 2))
        if self.observer is not None:
            secret = self.oracle.secret(oracle_state, t, query, batch)
            observed = self.observer.update(observed, t, query, secret)
        answer, oracle_state = self.oracle.update(oracle_state, t, query, batch)
        if self.gradient_mapping:
            answer = self._gradient_mapping(answer, optimiser, point)
        update, optimiser = self.update.update(answer, optimiser, point)
        target = self.constraint.project(optax.apply_updates(point, update))
        finite = _finite(target)
        point = _where(finite, target, self.start)
        optimiser = _where(finite, optimiser, self.update.init(self.start))
        if self.weights is not None:
            mean = _towards(mean, point, self.weights(t + 2))
        if self.times is not None:
            slot = jnp.searchsorted(self.times, t + 1)
            here = point if self.weights is None else mean
            path = jax.tree.map(lambda rows, row: rows.at[slot].set(row), path, here)
        return State(t + 1, point, optimiser, mean, oracle_state, path, observed)

    def _gradient_mapping(self, gradient: Pytree, optimiser: Pytree, point: Pytree) -> Pytree:
        """Return ``(w - Proj(w - s g))/s`` with a step of the length of the update.

        An update that accumulates gradients for a later step has length 0. It is replaced by the
        shortest step that rounding allows.
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

    def until(self, state: State, last: Array, in_blocks: bool = True) -> State:
        """Return the state after step ``last``, or at the stop of the oracle.

        Batches are sampled in blocks, or one by one if not ``in_blocks``, which is faster for a
        single step. An accelerator reads the condition of a loop on the host unless its length is
        fixed. There, whole blocks are loops of fixed length, followed by the remaining steps as on
        a CPU. The time of such a step is that of starting its kernels: random numbers are
        sampled ahead, and a few steps share the kernels that count.
        """
        if not in_blocks:
            return self._while(state, last, self.step)
        block = self.oracle.block or BLOCK

        def step_of_block(k: Array) -> Callable[[State], State]:
            if self.oracle.block == 0:
                return self.step
            batches = self.oracle.draw(k)
            return lambda state: self.step(
                state, jax.tree.map(lambda leaf: leaf[state.t % block], batches)
            )

        def part(state: State) -> State:
            k = state.t // block
            return self._while(state, jnp.minimum((k + 1) * block, last), step_of_block(k))

        def is_whole(state: State) -> Array:
            return (state.t % block == 0) & (state.t + block <= last)

        def whole(state: State) -> State:
            ahead = self.oracle.sample_ahead(state.t, block, state.point)

            def step(_: Array, state: State) -> State:
                return self.step(state, jax.tree.map(lambda leaf: leaf[state.t % block], ahead))

            return jax.lax.fori_loop(0, block, step, state, unroll=math.gcd(block, UNROLLED))

        def sequential(state: State) -> State:
            return self._while(state, last, part if self.oracle.block else self.step)

        if self.oracle.stops:
            return sequential(state)
        return by_platform(
            state,
            cpu=sequential,
            default=lambda state: sequential(jax.lax.while_loop(is_whole, whole, state)),
        )

    def ends(self, state: State) -> Iterates:
        """Return the result of a run that ends in ``state``."""
        output = state.point if self.weights is None else state.mean
        path = None
        if self.times is not None:
            # the first of equal times contains the point
            firsts = jnp.searchsorted(self.times, self.times)
            path = Path(self.times, jax.tree.map(lambda leaf: leaf[firsts], state.path))
            if self.oracle.stops:
                path = path._replace(points=_from(self.times > state.t, output, path.points))
        return Iterates(output, state.point, path, state.t, state.observed)

    def run(self) -> Iterates:
        """Run all ``T`` steps."""
        return self.ends(self.until(self.init(), self.steps))

    def _while(self, state: State, last: Array, body: Callable[[State], State]) -> State:
        def unfinished(state: State) -> Array:
            within = state.t < last
            return within & ~self.oracle.is_over(state.oracle) if self.oracle.stops else within

        return jax.lax.while_loop(unfinished, body, state)


def _norm(tree: Pytree) -> Array:
    return norm(ravel_pytree(tree)[0])


def _towards(mean: Pytree, point: Pytree, weight: Array) -> Pytree:
    """Return ``mean + weight (point - mean)``, and ``point`` itself for weight 1."""
    average = jax.tree.map(lambda m, w: m + weight.astype(m.dtype) * (w - m), mean, point)
    return _where(weight == 1.0, point, average)


def _finite(tree: Pytree) -> Array:
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)]).all()


def _where(condition: Array, yes: Pytree, no: Pytree) -> Pytree:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def _from(condition: Array, row: Pytree, rows: Pytree) -> Pytree:
    """Replace the rows that meet ``condition`` by ``row``."""

    def fill(row: Array, rows: Array) -> Array:
        return jnp.where(condition.reshape(-1, *(1,) * row.ndim), row[None], rows)

    return jax.tree.map(fill, row, rows)
