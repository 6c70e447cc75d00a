"""Calibration of noise, and round-off that sensitivities include."""

from __future__ import annotations

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from privopt.arguments import described, instance, shown
from privopt.convex.arrays import two_sum as two_sum
from privopt.privacy import round_down
from privopt.random import end_cost
from privopt.spec import Budget, Relation

UNIT = 2.0**-24  # relative error of one operation in float32
UNIT64 = 2.0**-53  # relative error of one operation in float64
MAX_TERMS = 2**17  # of a float32 sum with a private number of terms
_MIN_NORMAL = 2.0**-126  # positive float32 that no accelerator flushes to zero


def sum_error(terms: float, largest: float = 1.0) -> float:
    """Return an upper bound on the float32 error of :func:`compensated_sum`.

    The sum has ``terms`` terms of absolute value at most ``largest``. Let ``u = 2^-24``, ``A`` the
    sum of the absolute values, and ``k <= 32`` the number of levels of the binary tree. A two-sum
    is exact except for numbers flushed to zero. Its errors add up to at most ``k u A`` and are
    summed with an error of ``2 k^2 u^2 A``. The final sum is rounded once: ``u A + 2^-13 u A`` in
    all. The bound also covers ``2^9`` times as many terms, if the sum is clamped to ``A``.
    """
    return terms * (largest * UNIT * (1.0 + 2.0**-4) + 32.0 * _MIN_NORMAL)


def max_terms(dtype: DTypeLike) -> int:
    """Return ``2^-7/u``, the terms in ``dtype`` with the error of ``MAX_TERMS`` in float32."""
    return int(2.0 * MAX_TERMS * UNIT / float(jnp.finfo(dtype).eps))


@jax.jit
def compensated_sum(terms: Array) -> Array:
    """Sum over the first axis by halves in a fixed order; add the rounding errors last."""
    levels = (terms.shape[0] - 1).bit_length()
    missing = 2**levels - terms.shape[0]
    terms = jnp.pad(terms, [(0, missing)] + [(0, 0)] * (terms.ndim - 1))
    errors = jnp.zeros_like(terms)
    for level in reversed(range(levels)):
        half = 2**level
        terms, error = two_sum(terms[:half], terms[half:])
        errors = errors[:half] + errors[half:] + error
    return terms[0] + errors[0]


def check_calibration(query: object, budget: object, *names: str) -> None:
    """Check that ``query`` has the attributes ``names`` and that ``budget`` is a Budget."""
    for name in names:
        if isinstance(query, type) or not hasattr(query, name):
            raise ValueError(f"query must have a {name}, got {described(query)}")
    instance("budget", budget, Budget)


def require_public_size(relation: Relation, subject: str) -> None:
    """Check that ``relation`` is ``replace_one``, the only one with a proof for ``subject``."""
    if Relation(relation) is not Relation.REPLACE_ONE:
        raise ValueError(f"relation must be replace_one for {subject}, got {relation}")


def drawable(budget: Budget, numbers: float = 2.0**40) -> Budget:
    """Reduce ``budget`` by the cost of the truncated noise tails.

    With ``numbers`` sampled numbers in a run, the truncation costs ``e^epsilon`` times its
    probability (:func:`privopt.random.end_cost`), which is subtracted from ``delta``. If the cost
    exceeds a quarter of ``delta``, ``epsilon`` is lowered until the cost is a quarter. With
    ``delta = 0`` the budget is unchanged, and the guarantee fails with the probability of the
    truncation. ValueError if ``delta`` is positive and at most the cost at every ``epsilon``.

    Examples
    --------
    >>> drawable(Budget(epsilon=1.0, delta=1e-6, relation="replace_one")).delta < 1e-6
    True
    """
    if budget.delta == 0.0:
        return budget
    tails = 0.5 * end_cost(0.0, numbers)
    if not budget.delta > 8.0 * tails:
        raise ValueError(
            f"delta must exceed {8.0 * tails:.3g}, four times the cost of the tails of "
            f"{numbers:.3g} numbers, got {shown(budget.delta)}"
        )
    epsilon = min(budget.epsilon, math.log(0.25 * budget.delta / tails - 1.0))
    remaining = math.nextafter(budget.delta - end_cost(epsilon, numbers), 0.0)
    return replace(budget, epsilon=epsilon, delta=remaining)


def noise_multiplier(scale: float, record_sensitivity: float) -> float:
    """Return ``scale/record_sensitivity``, rounded down.

    The result is infinite for ``record_sensitivity = 0``, and 0 for an infinite one. ValueError if
    an argument is negative or NaN, or if ``scale`` is infinite.

    Examples
    --------
    >>> round(noise_multiplier(0.5, 0.25), 12)
    2.0
    """
    if not 0.0 <= scale < math.inf:
        raise ValueError(f"scale must be at least 0 and finite, got {shown(scale)}")
    if not record_sensitivity >= 0.0:
        raise ValueError(f"record_sensitivity must be at least 0, got {shown(record_sensitivity)}")
    if record_sensitivity == 0.0:
        return math.inf
    return math.nextafter(round_down(scale) / record_sensitivity, 0.0)
