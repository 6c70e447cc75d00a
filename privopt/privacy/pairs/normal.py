"""Probabilities that a standard normal variable falls between given points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from privopt.privacy.pairs.pair import Array

__all__ = ["masses_between", "normal_masses", "spread"]

Flags: TypeAlias = npt.NDArray[np.bool_]

_U = 2.0**-53  # unit roundoff of float64


def normal_masses(points: Array, error: Array | float) -> tuple[Array, Array]:
    """Masses below, between and above increasing ``points``, and bounds of their errors.

    Differences are taken in the nearer tail, ``t = Phi(-|z|)``. A tail is computed to a relative
    ``16u (2 + z^2)`` (checked against 50 digits), and moves by a relative ``(1 + |z|) dz`` when
    the point does by ``dz = error``; the factor 2 covers the second order.

    Returns
    -------
    masses, errors : ndarray, shape (n + 1,)
        Absolute errors.
    """
    size = np.abs(points)
    tail = ndtr(-size)
    wrong = tail * (16 * _U * (2.0 + size * size) + 2.0 * (1.0 + size) * error)
    return masses_between(tail, wrong, points > 0.0)


def masses_between(tails: Array, wrongs: Array, above: Flags) -> tuple[Array, Array]:
    """Masses below, between and above increasing points, from the mass beyond each of them.

    Parameters
    ----------
    tails, wrongs : ndarray, shape (n,)
        The mass on the far side of each point, and the absolute error of it.
    above : ndarray of bool, shape (n,)
        Whether that side is the right one: of no point, then of all points.
    """
    ends = np.zeros(1)
    tail, wrong = (np.concatenate([ends, each, ends]) for each in (tails, wrongs))
    right = np.concatenate([[False], above, [True]])
    left_end, right_end = tail[:-1], tail[1:]
    masses = np.where(right[:-1], left_end - right_end, right_end - left_end)
    across = right[1:] & ~right[:-1]
    masses[across] = 1.0 - left_end[across] - right_end[across]
    errors = wrong[:-1] + wrong[1:]
    errors[across] += 16 * _U
    return np.maximum(masses, 0.0), errors


def spread(centres: Sequence[float], reach: float, count: int) -> Array:
    """Increasing points for normal masses at increasing ``centres``, ``reach`` deviations wide.

    About ``count``, evenly spaced; far centres have their own, with a few between.
    """
    first, last = centres[0] - reach, centres[-1] + reach
    if centres[-1] - centres[0] <= 4.0 * reach:
        return np.linspace(first, last, count)
    near = [np.linspace(x - reach, x + reach, count // len(centres)) for x in centres]
    return np.unique(np.concatenate([np.linspace(first, last, count // 4), *near]))
