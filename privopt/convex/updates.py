"""What a step does with a gradient: its size, and an update made from any optax optimiser."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from privopt.arguments import positive_number, shown
from privopt.convex.pytree_dataclass import pytree_dataclass
from privopt.convex.vectors import Number, on_host, require_finite
from privopt.release import Pytree


@pytree_dataclass
@dataclass(frozen=True)
class StepSizes:
    """``eta_t = scale (t + offset)^{-power} (1 - decay (t - 1)/T)`` for ``t = 1..T``.

    One formula holds the schedules of the theorems, so that they differ in numbers and share a
    compiled program.

    All four are finite, ``decay`` in ``[0, 1]``.

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
            raise ValueError(f"decay must lie in [0, 1], got {shown(self.decay)}")

    @classmethod
    def constant(cls, scale: float) -> StepSizes:
        """``eta``: for averages of convex losses."""
        return cls(scale)

    @classmethod
    def inverse_root(cls, scale: float) -> StepSizes:
        """``c/sqrt(t)``: for the last iterate on convex losses, ``T`` not known in advance."""
        return cls(scale, power=0.5)

    @classmethod
    def linear_decay(cls, scale: float) -> StepSizes:
        """``eta (1 - (t - 1)/T)``: for the last iterate, ``T`` known."""
        return cls(scale, decay=1.0)

    @classmethod
    def strongly_convex(cls, modulus: float) -> StepSizes:
        """``2/(m (t + 1))``, with iterates averaged in proportion to ``t``."""
        return cls(2.0 / positive_number("modulus", modulus), power=1.0, offset=1.0)

    def at(self, t: Array, steps: Array) -> Array:
        """``eta_t``; ``t`` from 1 to ``steps``, integers."""
        dtype = jnp.asarray(self.scale).dtype
        time, last = t.astype(dtype), jnp.asarray(steps).astype(dtype)
        shrunk = 1.0 - self.decay * (time - 1.0) / last
        return jnp.asarray(self.scale * (time + self.offset) ** -self.power * shrunk)


@pytree_dataclass
@dataclass(frozen=True)
class Update:
    """``factory(learning_rate=eta_t, **numbers, **options)``, made anew inside the run.

    Whatever it does is post-processing of the gradients it is given, and of nothing else.

    Attributes
    ----------
    numbers : dict of str to float
        Hyperparameters that a new value does not recompile: the floating ones.
    factory : callable
        An optimiser of optax, or any function that returns an ``optax.GradientTransformation``
        and takes ``learning_rate``, a number or a schedule.
    options : tuple
        The other hyperparameters, by name: they shape the program.

    Examples
    --------
    >>> update = Update.of(optax.adam, b1=0.8, nesterov=True)
    >>> update.numbers, update.options
    ({'b1': 0.8}, (('nesterov', True),))
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
        """The update of this optimiser.

        ``factory`` is ``optax.adam``, say. A transformation that is already made is multiplied by
        the step sizes of the run (so leave its own out): ``optax.trace(0.9)``, for example.
        It then is a constant of the program. An optimiser that asks for more than gradients and
        parameters is refused: a loss, say, which no noise protects.
        """
        if isinstance(factory, type) or not (
            callable(factory) or isinstance(factory, optax.GradientTransformation)
        ):
            raise _none(factory)
        if isinstance(factory, optax.GradientTransformation):
            made = factory
            if hyperparameters:
                raise ValueError(
                    "hyperparameters must be given where the transformation is made, got "
                    f"{sorted(hyperparameters)}"
                )
            factory = _Scaled(made)
        if "learning_rate" in hyperparameters:
            raise ValueError(
                "learning_rate must be left out, the step sizes of the run are it, got "
                f"{shown(hyperparameters['learning_rate'])}"
            )
        numbers: dict[str, Number] = {
            k: v for k, v in hyperparameters.items() if isinstance(v, float)
        }
        options = tuple(sorted((k, v) for k, v in hyperparameters.items() if k not in numbers))
        for name, value in options:
            try:
                hash(value)
            except TypeError:
                raise ValueError(f"{name} must be hashable, got {shown(value)}") from None
        _require_gradients_only(factory, tuple(numbers.items()), options)
        return cls(numbers, factory, options)

    def build(self, step_size: Callable[[Array], Array]) -> optax.GradientTransformation:
        """The transformation; ``step_size`` maps optax's count, from 0, to the step size.

        It promotes types as optax expects, whatever the caller's configuration.
        """

        def made() -> optax.GradientTransformation:
            found = self.factory(learning_rate=step_size, **self.numbers, **dict(self.options))
            if not isinstance(found, optax.GradientTransformation):
                raise _none(found)
            return found

        def init(point: Pytree) -> Pytree:
            with _promotion():
                return made().init(point)

        def update(gradient: Pytree, state: Pytree, point: Pytree = None) -> tuple[Pytree, Pytree]:
            with _promotion():
                return made().update(gradient, state, point)

        return optax.GradientTransformation(init, update)


@lru_cache(maxsize=128)
def _require_gradients_only(
    factory: Callable[..., optax.GradientTransformation],
    numbers: tuple[tuple[str, Number], ...],
    options: tuple[tuple[str, Hashable], ...],
) -> None:
    """By tracing one step, which takes milliseconds: once, not for every plan of a sweep."""
    update = Update(dict(numbers), factory, options)
    vector = jax.ShapeDtypeStruct((2,), jnp.float32)

    def one_step(gradient: Array, point: Array) -> Array:
        transformation = update.build(lambda _: jnp.float32(1.0))
        return transformation.update(gradient, transformation.init(point), point)[0]

    try:
        moved = jax.eval_shape(one_step, vector, vector)
    except TypeError as error:
        raise ValueError(
            "update must need noisy gradients and parameters alone, got "
            f"{shown(getattr(factory, '__name__', factory))}: {error}"
        ) from error
    if jax.tree.leaves(moved) != [moved]:
        raise ValueError(f"update must return what it is given, got {shown(moved)}")


def _none(given: object) -> ValueError:
    return ValueError(f"update must be an optax optimiser or Update, got {shown(given)}")


@contextmanager
def _promotion() -> Iterator[None]:
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@dataclass(frozen=True)
class _Scaled:
    """A transformation already made, as a factory."""

    transformation: optax.GradientTransformation

    def __call__(self, learning_rate: optax.ScalarOrSchedule) -> optax.GradientTransformation:
        return optax.chain(self.transformation, optax.scale_by_learning_rate(learning_rate))
