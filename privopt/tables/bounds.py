"""Private bounds of columns, for a share of the budget."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from privopt.arguments import count, described, instance, positive_number, shown, suggestion
from privopt.mechanisms import LaplaceMechanism
from privopt.random import as_key
from privopt.records import as_column
from privopt.spec import Budget
from privopt.statistics import Histogram
from privopt.tables.columns import Number
from privopt.tables.table import column_of, names_of

_FAILURE = 0.01  # probability that some empty bin widens the bounds of a column
_LARGEST = 1e30  # largest edge of a bin
_ROUNDING = 1.0 - 2.0**-40  # covers rounding in the division and the sum of budgets


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
    """Return columns with private bounds, and the budget that remains for a model.

    Each column is counted in public bins ``[0, s], (s, 2s], (2s, 4s], ...`` and their mirror
    images, and every count receives Laplace noise of scale ``b``. The bounds are the outer edges of
    the outermost bins whose count exceeds ``b ln(50 K)``, which an empty column has in some bin
    with probability .01; if no count exceeds it, the bounds are those of all bins.

    Parameters
    ----------
    frame : data frame or dict
        Data frame of pandas or polars, table of pyarrow, or dict of arrays.
    names : sequence of str
        The columns; the other columns of a table have public bounds or categories.
    budget : Budget
        Privacy budget of bounds and model together.
    key : Array
        Typed key of JAX, different from that of the model.
    share : float
        Share of ``epsilon`` for all bounds together, divided equally between the columns.
    smallest : float
        Public resolution ``s``, in the units of the columns.
    bins : int
        Number of bins on either side of 0; ``K = 2 bins``.

    Formal guarantee
    ----------------
    The bounds are ``share epsilon``-DP. Together with any release that meets the returned budget
    they meet ``budget``, also if that release depends on the bounds.

    Source: Wilson et al., "Differentially private SQL with bounded user contribution", PoPETs 2020.

    Examples
    --------
    >>> budget = Budget(epsilon=1.0, delta=1e-6, relation="replace_one")
    >>> frame = {"age": np.linspace(18.0, 90.0, 5000)}
    >>> columns, rest = approximate_bounds(frame, ["age"], budget, jax.random.key(0))
    >>> columns["age"].lower, columns["age"].upper, round(rest.epsilon, 6)
    (16.0, 128.0, 0.9)
    """
    _check_names(names, names_of(frame))
    instance("budget", budget, Budget)
    key = as_key(key)
    share = positive_number("share", share)
    if not share < 1.0:
        raise ValueError(f"share must lie between 0 and 1, got {shown(share)}")
    smallest, bins = positive_number("smallest", smallest), count("bins", bins)
    if math.log2(smallest) + bins - 1 > math.log2(_LARGEST):
        raise ValueError(f"bins must keep the last edge below {_LARGEST:g}, got {shown(bins)}")
    histogram = Histogram.logarithmic(smallest, 2.0, bins, mirrored=True)
    part = share * budget.epsilon / len(names) * _ROUNDING
    mechanism = LaplaceMechanism.calibrated(histogram, replace(budget, epsilon=part, delta=0.0))
    least = mechanism.scale * math.log(histogram.bins / (2.0 * _FAILURE))
    columns = {}
    for place, name in enumerate(names):
        values = as_column(column_of(frame, name), f"column {shown(name)}")
        values = values.clip(histogram.edges[0], histogram.edges[-1])  # within float32
        counts = histogram.answer(jnp.asarray(values), jnp.asarray(~np.isnan(values)))
        noisy = mechanism.add_noise(jax.random.fold_in(key, place), counts)
        full = np.flatnonzero(np.asarray(noisy) > least)
        first, last = (full[0], full[-1]) if full.size else (0, histogram.bins - 1)
        columns[name] = Number(histogram.edges[first], histogram.edges[last + 1])
    return columns, replace(budget, epsilon=(1.0 - share) * budget.epsilon * _ROUNDING)


def _check_names(names: object, known: list[Any]) -> None:
    """Raise ``ValueError`` unless ``names`` are columns; a misplaced column is not printed."""
    if isinstance(names, str) or not isinstance(names, Sequence) or not names:
        raise ValueError(f"names must be a sequence of columns, got {described(names)}")
    for place, name in enumerate(names):
        if not isinstance(name, str | int) or name not in known:
            near = suggestion(name, [str(each) for each in known])
            raise ValueError(f"names must be columns of frame, got none at place {place}{near}")
