"""Two kinks in orthogonal directions: one that noise pays for, one that a regulariser pays for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from privopt.convex import Distance, pytree_dataclass
from privopt.problems.problem import Problem
from privopt.spec import ProblemClass

__all__ = ["TwoKinks", "two_kinks"]


@pytree_dataclass
@dataclass(frozen=True)
class TwoKinks:
    """``loss(w; x) = s |w_1 - x_1| + sqrt(1 - s^2) |w_A - x_A|_2``, ``A`` all other coordinates.

    1-Lipschitz for slopes ``s`` from 0 to 1, and not smooth. The two parts share no coordinate, so
    the Moreau envelope of their sum is the sum of their envelopes, and that of ``a |.|`` is ``a``
    times the one of ``|.|`` of width ``a h``.

    Examples
    --------
    >>> TwoKinks(0.6)(jnp.array([3.0, 1.0, 0.0]), jnp.array([1.0, 0.0, 0.0])).item()
    2.0
    """

    slope: Array | float
    width: Array | float = 0.0

    def __call__(self, point: Array, example: Array) -> Array:
        """The loss of one record."""
        along, across = self.slope, jnp.sqrt(1.0 - jnp.square(self.slope))
        first = along * Distance(along * self.width)(point[:1], example[:1])
        return first + across * Distance(across * self.width)(point[1:], example[1:])

    def smoothed(self, width: Array) -> TwoKinks:
        """The Moreau envelope; widths add."""
        return TwoKinks(self.slope, self.width + width)


def two_kinks(*, n: int, dim: int, noise_ratio: float, strength: float) -> Problem:
    """Every record at ``e_1``, and ``s = min(1, strength * sqrt(noise_ratio))``; unit ball.

    Regularised, the minimiser is ``min(1, s/lambda) e_1``: a large ``lambda`` is paid for along
    ``e_1`` and a small one, by the noise, across it. Against ``s = lambda/2`` the bias is
    ``lambda/4``, the most that a regulariser can cost, and the noise costs nearly its whole norm.
    The best ``lambda`` is of order ``sqrt(noise_ratio)``, and so are the slopes to fear.
    """
    record = np.eye(1, dim)
    return Problem(
        loss=TwoKinks(min(1.0, strength * math.sqrt(noise_ratio))),
        data=record,
        problem_class=ProblemClass(n=n, dim=dim, lipschitz=1.0, radius=1.0),
        counts=np.array([n]),
        minimiser=record[0],
        name="two_kinks",
    )
