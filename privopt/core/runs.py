"""What a run is: where its records come from, how it is carried out, its steps, what it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, get_args

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import DTypeLike

from privopt.arguments import checked, count, member, shown
from privopt.convex import EmpiricalRisk, Observer, Path
from privopt.convex.vectors import Number
from privopt.release import Pytree

Replicates = Literal["together", "in_turn"]


class Source(Protocol):
    """Where the records of a run come from, data or a population; a pytree."""

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """The floating type of the data."""

    def astype(self, dtype: DTypeLike) -> Source:
        """The same with every floating number cast."""

    def keys(self, key: Array) -> tuple[Array | None, Array]:
        """Return the key of the records, None if they are not drawn, and the key of the noise."""

    def sample(self, key: Array | None) -> EmpiricalRisk:
        """Return the records of a run; ``key`` is the first of ``keys``."""


@dataclass(frozen=True)
class Execution:
    """How runs are carried out: memory and time, never privacy. Never an argument of ``plan``.

    Parameters
    ----------
    microbatch : int
        How many gradients of single records are in memory at once, for a loss without a formula for
        their sum. Of a batch, microbatches that nobody is in are left out; 32 or so fit a cache.
    chunk : int, optional
        How many keys of ``run_many`` are in memory at once. Results are then NumPy arrays on the
        host. Default: all, or so many that no array which grows with their number has more than
        1 GiB, where replicates run together.
    replicates : {"together", "in_turn"}, optional
        Whether replicates on one device run as one batched program or one after another. Default:
        by algorithm and device.
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
    """What a run returns.

    Attributes
    ----------
    released : Array or pytree
        The parameter that the guarantee covers: of shape ``(dim,)``, of the problem's ``shape``, or
        like its ``start``. :func:`run_many` puts the axes ``(plans, keys)`` before it.
    secret : NamedTuple of Array
        Diagnostics computed from the data without noise; never to be published.
    path : privopt.convex.Path or None
        What a shorter run would have released, covered by the same guarantee; where the plan asks.
    """

    released: Pytree
    secret: Pytree
    path: Path | None = None


class Steps(NamedTuple):
    """One run on the device, as steps between which one may stop.

    Attributes
    ----------
    planned : int or Array
        ``T``, or the most steps there may be.
    init : callable
        ``() -> state``, a pytree with a field ``t``, the steps taken.
    until : callable
        ``(state, last) -> state`` after step ``last``: a loop, so that one step and all of them are
        the same program with the same bits.
    ends : callable
        ``state -> Run``: what a run that ends here releases.
    """

    planned: Number | int
    init: Callable[[], Pytree]
    until: Callable[[Pytree, Array], Pytree]
    ends: Callable[[Pytree], Run]


@checked
def whole(steps: Callable[..., Steps]) -> Callable[..., Run]:
    """``Algorithm.run`` of an algorithm that gives its steps: all of them."""
    return _Whole(steps)


@dataclass(frozen=True)
class _Whole:  # so that plans that hold it can be pickled and compared
    steps: Callable[..., Steps]

    def __call__(self, *arguments: Pytree) -> Run:
        found = self.steps(*arguments)
        return found.ends(found.until(found.init(), jnp.asarray(found.planned)))
