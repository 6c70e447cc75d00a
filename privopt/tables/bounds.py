"""Bounds of columns that are found privately, at a share of the budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from privopt.arguments import described, instance, positive_number, shown
from privopt.mechanisms import LaplaceMechanism
from privopt.records import as_array as numbers
from privopt.spec import Budget
from privopt.statistics import Histogram
from privopt.tables.columns import Number
from privopt.tables.table import column_of

_FAILURE = 0.01  # the probability with which some empty bin widens the bounds of a column
_ROUNDING = 1.0 - 2.0**-40  # of the division and the sum of budgets


def approximate_bounds(
    frame: Any,
    names: Sequence[str],
    budget: Budget,
    key: Array,
    *,
    share: float = 0.1,
    smallest: float = 1.0,
    bins: int = 64,
) -> tuple[dict[str, Number], Budget]:
    """Columns with bounds found privately, and the budget that is left for a model.

    Each column is counted in public bins ``[0, s], (s, 2s], (2s, 4s], ...`` and their mirror
    images, and every count gets Laplace noise of scale ``b``. Its bounds are the outer edges of the
    outermost bins whose count is above ``b ln(50 K)``, as one of all empty bins is with
    probability .01; of all bins if none is.

    Parameters
    ----------
    frame : data frame or dict
        What has ``frame[name]`` for each column.
    names : sequence of str
        The columns; the others of a table have public bounds or categories.
    budget : Budget
        For bounds and model together.
    key : Array
        A key of JAX, of its own: not that of the model.
    share : float
        Of ``epsilon``, for all bounds together, in equal parts.
    smallest : float
        ``s``, in the units of the columns: what is smaller is not resolved. Public.
    bins : int
        How many on either side of 0; ``K = 2 bins``.

    Formal guarantee
    ----------------
    The bounds are ``share epsilon``-DP. They and anything that meets the budget which is returned
    meet ``budget`` together, also where the latter depends on the bounds.

    Source: Wilson et al., "Differentially private SQL with bounded user contribution", PoPETs 2020.

    Examples
    --------
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> frame = {"age": np.linspace(18.0, 90.0, 5000)}
    >>> columns, rest = approximate_bounds(frame, ["age"], budget, jax.random.key(0))
    >>> columns["age"].lower, columns["age"].upper, round(rest.epsilon, 6)
    (16.0, 128.0, 0.9)
    """
    instance("budget", budget, Budget)
    if isinstance(names, str) or not isinstance(names, Sequence) or not names:
        raise ValueError(f"names must be a sequence of columns, got {described(names)}")
    if not positive_number("share", share) < 1.0:
        raise ValueError(f"share must lie between 0 and 1, got {shown(share)}")
    histogram = Histogram.logarithmic(smallest, 2.0, bins, mirrored=True)
    part = share * budget.epsilon / len(names) * _ROUNDING
    mechanism = LaplaceMechanism.calibrated(histogram, replace(budget, epsilon=part, delta=0.0))
    least = mechanism.scale * math.log(histogram.bins / (2.0 * _FAILURE))
    columns = {}
    for place, name in enumerate(names):
        found = np.asarray(numbers(column_of(frame, name), f"column {shown(name)}"), np.float64)
        found = found.clip(histogram.edges[0], histogram.edges[-1])  # what float32 can hold
        counts = histogram.answer(jnp.asarray(found), jnp.asarray(~np.isnan(found)))
        noisy = mechanism.add_noise(jax.random.fold_in(key, place), counts)
        full = np.flatnonzero(np.asarray(noisy) > least)
        first, last = (full[0], full[-1]) if full.size else (0, histogram.bins - 1)
        columns[name] = Number(histogram.edges[first], histogram.edges[last + 1])
    return columns, replace(budget, epsilon=(1.0 - share) * budget.epsilon * _ROUNDING)
