"""Runs: the source of their records, execution options, steps and results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, get_args

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike
from jaxtyping import Key

from privopt.arguments import checked, count, member, shown
from privopt.convex import EmpiricalRisk, Observer, Path
from privopt.convex.arrays import Number
from privopt.release import Pytree

Replicates = Literal["together", "in_turn"]


class Source(Protocol):
    """Source of the records of a run, data or a population; a pytree."""

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The floating type of the data."""

    def astype(self, dtype: DTypeLike) -> Source:
        """Return a copy with every floating-point number cast to ``dtype``."""

    def keys(self, key: Key[Array, ""]) -> tuple[Key[Array, ""] | None, Key[Array, ""]]:
        """Return the key of the records, None if they are not sampled, and the key of the noise."""

    def sample(self, key: Key[Array, ""] | None) -> EmpiricalRisk:
        """Return the records of a run; ``key`` is the first result of ``keys``."""


@dataclass(frozen=True)
class Execution:
    """Options that affect memory and speed only. They never affect privacy.

    They are arguments of ``run``, never of ``plan``.

    Parameters
    ----------
    microbatch : int
        Number of per-record gradients in memory at once, for a loss without a formula for their
        sum. Empty microbatches of a batch are skipped; about 32 records fit into a cache.
    chunk : int, optional
        Number of keys of ``run_many`` in memory at once. Results are then NumPy arrays on the
        host. Default: all keys; if replicates run together, at most as many as keep every array
        that grows with their number within 1 GiB.
    replicates : {"together", "in_turn"}, optional
        Run the replicates of one device as one batched program, or one after another. Default:
        depends on algorithm and device.
    observer : Observer, optional
        Folds ``(t, point, secret)`` over the steps of an iterative algorithm.
    """

    microbatch: int = 512
    chunk: int | None = None
    replicates: Replicates | None = None
    observer: Observer | None = None

    def __post_init__(self) -> None:
        count("microbatch", self.microbatch)
        if self.chunk is not None:
            count("chunk", self.chunk)
        if self.replicates is not None:
            member("replicates", self.replicates, get_args(Replicates))
        if self.observer is not None:
            _check_observer(self.observer)


def _check_observer(observer: object) -> None:
    for name in ("init", "update"):
        if isinstance(observer, type) or not callable(getattr(observer, name, None)):
            raise ValueError(f"observer must have a method {name}, got {shown(observer)}")
    try:
        hash(observer)
    except TypeError:
        raise ValueError(f"observer must be hashable, got {shown(observer)}") from None


class Run(NamedTuple):
    """Result of a run.

    Attributes
    ----------
    released : Array or pytree
        Parameter that the guarantee covers: of shape ``(dim,)``, of the problem's ``shape``, or
        with the structure of its ``start``. :func:`run_many` adds leading axes ``(plans, keys)``.
    secret : NamedTuple of Array
        Diagnostics computed from the data without noise; never to be published.
    path : privopt.convex.Path or None
        Releases of shorter runs, covered by the same guarantee; None unless the plan records them.
    """

    released: Pytree
    secret: Pytree
    path: Path | None = None


class Steps(NamedTuple):
    """Steps of one run on the device, for runs that may be interrupted.

    Attributes
    ----------
    planned : int or Array
        ``T``, or the largest number of steps.
    init : callable
        ``() -> state``, a pytree with a field ``t``, the number of steps taken.
    until : callable
        ``(state, last, in_blocks=True) -> state`` after step ``last``. Batches are sampled in
        blocks, or one by one for a single step. The bits are the same.
    ends : callable
        ``state -> Run``: the result of a run that ends in this state.
    """

    planned: Number | int
    init: Callable[[], Pytree]
    until: Callable[..., Pytree]
    ends: Callable[[Pytree], Run]


@checked
def whole(steps: Callable[..., Steps]) -> Callable[..., Run]:
    """Return ``Algorithm.run`` for an algorithm defined by its steps."""
    return _Whole(steps)


@dataclass(frozen=True)
class _Whole:  # a class and not a closure, so that plans can be pickled and compared
    steps: Callable[..., Steps]

    def __call__(self, *arguments: Pytree) -> Run:
        run = self.steps(*arguments)
        return run.ends(run.until(run.init(), jnp.asarray(run.planned)))
