"""Step sizes, updates made from Optax optimisers, and output rules of first-order methods.

An output rule is the last iterate, or a running mean ``v <- v + a_t (w_t - v)`` over ``t = 2..T+1``
from ``v = w_1``, defined by its weights ``a_t``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from privopt.arguments import checked, positive_number, real, shown
from privopt.convex.arrays import (
    Number,
    on_host,
    pytree_dataclass,
    require_finite,
    require_positive,
)
from privopt.release import Pytree

_MAX_PROBES = 1000  # steps in which an update must change the point


@pytree_dataclass
@dataclass(frozen=True)
class StepSizes:
    """Step sizes ``eta_t = scale (t + offset)^{-power} (1 - decay (t - 1)/T)``, ``t = 1..T``.

    The schedules of all theorems have this form, so they share one compiled program. All four
    parameters are finite, ``decay`` in ``[0, 1]``.

    Examples
    --------
    >>> StepSizes.linear_decay(0.5).at(jnp.arange(1, 5), jnp.asarray(4)).tolist()
    [0.5, 0.375, 0.25, 0.125]
    """

    scale: Number
    power: Number = 0.0
    offset: Number = 0.0
    decay: Number = 0.0

    def __post_init__(self) -> None:
        for name in ("scale", "power", "offset", "decay"):
            require_finite(name, getattr(self, name))
        decay = np.asarray(self.decay) if on_host(self.decay) else np.zeros(())
        if np.any((decay < 0.0) | (decay > 1.0)):
            raise ValueError(f"decay must be in [0, 1], got {shown(self.decay)}")

    @classmethod
    def constant(cls, scale: float) -> StepSizes:
        """Return ``eta``: for averages of convex losses."""
        return cls(scale)

    @classmethod
    def inverse_root(cls, scale: float) -> StepSizes:
        """Return ``c/sqrt(t)``: for the last iterate on convex losses with unknown ``T``."""
        return cls(scale, power=0.5)

    @classmethod
    def linear_decay(cls, scale: float) -> StepSizes:
        """Return ``eta (1 - (t - 1)/T)``: for the last iterate with known ``T``."""
        return cls(scale, decay=1.0)

    @classmethod
    def strongly_convex(cls, modulus: float) -> StepSizes:
        """Return ``2/(m (t + 1))``, for averages with weights proportional to ``t``."""
        return cls(2.0 / positive_number("modulus", modulus), power=1.0, offset=1.0)

    def at(self, t: Array, steps: Array) -> Array:
        """Compute ``eta_t`` for integers ``t`` from 1 to ``steps``."""
        dtype = jnp.asarray(self.scale).dtype
        time, last = t.astype(dtype), jnp.asarray(steps).astype(dtype)
        factor = 1.0 - self.decay * (time - 1.0) / last
        return jnp.asarray(self.scale * (time + self.offset) ** -self.power * factor)


@pytree_dataclass
@dataclass(frozen=True)
class Update:
    """Optax optimiser of a run. It reads released gradients only, so it is post-processing.

    Attributes
    ----------
    numbers : dict of str to float
        Floating-point hyperparameters. A new value does not recompile a run.
    factory : callable
        Function that returns an ``optax.GradientTransformation`` and takes ``learning_rate``, a
        number or a schedule.
    options : tuple
        All other hyperparameters, by name. They are constants of the program.

    Examples
    --------
    >>> update = Update.of(optax.adam, b1=0.8, nesterov=True)
    >>> update
    adam(b1=0.8, nesterov=True)
    >>> update.has_step_sizes, Update.of(optax.adam(0.1)).has_step_sizes
    (False, True)
    """

    numbers: dict[str, Number]
    factory: Callable[..., optax.GradientTransformation] = field(metadata={"static": True})
    options: tuple[tuple[str, Hashable], ...] = field(default=(), metadata={"static": True})

    @classmethod
    def of(
        cls,
        factory: Callable[..., optax.GradientTransformation] | optax.GradientTransformation,
        **hyperparameters: Hashable,
    ) -> Update:
        """Return the update of an Optax optimiser or of a user-defined one.

        *A factory*, such as ``Update.of(optax.adam, b1=0.8)``, takes the step sizes of the run as
        its learning rate. A new step size or floating-point hyperparameter does not recompile.

        *An optimiser*, such as ``optax.adam(0.1)`` or ``optax.sgd(schedule)``, contains the minus
        sign and its own step sizes. It is used without step sizes of the run. It is a constant of
        the program: a new learning rate recompiles.

        *A transformation without the minus sign*, such as ``optax.trace(0.9)`` or
        ``optax.scale_by_adam()``, is chained with minus the step sizes of the run. The response to
        constant gradients, evaluated on the host, distinguishes the last two kinds.

        Optimisers that need more than gradients and parameters raise. A loss, for example, is not
        protected by noise.
        """
        if isinstance(factory, type) or not (
            callable(factory) or isinstance(factory, optax.GradientTransformation)
        ):
            raise _NotAnOptimiserError(factory)
        numbers, options = _numbers_and_options(factory, hyperparameters)
        if isinstance(factory, optax.GradientTransformation):
            update = cls(numbers, _Existing(factory, has_step_sizes=True), options)
            _require_gradients_only(update)
            if not update.descends:
                update = cls(numbers, _Existing(factory, has_step_sizes=False), options)
            return update
        update = cls(numbers, factory, options)
        if _unmet_requirement(update):
            # Factories that take a number instead of a schedule are called in every step.
            repeated = cls(numbers, _PerStep(factory, tuple(dict(options))), options)
            if not _unmet_requirement(repeated):
                return repeated
        _require_gradients_only(update)
        return update

    @property
    def has_step_sizes(self) -> bool:
        """True if the optimiser contains its own step sizes and takes none from the run."""
        return isinstance(self.factory, _Existing) and self.factory.has_step_sizes

    @property
    def descends(self) -> bool:
        """True if the update moves against a constant gradient, False if along it.

        The sign is computed from the difference of two runs with gradients +1 and -1, so that
        weight decay and added noise cancel.
        """
        distance = float(_distance(self))
        if not distance or math.isnan(distance):
            raise ValueError(
                f"update must move within {_MAX_PROBES} steps of constant gradient, "
                f"got {self}, which does not"
            )
        return distance < 0.0

    @property
    def origin(self) -> object:
        """Factory or transformation that was passed to :meth:`of`."""
        return getattr(self.factory, "origin", self.factory)

    def build(self, step_size: Callable[[Array], Array] | None) -> optax.GradientTransformation:
        """Return the transformation. ``step_size`` maps Optax's count, from 0, to the step size.

        It is None for an optimiser with its own step sizes. The transformation uses the standard
        type promotion of JAX, as Optax requires, for every configuration of the caller.
        """

        def build() -> optax.GradientTransformation:
            transformation = self.factory(
                learning_rate=step_size, **self.numbers, **dict(self.options)
            )
            if not isinstance(transformation, optax.GradientTransformation):
                raise _NotAnOptimiserError(transformation)
            return transformation

        def init(point: Pytree) -> Pytree:
            with _promotion():
                return build().init(point)

        def update(gradient: Pytree, state: Pytree, point: Pytree = None) -> tuple[Pytree, Pytree]:
            with _promotion():
                return build().update(gradient, state, point)

        return optax.GradientTransformation(init, update)

    def __hash__(self) -> int:
        return hash((tuple(sorted(self.numbers.items())), self.factory, self.options))

    def __repr__(self) -> str:
        if isinstance(self.factory, _Existing):
            return "an optimiser object"
        hyperparameters = {**self.numbers, **dict(self.options)}
        text = ", ".join(
            f"{name}={getattr(value, '__name__', None) or shown(value)}"
            for name, value in hyperparameters.items()
        )
        name = getattr(self.origin, "__name__", type(self.origin).__name__)
        return f"{name}({text})"


@dataclass(frozen=True, eq=False)
class _Existing:
    """Existing transformation as a factory, compared by the identity of its functions.

    The functions need not be hashable.
    """

    origin: optax.GradientTransformation
    has_step_sizes: bool

    def __call__(
        self, learning_rate: optax.ScalarOrSchedule | None
    ) -> optax.GradientTransformation:
        if self.has_step_sizes:
            return self.origin
        return optax.chain(self.origin, optax.scale_by_learning_rate(learning_rate))

    @property
    def _key(self) -> tuple[object, ...]:
        return *map(id, self.origin), self.has_step_sizes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Existing) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


@dataclass(frozen=True)
class _PerStep:
    """Factory called in every step with the step size as a number; ``static`` names the options."""

    origin: Callable[..., optax.GradientTransformation]
    static: tuple[str, ...]

    def __call__(
        self, learning_rate: optax.ScalarOrSchedule, **others: object
    ) -> optax.GradientTransformation:
        factory = optax.inject_hyperparams(self.origin, static_args=self.static)
        return factory(learning_rate=learning_rate, **others)


def _numbers_and_options(
    factory: object, hyperparameters: dict[str, Hashable]
) -> tuple[dict[str, Number], tuple[tuple[str, Hashable], ...]]:
    """Split hyperparameters into floats and others, and check them."""
    if isinstance(factory, optax.GradientTransformation) and hyperparameters:
        raise ValueError(
            "hyperparameters must be passed to the factory of the transformation, got "
            f"{', '.join(sorted(hyperparameters))}"
        )
    bound = factory.keywords if isinstance(factory, partial) else {}  # would be replaced silently
    if "learning_rate" in (keywords := {**bound, **hyperparameters}):
        raise ValueError(
            "learning_rate must be left out, because it is the step size of the run, "
            f"got {shown(keywords['learning_rate'])}"
        )
    numbers: dict[str, Number] = {k: v for k, v in hyperparameters.items() if isinstance(v, float)}
    options = tuple(sorted((k, v) for k, v in hyperparameters.items() if k not in numbers))
    for name, value in options:
        try:
            hash(value)
        except TypeError:
            raise ValueError(f"{name} must be hashable, got {shown(value)}") from None
    return numbers, options


def _require_gradients_only(update: Update) -> None:
    if reason := _unmet_requirement(update):
        raise ValueError(reason)


@lru_cache(maxsize=128)
def _unmet_requirement(update: Update) -> str:
    """Return the reason why a run cannot use the update, or an empty string.

    One step is traced, which takes milliseconds. The cache avoids this for every plan of a sweep.
    """
    vector = jax.ShapeDtypeStruct((2,), jnp.float32)

    def one_step(gradient: Array, point: Array) -> Array:
        transformation = update.build(_unit_steps(update))
        return transformation.update(gradient, transformation.init(point), point)[0]

    try:
        result = jax.eval_shape(one_step, vector, vector)
    except _NotAnOptimiserError as error:
        return str(error)
    except (AttributeError, TypeError, ValueError) as error:
        return f"update must need only noisy gradients and parameters, got {update}: {error}"
    if jax.tree.leaves(result) != [result]:
        return f"update must return a tree like its gradients, got {shown(result)}"
    return ""


@jax.jit
def _distance(update: Update) -> Array:
    """Return the difference of two runs with gradients +1 and -1, after 8 steps or more.

    One step is not enough, because schedules may start at 0 and some updates alternate. Steps are
    added until the difference is not 0, at most ``_MAX_PROBES``.
    """
    transformation = update.build(_unit_steps(update))
    gradients = jnp.stack([jnp.ones(2, jnp.float32), -jnp.ones(2, jnp.float32)])
    start = jnp.zeros_like(gradients)

    def distance(points: Array) -> Array:
        return points[0].sum() - points[1].sum()

    def unclear(carry: tuple[Array, Array, Pytree]) -> Array:
        t, points, _ = carry
        return (t < 8) | ((distance(points) == 0.0) & (t < _MAX_PROBES))

    def step(carry: tuple[Array, Array, Pytree]) -> tuple[Array, Array, Pytree]:
        t, points, states = carry
        updates, states = jax.vmap(transformation.update)(gradients, states, points)
        with _promotion():
            return t + 1, optax.apply_updates(points, updates), states

    first = jnp.zeros((), jnp.int32), start, jax.vmap(transformation.init)(start)
    return distance(jax.lax.while_loop(unclear, step, first)[1])


def _unit_steps(update: Update) -> Callable[[Array], Array] | None:
    return None if update.has_step_sizes else lambda _: jnp.float32(1.0)


class _NotAnOptimiserError(ValueError):
    def __init__(self, value: object) -> None:
        super().__init__(f"update must be an optax optimiser or Update, got {shown(value)}")


@contextmanager
def _promotion() -> Iterator[None]:
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


Weights = Callable[[Array], Array]


class Output(Protocol):
    """Rule that selects a mean of the iterates."""

    def weights(self, key: Array, steps: Array | None, dtype: jnp.dtype) -> Weights | None:
        """Return the function ``t -> a_t`` for ``t = 2..T+1``; ``None`` for the last iterate.

        ``steps`` is ``T``, or None if the run stops at a step that is not known in advance.
        """


@checked
def checked_output(output: object) -> Output:
    """Check that ``output`` is an output rule and return it."""
    if isinstance(output, type) or not callable(getattr(output, "weights", None)):
        raise ValueError(
            f"output must be an output rule, such as convex.Average(), got {shown(output)}"
        )
    return output  # type: ignore[return-value]


@pytree_dataclass
@dataclass(frozen=True)
class Average:
    """Running mean with ``a_t = 1/(1 + growth (t - 1 - skip))``.

    ``growth = 1`` weights all iterates equally, smaller values prefer later iterates, and 0 keeps
    the last iterate alone. The first ``skip`` iterates have no weight. Both are arguments of the
    compiled program, so that all these rules share it. By default the mean of all iterates,
    ``(w_1 + .. + w_{T+1})/(T + 1)``.

    Examples
    --------
    >>> weights = Average().weights(jax.random.key(0), None, jnp.dtype(float))
    >>> weights(jnp.arange(2, 6)).round(2).tolist()
    [0.5, 0.33, 0.25, 0.2]
    """

    growth: Number = 1.0
    skip: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= real("growth", self.growth) <= 1.0:
            raise ValueError(f"growth must lie in [0, 1], got {shown(self.growth)}")
        if self.skip not in (0, 1):
            raise ValueError(f"skip must be 0 or 1, got {shown(self.skip)}")

    def weights(self, key: Array, steps: Array | None, dtype: jnp.dtype) -> Weights:
        del key, steps

        def weight(t: Array) -> Array:
            growth = jnp.asarray(self.growth, dtype)
            return 1.0 / (1.0 + growth * (t - 1 - jnp.asarray(self.skip, t.dtype)).astype(dtype))

        return weight


def last_iterate() -> Average:
    """Return the rule of the last iterate ``w_{T+1}``."""
    return Average(growth=0.0)


def average_after_step() -> Average:
    """Return the mean without the start, ``(w_2 + .. + w_{T+1})/T``, of smooth losses."""
    return Average(skip=1)


@checked
def polynomial_average(power: float = 1.0) -> Average:
    """Return the mean with weights ``t (t + 1) ... (t + p - 1)``, ``p = power``.

    ``a_t = (p + 1)/(t + p)``. The weights are proportional to ``t`` for power 1.

    Source: Shamir and Zhang 2013, "Stochastic gradient descent for non-smooth optimization",
    section 4 (polynomial-decay averaging).

    Examples
    --------
    >>> weights = polynomial_average(1.0).weights(jax.random.key(0), None, jnp.dtype(float))
    >>> weights(jnp.arange(2, 6)).round(2).tolist()
    [0.67, 0.5, 0.4, 0.33]
    """
    require_positive("power", power)
    return Average(growth=1.0 / (power + 1.0))


@pytree_dataclass
@dataclass(frozen=True)
class RandomIterate:
    """Iterate ``w_t`` at a uniformly random ``t`` in ``1..T+1``, sampled with the key of the run.

    If ``T`` is not known in advance, by reservoir sampling: ``w_t`` replaces the current iterate
    with probability ``1/t``.
    """

    def weights(self, key: Array, steps: Array | None, dtype: jnp.dtype) -> Weights:
        if steps is None:

            def replaces(t: Array) -> Array:
                uniform = jax.random.uniform(jax.random.fold_in(key, t), (), jnp.float32)
                return (uniform * t.astype(uniform.dtype) < 1.0).astype(dtype)

            return replaces
        selected = jax.random.randint(key, (), 1, steps + 2, steps.dtype)
        return lambda t: (t == selected).astype(dtype)
