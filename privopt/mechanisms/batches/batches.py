"""What a sampler of batches has to answer."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import NamedTuple, Protocol

import jax.numpy as jnp
from dp_accounting import DpEvent
from jax import Array

from privopt.arguments import positive_integer, real
from privopt.spec import Relation

__all__ = [
    "BATCHES",
    "Batches",
    "Draw",
    "Participation",
    "batch_size_of",
    "present",
    "require_numbered",
    "step_count",
    "whole_batch_size",
]

MAX_NUMBERED = 31 * 32**5

BATCHES = ("block", "by_number", "divisor", "draws_of", "composed", "participation")
"""What a sampler answers."""

Draw = Callable[[Array], tuple[Array, Array]]
"""``k -> (rows, taken)``, both ``(block, places)``: of steps ``k block .. (k + 1) block - 1``.

``rows`` are numbers of records (int32), ``taken`` says which of the places are filled.
"""


class Participation(NamedTuple):
    """In which of ``T`` steps one record can take part, whatever the batches turn out to be.

    Attributes
    ----------
    times : int
        ``k``: in at most so many steps.
    gap : int
        ``b``: any two of them are at least so many steps apart.
    even : bool
        Whether they are exactly ``gap`` apart: epochs in one order.

    Examples
    --------
    >>> from privopt.mechanisms import ShuffledBatches
    >>> ShuffledBatches.of(10, 100).participation(25, Relation.REPLACE_ONE)
    Participation(times=3, gap=1, even=False)
    """

    times: int
    gap: int
    even: bool


class Batches(Protocol):
    r"""Who takes part in step ``t``: a set ``B_t`` of records, drawn without a look at the data.

    The gradient of step ``t`` is ``g_t = (1/b) \sum_{i \in B_t} clip_C(grad l(w_t; x_i))``. The
    divisor ``b`` is public, however many records came.

    An implementation is a frozen dataclass registered as a pytree
    (:func:`privopt.convex.pytree_dataclass`),
    in a file of its own. Every field that enters ``composed`` is a field that the device uses.
    """

    @property
    def block(self) -> int:
        """For how many steps batches are drawn at once; 0 where all take part and none is drawn.

        It changes speed and no bit.
        """

    @property
    def by_number(self) -> bool:
        """Whether the numbers of records decide who takes part: permuted data have another law.

        A record that is replaced must then leave all others their numbers. Records that are stored
        with multiplicities are numbered group by group, so that it would not.
        """

    def divisor(self, size: float) -> float:
        """``b``; ``size`` is the public number of records that the query divides by."""

    def draws_of(self, key: Array, records: Array | int) -> Draw:
        """The draws of a run; all randomness comes from ``key``. Not called at ``block = 0``.

        A row from ``records`` on is not taken: whatever numbers the sampler has been given, the
        records are those that are there.
        """

    def composed(self, multiplier: float, steps: int, relation: Relation) -> DpEvent:
        """``steps`` adaptive answers, each with fresh Gaussian noise.

        ``multiplier`` is the noise's scale over the largest share of one record in an answer.

        Raises
        ------
        ValueError
            Where no theorem covers these batches under ``relation``, with the reason.
        """

    def participation(self, steps: int, relation: Relation) -> Participation:
        """What noise with memory is calibrated to.

        Raises
        ------
        ValueError
            Where no theorem covers these batches with such noise, with the reason.
        """


def batch_size_of(batch_size: float, n: int) -> float:
    """``batch_size`` in ``(0, n]``, ``n`` an integer up to 1.04e9; or ValueError."""
    require_numbered("n", n)
    if not 0.0 < real("batch_size", batch_size) <= n:
        raise ValueError(f"batch_size must be positive and at most n = {n}, got {batch_size!r}")
    return float(batch_size)


def whole_batch_size(batch_size: float, n: int) -> int:
    """``batch_size`` as an integer from 1 to ``n``, itself one up to 1.04e9; or ValueError."""
    require_numbered("n", n)
    if not real("batch_size", batch_size).is_integer() or not 1 <= batch_size <= n:
        raise ValueError(f"batch_size must be an integer from 1 to {n}, got {batch_size!r}")
    return int(batch_size)


def step_count(steps: int) -> int:
    """``steps`` as an integer from 0 on; or ValueError."""
    if isinstance(steps, bool) or not isinstance(steps, Integral) or steps < 0:
        raise ValueError(f"steps must be an integer from 0 on, got {steps!r}")
    return int(steps)


def present(rows: Array, records: Array | int) -> tuple[Array, Array]:
    """``(rows, taken)``: a row that none of so many ``records`` has is not taken.

    A gather of rows that are not there would take the last record, once for each of them.
    """
    taken = (rows >= 0) & (rows < jnp.asarray(records, rows.dtype))
    return jnp.where(taken, rows, 0), taken


def require_numbered(name: str, count: int) -> None:
    """ValueError unless so many records can be drawn by their numbers, in exact int32."""
    if positive_integer(name, count) > MAX_NUMBERED:
        raise ValueError(
            f"{name} must be at most {MAX_NUMBERED} where records are drawn by their numbers, "
            f"got {count}"
        )
