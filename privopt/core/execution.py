"""How a run is carried out: memory and time, never privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from privopt.arguments import count
from privopt.convex import Observer

Replicates = Literal["together", "in_turn"]


@dataclass(frozen=True)
class Execution:
    """How runs are carried out; an argument of ``run`` and ``run_many``, never of ``plan``.

    Parameters
    ----------
    microbatch : int
        How many gradients of single records are in memory at once, for a loss without a formula for
        their sum.
    chunk : int, optional
        How many keys of ``run_many`` are in memory at once; default: all. Results are then NumPy
        arrays on the host.
    replicates : {"together", "in_turn"}, optional
        Whether replicates on one device run as one batched program or one after another. Default:
        by algorithm and device.
    observer : Observer, optional
        Folds ``(t, point, secret)`` over the steps of an iterative algorithm.

    Examples
    --------
    >>> Execution(chunk=1000, replicates="in_turn").chunk
    1000
    >>> Execution(chunk=0)
    Traceback (most recent call last):
    ValueError: chunk must be an integer from 1 to 2147483647, got 0
    """

    microbatch: int = 512
    chunk: int | None = None
    replicates: Replicates | None = None
    observer: Observer | None = None

    def __post_init__(self) -> None:
        count("microbatch", self.microbatch)
        if self.chunk is not None:
            count("chunk", self.chunk)
        known = get_args(Replicates)
        if self.replicates is not None and self.replicates not in known:
            raise ValueError(
                f"replicates must be one of {', '.join(known)} or None, got {self.replicates!r}"
            )
        if self.observer is not None:
            _check(self.observer)


def _check(observer: object) -> None:
    for name in ("begin", "observe"):
        if isinstance(observer, type) or not callable(getattr(observer, name, None)):
            raise ValueError(f"observer must have a method {name}, got {observer!r}")
    try:
        hash(observer)
    except TypeError:
        raise ValueError(f"observer must be hashable, got {observer!r}") from None
